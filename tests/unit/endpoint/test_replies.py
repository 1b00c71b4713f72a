"""Replies are judged by their bodies."""

import json
from typing import Any

import pytest

from wizard.doctor import bodies
from wizard.endpoint import replies
from wizard.endpoint.exchange import HttpFailure, HttpReply
from wizard.i18n import use_translation


def reply(body: Any, status: int = 200, kind: str = "application/json", cut: str = "") -> HttpReply:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpReply(status, (("content-type", kind),), raw, 0.01, 0.02, cut)


GOOD = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ready"}, "finish_reason": "stop"}]}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}


@pytest.mark.parametrize(
    ("given", "trouble"),
    [
        pytest.param(reply(GOOD), "", id="fine"),
        pytest.param(HttpFailure("refused", "ConnectError", 0.0), "no-reply", id="refused"),
        pytest.param(reply({"error": "Unauthorized"}, 401), "error-status", id="401"),
        pytest.param(reply({"error": {"message": "quota", "code": 1}}), "error-in-body", id="200-with-an-error"),
        pytest.param(reply({"choices": []}), "no-choices", id="empty-choices"),
        pytest.param(reply({"choices": None}), "no-choices", id="null-choices"),
        pytest.param(reply({"choices": [{"finish_reason": "stop"}]}), "no-choices", id="choice-without-message"),
        pytest.param(reply(b"<!doctype html><title>New API</title>", kind="text/html"), "html", id="page"),
        pytest.param(reply(b"<html>", kind="application/json"), "html", id="page-that-claims-json"),
        pytest.param(reply(b"data: {}\n\n", kind="text/event-stream"), "stream-instead-of-json", id="stream"),
        pytest.param(reply(b'"Hello"'), "not-json", id="json-string"),
        pytest.param(reply(b"\xff\xfe"), "not-json", id="not-utf8"),
        pytest.param(reply(GOOD, cut="ReadError"), "cut", id="cut"),
        pytest.param(
            reply({"choices": [{"message": {"content": None, "reasoning": "hm"}, "finish_reason": "length"}]}),
            "empty-content",
            id="reasoning-ate-the-budget",
        ),
    ],
)
def test_a_chat_is_fine_only_with_a_message_a_client_can_read(given: HttpReply | HttpFailure, trouble: str) -> None:
    assert replies.judge_chat(given).trouble == trouble


@pytest.mark.parametrize(
    ("message", "trouble"),
    [
        pytest.param({"content": None, "tool_calls": [CALL]}, "", id="parsed"),
        pytest.param({"content": '<tool_call>\n{"name": "get_weather"}'}, "tool-call-as-text", id="left-as-text"),
        pytest.param({"content": "It is sunny."}, "no-tool-call", id="not-called"),
    ],
)
def test_a_tool_call_counts_when_the_server_parsed_it(message: dict[str, Any], trouble: str) -> None:
    judged = replies.judge_chat(reply({"choices": [{"message": message}]}), wants_tool_call=True)
    assert judged.trouble == trouble


def sse(*events: Any, done: bool = True) -> HttpReply:
    lines = [f"data: {json.dumps(event)}\n\n" for event in events] + (["data: [DONE]\n\n"] if done else [])
    return reply("".join(lines).encode(), kind="text/event-stream")


DELTA = {"choices": [{"delta": {"content": "rea"}}]}
LAST = {"choices": [{"delta": {"content": "dy"}, "finish_reason": "stop"}]}
USAGE = {"choices": [], "usage": {"completion_tokens": 2}}


@pytest.mark.parametrize(
    ("given", "trouble"),
    [
        pytest.param(sse(DELTA, LAST, USAGE), "", id="fine"),
        pytest.param(sse(DELTA, LAST), "no-usage", id="no-usage"),
        pytest.param(sse(DELTA, LAST, USAGE, done=False), "cut", id="no-done"),
        pytest.param(sse(DELTA, DELTA, USAGE), "cut", id="no-finish-reason"),
        pytest.param(sse(USAGE), "no-choices", id="no-choices-at-all"),
        pytest.param(sse({"error": {"message": "boom"}}), "error-in-body", id="error-inside"),
        pytest.param(reply(GOOD), "json-instead-of-stream", id="json"),
    ],
)
def test_a_stream_is_fine_with_choices_usage_and_an_end(given: HttpReply, trouble: str) -> None:
    assert replies.judge_chat_stream(given).trouble == trouble


SAID = {"type": "response.output_text.delta", "delta": "ready"}
OVERLOADED = {"error": {"type": "overloaded_error", "message": "busy"}}


@pytest.mark.parametrize(
    ("given", "trouble", "text"),
    [
        pytest.param(sse(SAID, {"type": "response.completed"}, done=False), "", "ready", id="fine"),
        pytest.param(sse(SAID, {"type": "response.incomplete"}, done=False), "", "ready", id="tokens-used-up"),
        pytest.param(sse(SAID), "cut", None, id="no-response.completed"),
        pytest.param(sse({"type": "response.failed", "response": OVERLOADED}), "error-in-body", None, id="failed"),
        pytest.param(reply({"status": "completed"}), "json-instead-of-stream", None, id="json"),
        pytest.param(reply({"error": {"message": "x"}}, status=500), "error-status", None, id="500"),
    ],
)
def test_a_responses_stream_is_fine_when_the_response_is_completed(
    given: HttpReply, trouble: str, text: str | None
) -> None:
    judged = replies.judge_responses_stream(given)
    assert (judged.trouble, judged.value) == (trouble, text)


START, STOP = {"type": "message_start"}, {"type": "message_stop"}
PIECE = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ready"}}


@pytest.mark.parametrize(
    ("given", "trouble", "text"),
    [
        pytest.param(sse(START, PIECE, STOP, done=False), "", "ready", id="fine"),
        pytest.param(sse(START, PIECE), "cut", None, id="no-message_stop"),
        pytest.param(sse(START, {"type": "error", **OVERLOADED}), "error-in-body", None, id="error-inside"),
        pytest.param(sse(DELTA, LAST, USAGE), "not-a-message", None, id="chunks-of-chat"),
        pytest.param(reply({"type": "message", "content": []}), "json-instead-of-stream", None, id="json"),
    ],
)
def test_a_message_stream_is_fine_when_the_message_stops(given: HttpReply, trouble: str, text: str | None) -> None:
    judged = replies.judge_messages_stream(given)
    assert (judged.trouble, judged.value) == (trouble, text)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({"error": {"message": "no such model"}}, "no such model", id="openai"),
        pytest.param({"error": "Unauthorized"}, "Unauthorized", id="vllm-401"),
        pytest.param({"detail": "Not Found"}, "Not Found", id="fastapi"),
        pytest.param({"type": "error", "error": {"type": "x", "message": "m"}}, "m", id="anthropic"),
        pytest.param({"code": 10, "message": "余额不足"}, "余额不足", id="gateway"),
        pytest.param(GOOD, "", id="no-error"),
    ],
)
def test_the_message_of_an_error_body_is_found(body: dict[str, Any], message: str) -> None:
    assert replies.error_message(body) == message


def test_a_model_list_tells_each_context() -> None:
    judged = replies.judge_models(reply({"data": [{"id": "a", "max_model_len": 2048}, {"id": "b"}]}))
    assert judged.value == {"a": 2048, "b": None}


def test_what_a_stream_held_is_said_in_the_user_s_language() -> None:
    given = sse({**LAST, "usage": {"completion_tokens": 1}})
    use_translation(lambda text: text.replace("tokens in", "token,"))
    try:
        judged = replies.judge_chat_stream(given)
    finally:
        use_translation(None)
    assert judged.detail == "1 token, 1 chunks"


@pytest.mark.parametrize("shorten", [replies.excerpt, bodies.excerpt])
@pytest.mark.parametrize("column", [80, 95, 99])
def test_no_part_of_a_key_is_left_by_an_excerpt(shorten: Any, column: int) -> None:
    text = "x" * (column - 1) + " sk-proj-S3cr3tS3cr3tS3cr3tS3cr3tS3cr3t is refused" + " y" * 400
    said = shorten(text, 100)
    assert len(said) <= 100
    assert "sk-" not in said
