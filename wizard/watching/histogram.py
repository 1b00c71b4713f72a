"""Percentiles out of Prometheus histograms: cumulative buckets in, seconds out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quantile:
    """A percentile in seconds. at_least: it lies above the last bucket that has an end, which is what value says."""

    value: float
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative counts: counts[i] values were at most bounds[i] seconds. bounds ascend; the last is infinite."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]

    @property
    def count(self) -> float:
        """How many values there are in all."""
        return self.counts[-1] if self.counts else 0.0

    def fell_since(self, earlier: Histogram) -> bool:
        """Whether this cannot follow on `earlier`: a count is lower, or the buckets are others."""
        if self.bounds != earlier.bounds:
            return True
        return any(now < before for now, before in zip(self.counts, earlier.counts, strict=True))

    def since(self, earlier: Histogram | None) -> Histogram:
        """What came after `earlier`. Counters that fell mean a server that began anew: then all there is came after."""
        if earlier is None or self.fell_since(earlier):
            return self
        return Histogram(self.bounds, tuple(n - b for n, b in zip(self.counts, earlier.counts, strict=True)))

    def percentile(self, percent: float) -> Quantile | None:
        """Interpolated within its bucket as Prometheus' `histogram_quantile` does; None without values."""
        if self.count <= 0:
            return None
        rank = self.count * percent / 100
        below, lower = 0.0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=True):
            if count >= rank and count > below:
                if math.isinf(bound):
                    return Quantile(lower, at_least=True)
                return Quantile(lower + (bound - lower) * (rank - below) / (count - below))
            below, lower = count, bound if math.isfinite(bound) else lower
        return Quantile(lower, at_least=True)


def build_histogram(buckets: Mapping[float, float]) -> Histogram | None:
    """Of bound -> cumulative count, in any order; None without buckets. A missing infinite bucket is the last one's
    count, and counts that fall from one bound to the next (read while they were written) are raised."""
    if not buckets:
        return None
    bounds = sorted(buckets)
    counts: list[float] = []
    for bound in bounds:
        counts.append(max(buckets[bound], counts[-1] if counts else 0.0))
    if not math.isinf(bounds[-1]):
        bounds.append(math.inf)
        counts.append(counts[-1])
    return Histogram(tuple(bounds), tuple(counts))
