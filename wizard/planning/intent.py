"""What the user wants of a server, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Wish = Literal["balanced", "context", "latency", "throughput"]


@dataclass(frozen=True, slots=True)
class Pin:
    """A vLLM flag that the user fixed with `--set`. flag: with its two dashes; value: None for a bare switch."""

    flag: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """Wishes and limits for one server.

    context_tokens: the longest request that must fit, None for as long as sensible. clients: names of the clients that
    will use it; least_tokens: the smallest context that all of them work in. vllm_version: the version that will run,
    None for the newest one known. trust_remote_code: the user's own word that code of the model's author may run.
    lora_modules: `name=path`; lora_rank: the largest of them, 0 where it is not known. kv_space_gib: on a machine
    without GPU, the GiB for the KV cache; None: the plan chooses. host, port and key are left to the server's start.
    """

    clients: tuple[str, ...] = ()
    wish: Wish = "balanced"
    context_tokens: int | None = None
    least_tokens: int = 0
    vllm_version: str | None = None
    pins: tuple[Pin, ...] = ()
    served_name: str | None = None
    trust_remote_code: bool = False
    lora_modules: tuple[str, ...] = ()
    lora_rank: int = 0
    kv_space_gib: int | None = None

    def pinned(self, flag: str) -> str | None:
        """The pinned value of a flag, or None; a bare switch gives the empty text."""
        found = [pin for pin in self.pins if pin.flag == flag]
        return (found[-1].value or "") if found else None
