"""A stream with its arrival times becomes a sample."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wizard.bench.samples import Sample, StreamRecord, parse_sample, peak_in_flight, stream_events
from wizard.secret import Secret


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


def test_where_a_schedule_ruled_times_count_from_when_the_request_was_due() -> None:
    sample = parse_sample(record((10.5, event({"content": "a"}) + DONE), due_s=9.0))
    assert sample.time_to_first_token_s == pytest.approx(1.5)
    assert sample.late_s == pytest.approx(1.0)
    assert parse_sample(record((10.5, event({"content": "a"}) + DONE))).late_s is None


@pytest.mark.parametrize(
    ("said", "asked", "is_long"),
    [
        pytest.param(4, 10, False, id="within"),
        pytest.param(11, 10, True, id="more-than-asked-for"),
        pytest.param(8, None, True, id="more-than-bytes"),
        pytest.param(6, None, False, id="the-end-token-counts"),
    ],
)
def test_usage_above_what_can_be_is_not_believed(said: int, asked: int | None, is_long: bool) -> None:
    sample = parse_sample(
        record((10.5, event({"content": "abcde"}) + usage(completion_tokens=said) + DONE)), max_tokens=asked
    )
    assert sample.usage_is_long is is_long
    assert sample.output_tokens == (1 if is_long else said)


def test_reasoning_that_is_counted_and_not_shown_is_believed() -> None:
    told = usage(completion_tokens=500, completion_tokens_details={"reasoning_tokens": 495})
    assert parse_sample(record((10.5, event({"content": "abcde"}) + told + DONE))).output_tokens == 500


def test_the_text_of_an_answer_is_kept_without_its_reasoning() -> None:
    answer = event({"reasoning": "hm"}) + event({"content": "a"}) + event({"content": "b"}) + DONE
    assert parse_sample(record((10.5, answer))).text == "ab"


def test_the_most_under_way_at_once_is_counted() -> None:
    spans = [(0.0, 2.0), (1.0, 3.0), (2.0, 4.0), (5.0, 6.0)]
    assert peak_in_flight([Sample(sent_s=begun, ended_s=ended) for begun, ended in spans]) == 2
    assert peak_in_flight([]) == 0


def test_several_tokens_in_a_chunk_are_counted_by_usage() -> None:
    sample = parse_sample(record((10.5, event({"content": "a b c"}) + usage(completion_tokens=3) + DONE)))
    assert (sample.output_tokens, sample.usage_is_short) == (3, False)


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        pytest.param(record(status=429, headers=(("Retry-After", "2"),)), "HTTP 429, retry after 2 s", id="429"),
        pytest.param(record(status=500), "HTTP 500", id="500"),
        pytest.param(
            record((10.5, b'{"error": {"message": "maximum is 2048, you asked for 12345"}}'), status=400),
            "HTTP 400: maximum is …, you asked for …",
            id="400-with-a-reason",
        ),
        pytest.param(record((10.5, b"<html>"), status=502), "HTTP 502", id="502-of-a-proxy"),
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


@pytest.mark.parametrize("choices", [5, True, {"a": 1}, "text", [5], [{"delta": 5}]])
def test_choices_that_are_none_hold_no_token(choices: object) -> None:
    data = b"data: " + json.dumps({"choices": choices}).encode() + b"\n\n" + DONE
    assert parse_sample(record((10.5, data))).error == "no token"


@pytest.mark.parametrize("before", ["", "x" * 110])
def test_a_key_that_a_refusal_echoes_is_not_told_in_parts_either(before: str) -> None:
    key = Secret("kept12-only34-here56-of78")
    body = json.dumps({"error": {"message": f"{before} {key.reveal()}"}}).encode()
    refused = parse_sample(record((10.5, body), status=401)).error
    broken = parse_sample(record((10.5, b'data: {"error": ' + json.dumps(key.reveal()).encode() + b"}\n\n"))).error
    for error in (refused, broken):
        assert "kept" not in error
        assert "here" not in error
