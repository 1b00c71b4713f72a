"""LoRA adapters: how many at once, of which rank, and what vLLM sets aside for them before any is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from wizard.hardware.machine import GIB
from wizard.planning.facts import ModelFacts
from wizard.planning.intent import Intent
from wizard.planning.kv import element_bytes
from wizard.planning.pins import pinned_integer, pinned_switch

# What `--max-lora-rank` takes; vLLM 0.32 config/lora.py `MaxLoRARanks` (0.8.5: the same without 1).
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
DEFAULT_RANK = 16
_MOST_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Adapters:
    """at_once: adapters that one batch may mix (`--max-loras`), 0 without any. rank: `--max-lora-rank`."""

    at_once: int = 0
    rank: int = DEFAULT_RANK


NO_ADAPTERS = Adapters()


def wanted_adapters(intent: Intent) -> Adapters:
    """Room for the adapters that the user gave or switched on."""
    if not intent.lora_modules and not pinned_switch(intent, "--enable-lora"):
        return NO_ADAPTERS
    rank = next((rank for rank in _RANKS if rank >= max(intent.lora_rank, DEFAULT_RANK)), _RANKS[-1])
    at_once = min(max(1, len(intent.lora_modules)), _MOST_AT_ONCE)
    return Adapters(
        pinned_integer(intent, "--max-loras", most=4096) or at_once,
        pinned_integer(intent, "--max-lora-rank", most=4096) or rank,
    )


def adapters_gib(facts: ModelFacts, adapters: Adapters, *, tensor_parallel: int, dtype: str, layers: range) -> float:
    """GiB that the stacked buffers of these layers take on one rank.

    Each linear part has A (rank x input) and B (output x rank) a slot. A is whole on each rank where the part is split
    by columns, B where it is split by rows; each expert has its own; the token tables have theirs. vLLM 0.32
    lora/layers/column_parallel_linear.py, row_parallel_linear.py, fused_moe.py, vocab_parallel_embedding.py
    `create_lora_weights`, without `--fully-sharded-loras`.
    """
    if not adapters.at_once:
        return 0.0
    widths = sum(_layer_widths(facts, index, tensor_parallel) for index in layers)
    if layers.start == 0 or layers.stop == facts.layers:
        widths += 2 * (facts.vocab_size + facts.hidden_size)
    return adapters.at_once * adapters.rank * widths * element_bytes(dtype) / GIB


def _layer_widths(facts: ModelFacts, index: int, tp: int) -> float:
    """Inputs and outputs of all adapted parts of one layer, on one rank."""
    kind = facts.layer_kinds[index]
    return (0.0 if kind == "none" else _mixer_widths(facts, kind, tp)) + _network_widths(facts, index, tp)


def _mixer_widths(facts: ModelFacts, kind: str, tp: int) -> float:
    hidden, heads = facts.hidden_size, facts.attention_heads
    if facts.is_mla:
        value = facts.head_dim_value or facts.qk_nope_head_dim
        keys = facts.qk_nope_head_dim + facts.qk_rope_head_dim
        query = facts.q_lora_rank or hidden
        down = hidden + facts.q_lora_rank if facts.q_lora_rank else 0
        latent = hidden + facts.kv_lora_rank + facts.qk_rope_head_dim
        up = facts.kv_lora_rank + heads * (facts.qk_nope_head_dim + value) / tp
        return down + query + heads * keys / tp + latent + up + heads * value / tp + hidden
    if kind == "recurrent" and facts.recurrent:
        state = facts.recurrent
        inner = state.value_heads * state.value_dim or state.intermediate
        keys = 2 * state.key_heads * state.key_dim + 2 * state.groups * state.state_size
        return 2 * hidden + (3 * inner + keys) / tp
    kv_heads, key_dim, value_dim = facts.kv_shape(kind)  # type: ignore[arg-type]
    return 4 * hidden + 2 * heads * facts.head_dim / tp + max(1.0, kv_heads / tp) * (key_dim + value_dim)


def _network_widths(facts: ModelFacts, index: int, tp: int) -> float:
    def matrices(inner: int) -> float:
        return 3 * (facts.hidden_size + inner / tp)

    if facts.is_moe and index >= facts.dense_layers:
        shared = facts.shared_expert_intermediate_size
        return facts.experts * matrices(facts.moe_intermediate_size) + (matrices(shared) if shared else 0.0)
    return matrices(facts.intermediate_size) if facts.intermediate_size else 0.0
