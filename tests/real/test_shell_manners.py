"""What a shell's user has besides the command: Tab in fish and zsh themselves, the manual page in groff."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sysconfig.get_path("scripts")

pytestmark = pytest.mark.real


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": f"{SCRIPTS}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "LLM_SETUP_HOME": str(tmp_path / "own"),
    }


def written(shell: str, folder: Path, environment: dict[str, str]) -> Path:
    """The script that `completion` prints."""
    argv = [sys.executable, "-m", "wizard", "completion", shell]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    script = folder / "completion"
    script.write_text(done.stdout)
    return script


def test_fish_completes_with_descriptions(
    tmp_path: Path, environment: dict[str, str], find_shell: Callable[[str], Path]
) -> None:
    script = written("fish", tmp_path, environment)
    argv = [str(find_shell("fish")), "--no-config", "-c", f"source {script}; complete -C 'llm-setup sta'"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\t")[0].strip() == "status", done.stdout + done.stderr
    assert "Servers" in done.stdout


def test_zsh_completes_the_line(tmp_path: Path, environment: dict[str, str], find_shell: Callable[[str], Path]) -> None:
    script = written("zsh", tmp_path, environment)
    child = pexpect.spawn(
        str(find_shell("zsh")), ["-f"], env={**environment, "TERM": "xterm"}, encoding="utf-8", timeout=30
    )
    try:
        child.sendline("PS1=''; unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -D; echo read''y")
        child.expect("ready")
        child.sendline(f"source {script}; echo sourc''ed")
        child.expect("sourced")
        child.send("llm-setup hard\t")
        child.expect("llm-setup hardware")
    finally:
        child.close(force=True)


def test_the_manual_page_has_no_warning(find_program: Callable[[str, str], Path]) -> None:
    page = ROOT / "docs" / "man" / "llm-setup.1"
    assert page.read_text(encoding="utf-8").startswith(".TH LLM-SETUP 1 ")
    argv = [str(find_program("groff", "groff-base")), "-man", "-ww", "-z", "-Kutf8", str(page)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
