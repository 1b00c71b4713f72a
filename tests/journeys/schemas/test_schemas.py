"""What commands print with `--json` is as the published schemas say."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from tests.unit.flows.conftest import TinyEndpoint
from wizard.cli import main as cli

from .conftest import Run

SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "schemas"


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def check(name: str, text: str) -> Any:
    """The document, which has to be the only thing in `text` and as the schema says."""
    document = json.loads(text)
    wrong = [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(document)]
    assert wrong == [], name
    return document


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_every_schema_is_one_and_refuses_an_empty_document(path: Path) -> None:
    assert validator(path.stem).schema["title"].startswith("llm-setup ")
    assert not validator(path.stem).is_valid({})
    assert not validator(path.stem).is_valid({"schema_version": 2})


# `run` hands over to a client; `profiles key` prints a key and nothing else, never as JSON. The other two install and
# delete gigabytes: their documents are the rows of `runtime list`, and what was removed.
WITHOUT = {"run", "profiles-key", "runtime-install", "runtime-remove"}


def test_every_command_has_a_schema() -> None:
    context = click.Context(cli.group)
    names = set()
    for name in cli.COMMANDS:
        command = cli.group.get_command(context, name)
        inner = command.commands if isinstance(command, click.Group) else {"": None}
        names |= {f"{name}-{each}".rstrip("-") for each in inner}
    published = {path.stem for path in SCHEMAS.glob("*.json")}
    assert sorted(names - WITHOUT - published) == []
    assert sorted(WITHOUT - names) == []


@pytest.mark.parametrize(
    ("schema", "argv"),
    [
        pytest.param("plan", ["plan", "Qwen/Qwen3-8B", "--gpu", "RTX 4090"], id="plan-fits"),
        pytest.param("plan", ["plan", "Qwen/Qwen3-32B", "--gpu", "RTX 4090"], id="plan-does-not-fit"),
        pytest.param("plan", ["plan", "Qwen/Qwen3-8B", "--gpu", "H100", "--gpu-memory-gib", "79.6"], id="plan-h100"),
        pytest.param("models", ["models", "--gpu", "RTX 4090", "--all", "--for", "codex"], id="models"),
        pytest.param("hardware", ["hardware"], id="hardware"),
        pytest.param("profiles-presets", ["profiles", "presets"], id="presets"),
        pytest.param("profiles-list", ["profiles", "list"], id="no-profile"),
        pytest.param("clients-list", ["clients", "list"], id="clients"),
        pytest.param("export-kinds", ["export"], id="export-kinds"),
        pytest.param("runtime-list", ["runtime", "list"], id="no-runtime"),
        pytest.param("runtime-use", ["runtime", "use", "auto"], id="runtime-auto"),
        pytest.param("runtime-install-dry-run", ["runtime", "install", "--dry-run"], id="install-dry"),
        pytest.param("serve-dry-run", ["serve", "--dry-run"], id="serve-dry"),
        pytest.param("status", ["status"], id="no-server"),
        pytest.param("stop", ["stop", "--all"], id="nothing-to-stop"),
        pytest.param("completion", ["completion", "fish"], id="completion"),
        pytest.param("doctor", ["doctor", "--offline", "--error", "404 status code (no body)"], id="doctor-error"),
        pytest.param("version", ["version"], id="version"),
        pytest.param("uninstall", ["uninstall", "--dry-run"], id="nothing-to-uninstall"),
        pytest.param("error", ["plan"], id="usage"),
        pytest.param("error", ["clients", "apply", "nosuch", "--base-url", "http://127.0.0.1:9"], id="problem"),
    ],
)
def test_documents_that_need_no_endpoint(run: Run, schema: str, argv: list[str]) -> None:
    check(schema, run(*argv, "--json").stdout)


def test_documents_of_an_exported_kind(run: Run, tmp_path: Path) -> None:
    argv = ["export", "compose", "--model", "Qwen/Qwen3-8B", "--gpu", "RTX 4090", "--output", str(tmp_path / "out")]
    check("export", run(*argv, "--json").stdout)


def test_documents_of_profiles_and_clients(run: Run, endpoint: TinyEndpoint, home: Path) -> None:
    given = ["--base-url", endpoint.url, "--model", "tiny"]
    check("profiles-add", run("profiles", "add", "lab", *given, "--use", "--json").stdout)
    check("profiles-add", run("profiles", "add", "other", *given, "--key-env", "K", "--json").stdout)
    assert len(check("profiles-list", run("profiles", "list", "--json").stdout)["profiles"]) == 2
    check("profiles-show", run("profiles", "show", "--json").stdout)
    check("env", run("env", "--json").stdout)
    check("clients-apply", run("clients", "apply", "codex", "claude-code", *given, "--dry-run", "--json").stdout)
    check("clients-apply", run("clients", "apply", "codex", "claude-code", "cline", *given, "--yes", "--json").stdout)
    check("clients-list", run("clients", "list", "--json").stdout)
    check("clients-show", run("clients", "show", "--all", "--json").stdout)
    codex = home / ".codex" / "config.toml"
    codex.write_text(codex.read_text() + "\n# mine\n")
    assert check("clients-diff", run("clients", "diff", "--all", "--json").stdout)["files"]
    assert check("clients-verify", run("clients", "verify", "--json").stdout)["clients"]
    check("use", run("use", "other", "--json", K="sk-journey-00000000000001").stdout)
    check("use", run("use", "-", "--json").stdout)
    assert check("uninstall", run("uninstall", "--dry-run", "--json").stdout)["traces"]["changed"]
    check("clients-restore", run("clients", "restore", "--all", "--yes", "--json").stdout)
    check("profiles-remove", run("profiles", "remove", "other", "--json").stdout)


def test_documents_of_the_doctor(run: Run, endpoint: TinyEndpoint) -> None:
    fine = ["--base-url", f"{endpoint.url}/v1", "--model", "tiny", "--client-type", "codex"]
    check("doctor", run("doctor", *fine, "--json").stdout)
    wrong = ["--base-url", f"{endpoint.url}/v2", "--model", "other", "--client-type", "claude-code"]
    assert check("doctor", run("doctor", *wrong, "--json").stdout)["findings"]
    check("doctor-trace", run("doctor", *fine, "--trace", "--json", "--", "true").stdout)


def test_documents_of_init(run: Run, endpoint: TinyEndpoint) -> None:
    given = ["--base-url", endpoint.url, "--model", "tiny", "--client", "codex", "--yes"]
    assert check("init", run("init", *given, "--json").stdout)["status"] == "ok"
    given[1] = f"{endpoint.url}/nowhere"
    assert check("init", run("init", *given, "--json").stdout)["status"] == "error"


def test_a_document_of_init_with_clients_left_out_has_nothing_that_the_schema_does_not_name(
    run: Run, endpoint: TinyEndpoint
) -> None:
    listed = {"object": "list", "data": [{"id": "tiny", "max_model_len": 8192, "owned_by": "vllm"}]}
    endpoint.routes["GET /v1/models"] = lambda headers, body: (200, listed)
    given = ["--base-url", endpoint.url, "--model", "tiny", "--yes"]
    left = check("init", run("init", *given, "--json").stdout)
    assert "codex" in left["left_out"]
    assert set(left) <= set(validator("init").schema["properties"])
    both = run("init", *given, "--client", "codex", "--client", "cline", "--json")
    assert check("init", both.stdout)["status"] == "warning"
    assert both.returncode == 0
    alone = run("init", *given, "--client", "codex", "--json")
    assert check("init", alone.stdout)["status"] == "error"
    assert alone.returncode == 1


def test_documents_of_bench(run: Run, endpoint: TinyEndpoint) -> None:
    argv = ["--base-url", endpoint.url, "--model", "tiny", "--concurrency", "1,2", "--requests", "2"]
    assert len(check("bench", run("bench", *argv, "--json").stdout)["results"]) == 2
