"""Whether a stream is one, whole, and free of what trips clients."""

from __future__ import annotations

import itertools
import statistics

from wizard.doctor.bodies import Event, excerpt, read_body
from wizard.doctor.causes import found
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.judging import PASSING, evidence, manner, target_of, unseen, variation
from wizard.doctor.observations import Exchange, Observations
from wizard.doctor.probes import LONG_STREAM
from wizard.doctor.reach import Seen, judge_reach
from wizard.endpoint.exchange import HttpReply
from wizard.i18n import t
from wizard.problems import Problem

_MIN_BUFFERED_S = 2.0
_MIN_BUFFERED_EVENTS = 8
# How much later than a whole short answer a stream's first piece has to be: a busy machine delays both.
_MIN_HELD_S = 1.0
_MIN_HELD_TIMES = 3.0
_ONE_PIECE_S = 0.1
_MIN_FIRST_SHARE = 0.25
# Medians, because a busy machine joins some events.
_MIN_GULPS = 4
_MIN_EVENTS_A_GULP = 8
_MIN_GULP_GAP_S = 0.3


def stream_shape(seen: Observations) -> Verdict:
    """The answer to `stream: true`."""
    skipped = unseen(seen)
    if skipped is not None:
        return skipped
    wire = target_of(seen).wire
    name = f"{wire}.stream"
    exchange = seen.exchange(name)
    if exchange is None:
        return Unseen(t("no stream was asked for"))
    judged = variation(seen, name)
    assert judged is not None
    if exchange.failure is not None:
        if exchange.failure.kind in ("reset", "protocol"):
            return found("broken-response-body", t("The stream breaks off before its first byte."), evidence(judged))
        return None
    body, reply = judged.body, exchange.reply
    assert body is not None and reply is not None
    if body.form == "stream" and reply.status < 400:
        return tuple(_stream(judged, reply, body.events, wire))
    if reply.cut and not reply.cut.startswith("more than"):
        return found("broken-response-body", t("The stream is cut off: {why}", why=reply.cut), evidence(judged))
    if judged.grade == "works" and judge_reach(seen).best is not None:
        return found(
            "stream-mismatch", t("A stream was asked for, and JSON came."), evidence(judged), severity="warning"
        )
    if judged.family in PASSING or reply.status >= 400:
        return _refused(seen, judged)
    return None


def _refused(seen: Observations, judged: Seen) -> Problem | None:
    best = judge_reach(seen).best
    if best is None or best.grade != "works" or judged.family in PASSING:
        return None
    return found(
        "server-bug-500" if judged.status >= 500 else "stream-mismatch",
        t("The plain request is answered, the same as a stream is refused: {text}", text=excerpt(judged.text, 120)),
        evidence(judged),
    )


def _stream(judged: Seen, reply: HttpReply, events: tuple[Event, ...], wire: str) -> list[Problem]:
    problems: list[Problem] = []
    body = judged.body
    assert body is not None
    with_data = [event for event in events if event.has_data]
    broken = next((e for e in with_data if isinstance(e.data, str) and not e.done), None)
    finished = any(e.done for e in events) or _finished(events, wire)
    if body.error is not None:
        problems.append(
            found(
                "error-in-200-body",
                t("The stream carries an error: {text}", text=excerpt(body.error.message, 120)),
                evidence(judged),
            )
        )
    elif (reply.cut and not reply.cut.startswith("more than")) or (broken is not None and broken is with_data[-1]):
        problems.append(
            found(
                "broken-response-body",
                t("The stream is cut off: {why}", why=reply.cut or t("its last event is not whole")),
                evidence(judged),
            )
        )
    elif broken is not None:
        problems.append(
            found(
                "broken-response-body",
                t("An event of the stream is not JSON: {text}", text=excerpt(str(broken.data), 80)),
                evidence(judged),
            )
        )
    elif not finished and with_data:
        problems.append(
            found(
                "broken-response-body",
                t("The stream ends without `finish_reason` and without `[DONE]`."),
                evidence(judged),
            )
        )
    if body.lie:
        problems.append(
            found(
                "broken-response-body",
                t("The stream is not what its headers say: {what}", what=body.lie),
                evidence(judged),
            )
        )
    problems += _meta(judged, events)
    if wire == "chat":
        problems += _choices(judged, with_data)
    problems += _buffered(judged, reply, with_data)
    return problems


def _finished(events: tuple[Event, ...], wire: str) -> bool:
    for event in events:
        if not isinstance(event.data, dict):
            continue
        if wire == "messages" and event.data.get("type") in ("message_stop", "message_delta"):
            return True
        if wire == "responses" and str(event.data.get("type", "")).startswith(
            ("response.completed", "response.incomplete")
        ):
            return True
        choices = event.data.get("choices")
        ended = isinstance(choices, list) and any(isinstance(c, dict) and c.get("finish_reason") for c in choices)
        if wire == "chat" and ended:
            return True
    return False


def _choices(judged: Seen, with_data: list[Event]) -> list[Problem]:
    chunks = [event.data for event in with_data if isinstance(event.data, dict)]
    if not chunks:
        return []
    empty = [index for index, chunk in enumerate(chunks) if chunk.get("choices") == []]
    if not empty:
        return []
    if empty[0] == 0 and len(chunks) > 1:
        return [
            found(
                "empty-choices-first-chunk",
                t("The first chunk of the stream has no choices."),
                evidence(judged),
                severity="warning",
            )
        ]
    last = chunks[empty[-1]]
    if empty[-1] == len(chunks) - 1 and last.get("usage"):
        return [
            found(
                "empty-choices-usage-chunk",
                t("The stream ends with a chunk of token counts without choices, though none was asked for."),
                evidence(judged),
                severity="info",
            )
        ]
    return [
        found(
            "empty-choices-first-chunk",
            t("A chunk of the stream has no choices."),
            evidence(judged),
            severity="info",
        )
    ]


def _meta(judged: Seen, events: tuple[Event, ...]) -> list[Problem]:
    without = [event for event in events if not event.has_data]
    if not without:
        return []
    names = ", ".join(dict.fromkeys(name or t("comment") for event in without for name in event.fields))
    return [
        found(
            "sse-meta-events",
            t("The stream has events without data ({names}).", names=names),
            evidence(judged),
            severity="info",
        )
    ]


def _buffered(judged: Seen, reply: HttpReply, with_data: list[Event]) -> list[Problem]:
    """All of it at once, at the end: the arrivals tell. A short answer proves nothing."""
    if len(with_data) < _MIN_BUFFERED_EVENTS or reply.elapsed_s < _MIN_BUFFERED_S or not reply.arrivals:
        return []
    first = reply.arrivals[0][0]
    if first < 0.9 * reply.elapsed_s:
        return []
    return [
        found(
            "proxy-buffering",
            t(
                "{count} chunks arrived together after {seconds:.1f} s: something in between holds the stream back.",
                count=len(with_data),
                seconds=first,
            ),
            evidence(judged),
            severity="warning",
        )
    ]


def stream_flows(seen: Observations) -> Verdict:
    """Whether a longer stream arrives as it is made.

    The first piece of a stream comes sooner than a whole short answer; where it comes much later, somebody collects.
    A smaller buffer shows by pieces that hold many events each and come at intervals that people notice.
    """
    exchange = seen.exchange(LONG_STREAM)
    reply = exchange.reply if exchange is not None else None
    if exchange is None or (reply is not None and reply.status >= 300):
        return Unseen(t("no longer stream was asked for: nothing seems to stand in front of the server"))
    if reply is None:
        return _nothing_came(seen, exchange)
    first = reply.arrivals[0][0] if reply.arrivals else reply.elapsed_s
    quickest = _quickest_answer_s(seen)
    late = quickest is not None and _is_late(first, quickest) and _came_at_once(reply)
    if not late and not _in_gulps(reply):
        return None
    return found(
        "proxy-buffering",
        t(
            "A stream's first of {pieces} pieces came after {first:.1f} s; a whole short answer takes {quick:.1f} s. "
            "Something in between collects the stream.",
            first=first,
            pieces=len(reply.arrivals),
            quick=quickest or 0,
        ),
        evidence(exchange),
        t("server: {server}", server=server) if (server := reply.header("server")) else "",
        severity="error" if "stream" in manner(seen).sends else "warning",
    )


def _nothing_came(seen: Observations, exchange: Exchange) -> Verdict:
    """Not even the answer's head within the time, though a whole short answer takes a part of it."""
    failure, quickest = exchange.failure, _quickest_answer_s(seen)
    if failure is None or failure.kind != "timeout" or quickest is None:
        return Unseen(t("the longer stream was not answered"), unknown=True)
    if not _is_late(failure.elapsed_s, quickest):
        return None
    return found(
        "proxy-buffering",
        t(
            "Of a longer stream nothing came within {seconds:.0f} s; a whole short answer takes {quick:.1f} s. "
            "Something in between collects the stream.",
            seconds=failure.elapsed_s,
            quick=quickest,
        ),
        evidence(exchange),
        severity="error" if "stream" in manner(seen).sends else "warning",
    )


def _is_late(first_s: float, quickest_s: float) -> bool:
    """Whether a first piece after so long was held back, beside a whole short answer."""
    return first_s >= max(_MIN_HELD_S, _MIN_HELD_TIMES * quickest_s)


def _quickest_answer_s(seen: Observations) -> float | None:
    """The shortest time in which a whole answer of a few tokens came."""
    times = [
        exchange.reply.elapsed_s
        for exchange in seen.exchanges
        if exchange.reply is not None
        and exchange.reply.status == 200
        and exchange.request.method == "POST"
        and not (isinstance(exchange.request.body, dict) and exchange.request.body.get("stream"))
        and exchange.probe != "count-tokens"
    ]
    return min(times, default=None)


def _came_at_once(reply: HttpReply) -> bool:
    """Whether the first piece holds much of the whole: what a busy machine only delays goes on piece by piece."""
    if not reply.arrivals:
        return True
    first = reply.arrivals[0][0]
    size = max(size for seconds, size in reply.arrivals if seconds <= first + _ONE_PIECE_S)
    return size >= _MIN_FIRST_SHARE * reply.arrivals[-1][1]


def _in_gulps(reply: HttpReply) -> bool:
    if len(reply.arrivals) < _MIN_GULPS:
        return False
    events = sum(1 for event in read_body(reply, "chat").events if event.has_data)
    sizes = [now[1] - before[1] for before, now in itertools.pairwise(((0.0, 0), *reply.arrivals))]
    gaps = [now[0] - before[0] for before, now in itertools.pairwise(reply.arrivals)]
    per_gulp = statistics.median(sizes) * events / max(reply.arrivals[-1][1], 1)
    return per_gulp >= _MIN_EVENTS_A_GULP and statistics.median(gaps) >= _MIN_GULP_GAP_S


CHECKS = (
    Check("stream", "A stream is whole and of the usual shape", stream_shape, "target"),
    Check("stream-flows", "A stream arrives as it is made", stream_flows, "target"),
)
