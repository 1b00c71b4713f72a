"""Whatever a server answers, the doctor ends with a judgement: no crash, no key shown.

`LLM_SETUP_FUZZ=N` sends N hostile answers in place of the few of a usual run.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from wizard.doctor.engine import all_checks, examine
from wizard.doctor.manners import wire_of
from wizard.doctor.observations import Context, Observations, Target
from wizard.effects.http import HttpFailure, HttpReply, HttpRequest
from wizard.flows.probe import Limits, Prober
from wizard.secret import Secret, redact

from .conftest import CHAT_OK, HOST, MESSAGE_OK, RESPONSE_OK, FakeNetwork, fake_world

ANSWERS = int(os.environ.get("LLM_SETUP_FUZZ", "800"))
KEY = "sk-fuzz-abcdef0123456789"
_KINDS = ("application/json", "text/html", "text/event-stream", "text/plain", "", "application/octet-stream", "json;;;")
_FAILURES = ("refused", "timeout", "dns", "tls", "reset", "protocol", "proxy", "unreachable", "invalid-request")
_NAMES = (
    *("choices", "error", "message", "content", "delta", "data", "id", "model"),
    *("detail", "type", "code", "output", "status", "usage", "tool_calls", "function"),
    *("name", "arguments", "finish_reason", "reasoning_content", "object", "input_tokens", "max_model_len", "paths"),
    *("loc", "msg", "role", "text", "errors", "success"),
)
_SEEDS: tuple[Any, ...] = (
    CHAT_OK,
    MESSAGE_OK,
    RESPONSE_OK,
    {"error": {"message": "Invalid API key", "code": 401}},
    {"detail": [{"loc": ["body", "tools"], "msg": "bad"}]},
    {"object": "list", "data": [{"id": "m", "max_model_len": 4096}]},
    {"choices": []},
    {"paths": {"/v1/chat/completions": {}}},
    {"error": {"message": f"Incorrect API key provided: {KEY}"}},
    '"ok"',
    [[[]]],
    None,
)


def _value(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return dice.choice((None, True, False, 0, -1, 10**30, 1.5, float("inf")))
    if kind in (1, 2):
        return dice.choice(
            ("", "stop", "error", KEY, "模型不存在", "\ud800", "a" * 3000, "404 Not Found", "<tool_call>", "[DONE]")
        )
    if kind == 3:
        return dice.randrange(-5, 600)
    if kind in (4, 5):
        return dice.choice(_NAMES)
    if kind == 6:
        return [_value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {dice.choice(_NAMES): _value(dice, depth + 1) for _ in range(dice.randrange(5))}


def _mutated(dice: random.Random, value: Any) -> Any:
    """A well-formed answer with one part of it replaced."""
    if isinstance(value, dict) and value and dice.random() < 0.85:
        name = dice.choice(list(value))
        return {**value, name: _mutated(dice, value[name])}
    if isinstance(value, list) and value and dice.random() < 0.85:
        return [*value[:-1], _mutated(dice, value[-1])]
    return _value(dice)


def _body(dice: random.Random) -> bytes:
    kind = dice.randrange(10)
    if kind < 4:
        value = _mutated(dice, dice.choice(_SEEDS))
        raw = json.dumps(value, ensure_ascii=True).encode()
    elif kind == 4:
        raw = dice.randbytes(dice.randrange(200))
    elif kind == 5:
        events = "".join(f"data: {json.dumps(_mutated(dice, CHAT_OK))}\n\n" for _ in range(dice.randrange(5)))
        raw = (
            events
            + dice.choice(("", "data: [DONE]\n\n", "retry: 1\n\n", ": x\n\n", "data: {", "event: error\ndata: x"))
        ).encode()
    elif kind == 6:
        raw = b"[" * dice.choice((10, 5000, 200_000)) + b"1"
    elif kind == 7:
        raw = dice.choice(
            (b"", b" ", b"\xef\xbb\xbf{}", b"null", b"\x00" * 50, b"<html>" + b"x" * 9000, b"NaN", b"1e999")
        )
    elif kind == 8:
        raw = gzip.compress(dice.choice((b"{}", b"a" * 10**6)))
    else:
        raw = json.dumps(dice.choice(_SEEDS)).encode()
    return raw[: dice.randrange(len(raw) + 1)] if dice.random() < 0.2 else raw


class HostileHttp:
    """Another hostile answer for every request."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.count = 0

    def send(self, request: HttpRequest) -> HttpReply | HttpFailure:
        """One exchange, drawn by the dice."""
        self.count += 1
        dice = self.dice
        if dice.random() < 0.05:
            return HttpFailure(dice.choice(_FAILURES), f"failed for {KEY}", 0.1)  # type: ignore[arg-type]
        headers = [("content-type", dice.choice(_KINDS))]
        if dice.random() < 0.1:
            headers.append(("content-encoding", dice.choice(("gzip", "br", "deflate", "x", "identity"))))
        if dice.random() < 0.1:
            headers.append(("server", dice.choice(("cloudflare", "nginx", "\xff", KEY))))
        status = dice.choice(
            (200, 200, 200, 200, 400, 401, 403, 404, 405, 422, 429, 499, 500, 502, 503, 504, 529, 307, 999)
        )
        cut = dice.choice(("", "", "", "longer than 20 s", "ReadError: reset", "more than 1048576 bytes"))
        return HttpReply(
            status, tuple(headers), _body(dice)[: 2**20], 0.01, dice.choice((0.02, 5.0)), cut, ((0.01, 1),)
        )


@pytest.mark.timeout(3600)
def test_hostile_answers_end_in_a_judgement(tmp_path: Path) -> None:
    dice = random.Random(20261130)
    checks = [check for check in all_checks() if check.scope == "target"]
    sent = 0
    while sent < ANSWERS:
        http = HostileHttp(dice)
        client = dice.choice(("codex", "claude-code", "cline", "openai-sdk", "litellm", "unknown-client"))
        base = HOST + dice.choice(("", "/v1", "/v1/", "/x/y/v1", "/v1/messages", "/v1/v1"))
        target = Target(client, base, "m", Secret(KEY), "--base-url", "LLM_SETUP_API_KEY", wire=wire_of(client))
        shared = Observations(Context("linux"), targets=(target,), explicit=True, probed=True)
        seen = Prober(fake_world(tmp_path, http, {}), Limits(), FakeNetwork()).examine(shared, target)  # type: ignore[arg-type]
        diagnosis = examine(shared, (seen,), checks)
        sent += http.count
        crashed = [(r.id, r.detail) for r in diagnosis.results if r.status == "crashed"]
        assert not crashed, (crashed, [(e.probe, e.outcome) for e in seen.exchanges])
        said = json.dumps([finding.as_json() for finding in diagnosis.findings])
        assert KEY not in redact(said)
