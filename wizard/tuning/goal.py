"""What is wanted: limits that must hold, and what to have as much of as possible within them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from wizard.i18n import t
from wizard.problems import ProblemError, usage_error

Then = Literal["throughput", "first-token"]

_METRICS = {
    "ttft": "ttft",
    "first token": "ttft",
    "itl": "itl",
    "between tokens": "itl",
    "tpot": "tpot",
    "e2e": "e2e",
    "whole": "e2e",
}
_CLAUSE = re.compile(
    rf"(?P<metric>{'|'.join(_METRICS)})(?:\s+(?P<part>p50|p90|p99|mean))?\s*(?:<=|<|≤)\s*"
    r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s)",
    re.IGNORECASE,
)
_THROUGHPUT = re.compile(r"(?:tokens/s|throughput)\s*(?:>=|>|≥)\s*(?P<number>\d+(?:\.\d+)?)", re.IGNORECASE)
_AT = re.compile(r"\s+at\s+(?P<users>\d{1,4})(?:\s+users?)?\s*$", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h)", re.IGNORECASE)
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

THROUGHPUT = "tokens_per_s"
FIRST_TOKEN = "ttft_p50_ms"


@dataclass(frozen=True, slots=True)
class Limit:
    """One thing that must hold. value: ms at most, or with `least` a rate at least. name: as in a trial's figures."""

    name: str
    value: float
    least: bool = False

    def excess(self, figures: Mapping[str, float]) -> float:
        """How far beyond the limit, as a share of it: 0.5 is half as much again; 0 or less holds. A figure that is
        missing is far beyond."""
        seen = figures.get(self.name)
        if seen is None:
            return 10.0
        if self.least:
            return self.value / seen - 1 if seen > 0 else 10.0
        return seen / self.value - 1

    @property
    def text(self) -> str:
        """As the user may write it."""
        if self.least:
            return f"tokens/s >= {self.value:g}"
        metric, part, _ = self.name.split("_")
        return f"{metric} {part} <= {self.value:g} ms"


@dataclass(frozen=True, slots=True)
class Goal:
    """Limits, then the objective. users: requests in flight while measuring."""

    limits: tuple[Limit, ...] = ()
    then: Then = "throughput"
    users: int = 4

    @property
    def objective(self) -> str:
        """The figure that is made better once the limits hold."""
        return THROUGHPUT if self.then == "throughput" else FIRST_TOKEN

    def violation(self, figures: Mapping[str, float]) -> float:
        """The sum of what is beyond the limits; 0 where all hold."""
        return sum(max(0.0, limit.excess(figures)) for limit in self.limits)

    def worth(self, figures: Mapping[str, float]) -> float:
        """The objective with more as better: tokens/s, or the reverse of the time to first token."""
        seen = figures.get(self.objective)
        if seen is None or seen <= 0:
            return 0.0
        return seen if self.then == "throughput" else 1000.0 / seen

    def rank(self, figures: Mapping[str, float]) -> tuple[float, float]:
        """For sorting, best first: what holds before what does not, then by worth."""
        return (round(self.violation(figures), 4), -self.worth(figures))

    @property
    def text(self) -> str:
        """For people and for a record's file."""
        after = t("tokens/s") if self.then == "throughput" else t("time to first token")
        first = ", ".join(limit.text for limit in self.limits)
        what = t("{limits}, then {objective}", limits=first, objective=after) if first else after
        return t("{what}, {users} at once", what=what, users=self.users)


def parse_goal(text: str, then: Then = "throughput", users: int | None = None) -> Goal:
    """`ttft p50 <= 200 ms at 4`, several joined by commas or `and`; empty: no limit. users overrides `at N`.

    Raises a usage problem for what is no target.
    """
    told = users
    rest = text.strip()
    found = _AT.search(rest)
    if found:
        told = told or int(found["users"])
        rest = rest[: found.start()]
    limits = [_parse_limit(clause, text) for clause in re.split(r",|\band\b", rest) if clause.strip()]
    if told is not None and not 1 <= told <= 1024:
        raise _bad_goal(text)
    return Goal(tuple(limits), then, told or 4)


def _parse_limit(clause: str, whole: str) -> Limit:
    rate = _THROUGHPUT.fullmatch(clause.strip())
    if rate and float(rate["number"]) > 0:
        return Limit(THROUGHPUT, float(rate["number"]), least=True)
    match = _CLAUSE.fullmatch(clause.strip())
    if match is None or float(match["number"]) <= 0:
        raise _bad_goal(whole)
    value = float(match["number"]) * (1000 if match["unit"].lower() == "s" else 1)
    part = (match["part"] or "p50").lower()
    return Limit(f"{_METRICS[match['metric'].lower()]}_{part}_ms", value)


def _bad_goal(text: str) -> ProblemError:
    return usage_error(
        "bad-target",
        t("`{text}` is no target.", text=text[:80]),
        t(
            "Write ttft, itl, tpot or e2e, p50, p90, p99 or mean, and a limit; or a rate:"
            ' "ttft p50 <= 200 ms at 4", "itl p99 <= 50 ms, tokens/s >= 300 at 8".'
        ),
    )


def parse_duration(text: str) -> float:
    """`90s`, `30m`, `1.5h` in seconds. Raises a usage problem."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise usage_error(
            "bad-duration", t("`{text}` is no length of time.", text=text[:40]), t("Write `90s`, `30m` or `2h`.")
        )
    return float(match[1]) * _SECONDS[match[2].lower()]
