"""Samples in, figures out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from wizard.bench.samples import Sample
from wizard.i18n import t

# The client is one thread: above this share of a core, or with its loop this late, its own figures are in doubt.
MOST_CPU_CORES = 0.9
MOST_LAG_MS = 5.0
# Where the kernel stamps what comes, being late does not change a chunk's time; it delays the next request. So much of
# a whole answer's time makes throughput doubtful.
MOST_LAG_SHARE = 0.05
# So much of the time between tokens, and several are read at once.
MOST_LAG_OF_GAP = 0.7
MOST_SMEARING_MS = 1.0

Distortion = Literal["", "throughput", "gaps", "all"]


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and percentiles of one quantity, in the unit that its name says."""

    mean: float
    p50: float
    p90: float
    p99: float

    def as_json(self) -> dict[str, float]:
        """Rounded to a microsecond where the unit is ms."""
        return {name: round(getattr(self, name), 3) for name in ("mean", "p50", "p90", "p99")}


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of ascending values, interpolated linearly as numpy and `vllm bench` do. Raises ValueError without values."""
    if not ordered:
        raise ValueError("no values")
    at = (len(ordered) - 1) * percent / 100
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def spread(values: Iterable[float]) -> Spread | None:
    """None where there is nothing to spread."""
    ordered = sorted(values)
    if not ordered:
        return None
    return Spread(math.fsum(ordered) / len(ordered), *(percentile(ordered, p) for p in (50, 90, 99)))


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """What measuring cost here. cpu_cores: CPU seconds a second. lag_ms: how late bytes were read, p90 (not stamped:
    how late the loop woke). stamped: the times of chunks are the kernel's, right however late they were read."""

    cpu_cores: float = 0.0
    lag_ms: float = 0.0
    stamped: bool = False

    @property
    def has_time(self) -> bool:
        """Whether it used less than its one core."""
        return self.cpu_cores <= MOST_CPU_CORES

    def distorts(self, end_to_end_ms: float | None, per_token_ms: float | None) -> Distortion:
        """What of the figures of such answers this client, not the server, may have set."""
        if not self.has_time or (not self.stamped and self.lag_ms > MOST_LAG_MS):
            return "all"
        if not self.stamped:
            return ""
        # What waits to be read together has one time, that of the last of it.
        if per_token_ms is not None and self.lag_ms > max(MOST_SMEARING_MS, MOST_LAG_OF_GAP * per_token_ms):
            return "gaps"
        if end_to_end_ms is not None and self.lag_ms > max(MOST_LAG_MS, MOST_LAG_SHARE * end_to_end_ms):
            return "throughput"
        return ""


@dataclass(frozen=True, slots=True)
class Figures:
    """One target at one concurrency, or at one rate of requests. The spreads are of whole answers only; errors are
    counted apart. cold and warm: time to first token of requests whose beginning the server had not, and had, been sent
    before. send_delay_ms: how much later than due requests went out, at a rate."""

    target: str
    concurrency: int
    requests: int
    errors: int
    error_kinds: tuple[tuple[str, int], ...]
    time_to_first_token_ms: Spread | None
    inter_token_latency_ms: Spread | None
    time_per_output_token_ms: Spread | None
    end_to_end_ms: Spread | None
    connect_ms: Spread | None
    output_tokens: int
    prompt_tokens: int | None
    cached_tokens: int | None
    wall_s: float
    output_tokens_per_s: float | None
    requests_per_s: float | None
    tokens_from: str
    client: ClientLoad
    notes: tuple[str, ...]
    cache: str = ""
    rate_per_s: float | None = None
    cold_first_token_ms: Spread | None = None
    warm_first_token_ms: Spread | None = None
    send_delay_ms: Spread | None = None
    refused: int = 0

    @property
    def distortion(self) -> Distortion:
        """What of these figures this client may have set, not the server."""
        return self.client.distorts(
            self.end_to_end_ms.p50 if self.end_to_end_ms else None,
            self.time_per_output_token_ms.p50 if self.time_per_output_token_ms else None,
        )

    def as_json(self) -> dict[str, Any]:
        """One entry of `results` of `bench --json`."""

        def shown(value: Spread | None) -> dict[str, float] | None:
            return value.as_json() if value else None

        return {
            "target": self.target,
            "concurrency": self.concurrency,
            "request_rate_per_s": self.rate_per_s,
            "cache": self.cache,
            "requests": self.requests,
            "errors": self.errors,
            "error_kinds": dict(self.error_kinds),
            "time_to_first_token_ms": shown(self.time_to_first_token_ms),
            "inter_token_latency_ms": shown(self.inter_token_latency_ms),
            "time_per_output_token_ms": shown(self.time_per_output_token_ms),
            "end_to_end_ms": shown(self.end_to_end_ms),
            "cold_time_to_first_token_ms": shown(self.cold_first_token_ms),
            "warm_time_to_first_token_ms": shown(self.warm_first_token_ms),
            "connect_ms": shown(self.connect_ms),
            "send_delay_ms": shown(self.send_delay_ms),
            "output_tokens_per_s": _rounded(self.output_tokens_per_s),
            "requests_per_s": _rounded(self.requests_per_s),
            "output_tokens": self.output_tokens,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "tokens_from": self.tokens_from,
            "wall_s": round(self.wall_s, 3),
            "client": {
                "cpu_cores": round(self.client.cpu_cores, 3),
                "lag_ms": round(self.client.lag_ms, 3),
                "kernel_times": self.client.stamped,
                "limited": bool(self.distortion),
                "distorts": self.distortion or None,
            },
            "notes": list(self.notes),
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def compute_figures(
    target: str,
    concurrency: int,
    samples: Sequence[Sample],
    wall_s: float,
    client: ClientLoad,
    *,
    cache: str = "",
    rate_per_s: float | None = None,
) -> Figures:
    """All figures of one target at one concurrency; wall_s is the time in which the samples were taken."""
    good = [sample for sample in samples if not sample.error]
    kinds = Counter(sample.error for sample in samples if sample.error)
    tokens = sum(sample.output_tokens for sample in good)
    connects = [sample.connect_s * 1000 for sample in samples if sample.connect_s is not None]
    per_token = [value * 1000 for sample in good if (value := sample.time_per_output_token_s) is not None]
    believed = (sample.usage_said and not sample.usage_is_short and not sample.usage_is_long for sample in good)
    from_usage = all(believed) and bool(good)
    refused = sum(sample.error.startswith("HTTP 429") for sample in samples)

    def first_token(seen: bool) -> Spread | None:
        return spread(sample.time_to_first_token_s * 1000 for sample in good if sample.seen is seen)

    figures = Figures(
        target=target,
        concurrency=concurrency,
        requests=len(samples),
        errors=sum(kinds.values()),
        error_kinds=tuple(kinds.most_common()),
        time_to_first_token_ms=spread(sample.time_to_first_token_s * 1000 for sample in good),
        inter_token_latency_ms=spread(gap * 1000 for sample in good for gap in sample.gaps_s),
        time_per_output_token_ms=spread(per_token),
        end_to_end_ms=spread(sample.end_to_end_s * 1000 for sample in good),
        connect_ms=spread(connects),
        output_tokens=tokens,
        prompt_tokens=_sum(sample.prompt_tokens for sample in good),
        cached_tokens=_sum(sample.cached_tokens for sample in good),
        wall_s=wall_s,
        output_tokens_per_s=tokens / wall_s if good and wall_s > 0 else None,
        requests_per_s=len(good) / wall_s if good and wall_s > 0 else None,
        tokens_from="usage" if from_usage else "chunks",
        client=client,
        notes=(),
        cache=cache,
        rate_per_s=rate_per_s,
        cold_first_token_ms=first_token(False),
        warm_first_token_ms=first_token(True),
        send_delay_ms=spread(sample.late_s * 1000 for sample in samples if sample.late_s is not None),
        refused=refused,
    )
    return replace(figures, notes=_notes(figures, samples, good))


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if not known or any(value is None for value in known) else sum(value or 0 for value in known)


def _notes(figures: Figures, samples: Sequence[Sample], good: Sequence[Sample]) -> tuple[str, ...]:
    notes: list[str] = []
    client, concurrency, from_usage = figures.client, figures.concurrency, figures.tokens_from == "usage"
    if figures.distortion == "throughput":
        notes.append(
            t(
                "This client was late itself ({lag:.1f} ms, {cores:.2f} cores): times are the kernel's and right, but"
                " the throughput may be higher than shown.",
                cores=client.cpu_cores,
                lag=client.lag_ms,
            )
        )
    elif figures.distortion == "gaps":
        notes.append(
            t(
                "This client was late itself ({lag:.1f} ms, {cores:.2f} cores) and read several tokens at once: the"
                " time between tokens is smeared, and first tokens may have come earlier; the time per token is right.",
                cores=client.cpu_cores,
                lag=client.lag_ms,
            )
        )
    elif figures.distortion == "all":
        notes.append(
            t(
                "This client was late itself ({cores:.2f} cores, {lag:.1f} ms): the server may be faster than shown.",
                cores=client.cpu_cores,
                lag=client.lag_ms,
            )
        )
    if figures.refused:
        notes.append(
            t(
                "{count} requests were refused (429): the server saw fewer at once than {concurrency}, and the figures"
                " are of those that it let in.",
                count=figures.refused,
                concurrency=concurrency,
            )
        )
    if not all(sample.usage_said for sample in good):
        notes.append(t("The server does not count tokens in every answer: chunks were counted instead."))
    short = sum(sample.usage_is_short for sample in good)
    if short:
        notes.append(
            t("In {count} answers `usage` counts fewer tokens than chunks came: chunks were counted.", count=short)
        )
    long = sum(sample.usage_is_long for sample in good)
    if long:
        notes.append(
            t(
                "In {count} answers `usage` counts more tokens than were asked for or than the text has bytes: chunks"
                " were counted.",
                count=long,
            )
        )
    tokens, chunks = sum(s.output_tokens for s in good), sum(len(s.token_s) for s in good)
    if chunks and from_usage and tokens - len(good) > 1.5 * chunks:  # the end token is in no chunk
        notes.append(
            t(
                "A chunk holds {ratio:.1f} tokens on average: inter-token latency is that between chunks, and tokens"
                " that were not streamed count, too.",
                ratio=tokens / chunks,
            )
        )
    at_once = sum(one.token_s[0] == one.token_s[-1] for one in good if len(one.token_s) > 1)
    if at_once > len(good) / 2:
        notes.append(
            t("The answers come in one piece: something on the way holds the stream back, and no gap is the model's.")
        )
    if len(samples) < 2 * concurrency:
        notes.append(
            t("Fewer than two requests for each of {count} places: starts and ends weigh much.", count=concurrency)
        )
    if 0 < len(good) < 100:
        notes.append(t("p99 of fewer than 100 answers is nearly the slowest of them."))
    return tuple(notes)
