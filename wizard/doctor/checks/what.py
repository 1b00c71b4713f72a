"""Whether the server has the model, and what it or a gateway says in place of an answer."""

from __future__ import annotations

import re

from wizard.doctor.bodies import excerpt
from wizard.doctor.causes import found
from wizard.doctor.engine import Check, Verdict
from wizard.doctor.judging import advise, evidence, manner, target_of, unseen
from wizard.doctor.listing import lists_as_vllm, model_by_list, nearest, only_listed
from wizard.doctor.manners import model_on_the_wire
from wizard.doctor.observations import Observations
from wizard.doctor.reach import Reach, Seen, judge_reach, judged
from wizard.doctor.symptoms import FRONT_CODES
from wizard.i18n import t
from wizard.problems import Problem

_CHANNEL_WORDS = re.compile(r"渠道|通道|分组|channel|group|endpoints? found", re.I)


def model_served(seen: Observations) -> Verdict:
    """Whether the server knows the model by the name that is sent."""
    if only_listed(seen):
        return model_by_list(seen)
    skipped = unseen(seen)
    if skipped is not None:
        return skipped
    reach, target = judge_reach(seen), target_of(seen)
    best = reach.best
    model = model_on_the_wire(target.client, target.model)
    if best is not None and best.grade == "answers":
        near = nearest(model, reach.model_ids)
        missing = bool(reach.model_ids) and model not in reach.model_ids
        if (
            best.family == "model"
            or (best.family == "no-channel" and missing and near and not _CHANNEL_WORDS.search(best.text))
            or (best.family in ("other", "auth", "upstream-auth") and best.status == 404 and missing)
        ):
            return _mismatch(seen, reach, best, model)
    return _small_model(seen, reach)


def _mismatch(seen: Observations, reach: Reach, best: Seen, model: str) -> Problem:
    target = target_of(seen)
    near = nearest(model, reach.model_ids)
    saw = [evidence(best)]
    if reach.model_ids:
        saw.append(t("The list of models has: {models}", models=", ".join(reach.model_ids[:8])))
    if model in reach.model_ids:
        what = t("The server lists `{model}` and refuses it: {text}", model=model, text=excerpt(best.text, 120))
    else:
        what = t("The server does not serve `{model}`.", model=model)
    name = near or (reach.model_ids[0] if reach.model_ids else "")
    _, commands = advise(target, target.base_url, name) if name else ("", ())
    fix = ""
    if name and lists_as_vllm(seen.exchange("models")):
        fix = t("Ask for `{name}`, or start vLLM with `--served-model-name {model}`.", name=name, model=model)
    elif name:
        fix = t("Ask for `{name}`, or another of the list.", name=name)
    return found("model-name-mismatch", what, *saw, fix=fix, commands=commands, automatic=bool(near))


def _small_model(seen: Observations, reach: Reach) -> Problem | None:
    target = target_of(seen)
    refused = [
        reply
        for exchange in seen.exchanges
        if exchange.probe.startswith("small.")
        and (reply := judged(seen, exchange, target.wire)).grade == "answers"
        and reply.family == "model"
    ]
    if not refused:
        return None
    names = [reply.exchange.probe[6:] for reply in refused]
    own = target.small_model is not None
    model = target.model
    return found(
        "model-name-mismatch",
        t(
            "The server does not serve `{name}`, which {client} uses for side jobs.",
            name=names[0],
            client=manner(seen).title,
        )
        if own
        else t(
            "Side jobs of {client} ask for `{name}`, which the server does not serve.",
            name=names[0],
            client=manner(seen).title,
        ),
        evidence(refused[0]),
        severity="error" if own else "warning",
        fix=t("Set the small model too, to `{model}`.", model=model),
        commands=(f"export ANTHROPIC_DEFAULT_HAIKU_MODEL={model}",) if target.client == "claude-code" else (),
    )


def gateway_says(seen: Observations) -> Verdict:
    """What stands between the client and an answer though URL and connection are right."""
    skipped = unseen(seen)
    if skipped is not None:
        return skipped
    reach, target = judge_reach(seen), target_of(seen)
    best = reach.best
    if best is None or best.family is None or best.grade == "works":
        return None
    text = excerpt(best.text, 160)
    if best.family == "no-channel":
        model = model_on_the_wire(target.client, target.model)
        if (
            reach.model_ids
            and model not in reach.model_ids
            and nearest(model, reach.model_ids)
            and not _CHANNEL_WORDS.search(best.text)
        ):
            return None  # A name one letter away is in the list: that is the cause, and model_served says it.
        return found(
            "gateway-no-channel",
            t("The gateway has no way to `{model}`: {text}", model=model, text=text),
            evidence(best),
            *_listed(reach),
        )
    code = FRONT_CODES.get(best.family)
    if code is None:
        return None
    if code == "rate-limited" and best.reply is not None:
        wait = best.reply.header("retry-after")
        return found(
            code,
            t("The server refuses for now: {text}", text=text),
            evidence(best),
            t("retry-after: {wait}", wait=wait) if wait else "",
        )
    if code == "waf-block":
        browser = seen.exchange("main.browser")
        passed = browser is not None and judged(seen, browser, target.wire).grade in ("works", "answers")
        return found(
            code,
            t("A firewall in front of the API answers in its place ({status}).", status=best.status),
            evidence(best),
            evidence(browser) if passed else "",
            t("server: {server}", server=best.reply.header("server"))
            if best.reply and best.reply.header("server")
            else "",
            fix=t(
                "It blocks the client by its name (User-Agent): ask the operator to let `{agent}` through.",
                agent=manner(seen).user_agent,
            )
            if passed
            else "",
        )
    if code == "server-not-ready":
        return found(
            code,
            t("What stands in front finds no server behind it, or one that is still loading: {text}", text=text),
            evidence(best),
        )
    if code == "proxy-read-timeout":
        return found(
            code,
            t(
                "A proxy gave up after {seconds:.0f} s: {text}",
                seconds=best.reply.elapsed_s if best.reply else 0,
                text=text,
            ),
            evidence(best),
        )
    return found(code, text or best.family, evidence(best))


def _listed(reach: Reach) -> tuple[str, ...]:
    if not reach.model_ids:
        return ()
    return (t("This key's list of models has: {models}", models=", ".join(reach.model_ids[:8])),)


CHECKS = (
    Check("gateway", "Nothing in front of the model refuses", gateway_says, "target"),
    Check("model", "The server serves the model", model_served, "target", vital=True),
)
