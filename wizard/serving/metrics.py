"""What a vLLM server says about its load, from its `/metrics` (the Prometheus text format)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

# A name, and what versions before called the same: vLLM renamed these between 0.6 and 0.10.
_RUNNING = ("vllm:num_requests_running",)
_WAITING = ("vllm:num_requests_waiting",)
_KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
_QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total", "vllm:prefix_cache_queries")
_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "vllm:prefix_cache_hits")


@dataclass(frozen=True, slots=True)
class Load:
    """A server's load now. kv_cache_usage: 0 to 1. prefix_*_tokens: since the start. kv_cache_tokens: its size.
    None: the server does not say."""

    requests_running: int | None = None
    requests_waiting: int | None = None
    kv_cache_usage: float | None = None
    kv_cache_tokens: int | None = None
    prefix_queried_tokens: int | None = None
    prefix_hit_tokens: int | None = None

    @property
    def prefix_hit_rate(self) -> float | None:
        """Hits by queries, 0 to 1; None before the first query."""
        if not self.prefix_queried_tokens or self.prefix_hit_tokens is None:
            return None
        return self.prefix_hit_tokens / self.prefix_queried_tokens

    def as_json(self) -> dict[str, Any]:
        """For `status --json`."""
        rate = self.prefix_hit_rate
        return {
            "requests_running": self.requests_running,
            "requests_waiting": self.requests_waiting,
            "kv_cache_usage": self.kv_cache_usage,
            "kv_cache_tokens": self.kv_cache_tokens,
            "prefix_cache_queried_tokens": self.prefix_queried_tokens,
            "prefix_cache_hit_tokens": self.prefix_hit_tokens,
            "prefix_cache_hit_rate": None if rate is None else round(rate, 4),
        }


def parse_load(text: str) -> Load:
    """The load in a `/metrics` body; engines of one server (data parallel) are added, usage is the fullest one's."""
    samples: dict[str, list[float]] = {}
    kv_tokens: int | None = None
    for name, labels, value in _samples(text):
        samples.setdefault(name, []).append(value)
        if name == "vllm:cache_config_info":
            size = labels.get("kv_cache_size_tokens", "")
            if size.isdigit():
                kv_tokens = (kv_tokens or 0) + int(size)
    usage = _first(samples, _KV_USAGE)
    return Load(
        requests_running=_total(samples, _RUNNING),
        requests_waiting=_total(samples, _WAITING),
        kv_cache_usage=max(usage) if usage else None,
        kv_cache_tokens=kv_tokens,
        prefix_queried_tokens=_total(samples, _QUERIES),
        prefix_hit_tokens=_total(samples, _HITS),
    )


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        found = _SAMPLE.match(line)
        if not found:
            continue
        try:
            value = float(found["value"])
        except ValueError:
            continue
        if value == value:  # NaN says nothing
            yield found["name"], dict(_LABEL.findall(found["labels"] or "")), value


def _first(samples: dict[str, list[float]], names: tuple[str, ...]) -> list[float]:
    return next((samples[name] for name in names if name in samples), [])


def _total(samples: dict[str, list[float]], names: tuple[str, ...]) -> int | None:
    values = _first(samples, names)
    return int(sum(values)) if values else None
