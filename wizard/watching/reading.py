"""Snapshots of a server's metrics in, what happened between them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from wizard.serving.metrics import Load, known_metrics, parse_load, parse_metrics
from wizard.watching.histogram import Histogram, Quantile, build_histogram

PERCENTS = (50, 90, 99)
HISTOGRAMS = ("time_to_first_token", "inter_token_latency", "queue_time", "end_to_end")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A server's metrics at one moment. at_s: a clock that only grows. process_started_s: Unix time, as it says."""

    at_s: float
    load: Load
    counters: dict[str, float] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)
    process_started_s: float | None = None

    @property
    def has_metrics(self) -> bool:
        """Whether this was a vLLM's metrics at all."""
        return self.load.requests_running is not None or bool(self.counters) or bool(self.histograms)


def parse_snapshot(text: str, at_s: float) -> Snapshot:
    """The snapshot in a `/metrics` body; engines and finish reasons of one server are added."""
    kinds = {metric.quantity: metric for metric in known_metrics().values()}
    values: dict[str, float] = {}
    buckets: dict[str, dict[float, float]] = {}
    started: float | None = None
    for name, labels, value in parse_metrics(text):
        if name.endswith("_bucket") and "le" in labels:
            try:
                bound = float(labels["le"])
            except ValueError:
                continue
            found = buckets.setdefault(name.removesuffix("_bucket"), {})
            found[bound] = found.get(bound, 0.0) + value
        elif name == "process_start_time_seconds":
            started = value
        else:
            values[name] = values.get(name, 0.0) + value
    counters: dict[str, float] = {}
    histograms: dict[str, Histogram] = {}
    for metric in kinds.values():
        if metric.kind == "counter":
            name = next((name for name in metric.names if name in values), "")
            if name:
                counters[metric.quantity] = values[name]
        elif metric.kind == "histogram":
            name = next((name for name in metric.names if name in buckets), "")
            histogram = build_histogram(buckets[name]) if name else None
            if histogram:
                histograms[metric.quantity] = histogram
    return Snapshot(at_s, parse_load(text), counters, histograms, started)


def restarted(earlier: Snapshot, later: Snapshot) -> bool:
    """Whether the server began anew between two snapshots: it says so, or a counter fell."""
    if earlier.process_started_s and later.process_started_s and later.process_started_s > earlier.process_started_s:
        return True
    if any(later.counters.get(name, 0.0) < value for name, value in earlier.counters.items()):
        return True
    return any(
        name in later.histograms and later.histograms[name].fell_since(histogram)
        for name, histogram in earlier.histograms.items()
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """A server over a window. window_s None: the figures are of all its life, for want of an earlier look.

    Rates are per second of the window. percentiles: quantity -> percent -> seconds. prefix_hit_rate: 0 to 1, of the
    window's prompts. restarts: how often it began anew while it was watched.
    """

    load: Load
    window_s: float | None
    output_tokens_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    preemptions: int | None = None
    prefix_hit_rate: float | None = None
    percentiles: dict[str, dict[int, Quantile]] = field(default_factory=dict)
    restarts: int = 0

    def percentile(self, quantity: str, percent: int) -> Quantile | None:
        """One percentile in seconds, or None where nothing happened."""
        return self.percentiles.get(quantity, {}).get(percent)

    def as_json(self) -> dict[str, Any]:
        """For `watch --json`; times in milliseconds."""

        def rounded(value: float | None, digits: int = 2) -> float | None:
            return None if value is None else round(value, digits)

        times = {
            f"{quantity}_ms": {f"p{percent}": round(found.value * 1000, 3) for percent, found in by_percent.items()}
            for quantity, by_percent in self.percentiles.items()
        }
        beyond = sorted(
            f"{quantity}_ms.p{percent}"
            for quantity, by_percent in self.percentiles.items()
            for percent, found in by_percent.items()
            if found.at_least
        )
        return {
            "window_s": rounded(self.window_s),
            "requests_running": self.load.requests_running,
            "requests_waiting": self.load.requests_waiting,
            "kv_cache_usage": rounded(self.load.kv_cache_usage, 4),
            "kv_cache_tokens": self.load.kv_cache_tokens,
            "prefix_cache_hit_rate": rounded(self.prefix_hit_rate, 4),
            "output_tokens_per_s": rounded(self.output_tokens_per_s),
            "prompt_tokens_per_s": rounded(self.prompt_tokens_per_s),
            "requests_per_s": rounded(self.requests_per_s, 3),
            "preemptions": self.preemptions,
            **{f"{quantity}_ms": None for quantity in HISTOGRAMS},
            **times,
            "at_least": beyond,
            "restarts": self.restarts,
        }


def read_window(snapshots: Sequence[Snapshot], window_s: float) -> Reading:
    """What happened from the last snapshot that is at least window_s old to the newest. Raises ValueError without any.

    snapshots: oldest first. A server that began anew inside the window counts from its new beginning.
    """
    if not snapshots:
        raise ValueError("no snapshot")
    now = snapshots[-1]
    restarts = sum(restarted(a, b) for a, b in pairwise(snapshots))
    first = 0
    for at, snapshot in enumerate(snapshots[:-1]):
        if now.at_s - snapshot.at_s >= window_s:
            first = at
    seen = list(snapshots[first:])
    for at in range(len(seen) - 1, 0, -1):
        if restarted(seen[at - 1], seen[at]):
            # Its counters began at zero somewhere between the two.
            seen = [Snapshot(seen[at - 1].at_s, Load()), *seen[at:]]
            break
    if len(seen) < 2:
        return _read(now, None, None, restarts)
    earlier = seen[0]
    return _read(now, earlier, now.at_s - earlier.at_s, restarts)


def _read(now: Snapshot, earlier: Snapshot | None, window_s: float | None, restarts: int) -> Reading:
    def more(quantity: str) -> float | None:
        if quantity not in now.counters:
            return None
        return now.counters[quantity] - (earlier.counters.get(quantity, 0.0) if earlier else 0.0)

    def rate(quantity: str) -> float | None:
        total = more(quantity)
        return None if total is None or not window_s else total / window_s

    queried, hit, preempted = more("prefix_queried_tokens"), more("prefix_hit_tokens"), more("preemptions")
    percentiles: dict[str, dict[int, Quantile]] = {}
    for quantity in HISTOGRAMS:
        if quantity not in now.histograms:
            continue
        new = now.histograms[quantity].since(earlier.histograms.get(quantity) if earlier else None)
        found = {percent: value for percent in PERCENTS if (value := new.percentile(percent)) is not None}
        if found:
            percentiles[quantity] = found
    return Reading(
        load=now.load,
        window_s=window_s,
        output_tokens_per_s=rate("generation_tokens"),
        prompt_tokens_per_s=rate("prompt_tokens"),
        requests_per_s=rate("requests_finished"),
        preemptions=None if preempted is None else int(preempted),
        prefix_hit_rate=hit / queried if queried and hit is not None else None,
        percentiles=percentiles,
        restarts=restarts,
    )
