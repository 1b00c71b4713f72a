"""Replies judged by their bodies, not by their status codes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from wizard.endpoint.exchange import HttpFailure, HttpReply
from wizard.i18n import t
from wizard.secret import redact

_EXCERPT_CHARACTERS = 300
_LONGEST_KEY = 4096
# Text of a tool call that a parser should have taken out of the content.
_TOOL_CALL_TEXT = re.compile(
    r"<tool_call>|<function=|<\|tool_call|\[TOOL_CALLS\]|<｜tool▁calls▁begin｜>|<function_calls>|<minimax:tool_call>"
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict on one exchange.

    trouble: empty when the reply is what a client can use; else a short kebab-case word for the form of the trouble
    (`no-reply`, `error-status`, `not-json`, `html`, `stream-instead-of-json`, `json-instead-of-stream`,
    `error-in-body`, `no-choices`, `empty-content`, `cut`, `no-usage`, ...). detail: one line for people. value: what
    the reply carried (text, tool call, model ids, token count).
    """

    trouble: str
    detail: str = ""
    value: Any = None

    @property
    def ok(self) -> bool:
        """Whether a client could use the reply."""
        return not self.trouble


def excerpt(text: str, limit: int = _EXCERPT_CHARACTERS) -> str:
    """The text on one line, without keys, shortened: a key that is cut first is no longer known as one."""
    flat = redact(" ".join(text[: limit * 4 + _LONGEST_KEY].split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def error_message(body: Any) -> str:
    """The message inside an error body of OpenAI's, Anthropic's, FastAPI's or a gateway's form; empty if none."""
    if not isinstance(body, dict):
        return ""
    error = body.get("error")
    if isinstance(error, dict):
        for field in ("message", "msg", "detail", "code", "type"):
            if error.get(field):
                return str(error[field])
        return json.dumps(error, ensure_ascii=False)
    if isinstance(error, str) and error:
        return f"{error}: {body['message']}" if isinstance(body.get("message"), str) else error
    if "detail" in body:
        detail = body["detail"]
        return detail if isinstance(detail, str) else json.dumps(detail, ensure_ascii=False)
    if body.get("object") == "error" or body.get("success") is False or ("code" in body and "message" in body):
        return str(body.get("message") or body.get("msg") or body.get("code") or "")
    return ""


def _content_type(reply: HttpReply) -> str:
    return reply.header("content-type").split(";")[0].strip().lower()


def looks_like_html(reply: HttpReply) -> bool:
    """Whether a web page came."""
    return _content_type(reply) == "text/html" or bool(re.match(rb"\s*(<!doctype html|<html)", reply.body[:200], re.I))


def looks_like_stream(reply: HttpReply) -> bool:
    """Whether server-sent events came."""
    return _content_type(reply) == "text/event-stream" or bool(
        re.match(rb"\s*(data|event|id|retry): ?", reply.body[:50])
    )


def judge_status(reply: HttpReply | HttpFailure) -> Judged | None:
    """The trouble that needs no look at the protocol: no reply, an error status, a page, a cut body; None if none."""
    if isinstance(reply, HttpFailure):
        return Judged("no-reply", f"{reply.kind}: {excerpt(reply.text)}")
    if reply.status >= 400:
        message = error_message(reply.json()) or excerpt(reply.text, 160)
        return Judged("error-status", f"{reply.status} {message}".strip())
    if 300 <= reply.status < 400:
        return Judged("error-status", f"{reply.status} -> {reply.header('location')}")
    if looks_like_html(reply):
        return Judged("html", f"{reply.status} with a web page: {excerpt(reply.text, 80)}")
    if reply.cut:
        return Judged("cut", f"{reply.status}, body ended early: {reply.cut}")
    return None


def _object_of(reply: HttpReply | HttpFailure) -> dict[str, Any] | Judged:
    """The JSON object that came, or why there is none."""
    early = judge_status(reply)
    if early or isinstance(reply, HttpFailure):
        return early or Judged("no-reply")
    if looks_like_stream(reply):
        return Judged("stream-instead-of-json", f"asked for JSON, got a stream: {excerpt(reply.text, 80)}")
    body = reply.json()
    if not isinstance(body, dict):
        kind = _content_type(reply) or "no content type"
        return Judged("not-json", f"{reply.status} with {kind}: {excerpt(reply.text, 80)}")
    return body


def _shown(body: dict[str, Any], limit: int = 120) -> str:
    return excerpt(json.dumps(body, ensure_ascii=False), limit)


def judge_models(reply: HttpReply | HttpFailure) -> Judged:
    """value: {id: max_model_len or None} of a model list."""
    body = _object_of(reply)
    if isinstance(body, Judged):
        return body
    data = body.get("data")
    if not isinstance(data, list):
        return Judged("error-in-body" if error_message(body) else "no-models", error_message(body) or _shown(body, 80))
    found = {
        str(row["id"]): row.get("max_model_len") if isinstance(row.get("max_model_len"), int) else None
        for row in data
        if isinstance(row, dict) and row.get("id")
    }
    return Judged("", ", ".join(list(found)[:4]), found)


def judge_chat(reply: HttpReply | HttpFailure, *, wants_tool_call: bool = False) -> Judged:
    """value: the text, or the first tool call (dict) when one was wanted."""
    body = _object_of(reply)
    if isinstance(body, Judged):
        return body
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        message = error_message(body)
        return Judged("error-in-body", message) if message else Judged("no-choices", _shown(body))
    message_value = choices[0].get("message")
    if not isinstance(message_value, dict):
        return Judged("no-choices", f"choices[0] has no message: {_shown(body)}")
    content = message_value.get("content")
    calls = message_value.get("tool_calls") or []
    if wants_tool_call:
        if calls and isinstance(calls[0], dict) and isinstance(calls[0].get("function"), dict):
            function = calls[0]["function"]
            return Judged("", f"{function.get('name')}({excerpt(str(function.get('arguments')), 60)})", calls[0])
        if isinstance(content, str) and _TOOL_CALL_TEXT.search(content):
            return Judged("tool-call-as-text", excerpt(content, 120))
        return Judged("no-tool-call", excerpt(str(content or ""), 80))
    if not content and not calls:
        reasoning = message_value.get("reasoning") or message_value.get("reasoning_content")
        reason = choices[0].get("finish_reason")
        return Judged("empty-content", f"finish_reason {reason}{', reasoning only' if reasoning else ''}", reasoning)
    return Judged("", excerpt(str(content or ""), 60), content)


def stream_events(body: bytes) -> tuple[list[Any], bool]:
    """The JSON values of a stream's `data:` lines (text where they do not parse), and whether `[DONE]` ended it."""
    events: list[Any] = []
    done = False
    for line in body.decode("utf-8", "replace").splitlines():
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            done = True
            continue
        try:
            events.append(json.loads(data))
        except (ValueError, RecursionError):
            events.append(data)
    return events, done


def _events_of(reply: HttpReply | HttpFailure) -> tuple[list[dict[str, Any]], bool] | Judged:
    """The events of a stream and whether `[DONE]` ended it; or why there is none, an error in one of them included."""
    early = judge_status(reply)
    if early or isinstance(reply, HttpFailure):
        return early or Judged("no-reply")
    if not looks_like_stream(reply):
        return Judged(
            "json-instead-of-stream", f"asked for a stream, got {_content_type(reply)}: {excerpt(reply.text, 80)}"
        )
    events, done = stream_events(reply.body)
    for event in events:
        if not isinstance(event, dict):
            return Judged("not-json", f"a chunk is not JSON: {excerpt(str(event), 80)}")
        if event.get("error") or event.get("type") == "error":
            return Judged("error-in-body", error_message(event) or _shown(event))
    return events, done


def judge_chat_stream(reply: HttpReply | HttpFailure) -> Judged:
    """value: {"text", "usage", "chunks"}. A client waits for a `finish_reason` and for `[DONE]`."""
    streamed = _events_of(reply)
    if isinstance(streamed, Judged):
        return streamed
    events, done = streamed
    text, usage, chunks, finished = "", None, 0, False
    for event in events:
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {} if isinstance(choice, dict) else {}
            piece = delta.get("content") or delta.get("reasoning") or delta.get("reasoning_content") or ""
            text += str(piece)
            chunks += 1
            finished = finished or (isinstance(choice, dict) and bool(choice.get("finish_reason")))
    if not chunks:
        return Judged("no-choices", f"no chunk had choices: {excerpt(str(events), 120)}")
    if not finished:
        return Judged("cut", "the stream ended without a finish_reason")
    if not done:
        return Judged("cut", "the stream ended without [DONE]")
    if not usage:
        return Judged("no-usage", "the stream gave no usage though it was asked for")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    told = t("{tokens} tokens in {chunks} chunks", tokens=tokens, chunks=chunks)
    return Judged("", told, {"text": text, "usage": usage, "chunks": chunks})


def judge_responses(reply: HttpReply | HttpFailure) -> Judged:
    """value: the text of a non-streamed `/responses` answer."""
    body = _object_of(reply)
    if isinstance(body, Judged):
        return body
    output = body.get("output")
    if body.get("status") == "failed" or not isinstance(output, list):
        message = error_message(body)
        return Judged("error-in-body" if message else "no-output", message or _shown(body))
    texts = [
        str(part.get("text") or "")
        for item in output
        if isinstance(item, dict)
        for part in (item.get("content") or ())
        if isinstance(part, dict)
    ]
    if not output:
        return Judged("empty-content", f"status {body.get('status')}, output []")
    return Judged("", excerpt("".join(texts), 60), "".join(texts))


def judge_responses_stream(reply: HttpReply | HttpFailure) -> Judged:
    """value: the text of a streamed `/responses` answer, which `response.completed` ends (`incomplete`: the few tokens
    of a short question were used up)."""
    streamed = _events_of(reply)
    if isinstance(streamed, Judged):
        return streamed
    events, _ = streamed
    for event in events:
        if event.get("type") == "response.failed":
            failed = event.get("response")
            return Judged("error-in-body", error_message(failed) or _shown(event))
    if not any(event.get("type") in ("response.completed", "response.incomplete") for event in events):
        return Judged("cut", "the stream ended without response.completed")
    text = "".join(
        str(event.get("delta") or "") for event in events if event.get("type") == "response.output_text.delta"
    )
    return Judged("", excerpt(text, 60), text)


def judge_messages_stream(reply: HttpReply | HttpFailure) -> Judged:
    """value: the text of a streamed Anthropic message, which `message_stop` ends."""
    streamed = _events_of(reply)
    if isinstance(streamed, Judged):
        return streamed
    events, _ = streamed
    if not any(event.get("type") == "message_start" for event in events):
        return Judged("not-a-message", f"no message_start: {excerpt(str(events), 120)}")
    if not any(event.get("type") == "message_stop" for event in events):
        return Judged("cut", "the stream ended without message_stop")
    deltas = (event.get("delta") for event in events if event.get("type") == "content_block_delta")
    text = "".join(str(delta.get("text") or "") for delta in deltas if isinstance(delta, dict))
    return Judged("", excerpt(text, 60), text)


def judge_messages(reply: HttpReply | HttpFailure) -> Judged:
    """value: the text of a non-streamed Anthropic message."""
    body = _object_of(reply)
    if isinstance(body, Judged):
        return body
    content = body.get("content")
    if body.get("type") == "error" or not isinstance(content, list):
        message = error_message(body)
        return Judged("error-in-body" if message else "not-a-message", message or _shown(body))
    text = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return Judged("", excerpt(text, 60), text)


def judge_count_tokens(reply: HttpReply | HttpFailure) -> Judged:
    """value: input tokens."""
    body = _object_of(reply)
    if isinstance(body, Judged):
        return body
    tokens = body.get("input_tokens")
    if not isinstance(tokens, int):
        message = error_message(body)
        return Judged("error-in-body" if message else "no-count", message or _shown(body))
    return Judged("", t("{tokens} tokens", tokens=tokens), tokens)
