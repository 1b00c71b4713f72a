"""Which settings are tried, by version, machine and what the user fixed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wizard.tuning.space import Surroundings, arguments_of, changes_answers, knob_names, model_of, plan_space

CPU = Surroundings("0.32.0", "cpu", (), batch=(2048, 128), max_model_len=8192)
H200 = Surroundings(
    "0.32.0", "cuda", (), batch=(8192, 1024), gpus=4, heads=32, capability=(9, 0), free_share=0.99, max_model_len=32768
)


def names(around: Surroundings, **how: object) -> list[str]:
    return [knob.name for knob in plan_space(around, **how)]  # type: ignore[arg-type]


def labels(around: Surroundings, name: str, **how: object) -> list[str]:
    found = [knob for knob in plan_space(around, **how) if knob.name == name]  # type: ignore[arg-type]
    return [choice.label for choice in found[0].choices] if found else []


def test_a_processor_has_no_knobs_of_a_gpu() -> None:
    assert not {"attention-backend", "gpu-memory-utilization", "parallelism", "speculative-decoding"} & set(names(CPU))
    assert {"prefix-caching", "max-num-batched-tokens", "max-num-seqs", "chunked-prefill"} <= set(names(CPU))


def test_a_gpu_has_them_and_every_name_can_be_asked_for() -> None:
    found = names(H200, allow=("kv-dtype", "quantization"))
    assert {"attention-backend", "gpu-memory-utilization", "parallelism", "speculative-decoding"} <= set(found)
    assert set(found) <= set(knob_names())


def test_what_changes_answers_needs_leave() -> None:
    around = replace(H200, variants=(("fp8", "m-FP8"),))
    assert not {"kv-cache-dtype", "quantization"} & set(names(around))
    assert {"kv-cache-dtype", "quantization"} <= set(names(around, allow=("kv-dtype", "quantization")))


@pytest.mark.parametrize(
    "around",
    [
        pytest.param(replace(H200, version="0.12.0"), id="a vLLM before the flag"),
        pytest.param(replace(H200, pinned=("--attention-backend",)), id="fixed by the user"),
    ],
)
def test_what_cannot_or_may_not_be_turned_is_left_out(around: Surroundings) -> None:
    assert "attention-backend" not in names(around)


def test_a_flag_fixed_in_its_no_form_is_fixed() -> None:
    assert "prefix-caching" not in names(replace(CPU, pinned=("--no-enable-prefix-caching",)))


def test_only_takes_names_and_flags() -> None:
    assert names(CPU, only=("--enable-prefix-caching", "max_num_seqs")) == ["prefix-caching", "max-num-seqs"]


def test_prefix_caching_is_turned_from_what_it_is() -> None:
    assert labels(CPU, "prefix-caching") == ["off"]
    off = replace(CPU, arguments=("--no-enable-prefix-caching",))
    (knob,) = plan_space(off, only=("prefix-caching",))
    assert (knob.now, [choice.label for choice in knob.choices]) == ("off", ["on"])
    assert arguments_of(off.arguments, (knob,), (("prefix-caching", "on"),)) == ("--enable-prefix-caching",)


def test_an_old_gpu_gets_no_fp8_cache_and_no_flash_attention() -> None:
    turing = replace(H200, capability=(7, 5))
    assert labels(turing, "kv-cache-dtype", allow=("kv-dtype",)) == []
    assert "FLASH_ATTN" not in labels(turing, "attention-backend")


def test_no_more_memory_is_asked_for_than_is_free() -> None:
    assert labels(replace(H200, free_share=0.96), "gpu-memory-utilization") == ["0.95"]
    assert labels(replace(H200, free_share=0.5), "gpu-memory-utilization") == []


def test_heads_and_gpus_bound_how_work_is_shared() -> None:
    found = labels(replace(H200, heads=6), "parallelism")
    assert "TP 2 x 2" in found
    assert not any(label.startswith("TP 4") for label in found)


def test_without_chunked_prefill_a_batch_holds_the_longest_prompt() -> None:
    (knob,) = plan_space(H200, only=("chunked-prefill",))
    words = arguments_of(("--max-num-batched-tokens", "8192", "--x", "1"), (knob,), (("chunked-prefill", "off"),))
    assert words == ("--x", "1", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "32768")
    assert labels(replace(H200, max_model_len=131072), "chunked-prefill") == []


def test_batches_are_never_smaller_than_what_runs_at_once() -> None:
    assert "1024" not in labels(replace(CPU, batch=(2048, 1025)), "max-num-batched-tokens")


def test_graphs_are_tried_where_they_were_off() -> None:
    eager = replace(H200, arguments=("--enforce-eager",))
    assert "cuda-graphs" in names(eager)
    assert "cuda-graphs" not in names(H200)
    assert "cuda-graphs" not in names(replace(CPU, arguments=("--enforce-eager",)))


def test_a_variant_is_another_model_and_may_answer_otherwise() -> None:
    around = replace(H200, variants=(("fp8", "m-FP8"),))
    knobs = plan_space(around, allow=("quantization",), only=("quantization",))
    setting = (("quantization", "fp8"),)
    assert model_of("m", knobs, setting) == "m-FP8"
    assert model_of("m", knobs, ()) == "m"
    assert changes_answers(knobs, setting)
    assert not changes_answers(knobs, ())


def test_settings_replace_flags_however_they_are_written() -> None:
    (knob,) = plan_space(CPU, only=("max-num-seqs",))
    label = knob.choices[0].label
    for written in (("--max-num-seqs", "99"), ("--max-num-seqs=99",), ("--max_num_seqs", "99")):
        assert arguments_of(written, (knob,), (("max-num-seqs", label),)) == ("--max-num-seqs", label)
