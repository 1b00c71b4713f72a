"""Remedies change flags and variables, and say so."""

from __future__ import annotations

import pytest

from wizard.serving.deaths import FlagChange, Remedy
from wizard.serving.remedies import apply_remedy, next_start, restart_pause_s


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        pytest.param(("--a", "1"), FlagChange("--a", "2"), ("--a", "2"), id="another value"),
        pytest.param(("--b",), FlagChange("--a", "2"), ("--b", "--a", "2"), id="a new flag"),
        pytest.param(("--a", "1", "--b"), FlagChange("--a", None), ("--b",), id="left out"),
        pytest.param(("--b",), FlagChange("--e", ""), ("--b", "--e"), id="a switch"),
    ],
)
def test_a_flag_is_changed(before: tuple[str, ...], change: FlagChange, after: tuple[str, ...]) -> None:
    changed = apply_remedy(before, {}, Remedy((change,), gives_up="x"))
    assert changed is not None
    assert changed.arguments == after
    assert change.flag in changed.said
    assert changed.gives_up == "x"


def test_variables_are_set_and_unset() -> None:
    changed = apply_remedy((), {"A": "1", "B": "1"}, Remedy(env=(("A", ""), ("C", "2"))))
    assert changed is not None
    assert changed.env == {"B": "1", "C": "2"}
    assert changed.said == "without A, C=2"


@pytest.mark.parametrize(
    "remedy",
    [
        Remedy((FlagChange("--a", "1"),)),
        Remedy((FlagChange("--gone", None),)),
        Remedy((FlagChange("--s", ""),)),
        Remedy(env=(("X", ""),)),
    ],
)
def test_a_remedy_that_changes_nothing_is_none(remedy: Remedy) -> None:
    assert apply_remedy(("--a", "1", "--s"), {}, remedy) is None


def test_the_first_safe_one_that_changes_something_is_taken() -> None:
    risky = Remedy((FlagChange("--a", "9"),), safe=False)
    idle = Remedy((FlagChange("--a", "1"),), safe=True)
    safe = Remedy((FlagChange("--a", "3"),), safe=True)
    changed = next_start(("--a", "1"), {}, (risky, idle, safe))
    assert changed is not None
    assert changed.arguments == ("--a", "3")
    assert next_start(("--a", "1"), {}, (risky, idle)) is None


def test_pauses_double_up_to_a_minute() -> None:
    assert [restart_pause_s(n) for n in (1, 2, 3, 7, 50)] == [1, 2, 4, 60, 60]
