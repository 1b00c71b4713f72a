"""What the list of models alone tells, when nothing that a model answers may be sent (`--cheap`)."""

from __future__ import annotations

from wizard.doctor.bodies import read_body
from wizard.doctor.causes import found
from wizard.doctor.checks.what import nearest
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.judging import evidence, target_of
from wizard.doctor.manners import model_on_the_wire
from wizard.doctor.observations import Observations
from wizard.doctor.reach import judge_models, judge_reach
from wizard.doctor.symptoms import family_of
from wizard.i18n import t


def list_of_models(seen: Observations) -> Verdict:
    """Key, URL and model's name, as far as `GET /models` shows them."""
    exchange = seen.exchange("models")
    if seen.offline or exchange is None or judge_reach(seen).main is not None:
        return Unseen(t("the model itself was asked") if not seen.offline else t("nothing was sent (--offline)"))
    target, reply = target_of(seen), exchange.reply
    if reply is None:
        return None  # The way to the server says why.
    listed = judge_models(exchange)
    if listed is not None:
        ids = tuple(name for name, _ in listed)
        model = model_on_the_wire(target.client, target.model)
        if not model or model in ids:
            return None
        near = nearest(model, ids)
        return found(
            "model-name-mismatch",
            t("The list of models has no `{model}`.", model=model),
            evidence(exchange),
            t("The list of models has: {models}", models=", ".join(ids[:8])),
            severity="error" if near else "warning",
        )
    if judge_models(seen.exchange("models.v1")) is not None:
        return found(
            "base-url-missing-v1",
            t("The base URL lacks `/v1`: the list of models is below it."),
            evidence(exchange),
            evidence(seen.exchange("models.v1")),
        )
    if family_of(reply, read_body(reply)) == "auth":
        code = "key-invalid" if target.key else "key-missing"
        return found(code, t("The list of models is refused with this key."), evidence(exchange))
    return Unseen(t("the list of models tells nothing, and nothing else may be asked (--cheap)"), unknown=True)


CHECKS = (Check("list-of-models", "The list of models fits (--cheap)", list_of_models, "target"),)
