"""What a server says of itself while it is measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wizard.bench.workloads import Ask
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpFailure, HttpReply, HttpRequest
from wizard.endpoint.model import Endpoint
from wizard.flows.bench_server import ServerEyes

ENDPOINT = Endpoint("x", "http://127.0.0.1:9/v1", None, "m")


def metrics(
    *, hits: int = 0, queries: int = 0, preempted: int = 0, running: int = 0, caching: str = "True",
    queue: tuple[float, int] = (0.0, 0),
) -> str:  # fmt: skip
    return f"""
vllm:num_requests_running{{engine="0"}} {running}
vllm:num_requests_waiting{{engine="0"}} {running * 2}
vllm:kv_cache_usage_perc{{engine="0"}} 0.5
vllm:prefix_cache_hits_total{{engine="0"}} {hits}
vllm:prefix_cache_queries_total{{engine="0"}} {queries}
vllm:num_preemptions_total{{engine="0"}} {preempted}
vllm:request_queue_time_seconds_bucket{{engine="0",le="0.3"}} {queue[1]}
vllm:request_queue_time_seconds_sum{{engine="0"}} {queue[0]}
vllm:request_queue_time_seconds_count{{engine="0"}} {queue[1]}
vllm:cache_config_info{{enable_prefix_caching="{caching}",block_size="16"}} 1.0
"""


@dataclass
class FakeHttp:
    """Answers by path; what was asked is kept."""

    answers: dict[str, Callable[[Any], tuple[int, str]]]
    asked: list[HttpRequest] = field(default_factory=list)

    def send(self, request: HttpRequest) -> HttpReply | HttpFailure:
        self.asked.append(request)
        path = request.url.removeprefix("http://127.0.0.1:9")
        if path not in self.answers:
            return HttpReply(404, (), b"", 0.0, 0.0)
        status, text = self.answers[path](request.json_body)
        return HttpReply(status, (), text.encode(), 0.0, 0.0)


def eyes_on(answers: dict[str, Callable[[Any], tuple[int, str]]]) -> ServerEyes:
    ticks = iter(range(1000))
    clock = SimpleNamespace(monotonic_s=lambda: float(next(ticks)))
    return ServerEyes(cast(World, SimpleNamespace(http=FakeHttp(answers), clock=clock)), ENDPOINT)


def test_the_view_is_of_what_happened_between_begin_and_end() -> None:
    pages = iter(
        [
            metrics(hits=10, queries=100),
            metrics(hits=10, queries=100),
            metrics(hits=60, queries=200, preempted=3, running=4),
        ]
    )
    eyes = eyes_on({"/metrics": lambda _: (200, next(pages))})
    assert eyes.sees
    eyes.begin()
    with eyes:
        pass
    view = eyes.view()
    assert view is not None
    assert view.reading.prefix_hit_rate == 0.5
    assert view.reading.preemptions == 3
    assert (view.earlier_hit_tokens, view.earlier_queried_tokens) == (10, 100)
    assert (view.peak_running, view.peak_waiting, view.peak_kv_usage) == (4, 8, 0.5)
    assert view.caching is True


def test_several_turns_of_one_load_count_together_and_a_new_load_begins_anew() -> None:
    seen = {"hits": 0, "queries": 0}
    eyes = eyes_on({"/metrics": lambda _: (200, metrics(**seen))})
    eyes.begin()
    for hits in (10, 30):
        with eyes:
            seen.update(hits=seen["hits"] + hits, queries=seen["queries"] + 100)
    both = eyes.view()
    eyes.begin()
    assert eyes.view() is None
    with eyes:
        seen.update(hits=seen["hits"] + 90, queries=seen["queries"] + 100)
    last = eyes.view()
    assert both is not None and last is not None
    assert both.reading.prefix_hit_rate == 0.2
    assert last.reading.prefix_hit_rate == 0.9


def test_the_mean_queue_time_is_of_the_measurement_alone_and_finer_than_a_bucket() -> None:
    seen = {"queue": (50.0, 10)}
    eyes = eyes_on({"/metrics": lambda _: (200, metrics(**seen))})
    eyes.begin()
    with eyes:
        seen["queue"] = (50.04, 18)
    view = eyes.view()
    assert view is not None
    assert view.queue_ms == pytest.approx(5.0)
    assert view.prefill_ms is None


def test_a_cache_that_is_off_is_seen() -> None:
    eyes = eyes_on({"/metrics": lambda _: (200, metrics(caching="False"))})
    eyes.begin()
    with eyes:
        pass
    view = eyes.view()
    assert view is not None
    assert view.caching is False


def test_a_server_without_metrics_is_looked_at_once() -> None:
    eyes = eyes_on({})
    eyes.begin()
    with eyes:
        pass
    assert not eyes.sees
    assert eyes.view() is None


def tokenizer(words: Callable[[dict[str, Any]], list[str]]) -> Callable[[Any], tuple[int, str]]:
    known: dict[str, int] = {}

    def answer(body: dict[str, Any]) -> tuple[int, str]:
        texts = words(body) + (["<answer>"] if body["add_generation_prompt"] else [])
        return 200, json.dumps({"tokens": [known.setdefault(word, len(known)) for word in texts], "token_strs": texts})

    return answer


def ask(*texts: str) -> Ask:
    return Ask(tuple({"role": "user", "content": text} for text in texts), 8)


def contents(body: dict[str, Any]) -> list[str]:
    return [word for message in body["messages"] for word in message["content"].split()]


def test_a_template_that_keeps_the_beginning_is_proved_by_the_servers_own_tokens() -> None:
    eyes = eyes_on({"/metrics": lambda _: (200, metrics()), "/tokenize": tokenizer(contents)})
    probe = eyes.probe(ask("a b c d"), ask("a b c d", "e f"))
    assert probe is not None
    assert (probe.shared_tokens, probe.possible_tokens) == (4, 4)
    assert probe.kept


def test_a_template_that_writes_the_time_shows_where() -> None:
    times = iter(["Ġ12:31", "Ġ12:32", "Ġ12:33"])
    eyes = eyes_on(
        {
            "/metrics": lambda _: (200, metrics()),
            "/tokenize": tokenizer(lambda body: ["It", "is", next(times), *contents(body)]),
        }
    )
    probe = eyes.probe(ask(*"abcdefgh"), ask(*"abcdefgh"))
    assert probe is not None
    assert probe.shared_tokens == 2
    assert not probe.kept
    assert probe.first.startswith(" 12:31")
    assert probe.second.startswith(" 12:32")


def test_a_server_without_a_tokenizer_proves_nothing() -> None:
    eyes = eyes_on({"/metrics": lambda _: (200, metrics())})
    assert eyes.probe(ask("a"), ask("a")) is None
