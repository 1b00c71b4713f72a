"""What one request showed: its stream with arrival times in, a sample out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from wizard.secret import redact

_TOKEN_KEYS = ("content", "reasoning", "reasoning_content", "tool_calls", "refusal")

# How the error of a request begins that found no server.
NO_CONNECTION = "no connection"


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """One streamed exchange as it went over the wire; all times in seconds on one clock.

    sent_s: the request was written. due_s: when a schedule wanted it sent; None: as soon as there was a free place.
    connect_s: how long a new connection took before that, None where one was open. arrivals: (when, payload bytes) of
    each read. ended_s: the last byte. failure: why there was no whole answer.
    """

    sent_s: float
    ended_s: float
    due_s: float | None = None
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    arrivals: tuple[tuple[float, bytes], ...] = ()
    connect_s: float | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """One request. error is empty for a whole answer; its figures count only then.

    token_s: when each chunk with a token arrived, seconds after the request was sent; where a schedule ruled, after it
    was due, so that a client or connection that is held up by a slow server hides nothing (coordinated omission).
    late_s: sent so long after it was due. output_tokens: as `usage` says where that can be, else the number of chunks
    (usage_said False). usage_is_short: `usage` counts fewer tokens than chunks came; usage_is_long: more than were
    asked for, or more than the bytes of the text. text: the answer, without reasoning.
    """

    error: str = ""
    sent_s: float = 0.0
    ended_s: float = 0.0
    token_s: tuple[float, ...] = ()
    output_tokens: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    usage_said: bool = False
    usage_is_short: bool = False
    usage_is_long: bool = False
    connect_s: float | None = None
    late_s: float | None = None
    seen: bool = False
    text: str = ""

    @property
    def time_to_first_token_s(self) -> float:
        """From the request's last byte out to the first chunk that carries a token (text, reasoning or a tool call)."""
        return self.token_s[0]

    @property
    def end_to_end_s(self) -> float:
        """To the last chunk that carries a token."""
        return self.token_s[-1]

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """Between chunks with tokens; 0 where one read brought several."""
        return tuple(later - earlier for earlier, later in zip(self.token_s, self.token_s[1:], strict=False))

    @property
    def time_per_output_token_s(self) -> float | None:
        """(end to end - first token) / (tokens - 1), as `vllm bench serve` defines it; None for a single token."""
        if self.output_tokens < 2:
            return None
        return (self.token_s[-1] - self.token_s[0]) / (self.output_tokens - 1)


def peak_in_flight(samples: Iterable[Sample]) -> int:
    """How many requests were under way at most."""
    edges = [edge for one in samples for edge in ((one.sent_s, 1), (one.ended_s, -1))]
    most = now = 0
    for _, step in sorted(edges):  # at the same moment an end comes before a beginning
        now += step
        most = max(most, now)
    return most


def stream_events(arrivals: Iterable[tuple[float, bytes]]) -> Iterator[tuple[float, str]]:
    """(when, data) of each server-sent event, whatever reads it was spread over; it came when its last line did."""
    pending = b""
    data: list[str] = []
    for when, payload in arrivals:
        *lines, pending = (pending + payload).split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].strip().decode("utf-8", "replace"))
            elif not line and data:
                yield when, "\n".join(data)
                data = []
    if pending.startswith(b"data:"):
        data.append(pending[5:].strip().decode("utf-8", "replace"))
    if data:
        yield when, "\n".join(data)


def parse_sample(record: StreamRecord, *, max_tokens: int | None = None, seen: bool = False) -> Sample:
    """The sample of a chat-completions stream. An answer that ends without a finish reason or `[DONE]` is an error.

    max_tokens: what was asked for at most. seen: see workloads.Ask.
    """
    sample = _parse(record, max_tokens)
    late_s = None if record.due_s is None else max(0.0, record.sent_s - record.due_s)
    return replace(sample, seen=seen, late_s=late_s)


def _parse(record: StreamRecord, max_tokens: int | None) -> Sample:
    if record.status and record.status != 200:
        return _failed(record, f"HTTP {record.status}{_retry_after(record.headers)}{_reason(record)}")
    if record.failure:
        return _failed(record, record.failure)
    begun = record.sent_s if record.due_s is None else record.due_s
    token_s: list[float] = []
    text: list[str] = []
    size = silent = 0
    usage: Mapping[str, Any] = {}
    finished = False
    for when, data in stream_events(record.arrivals):
        if data == "[DONE]":
            finished = True
            continue
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            return _failed(record, "an event that is no JSON")
        if not isinstance(event, dict):
            continue
        if event.get("error"):
            return _failed(record, f"error event: {_message(event['error'])}")
        if isinstance(event.get("usage"), dict):
            usage = event["usage"]
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                finished = finished or bool(choice.get("finish_reason"))
                delta = choice.get("delta")
                if _has_token(delta):
                    token_s.append(when - begun)
                    size += _size(delta)
                    if isinstance(delta.get("content"), str):
                        text.append(delta["content"])
                else:
                    silent += 1
    if not token_s:
        return _failed(record, "no token")
    if not finished:
        return _failed(record, "the stream ended early")
    said = _whole(usage.get("completion_tokens")) or 0
    details = usage.get("prompt_tokens_details")
    # Every chunk with text holds at least one token; a token has at least one byte, or came in a chunk without text (a
    # special token, the first bytes of a character).
    is_short = 0 < said < len(token_s)
    is_long = (max_tokens is not None and said > max_tokens) or said > size + silent + _hidden_tokens(usage)
    believed = said > 0 and not is_short and not is_long
    return Sample(
        sent_s=record.sent_s,
        ended_s=record.ended_s,
        token_s=tuple(token_s),
        output_tokens=said if believed else len(token_s),
        prompt_tokens=_whole(usage.get("prompt_tokens")),
        cached_tokens=_whole(details.get("cached_tokens")) if isinstance(details, dict) else None,
        usage_said=said > 0,
        usage_is_short=is_short,
        usage_is_long=is_long,
        connect_s=record.connect_s,
        text="".join(text),
    )


def _hidden_tokens(usage: Mapping[str, Any]) -> int:
    """Reasoning that is counted and not streamed, as some hosted models have it; and the end token."""
    details = usage.get("completion_tokens_details")
    return 1 + (_whole(details.get("reasoning_tokens")) or 0 if isinstance(details, dict) else 0)


def _size(delta: Mapping[str, Any]) -> int:
    """Bytes of what a delta brought."""
    values = (delta.get(key) for key in _TOKEN_KEYS)
    return sum(
        len((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode("utf-8", "replace"))
        for value in values
        if value
    )


def _failed(record: StreamRecord, error: str) -> Sample:
    return Sample(error=error, sent_s=record.sent_s, ended_s=record.ended_s, connect_s=record.connect_s)


def _has_token(delta: object) -> TypeGuard[dict[str, Any]]:
    """Whether a delta carries a token. The first one of many servers has only a role, before the model has run."""
    return isinstance(delta, dict) and any(delta.get(key) for key in _TOKEN_KEYS)


def _retry_after(headers: Iterable[tuple[str, str]]) -> str:
    after = next((value for name, value in headers if name.lower() == "retry-after"), "")
    return f", retry after {after} s" if after else ""


def _reason(record: StreamRecord) -> str:
    """What the server says about a refusal, without the numbers that make each one different. A busy one (429) says
    enough by its status."""
    if record.status == 429:
        return ""
    try:
        value = json.loads(b"".join(payload for _, payload in record.arrivals))
    except (ValueError, RecursionError):
        return ""
    found = value.get("error", value.get("message", value.get("detail"))) if isinstance(value, dict) else None
    text = _message(found) if found else ""
    return f": {re.sub(r'[0-9]+', '…', text)}" if text else ""


def _message(error: object) -> str:
    """What an error says. Servers echo the key that they refuse: it goes before a cut makes it hard to find."""
    text = error.get("message") if isinstance(error, dict) else error
    return redact(str(text))[:120]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
