"""Configurations in the hub's form, and machines, for tests of planning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wizard.hardware.describe import describe_machine
from wizard.hardware.machine import Cpu, Machine
from wizard.planning.facts import ModelFacts, parse_model_config

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
GEMMA3_27B: dict[str, Any] = {
    **LLAMA_8B,
    "architectures": ["Gemma3ForCausalLM"],
    "num_hidden_layers": 62,
    "hidden_size": 5376,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "vocab_size": 262208,
    "sliding_window": 1024,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10 + ["sliding_attention"] * 2,
    "tie_word_embeddings": True,
}
QWEN35_4B: dict[str, Any] = {
    **LLAMA_8B,
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "num_hidden_layers": 32,
    "hidden_size": 2560,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 248320,
    "max_position_embeddings": 262144,
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 8,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "mamba_ssm_dtype": "float32",
    "tie_word_embeddings": True,
}
DEEPSEEK_LITE: dict[str, Any] = {
    **LLAMA_8B,
    "architectures": ["DeepseekV2ForCausalLM"],
    "num_hidden_layers": 27,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 102400,
    "intermediate_size": 10944,
    "n_routed_experts": 64,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
SMOLLM: dict[str, Any] = {
    **LLAMA_8B,
    "num_hidden_layers": 30,
    "hidden_size": 576,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "vocab_size": 49152,
    "intermediate_size": 1536,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
}
CONFIGS = {
    "llama-8b": LLAMA_8B,
    "gemma3-27b": GEMMA3_27B,
    "qwen3.5-4b": QWEN35_4B,
    "deepseek-lite": DEEPSEEK_LITE,
    "smollm": SMOLLM,
}


@pytest.fixture
def config() -> Callable[..., dict[str, Any]]:
    """A configuration by name, with keys changed; None takes one away."""

    def make(name: str = "llama-8b", **changes: Any) -> dict[str, Any]:
        whole = {**CONFIGS[name], **changes}
        return {key: value for key, value in whole.items() if value is not None}

    return make


@pytest.fixture
def facts(config: Callable[..., dict[str, Any]]) -> Callable[..., ModelFacts]:
    """Facts of a configuration by name. gib: of the checkpoint."""

    def make(
        name: str = "llama-8b", *, gib: float | None = None, model: str = "acme/model", **changes: Any
    ) -> ModelFacts:
        size = None if gib is None else int(gib * 2**30)
        return parse_model_config(model, config(name, **changes), checkpoint_bytes=size)

    return make


@pytest.fixture
def gpu_machine() -> Callable[..., Machine]:
    """A machine described by its GPU."""
    return describe_machine


@pytest.fixture
def cpu_machine() -> Machine:
    """A machine without a GPU: 24 GiB, of which 20 are free."""
    return Machine("linux", Cpu("a processor", "x86_64", 2), 24.0, 20.0)
