"""`measure`: one endpoint, one workload, figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wizard.bench.figures import ClientLoad
from wizard.bench.samples import StreamRecord
from wizard.bench.workloads import WorkloadOptions
from wizard.effects.streams import LoadResult, StreamJob
from wizard.endpoint.model import Endpoint
from wizard.flows.bench import measure
from wizard.secret import Secret

ENDPOINT = Endpoint("own", "http://127.0.0.1:9/v1", None, "m", Secret("sk-0123456789abcdef"), max_model_len=8192)
ANSWER = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: [DONE]\n\n'


@dataclass
class FakeLoad:
    """Answers every job after `first_s`, by a clock that only it moves."""

    first_s: float = 0.1
    now_s: float = 0.0
    runs: list[tuple[list[list[dict[str, Any]]], int, tuple[float, ...]]] = field(default_factory=list)
    jobs: list[StreamJob] = field(default_factory=list)

    def run(
        self,
        chains: Sequence[Sequence[StreamJob]],
        concurrency: int,
        take: Callable[[int, StreamRecord], None],
        *,
        starts_s: Sequence[float] = (),
        done: Callable[[], None] | None = None,
    ) -> LoadResult:
        self.runs.append(([[json.loads(job.body) for job in chain] for chain in chains], concurrency, tuple(starts_s)))
        jobs = [job for chain in chains for job in chain]
        for number, job in enumerate(jobs):
            self.jobs.append(job)
            sent_s, self.now_s = self.now_s, self.now_s + self.first_s
            take(number, StreamRecord(sent_s, self.now_s, status=200, arrivals=((self.now_s, ANSWER),)))
            if done:
                done()
        return LoadResult(self.first_s * len(jobs), ClientLoad(0.1, 0.1))


def test_figures_and_samples_are_of_the_requests_after_the_warm_up() -> None:
    load, counted = FakeLoad(), []
    measured = measure(
        load, ENDPOINT, WorkloadOptions(nonce="a"), concurrency=4, requests=6, warm_up=2, done=lambda: counted.append(1)
    )
    assert (len(load.jobs), len(measured.samples), len(counted)) == (8, 6, 6)
    assert (measured.figures.target, measured.figures.concurrency, measured.figures.requests) == ("own", 4, 6)
    assert measured.figures.time_to_first_token_ms is not None
    assert round(measured.figures.time_to_first_token_ms.p50) == 100
    warmed, asked = ({json.dumps(chain) for chain in chains} for chains, _, _ in load.runs)
    assert not warmed & asked


def test_the_request_goes_to_the_endpoint_with_its_key_and_model() -> None:
    load = FakeLoad()
    measure(load, ENDPOINT, WorkloadOptions(ignore_eos=True), requests=1)
    assert load.jobs[0].url == "http://127.0.0.1:9/v1/chat/completions"
    assert dict(load.jobs[0].headers)["authorization"] == "Bearer sk-0123456789abcdef"
    body = json.loads(load.jobs[0].body)
    assert (body["model"], body["ignore_eos"], body["stream"]) == ("m", True, True)


def test_an_agents_conversations_are_chains_that_fit_the_context_and_tell_cold_from_warm() -> None:
    load = FakeLoad()
    measured = measure(load, ENDPOINT, WorkloadOptions(kind="agent"), concurrency=2, requests=10)
    ((chains, concurrency, starts_s),) = load.runs
    assert ([len(chain) for chain in chains], concurrency, starts_s) == ([5, 5], 2, ())
    assert max(len(json.dumps(body).split()) for chain in chains for body in chain) < 8192
    assert [sample.seen for sample in measured.samples] == [False, True, True, True, True] * 2
    assert measured.figures.cold_first_token_ms and measured.figures.warm_first_token_ms


def test_at_a_rate_conversations_have_times_that_a_seed_repeats() -> None:
    load = FakeLoad()
    for _ in range(2):
        measured = measure(load, ENDPOINT, WorkloadOptions(seed=3), requests=20, rate_per_s=10.0)
    assert load.runs[0][2] == load.runs[1][2]
    assert len(load.runs[0][2]) == 20
    assert measured.figures.rate_per_s == 10.0
