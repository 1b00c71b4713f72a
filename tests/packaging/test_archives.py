"""The archives are the same whoever builds them, and install with the tools that people use."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from .conftest import ROOT, Built


def run(argv: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_two_builds_are_equal_to_the_byte(built: Built, built_elsewhere: Built) -> None:
    assert built.wheel.name == built_elsewhere.wheel.name
    assert built.wheel.read_bytes() == built_elsewhere.wheel.read_bytes()
    assert built.sdist.read_bytes() == built_elsewhere.sdist.read_bytes()


def test_the_source_archive_holds_what_a_check_needs(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "mkdocs.yml", "README.md", "README.zh.md", "CHANGELOG.md", "LICENSE", "scripts/check"}
    wanted |= {"docs/README.md", "templates/codex/client.toml", "wizard/cli/main.py", "tests/packaging/conftest.py"}
    assert wanted <= names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


@pytest.mark.timeout(600)
def test_pipx_installs_the_command_and_its_manual(wheel: Path, tool_environment: dict[str, str]) -> None:
    run([sys.executable, "-m", "pipx", "install", "--python", sys.executable, str(wheel)], tool_environment)
    command = Path(tool_environment["PIPX_BIN_DIR"]) / "llm-setup"
    assert run([str(command), "--version"], tool_environment).stdout.startswith("llm-setup, version ")
    assert (Path(tool_environment["PIPX_MAN_DIR"]) / "man1" / "llm-setup.1").exists()
    # Which tool installed it is what an upgrade needs to know.
    said = json.loads(run([str(command), "version", "--json"], tool_environment).stdout)
    assert "/pipx/venvs/" in said["environment"]
    run([sys.executable, "-m", "pipx", "uninstall", "llm-setup"], tool_environment)
    assert not command.exists()


@pytest.mark.timeout(600)
def test_uv_installs_the_command(wheel: Path, tool_environment: dict[str, str]) -> None:
    uv = [sys.executable, "-m", "uv"]
    run([*uv, "tool", "install", "--python", sys.executable, str(wheel)], tool_environment)
    command = Path(tool_environment["UV_TOOL_BIN_DIR"]) / "llm-setup"
    assert run([str(command), "--version"], tool_environment).stdout.startswith("llm-setup, version ")
    run([*uv, "tool", "uninstall", "llm-setup"], tool_environment)
    assert not command.exists()


@pytest.mark.timeout(600)
def test_uvx_runs_it_without_installing(wheel: Path, tool_environment: dict[str, str]) -> None:
    uvx = [sys.executable, "-m", "uv", "tool", "run", "--python", sys.executable, "--from", str(wheel), "llm-setup"]
    assert run([*uvx, "--version"], tool_environment).stdout.startswith("llm-setup, version ")
    planned = run([*uvx, "plan", "Qwen/Qwen3-8B", "--gpu", "RTX 4090", "--json"], tool_environment)
    assert json.loads(planned.stdout)["fits"] is True


@pytest.mark.timeout(600)
def test_the_list_of_what_it_is_made_of(wheel: Path, tool_environment: dict[str, str], tmp_path: Path) -> None:
    lists = []
    for name in ("one.json", "two.json"):
        uvx = [sys.executable, "-m", "uv", "tool", "run", "--python", sys.executable, "--from", "cyclonedx-bom"]
        script = ["--with", "pip", "python", str(ROOT / "scripts" / "sbom.py"), str(wheel), "-o", str(tmp_path / name)]
        run([*uvx, *script], tool_environment)
        lists.append((tmp_path / name).read_text())
    assert lists[0] == lists[1]
    document = json.loads(lists[0])
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["name"] == "llm-setup"
    assert {"click", "jinja2", "rich"} <= {component["name"].lower() for component in document["components"]}
    assert not {"pytest", "mypy", "vllm"} & {component["name"].lower() for component in document["components"]}
