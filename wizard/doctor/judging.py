"""What the endpoint checks share: variations judged against the plain request, and how evidence is written."""

from __future__ import annotations

from wizard.doctor.bodies import excerpt
from wizard.doctor.engine import Unseen
from wizard.doctor.manners import Manner, Part, manner_of
from wizard.doctor.observations import Exchange, Observations, Target
from wizard.doctor.reach import Reach, Seen, judge_reach, judged
from wizard.i18n import t
from wizard.problems import Severity

# Troubles of the moment: they say nothing about the variation in which they were met.
PASSING = ("rate", "rate-upstream", "overloaded", "not-ready", "gateway-timeout", "waf", "credits")


def evidence(seen: Seen | Exchange | None) -> str:
    """`POST http://… -> 404 {"detail": …}`, or the failure; empty where nothing was sent."""
    if seen is None:
        return ""
    exchange = seen.exchange if isinstance(seen, Seen) else seen
    line = exchange.request.line
    if exchange.request.direct:
        line += t(" (past the proxy)")
    if exchange.failure is not None:
        return f"{line} -> {exchange.failure.kind}: {excerpt(exchange.failure.text, 120)}"
    reply = exchange.reply
    assert reply is not None
    body = excerpt(reply.text, 160)
    kind = reply.header("content-type").split(";")[0]
    return f"{line} -> {reply.status} {body}" if body else f"{line} -> {reply.status} {kind} " + t("(empty body)")


def target_of(seen: Observations) -> Target:
    """The endpoint under judgement. Checks of scope `target` always have one."""
    assert seen.target is not None
    return seen.target


def manner(seen: Observations) -> Manner:
    """The client's manner."""
    return manner_of(target_of(seen).client)


def unseen(seen: Observations) -> Unseen | None:
    """Why nothing can be said about the endpoint's behaviour, if so."""
    if seen.offline:
        return Unseen(t("nothing was sent (--offline)"))
    reach = judge_reach(seen)
    if reach.main is None and reach.best is None:
        return Unseen(t("the question was not asked"))
    if reach.best is None or reach.best.grade == "none":
        return Unseen(t("nothing answered at {url}", url=target_of(seen).base_url))
    return None


def plain_works(reach: Reach) -> bool:
    """Whether the plain request is answered, at whichever place, style and model."""
    return reach.best is not None and reach.best.grade == "works"


def variation(seen: Observations, probe: str) -> Seen | None:
    """A variation's reply, or None where it was not sent."""
    exchange = seen.exchange(probe)
    return judged(seen, exchange, target_of(seen).wire) if exchange else None


def refused(seen: Observations, probe: str) -> Seen | None:
    """The variation's reply when the server refused this very variation, else None."""
    reply = variation(seen, probe)
    if reply is None or reply.grade in ("works", "none", "blocked") or reply.family in PASSING:
        return None
    return reply


def advise(target: Target, base: str, model: str) -> tuple[str, tuple[str, ...]]:
    """(what to do, commands) to have the client ask for that model at that base; no command where no client is meant.

    The text is empty where the cause's own text and the command say it.
    """
    if target.client:
        command = f"llm-setup clients apply {target.client} --base-url {base} --model {model or 'NAME'}"
        return "", (command,)
    if model:
        return t("Use the base URL `{base}` and the model `{model}`.", base=base, model=model), ()
    return t("Use the base URL `{base}`.", base=base), ()


def give_key(target: Target) -> tuple[str, ...]:
    """The command that gives the client its key; none where no client is meant."""
    _, commands = advise(target, target.base_url, target.model)
    return tuple(f"LLM_SETUP_API_KEY=… {command}" for command in commands)


def severity_for(seen: Observations, *parts: Part) -> Severity:
    """An error when the client's requests contain the part; else a warning: another client's would fail."""
    return "error" if manner(seen).sends & set(parts) else "warning"
