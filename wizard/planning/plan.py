"""Machine, model and wishes in; a plan out."""

from __future__ import annotations

from wizard.hardware.machine import GIB, Machine
from wizard.i18n import t
from wizard.planning.facts import ModelFacts
from wizard.planning.intent import Intent
from wizard.planning.model import Flag, Memory, ServePlan
from wizard.problems import Problem

NEWEST_VERSION = "0.34.0"


def plan_serve(machine: Machine, facts: ModelFacts, intent: Intent) -> ServePlan:
    """The best way to serve this model on this machine."""
    gpu = machine.gpus[0] if machine.gpus else None
    total = (gpu.memory_total_gib if gpu else machine.ram_total_gib) or 0.0
    utilization = float(intent.pinned("--gpu-memory-utilization") or 0.9)
    weights = (facts.checkpoint_bytes or 0) / GIB
    kv_space = intent.kv_space_gib or 4
    kv_gib = max(0.0, utilization * total - weights - 2.0) if gpu else float(kv_space)
    per_token = 2 * facts.layers * facts.kv_heads * facts.head_dim * 2
    tokens = int(kv_gib * GIB) // per_token
    length = int(intent.pinned("--max-model-len") or intent.context_tokens or min(facts.max_position, max(tokens, 1)))
    fits = tokens >= length
    name = intent.served_name or facts.model.rstrip("/").rsplit("/", 1)[-1]
    flags = (
        Flag("--served-model-name", name, t("A short name without a slash works in every client."), "clients"),
        Flag("--max-model-len", str(length), t("The longest request that fits."), "memory"),
    )
    env = {} if gpu else {"VLLM_CPU_KVCACHE_SPACE": str(kv_space)}
    return ServePlan(
        model=facts.model,
        serve_as=facts.serve_as,
        served_name=name,
        vllm_version=intent.vllm_version or NEWEST_VERSION,
        fits=fits,
        max_model_len=length,
        flags=flags,
        env=env,
        memory=Memory(
            total, utilization * total, weights, 2.0, 0.0, 0.0, kv_gib, tokens, tokens, tokens, tokens / length, tokens
        ),
        problems=() if fits else (Problem("kv-cache-too-small", t("The context does not fit.")),),
        device="cuda" if gpu else "cpu",
        facts_source=facts.source,
    )
