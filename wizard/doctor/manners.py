"""How each client asks: its protocol, headers, limits, and the parts of its requests that servers stumble over.

Figures: first real request of each client for "say hi" in an empty repository, captured on 2026-11-30 (Codex 0.171.0,
Claude Code 2.1.332, Cline 3.0.65, Continue 1.5.47, opencode 1.18.33, Kilo 7.7.7, Qwen Code 0.24.4, pi 0.73.1,
aider 0.86.2, llm 0.36).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wizard.doctor.observations import Wire

# What a client's requests contain beyond one user message.
Part = Literal["system", "developer", "tools", "parts", "stream", "namespace", "web-search", "betas", "count-tokens"]


@dataclass(frozen=True, slots=True)
class Manner:
    """One client. max_tokens: of its first request; None: it sends no limit. (How large that request is, its folder in
    templates/ says.)

    small_models: ids that it asks for when no small model is configured. prefix: its model ids begin with a provider.
    """

    client: str
    title: str
    wire: Wire = "chat"
    user_agent: str = "OpenAI/Python 3.57.0"
    max_tokens: int | None = None
    sends: frozenset[Part] = frozenset()
    small_models: tuple[str, ...] = ()
    prefix: bool = False
    agent: bool = False


_AGENT: frozenset[Part] = frozenset({"system", "tools", "stream"})
_AGENT_PARTS: frozenset[Part] = _AGENT | {"parts"}

_ROWS = (
    Manner(
        "codex",
        "Codex",
        "responses",
        "codex_cli_rs/0.171.0",
        sends=frozenset({"developer", "tools", "stream", "namespace", "web-search"}),
        agent=True,
    ),
    Manner(
        "claude-code",
        "Claude Code",
        "messages",
        "claude-cli/2.1.332 (external, cli)",
        32_000,
        frozenset({"system", "tools", "stream", "parts", "betas"}),
        ("claude-haiku-5-5", "claude-haiku-4-5-20251001", "claude-3-5-haiku-20241022"),
        agent=True,
    ),
    Manner("anthropic-sdk", "the Anthropic SDK", "messages", "Anthropic/Python 2.14.0"),
    Manner("cline", "Cline", user_agent="ai-sdk/openai-compatible", sends=_AGENT_PARTS, agent=True),
    Manner("roo", "Roo Code", sends=_AGENT_PARTS, agent=True),
    Manner("kilo", "Kilo", "chat", "ai-sdk/openai-compatible", 32_000, _AGENT, agent=True),
    Manner("opencode", "opencode", "chat", "ai-sdk/openai-compatible", 32_000, _AGENT, agent=True),
    Manner("qwen", "Qwen Code", "chat", "QwenCode/0.24.4", 32_000, _AGENT_PARTS, agent=True),
    Manner("continue", "Continue", user_agent="OpenAI/JS", sends=_AGENT, agent=True),
    Manner("pi", "pi", "chat", "OpenAI/JS", 16_384, _AGENT, agent=True),
    Manner("crush", "Crush", user_agent="Charm Crush", sends=_AGENT, agent=True),
    Manner("zed", "Zed", user_agent="Zed", sends=_AGENT, agent=True),
    Manner(
        "aider",
        "aider",
        user_agent="litellm/1.81.10",
        sends=frozenset({"system", "stream"}),
        prefix=True,
    ),
    Manner("litellm", "LiteLLM", user_agent="litellm/1.81.10", prefix=True),
    Manner("llm", "llm", sends=frozenset({"stream"})),
    Manner("open-webui", "Open WebUI", user_agent="Python/3.11 aiohttp/3.12", sends=frozenset({"system", "stream"})),
    Manner("openai-sdk", "the OpenAI SDK"),
    Manner("curl", "curl", user_agent="curl/8.5.0"),
    Manner("shell", "the shell", user_agent="curl/8.5.0"),
)
_BY_CLIENT = {row.client: row for row in _ROWS}
# A client that nobody described: an OpenAI SDK's manner.
_PLAIN = Manner("", "the client")


def manner_of(client: str) -> Manner:
    """The manner of a client by its name in templates/; a plain OpenAI client's for any other name."""
    return _BY_CLIENT.get(client, _PLAIN)


def wire_of(client: str) -> Wire:
    """The protocol that the client speaks."""
    return manner_of(client).wire


# LiteLLM's names for servers that speak OpenAI's protocol; it takes them off before it asks.
_PROVIDERS = ("openai/", "hosted_vllm/", "litellm_proxy/", "vllm/", "openai_like/", "custom_openai/", "lm_studio/")


def model_on_the_wire(client: str, model: str) -> str:
    """The id that reaches the server: LiteLLM and aider take their provider's name off the front."""
    if manner_of(client).prefix:
        for provider in _PROVIDERS:
            if model.startswith(provider):
                return model[len(provider) :]
    return model
