"""The memory of a rank, against the figures of real start-up logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from wizard.catalog.models import all_models
from wizard.planning.catalogue import catalogue_facts
from wizard.planning.facts import ModelFacts
from wizard.planning.memory import Engine, disagreeing_gib, graphs_gib, memory_budget, total_parameters
from wizard.planning.rank import facts_of
from wizard.planning.speculation import Draft
from wizard.planning.versions import parse_version

Facts = Callable[..., ModelFacts]

QWEN3_14B: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 40,
    "hidden_size": 5120,
    "num_attention_heads": 40,
    "vocab_size": 151936,
    "intermediate_size": 17408,
    "max_position_embeddings": 40960,
}


def h100(version: str = "0.19.0", **changes: Any) -> Engine:
    values: dict[str, Any] = {
        "max_num_seqs": 1024,
        "max_num_batched_tokens": 8192,
        "capability": (9, 0),
        **changes,
    }
    return Engine(parse_version(version), 79.19, 0.95, **values)


@pytest.mark.parametrize(
    ("tp", "pp", "weights", "activation", "other", "kv"),
    [
        pytest.param(1, 1, 14.99, 1.89, 0.25, 58.11, id="one"),
        pytest.param(2, 1, 7.51, 1.89, 2.07, 63.76, id="two-tensor"),
        pytest.param(4, 1, 3.77, 1.89, 2.13, 67.44, id="four-tensor"),
        pytest.param(1, 2, 7.51, 2.01, 0.07, 65.64, id="two-pipeline"),
        pytest.param(1, 4, 4.26, 2.01, 0.07, 68.90, id="four-pipeline"),
    ],
)
def test_an_8b_model_on_h100s_is_spent_as_the_logs_say(
    facts: Facts, tp: int, pp: int, weights: float, activation: float, other: float, kv: float
) -> None:
    made = facts(gib=14.957, max_position_embeddings=131072)
    budget = memory_budget(made, h100(tensor_parallel=tp, pipeline_parallel=pp))
    assert budget.weights_gib == pytest.approx(weights, abs=0.03)
    assert budget.activation_gib == pytest.approx(activation, abs=0.03)
    assert budget.other_gib == pytest.approx(other, abs=0.05)
    assert budget.kv_gib == pytest.approx(kv, abs=0.1)


@pytest.mark.parametrize(
    ("version", "activation", "other", "kv"),
    [
        pytest.param("0.15.0", 5.64, 0.13, 41.94, id="sorting-sampler"),
        pytest.param("0.17.0", 2.23, 0.13, 45.34, id="triton-sampler"),
        pytest.param("0.18.0", 2.23, 0.25, 45.23, id="more-libraries"),
    ],
)
def test_the_same_start_differs_by_version_as_the_logs_differ(
    facts: Facts, version: str, activation: float, other: float, kv: float
) -> None:
    budget = memory_budget(facts(gib=27.511, **QWEN3_14B), h100(version))
    assert budget.activation_gib == pytest.approx(activation, abs=0.1)
    assert budget.other_gib == pytest.approx(other, abs=0.02)
    assert budget.kv_gib == pytest.approx(kv, abs=0.1)


def test_experts_keep_two_buffers_while_the_sampler_runs(facts: Facts) -> None:
    # DeepSeek-V2-Lite: 1.93 GiB in the log, of which 0.445 are the buffers.
    budget = memory_budget(facts("deepseek-lite", gib=29.262), h100())
    assert budget.activation_gib == pytest.approx(1.93, abs=0.03)
    assert budget.weights_gib == pytest.approx(29.43, abs=0.1)


def test_graphs_are_reserved_from_020_on_and_not_in_eager_mode(facts: Facts) -> None:
    made = facts(gib=14.957)
    assert graphs_gib(made, h100("0.19.0"))[0] == 0
    assert graphs_gib(made, h100("0.20.0"))[0] > 0.3
    assert graphs_gib(made, h100("0.20.0", enforce_eager=True)) == (0.0, 0.0)


def test_few_sequences_capture_small_graphs(facts: Facts) -> None:
    # Qwen3.6-27B on two RTX 3090: 0.13 GiB for graphs of 16 tokens, 0.17 for 32.
    made = facts(gib=14.957, num_hidden_layers=64, hidden_size=5120)
    assert graphs_gib(made, h100("0.22.0", max_num_seqs=8))[0] == pytest.approx(0.13, abs=0.05)
    assert graphs_gib(made, h100("0.22.0", max_num_seqs=16))[0] == pytest.approx(0.17, abs=0.05)
    assert graphs_gib(made, h100("0.22.0", max_num_seqs=256))[0] > 1


def test_the_second_runner_reserves_nothing_for_graphs_up_to_0_28(facts: Facts) -> None:
    # Two RTX 4090 with Qwen3-32B-AWQ and 0.28: 10.38 GiB of 19.99 less 9.03 of weights leave 0.58 for all the rest.
    made = facts(gib=14.957)
    assert graphs_gib(made, h100("0.28.0"))[0] == 0
    assert graphs_gib(made, h100("0.29.0"))[0] > 0.3
    assert graphs_gib(facts("qwen3.5-4b", gib=8.68), h100("0.28.0"))[0] > 0.3, "a hybrid has the first runner there"


def test_a_start_that_compiles_may_take_copies_of_the_token_table(facts: Facts) -> None:
    # An RTX 5090 with Qwen3-32B-AWQ and 0.28: 2.55 GiB more than with the compiler's cache; its table has 1.45.
    made = facts(gib=27.511, **QWEN3_14B)
    table = 151936 * 5120 * 2 / 2**30
    budget = memory_budget(made, h100("0.28.0"))
    assert budget.cold_gib + budget.warm_gib == pytest.approx(2 * table)
    assert budget.cold_gib > 10 * budget.warm_gib
    assert memory_budget(made, h100("0.28.0", tensor_parallel=2)).cold_gib == pytest.approx(budget.cold_gib / 2)
    assert memory_budget(made, h100("0.28.0", enforce_eager=True)).cold_gib == 0
    assert memory_budget(made, h100("0.19.0")).cold_gib == 0


def test_a_video_model_profiles_as_long_a_video_as_the_context_holds(facts: Facts) -> None:
    # Qwen2.5-VL-7B on an A100 with 0.23: 128,000 tokens of context gave an encoder budget of 114,688, and 15 GiB.
    made = facts(architectures=["Qwen2_5_VLForConditionalGeneration"], gib=15.445, hidden_size=3584)

    def active(length: int) -> float:
        engine = Engine(parse_version("0.23.0"), 79.25, 0.9, max_model_len=length)
        return memory_budget(made, engine).activation_gib

    assert active(128_000) == pytest.approx(15.0, abs=0.6)
    assert active(8_192) < 3


def test_without_its_encoder_a_model_takes_less_memory(facts: Facts) -> None:
    made = facts("qwen3.5-4b", gib=8.68)
    engine = Engine(parse_version("0.29.0"), 22.03, 0.92)
    text_only = Engine(parse_version("0.29.0"), 22.03, 0.92, skip_vision=True)
    assert memory_budget(made, text_only).weights_gib < memory_budget(made, engine).weights_gib - 0.4
    assert memory_budget(made, text_only).activation_gib < memory_budget(made, engine).activation_gib - 1


def test_a_prediction_head_adds_a_layer(facts: Facts) -> None:
    made = facts(gib=14.957)
    draft = Draft(tokens=3, layers=1, own_head=True)
    more = memory_budget(made, h100(draft=draft)).weights_gib - memory_budget(made, h100()).weights_gib
    assert more == pytest.approx((218e6 + 2 * 4096**2) * 2 / 2**30, abs=0.02)
    told = replace(made, draft_bytes=2**30)
    assert memory_budget(told, h100(draft=draft)).weights_gib == pytest.approx(
        memory_budget(told, h100()).weights_gib + 1
    )


def test_weights_grow_when_they_are_loaded_wider(facts: Facts) -> None:
    budget = memory_budget(facts(gib=14.957), h100(dtype="float32"))
    assert budget.weights_gib == pytest.approx(29.98, abs=0.05)


def test_quantised_weights_are_not_widened(facts: Facts) -> None:
    made = facts(gib=5.334, quantization_config={"quant_method": "gptq", "bits": 4})
    assert memory_budget(made, h100(dtype="float16")).weights_gib == pytest.approx(5.38, abs=0.02)


def test_parameters_by_dimensions_are_within_two_per_cent(facts: Facts) -> None:
    assert total_parameters(facts()) == pytest.approx(8.03e9, rel=0.02)
    assert total_parameters(facts("deepseek-lite")) == pytest.approx(15.7e9, rel=0.02)


def test_a_tied_table_is_on_the_first_and_on_the_last_pipeline_rank(facts: Facts) -> None:
    tied = memory_budget(facts(tie_word_embeddings=True), h100(pipeline_parallel=4))
    table = 128256 * 4096 * 2 / 2**30
    middle = tied.ranks[1].weights_gib
    assert tied.ranks[0].weights_gib == pytest.approx(middle + table, abs=0.01)
    assert tied.ranks[3].weights_gib == pytest.approx(middle + table, abs=0.01)


def test_too_many_ranks_replicate_the_key_value_heads(facts: Facts) -> None:
    even = memory_budget(facts(gib=14.957), h100(tensor_parallel=8)).weights_gib
    many = memory_budget(facts(gib=14.957), h100(tensor_parallel=16)).weights_gib
    assert many > even / 2 + 0.03


def test_an_encoder_is_profiled_with_its_largest_input(facts: Facts) -> None:
    # Qwen3.5-4B on an L4 with 0.29 logged 2.17 GiB, 0.41 of it for graphs; the text part alone needs a tenth.
    engine = Engine(parse_version("0.29.0"), 22.03, 0.92, capability=(8, 9))
    budget = memory_budget(facts("qwen3.5-4b", gib=8.68), engine)
    assert budget.activation_gib + budget.graphs_gib == pytest.approx(2.17, abs=0.15)


def test_the_second_runner_keeps_tables_for_penalties(facts: Facts) -> None:
    old = memory_budget(facts(gib=27.511, **QWEN3_14B), h100("0.21.0"))
    new = memory_budget(facts(gib=27.511, **QWEN3_14B), h100("0.28.0"))
    table = 1024 * 151936 * 4.125 / 2**30
    assert new.other_gib - new.warm_gib == pytest.approx(old.other_gib + table, abs=0.01)
    assert new.activation_gib < old.activation_gib


def test_an_unmeasured_checkpoint_widens_the_range(facts: Facts) -> None:
    assert memory_budget(facts(), h100()).sigma_gib > memory_budget(facts(gib=14.957), h100()).sigma_gib


def test_v0_profiles_a_whole_context_at_once_up_to_32k(facts: Facts) -> None:
    # An RTX 3090 with Llama 3.1 8B, December 2024: of 21.22 GiB, 3.81 are left at 20,000 tokens and 2.89 at 29,000, the
    # weights take 14.99 and 0.35 are not torch's. Above 32k, the sampler's 256 sequences are the most: 1.26 GiB on an
    # H100 with 0.6.5.
    def active(length: int) -> float:
        engine = Engine(parse_version("0.6.4"), 23.58, 0.9, max_model_len=length)
        return memory_budget(facts(gib=14.957), engine).activation_gib

    assert active(20_000) == pytest.approx(2.07, abs=0.1)
    assert active(29_000) == pytest.approx(2.99, abs=0.1)
    assert active(35_000) == pytest.approx(1.26, abs=0.05)


# Their names round down: 8.3 and 2.5 thousand million by their model cards.
_ROUNDED = {"Qwen/Qwen2.5-VL-7B-Instruct", "ibm-granite/granite-3.2-2b-instruct"}


def test_the_shapes_of_the_catalogue_add_up_to_the_sizes_that_the_models_are_known_by() -> None:
    """Dense, experts, latent attention, recurrent, tables for each layer: a key that is read wrong shows here."""
    seen = 0
    for entry in all_models():
        facts = catalogue_facts(entry.id) if entry.config else None
        if facts is not None and entry.id not in _ROUNDED:
            assert 0.9 < total_parameters(facts) / 1e9 / entry.parameters_b < 1.12, entry.id
            seen += 1
    assert seen > 110


def test_tables_for_each_layer_cost_room_for_every_token_of_a_step() -> None:
    """Gemma 4 E4B: 42 layers of 256 numbers a token, twice."""
    facts = catalogue_facts("google/gemma-4-E4B-it")
    assert facts is not None
    without = replace(facts, per_layer_width=0)
    engine = h100("0.32.0")
    more = memory_budget(facts, engine).activation_gib - memory_budget(without, engine).activation_gib
    assert more == pytest.approx(2 * 8192 * 42 * 256 * 2 / 2**30, rel=0.01)


@pytest.mark.parametrize(
    ("gib", "quantised", "disagrees"),
    [(14.96, False, False), (29.9, False, False), (9.0, False, True), (5.3, False, True), (5.3, True, False)],
)
def test_a_checkpoint_that_cannot_be_the_shapes_is_noticed(
    facts: Facts, gib: float, quantised: bool, disagrees: bool
) -> None:
    settings = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}} if quantised else {}
    assert (disagreeing_gib(facts(gib=gib, **settings)) is not None) is disagrees


def test_no_checkpoint_of_the_catalogue_disagrees_with_its_shape() -> None:
    for entry in all_models():
        for variant in entry.variants:
            found = facts_of(entry, variant)
            if found is not None:
                assert disagreeing_gib(found) is None, variant.model
