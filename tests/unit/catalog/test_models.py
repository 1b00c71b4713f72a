"""What the catalogue says of models."""

import json
from pathlib import Path
from time import process_time

import pytest

from wizard.catalog.models import ModelEntry, all_models, find_base_model, find_model, nearest_models

RECIPES = json.loads(
    (Path(__file__).parents[2] / "recorded" / "catalog" / "recipes_parsers.json").read_text(encoding="utf-8")
)["models"]


def entry(model_id: str) -> ModelEntry:
    found = find_model(model_id)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("model_id", "min_version", "tool_call_args", "reasoning_args"),
    [pytest.param(*row, id=row[0]) for row in RECIPES],
)
def test_a_recipes_model_has_exactly_the_recipes_parsers_and_version(
    model_id: str, min_version: str, tool_call_args: list[str], reasoning_args: list[str]
) -> None:
    found = entry(model_id)
    assert found.id == model_id
    assert found.min_vllm_version == min_version
    assert list(found.tool_call_args) == tool_call_args
    assert list(found.reasoning_args) == reasoning_args


def test_every_model_of_the_recipes_is_there() -> None:
    assert len(RECIPES) >= 113
    assert {row[0] for row in RECIPES} <= {model.id for model in all_models()}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param("qwen/qwen3-8B", "Qwen/Qwen3-8B", id="any-case"),
        pytest.param("Qwen3-8B", "Qwen/Qwen3-8B", id="bare-name"),
        pytest.param("Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct", id="a-variants-id"),
        pytest.param("RedHatAI/gemma-4-31B-it-FP8-dynamic", "google/gemma-4-31B-it", id="a-variant-of-another-org"),
        pytest.param("microsoft/Phi-4-reasoning", "microsoft/Phi-4-reasoning", id="own-id-before-a-variants"),
        pytest.param(" openai/gpt-oss-20b/ ", "openai/gpt-oss-20b", id="blanks-and-slash"),
    ],
)
def test_a_model_is_found_by_its_names(asked: str, found: str) -> None:
    assert entry(asked).id == found


@pytest.mark.parametrize("asked", ["", "/", "nobody/nothing", "Qwen", "/home/me/Qwen3", "../../etc/passwd", "\x00"])
def test_what_is_no_model_is_not_found(asked: str) -> None:
    assert find_model(asked) is None


@pytest.mark.parametrize(
    ("copy", "original"),
    [
        ("RedHatAI/Qwen3-14B-FP8-dynamic", "Qwen/Qwen3-14B"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "meta-llama/Llama-3.1-8B-Instruct"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w8a8", "meta-llama/Llama-3.1-70B-Instruct"),
        ("someone/Qwen3-Coder-30B-A3B-Instruct-AWQ", "Qwen/Qwen3-Coder-30B-A3B-Instruct"),
        ("someone/gpt-oss-20b", "openai/gpt-oss-20b"),
    ],
)
def test_a_quantised_copy_leads_to_its_original(copy: str, original: str) -> None:
    found = find_base_model(copy)
    assert found is not None
    assert found.id == original


def test_a_misspelt_model_names_the_nearest() -> None:
    assert find_model("Qwen/Qwen3-8BB") is None
    assert nearest_models("Qwen/Qwen3-8BB")[0] == "Qwen/Qwen3-8B"


def test_the_variant_that_was_asked_for_is_named() -> None:
    model = entry("Qwen/Qwen2.5-7B-Instruct-AWQ")
    assert model.variant("qwen/qwen2.5-7b-instruct-awq").precision == "int4"
    assert model.variant("Qwen/Qwen2.5-7B-Instruct").precision == "bf16"


@pytest.mark.parametrize(
    ("model_id", "tool_parser", "reasoning_parser"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "hermes", None),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "hermes", None),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3_json", None),
        ("meta-llama/Llama-3.1-70B-Instruct", "llama3_json", None),
        ("meta-llama/Meta-Llama-3-8B-Instruct", None, None),
        ("mistralai/Mixtral-8x22B-Instruct-v0.1", "mistral", None),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", None, None),
        ("llava-hf/llava-v1.6-mistral-7b-hf", None, None),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3_coder", None),
        ("zai-org/GLM-4.5-Air", "glm45", "glm45"),
    ],
)
def test_models_beyond_the_recipes_have_the_parsers_that_vllm_documents(
    model_id: str, tool_parser: str | None, reasoning_parser: str | None
) -> None:
    model = entry(model_id)
    assert model.tool_parser == tool_parser
    assert model.reasoning_parser == reasoning_parser


def test_a_documented_parser_never_stands_where_the_recipe_has_one() -> None:
    assert [m.id for m in all_models() if m.documented_tool_call_args and m.tool_call_args] == []


def test_figures_of_every_model_make_sense() -> None:
    for model in all_models():
        assert model.parameters_b > 0, model.id
        assert model.active_b is None or 0 < model.active_b <= model.parameters_b, model.id
        assert (model.active_b in (None, model.parameters_b)) == (model.architecture == "dense") or (
            model.id == "moonshotai/Kimi-K3"
        ), model.id
        assert 2048 <= model.context_length <= 16 * 2**20, model.id
        assert model.variants, model.id
        assert model.source, model.id
        assert (model.config is None) == (model.config_basis is None), model.id


def test_a_config_has_what_a_memory_plan_needs() -> None:
    for model in all_models():
        if model.config is None:
            continue
        config = {**model.config, **model.config.get("text_config", {})}
        assert config["architectures"], model.id
        assert "num_hidden_layers" in config or "layers_block_type" in config, model.id
        for key in ("hidden_size", "vocab_size", "num_attention_heads"):
            assert isinstance(config[key], int), f"{model.id} {key}"


def test_the_estimated_download_is_near_every_size_that_was_seen() -> None:
    seen = [(m, v) for m in all_models() for v in m.variants if v.download_gib is not None]
    assert len(seen) > 20
    for model, variant in seen:
        assert variant.download_gib is not None
        assert model.weights_gib(variant.precision) == pytest.approx(variant.download_gib, rel=0.16), variant.model


def test_the_download_says_whether_it_is_seen_or_estimated() -> None:
    model = entry("Qwen/Qwen3-8B")
    assert model.download(model.variant("Qwen/Qwen3-8B")) == (15.26, True)
    size, seen = model.download(model.variant("Qwen/Qwen3-8B-FP8"))
    assert not seen
    assert size == pytest.approx(8.8, abs=0.5)


def test_the_estimate_knows_experts_in_four_bits_and_variants_of_another_size() -> None:
    flash = entry("deepseek-ai/DeepSeek-V4-Flash")
    assert flash.download(flash.variants[0])[0] < 170
    guard = entry("Qwen/Qwen3Guard-Gen-8B")
    assert guard.download(guard.variant("Qwen/Qwen3Guard-Gen-0.6B"))[0] < 2


def test_no_checkpoint_is_estimated_far_above_the_memory_that_its_recipe_asks_for() -> None:
    for model in all_models():
        for variant in model.variants:
            if variant.vram_minimum_gb and variant.vram_minimum_gb > 10:
                assert model.download(variant)[0] * 1.0737 < 1.1 * variant.vram_minimum_gb, variant.model


def test_finding_a_model_is_quick() -> None:
    find_model("Qwen/Qwen3-8B")
    started = process_time()
    for _ in range(10):
        find_model("Qwen/Qwen3-8B")
    assert (process_time() - started) / 10 < 0.02
