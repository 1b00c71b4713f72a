"""Kept figures of real starts."""

from __future__ import annotations

import pytest

from wizard.planning.measured import MOST_STARTS, MeasuredStart, parse_starts, render_starts, with_start


def test_what_is_kept_is_read_back() -> None:
    starts = (MeasuredStart("a", 10.5, 9.25), MeasuredStart("b", 3.0))
    assert parse_starts(render_starts(starts)) == starts


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"{",
        b"{}",
        b"[1]",
        b'[{"key": 1}]',
        b'[{"key": "a", "rest_gib": -1}]',
        b'[{"key": "a", "rest_gib": NaN}]',
    ],
)
def test_a_file_that_does_not_parse_counts_as_empty(raw: bytes | None) -> None:
    assert parse_starts(raw) == ()


def test_a_new_start_replaces_the_older_of_its_kind() -> None:
    starts = with_start((MeasuredStart("a", 1.0), MeasuredStart("b", 2.0)), MeasuredStart("a", 3.0))
    assert starts == (MeasuredStart("b", 2.0), MeasuredStart("a", 3.0))


def test_the_oldest_go_first() -> None:
    starts: tuple[MeasuredStart, ...] = ()
    for number in range(MOST_STARTS + 5):
        starts = with_start(starts, MeasuredStart(str(number), 1.0))
    assert len(starts) == MOST_STARTS
    assert starts[0].key == "5"
