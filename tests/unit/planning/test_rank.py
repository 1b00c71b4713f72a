"""Which models suit a machine."""

from dataclasses import replace
from time import process_time

import pytest

from wizard.catalog.models import ModelEntry, all_models, find_model
from wizard.hardware.describe import describe_machine
from wizard.hardware.machine import Cpu, Machine
from wizard.planning.intent import Intent
from wizard.planning.plan import plan_serve
from wizard.planning.rank import Need, Ranked, estimate_tokens_per_s, facts_of, rank_models, usable_variants

CODEX = Need("codex", "Codex CLI", True, 32_768)
AIDER = Need("aider", "aider", False, 4_096)


def entry(model_id: str) -> ModelEntry:
    found = find_model(model_id)
    assert found is not None
    return found


def rank(model_id: str, gpu: str, *needs: Need, gpus: int = 1, intent: Intent | None = None) -> Ranked:
    (row,) = rank_models(describe_machine(gpu, gpus), needs, intent, models=[entry(model_id)])
    return row


def test_a_model_that_fits_tells_its_context_speed_and_gpus() -> None:
    row = rank("Qwen/Qwen3-8B", "RTX 4090", CODEX)
    assert row.suits
    assert row.variant.precision == "bf16"
    assert row.gpus == 1
    assert row.context_tokens is not None
    assert 32_768 <= row.context_tokens <= 40_960
    assert row.tokens_per_s is not None
    assert row.serves == ("codex",)


@pytest.mark.parametrize("model_id", ["LiquidAI/LFM2.5-1.2B-Instruct", "Qwen/Qwen3-0.6B"])
def test_the_list_and_the_plan_tell_one_context(model_id: str) -> None:
    machine = Machine("linux", Cpu("x", "x86_64", 8), 24.0, 20.0)
    (row,) = rank_models(machine, [CODEX], models=[entry(model_id)])
    facts = facts_of(entry(model_id), row.variant)
    assert facts is not None
    plan = plan_serve(machine, facts, Intent())
    assert row.context_tokens == plan.max_model_len
    beyond = plan.max_model_len > entry(model_id).context_length
    assert any("The model's card speaks of" in warning for warning in plan.warnings) == beyond
    assert beyond == (model_id == "LiquidAI/LFM2.5-1.2B-Instruct")


def test_the_most_exact_variant_that_leaves_room_is_taken() -> None:
    assert rank("Qwen/Qwen3-32B", "H200", AIDER).variant.precision == "bf16"
    assert rank("Qwen/Qwen3-32B", "L40S", AIDER).variant.precision == "fp8"
    assert rank("Qwen/Qwen3-32B", "RTX 5090", AIDER).variant.precision == "int4"


def test_a_variant_that_fits_with_too_little_room_gives_way_to_a_smaller_one() -> None:
    roomy = Need("x", "X", True, 40_000)
    assert rank("Qwen/Qwen3-8B", "RTX 4090", CODEX).variant.precision == "bf16"
    assert rank("Qwen/Qwen3-8B", "RTX 4090", roomy).variant.precision == "fp8"


def test_a_model_that_is_far_too_large_does_not_fit_and_says_how_much_is_missing() -> None:
    row = rank("deepseek-ai/DeepSeek-R1", "RTX 4090", CODEX)
    assert row.fits == "no"
    assert row.tokens_per_s is None
    assert any("GiB" in why for why in row.lacking)


def test_a_large_model_fits_where_there_are_enough_gpus() -> None:
    row = rank("deepseek-ai/DeepSeek-R1", "H200", CODEX, gpus=8)
    assert row.suits
    assert row.gpus == 8


def test_a_model_of_unknown_shape_is_unknown_and_not_called_fitting() -> None:
    unknown = next(m for m in all_models() if m.config is None and m.parameters_b < 10 and m.purpose == "chat")
    (row,) = rank_models(describe_machine("RTX 4090"), [CODEX], models=[unknown])
    assert row.fits == "unknown"
    assert row.context_tokens is None
    assert not row.suits


def test_a_model_without_tool_calls_lacks_them_for_an_agent_but_not_for_aider() -> None:
    assert rank("google/gemma-3-27b-it", "H200", CODEX).lacking == ("No tool-call parser is known for it.",)
    assert rank("google/gemma-3-27b-it", "H200").lacking == ("No tool-call parser is known for it.",)
    assert rank("google/gemma-3-27b-it", "H200", AIDER).suits


def test_a_model_with_too_little_context_says_so() -> None:
    row = rank("HuggingFaceTB/SmolLM2-135M-Instruct", "RTX 4090", CODEX)
    assert row.fits == "yes"
    assert row.serves == ()
    assert any("32,768" in why for why in row.lacking)


def test_a_vllm_that_is_too_old_for_a_model_is_said() -> None:
    assert (
        rank("zai-org/GLM-4.7", "H200", CODEX, gpus=8, intent=Intent(vllm_version="0.10.2"))
        .lacking[-1]
        .endswith("0.11.0.")
    )


def test_a_gpu_that_cannot_compute_a_precision_gets_another_variant() -> None:
    assert "fp8" not in {
        v.precision for v in usable_variants(entry("Qwen/Qwen3-32B"), describe_machine("V100 32GB").gpus[0])
    }
    old = describe_machine("GTX 1080").gpus[0]
    assert usable_variants(entry("Qwen/Qwen3-8B"), old) == ()
    (row,) = rank_models(describe_machine("GTX 1080"), [CODEX], models=[entry("Qwen/Qwen3-0.6B")])
    assert row.fits == "no"


def test_four_bit_floats_come_last_on_a_gpu_without_them() -> None:
    model = entry("meta-llama/Llama-3.1-8B-Instruct")
    on_ampere = [v.precision for v in usable_variants(model, describe_machine("RTX 3060").gpus[0])]
    on_blackwell = [v.precision for v in usable_variants(model, describe_machine("RTX 5090").gpus[0])]
    assert on_ampere[-1] == "nvfp4"
    assert on_blackwell[-1] == "int4"


def test_models_that_do_not_chat_are_left_out() -> None:
    ids = {row.entry.id for row in rank_models(describe_machine("H200"))}
    assert "meta-llama/Llama-3.1-8B" not in ids
    assert "Qwen/Qwen3Guard-Gen-8B" not in ids
    assert "meta-llama/Llama-3.1-8B-Instruct" in ids


def test_what_suits_comes_first_then_what_is_unknown_then_what_lacks_then_what_does_not_fit() -> None:
    rows = rank_models(describe_machine("RTX 4090"), [CODEX])
    groups = [
        0 if r.suits else 1 if r.fits == "unknown" and not r.lacking else 2 if r.fits != "no" else 3 for r in rows
    ]
    assert groups == sorted(groups)
    assert groups[0] == 0
    assert set(groups) == {0, 1, 2, 3}


def test_a_newer_and_larger_model_ranks_above_an_older_small_one() -> None:
    order = [row.entry.id for row in rank_models(describe_machine("H100"), [CODEX]) if row.suits]
    assert order.index("Qwen/Qwen3.5-27B") < order.index("Qwen/Qwen2.5-7B-Instruct")
    assert order.index("Qwen/Qwen3.8-27B") < order.index("Qwen/Qwen3.5-27B")


@pytest.mark.parametrize(("gpu", "gpus"), [("RTX 4090", 1), ("H100", 1), ("L40S", 2)])
def test_the_order_of_models_is_the_same_for_every_agent(gpu: str, gpus: int) -> None:
    machine = describe_machine(gpu, gpus)
    plain = [row.variant.model for row in rank_models(machine) if row.suits]
    wants = replace(CODEX, minimum_context_tokens=65_536)
    needy = [row.variant.model for row in rank_models(machine, [wants]) if row.suits]
    both = set(plain) & set(needy)
    assert len(both) > 10
    assert [m for m in plain if m in both] == [m for m in needy if m in both]


def test_memory_that_others_hold_takes_models_away() -> None:
    free = [r.entry.id for r in rank_models(describe_machine("RTX 4090"), [CODEX]) if r.suits]
    held = [r.entry.id for r in rank_models(describe_machine("RTX 4090", free_gib=8), [CODEX]) if r.suits]
    assert set(held) < set(free)


def test_without_a_gpu_only_what_a_processor_can_do_is_ranked() -> None:
    machine = Machine("linux", Cpu("x", "x86_64", 8), 32.0, 24.0)
    rows = {row.entry.id: row for row in rank_models(machine, [CODEX])}
    assert rows["openai/gpt-oss-20b"].fits == "no"
    assert rows["Qwen/Qwen3-1.7B"].fits == "yes"
    assert rows["Qwen/Qwen3-1.7B"].gpus == 0


def test_a_gpu_that_the_catalogue_does_not_know_has_no_speed() -> None:
    machine = describe_machine(None, memory_gib=24)
    (row,) = rank_models(machine, [CODEX], models=[entry("Qwen/Qwen3-8B")])
    assert row.fits == "yes"
    assert row.tokens_per_s is None


@pytest.mark.parametrize(
    ("bandwidth", "active_gib", "layers", "moe", "published"),
    [
        pytest.param(1008, 14.96, 32, False, 53, id="llama-3.1-8b-rtx-4090"),
        pytest.param(3350, 14.96, 32, False, 140, id="llama-3.1-8b-h100"),
        pytest.param(1008, 1.7, 48, True, 150, id="qwen3-30b-a3b-4bit-rtx-4090"),
    ],
)
def test_the_estimate_of_speed_is_near_what_people_publish(
    bandwidth: float, active_gib: float, layers: int, moe: bool, published: float
) -> None:
    assert estimate_tokens_per_s(bandwidth, active_gib, layers, moe=moe) == pytest.approx(published, rel=0.15)


def test_more_gpus_are_faster_and_a_slow_link_costs() -> None:
    one = estimate_tokens_per_s(1000, 30, 60)
    two = estimate_tokens_per_s(1000, 30, 60, tensor_parallel=2)
    slow = estimate_tokens_per_s(1000, 30, 60, tensor_parallel=2, nvlink=False)
    assert one < slow < two < 2 * one


def test_ranking_everything_is_quick() -> None:
    machine = describe_machine("RTX 4090")
    rank_models(machine, [CODEX])
    started = process_time()
    rank_models(machine, [CODEX])
    assert process_time() - started < 1.0


def test_a_row_as_json_marks_what_is_estimated() -> None:
    document = rank("Qwen/Qwen3-8B", "RTX 4090", CODEX).as_json()
    assert document["fits"] is True
    assert "tokens_per_s" in document["estimated"]
    assert "download_gib" not in document["estimated"]
    assert document["tool_parser"] == "hermes"
    other = replace(rank("Qwen/Qwen3-8B", "RTX 4090"), fits="unknown").as_json()
    assert other["fits"] is None


def test_what_is_said_to_suit_is_what_the_plan_says_fits() -> None:
    machine = describe_machine("RTX 4090")
    suiting = [row for row in rank_models(machine, [CODEX]) if row.suits][:5]
    assert suiting
    for row in suiting:
        facts = facts_of(row.entry, row.variant)
        assert facts is not None
        plan = plan_serve(machine, facts, Intent(context_tokens=32_768))
        assert plan.fits, row.variant.model
        assert plan.max_model_len >= 32_768


def _processor(cores: int, *features: str) -> Machine:
    return Machine("linux", Cpu("x", "x86_64", cores, cores, features=features), 64.0, 60.0)


def test_without_a_gpu_what_answers_soon_comes_before_what_is_larger() -> None:
    rows = rank_models(_processor(2, "avx512f", "avx512_bf16"), (CODEX,))
    first = next(row for row in rows if row.suits)
    large = next(row for row in rows if row.suits and (row.entry.active_b or 0) > 10)
    assert (first.entry.active_b or 0) < 3
    assert (first.first_answer_s or 0) < 200 < (large.first_answer_s or 0)


def test_more_and_wider_cores_let_larger_models_rank_higher() -> None:
    def first(machine: Machine) -> float:
        return next(row.entry.active_b or 0 for row in rank_models(machine, (CODEX,)) if row.suits)

    assert first(_processor(2, "avx2")) < first(_processor(32, "avx512f", "avx512_bf16", "amx_bf16"))


def test_a_containers_limit_counts_as_its_cores() -> None:
    def wait(machine: Machine) -> float:
        rows = rank_models(machine, (CODEX,), models=[entry("Qwen/Qwen3-0.6B")])
        return rows[0].first_answer_s or 0

    whole = _processor(16, "avx512f")
    limited = replace(whole, cpu=replace(whole.cpu, quota_cores=2.0))
    assert wait(limited) > 4 * wait(whole)


def test_with_a_gpu_no_wait_is_told() -> None:
    assert rank("Qwen/Qwen3-0.6B", "RTX 4090", CODEX).first_answer_s is None
