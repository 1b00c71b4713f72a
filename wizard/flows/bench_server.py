"""What a server says about itself while it is measured: its metrics, and how its template cuts our prompts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wizard.bench.explain import PrefixProbe, ServerView
from wizard.bench.workloads import Ask
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpReply, HttpRequest
from wizard.endpoint.model import Endpoint
from wizard.endpoint.requests import auth_headers
from wizard.endpoint.urls import without_version
from wizard.serving.metrics import Load, parse_metrics
from wizard.watching.reading import Snapshot, parse_snapshot, read_window

# Seldom: a server writes its metrics between two tokens, and what is measured should not be the measuring.
_LOOK_S = 2.0
# Histograms of which the sums tell more than the buckets, the lowest of which reaches to 0.3 s (v1/metrics/loggers.py).
_QUEUE, _PREFILL = "vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds"
_ASK_S = 5.0
_MOST_BYTES = 16 * 2**20
# Of each prompt, so much text around the place where two part.
_SHOWN_TOKENS = 8


@dataclass(frozen=True, slots=True)
class _Look:
    """One reading. sums: of histograms, by name."""

    snapshot: Snapshot
    sums: dict[str, float]


class ServerEyes:
    """Reads one server's `/metrics` before, during and after each share of its measurement.

    Use as a context around sending; `view` is about all shares since `begin`. Silent where a server has no metrics.
    """

    def __init__(self, world: World, endpoint: Endpoint) -> None:
        self._world = world
        self._endpoint = endpoint
        self._root = without_version(endpoint.openai_base_url)
        self._caching: bool | None = None
        self._before: _Look | None = None
        self._after: _Look | None = None
        self._peaks: list[Load] = []
        self._stop = threading.Event()
        self._looking: threading.Thread | None = None
        self._first = self._look()
        self.sees = self._first is not None

    def begin(self) -> None:
        """A new load begins: forget what was seen."""
        self._before = self._after = None
        self._peaks = []

    def __enter__(self) -> ServerEyes:
        if self.sees:
            self._before = self._before or self._look()
            self._stop.clear()
            self._looking = threading.Thread(target=self._keep_looking, daemon=True)
            self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._looking:
            self._stop.set()
            self._looking.join(_ASK_S * 2)
            self._looking = None
            self._after = self._look()

    def view(self) -> ServerView | None:
        """What was seen since `begin`; None without metrics."""
        if self._before is None or self._after is None:
            return None
        before, after = self._before, self._after
        loads = (*self._peaks, after.snapshot.load)

        def most(name: str) -> Any:
            return max((value for load in loads if (value := getattr(load, name)) is not None), default=None)

        return ServerView(
            read_window((before.snapshot, after.snapshot), after.snapshot.at_s - before.snapshot.at_s),
            most("requests_running"),
            most("requests_waiting"),
            most("kv_cache_usage"),
            self._caching,
            queue_ms=_mean_ms(before, after, _QUEUE),
            prefill_ms=_mean_ms(before, after, _PREFILL),
            earlier_queried_tokens=self._first.snapshot.load.prefix_queried_tokens if self._first else None,
            earlier_hit_tokens=self._first.snapshot.load.prefix_hit_tokens if self._first else None,
        )

    def probe(self, earlier: Ask, later: Ask) -> PrefixProbe | None:
        """How much of a prompt the next one of its conversation keeps, by the server's own `/tokenize`."""
        cut = [self._tokenize(ask) for ask in (earlier, later)]
        if cut[0] is None or cut[1] is None:
            return None
        (first, first_texts), (second, second_texts) = cut[0], cut[1]
        # Without the words that ask for the answer, which the next prompt does not have at that place.
        bare = self._tokenize(earlier, ask_for_answer=False)
        possible = len(bare[0]) if bare else len(first)
        shared = next(
            (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
        )
        return PrefixProbe(shared, possible, _text_at(first_texts, shared), _text_at(second_texts, shared))

    def _tokenize(self, ask: Ask, *, ask_for_answer: bool = True) -> tuple[list[int], list[str]] | None:
        body: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": list(ask.messages),
            "add_generation_prompt": ask_for_answer,
            "return_token_strs": True,
            **({"tools": list(ask.tools)} if ask.tools else {}),
        }
        reply = self._world.http.send(
            HttpRequest(
                "POST",
                f"{self._root}/tokenize",
                auth_headers(self._endpoint.key),
                json_body=body,
                timeout_s=_ASK_S,
                max_body_bytes=_MOST_BYTES,
            )
        )
        value = reply.json() if isinstance(reply, HttpReply) and reply.status == 200 else None
        if not isinstance(value, dict) or not isinstance(value.get("tokens"), list):
            return None
        texts = value.get("token_strs")
        return value["tokens"], [str(text) for text in texts] if isinstance(texts, list) else []

    def _keep_looking(self) -> None:
        while not self._stop.wait(_LOOK_S):
            look = self._look()
            if look:
                self._peaks.append(look.snapshot.load)

    def _look(self) -> _Look | None:
        reply = self._world.http.send(
            HttpRequest(
                "GET",
                f"{self._root}/metrics",
                auth_headers(self._endpoint.key),
                timeout_s=_ASK_S,
                max_body_bytes=_MOST_BYTES,
            )
        )
        if not isinstance(reply, HttpReply) or reply.status != 200 or reply.cut or "vllm:" not in reply.text:
            return None
        if self._caching is None:
            self._caching = _parse_caching(reply.text)
        return _Look(parse_snapshot(reply.text, self._world.clock.monotonic_s()), _parse_sums(reply.text))


def _parse_sums(text: str) -> dict[str, float]:
    """The `_sum` and `_count` of the histograms above; engines of one server are added."""
    found: dict[str, float] = {}
    for name, _, value in parse_metrics(text):
        if name.startswith((_QUEUE, _PREFILL)) and name.endswith(("_sum", "_count")):
            found[name] = found.get(name, 0.0) + value
    return found


def _mean_ms(before: _Look, after: _Look, name: str) -> float | None:
    """Of the requests in between; None where there were none, or the server began anew."""

    def more(part: str) -> float:
        return after.sums.get(f"{name}_{part}", 0.0) - before.sums.get(f"{name}_{part}", 0.0)

    return more("sum") / more("count") * 1000 if more("count") > 0 and more("sum") >= 0 else None


def _parse_caching(text: str) -> bool | None:
    """Whether `vllm:cache_config_info` says that the prefix cache is on."""
    for name, labels, _ in parse_metrics(text):
        if name == "vllm:cache_config_info" and "enable_prefix_caching" in labels:
            return labels["enable_prefix_caching"] == "True"
    return None


def _text_at(texts: Sequence[str], at: int) -> str:
    """The text from a token on, in the tokenizer's own letters made readable."""
    return "".join(texts[at : at + _SHOWN_TOKENS]).replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")
