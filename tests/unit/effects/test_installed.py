"""Versions of installed clients, from what their installers left; nothing is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wizard.effects.installed import installed_version, library_version


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def package(prefix: Path, name: str, version: str, entry: str = "") -> None:
    info = prefix / f"lib/python3.12/site-packages/{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    if entry:
        (info / "entry_points.txt").write_text(f"[console_scripts]\n{entry}\n")


def path_of(*folders: Path) -> dict[str, str]:
    return {"PATH": ":".join(map(str, folders))}


def test_a_program_of_a_virtual_environment_has_its_package_s_version(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    executable(venv / "bin/aider", f"#!{venv}/bin/python\n")
    package(venv, "litellm", "1.81.10", "litellm = litellm:run")
    package(venv, "aider_chat", "0.86.2", "aider = aider.main:main")
    assert installed_version("aider", path_of(venv / "bin")) == "0.86.2"


def test_a_link_to_a_tool_s_own_environment_is_followed(tmp_path: Path) -> None:
    tool, bin_folder = tmp_path / "tools/llm", tmp_path / "bin"
    executable(tool / "bin/llm")
    package(tool, "llm", "0.36", "llm = llm.cli:cli")
    bin_folder.mkdir()
    (bin_folder / "llm").symlink_to(tool / "bin/llm")
    assert installed_version("llm", path_of(bin_folder)) == "0.36"


def test_a_copied_launcher_is_found_by_its_first_line(tmp_path: Path) -> None:
    venv, bin_folder = tmp_path / "venv", tmp_path / "bin"
    executable(bin_folder / "llm", f"#!{venv}/bin/python3\n")
    package(venv, "llm", "0.12", "llm = llm.cli:cli")
    assert installed_version("llm", path_of(bin_folder)) == "0.12"


def test_an_npm_program_has_the_version_of_its_package(tmp_path: Path) -> None:
    folder = tmp_path / "node_modules/@openai/codex"
    executable(folder / "bin/codex.js")
    (folder / "package.json").write_text(json.dumps({"version": "0.171.0", "bin": {"codex": "bin/codex.js"}}))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/codex").symlink_to(folder / "bin/codex.js")
    assert installed_version("codex", path_of(tmp_path / "bin")) == "0.171.0"


def test_a_program_of_unknown_origin_has_no_version(tmp_path: Path) -> None:
    executable(tmp_path / "bin/llm", "\x7fELF")
    package(tmp_path, "llm_gguf", "0.1", "llm-gguf = x:y")
    assert installed_version("llm", path_of(tmp_path / "bin")) is None
    assert installed_version("nothing", path_of(tmp_path / "bin")) is None


@pytest.mark.parametrize("where", ["active", "project", "on the PATH"])
def test_a_library_is_looked_for_where_a_program_here_imports_it_from(where: str, tmp_path: Path) -> None:
    venv = tmp_path / (".venv" if where == "project" else "venv")
    executable(venv / "bin/python3")
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    package(venv, "openai", "1.2.4")
    package(venv, "openai_agents", "9.9")
    env = {"active": {"PATH": "", "VIRTUAL_ENV": str(venv)}, "on the PATH": path_of(venv / "bin")}.get(
        where, {"PATH": ""}
    )
    assert library_version("openai", env, tmp_path) == "1.2.4"
    assert library_version("anthropic", env, tmp_path) is None


@pytest.mark.parametrize(
    "place", ["homebrew/Cellar/codex/0.171.0/bin/codex", "share/codex/versions/0.171.0"], ids=["homebrew", "installer"]
)
def test_a_program_without_a_package_has_the_version_of_its_folder(place: str, tmp_path: Path) -> None:
    executable(tmp_path / place)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/codex").symlink_to(tmp_path / place)
    assert installed_version("codex", path_of(tmp_path / "bin")) == "0.171.0"
    executable(tmp_path / "plain/codex")
    assert installed_version("codex", path_of(tmp_path / "plain")) is None


@pytest.mark.parametrize("place", ["opt/nodejs/20.11.1/bin/cline", "pyenv/versions/3.12.1/bin/cline"])
def test_the_version_of_what_a_program_runs_on_is_not_its_own(place: str, tmp_path: Path) -> None:
    executable(tmp_path / place)
    assert installed_version("cline", path_of((tmp_path / place).parent)) is None
    executable(tmp_path / "opt/cline/3.1.4/cline")
    assert installed_version("cline", path_of(tmp_path / "opt/cline/3.1.4")) == "3.1.4"
