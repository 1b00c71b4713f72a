"""Targets side by side: ratios with intervals, what a million tokens cost, and one sentence for each purpose."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from wizard.bench.figures import Figures, percentile
from wizard.bench.samples import Sample
from wizard.i18n import t

Purpose = Literal["chat", "agent", "batch"]
Quantity = Literal["time_to_first_token_ms", "time_per_output_token_ms", "end_to_end_ms", "output_tokens_per_s"]

# What a target was put under: (requests a second or 0, at once or 0). Ascending is rising.
Load = tuple[float, float]

T = TypeVar("T")

_QUANTITIES: tuple[Quantity, ...] = (
    "time_to_first_token_ms",
    "time_per_output_token_ms",
    "end_to_end_ms",
    "output_tokens_per_s",
)
_RESAMPLES = 500
# More samples than this tell the bootstrap nothing that so many do not.
_MOST_SAMPLES = 400
# A turn of a coding agent: a tool call with a short word before it.
_AGENT_TOKENS = 150
_CHAT_TOKENS = 200


@dataclass(frozen=True, slots=True)
class Price:
    """What a target costs, in a currency that the user knows: for a million prompt and output tokens, or an hour."""

    million_prompt: float = 0.0
    million_output: float = 0.0
    hour: float = 0.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """The second target's figure by the first's, with the interval that holds 95 of 100 resamplings."""

    quantity: Quantity
    first: str
    second: str
    load: Load
    cache: str
    value: float
    low: float
    high: float

    @property
    def decided(self) -> bool:
        """Whether the run can tell the two apart."""
        return not self.low <= 1.0 <= self.high

    def as_json(self) -> dict[str, Any]:
        """One entry of `ratios`."""
        return {
            "quantity": self.quantity,
            "first": self.first,
            "second": self.second,
            "concurrency": None if self.load[0] else int(self.load[1]),
            "request_rate_per_s": self.load[0] or None,
            "cache": self.cache,
            "ratio": round(self.value, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which target serves a purpose better. best: its name; empty where the run cannot tell."""

    purpose: Purpose
    best: str
    sentence: str

    def as_json(self) -> dict[str, Any]:
        """One entry of `verdicts`."""
        return {"purpose": self.purpose, "best": self.best, "sentence": self.sentence}


Taken = tuple[Figures, Sequence[Sample]]


def load_of(figures: Figures) -> Load:
    """At a rate, how many were under way at once is the server's doing."""
    return (figures.rate_per_s, 0.0) if figures.rate_per_s else (0.0, float(figures.concurrency))


def compute_ratios(taken: Sequence[Taken], seed: int = 0) -> tuple[Ratio, ...]:
    """Every other target against the first one, at each load and cache that both have."""
    by_load: dict[tuple[Load, str], list[Taken]] = {}
    for figures, samples in taken:
        by_load.setdefault((load_of(figures), figures.cache), []).append((figures, samples))
    found: list[Ratio] = []
    for (load, cache), (first, *others) in by_load.items():
        for other in others:
            for quantity in _QUANTITIES:
                if quantity == "output_tokens_per_s" and load[0]:
                    continue  # at a rate it is the rate that sets the throughput
                interval = _interval(quantity, _good(first[1]), _good(other[1]), seed)
                if interval:
                    names = (first[0].target, other[0].target)
                    found.append(Ratio(quantity, *names, load, cache, *interval))
    return tuple(found)


def _good(samples: Sequence[Sample]) -> list[Sample]:
    return [sample for sample in samples if not sample.error][:_MOST_SAMPLES]


# What of a sample the median is taken of.
_VALUES: dict[Quantity, Callable[[Sample], float | None]] = {
    "time_to_first_token_ms": lambda sample: sample.time_to_first_token_s,
    "time_per_output_token_ms": lambda sample: sample.time_per_output_token_s,
    "end_to_end_ms": lambda sample: sample.end_to_end_s,
}


def _median(values: Sequence[float]) -> float:
    return percentile(sorted(values), 50)


def _throughput(pairs: Sequence[tuple[int, float]]) -> float:
    """Tokens a second of one place; with as many places on both sides the ratio is that of the throughputs."""
    seconds = sum(seconds for _, seconds in pairs)
    return sum(tokens for tokens, _ in pairs) / seconds if seconds else 0.0


def _interval(
    quantity: Quantity, first: Sequence[Sample], second: Sequence[Sample], seed: int
) -> tuple[float, float, float] | None:
    """(ratio, low, high); None where a side has nothing to compare."""
    if quantity == "output_tokens_per_s":
        pairs = [[(sample.output_tokens, sample.end_to_end_s) for sample in side] for side in (first, second)]
        return _bootstrap(pairs[0], pairs[1], _throughput, seed)
    of = _VALUES[quantity]
    values = [[value for sample in side if (value := of(sample)) is not None] for side in (first, second)]
    return _bootstrap(values[0], values[1], _median, seed)


def _bootstrap(
    first: Sequence[T], second: Sequence[T], estimate: Callable[[Sequence[T]], float], seed: int
) -> tuple[float, float, float] | None:
    """The percentile bootstrap (Efron): each side is drawn again from itself."""
    if not first or not second:
        return None
    one, other = estimate(first), estimate(second)
    if not one or not other:
        return None
    chosen = random.Random(seed)
    ratios: list[float] = []
    for _ in range(_RESAMPLES):
        below = estimate(chosen.choices(first, k=len(first)))
        above = estimate(chosen.choices(second, k=len(second)))
        if below and above:
            ratios.append(above / below)
    if not ratios:
        return None
    ratios.sort()
    return other / one, percentile(ratios, 2.5), percentile(ratios, 97.5)


def cost_per_million_tokens(figures: Figures, price: Price) -> float | None:
    """What a million tokens of this workload, prompts and answers together, cost; None where that is not known.

    An hour's price counts for the throughput that was measured: a server that idles costs more.
    """
    if figures.prompt_tokens is None or not figures.output_tokens or figures.wall_s <= 0:
        return None
    total = figures.prompt_tokens + figures.output_tokens
    cost = figures.prompt_tokens / 1e6 * price.million_prompt + figures.output_tokens / 1e6 * price.million_output
    cost += figures.wall_s / 3600 * price.hour
    return cost / total * 1e6


def judge_targets(taken: Sequence[Taken], prices: Mapping[str, Price]) -> tuple[Verdict, ...]:
    """One sentence for each purpose, where there are two targets or more with answers."""
    names = list(dict.fromkeys(figures.target for figures, _ in taken))
    answered = [name for name in names if any(one.target == name and one.end_to_end_ms for one, _ in taken)]
    if len(names) < 2 or not answered:
        return ()
    if len(answered) == 1:
        purposes: tuple[Purpose, ...] = ("chat", "agent", "batch")
        only = t("Only {name} gave whole answers.", name=answered[0])
        return tuple(Verdict(purpose, answered[0], only) for purpose in purposes)
    at_load: dict[Load, list[Taken]] = {}
    for one in taken:
        if one[0].end_to_end_ms:
            at_load.setdefault(load_of(one[0]), []).append(one)
    # The lowest load at which there are two to compare.
    several = (side for _, side in sorted(at_load.items()) if len({one.target for one, _ in side}) > 1)
    alone = next(several, None)
    latency = (_judge_latency("chat", alone, _CHAT_TOKENS), _judge_latency("agent", alone, _AGENT_TOKENS))
    return (*(one for one in latency if one), _judge_batch(taken, prices))


def _answer_s(samples: Sequence[Sample], purpose: Purpose, tokens: int) -> float:
    """Seconds of an answer with that many tokens, from the medians; an agent's beginning is cached where that is
    known."""
    seen = [sample.time_to_first_token_s for sample in samples if sample.seen] if purpose == "agent" else []
    first = seen or [sample.time_to_first_token_s for sample in samples]
    each = [value for sample in samples if (value := sample.time_per_output_token_s) is not None]
    return _median(first) + (tokens - 1) * (_median(each) if each else 0.0)


def _judge_latency(purpose: Purpose, alone: Sequence[Taken] | None, tokens: int) -> Verdict | None:
    if alone is None:
        return None

    def answer_s(samples: Sequence[Sample]) -> float:
        return _answer_s(samples, purpose, tokens)

    sides: dict[str, tuple[float, Sequence[Sample]]] = {}
    for figures, samples in alone:
        good = _good(samples)
        seconds = answer_s(good)
        if figures.target not in sides or seconds < sides[figures.target][0]:
            sides[figures.target] = (seconds, good)
    best, second = sorted(sides, key=lambda name: sides[name][0])[:2]
    interval = _bootstrap(sides[best][1], sides[second][1], answer_s, 0)
    values = {"best": best, "second": second, "tokens": tokens, "one": sides[best][0], "other": sides[second][0]}
    if interval is None or interval[1] <= 1.0:
        if purpose == "chat":
            return Verdict(purpose, "", t("Chat: no difference between {best} and {second} that this run can tell.",
                                          best=best, second=second))  # fmt: skip
        return Verdict(purpose, "", t("Agent: no difference between {best} and {second} that this run can tell.",
                                      best=best, second=second))  # fmt: skip
    if purpose == "chat":
        sentence = t(
            "Chat: {best} is better: an answer of {tokens} tokens takes {one:.2f} s, with {second} {other:.2f} s.",
            **values,
        )
    else:
        sentence = t(
            "Agent: {best} is better: a turn of {tokens} tokens takes {one:.2f} s, with {second} {other:.2f} s.",
            **values,
        )
    return Verdict(purpose, best, sentence)


def _makes_more(best: Taken, second: Taken) -> bool:
    """Whether the throughput of `best` is higher for sure, also where each has its most at a load of its own."""
    one, other = best[0].output_tokens_per_s, second[0].output_tokens_per_s
    if best[0].rate_per_s or second[0].rate_per_s or not one or not other:
        return False  # at a rate it is the rate that sets the throughput
    interval = _interval("output_tokens_per_s", _good(second[1]), _good(best[1]), 0)
    if interval is None:
        return False
    # The interval is of one place; the share by which it may be wrong is that of all places together.
    value, low, _ = interval
    return one / other * low / value > 1.0


def _judge_batch(taken: Sequence[Taken], prices: Mapping[str, Price]) -> Verdict:
    most_taken: dict[str, Taken] = {}
    for one in taken:
        name, rate = one[0].target, one[0].output_tokens_per_s or 0
        if one[0].end_to_end_ms and (name not in most_taken or rate > (most_taken[name][0].output_tokens_per_s or 0)):
            most_taken[name] = one
    most = {name: one for name, (one, _) in most_taken.items()}
    costs = {
        name: cost
        for name, one in most.items()
        if name in prices and (cost := cost_per_million_tokens(one, prices[name])) is not None
    }
    if len(costs) > 1:
        cheap, dear = sorted(costs, key=lambda name: costs[name])[:2]
        sentence = t(
            "Batch: {best} costs {one:.2f} for a million tokens, {second} {other:.2f}; they make {rate:.0f} and"
            " {slower:.0f} tokens/s.",
            best=cheap, second=dear, one=costs[cheap], other=costs[dear],
            rate=most[cheap].output_tokens_per_s or 0, slower=most[dear].output_tokens_per_s or 0,
        )  # fmt: skip
        return Verdict("batch", cheap, sentence)
    ordered = sorted(most, key=lambda name: -(most[name].output_tokens_per_s or 0))
    best, second = ordered[:2]
    rates = (most[best].output_tokens_per_s or 0.0, most[second].output_tokens_per_s or 0.0)
    if not _makes_more(most_taken[best], most_taken[second]):
        return Verdict(
            "batch",
            "",
            t("Batch: {best} and {second} make the same number of tokens, as far as this run can tell.",
              best=best, second=second),
        )  # fmt: skip
    sentence = t(
        "Batch: {best} makes {one:.0f} tokens/s at {count} at once, {second} {other:.0f} at {times}.",
        best=best, second=second, one=rates[0], other=rates[1],
        count=most[best].concurrency, times=most[second].concurrency,
    )  # fmt: skip
    return Verdict("batch", best, sentence)
