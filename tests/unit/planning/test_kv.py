"""From bytes to tokens, against what vLLM's start-up logs print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from wizard.planning.catalogue import catalogue_facts
from wizard.planning.facts import ModelFacts, parse_model_config
from wizard.planning.kv import CacheSetup, block_tokens, cache_groups, kv_layout, partition
from wizard.planning.versions import parse_version

Facts = Callable[..., ModelFacts]
GIB = 2**30


def setup(version: str = "0.19.0", **changes: Any) -> CacheSetup:
    return replace(CacheSetup(parse_version(version)), **changes)


def test_a_uniform_model_has_one_group_and_16_tokens_a_block(facts: Facts) -> None:
    layout = kv_layout(facts(), setup())
    assert len(layout.groups) == 1
    assert layout.block_bytes() == 16 * 32 * 2 * 8 * 128 * 2
    # 58.11 GiB on an H100 printed 476,016 tokens and 58.11 requests of 8,192.
    blocks = layout.blocks((int(58.108 * GIB),))
    assert layout.printed_tokens(blocks, 8192) == pytest.approx(476_016, abs=32)
    assert layout.concurrency(blocks, 8192) == pytest.approx(58.11, abs=0.01)


def test_smollm_on_a_cpu_prints_46592_tokens_for_one_gib(facts: Facts) -> None:
    layout = kv_layout(facts("smollm"), setup("0.32.0", base_block=128, in_flight_tokens=2048))
    assert layout.printed_tokens(layout.blocks((GIB,)), 2048) == 46_592


@pytest.mark.parametrize(
    ("version", "tokens"),
    [pytest.param("0.11.0", 205_696, id="by-blocks"), pytest.param("0.21.0", 205_014, id="by-concurrency")],
)
def test_sliding_windows_make_groups_and_the_printed_size_changed_with_021(
    facts: Facts, version: str, tokens: int
) -> None:
    # 89,994 blocks of a Gemma 3 27B on an MI300X: 1 full and 6 sliding groups, 50.05 requests of 4,096.
    layout = kv_layout(facts("gemma3-27b"), setup(version, in_flight_tokens=8192))
    assert [group.page.kind for group in layout.groups].count("sliding") == 6
    assert len(layout.groups) == 7
    assert layout.concurrency(89_994, 4096) == pytest.approx(50.05, abs=0.01)
    assert layout.printed_tokens(89_994, 4096) == tokens


def test_without_the_hybrid_manager_sliding_layers_cost_as_much_as_full_ones(facts: Facts) -> None:
    layout = kv_layout(facts("gemma3-27b"), setup(grouping=False))
    assert len(layout.groups) == 1
    assert layout.need_blocks(131_072) == 8192


@pytest.mark.parametrize(
    ("few", "many", "version", "groups"),
    [
        pytest.param(12, 13, "0.11.0", 3, id="smallest-bucket-before-0.12"),
        pytest.param(12, 13, "0.12.0", 2, id="padded-where-nearly-equal"),
        pytest.param(10, 14, "0.17.0", 3, id="ratio-1.4-before-0.18"),
        pytest.param(10, 14, "0.18.0", 2, id="ratio-1.4-from-0.18"),
    ],
)
def test_how_layers_are_dealt_into_groups_depends_on_the_version(
    facts: Facts, few: int, many: int, version: str, groups: int
) -> None:
    kinds = ["full_attention"] * few + ["sliding_attention"] * many
    made = facts(num_hidden_layers=few + many, layer_types=kinds, sliding_window=128)
    assert len(cache_groups(made, setup(version))) == groups


@pytest.mark.parametrize(
    ("dtype", "tp", "block"),
    [
        pytest.param("auto", 1, 528, id="bf16"),
        pytest.param("fp8", 1, 1056, id="fp8"),
        pytest.param("auto", 2, 528, id="bf16-two-gpus"),
    ],
)
def test_a_hybrid_models_block_holds_a_recurrent_state(facts: Facts, dtype: str, tp: int, block: int) -> None:
    assert block_tokens(facts("qwen3.5-4b"), setup(kv_cache_dtype=dtype, tensor_parallel=tp)) == block


def test_a_hybrid_models_printed_size_is_the_one_of_a_real_start(facts: Facts) -> None:
    # Qwen3.5-4B on an L4 with 0.29: 9.1 GiB, block 528, 267,842 tokens, 8.17 requests of 32,768.
    layout = kv_layout(facts("qwen3.5-4b"), setup("0.29.0"))
    blocks = layout.blocks((int(9.1 * GIB),))
    assert layout.printed_tokens(blocks, 32_768) == 267_842


def test_prefix_caching_of_recurrent_layers_keeps_two_states_from_026_on(facts: Facts) -> None:
    made = facts("qwen3.5-4b")
    before = kv_layout(made, setup("0.25.0")).need_blocks(32_768)
    after = kv_layout(made, setup("0.26.0")).need_blocks(32_768)
    assert (before, after) == (66, 69)
    assert kv_layout(made, setup("0.26.0", prefix_caching=False)).need_blocks(32_768) == 66


def test_latent_attention_is_not_divided_by_tensor_ranks(facts: Facts) -> None:
    one = kv_layout(facts("deepseek-lite"), setup()).block_bytes()
    four = kv_layout(facts("deepseek-lite"), setup(tensor_parallel=4)).block_bytes()
    assert one == four == 27 * 16 * (512 + 64) * 2


def test_sparse_latent_attention_keeps_an_index_beside_it(facts: Facts) -> None:
    made = facts("deepseek-lite", architectures=["DeepseekV32ForCausalLM"], index_head_dim=128)
    plain = kv_layout(made, setup()).block_bytes()
    packed = kv_layout(made, setup(kv_cache_dtype="fp8")).block_bytes()
    assert plain == 27 * 16 * (576 * 2 + 132)
    assert packed == 27 * 16 * (656 + 132)


def test_heads_are_replicated_when_there_are_more_ranks_than_heads(facts: Facts) -> None:
    eight = kv_layout(facts(), setup(tensor_parallel=8)).block_bytes()
    sixteen = kv_layout(facts(), setup(tensor_parallel=16)).block_bytes()
    assert eight == sixteen == 16 * 32 * 2 * 1 * 128 * 2


@pytest.mark.parametrize(
    ("dtype", "share"),
    [
        ("auto", 1.0),
        ("fp8", 0.5),
        ("fp8_e5m2", 0.5),
        ("float32", 2.0),
        ("nvfp4", 0.28125),
        ("int8_per_token_head", 0.515625),
    ],
)
def test_the_caches_dtype_sets_the_size_of_a_page(facts: Facts, dtype: str, share: float) -> None:
    plain = kv_layout(facts(), setup()).block_bytes()
    assert kv_layout(facts(), setup(kv_cache_dtype=dtype)).block_bytes() == plain * share


def test_a_checkpoint_with_scales_for_its_cache_gets_fp8_by_itself(facts: Facts) -> None:
    section = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8}}
    assert kv_layout(facts(quantization_config=section), setup()).block_bytes() == 16 * 32 * 2 * 8 * 128


def test_pipeline_ranks_hold_their_own_layers_and_the_least_of_them_decides(facts: Facts) -> None:
    layout = kv_layout(facts(), setup(pipeline_parallel=4))
    page = 16 * 2 * 8 * 128 * 2
    assert layout.block_bytes(0) == 8 * page
    assert layout.blocks((80 * page, 80 * page, 40 * page, 80 * page)) == 5


@pytest.mark.parametrize(
    ("layers", "ranks", "sizes"),
    [(32, 1, [32]), (32, 4, [8, 8, 8, 8]), (61, 4, [15, 15, 16, 15]), (62, 4, [15, 16, 16, 15]), (5, 2, [3, 2])],
)
def test_layers_are_dealt_to_pipeline_ranks_as_vllm_does(layers: int, ranks: int, sizes: list[int]) -> None:
    parts = partition(layers, ranks)
    assert [len(part) for part in parts] == sizes
    assert [at for part in parts for at in part] == list(range(layers))


def test_the_longest_request_is_the_last_that_fits(facts: Facts) -> None:
    layout = kv_layout(facts(), setup("0.28.0"))
    bytes_ = (100 * layout.block_bytes(),)
    assert layout.longest(bytes_, 131_072) == 1600
    assert layout.fits(bytes_, 1600)
    assert not layout.fits(bytes_, 1601)
    assert layout.longest(bytes_, 1000) == 1000
    assert layout.longest((0,), 1000) == 0


def test_newer_versions_hold_one_block_back_before_they_check(facts: Facts) -> None:
    layout = kv_layout(facts(), setup("0.29.0"))
    assert layout.longest((100 * layout.block_bytes(),), 131_072) == 1584


def test_layers_that_share_a_cache_cost_nothing(facts: Facts) -> None:
    assert kv_layout(facts(num_kv_shared_layers=10), setup()).block_bytes() == 22 * 16 * 2 * 8 * 128 * 2


def test_pages_of_two_sizes_are_made_equal_by_longer_blocks(facts: Facts) -> None:
    kinds = ["full_attention", "sliding_attention"] * 2
    made = facts(
        architectures=["Gemma4ForCausalLM"],
        num_hidden_layers=4,
        layer_types=kinds,
        sliding_window=1024,
        head_dim=256,
        global_head_dim=512,
        num_global_key_value_heads=8,
    )
    groups = cache_groups(made, setup())
    assert {group.page.kind: group.page.block for group in groups} == {"full": 16, "sliding": 32}
    assert len({group.page.size for group in groups}) == 1


def test_a_delta_state_and_latent_attention_share_blocks_of_a_multiple_of_128(facts: Facts) -> None:
    made = facts(
        "deepseek-lite",
        architectures=["KimiLinearForCausalLM"],
        num_hidden_layers=4,
        linear_attn_config={"kda_layers": [1, 2, 3], "full_attn_layers": [4], "num_heads": 32, "head_dim": 128},
    )
    # State: 3 x 4096 x 3 values of 2 bytes, and 32 x 128 x 128 of 4; a token takes 1,152 bytes.
    assert block_tokens(made, setup("0.29.0")) == 128 * -(-(3 * 4096 * 3 * 2 + 32 * 128 * 128 * 4) // (128 * 1152))
    assert len(cache_groups(made, setup("0.29.0"))) == 4


def test_attention_and_state_in_one_layer_cost_both(facts: Facts) -> None:
    made = facts(
        architectures=["FalconH1ForCausalLM"],
        num_hidden_layers=2,
        mamba_n_heads=24,
        mamba_d_head=64,
        mamba_d_state=128,
        mamba_d_ssm=1536,
        mamba_n_groups=1,
    )
    kinds = sorted(group.page.kind for group in cache_groups(made, setup("0.29.0")))
    assert kinds == ["full", "recurrent"]


def test_chunks_count_as_full_attention_before_014(facts: Facts) -> None:
    made = facts(architectures=["Llama4ForCausalLM"], attention_chunk_size=8192)
    assert len(cache_groups(made, setup("0.13.0"))) == 1
    assert len(cache_groups(made, setup("0.15.0"))) == 4


def test_compressed_caches_are_grouped_as_vllm_groups_them() -> None:
    """DeepSeek V4 Flash; groups and page sizes as instrumented in github.com/vllm-project/vllm/issues/54703."""
    found = catalogue_facts("deepseek-ai/DeepSeek-V4-Flash")
    assert found is not None
    layout = kv_layout(found, CacheSetup(parse_version("0.28.1"), in_flight_tokens=8192))
    assert [(len(g.layers), sum(g.page_sizes), g.page.block) for g in layout.groups] == [
        (62, 1_002_240, 256),
        (22, 823_680, 64),
        (21, 786_240, 64),
        (42, 870_912, 4),
        (20, 656_640, 8),
    ]
    assert layout.block_bytes() == 1_002_240


@pytest.mark.parametrize(
    ("pool_gib", "length", "in_flight", "printed"),
    [
        # Both of issue 51041, vLLM 0.26 on two H20.
        pytest.param(7.01, 912_128, 8192, 1_009_661, id="long"),
        pytest.param(7.71, 121_344, 16_384, 150_992, id="shorter"),
    ],
)
def test_compressed_caches_hold_about_what_was_printed(
    pool_gib: float, length: int, in_flight: int, printed: int
) -> None:
    found = catalogue_facts("deepseek-ai/DeepSeek-V4-Flash")
    assert found is not None
    layout = kv_layout(found, CacheSetup(parse_version("0.26.0"), 2, in_flight_tokens=in_flight, draft_layers=1))
    told = layout.printed_tokens(layout.blocks((int(pool_gib * 2**30),)), length)
    assert 0.9 * printed < told < printed


def test_recurrent_states_are_wide_on_a_cpu_that_computes_in_bfloat16() -> None:
    """A small Qwen3-Next on vLLM 0.32's CPU build with 1 GiB: "Setting attention block size to 256 tokens", and
    "CPU KV cache size: 762,600 tokens, Maximum concurrency for 4,096 tokens per request: 186.18x".
    """
    config = {
        "architectures": ["Qwen3NextForCausalLM"],
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 8,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "vocab_size": 512,
        "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
    }
    small = parse_model_config("acme/model", config)
    on_cpu = setup("0.32.0", base_block=128, in_flight_tokens=4096, wide_states=True)
    assert block_tokens(small, on_cpu) == 256
    layout = kv_layout(small, on_cpu)
    assert layout.printed_tokens(layout.blocks((GIB,)), 4096) == 762_600
    assert block_tokens(small, replace(on_cpu, wide_states=False)) == 128


@pytest.mark.parametrize(("version", "printed"), [("0.31.0", 1_720_635), ("0.32.0", 1_597_732)])
def test_mamba2_keeps_one_state_more_since_it_stores_prefixes_on_its_way(version: str, printed: int) -> None:
    """A small Nemotron-H on vLLM 0.32's CPU build with 1 GiB: blocks of 384 tokens, 1,597,732 in all."""
    config = {
        "architectures": ["NemotronHForCausalLM"],
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 6,
        "hybrid_override_pattern": "M-*M-*",
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "mamba_num_heads": 8,
        "mamba_head_dim": 32,
        "ssm_state_size": 64,
        "n_groups": 1,
        "conv_kernel": 4,
        "vocab_size": 512,
        "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
    }
    small = parse_model_config("acme/model", config)
    on_cpu = setup(version, base_block=128, in_flight_tokens=4096, wide_states=True)
    assert block_tokens(small, on_cpu) == 384
    layout = kv_layout(small, on_cpu)
    assert layout.printed_tokens(layout.blocks((GIB,)), 4096) == printed
