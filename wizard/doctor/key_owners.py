"""Whose key it is, as far as its first letters tell: prefixes that one provider alone issues, and its hosts."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """A provider. hosts: of its API."""

    prefix: str
    provider: str
    hosts: re.Pattern[str]


def _owner(prefix: str, provider: str, *hosts: str) -> KeyOwner:
    return KeyOwner(prefix, provider, re.compile(rf"(?:^|\.)(?:{'|'.join(re.escape(host) for host in hosts)})$"))


KEY_OWNERS = (
    _owner("sk-ant-", "Anthropic", "anthropic.com", "claude.ai"),
    _owner("sk-or-", "OpenRouter", "openrouter.ai"),
    _owner("sk-proj-", "OpenAI", "openai.com"),
    _owner("sk-svcacct-", "OpenAI", "openai.com"),
    _owner("gsk_", "Groq", "groq.com"),
    _owner("AIza", "Google", "googleapis.com"),
    _owner("xai-", "xAI", "x.ai"),
    _owner("hf_", "Hugging Face", "huggingface.co", "hf.space", "huggingface.cloud"),
    _owner("nvapi-", "NVIDIA", "nvidia.com"),
    _owner("pplx-", "Perplexity", "perplexity.ai"),
    _owner("csk-", "Cerebras", "cerebras.ai"),
    _owner("ghp_", "GitHub", "github.com", "github.ai", "githubcopilot.com", "azure.com"),
    _owner("github_pat_", "GitHub", "github.com", "github.ai", "githubcopilot.com", "azure.com"),
    _owner("fw_", "Fireworks", "fireworks.ai"),
    _owner("tgp_", "Together", "together.ai", "together.xyz"),
)


def owner_of(key: str) -> KeyOwner | None:
    """The only provider that issues keys which begin so; None where others do too."""
    return next((owner for owner in KEY_OWNERS if key.strip().startswith(owner.prefix)), None)


def is_a_provider(host: str) -> bool:
    """Whether the host is of one of these providers, which refuse each other's keys."""
    return any(owner.hosts.search(host) for owner in KEY_OWNERS)
