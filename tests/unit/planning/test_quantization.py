"""How a checkpoint says that it is quantised."""

from __future__ import annotations

from typing import Any

import pytest

from wizard.planning.quantization import parse_quantization, reader_of


@pytest.mark.parametrize(
    ("section", "method", "bits", "activation"),
    [
        pytest.param({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq", 4, 16, id="awq"),
        pytest.param({"quant_method": "gptq", "bits": 8, "group_size": 32}, "gptq", 8, 16, id="gptq-int8"),
        pytest.param({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 8, 8, id="fp8"),
        pytest.param({"quant_method": "mxfp4"}, "mxfp4", 4.25, 16, id="mxfp4"),
        pytest.param({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt_fp4", 4.5, 4, id="nvfp4"),
        pytest.param({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes", 4, 16, id="bnb-4"),
        pytest.param({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bitsandbytes", 8, 16, id="bnb-8"),
        pytest.param(
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8}, "input_activations": {"num_bits": 8}}},
            },
            "compressed-tensors",
            8,
            8,
            id="w8a8",
        ),
        pytest.param(
            {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4}}}},
            "compressed-tensors",
            4,
            16,
            id="w4a16",
        ),
    ],
)
def test_each_method_is_recognised_with_its_widths(
    section: dict[str, Any], method: str, bits: float, activation: int
) -> None:
    found = parse_quantization({"quantization_config": section})
    assert found is not None
    assert (found.method, found.weight_bits, found.activation_bits) == (method, bits, activation)


def test_a_checkpoint_with_scales_for_its_cache_says_so() -> None:
    section = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    found = parse_quantization({"quantization_config": section})
    assert found is not None
    assert found.kv_cache_dtype == "fp8"


@pytest.mark.parametrize("section", [None, {}, [], "fp8", {"bits": "four"}, {"quant_method": ""}])
def test_nonsense_counts_as_plain_weights(section: Any) -> None:
    found = parse_quantization({"quantization_config": section})
    assert found is None or found.weight_bits is None


def test_a_file_beside_the_configuration_counts_too() -> None:
    found = parse_quantization({}, {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}})
    assert found is not None
    assert (found.method, found.kv_cache_dtype) == ("modelopt_fp4", "fp8")


def test_who_reads_a_method_depends_on_the_version() -> None:
    assert reader_of("bitsandbytes", (0, 27, 0)) == ""
    assert reader_of("bitsandbytes", (0, 28, 0)) == "vllm-bnb-plugin"
    assert reader_of("modelopt_fp4", (0, 32, 0)) == ""
    assert reader_of("zzz", (0, 32, 0)) is None
