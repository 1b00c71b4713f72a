"""A stream with its arrival times becomes a sample."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wizard.bench.samples import StreamRecord, parse_sample, stream_events


def event(delta: dict[str, Any] | None = None, **values: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, **values}]
    return b"data: " + json.dumps({"choices": choices}).encode() + b"\n\n"


def usage(**values: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [], "usage": values}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def record(*arrivals: tuple[float, bytes], **values: Any) -> StreamRecord:
    given: dict[str, Any] = {"sent_s": 10.0, "ended_s": 20.0, "status": 200} | values
    return StreamRecord(arrivals=arrivals, **given)


def test_times_count_from_the_request_to_chunks_with_tokens() -> None:
    sample = parse_sample(
        record(
            (10.1, event({"role": "assistant", "content": ""})),
            (10.5, event({"content": "a"})),
            (10.7, event({"content": "b"})),
            (11.0, event({"content": "c"}, finish_reason="stop")),
            (11.1, usage(prompt_tokens=7, completion_tokens=3, prompt_tokens_details={"cached_tokens": 4}) + DONE),
        )
    )
    assert sample.error == ""
    assert sample.time_to_first_token_s == pytest.approx(0.5)
    assert sample.end_to_end_s == pytest.approx(1.0)
    assert sample.gaps_s == pytest.approx((0.2, 0.3))
    assert sample.time_per_output_token_s == pytest.approx(0.25)
    assert (sample.output_tokens, sample.prompt_tokens, sample.cached_tokens) == (3, 7, 4)


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content", "content"])
def test_reasoning_is_a_first_token_like_any(key: str) -> None:
    sample = parse_sample(record((10.5, event({key: "hm"})), (11.0, event({"content": "x"}) + DONE)))
    assert sample.time_to_first_token_s == pytest.approx(0.5)


def test_a_tool_call_is_a_token() -> None:
    sample = parse_sample(record((10.5, event({"tool_calls": [{"index": 0}]}) + DONE)))
    assert len(sample.token_s) == 1
    assert sample.time_per_output_token_s is None


def test_events_are_found_across_reads_and_several_in_one() -> None:
    whole = event({"content": "a"}) + event({"content": "b"})
    reads = [(1.0, whole[:10]), (2.0, whole[10:-1]), (3.0, whole[-1:])]
    assert [when for when, _ in stream_events(reads)] == [2.0, 3.0]


def test_comments_carriage_returns_and_a_missing_last_line_end_are_fine() -> None:
    reads = [(1.0, b": ping\r\n\r\ndata: 1\r\n\r\n"), (2.0, b"data: 2")]
    assert list(stream_events(reads)) == [(1.0, "1"), (2.0, "2")]


def test_without_usage_chunks_are_counted() -> None:
    sample = parse_sample(record((10.5, event({"content": "a"})), (11.0, event({"content": "b"}) + DONE)))
    assert (sample.output_tokens, sample.usage_said) == (2, False)


def test_usage_below_the_number_of_chunks_is_not_believed() -> None:
    chunks = b"".join(event({"content": "a"}) for _ in range(5))
    sample = parse_sample(record((10.5, chunks + usage(completion_tokens=2) + DONE)))
    assert (sample.output_tokens, sample.usage_is_short) == (5, True)


def test_several_tokens_in_a_chunk_are_counted_by_usage() -> None:
    sample = parse_sample(record((10.5, event({"content": "a b c"}) + usage(completion_tokens=3) + DONE)))
    assert (sample.output_tokens, sample.usage_is_short) == (3, False)


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        pytest.param(record(status=429, headers=(("Retry-After", "2"),)), "HTTP 429, retry after 2 s", id="429"),
        pytest.param(record(status=500), "HTTP 500", id="500"),
        pytest.param(record(status=0, failure="no connection: OSError"), "no connection: OSError", id="refused"),
        pytest.param(record((10.5, event({"content": "a"})), failure="cut off"), "cut off", id="cut"),
        pytest.param(record((10.5, event({"content": "a"}))), "the stream ended early", id="no-end"),
        pytest.param(record((10.5, event({"role": "assistant"}) + DONE)), "no token", id="empty"),
        pytest.param(record((10.5, b"data: <html>\n\n")), "an event that is no JSON", id="html"),
        pytest.param(
            record((10.5, b'data: {"error": {"message": "out of memory"}}\n\n')),
            "error event: out of memory",
            id="error-event",
        ),
    ],
)
def test_what_is_no_whole_answer_is_an_error(broken: StreamRecord, error: str) -> None:
    assert parse_sample(broken).error == error
