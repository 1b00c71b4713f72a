"""Targets as people write them."""

from __future__ import annotations

import pytest

from wizard.problems import ProblemError
from wizard.tuning.goal import Goal, Limit, parse_duration, parse_goal


@pytest.mark.parametrize(
    ("text", "limits", "users"),
    [
        pytest.param("ttft p50 <= 200 ms at 4", [("ttft_p50_ms", 200.0, False)], 4, id="as in the help"),
        pytest.param(
            "TTFT<=1.5s at 16 users", [("ttft_p50_ms", 1500.0, False)], 16, id="seconds, the median by default"
        ),
        pytest.param(
            "first token p90 < 300ms, itl p99 <= 40 ms and tokens/s >= 900",
            [("ttft_p90_ms", 300.0, False), ("itl_p99_ms", 40.0, False), ("tokens_per_s", 900.0, True)],
            4,
            id="several",
        ),
        pytest.param("", [], 4, id="none"),
    ],
)
def test_a_target_is_read(text: str, limits: list[tuple[str, float, bool]], users: int) -> None:
    goal = parse_goal(text)
    assert [(limit.name, limit.value, limit.least) for limit in goal.limits] == limits
    assert goal.users == users


@pytest.mark.parametrize("text", ["fast", "ttft p50 <= 200", "ttft p75 <= 2 s", "ttft <= 0 ms", "itl <= 5 ms at 5000"])
def test_what_is_no_target_is_wrong_usage(text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_goal(text)
    assert caught.value.problem.code == "bad-target"


def test_users_that_are_given_count_more() -> None:
    assert parse_goal("ttft <= 1 s at 4", users=9).users == 9


def test_what_holds_ranks_before_what_is_faster() -> None:
    goal = parse_goal("ttft p50 <= 200 ms")
    holds, faster = {"ttft_p50_ms": 190.0, "tokens_per_s": 10.0}, {"ttft_p50_ms": 400.0, "tokens_per_s": 99.0}
    assert goal.rank(holds) < goal.rank(faster)
    assert goal.violation(faster) == 1.0


def test_within_the_target_the_objective_decides() -> None:
    slow, quick = {"ttft_p50_ms": 190.0, "tokens_per_s": 10.0}, {"ttft_p50_ms": 20.0, "tokens_per_s": 9.0}
    assert parse_goal("ttft <= 200 ms").rank(slow) < parse_goal("ttft <= 200 ms").rank(quick)
    first = parse_goal("ttft <= 200 ms", "first-token")
    assert first.rank(quick) < first.rank(slow)


def test_a_figure_that_is_missing_holds_nothing() -> None:
    assert Goal((Limit("itl_p50_ms", 5.0),)).violation({}) > 1
    assert Goal((Limit("tokens_per_s", 5.0, least=True),)).violation({"tokens_per_s": 0.0}) > 1


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("1.5 h", 5400), ("2min", 120)])
def test_a_length_of_time_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["30", "soon", "-5m", "0s"])
def test_what_is_no_length_of_time_is_wrong_usage(text: str) -> None:
    with pytest.raises(ProblemError):
        parse_duration(text)
