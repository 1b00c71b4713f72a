"""What a client really sent, and why the first of its requests failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from wizard.doctor.bodies import excerpt
from wizard.doctor.causes import find_cause, found
from wizard.doctor.judging import evidence
from wizard.doctor.observations import Exchange, Wire
from wizard.doctor.reach import Seen, judge_exchange
from wizard.doctor.symptoms import CODES
from wizard.i18n import t
from wizard.problems import Problem


def wire_of_url(url: str) -> Wire | None:
    """The protocol that a path belongs to; None for lists of models and the like."""
    path = urlsplit(url).path.rstrip("/")
    if path.endswith("/messages"):
        return "messages"
    if path.endswith("/responses"):
        return "responses"
    return "chat" if path.endswith("/chat/completions") else None


def describe(exchange: Exchange) -> str:
    """One line: method, path, header of the key, size and parts of the request, status, time."""
    body = exchange.request.body
    parts = [exchange.request.method, urlsplit(exchange.request.url).path, f"[{exchange.request.auth}]"]
    if isinstance(body, dict):
        tools = body.get("tools")
        parts.append(t("model {model}", model=body.get("model")))
        parts += [t("{count} tools", count=len(tools))] if isinstance(tools, list) and tools else []
        parts += [f"{name} {body[name]}" for name in ("max_tokens", "max_completion_tokens") if body.get(name)]
        parts += ["stream"] if body.get("stream") else []
    if exchange.failure is not None:
        return " ".join([*parts, "->", exchange.failure.kind])
    reply = exchange.reply
    assert reply is not None
    kind = reply.header("content-type").split(";")[0]
    return " ".join(
        [*parts, f"-> {reply.status} {kind} {len(reply.body)} B {reply.elapsed_s:.2f} s", reply.cut]
    ).strip()


def explain_first_failure(exchanges: Sequence[Exchange]) -> Problem | None:
    """The cause of the first exchange that no client could use, as far as it alone can tell; None: all were fine."""
    for exchange in exchanges:
        wire = wire_of_url(exchange.request.url)
        if wire is None:
            continue
        seen = judge_exchange(exchange, wire)
        if not seen.usable:
            return _explain(seen)
        if _wanted_a_stream(exchange) and seen.body is not None and seen.body.form == "answer":
            return found(
                "stream-mismatch", t("The client asked for a stream, and JSON came in one piece."), evidence(exchange)
            )
        if seen.reply is not None and seen.reply.cut:
            return found(
                "broken-response-body", t("The answer ended early: {why}", why=seen.reply.cut), evidence(exchange)
            )
    return None


def _wanted_a_stream(exchange: Exchange) -> bool:
    return isinstance(exchange.request.body, dict) and exchange.request.body.get("stream") is True


def _of_path(path: str) -> str:
    """What is wrong with a path that is not served, as far as it tells itself."""
    bare = path.rstrip("/")
    if "/v1/v1/" in path:
        return "base-url-extra-v1"
    if "//" in path:
        return "base-url-trailing-slash"
    if re.search(r"/(?:chat/completions|responses|messages)/(?:v1/)?(?:chat/completions|responses|messages)$", bare):
        return "base-url-full-endpoint"
    if "/v1/" not in path:
        return "base-url-missing-v1"
    if bare.endswith("/responses"):
        return "endpoint-unsupported-responses"
    return "endpoint-unsupported-messages" if bare.endswith("/messages") else "wrong-endpoint-path"


def _explain(seen: Seen) -> Problem:
    exchange = seen.exchange
    if seen.failure is not None:
        return found(
            "server-not-ready", t("Nothing answered: {text}", text=excerpt(seen.failure.text, 100)), evidence(exchange)
        )
    if seen.status < 400:
        code = (
            "html-instead-of-json"
            if seen.grade == "page"
            else "error-in-200-body"
            if seen.body and seen.body.error
            else "unknown-choices-missing"
        )
    elif seen.family == "path":
        code = _of_path(urlsplit(exchange.request.url).path)
    else:
        code = CODES.get(seen.family or "other", "error-in-error-body")
    if seen.status == 413 and code == "error-in-error-body":
        code = "proxy-body-limit"
    if code == "key-invalid" and exchange.request.auth == "none":
        code = "key-missing"
    title = t(find_cause(code).title)
    return found(code, f"{title}: {excerpt(seen.text, 160)}", evidence(exchange))
