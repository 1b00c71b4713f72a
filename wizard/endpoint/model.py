"""The triple: Base URL, Key, Model ID, and what the endpoint behind it can do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from wizard.secret import Secret

# What an endpoint speaks or can do. Client specs (`needs`) and doctor checks use the same words.
Capability = Literal["models", "chat", "stream", "tools", "responses", "messages", "count_tokens"]
CAPABILITIES: tuple[Capability, ...] = ("models", "chat", "stream", "tools", "responses", "messages", "count_tokens")

EndpointKind = Literal["vllm", "gateway", "unknown"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint as every client needs to know it.

    openai_base_url: what an OpenAI SDK takes, mostly ending in `/v1`; `/chat/completions` is added to it by clients.
    anthropic_base_url: what an Anthropic SDK takes, without `/v1`; `/v1/messages` is added to it. None: not spoken.
    max_model_len: tokens that the server's context holds, as the server says; None: not known.
    speaks: what a request proved; empty: nothing was asked yet.
    """

    name: str
    openai_base_url: str
    anthropic_base_url: str | None
    model: str
    key: Secret | None = None
    max_model_len: int | None = None
    speaks: frozenset[Capability] = frozenset()
    kind: EndpointKind = "unknown"

    @property
    def key_hint(self) -> str:
        """For output: `sk-…last4`, or `none`."""
        return self.key.hint if self.key else "none"

    def with_key(self, key: Secret | None) -> Endpoint:
        """The same endpoint with another key."""
        return replace(self, key=key)


@dataclass(frozen=True, slots=True)
class Profile:
    """An endpoint as it is remembered: all of it but the key, which is named by `key_reference`.

    key_reference: `store:NAME` (keyring or the 0600 secrets file), `env:VARIABLE`, or empty for no key.
    server: name of the ServerRecord that serves it, where llm-setup started that server.
    """

    name: str
    openai_base_url: str
    anthropic_base_url: str | None
    model: str
    key_reference: str = ""
    max_model_len: int | None = None
    speaks: tuple[Capability, ...] = ()
    kind: EndpointKind = "unknown"
    server: str = ""

    def endpoint(self, key: Secret | None) -> Endpoint:
        """The endpoint, with the key that the caller resolved."""
        return Endpoint(
            name=self.name,
            openai_base_url=self.openai_base_url,
            anthropic_base_url=self.anthropic_base_url,
            model=self.model,
            key=key,
            max_model_len=self.max_model_len,
            speaks=frozenset(self.speaks),
            kind=self.kind,
        )

    def as_json(self) -> dict[str, Any]:
        """For the profiles file and `profiles --json`."""
        return {
            "name": self.name,
            "openai_base_url": self.openai_base_url,
            "anthropic_base_url": self.anthropic_base_url,
            "model": self.model,
            "key_reference": self.key_reference,
            "max_model_len": self.max_model_len,
            "speaks": list(self.speaks),
            "kind": self.kind,
            "server": self.server,
        }
