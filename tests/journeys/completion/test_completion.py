"""Tab completes: in a bash, and by what the other shells ask for; fish and zsh themselves are among the real parts."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import tree_sitter_powershell
from tree_sitter import Language, Parser

SCRIPTS = sysconfig.get_path("scripts")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": f"{SCRIPTS}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "LLM_SETUP_HOME": str(tmp_path / "own"),
    }


@pytest.fixture
def script(tmp_path: Path, environment: dict[str, str]) -> Path:
    return tmp_path / "completion"


def write(script: Path, shell: str, environment: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "wizard", "completion", shell]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    script.write_text(done.stdout)


def test_bash_completes_commands_and_names(script: Path, environment: dict[str, str]) -> None:
    write(script, "bash", environment)
    lines = """
        source "$1"; complete -p llm-setup >/dev/null || exit 1
        ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _llm_setup_completion llm-setup
                printf '%s ' "${COMPREPLY[@]}"; echo; }
        ask llm-setup cli; ask llm-setup clients res; ask llm-setup clients apply cod; ask llm-setup doctor --off
    """
    argv = ["bash", "--norc", "-c", lines, "bash", str(script)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [["clients"], ["restore"], ["codex"], ["--offline"]]


def test_powershell_is_told_to_ask_llm_setup(script: Path, environment: dict[str, str]) -> None:
    write(script, "powershell", environment)
    assert "Register-ArgumentCompleter -Native -CommandName llm-setup" in script.read_text()
    assert not Parser(Language(tree_sitter_powershell.language())).parse(script.read_bytes()).root_node.has_error
    asked = {**environment, "COMP_WORDS": "llm-setup prof", "COMP_CWORD": "1"}
    argv = [f"{SCRIPTS}/llm-setup"]
    done = subprocess.run(
        argv, env={**asked, "_LLM_SETUP_COMPLETE": "powershell_complete"}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines()[:3] == ["plain", "profiles", "Named endpoints."]


def test_tab_on_the_first_word_imports_no_command(environment: dict[str, str]) -> None:
    code = (
        "import sys, atexit\n"
        "ours = ('wizard.cli.', 'wizard.flows')\n"
        "atexit.register(lambda: print(sorted(m for m in sys.modules if m.startswith(ours))))\n"
        "from wizard.cli.main import main\nmain([])"
    )
    asked = {**environment, "COMP_WORDS": "llm-setup ", "COMP_CWORD": "1", "_LLM_SETUP_COMPLETE": "bash_complete"}
    done = subprocess.run([sys.executable, "-c", code], env=asked, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "['wizard.cli.helping', 'wizard.cli.main']"
    assert "plain,init" in done.stdout


def test_names_of_ones_own_profiles_are_completed(environment: dict[str, str]) -> None:
    added = ["profiles", "add", "lab", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--offline"]
    run = [sys.executable, "-m", "wizard"]
    done = subprocess.run([*run, *added], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    asked = {**environment, "COMP_WORDS": "llm-setup use l", "COMP_CWORD": "2", "_LLM_SETUP_COMPLETE": "bash_complete"}
    done = subprocess.run([f"{SCRIPTS}/llm-setup"], env=asked, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["plain,lab"]
