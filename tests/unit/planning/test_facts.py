"""A model's configuration, sound and hostile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wizard.planning.facts import ModelFacts, parse_config_bytes, parse_model_config
from wizard.problems import ProblemError

Config = Callable[..., dict[str, Any]]
Facts = Callable[..., ModelFacts]


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        pytest.param(b"", "0 bytes", id="empty"),
        pytest.param(b"x" * (100 * 2**20), "104 MB", id="a-hundred-megabytes"),
        pytest.param(b"<html>", "no JSON", id="a-web-page"),
        pytest.param(b"[" * 100_000, "no JSON", id="deeply-nested"),
        pytest.param(b"[1, 2]", "no object", id="a-list"),
        pytest.param(b"\xff\xfe\x00", "no JSON", id="not-utf-8"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_with_what_it_is(raw: bytes, word: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_config_bytes("acme/model", raw)
    assert caught.value.problem.code == "model-config-invalid"
    assert word in caught.value.problem.saw[0]
    assert caught.value.problem.fix is not None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"num_hidden_layers": -32}, id="negative-layers"),
        pytest.param({"num_hidden_layers": "32"}, id="text-for-a-number"),
        pytest.param({"num_hidden_layers": True}, id="true-for-a-number"),
        pytest.param({"num_hidden_layers": 10**12}, id="absurd-layers"),
        pytest.param({"hidden_size": 0}, id="no-width"),
        pytest.param({"hidden_size": 3.5}, id="half-a-unit"),
        pytest.param({"vocab_size": [1]}, id="list-for-a-number"),
        pytest.param({"vocab_size": None}, id="missing-vocabulary"),
        pytest.param({"hidden_size": None}, id="missing-width"),
        pytest.param({"num_key_value_heads": {}}, id="object-for-a-number"),
        pytest.param({"tie_word_embeddings": "yes"}, id="text-for-a-switch"),
        pytest.param({"layer_types": "full_attention"}, id="layer-types-as-text"),
        pytest.param({"layer_types": ["full_attention"]}, id="too-few-layer-types"),
        pytest.param({"vision_config": 7}, id="number-for-a-section"),
        pytest.param({"model_type": 7}, id="number-for-a-text"),
        pytest.param({"architectures": None}, id="no-architecture"),
        pytest.param({"architectures": "LlamaForCausalLM"}, id="architecture-as-text"),
    ],
)
def test_a_value_that_cannot_be_is_named_and_never_guessed(config: Config, changes: dict[str, Any]) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_model_config("acme/model", config(**changes))
    assert caught.value.problem.code == "model-config-invalid"
    assert next(iter(changes)) in caught.value.problem.saw[0]


def test_an_architecture_that_nobody_knows_is_refused_with_that_sentence(config: Config) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_model_config("acme/model", config(architectures=["NoSuchForCausalLM"]))
    assert caught.value.problem.code == "unknown-architecture"
    assert "`NoSuchForCausalLM` is not known" in caught.value.problem.what


def test_the_language_model_is_found_inside_a_larger_one(config: Config) -> None:
    inner = config()
    inner.pop("architectures")
    outer = {
        "architectures": ["Mistral3ForConditionalGeneration"],
        "text_config": inner,
        "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24, "patch_size": 14},
    }
    facts = parse_model_config("acme/model", outer)
    assert (facts.layers, facts.kv_heads, facts.multimodal) == (32, 8, True)


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        pytest.param({"rope_scaling": None}, 131072, id="plain"),
        pytest.param({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131072, id="llama3-does-not-stretch"),
        pytest.param(
            {
                "max_position_embeddings": 32768,
                "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
            },
            32768,
            id="yarn-has-stretched-already",
        ),
        pytest.param(
            {"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}}, 16384, id="linear"
        ),
        pytest.param(
            {
                "architectures": ["Gemma3ForConditionalGeneration"],
                "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            },
            131072,
            id="gemma-3-has-stretched-already",
        ),
        pytest.param({"rope_scaling": {"type": "linear", "factor": "4"}}, 131072, id="a-factor-that-is-no-number"),
    ],
)
def test_the_longest_context_follows_the_rotary_scaling(facts: Facts, changes: dict[str, Any], length: int) -> None:
    assert facts(**changes).max_position == length


def test_old_configurations_leave_alternating_windows_to_the_architecture(facts: Facts) -> None:
    kinds = facts(
        architectures=["Gemma2ForCausalLM"], num_hidden_layers=4, sliding_window=4096, layer_types=None
    ).layer_kinds
    assert kinds == ("sliding", "full", "sliding", "full")


def test_a_hybrid_pattern_of_letters_names_each_layer(facts: Facts) -> None:
    made = facts(
        architectures=["NemotronHForCausalLM"],
        num_hidden_layers=4,
        hybrid_override_pattern="M-*E",
        mamba_num_heads=8,
        mamba_head_dim=64,
        ssm_state_size=128,
    )
    assert made.layer_kinds == ("recurrent", "none", "full", "none")
    assert made.recurrent is not None
    assert made.recurrent.kind == "mamba2"


def test_one_key_value_head_for_all_where_the_model_says_multi_query(facts: Facts) -> None:
    assert facts(architectures=["GPTBigCodeForCausalLM"], num_key_value_heads=None, multi_query=True).kv_heads == 1


def test_code_of_the_author_is_noticed(facts: Facts) -> None:
    assert facts(auto_map={"AutoModel": "modeling.Model"}).needs_remote_code


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        pytest.param(
            {
                "architectures": ["KimiLinearForCausalLM"],
                "linear_attn_config": {
                    "kda_layers": [1, 2, 4],
                    "full_attn_layers": [3],
                    "num_heads": 8,
                    "head_dim": 128,
                },
            },
            "RRFR",
            id="numbers-from-1",
        ),
        pytest.param(
            {"architectures": ["BambaForCausalLM"], "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_state": 64},
            "RFRR",
            id="numbers-from-0",
        ),
        pytest.param(
            {
                "architectures": ["JambaForCausalLM"],
                "attn_layer_period": 4,
                "attn_layer_offset": 2,
                "mamba_d_state": 16,
            },
            "RRFR",
            id="a-period",
        ),
        pytest.param(
            {"architectures": ["Llama4ForCausalLM"], "attention_chunk_size": 8192}, "CCCF", id="chunks-but-each-fourth"
        ),
        pytest.param(
            {
                "architectures": ["Lfm2ForCausalLM"],
                "layer_types": ["conv", "conv", "full_attention", "conv"],
                "conv_L_cache": 3,
            },
            "RRFR",
            id="short-convolutions",
        ),
    ],
)
def test_each_kind_of_hybrid_says_in_its_own_way_where_attention_is(
    facts: Facts, changes: dict[str, Any], kinds: str
) -> None:
    letters = {"full": "F", "recurrent": "R", "chunked": "C"}
    made = facts(num_hidden_layers=4, layer_types=changes.pop("layer_types", None), **changes)
    assert "".join(letters[kind] for kind in made.layer_kinds) == kinds


def test_numbers_given_for_each_layer_are_planned_for_the_largest(config: Config) -> None:
    raw = config(num_experts=8, moe_topk=[2] * 31 + [4], moe_intermediate_size=[512] * 31 + [1024])
    facts = parse_model_config("acme/model", raw)
    assert (facts.experts_per_token, facts.moe_intermediate_size) == (4, 1024)


def test_the_width_of_lfm2_is_two_thirds_rounded_up_where_it_says_so(config: Config) -> None:
    """LFM2.5-1.2B: 12,288 told, 8,192 used; vLLM 0.32 model_executor/models/lfm2.py."""
    raw = config(architectures=["Lfm2ForCausalLM"], block_ff_dim=12_288, block_multiple_of=256)
    assert parse_model_config("acme/model", raw).intermediate_size == 8192
    as_told = parse_model_config("acme/model", {**raw, "block_auto_adjust_ff_dim": False})
    assert as_told.intermediate_size == 12_288


def test_kv_heads_go_by_the_name_that_step_gives_them(config: Config) -> None:
    raw = {**config(), "num_attention_groups": 4}
    raw.pop("num_key_value_heads")
    assert parse_model_config("acme/model", raw).kv_heads == 4


def test_a_language_model_may_leave_out_the_defaults_of_its_class() -> None:
    """The config.json of google/gemma-3-4b-it and llava-hf/llava-1.5-7b-hf as published, less what no plan reads."""
    gemma = parse_model_config(
        "gemma",
        {
            "architectures": ["Gemma3ForConditionalGeneration"],
            "model_type": "gemma3",
            "text_config": {
                "hidden_size": 2560,
                "intermediate_size": 10240,
                "model_type": "gemma3_text",
                "num_hidden_layers": 34,
                "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                "sliding_window": 1024,
            },
            "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27},
        },
    )
    assert (gemma.vocab_size, gemma.attention_heads, gemma.kv_heads, gemma.head_dim) == (262_208, 8, 4, 256)
    assert gemma.max_position == 131_072
    llava = parse_model_config(
        "llava",
        {
            "architectures": ["LlavaForConditionalGeneration"],
            "model_type": "llava",
            "text_config": {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064},
            "vision_config": {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24},
        },
    )
    assert (llava.layers, llava.hidden_size, llava.kv_heads, llava.vocab_size) == (32, 4096, 32, 32064)


def test_heads_that_are_not_told_are_not_guessed() -> None:
    config = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 100}
    with pytest.raises(ProblemError) as caught:
        parse_model_config("m", config)
    assert "`num_attention_heads` is missing" in caught.value.problem.saw[0]
