"""What a vLLM server says about its load, from its `/metrics` (the Prometheus text format).

Which name means what in which release stands in metrics.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Metric:
    """A quantity that vLLM tells. names: newest first. several: how engines of one server are put together."""

    quantity: str
    kind: Literal["gauge", "counter", "histogram"]
    several: Literal["sum", "max"]
    names: tuple[str, ...]


@cache
def known_metrics() -> dict[str, Metric]:
    """The rows of metrics.toml by quantity."""
    text = resources.files("wizard.serving").joinpath("metrics.toml").read_text("utf-8")
    return {
        row["quantity"]: Metric(
            row["quantity"], row["kind"], row["several"], tuple(entry["name"] for entry in row["names"])
        )
        for row in tomllib.loads(text)["metric"]
    }


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
    for name, labels, value in parse_metrics(text):
        samples.setdefault(name, []).append(value)
        if name == "vllm:cache_config_info":
            size = labels.get("kv_cache_size_tokens", "")
            if size.isdigit():
                kv_tokens = (kv_tokens or 0) + int(size)
    usage = _first(samples, "kv_cache_usage")
    return Load(
        requests_running=_total(samples, "requests_running"),
        requests_waiting=_total(samples, "requests_waiting"),
        kv_cache_usage=max(usage) if usage else None,
        kv_cache_tokens=kv_tokens,
        prefix_queried_tokens=_total(samples, "prefix_queried_tokens"),
        prefix_hit_tokens=_total(samples, "prefix_hit_tokens"),
    )


def parse_metrics(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """(name, labels, value) of each sample; lines that are none, and NaN, are passed over."""
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


def _first(samples: dict[str, list[float]], quantity: str) -> list[float]:
    return next((samples[name] for name in known_metrics()[quantity].names if name in samples), [])


def _total(samples: dict[str, list[float]], quantity: str) -> int | None:
    values = _first(samples, quantity)
    return int(sum(values)) if values else None
