"""`--set`."""

from __future__ import annotations

import pytest

from wizard.planning.intent import Intent, Pin
from wizard.planning.pins import (
    AUTO_LENGTH,
    parse_integer,
    parse_pin,
    pinned_choice,
    pinned_fraction,
    pinned_length,
    pinned_switch,
)
from wizard.problems import ExitCode, ProblemError


@pytest.mark.parametrize(
    ("text", "flag", "value"),
    [
        ("max-model-len=8192", "--max-model-len", "8192"),
        ("--max-model-len=8192", "--max-model-len", "8192"),
        ("max_model_len = 8192", "--max-model-len", "8192"),
        ("enforce-eager", "--enforce-eager", None),
        ("--enforce-eager", "--enforce-eager", None),
        ('hf-overrides={"a": "b=c"}', "--hf-overrides", '{"a": "b=c"}'),
        ("attention_config.backend=FLASHINFER", "--attention-config.backend", "FLASHINFER"),
    ],
)
def test_a_pin_is_read_with_or_without_dashes(text: str, flag: str, value: str | None) -> None:
    assert parse_pin(text) == Pin(flag, value)


@pytest.mark.parametrize("text", ["", "=", "--", "=8192", "max model len=1", "x=", "; rm -rf=1"])
def test_what_names_no_flag_is_a_wrong_use(text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_pin(text)
    assert caught.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("text", "number"), [("8192", 8192), ("32k", 32_000), ("32K", 32_768), ("1M", 1_048_576), ("0.5k", 500)]
)
def test_numbers_are_read_as_vllm_reads_them(text: str, number: int) -> None:
    assert parse_integer(text, "--max-model-len") == number


@pytest.mark.parametrize("text", ["", "-1", "1e9", "1.5", "8,192", "0x10", "nan", "9" * 30])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(ProblemError):
        parse_integer(text, "--max-num-seqs")


@pytest.mark.parametrize(("text", "length"), [("auto", AUTO_LENGTH), ("-1", AUTO_LENGTH), ("64K", 65_536)])
def test_a_length_may_be_left_to_vllm(text: str, length: int) -> None:
    assert pinned_length(Intent(pins=(Pin("--max-model-len", text),))) == length


@pytest.mark.parametrize("text", ["0", "1.5", "-0.1", "nan", "much", ""])
def test_a_share_is_above_0_and_at_most_1(text: str) -> None:
    with pytest.raises(ProblemError):
        pinned_fraction(Intent(pins=(Pin("--gpu-memory-utilization", text),)), "--gpu-memory-utilization")


def test_a_switch_can_be_pinned_off() -> None:
    assert pinned_switch(Intent(pins=(Pin("--no-enable-prefix-caching"),)), "--enable-prefix-caching") is False
    assert pinned_switch(Intent(pins=(Pin("--enable-prefix-caching"),)), "--enable-prefix-caching") is True
    assert pinned_switch(Intent(), "--enable-prefix-caching") is None


def test_an_unknown_format_of_the_cache_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ProblemError) as caught:
        pinned_choice(Intent(pins=(Pin("--kv-cache-dtype", "fp9"),)), "--kv-cache-dtype")
    assert "fp8_e5m2" in (caught.value.problem.fix.text if caught.value.problem.fix else "")


def test_the_last_of_two_pins_counts() -> None:
    intent = Intent(pins=(Pin("--max-num-seqs", "4"), Pin("--max-num-seqs", "8")))
    assert intent.pinned("--max-num-seqs") == "8"
