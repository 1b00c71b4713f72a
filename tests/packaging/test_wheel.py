"""The wheel, installed into a clean environment, is whole: command, templates, catalogue."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("with blank ü") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=120)
    subprocess.run([str(venv / "bin" / "pip"), "install", "-q", str(wheel)], check=True, timeout=600)
    return venv / "bin"


def run(installed: Path, home: Path, *argv: str, key: str = "") -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "LLM_SETUP_API_KEY": key}
    command = [str(installed / "python"), "-m", "wizard", *argv]
    return subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, timeout=60)


@pytest.mark.timeout(900)
def test_the_command_says_its_version(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run([str(installed / "llm-setup"), "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("llm-setup, version ")


@pytest.mark.timeout(900)
def test_templates_are_rendered_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    listed = json.loads(run(installed, tmp_path, "clients", "list", "--json").stdout)
    folders = {f.parent.name for f in (ROOT / "templates").glob("*/client.toml")}
    assert {client["client"] for client in listed["clients"]} == folders
    argv = ["clients", "apply", "codex", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--yes"]
    done = run(installed, tmp_path, *argv, key="sk-packaging-0000000000")
    assert done.returncode == 0, done.stderr
    assert 'model = "m"' in (tmp_path / ".codex" / "config.toml").read_text()


@pytest.mark.timeout(900)
def test_a_plan_is_made_from_the_wheels_catalogue(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "plan", "Qwen/Qwen3-8B", "--gpu", "RTX 4090", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fits"] is True


@pytest.mark.timeout(900)
def test_the_messages_of_other_languages_come_with_the_wheel(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "status", "--lang", "zh_CN")
    assert done.returncode == 0, done.stderr
    assert "服务器" in done.stdout


def test_nothing_but_the_package_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"wizard"}


@pytest.mark.timeout(900)
def test_the_manual_page_is_where_man_looks(installed: Path) -> None:
    page = installed.parent / "share" / "man" / "man1" / "llm-setup.1"
    assert page.read_bytes() == (ROOT / "docs" / "man" / "llm-setup.1").read_bytes()
    assert ".SS " in page.read_text()
