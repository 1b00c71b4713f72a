"""Rules by version."""

from __future__ import annotations

import pytest

from wizard.planning.versions import ROWS, default_utilization, parse_version, rule, runner, sampler
from wizard.problems import ExitCode, ProblemError


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.19.0", (0, 19, 0)),
        ("v0.26.1rc1.dev608+g99a10304d", (0, 26, 1)),
        ("0.28", (0, 28, 0)),
        ("0.10.1.1", (0, 10, 1)),
        ("1.2.3", (1, 2, 3)),
    ],
)
def test_releases_and_builds_are_read(text: str, numbers: tuple[int, int, int]) -> None:
    assert parse_version(text).numbers == numbers


@pytest.mark.parametrize("text", ["", "newest", "0", "0.x", "vllm 0.19", "0.19.0; rm", "9" * 40])
def test_what_is_no_version_is_a_wrong_use(text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_version(text)
    assert caught.value.exit_code == ExitCode.USAGE


def test_every_rule_has_a_first_row_and_a_source() -> None:
    for name in {row.rule for row in ROWS}:
        rows = [row for row in ROWS if row.rule == name]
        assert rows[0].since == (0, 0, 0), name
        assert [row.since for row in rows] == sorted({row.since for row in rows}), name
    assert all(row.source for row in ROWS)


def test_a_version_of_the_future_is_like_the_newest_known() -> None:
    assert default_utilization(parse_version("3.1.4")) == 0.92
    assert rule(parse_version("3.1.4"), "printed-size") == "concurrency"


@pytest.mark.parametrize(
    ("version", "kind"),
    [("0.10.2", "sort"), ("0.11.0", "flashinfer"), ("0.16.0", "sort"), ("0.19.1", "triton"), ("0.22.0", "flashinfer")],
)
def test_the_profiles_sampler_by_version(version: str, kind: str) -> None:
    assert sampler(parse_version(version)) == kind


@pytest.mark.parametrize(
    ("version", "architecture", "moe", "hybrid", "quantised", "kind"),
    [
        ("0.21.0", "Qwen3ForCausalLM", False, False, False, "v1"),
        ("0.22.0", "Qwen3ForCausalLM", False, False, False, "v2"),
        ("0.22.0", "Qwen3ForCausalLM", False, False, True, "v1"),
        ("0.22.0", "LlamaForCausalLM", False, False, False, "v1"),
        ("0.23.0", "LlamaForCausalLM", False, False, False, "v2"),
        ("0.25.0", "Phi3ForCausalLM", False, False, True, "v2"),
        ("0.25.0", "Qwen3MoeForCausalLM", True, False, False, "v1"),
        ("0.25.0", "DeepseekV2ForCausalLM", True, False, False, "v2"),
        ("0.28.0", "Qwen3_5ForConditionalGeneration", False, True, False, "v1"),
        ("0.29.0", "Qwen3MoeForCausalLM", True, False, True, "v2"),
    ],
)
def test_which_models_the_second_runner_takes(
    version: str, architecture: str, moe: bool, hybrid: bool, quantised: bool, kind: str
) -> None:
    assert runner(parse_version(version), architecture, moe=moe, hybrid=hybrid, quantised=quantised) == kind
