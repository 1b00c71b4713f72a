"""Targets side by side: what differs is said with its interval, what does not is not."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from wizard.bench.compare import (
    Price,
    Ratio,
    Taken,
    Verdict,
    compute_ratios,
    cost_per_million_tokens,
    judge_targets,
)
from wizard.bench.figures import ClientLoad, compute_figures
from wizard.bench.samples import Sample

IDLE = ClientLoad(0.1, 0.2)


def taken(
    target: str, first: float, gap: float, *, count: int = 40, jitter: float = 0.1, concurrency: int = 1,
    wall_s: float = 10.0, prompt: int | None = 100, seed: int = 0, rate: float | None = None, seen: bool = False,
) -> Taken:  # fmt: skip
    """Samples with those medians, 21 tokens each."""
    chosen = random.Random(f"{target}{seed}")
    samples = []
    for _ in range(count):
        shake = 1 + jitter * chosen.uniform(-1, 1)
        times = tuple(shake * (first + gap * number) for number in range(21))
        samples.append(Sample(token_s=times, output_tokens=21, prompt_tokens=prompt, usage_said=True, seen=seen))
    return compute_figures(target, concurrency, samples, wall_s, IDLE, cache="cold", rate_per_s=rate), tuple(samples)


def ratio_of(ratios: Sequence[Ratio], quantity: str) -> Ratio:
    (found,) = [ratio for ratio in ratios if ratio.quantity == quantity]
    return found


def verdict_of(verdicts: Sequence[Verdict], purpose: str) -> Verdict:
    (found,) = [verdict for verdict in verdicts if verdict.purpose == purpose]
    return found


def test_a_ratio_is_the_second_by_the_first_and_its_interval_holds_it() -> None:
    ratios = compute_ratios([taken("near", 0.1, 0.01), taken("far", 0.2, 0.01)])
    first = ratio_of(ratios, "time_to_first_token_ms")
    assert (first.first, first.second) == ("near", "far")
    assert first.value == pytest.approx(2.0, rel=0.1)
    assert first.low <= first.value <= first.high
    assert first.decided
    assert not ratio_of(ratios, "time_per_output_token_ms").decided
    assert ratio_of(ratios, "output_tokens_per_s").value == pytest.approx(0.75, rel=0.1)


def test_few_and_scattered_samples_give_a_wide_interval() -> None:
    few = compute_ratios([taken("a", 0.1, 0.01, count=5, jitter=0.8), taken("b", 0.12, 0.01, count=5, jitter=0.8)])
    many = compute_ratios([taken("a", 0.1, 0.01, count=200, jitter=0.1), taken("b", 0.12, 0.01, count=200, jitter=0.1)])
    wide, narrow = (ratio_of(ratios, "time_to_first_token_ms") for ratios in (few, many))
    assert not wide.decided
    assert narrow.decided
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)


def test_the_interval_holds_the_true_ratio_about_95_times_of_100() -> None:
    inside = 0
    for seed in range(30):
        ratios = compute_ratios(
            [taken("a", 0.1, 0.01, seed=seed, jitter=0.4), taken("b", 0.15, 0.01, seed=seed, jitter=0.4)]
        )
        found = ratio_of(ratios, "time_to_first_token_ms")
        inside += found.low <= 1.5 <= found.high
    assert 26 <= inside <= 30


def test_only_equal_loads_are_compared() -> None:
    ratios = compute_ratios(
        [
            taken("a", 0.1, 0.01, concurrency=1),
            taken("b", 0.1, 0.01, concurrency=1),
            taken("a", 0.1, 0.01, concurrency=4),
        ]
    )
    assert {ratio.load for ratio in ratios} == {(0.0, 1.0)}


def test_at_a_rate_targets_are_compared_however_many_were_under_way_and_not_by_throughput() -> None:
    ratios = compute_ratios(
        [taken("a", 0.1, 0.01, concurrency=2, rate=5.0), taken("b", 0.3, 0.01, concurrency=9, rate=5.0)]
    )
    assert {ratio.load for ratio in ratios} == {(5.0, 0.0)}
    assert "output_tokens_per_s" not in {ratio.quantity for ratio in ratios}
    assert ratio_of(ratios, "time_to_first_token_ms").as_json()["request_rate_per_s"] == 5.0


def test_a_target_without_answers_has_no_ratio() -> None:
    broken = (compute_figures("b", 1, [Sample(error="HTTP 500")], 1.0, IDLE, cache="cold"), (Sample(error="HTTP 500"),))
    both = [taken("a", 0.1, 0.01), broken]
    assert compute_ratios(both) == ()
    assert {verdict.best for verdict in judge_targets(both, {})} == {"a"}


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        pytest.param(Price(2.0, 10.0), (100 * 2.0 + 21 * 10.0) / 121, id="tokens"),
        pytest.param(Price(hour=3.6), 3.6 / 3600 * 10 / (40 * 121) * 1e6, id="hour"),
    ],
)
def test_the_cost_is_of_prompts_and_answers_together(price: Price, cost: float) -> None:
    assert cost_per_million_tokens(taken("a", 0.1, 0.01)[0], price) == pytest.approx(cost)


def test_without_the_prompts_tokens_no_cost_is_claimed() -> None:
    assert cost_per_million_tokens(taken("a", 0.1, 0.01, prompt=None)[0], Price(1, 1)) is None


def judge(*both: Taken, prices: dict[str, Price] | None = None) -> tuple[Verdict, ...]:
    return judge_targets(both, prices or {})


def test_each_purpose_gets_the_target_that_serves_it() -> None:
    # `quick` begins at once and writes slowly, `strong` is slow to begin and writes fast.
    quick = [taken("quick", 0.1, 0.02), taken("quick", 0.4, 0.05, concurrency=16, wall_s=8)]
    strong = [taken("strong", 2.5, 0.005), taken("strong", 2.5, 0.006, concurrency=16, wall_s=2)]
    verdicts = judge(*quick, *strong)
    assert [verdict.purpose for verdict in verdicts] == ["chat", "agent", "batch"]
    assert verdict_of(verdicts, "agent").best == "quick"
    assert verdict_of(verdicts, "chat").best == "strong"
    assert verdict_of(verdicts, "chat").sentence.startswith("Chat: strong is better: an answer of 200 tokens takes 3.")
    assert verdict_of(verdicts, "batch").best == "strong"
    assert "420 tokens/s at 16 at once" in verdict_of(verdicts, "batch").sentence


def test_an_agents_turn_counts_with_a_warm_beginning_where_one_was_measured() -> None:
    def with_warm(target: str, cold: float, warm: float) -> Taken:
        cold_ones, warm_ones = taken(target, cold, 0.01)[1], taken(target, warm, 0.01, seen=True)[1]
        both = (*cold_ones, *cold_ones, *warm_ones)
        return compute_figures(target, 1, both, 10.0, IDLE, cache="cold"), both

    caches, not_at_all = with_warm("caches", 2.0, 0.1), with_warm("plain", 1.5, 1.5)
    verdicts = judge(caches, not_at_all)
    assert verdict_of(verdicts, "agent").best == "caches"
    assert verdict_of(verdicts, "chat").best == "plain"


def test_what_the_run_cannot_tell_apart_has_no_winner() -> None:
    verdicts = judge(taken("a", 0.1, 0.01, jitter=0.3), taken("b", 0.101, 0.01, jitter=0.3))
    assert {verdict.best for verdict in verdicts} == {""}
    assert all("can tell" in verdict.sentence for verdict in verdicts)


def test_with_prices_batch_is_about_money() -> None:
    own, hosted = taken("own", 0.5, 0.05, wall_s=100), taken("hosted", 0.1, 0.01, wall_s=5)
    prices = {"own": Price(hour=0.01), "hosted": Price(0.5, 2.0)}
    verdict = verdict_of(judge(own, hosted, prices=prices), "batch")
    assert verdict.best == "own"
    assert "own costs 0.06 for a million tokens, hosted 0.76" in verdict.sentence


def test_one_target_alone_gets_no_verdict() -> None:
    assert judge(taken("a", 0.1, 0.01)) == ()


def test_of_three_targets_the_best_two_are_told_apart_from_each_other() -> None:
    verdicts = judge(taken("slow", 1.0, 0.05), taken("good", 0.1, 0.01), taken("best", 0.05, 0.005))
    assert verdict_of(verdicts, "chat").best == "best"
    close = judge(taken("slow", 1.0, 0.05), taken("one", 0.1, 0.01, jitter=0.3), taken("two", 0.1, 0.01, jitter=0.3))
    assert verdict_of(close, "chat").best == ""


def failing(target: str, concurrency: int = 1) -> Taken:
    samples = (Sample(error="HTTP 500"),) * 8
    return compute_figures(target, concurrency, samples, 10.0, IDLE, cache="cold"), samples


@pytest.mark.parametrize("alone", [("near", "far"), ("far",)])
def test_where_requests_one_by_one_failed_the_lowest_load_with_two_to_compare_counts(alone: tuple[str, ...]) -> None:
    low = [failing(name) if name in alone else taken(name, 0.1, 0.01) for name in ("near", "far")]
    measured = [*low, taken("near", 0.1, 0.01, concurrency=4), taken("far", 0.9, 0.01, concurrency=4)]
    assert verdict_of(judge_targets(measured, {}), "chat").best == "near"


def test_targets_that_answered_at_no_load_together_are_not_compared_for_chat() -> None:
    measured = [taken("near", 0.1, 0.01), failing("far"), failing("near", 4), taken("far", 0.1, 0.01, concurrency=4)]
    assert [one.purpose for one in judge_targets(measured, {})] == ["batch"]


def test_a_sure_difference_of_first_tokens_names_no_winner_of_whole_answers_that_noise_decides() -> None:
    def scattered(target: str, first: float, gap: float) -> Taken:
        # First tokens are steady, those after them are not.
        chosen = random.Random(target)
        gaps = [gap * (1 + chosen.uniform(-0.5, 0.5)) for _ in range(40)]
        samples = tuple(Sample(token_s=tuple(first + one * at for at in range(21)), output_tokens=21) for one in gaps)
        return compute_figures(target, 1, samples, 10.0, IDLE), samples

    measured = [scattered("soon", 0.1, 0.1), scattered("late", 0.2, 0.1)]
    assert ratio_of(compute_ratios(measured), "time_to_first_token_ms").decided
    assert verdict_of(judge_targets(measured, {}), "chat").best == ""


@pytest.mark.parametrize(("wall_s", "best"), [(9.9, ""), (3.0, "far")])
def test_most_tokens_at_different_loads_are_told_apart_only_beyond_the_noise(wall_s: float, best: str) -> None:
    measured = [
        taken("near", 0.1, 0.01, wall_s=10.0, jitter=0.5),
        taken("far", 0.1, 0.01, wall_s=11.0, jitter=0.5),
        taken("near", 0.4, 0.04, wall_s=10.5, jitter=0.5, concurrency=4),
        taken("far", 0.4, 0.04, wall_s=wall_s, jitter=0.5, concurrency=4),
    ]
    assert verdict_of(judge_targets(measured, {}), "batch").best == best
