"""Percentiles out of cumulative buckets."""

from __future__ import annotations

import math

import pytest

from wizard.watching.histogram import Histogram, Quantile, build_histogram

INF = math.inf


def histogram(*counts: float, bounds: tuple[float, ...] = (0.1, 0.5, 1.0, INF)) -> Histogram:
    return Histogram(bounds, counts)


@pytest.mark.parametrize(
    ("counts", "percent", "seconds"),
    [
        pytest.param((0, 10, 10, 10), 50, 0.3, id="in the middle of its bucket"),
        pytest.param((10, 10, 10, 10), 50, 0.05, id="the first bucket begins at zero"),
        pytest.param((5, 10, 10, 10), 50, 0.1, id="at a bucket's end"),
        pytest.param((5, 5, 5, 10), 50, 0.1, id="empty buckets are passed over"),
        pytest.param((0, 0, 100, 100), 99, 0.995, id="the 99th"),
        pytest.param((6, 10, 10, 10), 80, 0.3, id="what lies below its bucket is taken off"),
    ],
)
def test_a_percentile_is_interpolated_within_its_bucket(
    counts: tuple[float, ...], percent: float, seconds: float
) -> None:
    found = histogram(*counts).percentile(percent)
    assert found is not None
    assert (round(found.value, 6), found.at_least) == (seconds, False)


def test_beyond_the_last_end_it_is_at_least_that() -> None:
    assert histogram(1, 1, 1, 10).percentile(90) == Quantile(1.0, at_least=True)


def test_without_values_there_is_no_percentile() -> None:
    assert histogram(0, 0, 0, 0).percentile(50) is None


def test_only_what_came_since_counts() -> None:
    before, now = histogram(90, 100, 100, 100), histogram(90, 110, 110, 110)
    new = now.since(before)
    assert new.count == 10
    found = new.percentile(50)
    assert found is not None
    assert found.value == pytest.approx(0.3)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(histogram(50, 60, 70, 80), id="fewer than before"),
        pytest.param(histogram(1, 1, 1, 1), id="one bucket fell while the sum grew"),
        pytest.param(histogram(0, 1, bounds=(2.0, INF)), id="other buckets"),
    ],
)
def test_counters_that_fell_mean_a_new_beginning(before: Histogram) -> None:
    now = histogram(0, 4, 8, 8)
    assert now.since(before) == now


def test_buckets_come_in_any_order_and_may_lack_the_last() -> None:
    assert build_histogram({1.0: 3, 0.1: 1}) == Histogram((0.1, 1.0, INF), (1, 3, 3))
    assert build_histogram({}) is None


def test_counts_read_while_they_were_written_do_not_fall() -> None:
    assert build_histogram({0.1: 5, 1.0: 4, INF: 6}) == Histogram((0.1, 1.0, INF), (5, 5, 6))
