"""`llm-setup models`, from options to screen and exit code."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wizard.cli.models import command
from wizard.problems import ProblemError


@pytest.fixture
def run(tmp_path: Path) -> object:
    def call(*arguments: str) -> Result:
        environment = {"LLM_SETUP_HOME": str(tmp_path), "HOME": str(tmp_path)}
        return CliRunner().invoke(command, arguments, env=environment, standalone_mode=False)

    return call


def test_the_table_fits_eighty_columns_and_names_a_next_step(run) -> None:  # type: ignore[no-untyped-def]
    result = run("--gpu", "RTX 4090", "--for", "codex")
    assert result.return_value == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("  1. ") for line in lines)
    assert lines[-1].startswith("Next: llm-setup plan ")
    assert "~" in result.stdout


def test_json_is_one_document_with_all_models_that_fit(run) -> None:  # type: ignore[no-untyped-def]
    result = run("--gpu", "RTX 4090", "--for", "codex", "--for", "aider", "--json")
    document = json.loads(result.stdout)
    assert document["schema_version"] == 1
    assert document["for"] == ["codex", "aider"]
    assert document["minimum_context_tokens"] == 32768
    assert document["machine"]["gpus"][0]["name"] == "NVIDIA GeForce RTX 4090"
    assert [row["rank"] for row in document["models"]] == list(range(1, len(document["models"]) + 1))
    assert document["models"][0]["suits"] is True
    assert document["models"][0]["serves"] == ["codex", "aider"]
    assert all(row["fits"] is not False for row in document["models"])


def test_all_brings_those_that_do_not_fit_and_limit_cuts(run) -> None:  # type: ignore[no-untyped-def]
    document = json.loads(run("--gpu", "RTX 4090", "--json", "--all").stdout)
    assert len(document["models"]) == document["total"]
    assert any(row["fits"] is False and row["lacking"] for row in document["models"])
    assert len(json.loads(run("--gpu", "RTX 4090", "--json", "--limit", "3").stdout)["models"]) == 3


def test_a_machine_on_which_nothing_suits_ends_with_one_and_says_why(run) -> None:  # type: ignore[no-untyped-def]
    result = run("--gpu", "GTX 1080", "--for", "claude-code", "--json")
    assert result.return_value == 1
    (problem,) = json.loads(result.stdout)["problems"]
    assert problem["code"] == "no-model-suits"
    assert problem["saw"]
    assert problem["fix"]["commands"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--gpu", "RTX 9999x"), "unknown-gpu"),
        (("--gpu", "RTX 4090", "--for", "codexx"), "unknown-client"),
        (("--gpu", "RTX 4090", "--gpus", "0"), "wrong-number-of-gpus"),
        (("--gpu", "RTX 4090", "--vllm-version", "newest"), "bad-vllm-version"),
    ],
)
def test_bad_input_is_a_usage_error(run, arguments: tuple[str, ...], code: str) -> None:  # type: ignore[no-untyped-def]
    error = run(*arguments).exception
    assert isinstance(error, ProblemError)
    assert error.problem.code == code
    assert error.exit_code == 2


def test_help_has_an_example(run) -> None:  # type: ignore[no-untyped-def]
    result = run("--help")
    assert "Example:" in result.stdout
    assert len(result.stdout.splitlines()) < 40
