"""One HTTP exchange as values: what was sent, what came back. `effects.http` makes them, deciding code reads them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

FailureKind = Literal[
    "refused", "timeout", "dns", "tls", "reset", "protocol", "proxy", "unreachable", "invalid-request"
]

DEFAULT_MAX_BODY_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. `json_body` is sent compact with its content type; `body` as it is.

    timeout_s bounds the whole exchange, connect_timeout_s the connection. trust_env: use HTTP_PROXY and the like.
    first_byte_is_enough: of a success no more than the first byte is read; an error is read whole, for what it says.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    json_body: Any = None
    body: bytes | None = None
    timeout_s: float = 30.0
    connect_timeout_s: float = 4.0
    trust_env: bool = True
    verify_tls: bool = True
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    follow_redirects: bool = False
    first_byte_is_enough: bool = False

    def most_bytes(self, status: int) -> int:
        """How much of a reply's body is read."""
        return 1 if self.first_byte_is_enough and status < 400 else self.max_body_bytes


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What came back. `cut` says why the body ended early (error, limit, time); body holds what came until then."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    first_byte_s: float
    elapsed_s: float
    cut: str = ""
    # Arrival of each chunk: (seconds since the request was sent, bytes so far).
    arrivals: tuple[tuple[float, int], ...] = field(default=(), repr=False)

    def header(self, name: str) -> str:
        """A header's value by name, in any case; empty when absent."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 become U+FFFD."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON, or None when it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """No reply. `text` is the library's own word."""

    kind: FailureKind
    text: str
    elapsed_s: float
