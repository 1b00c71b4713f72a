"""What a reply's body is, whatever its status and its content type claim. Never raises for any bytes."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from wizard.doctor.observations import Wire
from wizard.endpoint.exchange import HttpReply
from wizard.endpoint.replies import excerpt as one_line

Form = Literal["answer", "models", "error", "html", "json-string", "stream", "empty", "json", "text", "broken"]

_MAX_TEXT_CHARACTERS = 20_000
_MAX_DECODED_BYTES = 4 * 2**20
_HTML = re.compile(
    r"\s*(?:<!--.*?-->\s*)?<(?:!doctype|html|head|body|title|center|\?xml[^>]*>\s*<(?:!doctype|html))", re.I | re.S
)
_SSE = re.compile(r"\s*(?:data|event|id|retry):|\s*: ?\S")


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error inside a body. All fields as text; `text` is the whole error, for patterns over all of it."""

    message: str
    kind: str = ""
    code: str = ""
    param: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a model said, in any of the three protocols. tool_calls: (name, arguments as text).

    finish: `stop`, `length`, `tool_calls`, `error` or what the server wrote; Anthropic's and Responses' words are
    translated. completion_tokens: as the server counted.
    """

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[tuple[str, str], ...] = ()
    finish: str = ""
    completion_tokens: int | None = None
    content_is_null: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event: its fields' names, its data as JSON where it parses, else as text; done: `[DONE]`."""

    fields: tuple[str, ...]
    data: Any = None
    has_data: bool = False
    done: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """A reply's body, read. `lie`: what the headers claimed and the bytes did not hold (encoding, length, charset)."""

    form: Form
    text: str
    value: Any = None
    error: ApiError | None = None
    spoken: Spoken | None = None
    models: tuple[tuple[str, int | None], ...] | None = None
    events: tuple[Event, ...] = ()
    lie: str = ""


def read_body(reply: HttpReply, wire: Wire = "chat") -> Body:
    """Tell what came. `wire` is the protocol in which an answer was expected."""
    raw, lie = _decoded(reply)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as broken:
        # A body that was cut may end inside a character; anything else is no UTF-8.
        if not (reply.cut and broken.start >= len(raw) - 4):
            lie = lie or f"not UTF-8 at byte {broken.start}"
        text = raw.decode("utf-8", "replace")
    shown = text[:_MAX_TEXT_CHARACTERS]
    if not text.strip():
        return Body("empty", "", lie=lie)
    value = _parse(text)
    if isinstance(value, dict | list):
        return _read_json(value, shown, wire, lie)
    if isinstance(value, str):
        return Body("json-string", shown, value, lie=lie)
    declared = reply.header("content-type").split(";")[0].strip().lower()
    if _HTML.match(shown) or (declared == "text/html" and "<" in shown[:200]):
        return Body("html", shown, lie=lie)
    if declared == "text/event-stream" or _SSE.match(shown):
        events = tuple(read_events(text))
        if declared == "text/event-stream" or any(event.has_data for event in events):
            error = next((found for event in events if (found := find_error(event.data)) is not None), None)
            return Body("stream", shown, error=error, spoken=_stream_spoken(events, wire), events=events, lie=lie)
    if declared.endswith("json") or shown.lstrip()[:1] in ("{", "["):
        return Body("broken", shown, lie=lie or "not JSON, or not all of it")
    return Body("text", shown, lie=lie)


def _decoded(reply: HttpReply) -> tuple[bytes, str]:
    """The body without its content encoding. Bounded: a small body that unpacks to gigabytes is cut."""
    raw = reply.body
    encoding = reply.header("content-encoding").strip().lower()
    if encoding in ("", "identity") and raw[:2] == b"\x1f\x8b":
        encoding = "gzip"
    if encoding in ("gzip", "x-gzip", "deflate") and raw:
        for bits in (47, -15):
            unpacker = zlib.decompressobj(bits)
            try:
                return unpacker.decompress(raw, _MAX_DECODED_BYTES), ""
            except zlib.error:
                continue
        return raw, f"content-encoding: {encoding}, but the body is not"
    if encoding not in ("", "identity"):
        return raw, f"content-encoding: {encoding}, though only identity was accepted"
    return raw, ""


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_json(value: dict[str, Any] | list[Any], text: str, wire: Wire, lie: str) -> Body:
    spoken = read_answer(value, wire) if isinstance(value, dict) else None
    error = find_error(value)
    if spoken is not None and (error is None or spoken.content or spoken.tool_calls):
        return Body("answer", text, value, error, spoken, lie=lie)
    if error is not None:
        return Body("error", text, value, error, lie=lie)
    models = read_models(value)
    if models is not None:
        return Body("models", text, value, models=models, lie=lie)
    return Body("json", text, value, lie=lie)


# ---- errors ------------------------------------------------------------------------------------------------------


def find_error(value: Any) -> ApiError | None:
    """The error in a body of any gateway's form, or None."""
    if isinstance(value, list):
        return find_error(value[0]) if value else None
    if not isinstance(value, dict):
        return None
    whole = _text(value)
    inner = value.get("error")
    if isinstance(inner, dict) and inner:
        message = _first(inner, "message", "msg", "detail", "error", "reason") or _text(inner)
        param = _text(inner.get("param"))
        return ApiError(message, _first(inner, "type", "status"), _first(inner, "code", "type"), param, whole)
    if isinstance(inner, str) and inner:
        message = _first(value, "message", "error_description", "detail")
        return ApiError(
            f"{inner}: {message}" if message else inner, _first(value, "type"), _first(value, "code"), "", whole
        )
    if isinstance(inner, list) and inner:
        return ApiError(_text(inner[0]), text=whole)
    errors = value.get("errors")
    if isinstance(errors, list) and errors:
        first = errors[0]
        return ApiError(_first(first, "message", "detail") if isinstance(first, dict) else _text(first), text=whole)
    if value.get("detail") and "choices" not in value:
        detail = value["detail"]
        if isinstance(detail, dict):
            return find_error({"error": detail})
        return ApiError(detail if isinstance(detail, str) else _text(detail), "detail", text=whole)
    base = value.get("base_resp")
    if isinstance(base, dict) and base.get("status_code"):
        return ApiError(_first(base, "status_msg"), code=_text(base.get("status_code")), text=whole)
    if any(name in value for name in ("choices", "output", "content", "data")) and not _says_no(value):
        return None
    message = _first(value, "message", "msg", "errmsg", "error_msg", "errorMessage", "Message", "reason", "title")
    if message and (_says_no(value) or set(value) <= {"message", "msg", "request_id", "requestId", "status", "path"}):
        return ApiError(
            message, _first(value, "type", "status"), _first(value, "code", "error_code", "errcode"), "", whole
        )
    return None


def _says_no(value: dict[str, Any]) -> bool:
    if value.get("object") == "error" or value.get("type") == "error" or value.get("success") is False:
        return True
    for name in ("code", "status", "statusCode", "error_code", "errcode", "status_code"):
        code = value.get(name)
        if isinstance(code, bool):
            continue
        if isinstance(code, int) and code not in (0, 200):
            return True
        if isinstance(code, str) and code and code not in ("0", "200", "ok", "success", "completed", "in_progress"):
            return True
    return False


def _first(value: dict[str, Any], *names: str) -> str:
    for name in names:
        found = value.get(name)
        if found not in (None, "", [], {}):
            return _text(found)
    return ""


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value[:_MAX_TEXT_CHARACTERS]
    try:
        return json.dumps(value, ensure_ascii=False)[:_MAX_TEXT_CHARACTERS]
    except (ValueError, RecursionError):
        return str(type(value).__name__)


# ---- answers -----------------------------------------------------------------------------------------------------


def read_models(value: Any) -> tuple[tuple[str, int | None], ...] | None:
    """(id, max_model_len) of each model of a list, or None where it is no list of models."""
    rows = value.get("data", value.get("models")) if isinstance(value, dict) else value
    if not isinstance(rows, list):
        return None
    found: list[tuple[str, int | None]] = []
    for row in rows:
        if isinstance(row, dict):
            name = next((row[key] for key in ("id", "name", "model") if isinstance(row.get(key), str)), None)
            window = _window(row) or _window(row.get("meta"))
            if name is not None:
                found.append((name, window))
    return tuple(found) if found or rows == [] else None


def _window(row: Any) -> int | None:
    """The window that an entry of a list of models tells of; llama.cpp's stands in `meta`."""
    if not isinstance(row, dict):
        return None
    return next((row[key] for key in _WINDOW_FIELDS if type(row.get(key)) is int and row[key] > 0), None)


_WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length", "n_ctx")


def read_answer(value: dict[str, Any], wire: Wire) -> Spoken | None:
    """What the model said, or None where the body is no answer in that protocol."""
    if wire == "messages":
        return _read_message(value)
    if wire == "responses":
        return _read_response(value)
    return _read_chat(value)


def _read_chat(value: dict[str, Any]) -> Spoken | None:
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    message = choices[0].get("message")
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    return Spoken(
        _content_text(content),
        _reasoning(message),
        _chat_calls(message.get("tool_calls")),
        _text(choices[0].get("finish_reason")),
        _count(value.get("usage"), "completion_tokens"),
        content is None,
    )


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return ""


def _reasoning(message: dict[str, Any]) -> str:
    for name in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(message.get(name), str) and message[name]:
            return str(message[name])
    return _text(message["reasoning_details"]) if message.get("reasoning_details") else ""


def _chat_calls(calls: Any) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            found.append((_text(function.get("name")), _text(function.get("arguments"))))
    return tuple(found)


def _count(usage: Any, name: str) -> int | None:
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if type(count) is int else None


_ANTHROPIC_ENDS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}


def _read_message(value: dict[str, Any]) -> Spoken | None:
    parts = value.get("content")
    if value.get("type") == "error" or not isinstance(parts, list):
        return None
    parts = [part for part in parts if isinstance(part, dict)]
    return Spoken(
        "".join(_text(part.get("text")) for part in parts if part.get("type") == "text"),
        "".join(_text(part.get("thinking")) for part in parts if part.get("type") == "thinking"),
        tuple((_text(part.get("name")), _text(part.get("input"))) for part in parts if part.get("type") == "tool_use"),
        _ANTHROPIC_ENDS.get(_text(value.get("stop_reason")), _text(value.get("stop_reason"))),
        _count(value.get("usage"), "output_tokens"),
    )


def _read_response(value: dict[str, Any]) -> Spoken | None:
    output = value.get("output")
    if not isinstance(output, list) or value.get("status") == "failed":
        return None
    content, reasoning, calls = "", "", []
    for item in output:
        if not isinstance(item, dict):
            continue
        if item.get("type") == "function_call":
            calls.append((_text(item.get("name")), _text(item.get("arguments"))))
        elif item.get("type") == "reasoning":
            reasoning += _content_text(item.get("content")) + _content_text(item.get("summary"))
        else:
            content += _content_text(item.get("content"))
    status = _text(value.get("status"))
    finish = {"completed": "stop", "incomplete": "length"}.get(status, status)
    return Spoken(content, reasoning, tuple(calls), finish, _count(value.get("usage"), "output_tokens"))


# ---- streams -----------------------------------------------------------------------------------------------------


def read_events(text: str) -> Iterator[Event]:
    """The server-sent events of a body, in order; the last one also where its blank line is missing."""
    for block in re.split(r"\r\n\r\n|\n\n|\r\r", text):
        names: list[str] = []
        data: list[str] = []
        for line in block.splitlines():
            name, colon, rest = line.partition(":")
            if not line.strip() or not colon:
                continue
            names.append(name.strip())
            if name.strip() == "data":
                data.append(rest.removeprefix(" "))
        if not names:
            continue
        joined = "\n".join(data).strip()
        if joined == "[DONE]":
            yield Event(tuple(names), has_data=True, done=True)
        else:
            parsed = _parse(joined)
            yield Event(tuple(names), joined if parsed is None and joined else parsed, bool(data))


def _stream_spoken(events: tuple[Event, ...], wire: Wire) -> Spoken | None:
    if wire != "chat":
        return None
    content, reasoning, finish = "", "", ""
    tokens: int | None = None
    seen = False
    calls: list[tuple[str, str]] = []
    for event in events:
        if not isinstance(event.data, dict):
            continue
        tokens = _count(event.data.get("usage"), "completion_tokens") or tokens
        choices = event.data.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            seen = True
            finish = _text(choice.get("finish_reason")) or finish
            delta = choice.get("delta")
            if isinstance(delta, dict):
                content += _content_text(delta.get("content"))
                reasoning += _reasoning(delta)
                calls += _chat_calls(delta.get("tool_calls"))
    return Spoken(content, reasoning, tuple(calls), finish, tokens) if seen else None


def excerpt(text: str, limit: int = 200) -> str:
    """The text on one line, without keys, shortened, for evidence."""
    return one_line(text, limit)
