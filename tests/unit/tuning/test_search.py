"""What is tried next, what counts as better, and what was bought."""

from __future__ import annotations

from typing import Any

import pytest

from wizard.tuning.bought import render_bought, warm_against_cold, what_was_bought
from wizard.tuning.goal import Goal, parse_goal
from wizard.tuning.search import best_trial, clearly_worse, helped, next_step, suggest
from wizard.tuning.space import Choice, Knob
from wizard.tuning.trials import Record, Setting, Trial, identity_of, parse_record, setting_of

GOAL = parse_goal("")
KNOBS = (
    Knob("cache", ("--c",), "off", (Choice("on", ("--c",)),), ""),
    Knob("batch", ("--b",), "2", (Choice("4", ("--b", "4")), Choice("8", ("--b", "8"))), ""),
    Knob("kind", ("--k",), "auto", (Choice("fp8", ("--k", "fp8"), changes_answers=True),), ""),
)


def trial(
    rate: float, ttft: float = 100.0, jitter: float = 0.0, how: dict[str, Any] | None = None, **chosen: str
) -> Trial:
    rounds = tuple({"tokens_per_s": rate * (1 + move), "ttft_p50_ms": ttft} for move in (-jitter, 0.0, jitter))
    values: dict[str, Any] = {
        "stage": "alone",
        "outcome": "measured",
        "answers": "same",
        "rounds": rounds,
        **(how or {}),
    }
    return Trial(setting=setting_of(chosen), **values)


def run(rate_of: Any, most: int = 99, goal: Goal = GOAL) -> list[Trial]:
    """A whole search against a machine whose rate is a function of the setting."""
    trials: list[Trial] = []
    while len(trials) < most and (step := next_step(KNOBS, trials, goal)) is not None:
        trials.append(trial(rate_of(dict(step.setting)), how={"stage": step.stage}, **dict(step.setting)))
    return trials


def rates(setting: dict[str, str]) -> float:
    rate = 100.0
    rate *= 3 if setting.get("cache") == "on" else 1
    rate *= {"4": 1.2, "8": 0.5}.get(setting.get("batch", ""), 1)
    return rate


def test_the_plan_comes_first_then_each_change_alone_then_what_helped_together() -> None:
    trials = run(rates)
    settings = [dict(one.setting) for one in trials]
    assert settings[:6] == [
        {},
        {"cache": "on"},
        {"batch": "4"},
        {"kind": "fp8"},
        {"batch": "8"},
        {"cache": "on", "batch": "4"},
    ]
    assert [one.stage for one in trials[:6]] == ["plan", "alone", "alone", "alone", "alone", "together"]


def test_the_optimiser_tries_combinations_and_nothing_twice_and_comes_to_an_end() -> None:
    trials = run(rates)
    settings = [one.setting for one in trials]
    assert len(set(settings)) == len(settings) <= 2 * 3 * 2
    assert trials[-1].stage == "search"
    assert len(trials[-1].setting) > 1


def test_the_same_history_gives_the_same_suggestion() -> None:
    trials = run(rates, most=6)
    assert suggest(KNOBS, trials, GOAL) == suggest(KNOBS, trials, GOAL)


def test_the_optimiser_looks_near_what_was_good() -> None:
    trials = run(rates)
    assert any(dict(one.setting).get("cache") == "on" for one in trials[6:])


def test_the_optimiser_takes_no_notice_of_trials_that_its_knobs_cannot_express() -> None:
    others = [trial(500.0, gone="x"), trial(500.0, batch="16")]
    assert suggest(KNOBS, [trial(100.0), *others], GOAL) == suggest(KNOBS, [trial(100.0)], GOAL)


def test_a_search_goes_on_where_its_record_ends() -> None:
    whole = run(rates)
    record = Record("id", {}, tuple(whole[:4]))
    again = parse_record(record.render())
    assert again is not None
    step = next_step(KNOBS, again.trials, GOAL)
    assert step is not None
    assert step.setting == whole[4].setting


def test_without_a_measured_plan_there_is_nothing_to_compare_with() -> None:
    assert next_step(KNOBS, [trial(1, how={"outcome": "failed", "stage": "plan"})], GOAL) is None


def test_a_setting_that_failed_is_not_tried_again_and_not_chosen() -> None:
    def with_death(setting: dict[str, str]) -> float:
        return rates(setting)

    trials = run(with_death, most=2)
    dead = trial(0, how={"outcome": "failed", "code": "cuda-oom", "rounds": ()}, batch="4")
    history = [*trials, dead]
    step = next_step(KNOBS, history, GOAL)
    assert step is not None
    assert step.setting != dead.setting
    best = best_trial(history, GOAL, KNOBS)
    assert best is not None
    assert best.setting == (("cache", "on"),)


def test_other_answers_are_not_chosen_however_fast() -> None:
    plan, fast = trial(100), trial(900, how={"answers": "different"}, cache="on")
    assert not helped(fast, plan, GOAL, KNOBS)
    assert best_trial([plan, fast], GOAL, KNOBS) is plan


def test_other_answers_are_chosen_where_the_setting_was_allowed_to_change_them() -> None:
    plan, fast = trial(100), trial(900, how={"answers": "different"}, kind="fp8")
    assert best_trial([plan, fast], GOAL, KNOBS) is fast


@pytest.mark.parametrize(
    ("rate", "jitter", "is_better"),
    [
        pytest.param(102, 0.0, False, id="less than any difference"),
        pytest.param(110, 0.0, True, id="more, and steady"),
        pytest.param(110, 0.08, False, id="within what rounds differ by"),
    ],
)
def test_a_gain_counts_only_beyond_the_noise(rate: float, jitter: float, is_better: bool) -> None:
    plan, other = trial(100, jitter=jitter), trial(rate, jitter=jitter, batch="4")
    assert helped(other, plan, GOAL, KNOBS) is is_better
    chosen = best_trial([plan, other], GOAL, KNOBS)
    assert chosen is (other if is_better else plan)


def test_a_limit_that_is_reached_counts_more_than_throughput() -> None:
    goal = parse_goal("ttft p50 <= 200 ms")
    plan, slower = trial(100, ttft=400), trial(60, ttft=150, batch="4")
    assert helped(slower, plan, goal, KNOBS)
    assert best_trial([plan, slower], goal, KNOBS) is slower


@pytest.mark.parametrize(
    ("ttft", "rate", "verdict"),
    [
        pytest.param(300, 200, "worse", id="much faster, and beyond the limit"),
        pytest.param(150, 200, "helps", id="faster within the limit"),
        pytest.param(150, 100, "same", id="neither"),
    ],
)
def test_what_breaks_a_limit_that_the_plan_keeps_does_not_help(ttft: float, rate: float, verdict: str) -> None:
    goal = parse_goal("ttft p50 <= 200 ms")
    plan, other = trial(100, ttft=150), trial(rate, ttft=ttft, batch="4")
    assert helped(other, plan, goal, KNOBS) is (verdict == "helps")
    assert [row.verdict for row in what_was_bought([plan, other], goal, KNOBS, None)] == ["plan", verdict]


@pytest.mark.parametrize(
    ("first", "is_worse"),
    [
        pytest.param({"tokens_per_s": 50.0, "ttft_p50_ms": 100.0}, True, id="half the rate"),
        pytest.param({"tokens_per_s": 90.0, "ttft_p50_ms": 100.0}, False, id="a little less"),
        pytest.param({"tokens_per_s": 300.0, "ttft_p50_ms": 900.0}, False, id="beyond the limit and much faster"),
        pytest.param({"tokens_per_s": 100.0, "ttft_p50_ms": 900.0}, True, id="beyond the limit for nothing"),
    ],
)
def test_a_first_round_ends_what_is_clearly_worse(first: dict[str, float], is_worse: bool) -> None:
    goal = parse_goal("ttft p50 <= 200 ms")
    assert clearly_worse(first, trial(100), goal) is is_worse
    assert clearly_worse(first, None, goal) is False


def test_what_was_bought_has_a_row_for_each_trial() -> None:
    trials = [
        trial(100),
        trial(300, ttft=25.0, cache="on"),
        trial(101, batch="4"),
        trial(40, batch="8"),
        trial(500, how={"answers": "different"}, cache="on", batch="4"),
        trial(0, how={"outcome": "failed", "code": "cuda-oom", "rounds": ()}, kind="fp8"),
    ]
    best = best_trial(trials, GOAL, KNOBS)
    rows = what_was_bought(trials, GOAL, KNOBS, best)
    assert [row.verdict for row in rows] == ["plan", "helps", "same", "worse", "different answers", "failed"]
    assert (rows[1].first_token_change, rows[1].throughput_change, rows[1].chosen) == (-0.75, 2.0, True)
    shown = render_bought(rows)
    assert shown[2].startswith("*")
    assert "-75%" in shown[2]
    assert "+200%" in shown[2]
    assert "[cuda-oom]" in shown[6]


def test_a_trials_figures_are_the_medians_of_its_rounds() -> None:
    rounds = tuple({"tokens_per_s": rate} for rate in (100.0, 10.0, 90.0))
    one = trial(0, how={"rounds": rounds})
    assert one.figures == {"tokens_per_s": 90.0}
    assert one.spread("tokens_per_s") == 0.5
    assert trial(0, how={"rounds": rounds[:1]}).spread("tokens_per_s") == 0


def test_warm_is_told_against_cold() -> None:
    assert warm_against_cold({"cold_p50_ms": 900.0, "warm_p50_ms": 100.0}) == 9
    assert warm_against_cold({"cold_p50_ms": 900.0}) is None


def test_a_record_survives_its_file_and_a_broken_one_is_none() -> None:
    record = Record("id", {"model": "m"}, (trial(100), trial(50, cache="on")), reference=[None])
    again = parse_record(record.render())
    assert again is not None
    assert [one.setting for one in again.trials] == [one.setting for one in record.trials]
    assert again.trials[0].figures["tokens_per_s"] == 100
    assert parse_record(record.render()[:-40]) is None
    assert parse_record(None) is None
    assert parse_record(record.render().replace(b'"measured"', b'"levitated"')) is None


def test_another_question_is_another_search() -> None:
    assert identity_of({"a": 1, "b": 2}) == identity_of({"b": 2, "a": 1})
    assert identity_of({"a": 1}) != identity_of({"a": 2})


def test_settings_have_one_order() -> None:
    first: Setting = setting_of({"b": "1", "a": "2"})
    assert first == setting_of({"a": "2", "b": "1"})
