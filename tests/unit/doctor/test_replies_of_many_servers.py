"""One cause in the words of many servers and gateways: whatever the wording and the status, it is named first.

replies.jsonl: code, client, status, body of the refusal; `when`: the part of the request that is refused, all others
are answered; `everywhere`: at every path. The wordings are those of vLLM, SGLang, llama.cpp, Ollama, LM Studio, TGI,
LiteLLM, one-api and new-api, OpenRouter, Azure, cloud providers, and of proxies and firewalls in front of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wizard.doctor.engine import Diagnosis

from .conftest import (
    MESSAGE_OK,
    RESPONSE_OK,
    Headers,
    Patient,
    Route,
    When,
    chat,
    content_is_list,
    has_role,
    messages,
    models,
    responses,
    same_role_twice,
    starts_with_system,
)

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("replies.jsonl").read_text(encoding="utf-8").splitlines()
    if line
]
NAMED: dict[str, When] = {
    "two_users": same_role_twice,
    "first_system": starts_with_system,
    "developer_role": has_role("developer"),
    "content_array": content_is_list,
    "nonfunction_tool": lambda body, _: any(tool.get("type") != "function" for tool in body.get("tools") or []),
    "namespace_tool": lambda body, _: any(tool.get("type") == "namespace" for tool in body.get("tools") or []),
    "content_null": lambda body, _: any(
        "content" in item and item["content"] is None for item in body.get("messages", [])
    ),
}


def condition(row: dict[str, Any]) -> When | None:
    if "when" not in row:
        return None
    ((how, what),) = row["when"].items()
    if how == "fn":
        return NAMED[what]

    def fits(body: dict[str, Any], _: Headers) -> bool:
        if how == "body_present":
            return bool(body.get(what))
        value = body.get(what[0])
        return value == what[1] if how == "body_eq" else isinstance(value, int) and value >= what[1]

    return fits


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['code']}-{row['id']}" for row in ROWS])
def test_the_cause_is_named_first_in_anybody_s_words(row: dict[str, Any], examined: Callable[..., Diagnosis]) -> None:
    make = {"claude-code": messages, "codex": responses}.get(row["client"], chat)
    reply = {"status": row["status"], "kind": row.get("kind", "application/json"), "when": condition(row)}
    refusal = Route("/*", row["body"], method="*", **reply) if row.get("everywhere") else make(row["body"], **reply)
    base = "" if row["client"] == "claude-code" else "/v1"
    known = () if row.get("everywhere") else (models("qwen3" if row["code"] == "model-name-mismatch" else "m"),)
    routes = (refusal, *known, messages(MESSAGE_OK), responses(RESPONSE_OK), chat())
    diagnosis = examined(Patient(row["client"], base), *routes)
    assert [finding.code for finding in diagnosis.findings][:1] == [row["code"]]
