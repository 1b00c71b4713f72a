"""What the doctor can mend by itself: a client's triple, where the probes showed which one works."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wizard.doctor.listing import nearest
from wizard.doctor.manners import model_on_the_wire
from wizard.doctor.observations import Observations
from wizard.doctor.reach import judge_reach
from wizard.endpoint.model import Endpoint
from wizard.endpoint.urls import without_version
from wizard.problems import Problem


@dataclass(frozen=True, slots=True)
class Mend:
    """A better triple for one client. codes: the findings that it mends."""

    client: str
    endpoint: Endpoint
    codes: tuple[str, ...]


def plan_mend(seen: Observations, findings: Iterable[Problem]) -> Mend | None:
    """The triple that the probes proved, or None where no finding of this endpoint can be mended so.

    Only what was seen to answer is written: the base at which the protocol is served, the nearest served model.
    """
    target = seen.target
    codes = tuple(finding.code for finding in findings if finding.fix and finding.fix.automatic)
    if target is None or not target.client or not codes or target.source.startswith("--"):
        return None
    reach = judge_reach(seen)
    if reach.base is None or reach.best is None or reach.best.grade not in ("works", "answers"):
        return None
    sent = model_on_the_wire(target.client, target.model)
    model = target.model
    if reach.model_ids and sent not in reach.model_ids:
        model = nearest(sent, reach.model_ids) or target.model
    base = reach.base.rstrip("/")
    if base == target.base_url and model == target.model:
        return None
    messages = target.wire == "messages"
    endpoint = Endpoint(
        name=target.client,
        openai_base_url=f"{base}/v1" if messages else base,
        anthropic_base_url=base if messages else without_version(base),
        model=model,
        key=target.key,
        max_model_len=reach.window(model),
    )
    return Mend(target.client, endpoint, codes)
