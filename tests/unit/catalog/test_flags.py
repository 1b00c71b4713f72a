"""Which release of vLLM has which flag, and what is said of flags it does not have."""

import json
from pathlib import Path

import pytest

from wizard.catalog.flags import (
    all_flags,
    canonical,
    check_flags,
    find_flag,
    flag_names,
    flag_values,
    has_flag,
    nearest_flags,
    recorded_versions,
    value_since,
    version_key,
)
from wizard.catalog.models import all_models

HELP = json.loads(
    (Path(__file__).parents[2] / "recorded" / "vllm" / "serve_help_0.32.0_cpu.json").read_text(encoding="utf-8")
)


def codes(*flags: tuple[str, str | None], version: str = "0.32.0") -> list[str]:
    return [problem.code for problem in check_flags(flags, version)]


def test_every_flag_of_the_recorded_help_is_known_and_no_other() -> None:
    told = {canonical(flag) for flag in HELP["flags"]}
    assert len(told) > 300
    assert told == set(flag_names("0.32.0"))


def test_no_flag_of_the_recorded_help_is_called_unknown() -> None:
    assert check_flags([(flag, None) for flag in HELP["flags"]], "0.32.0") == ()


@pytest.mark.parametrize("flag", ["--tool-call-parser", "--kv-cache-dtype", "--dtype"])
def test_the_values_are_those_of_the_recorded_help(flag: str) -> None:
    assert set(flag_values(flag, "0.32.0")) == set(HELP["values"][flag])


@pytest.mark.parametrize(
    ("written", "flag"),
    [
        ("max_model_len", "--max-model-len"),
        ("--max_model_len", "--max-model-len"),
        ("-tp", "--tensor-parallel-size"),
        ("--no-enable-prefix-caching", "--enable-prefix-caching"),
        ("--kernel-config.enable_flashinfer_autotune", "--kernel-config"),
        ("--device-memory-utilization", "--gpu-memory-utilization"),
        ("--no-such-flag", "--no-such-flag"),
    ],
)
def test_a_flag_has_one_spelling(written: str, flag: str) -> None:
    assert canonical(written) == flag


def test_a_misspelt_flag_is_refused_with_the_nearest_names() -> None:
    (problem,) = check_flags([("--gpu-memory-utilisation", "0.9")], "0.32.0")
    assert problem.code == "bad-cli-argument"
    assert problem.severity == "error"
    assert problem.fix is not None
    assert "`--gpu-memory-utilization`" in problem.fix.text
    assert nearest_flags("max-model-length", "0.32.0")[0] == "--max-model-len"


def test_an_unknown_flag_of_a_release_newer_than_the_records_is_a_warning() -> None:
    (problem,) = check_flags([("--brand-new", None)], "9.0.0")
    assert problem.severity == "warning"


@pytest.mark.parametrize(
    ("flag", "last", "gone"),
    [
        ("--swap-space", "0.17.0", "0.18.0"),
        ("--disable-log-requests", "0.16.0", "0.17.0"),
        ("--task", "0.12.0", "0.13.0"),
        ("--guided-decoding-backend", "0.10.2", "0.11.0"),
        ("--num-scheduler-steps", "0.10.0", "0.10.1.1"),
    ],
)
def test_a_flag_that_went_away_is_refused_from_then_on_and_its_heir_is_named(flag: str, last: str, gone: str) -> None:
    assert codes((flag, "1"), version=last) == []
    (problem,) = check_flags([(flag, "1")], gone)
    assert problem.code == "flag-gone"
    assert gone in problem.why
    assert problem.fix is not None
    assert problem.fix.text


def test_a_flag_from_before_the_records_is_gone_too() -> None:
    assert codes(("--speculative-model", "x")) == ["flag-gone"]
    assert has_flag("--speculative-model", "0.6.0") is None


def test_a_flag_that_is_still_to_come_is_refused() -> None:
    (problem,) = check_flags([("--kv-cache-memory-bytes", "4G")], "0.10.1.1")
    assert problem.code == "flag-not-yet"
    assert "0.10.2" in problem.why
    assert codes(("--kv-cache-memory-bytes", "4G"), version="0.10.2") == []


def test_before_a_flag_came_its_variable_is_told() -> None:
    (problem,) = check_flags([("--attention-backend", "FLASH_ATTN")], "0.10.0")
    assert problem.fix is not None
    assert "VLLM_ATTENTION_BACKEND" in problem.fix.text
    assert codes(("--attention-backend", "FLASH_ATTN"), version="0.13.0") == []


@pytest.mark.parametrize(
    ("flag", "version", "default"),
    [
        ("--gpu-memory-utilization", "0.6.0", "0.9"),
        ("--gpu-memory-utilization", "0.19.1", "0.9"),
        ("--gpu-memory-utilization", "0.20.0", "0.92"),
        ("--gpu-memory-utilization", "0.33.0", "0.92"),
        ("--enable-prefix-caching", "0.7.3", "off"),
        ("--port", "0.32.0", "8000"),
        ("--no-such-flag", "0.32.0", None),
    ],
)
def test_the_default_is_that_of_the_release(flag: str, version: str, default: str | None) -> None:
    entry = find_flag(flag)
    assert (entry.default(version) if entry else None) == default


@pytest.mark.parametrize(
    ("flag", "value", "fine"),
    [
        ("--gpu-memory-utilization", "0.85", True),
        ("--gpu-memory-utilization", "1.5", False),
        ("--gpu-memory-utilization", "nan", False),
        ("--gpu-memory-utilization", "90%", False),
        ("--max-model-len", "auto", True),
        ("--max-model-len", "-1", True),
        ("--max-model-len", "64K", True),
        ("--max-model-len", "25.6k", True),
        ("--max-model-len", "long", False),
        ("--max-num-seqs", "0", False),
        ("--max-num-seqs", "16", True),
        ("--port", "70000", False),
        ("--tensor-parallel-size", "two", False),
        ("--tool-call-parser", "hermes", True),
        ("--tool-call-parser", "hermees", False),
        ("--kv-cache-dtype", "fp8", True),
        ("--kv-cache-dtype", "fp9", False),
        ("--kernel-config.enable_flashinfer_autotune", "False", True),
        ("--served-model-name", "anything at all", True),
    ],
)
def test_a_value_is_checked_as_vllm_would(flag: str, value: str, fine: bool) -> None:
    assert codes((flag, value)) == ([] if fine else ["flag-value"])


def test_auto_context_is_refused_by_releases_that_do_not_know_it() -> None:
    assert codes(("--max-model-len", "auto"), version="0.13.0") == ["flag-value"]
    assert codes(("--max-model-len", "auto"), version="0.14.0") == []


def test_a_plugins_parser_may_have_any_name() -> None:
    assert codes(("--tool-call-parser", "mine")) == ["flag-value"]
    assert codes(("--tool-parser-plugin", "mine.py"), ("--tool-call-parser", "mine")) == []


def test_a_parser_that_came_later_is_refused_with_the_release_that_has_it() -> None:
    assert value_since("--tool-call-parser", "glm47") == "0.14.0"
    (problem,) = check_flags([("--tool-call-parser", "glm47")], "0.11.0")
    assert "0.14.0" in problem.saw[0]


def test_every_model_names_parsers_that_some_release_has_or_brings_a_plugin() -> None:
    unknown = []
    for model in all_models():
        arguments = (*model.tool_call_args, *model.reasoning_args, *model.documented_tool_call_args)
        for flag, parser in (("--tool-call-parser", model.tool_parser), ("--reasoning-parser", model.reasoning_parser)):
            plugin = any("plugin" in argument for argument in arguments)
            if parser and not plugin and not any(parser in flag_values(flag, v) for v in recorded_versions()):
                unknown.append((model.id, parser))
    assert unknown == []


def test_every_row_says_what_the_flag_is_for_and_what_stands_in_for_one_that_is_gone() -> None:
    for entry in all_flags():
        assert entry.what, entry.name
        assert has_flag(entry.name, "0.33.0") or entry.gone, entry.name
        if entry.gone:
            assert entry.instead or entry.renamed_to, entry.name
        if entry.renamed_to:
            assert has_flag(entry.renamed_to, entry.gone or ""), entry.name


def test_a_flag_without_a_row_is_known_by_name_only() -> None:
    assert find_flag("--watermark") is None
    assert has_flag("--watermark", "0.32.0") is True


@pytest.mark.parametrize(
    ("older", "newer"),
    [("0.9.2", "0.10.0"), ("0.10.1", "0.10.1.1"), ("v0.32.0", "0.33.0"), ("0.33.0", "nightly"), ("0.8.5.post1", "0.9")],
)
def test_releases_compare_as_numbers(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)
