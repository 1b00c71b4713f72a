"""How a checkpoint is quantised: `quantization_config`, in all the shapes that are seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Quantization:
    """method: vLLM's name ("awq", "gptq", "fp8", "compressed-tensors", "mxfp4", "modelopt_fp4", "bitsandbytes" ...).

    weight_bits: of a quantised weight, None when the file does not say. activation_bits: 16 for weight-only.
    kv_cache_dtype: "fp8" where the checkpoint brings scales for it, else None.
    """

    method: str
    weight_bits: float | None = None
    activation_bits: int = 16
    group_size: int | None = None
    kv_cache_dtype: str | None = None


_BITS: Mapping[str, tuple[float | None, int]] = {
    # method: (bits of a weight, bits of an activation), where the method fixes them
    "awq": (4, 16),
    "gptq": (4, 16),
    "fp8": (8, 8),
    "fbgemm_fp8": (8, 8),
    "mxfp4": (4.25, 16),
    "modelopt_fp4": (4.5, 4),
    "modelopt": (8, 8),
    "bitsandbytes": (4, 16),
    "auto-round": (4, 16),
    "compressed-tensors": (None, 16),
    "experts_int8": (8, 16),
}


# Every name that a release has read of itself; vllm/model_executor/layers/quantization/__init__.py v0.6.3 to v0.32.0.
_READ = frozenset({
    "aqlm", "auto-awq", "auto-gptq", "auto-round", "awq", "awq-marlin", "bitblas", "bitsandbytes",
    "compressed-tensors", "deepseek-v4-fp8", "deepspeedfp", "experts-int8", "fbgemm-fp8", "fp-quant", "fp8",
    "fp8-per-block", "fp8-per-channel", "fp8-per-tensor", "gguf", "gpt-oss-mxfp4", "gptq", "gptq-bitblas",
    "gptq-marlin", "gptq-marlin-24", "hqq", "humming", "inc", "int8-per-channel-weight-only", "ipex", "marlin",
    "modelopt", "modelopt-fp4", "modelopt-mixed", "modelopt-mxfp8", "moe-wna16", "mxfp4", "mxfp8",
    "neuron-quant", "nvfp4-per-token", "online", "petit-nvfp4", "ptpc-fp8", "qqq", "quark", "rtn", "squeezellm",
    "torchao", "tpu-int8",
})  # fmt: skip
# Since this release it is read by a package of its own; docs/features/quantization/bnb.md v0.28.0.
_BY_PLUGIN: Mapping[str, tuple[tuple[int, int, int], str]] = {"bitsandbytes": ((0, 28, 0), "vllm-bnb-plugin")}


def reader_of(method: str, version: tuple[int, int, int]) -> str | None:
    """Who reads checkpoints of this method: "" for vLLM itself, the name of a plugin, None for nobody known."""
    since, plugin = _BY_PLUGIN.get(method, ((0, 0, 0), ""))
    if plugin and version >= since:
        return plugin
    return "" if method.replace("_", "-") in _READ else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 4096 else None


def parse_quantization(config: Mapping[str, Any], separate: Mapping[str, Any] | None = None) -> Quantization | None:
    """What `quantization_config` (or `compression_config`, or a separate file) says; None for plain weights.

    Names as vLLM 0.32 resolves them (config/model.py `_parse_quant_hf_config`).
    """
    section = config.get("quantization_config") or config.get("compression_config") or separate
    if not isinstance(section, Mapping):
        return None
    inner = section.get("quantization") if isinstance(section.get("quantization"), Mapping) else section
    assert isinstance(inner, Mapping)
    method = str(inner.get("quant_method") or inner.get("quant_algo") or section.get("quant_method") or "").lower()
    if not method and _whole(inner.get("bits")):
        method = "gptq"
    method = method.replace("_", "-") if "compress" in method or "auto" in method else method
    if "nvfp4" in method or (method == "modelopt" and "fp4" in str(inner.get("quant_algo", "")).lower()):
        method = "modelopt_fp4"
    if not method:
        return None
    bits, activation = _BITS.get(method, (None, 16))
    if method == "bitsandbytes" and inner.get("load_in_8bit") is True:
        bits = 8
    group_size = _whole(inner.get("group_size") or inner.get("q_group_size"))
    told = _whole(inner.get("bits") or inner.get("w_bit"))
    if told:
        bits = told
    groups = inner.get("config_groups")
    if isinstance(groups, Mapping):
        for group in groups.values():
            weights = group.get("weights") if isinstance(group, Mapping) else None
            acts = group.get("input_activations") if isinstance(group, Mapping) else None
            if isinstance(weights, Mapping):
                bits = _whole(weights.get("num_bits")) or bits
                group_size = _whole(weights.get("group_size")) or group_size
            if isinstance(acts, Mapping):
                activation = _whole(acts.get("num_bits")) or activation
            break
    scheme = inner.get("kv_cache_scheme") or inner.get("kv_cache_quant_algo")
    kv = "fp8" if (isinstance(scheme, Mapping) and scheme.get("num_bits") == 8) or scheme == "FP8" else None
    return Quantization(method, bits, activation, group_size, kv)
