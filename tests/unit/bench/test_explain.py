"""Why it is as fast as it is: each cause from what shows it, and none from what does not."""

from __future__ import annotations

from typing import Any

import pytest

from wizard.bench.explain import Cause, PrefixProbe, ServerView, explain
from wizard.bench.figures import ClientLoad, Figures, compute_figures
from wizard.bench.network import Network, Reach, compute_network
from wizard.bench.samples import Sample
from wizard.serving.metrics import Load
from wizard.watching.reading import Reading

IDLE = ClientLoad(0.1, 0.2)
PREFIX = 10_000


def figures(
    first: float = 0.1, gap: float = 0.01, *, tokens: int = 50, prompt: int = 100, concurrency: int = 1,
    cached: int | None = None, cold_first: float | None = None, wall_s: float = 10.0, client: ClientLoad = IDLE,
    errors: int = 0, error: str = "HTTP 429", seen: bool = False, count: int = 20,
) -> Figures:  # fmt: skip
    def sample(first_s: float, warm: bool) -> Sample:
        times = tuple(first_s + gap * number for number in range(tokens))
        return Sample(token_s=times, output_tokens=tokens, prompt_tokens=prompt, cached_tokens=cached,
                      usage_said=True, seen=warm)  # fmt: skip

    samples = [sample(first, seen)] * count
    samples += [sample(cold_first, False)] * (count // 4) if cold_first else []
    samples += [Sample(error=error)] * errors
    return compute_figures("x", concurrency, samples, wall_s, client)


def view(
    *, queue_s: float | None = None, preemptions: int = 0, hit_rate: float | None = None, running: int | None = None,
    waiting: int | None = None, kv: float | None = None, **more: Any,
) -> ServerView:  # fmt: skip
    reading = Reading(Load(), 10.0, preemptions=preemptions, prefix_hit_rate=hit_rate)
    queue_ms = None if queue_s is None else queue_s * 1000
    return ServerView(reading, running, waiting, kv, queue_ms=queue_ms, **more)


def codes(causes: tuple[Cause, ...]) -> list[str]:
    return [cause.code for cause in causes]


def cause_of(causes: tuple[Cause, ...], code: str) -> Cause:
    (found,) = [cause for cause in causes if cause.code == code]
    return found


def network(empty_ms: float, first_ms: float) -> Network:
    reached = [Reach(0.001, 0.02, 0.04, empty_ms / 1000, 400)] * 3
    return compute_network("x", reached, first_ms)


def test_a_short_prompt_and_a_long_answer_are_decode_bound() -> None:
    (cause,) = explain([(figures(0.05, 0.02, tokens=100), None)])
    assert cause.code == "decode-bound"
    assert "20.0 ms a token at 1 at once" in cause.saw[0]
    assert "10.0 ms" in cause.gain


def test_a_long_prompt_and_a_short_answer_are_prefill_bound_with_its_rate() -> None:
    causes = explain([(figures(2.0, 0.01, tokens=10, prompt=12_000), None)])
    cause = cause_of(causes, "prefill-bound")
    assert codes(causes)[0] == "prefill-bound"
    assert "6000 new tokens/s" in cause.saw[0]
    assert "1000 ms" in cause.gain
    assert "--enable-prefix-caching" in cause.flags


def test_the_way_and_the_queue_are_no_prefill() -> None:
    ladder = [(figures(2.0, 0.01, tokens=10, prompt=12_000), view(queue_s=1.6))]
    assert "prefill-bound" not in codes(explain(ladder, network(300, 2000)))


def test_the_servers_own_prefill_time_counts_and_hits_are_not_new_tokens() -> None:
    ladder = [(figures(2.0, 0.01, tokens=10, prompt=12_000), view(hit_rate=0.75, prefill_ms=1000.0))]
    cause = cause_of(explain(ladder), "prefill-bound")
    assert "12000 prompt tokens, 9000 of them cached, in 1000 ms: 3000 new tokens/s" in cause.saw[0]


def test_requests_that_wait_while_the_cache_has_room_want_more_seats() -> None:
    ladder = [
        (figures(0.2, 0.02), view(queue_s=0.0)),
        (figures(2.0, 0.02, concurrency=64), view(queue_s=1.7, running=16, waiting=48, kv=0.3)),
    ]
    cause = cause_of(explain(ladder), "queueing")
    assert cause.flags == ("--max-num-seqs 32",)
    assert "1700 ms of the 2000 ms" in cause.gain
    assert any("at most 16 ran while 48 waited" in line for line in cause.saw)


@pytest.mark.parametrize(
    "pressed",
    [
        pytest.param(view(queue_s=1.7, running=16, waiting=48, kv=0.99), id="full"),
        pytest.param(view(queue_s=0.0, preemptions=7, kv=0.6), id="preempted"),
    ],
)
def test_requests_that_wait_for_a_full_cache_want_a_larger_one(pressed: ServerView) -> None:
    causes = explain([(figures(0.2, 0.02), view(queue_s=0.0)), (figures(2.0, 0.02, concurrency=64), pressed)])
    assert "queueing" not in codes(causes)
    assert "--kv-cache-dtype fp8" in cause_of(causes, "kv-pressure").flags


def test_without_metrics_a_queue_shows_in_first_tokens_alone() -> None:
    causes = explain([(figures(0.2, 0.02), None), (figures(3.0, 0.025, concurrency=64), None)])
    cause = cause_of(causes, "queueing")
    assert cause.flags == ()
    assert "shows no metrics" in cause.saw[0]
    # Everything slower alike is a server at work, not a queue.
    assert "queueing" not in codes(explain([(figures(0.2, 0.02), None), (figures(3.0, 0.2, concurrency=64), None)]))


def test_an_idle_server_has_no_queue() -> None:
    assert "queueing" not in codes(explain([(figures(0.2, 0.02), view(queue_s=0.001, kv=0.99))]))


@pytest.mark.parametrize("hit_rate", [0.0, None])
def test_a_cache_that_is_off_is_switched_on(hit_rate: float | None) -> None:
    ladder = [(figures(1.0, seen=True, prompt=12_000), view(hit_rate=hit_rate, caching=False))]
    cause = cause_of(explain(ladder, tokens_shared=PREFIX), "no-prefix-hits")
    assert cause.flags == ("--enable-prefix-caching",)
    assert "833 of 1000 ms" in cause.gain


def test_a_template_that_changes_the_beginning_is_named_with_the_place() -> None:
    probe = PrefixProbe(12, 11_000, "12:31:05 You are", "12:31:06 You are")
    ladder = [(figures(1.0, seen=True, prompt=12_000), view(hit_rate=0.01, caching=True, probe=probe))]
    cause = cause_of(explain(ladder, tokens_shared=PREFIX), "no-prefix-hits")
    assert "template" in cause.action
    assert any("12:31:05" in line and "12:31:06" in line for line in cause.saw)
    assert any("12 of 11000" in line for line in cause.saw)


def test_a_template_that_keeps_the_beginning_is_not_blamed() -> None:
    probe = PrefixProbe(10_990, 11_000)
    ladder = [(figures(1.0, seen=True, prompt=12_000), view(hit_rate=0.01, caching=True, probe=probe))]
    cause = cause_of(explain(ladder, tokens_shared=PREFIX), "no-prefix-hits")
    assert "changes the beginning" not in cause.action
    assert "the same server" in cause.action


def test_a_gateway_that_keeps_nothing_shows_in_its_times_or_its_usage() -> None:
    same = explain([(figures(1.0, seen=True, cold_first=1.05), None)], tokens_shared=PREFIX)
    assert "CLAUDE_CODE_ATTRIBUTION_HEADER=0" in cause_of(same, "no-prefix-hits").action
    told = explain([(figures(1.0, seen=True, prompt=12_000, cached=0), None)], tokens_shared=PREFIX)
    assert "no-prefix-hits" in codes(told)


@pytest.mark.parametrize(
    ("given", "server", "shared"),
    [
        pytest.param(figures(0.2, seen=True, cold_first=1.0), None, PREFIX, id="warm-is-faster"),
        pytest.param(figures(0.05, seen=True, cold_first=0.05), None, PREFIX, id="too-fast-to-tell"),
        pytest.param(figures(1.0, seen=True), view(hit_rate=0.8), PREFIX, id="hits"),
        pytest.param(figures(1.0, seen=True, prompt=12_000, cached=11_000), None, PREFIX, id="usage-says-hits"),
        pytest.param(figures(1.0, seen=False), view(hit_rate=0.0), PREFIX, id="nothing-was-sent-before"),
        pytest.param(figures(1.0, seen=True), view(hit_rate=0.0), 100, id="too-short-for-blocks"),
    ],
)
def test_a_cache_that_works_or_cannot_is_not_blamed(given: Figures, server: ServerView | None, shared: int) -> None:
    assert "no-prefix-hits" not in codes(explain([(given, server)], tokens_shared=shared))


def test_a_cache_that_works_but_never_did_for_the_clients_before_is_blamed_on_their_prompts() -> None:
    ours = figures(0.2, seen=True)
    missed = view(hit_rate=0.8, earlier_queried_tokens=900_000, earlier_hit_tokens=100)
    cause = cause_of(explain([(ours, missed)], tokens_shared=PREFIX), "clients-miss-prefix")
    assert "CLAUDE_CODE_ATTRIBUTION_HEADER=0" in cause.action
    assert "100 of 900000" in cause.saw[0]
    for fine in (
        view(hit_rate=0.8, earlier_queried_tokens=900_000, earlier_hit_tokens=500_000),
        view(hit_rate=0.8, earlier_queried_tokens=900, earlier_hit_tokens=0),
        view(hit_rate=0.1, earlier_queried_tokens=900_000, earlier_hit_tokens=100),
        view(hit_rate=0.8),
    ):
        assert "clients-miss-prefix" not in codes(explain([(ours, fine)]))


def test_a_long_way_is_named_with_what_it_costs() -> None:
    cause = cause_of(explain([(figures(0.2, 0.001), None)], network(80, 200)), "network")
    assert cause.what.startswith("40%")
    assert "At most 80 ms" in cause.gain
    assert "61 ms" in cause.gain
    assert "network" not in codes(explain([(figures(0.2), None)], network(10, 200)))


def test_a_client_at_its_limit_comes_first() -> None:
    for load in (ClientLoad(0.99, 80.0), ClientLoad(0.1, 80.0), ClientLoad(0.99, 80.0, stamped=True)):
        assert codes(explain([(figures(0.1, client=load), None)]))[0] == "client-limited"


def test_a_client_that_is_late_but_has_the_kernels_times_is_no_cause() -> None:
    late = figures(0.5, 1.0, client=ClientLoad(0.1, 600.0, stamped=True), tokens=3)
    assert late.distortion == "throughput"
    assert any("throughput may be higher" in note for note in late.notes)
    assert "client-limited" not in codes(explain([(late, None)]))


def test_refusals_come_before_what_everybody_has() -> None:
    causes = explain([(figures(0.1, 0.02, tokens=100, errors=5), None)])
    assert codes(causes)[0] == "refused"
    assert "5 of 25" in causes[0].what
    assert "refused" not in codes(explain([(figures(0.1, errors=5, error="HTTP 500"), None)]))


def test_a_ladder_that_brings_nothing_more_is_said_with_the_step_before() -> None:
    ladder = [
        (figures(0.1, wall_s=10.0), None),
        (figures(0.2, concurrency=4, wall_s=3.0), None),
        (figures(0.9, concurrency=16, wall_s=2.95), None),
    ]
    cause = cause_of(explain(ladder), "saturated")
    assert cause.what == "More than 4 at once brings nothing."
    assert "200 instead of 900 ms" in cause.gain
    assert "saturated" not in codes(explain(ladder[:2]))


def test_without_answers_there_is_nothing_to_explain() -> None:
    assert explain([]) == ()
    assert explain([(compute_figures("x", 1, [Sample(error="HTTP 500")], 1.0, IDLE), None)]) == ()


def test_the_network_is_medians_of_each_step_and_a_share_of_the_first_token() -> None:
    reached = [Reach(0.001, 0.01, None, 0.05, 400), Reach(0.002, 0.02, None, 0.06, 400), Reach(failure="OSError")]
    found = compute_network("x", reached, 110.0)
    document = found.as_json()
    assert document["connect_ms"]["p50"] == 15.0
    assert document["tls_ms"] is None
    assert document["failures"] == 1
    assert document["share_of_time_to_first_token"] == 0.5
    assert compute_network("x", reached, None).share is None
