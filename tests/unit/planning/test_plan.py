"""Whole plans: what is chosen, why, and what it says when it cannot be."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from wizard.hardware.describe import describe_machine
from wizard.hardware.machine import Machine
from wizard.planning.catalogue import catalogue_facts
from wizard.planning.facts import ModelFacts
from wizard.planning.intent import Intent, Pin
from wizard.planning.measured import MeasuredStart
from wizard.planning.pins import parse_pin
from wizard.planning.plan import plan_serve
from wizard.planning.versions import TESTED_VERSION
from wizard.problems import ExitCode, ProblemError

Facts = Callable[..., ModelFacts]
Gpu = Callable[..., Machine]


def pins(*texts: str) -> tuple[Pin, ...]:
    return tuple(parse_pin(text) for text in texts)


def test_the_document_has_the_contracts_fields(facts: Facts, gpu_machine: Gpu) -> None:
    document = plan_serve(gpu_machine("H100"), facts(gib=14.96), Intent()).as_json()
    assert {
        "model",
        "vllm_version",
        "fits",
        "command",
        "env",
        "flags",
        "memory",
        "alternatives",
        "warnings",
        "problems",
    } <= set(document)
    assert set(document["flags"][0]) >= {"flag", "value", "reason", "source"}
    memory = document["memory"]
    assert memory["per_gpu"] is True
    assert {
        "total_gib", "budget_gib", "weights_gib", "activation_gib", "cuda_graph_gib", "other_gib", "kv_gib",
        "kv_tokens", "kv_tokens_low", "kv_tokens_high", "max_concurrency", "max_model_len_fitting",
    } <= set(memory)  # fmt: skip
    assert memory["kv_tokens_low"] < memory["kv_tokens"] < memory["kv_tokens_high"]
    assert {"change", "command", "kv_tokens"} <= set(document["alternatives"][0])
    assert json.loads(json.dumps(document)) == document


def test_the_parts_of_the_budget_add_up(facts: Facts, gpu_machine: Gpu) -> None:
    memory = plan_serve(gpu_machine("H100"), facts(gib=14.96), Intent()).memory
    spent = memory.weights_gib + memory.activation_gib + memory.cuda_graph_gib + memory.other_gib + memory.kv_gib
    assert spent == pytest.approx(memory.budget_gib, abs=1e-6)


def test_a_short_name_without_a_slash_is_served(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("H100"), facts(model="acme/Big-Model", gib=14.96), Intent())
    assert plan.served_name == "Big-Model"
    assert plan.command[:5] == ("vllm", "serve", "acme/Big-Model", "--served-model-name", "Big-Model")


def test_every_flag_says_why(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("RTX 4090", 2), facts("llama-8b", gib=30.0), Intent(wish="context"))
    assert all(flag.reason and flag.source for flag in plan.flags)


def test_what_vllm_does_anyway_is_not_said(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("H100"), facts(gib=14.96), Intent())
    names = {flag.flag for flag in plan.flags}
    assert not names & {
        "--enable-prefix-caching", "--enable-chunked-prefill", "--gpu-memory-utilization", "--dtype", "--quantization",
        "--tensor-parallel-size", "--max-num-seqs", "--kv-cache-dtype",
    }  # fmt: skip


def test_the_catalogues_parsers_are_taken(gpu_machine: Gpu) -> None:
    made = catalogue_facts("Qwen/Qwen3-8B")
    assert made is not None
    plan = plan_serve(gpu_machine("L40S"), made, Intent())
    words = " ".join(plan.arguments)
    assert "--enable-auto-tool-choice --tool-call-parser hermes" in words
    assert "--reasoning-parser qwen3" in words


def test_a_copy_of_a_known_model_gets_its_parsers(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("L40S"), facts(model="RedHatAI/Qwen3-8B-FP8-dynamic", gib=9.0), Intent())
    assert "--tool-call-parser" in plan.arguments


def test_a_model_that_nobody_knows_is_warned_about(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("L40S"), facts(gib=14.96), Intent())
    assert "--tool-call-parser" not in plan.arguments
    assert any("tool-call parser" in warning for warning in plan.warnings)


def test_as_many_gpus_as_needed_are_used_and_no_more(facts: Facts, gpu_machine: Gpu) -> None:
    def size(layers: int, gpus: int) -> str | None:
        made = facts(num_hidden_layers=layers, max_position_embeddings=16384)
        plan = plan_serve(gpu_machine("RTX 4090", gpus), made, Intent())
        flag = plan.flag("--tensor-parallel-size")
        return flag.value if flag else None

    assert size(32, 4) is None
    assert size(68, 4) == "2"
    assert size(140, 4) == "4"


def test_heads_that_do_not_divide_rule_a_size_out(facts: Facts, gpu_machine: Gpu) -> None:
    made = facts(gib=60.0, num_attention_heads=6, num_key_value_heads=2, head_dim=128)
    plan = plan_serve(gpu_machine("RTX 4090", 4), made, Intent())
    assert plan.flag("--tensor-parallel-size") is not None
    assert plan.flag("--tensor-parallel-size").value == "2"  # type: ignore[union-attr]
    assert plan.flag("--pipeline-parallel-size").value == "2"  # type: ignore[union-attr]


def test_a_pinned_size_that_does_not_divide_the_heads_is_a_problem(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("L40S", 3), facts(gib=15.0), Intent(pins=pins("tensor-parallel-size=3")))
    assert not plan.fits
    assert plan.problems[0].code == "tp-heads-not-divisible"


def test_more_ranks_than_gpus_is_a_wrong_use(facts: Facts, gpu_machine: Gpu) -> None:
    with pytest.raises(ProblemError) as caught:
        plan_serve(gpu_machine("L40S"), facts(gib=15.0), Intent(pins=pins("tensor-parallel-size=4")))
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_pin_is_obeyed_and_marked_as_yours(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(
        gpu_machine("H100"), facts(gib=14.96), Intent(pins=pins("max-model-len=4096", "enable-expert-parallel"))
    )
    assert plan.max_model_len == 4096
    assert plan.flag("--max-model-len").source == "you"  # type: ignore[union-attr]
    assert plan.flag("--enable-expert-parallel").value is None  # type: ignore[union-attr]


def test_a_pinned_context_that_does_not_fit_is_said_with_the_one_that_does(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("RTX 4090"), facts(gib=14.96), Intent(pins=pins("max-model-len=131072")))
    assert not plan.fits
    assert plan.problems[0].code == "kv-cache-too-small"
    longest = plan.memory.max_model_len_fitting
    assert f"{longest:,}" in plan.problems[0].what
    again = plan_serve(gpu_machine("RTX 4090"), facts(gib=14.96), Intent(pins=pins(f"max-model-len={longest}")))
    assert again.fits


def test_a_context_above_the_models_is_refused(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(
        gpu_machine("H200"), facts(gib=14.96, max_position_embeddings=8192), Intent(pins=pins("max-model-len=16384"))
    )
    assert plan.problems[0].code == "max-model-len-above-model"


def test_vllm_is_left_to_find_the_longest_context_where_it_can(facts: Facts, gpu_machine: Gpu) -> None:
    new = plan_serve(gpu_machine("RTX 4090"), facts(gib=14.96), Intent(vllm_version="0.32.0"))
    assert new.flag("--max-model-len").value == "auto"  # type: ignore[union-attr]
    assert new.max_model_len == new.memory.max_model_len_fitting
    old = plan_serve(gpu_machine("RTX 4090"), facts(gib=14.96), Intent(vllm_version="0.13.0"))
    length = int(old.flag("--max-model-len").value or 0)  # type: ignore[union-attr]
    assert 0 < length <= old.memory.max_model_len_fitting
    assert length % 1024 == 0


def test_weights_that_do_not_fit_are_said_and_more_gpus_offered(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("RTX 4090"), facts(gib=60.0), Intent())
    assert not plan.fits
    assert plan.problems[0].code == "cuda-oom"
    assert plan.memory.kv_tokens == 0


def test_what_others_hold_is_left_alone(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("H100", free_gib=60.0), facts(gib=14.96), Intent())
    share = float(plan.flag("--gpu-memory-utilization").value or 0)  # type: ignore[union-attr]
    assert share * 79.19 < 60.0
    assert plan.fits
    assert plan.memory.used_by_others_gib == pytest.approx(19.19, abs=0.01)


def test_a_pinned_share_above_what_is_free_is_refused_as_vllm_would(facts: Facts, gpu_machine: Gpu) -> None:
    machine = gpu_machine("H100", free_gib=60.0)
    plan = plan_serve(machine, facts(gib=14.96), Intent(pins=pins("gpu-memory-utilization=0.9")))
    assert not plan.fits
    assert plan.problems[0].code == "gpu-memory-in-use"


def test_old_gpus_get_half_precision(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("T4"), facts("smollm", gib=0.26), Intent())
    assert plan.flag("--dtype").value == "half"  # type: ignore[union-attr]


def test_graphs_after_the_cache_can_still_run_out(facts: Facts, gpu_machine: Gpu) -> None:
    made = facts(
        architectures=["GptOssForCausalLM"],
        gib=13.6,
        num_hidden_layers=24,
        hidden_size=2880,
        num_attention_heads=64,
        head_dim=64,
        vocab_size=201088,
        num_experts=32,
        num_experts_per_tok=4,
        moe_intermediate_size=2880,
        quantization_config={"quant_method": "mxfp4"},
    )
    fits = [
        plan_serve(
            gpu_machine("H100"),
            made,
            Intent(vllm_version="0.19.0", pins=pins(f"gpu-memory-utilization={share}", "max-model-len=8192")),
        ).fits
        for share in (0.90, 0.95)
    ]
    assert fits == [True, False]


def test_code_of_the_author_runs_only_on_your_word(facts: Facts, gpu_machine: Gpu) -> None:
    made = facts(gib=14.96, auto_map={"AutoModel": "m.M"})
    without = plan_serve(gpu_machine("H100"), made, Intent())
    assert "--trust-remote-code" not in without.arguments
    assert any("--trust-remote-code" in warning for warning in without.warnings)
    assert "--trust-remote-code" in plan_serve(gpu_machine("H100"), made, Intent(trust_remote_code=True)).arguments


def test_an_older_vllm_than_the_model_needs_is_a_problem(gpu_machine: Gpu) -> None:
    made = catalogue_facts("Qwen/Qwen3-8B")
    assert made is not None
    plan = plan_serve(gpu_machine("L40S"), made, Intent(vllm_version="0.7.3"))
    assert plan.problems[0].code == "vllm-too-old"


def test_alternatives_that_fit_come_first_and_hold_more_context(facts: Facts, gpu_machine: Gpu) -> None:
    made = catalogue_facts("Qwen/Qwen3-8B")
    assert made is not None
    plan = plan_serve(gpu_machine("RTX 4090", 2), made, Intent())
    fitting = [other.fits for other in plan.alternatives]
    assert fitting == sorted(fitting, reverse=True)
    sizes = [other.kv_tokens for other in plan.alternatives if other.fits]
    assert sizes == sorted(sizes, reverse=True)
    changes = " ".join(other.change for other in plan.alternatives)
    assert "FP8" in changes
    assert "AWQ" in changes


def test_an_fp8_cache_is_not_offered_to_gpus_without_fp8(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("A100 80GB"), facts(gib=14.96), Intent())
    assert not any("FP8" in other.change for other in plan.alternatives)


@pytest.mark.parametrize(("wish", "flag"), [("latency", "--max-num-seqs"), ("throughput", "--max-num-batched-tokens")])
def test_wishes_change_what_is_chosen(facts: Facts, gpu_machine: Gpu, wish: Any, flag: str) -> None:
    assert plan_serve(gpu_machine("L40S"), facts(gib=14.96), Intent()).flag(flag) is None
    assert plan_serve(gpu_machine("L40S"), facts(gib=14.96), Intent(wish=wish)).flag(flag) is not None


def test_a_wish_for_context_takes_all_that_the_model_can(facts: Facts, gpu_machine: Gpu) -> None:
    made = facts(gib=14.96, max_position_embeddings=262_144)
    assert plan_serve(gpu_machine("H200"), made, Intent()).max_model_len == 131_072
    assert plan_serve(gpu_machine("H200"), made, Intent(wish="context")).max_model_len == 262_144


def test_without_a_gpu_the_cache_is_named_in_whole_gib_and_exact(facts: Facts, cpu_machine: Machine) -> None:
    plan = plan_serve(cpu_machine, facts("smollm", gib=0.26), Intent(vllm_version="0.32.0"))
    assert plan.device == "cpu"
    assert plan.env == {"VLLM_CPU_KVCACHE_SPACE": "1"}
    assert plan.memory.kv_tokens == plan.memory.kv_tokens_low == plan.memory.kv_tokens_high == 46_592
    assert plan.max_model_len == 2048
    assert "--gpu-memory-utilization" not in plan.arguments
    assert plan.fits


def test_a_model_larger_than_the_memory_is_said(facts: Facts, cpu_machine: Machine) -> None:
    plan = plan_serve(cpu_machine, facts(num_hidden_layers=68), Intent())
    assert not plan.fits
    assert plan.problems[0].code == "not-enough-ram"


def test_a_hybrid_model_gets_no_more_sequences_than_blocks(facts: Facts, gpu_machine: Gpu) -> None:
    machine = gpu_machine("H100", free_gib=79.19)
    made = facts("qwen3.5-4b", gib=55.0)
    plan = plan_serve(machine, made, Intent(vllm_version="0.32.0"))
    seqs = plan.flag("--max-num-seqs")
    assert seqs is not None
    assert plan.fits
    assert int(seqs.value or 0) < 1024


@pytest.mark.parametrize("share", ["0.05", "1.0"])
@pytest.mark.parametrize("name", ["llama-8b", "gemma3-27b", "qwen3.5-4b", "deepseek-lite", "smollm"])
def test_no_combination_breaks_the_arithmetic(facts: Facts, gpu_machine: Gpu, name: str, share: str) -> None:
    for gpu, count in (("T4", 1), ("RTX 5090", 2), ("B200", 8), ("MI300X", 4)):
        plan = plan_serve(gpu_machine(gpu, count), facts(name), Intent(pins=pins(f"gpu-memory-utilization={share}")))
        memory = plan.memory
        assert 0 <= memory.kv_tokens_low <= memory.kv_tokens <= memory.kv_tokens_high
        assert plan.fits is not bool(plan.problems)


def test_flags_that_a_version_does_not_have_are_left_out_and_said(gpu_machine: Gpu) -> None:
    made = catalogue_facts("Qwen/Qwen3-8B")
    assert made is not None
    new = plan_serve(gpu_machine("L40S"), made, Intent(vllm_version="0.32.0"))
    old = plan_serve(gpu_machine("L40S"), made, Intent(vllm_version="0.8.5"))
    assert "qwen3" in new.arguments
    assert old.flag("--reasoning-parser") is None
    assert any("Left out" in warning for warning in old.warnings)


def test_weights_in_ordinary_memory_are_the_last_resort(facts: Facts, gpu_machine: Gpu) -> None:
    made = facts(num_hidden_layers=60, max_position_embeddings=8192)
    plan = plan_serve(gpu_machine("RTX 4090"), made, Intent())
    assert not plan.fits
    last = plan.alternatives[-1]
    assert "--cpu-offload-gb" in last.command
    assert last.fits


def test_a_measured_start_replaces_the_estimate(facts: Facts, gpu_machine: Gpu) -> None:
    machine = gpu_machine("H100")
    intent = Intent(vllm_version="0.32.0")
    before = plan_serve(machine, facts(gib=14.96), intent)
    start = MeasuredStart(before.start_key, before.memory.budget_gib - 50.0, 15.5)
    after = plan_serve(machine, facts(gib=14.96), intent, (start,))
    assert after.memory.measured
    assert after.memory.as_json()["estimated"] is False
    assert after.memory.kv_gib == pytest.approx(50.0)
    assert after.memory.weights_gib == 15.5
    assert after.memory.kv_tokens_high - after.memory.kv_tokens_low < 2000
    other = plan_serve(machine, facts(gib=14.96), Intent(vllm_version="0.32.0", pins=pins("max-num-seqs=8")), (start,))
    assert not other.memory.measured


@pytest.mark.parametrize(
    ("gpu", "changes", "intent", "code"),
    [
        pytest.param("T4", {}, Intent(pins=pins("dtype=bfloat16")), "bf16-unsupported", id="bf16-on-turing"),
        pytest.param(
            "V100 32GB",
            {"quantization_config": {"quant_method": "fp8"}},
            Intent(),
            "fp8-unsupported",
            id="fp8-on-volta",
        ),
        pytest.param(
            "H100",
            {"architectures": ["BaichuanForCausalLM"]},
            Intent(vllm_version="99.0"),
            "unsupported-architecture",
            id="no-longer-served",
        ),
    ],
)
def test_what_a_gpu_or_a_version_cannot_do_is_said(
    facts: Facts, gpu_machine: Gpu, gpu: str, changes: dict[str, Any], intent: Intent, code: str
) -> None:
    plan = plan_serve(gpu_machine(gpu), facts("smollm", gib=0.26, **changes), intent)
    assert [problem.code for problem in plan.problems] == [code]


def test_adapters_get_their_words_their_room_and_their_memory(facts: Facts, gpu_machine: Gpu) -> None:
    plain = plan_serve(gpu_machine("H100"), facts(gib=14.96), Intent())
    intent = Intent(lora_modules=("sql=/adapters/my sql", "chat=/adapters/chat"), lora_rank=40)
    plan = plan_serve(gpu_machine("H100"), facts(gib=14.96), intent)
    words = plan.arguments
    at = words.index("--lora-modules")
    assert words[at + 1 : at + 3] == intent.lora_modules
    assert words[words.index("--max-loras") + 1] == "2"
    assert words[words.index("--max-lora-rank") + 1] == "64"
    # Llama 3 8B, inputs and outputs of a layer: qkv, o, gate and up, down; then the two token tables.
    widths = 32 * (3 * 4096 + 6144 + 8192 + 8192 + 28672 + 18432) + 2 * (128256 + 4096)
    assert plan.memory.weights_gib - plain.memory.weights_gib == pytest.approx(2 * 64 * widths * 2 / 2**30, rel=1e-3)


@pytest.mark.parametrize("module", ["sql", "=/adapters", "sql="])
def test_an_adapter_without_a_name_or_a_path_is_refused(module: str, facts: Facts, gpu_machine: Gpu) -> None:
    with pytest.raises(ProblemError) as error:
        plan_serve(gpu_machine("H100"), facts(gib=14.96), Intent(lora_modules=(module,)))
    assert error.value.problem.code == "bad-flag-value"


def test_as_many_gpus_as_it_takes_are_offered(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("RTX 4090"), facts(gib=60), Intent())
    assert not plan.fits
    more = {one.change: one.fits for one in plan.alternatives if "GPUs" in one.change}
    assert list(more.values()).count(True) == 1
    assert "--tensor-parallel-size 4" in " ".join(plan.alternatives[0].command)
    assert not any("fp8" in one.command for one in plan.alternatives), "a smaller cache is no way out"
    length = plan.flag("--max-model-len")
    assert length and "fits" not in length.reason


@pytest.mark.parametrize(("version", "length"), [("0.29.0", 131_072), ("0.30.0", 32_768)])
def test_yarn_stretches_the_context_where_the_version_does(
    version: str, length: int, facts: Facts, gpu_machine: Gpu
) -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    model = facts(gib=14.96, max_position_embeddings=32768, rope_scaling=scaling)
    plan = plan_serve(gpu_machine("H200"), model, Intent(vllm_version=version, wish="context"))
    assert plan.max_model_len == length


def test_a_version_that_nobody_has_read_widens_the_range_and_is_said(facts: Facts, gpu_machine: Gpu) -> None:
    known = plan_serve(gpu_machine("H100"), facts(gib=14.96), Intent(vllm_version="0.33.1"))
    later = plan_serve(gpu_machine("H100"), facts(gib=14.96), Intent(vllm_version="0.41.0"))
    assert not any("0.33.1" in warning for warning in known.warnings)
    assert any("0.41.0 is newer than 0.33.0" in warning for warning in later.warnings)
    assert later.memory.kv_tokens == known.memory.kv_tokens
    assert later.memory.kv_tokens_high - later.memory.kv_tokens > 1.5 * (
        known.memory.kv_tokens_high - known.memory.kv_tokens
    )
    assert later.memory.kv_tokens_low < known.memory.kv_tokens_low


def test_the_range_reaches_further_down_than_up_for_a_start_that_compiles(facts: Facts, gpu_machine: Gpu) -> None:
    def reach(version: str, *flags: str) -> tuple[int, int]:
        pins = tuple(parse_pin(flag) for flag in flags)
        memory = plan_serve(gpu_machine("RTX 4090"), facts(gib=14.96), Intent(vllm_version=version, pins=pins)).memory
        return memory.kv_tokens - memory.kv_tokens_low, memory.kv_tokens_high - memory.kv_tokens

    down, up = reach("0.32.0")
    assert down > 2 * up
    down, up = reach("0.32.0", "enforce-eager")
    assert abs(down - up) <= 32


def test_a_context_that_only_a_second_start_holds_is_called_close(facts: Facts, gpu_machine: Gpu) -> None:
    pins = (parse_pin("max-model-len=40000"),)
    plan = plan_serve(gpu_machine("RTX 4090"), facts(gib=14.96), Intent(vllm_version="0.32.0", pins=pins))
    assert plan.fits
    assert any("a first start compiles" in warning for warning in plan.warnings)


def test_without_a_version_it_is_the_one_that_is_installed(facts: Facts, gpu_machine: Gpu) -> None:
    assert plan_serve(gpu_machine("H100"), facts(gib=14.96), Intent()).vllm_version == TESTED_VERSION.text


@pytest.mark.parametrize("model", ["google/gemma-4-E4B-it", "deepseek-ai/DeepSeek-R1"])
def test_a_template_that_no_wheel_carries_is_left_out_and_said(gpu_machine: Gpu, model: str) -> None:
    found = catalogue_facts(model)
    assert found is not None
    plan = plan_serve(gpu_machine("H200", 8), found, Intent(vllm_version="0.32.0"))
    assert "--chat-template" not in plan.command
    (said,) = [warning for warning in plan.warnings if ".jinja" in warning]
    assert "raw.githubusercontent.com/vllm-project/vllm/v0.32.0/examples/" in said


def test_a_parser_that_came_later_is_left_out_and_said(gpu_machine: Gpu) -> None:
    found = catalogue_facts("google/gemma-4-E4B-it")
    assert found is not None
    plan = plan_serve(gpu_machine("H200"), found, Intent(vllm_version="0.10.0"))
    assert not {"gemma4", "--enable-auto-tool-choice"} & set(plan.command)
    assert any("Left out" in warning and "gemma4" in warning for warning in plan.warnings)


def test_a_model_that_compresses_its_cache_is_planned_with_its_own_arithmetic(gpu_machine: Gpu) -> None:
    """DeepSeek V4 Flash on two H200: its log told 74.08 GiB of weights and 90,841 tokens."""
    found = catalogue_facts("deepseek-ai/DeepSeek-V4-Flash")
    assert found is not None
    flags = ("gpu-memory-utilization=0.78", "max-model-len=4096", "tensor-parallel-size=2", "enforce-eager")
    plan = plan_serve(gpu_machine("H200", 2, 139.8), found, Intent(vllm_version="0.26.0", pins=pins(*flags)))
    assert plan.fits
    assert plan.memory.weights_gib == pytest.approx(74.08, rel=0.04)
    assert plan.memory.kv_tokens_low < 90_841 < plan.memory.kv_tokens_high
    assert "--block-size" in plan.command
    assert not any("Half the context" in other.change for other in plan.alternatives)


def test_tokens_of_a_block_that_a_recipe_asks_for_are_kept(gpu_machine: Gpu) -> None:
    """MiniMax M3 chooses blocks of 128 tokens; vLLM 0.32 models/minimax_m3/common/sparse_attention.py."""
    found = catalogue_facts("MiniMaxAI/MiniMax-M3")
    assert found is not None
    flags = {flag.flag: flag.value for flag in plan_serve(gpu_machine("H200", 8), found, Intent()).flags}
    assert flags["--block-size"] == "128"


def test_a_parser_of_a_plugin_stays_beside_its_plugin(gpu_machine: Gpu) -> None:
    facts = catalogue_facts("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    assert facts
    plan = plan_serve(gpu_machine("H200"), facts, Intent(vllm_version="0.32.0"))
    assert "--reasoning-parser-plugin" in plan.command
    assert plan.command[plan.command.index("--reasoning-parser") + 1] == "nano_v3"


def test_alternatives_have_only_flags_that_the_version_has(gpu_machine: Gpu) -> None:
    # vLLM's recipe writes `--tool-call-parser-plugin`, which no release has.
    facts = catalogue_facts("nvidia/NVIDIA-Nemotron-Nano-9B-v2")
    assert facts
    plan = plan_serve(gpu_machine("H200"), facts, Intent(vllm_version="0.32.0"))
    assert plan.alternatives
    for command in (plan.command, *(other.command for other in plan.alternatives)):
        assert not {"--tool-call-parser-plugin", "--tool-call-parser", "--enable-auto-tool-choice"} & set(command)


@pytest.mark.parametrize(
    ("method", "version", "told"),
    [
        ("bitsandbytes", "0.32.0", "install `vllm-bnb-plugin` beside it"),
        ("bitsandbytes", "0.24.0", None),
        ("zzz", "0.32.0", "does not read the quantisation `zzz`"),
        ("awq", "0.32.0", None),
    ],
)
def test_a_quantisation_that_vllm_does_not_read_itself_is_said(
    facts: Facts, gpu_machine: Gpu, method: str, version: str, told: str | None
) -> None:
    made = facts(gib=5.0, quantization_config={"quant_method": method})
    warnings = " ".join(plan_serve(gpu_machine("RTX 4090"), made, Intent(vllm_version=version)).warnings)
    assert told in warnings if told else "plugin" not in warnings


def test_where_others_hold_the_memory_the_plan_says_to_free_it(facts: Facts) -> None:
    plan = plan_serve(describe_machine("RTX 4090", free_gib=8.0), facts(gib=14.96), Intent())
    assert not plan.fits
    assert plan.problems[0].fix is not None
    assert "Free the 15.5 GiB that other programs hold" in plan.problems[0].fix.text


def test_a_gpu_without_any_free_memory_is_planned_for_and_does_not_fit(facts: Facts) -> None:
    plan = plan_serve(describe_machine("RTX 4090", free_gib=0.0), facts(gib=14.96), Intent())
    assert not plan.fits
    assert plan.memory.used_by_others_gib == pytest.approx(23.52)


@pytest.mark.parametrize("name", ["", "a b", " "])
def test_a_wished_name_is_one_word(facts: Facts, gpu_machine: Gpu, name: str) -> None:
    with pytest.raises(ProblemError) as caught:
        plan_serve(gpu_machine("H100"), facts(gib=14.96), Intent(served_name=name))
    assert caught.value.problem.code == "bad-flag-value"


def test_a_wished_name_is_kept_as_it_is(facts: Facts, gpu_machine: Gpu) -> None:
    plan = plan_serve(gpu_machine("H100"), facts(gib=14.96), Intent(served_name="org/x"))
    flag = plan.flag("--served-model-name")
    assert flag is not None
    assert (flag.value, flag.reason, flag.source) == ("org/x", "As you named it.", "you")


def test_a_size_that_contradicts_the_shape_is_said_and_widens_the_range(facts: Facts, gpu_machine: Gpu) -> None:
    sound = plan_serve(gpu_machine("H100"), facts(gib=14.96), Intent(vllm_version="0.32.0"))
    odd = plan_serve(gpu_machine("H100"), facts(gib=9.0), Intent(vllm_version="0.32.0"))
    assert not any("by the model's shape" in warning for warning in sound.warnings)
    assert any("9.00 GiB, by the model's shape it would be 14.96" in warning for warning in odd.warnings)
    assert odd.memory.kv_tokens_high - odd.memory.kv_tokens > 1.2 * (
        sound.memory.kv_tokens_high - sound.memory.kv_tokens
    )


def test_a_way_on_this_machine_comes_before_a_larger_machine(gpu_machine: Gpu) -> None:
    found = catalogue_facts("Qwen/Qwen3-30B-A3B")
    assert found is not None
    ways = [other for other in plan_serve(gpu_machine("RTX 4090"), found, Intent()).alternatives if other.fits]
    assert "int4" in ways[0].change
    assert any("such GPUs" in other.change for other in ways[1:])
