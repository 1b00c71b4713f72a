"""The values a plan is made of."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Any

from wizard.problems import Problem

# Flags of `vllm serve` that take several words (`nargs` "+" or "*" in vLLM 0.32's parser).
_LISTS = frozenset(
    {
        "--lora-modules", "--api-key", "--allowed-media-domains", "--served-model-name", "--logits-processors",
        "--sleep-preserve-parameter-names", "--ignore-patterns", "--numa-bind-nodes", "--numa-bind-cpus",
        "--kv-cache-dtype-skip-layers", "--cpu-offload-params", "--offload-params", "--lora-target-modules",
        "--collect-detailed-traces", "--cudagraph-capture-sizes",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of `vllm serve`. value None: a bare switch; of a flag that takes several words, the words as in a shell.
    reason: why, for a newcomer. source: who says so.

    source: "you" (pinned), "model", "catalogue", "memory", "machine", "clients", "vllm".
    """

    flag: str
    value: str | None
    reason: str
    source: str
    cost: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """As they stand in a command."""
        return (self.flag, *self.values)

    @property
    def values(self) -> tuple[str, ...]:
        """What follows the flag: nothing, one word, or several."""
        if self.value is None:
            return ()
        if self.several:
            try:
                return tuple(shlex.split(self.value)) or (self.value,)
            except ValueError:
                return (self.value,)
        return (self.value,)

    @property
    def several(self) -> bool:
        """Whether vLLM takes several words after this flag."""
        return self.flag in _LISTS

    def as_json(self) -> dict[str, Any]:
        """The contract's form."""
        return {
            "flag": self.flag,
            "value": self.value,
            "reason": self.reason,
            "source": self.source,
            "cost": self.cost,
        }


@dataclass(frozen=True, slots=True)
class Memory:
    """The budget of one GPU (the fullest rank), or of the CPU's memory. GiB; all estimated until a start measured them.

    budget_gib: what vLLM may use in all. other_gib: libraries, communication buffers. kv_tokens: what the server will
    print; low and high hold 90% of real starts. max_model_len_fitting: the longest request that still fits.
    used_by_others_gib: held by other processes. measured: figures of an earlier start on this machine.
    """

    total_gib: float
    budget_gib: float
    weights_gib: float
    activation_gib: float
    cuda_graph_gib: float
    other_gib: float
    kv_gib: float
    kv_tokens: int
    kv_tokens_low: int
    kv_tokens_high: int
    max_concurrency: float
    max_model_len_fitting: int
    used_by_others_gib: float = 0.0
    device: str = "gpu"
    gpus: int = 1
    measured: bool = False

    def as_json(self) -> dict[str, Any]:
        """The contract's form."""
        return {
            "per_gpu": self.device == "gpu",
            "device": self.device,
            "gpus": self.gpus,
            "estimated": not self.measured,
            "total_gib": round(self.total_gib, 3),
            "budget_gib": round(self.budget_gib, 3),
            "weights_gib": round(self.weights_gib, 3),
            "activation_gib": round(self.activation_gib, 3),
            "cuda_graph_gib": round(self.cuda_graph_gib, 3),
            "other_gib": round(self.other_gib, 3),
            "used_by_others_gib": round(self.used_by_others_gib, 3),
            "kv_gib": round(self.kv_gib, 3),
            "kv_tokens": self.kv_tokens,
            "kv_tokens_low": self.kv_tokens_low,
            "kv_tokens_high": self.kv_tokens_high,
            "max_concurrency": round(self.max_concurrency, 2),
            "max_model_len_fitting": self.max_model_len_fitting,
        }


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another way to serve. kv_tokens: its KV cache; fits: whether it starts; max_model_len: tokens."""

    change: str
    command: tuple[str, ...]
    kv_tokens: int
    fits: bool = True
    max_model_len: int = 0

    def as_json(self) -> dict[str, Any]:
        """The contract's form."""
        return {
            "change": self.change,
            "command": list(self.command),
            "kv_tokens": self.kv_tokens,
            "fits": self.fits,
            "max_model_len": self.max_model_len,
        }


@dataclass(frozen=True, slots=True)
class ServePlan:
    """How to serve one model on one machine, and what will come of it.

    command: "vllm", "serve", the model, then flags. env: variables it needs. max_model_len: the context the server will
    have, in tokens. problems: why it does not fit, empty when `fits`. start_key: what a measured start is kept under.
    """

    model: str
    serve_as: str
    served_name: str
    vllm_version: str
    fits: bool
    max_model_len: int
    flags: tuple[Flag, ...]
    env: dict[str, str]
    memory: Memory
    alternatives: tuple[Alternative, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    device: str = "cuda"
    facts_source: str = field(default="local")
    start_key: str = ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The flags alone, as they follow the model in a command."""
        return tuple(word for flag in self.flags for word in flag.words)

    @property
    def command(self) -> tuple[str, ...]:
        """The whole command."""
        return ("vllm", "serve", self.serve_as, *self.arguments)

    def flag(self, name: str) -> Flag | None:
        """The chosen flag of that name, or None."""
        return next((flag for flag in self.flags if flag.flag == name), None)

    def as_json(self) -> dict[str, Any]:
        """The document of `plan --json`, without schema_version."""
        return {
            "model": self.model,
            "served_name": self.served_name,
            "vllm_version": self.vllm_version,
            "fits": self.fits,
            "command": list(self.command),
            "env": dict(self.env),
            "max_model_len": self.max_model_len,
            "flags": [flag.as_json() for flag in self.flags],
            "memory": self.memory.as_json(),
            "alternatives": [other.as_json() for other in self.alternatives],
            "warnings": list(self.warnings),
            "problems": [problem.as_json() for problem in self.problems],
            "facts_source": self.facts_source,
        }
