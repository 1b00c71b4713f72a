"""What the plain answer is: whole, JSON, with something said in it."""

from __future__ import annotations

import re

from wizard.doctor.bodies import Body, Spoken, excerpt
from wizard.doctor.causes import found
from wizard.doctor.engine import Check, Verdict
from wizard.doctor.judging import evidence, target_of, unseen, variation
from wizard.doctor.observations import Observations
from wizard.doctor.reach import Seen, judge_reach
from wizard.i18n import t
from wizard.problems import Problem


def plain_answer(seen: Observations) -> Verdict:
    """The plain request's reply, judged by its body."""
    skipped = unseen(seen)
    exchange = seen.exchange("main") or seen.exchange("models")
    failure = exchange.failure if exchange else None
    network = seen.network
    straight = network is not None and network.reachable and network.scheme == "http" and not network.proxy.proxy
    if failure is not None and failure.kind in ("reset", "protocol") and straight:
        return found(
            "broken-response-body",
            t("The connection is closed, or something that is no HTTP comes: {text}", text=excerpt(failure.text, 100)),
            evidence(exchange),
        )
    if skipped is not None:
        return skipped
    best = judge_reach(seen).best
    if best is None or best.body is None or best.reply is None:
        return None
    if best.grade == "works":
        return _whole(best) or _said(seen, best)
    if best.grade == "answers" and best.status < 400:
        return _not_an_answer(best, best.body)
    if best.grade == "answers" and best.family in ("other", "server-error"):
        return _by_what_passes(seen, best) or _unexplained(best)
    return None


def _whole(best: Seen) -> Problem | None:
    body, reply = best.body, best.reply
    assert body is not None and reply is not None
    if body.form == "stream":
        return found(
            "stream-mismatch",
            t("A stream came, though none was asked for."),
            evidence(best),
            t("content type: {kind}", kind=reply.header("content-type")),
        )
    if reply.cut and not reply.cut.startswith("more than"):
        return found("broken-response-body", t("The reply ended early: {why}", why=reply.cut), evidence(best))
    if body.lie:
        return found(
            "broken-response-body",
            t("The reply is not what its headers say: {what}", what=body.lie),
            evidence(best),
            severity="warning",
        )
    return None


def _said(seen: Observations, best: Seen) -> Problem | None:
    spoken = best.body.spoken if best.body else None
    if spoken is None:
        return None
    if spoken.finish == "error":
        return found(
            "error-in-200-body",
            t("The answer has status 200 and `finish_reason` `error`: {text}", text=excerpt(spoken.content, 120)),
            evidence(best),
        )
    if spoken.content.strip() or spoken.tool_calls:
        return _error_as_answer(best, spoken)
    if best.body and best.body.error:
        return found(
            "error-in-200-body",
            t("Status 200 with an error inside: {text}", text=excerpt(best.text, 120)),
            evidence(best),
        )
    wire = target_of(seen).wire
    prefix = {"chat": "chat", "responses": "responses", "messages": "messages"}[wire]
    roomy = variation(seen, f"{prefix}.roomy")
    said_more = roomy.body.spoken if roomy and roomy.body and roomy.grade == "works" else None
    return _empty(seen, best, spoken, roomy, said_more)


def _empty(seen: Observations, best: Seen, spoken: Spoken, roomy: Seen | None, more: Spoken | None) -> Problem | None:
    target = target_of(seen)
    if spoken.finish in ("content_filter", "refusal"):
        return found("content-filtered", t("A content filter removed the answer."), evidence(best))
    cut = spoken.finish == "length"
    if spoken.reasoning and cut:
        still = more is not None and not more.content.strip() and not more.tool_calls
        small = target.max_tokens is not None and target.max_tokens <= 1024
        return found(
            "reasoning-ate-budget",
            t("Reasoning used all of the tokens, and even 1024 left no answer.")
            if still
            else t("With few tokens the model only reasons: `content` is empty; with 1024 it answers."),
            evidence(best),
            evidence(roomy),
            severity="error" if (still or small) else "info",
        )
    if spoken.reasoning:
        return found(
            "reasoning-field-ignored",
            t("The answer stands in the reasoning field, `content` is empty."),
            evidence(best),
        )
    if cut:
        if more is None or more.content.strip() or more.reasoning or more.tool_calls:
            return None  # Sixteen tokens were too few for this model's first word; with more it speaks.
        return found(
            "parser-lost-content",
            t("Tokens were generated up to the limit, and no text arrived."),
            evidence(best),
            evidence(roomy),
        )
    if spoken.completion_tokens:
        if more is not None and more.content.strip():
            return None
        return found(
            "parser-lost-content",
            t("{count} tokens were generated, and no text arrived.", count=spoken.completion_tokens),
            evidence(best),
        )
    if target.wire == "responses":
        return None  # The responses check says what a hidden truncation is.
    return found("empty-content", t("The answer is well-formed and empty."), evidence(best), severity="warning")


_FAILED_TEXT = re.compile(r"^\s*(?:generation failed|internal server error|error:|exception:|traceback)", re.I)


def _error_as_answer(best: Seen, spoken: Spoken) -> Problem | None:
    if not _FAILED_TEXT.search(spoken.content) or spoken.completion_tokens:
        return None
    return found(
        "error-in-200-body",
        t("The answer's text is an error: {text}", text=excerpt(spoken.content, 120)),
        evidence(best),
    )


def _by_what_passes(seen: Observations, best: Seen) -> Problem | None:
    """A refusal in words that nobody knows: the one change with which the same request passes says what it is about."""
    if best.status >= 500:
        return None
    wire, text = target_of(seen).wire, excerpt(best.text, 120)
    changes = (
        (
            f"{wire}.stream",
            "stream-mismatch",
            t("The server answers only where a stream is asked for: {text}", text=text),
        ),
        (
            "chat.completion-tokens",
            "unsupported-params",
            t("The server takes `max_completion_tokens` and refuses `max_tokens`: {text}", text=text),
        ),
        (
            "chat.parts",
            "content-parts-unsupported",
            t("The server takes content as a list of parts and refuses it as a text: {text}", text=text),
        ),
    )
    for probe, code, what in changes:
        passed = variation(seen, probe)
        if passed is not None and passed.grade == "works":
            return found(code, what, evidence(best), evidence(passed))
    return None


def _unexplained(best: Seen) -> Problem:
    body, status = best.body, best.status
    assert body is not None
    if status >= 500:
        return found(
            "server-bug-500",
            t("The server fails inside ({status}): {text}", status=status, text=excerpt(best.text, 120)),
            evidence(best),
        )
    if body.form == "empty":
        return found(
            "unknown-400-no-body", t("The server answers {status} without a word.", status=status), evidence(best)
        )
    return found(
        "error-in-error-body",
        t("The server refuses ({status}): {text}", status=status, text=excerpt(best.text, 140)),
        evidence(best),
    )


def _not_an_answer(best: Seen, body: Body) -> Problem:
    if body.form == "error":
        return found(
            "error-in-200-body",
            t("Status 200 with an error inside: {text}", text=excerpt(best.text, 140)),
            evidence(best),
        )
    if body.form in ("broken", "empty", "text"):
        what = {"broken": body.lie or t("not JSON"), "empty": t("nothing"), "text": t("plain text")}[body.form]
        return found("broken-response-body", t("Status 200, and the body is {what}.", what=what), evidence(best))
    if body.form == "stream":
        return found("stream-mismatch", t("A stream came, though none was asked for."), evidence(best))
    choices = body.value.get("choices") if isinstance(body.value, dict) else None
    if isinstance(choices, list) and choices and isinstance(choices[0], dict) and "delta" in choices[0]:
        return found("stream-mismatch", t("A piece of a stream came, though none was asked for."), evidence(best))
    return found("unknown-choices-missing", t("The reply is JSON, and not an answer in this protocol."), evidence(best))


CHECKS = (Check("answer", "The plain answer is whole and says something", plain_answer, "target"),)
