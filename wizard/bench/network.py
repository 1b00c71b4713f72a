"""How much of the time to first token is the way to the server, not the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wizard.bench.figures import Spread, spread


@dataclass(frozen=True, slots=True)
class Reach:
    """One fresh connection and a request without content on it; seconds, None for a step that did not happen.

    first_byte_s: from the request's last byte to the answer's first. failure: why there was no answer.
    """

    resolve_s: float | None = None
    connect_s: float | None = None
    tls_s: float | None = None
    first_byte_s: float | None = None
    status: int = 0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Network:
    """The way to one target, in ms. empty_request_ms: round trip, gateway and HTTP server, without a model.

    share: that of empty_request_ms in the time to first token at the lowest concurrency measured.
    """

    target: str
    resolve_ms: Spread | None
    connect_ms: Spread | None
    tls_ms: Spread | None
    empty_request_ms: Spread | None
    failures: int
    share: float | None = None

    def as_json(self) -> dict[str, Any]:
        """One entry of `network` of `bench --json`."""

        def shown(value: Spread | None) -> dict[str, float] | None:
            return value.as_json() if value else None

        return {
            "target": self.target,
            "resolve_ms": shown(self.resolve_ms),
            "connect_ms": shown(self.connect_ms),
            "tls_ms": shown(self.tls_ms),
            "empty_request_ms": shown(self.empty_request_ms),
            "failures": self.failures,
            "share_of_time_to_first_token": None if self.share is None else round(self.share, 4),
        }


def compute_network(target: str, reached: Sequence[Reach], first_token_ms: float | None) -> Network:
    """first_token_ms: median time to first token of an unloaded server, on a connection that is open."""

    def of(name: str) -> Spread | None:
        return spread(value * 1000 for one in reached if (value := getattr(one, name)) is not None)

    empty = of("first_byte_s")
    share = min(1.0, empty.p50 / first_token_ms) if empty and first_token_ms else None
    failures = sum(bool(one.failure) for one in reached)
    return Network(target, of("resolve_s"), of("connect_s"), of("tls_s"), empty, failures, share)
