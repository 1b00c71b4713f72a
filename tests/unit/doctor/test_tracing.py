"""What a client really sent, and what is wrong with the first request that failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wizard.doctor.observations import Exchange, RequestSummary
from wizard.doctor.tracing import explain_first_failure
from wizard.endpoint.exchange import HttpReply

from .conftest import CHAT_OK, NOT_FOUND


def exchange(path: str, answer: Any, status: int = 200, **body: Any) -> Exchange:
    raw = json.dumps(answer).encode()
    reply = HttpReply(status, (("content-type", "application/json"),), raw, 0.1, 0.1)
    return Exchange("trace.1", RequestSummary("POST", f"http://h{path}", "bearer", {"model": "m", **body}), reply)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        pytest.param("/chat/completions", "base-url-missing-v1", id="no-version"),
        pytest.param("/v1/v1/messages", "base-url-extra-v1", id="version-twice"),
        pytest.param("/v1//chat/completions", "base-url-trailing-slash", id="two-slashes"),
        pytest.param("/v1/chat/completions/chat/completions", "base-url-full-endpoint", id="endpoint-twice"),
        pytest.param("/v1/responses", "endpoint-unsupported-responses", id="no-responses"),
        pytest.param("/v1/messages?beta=true", "endpoint-unsupported-messages", id="no-messages"),
        pytest.param("/v1/chat/completions", "wrong-endpoint-path", id="not-even-chat"),
    ],
)
def test_a_path_that_is_not_served_tells_what_is_wrong_with_it(path: str, code: str) -> None:
    cause = explain_first_failure([exchange(path, NOT_FOUND, 404)])
    assert cause is not None
    assert cause.code == code


def test_json_where_the_client_asked_for_a_stream_is_a_failure() -> None:
    cause = explain_first_failure([exchange("/v1/chat/completions", CHAT_OK, stream=True)])
    assert cause is not None
    assert cause.code == "stream-mismatch"
    assert explain_first_failure([exchange("/v1/chat/completions", CHAT_OK)]) is None
