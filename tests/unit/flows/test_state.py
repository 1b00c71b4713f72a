"""Folders of our own that cannot be made."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wizard.flows.state import check_own_folders
from wizard.problems import ProblemError

# Who may do everything may still make no folder below /proc, nor below a file.
NOWHERE = ("/proc/nowhere", "/dev/null/home", "/proc/self/fd/nowhere/deeper")
ENDPOINT = ("--base-url", "http://127.0.0.1:9", "--model", "m")
COMMANDS = (
    ("init", "--yes", *ENDPOINT, "--client", "codex"),
    ("serve", "--detach"),
    ("clients", "apply", "codex", "--yes", "--offline", *ENDPOINT),
    ("profiles", "add", "one", "--offline", *ENDPOINT),
)


@pytest.mark.parametrize("place", NOWHERE)
def test_a_folder_that_cannot_be_made_is_one_problem_whatever_the_system_says(place: str) -> None:
    with pytest.raises(ProblemError) as raised:
        check_own_folders(Path(place) / "state")
    assert raised.value.problem.code == "not-writable"


def test_a_file_in_place_of_the_folder_is_the_same_problem(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(ProblemError) as raised:
        check_own_folders(tmp_path / "state")
    assert raised.value.problem.code == "not-writable"


def test_a_folder_that_could_be_made_is_not_made_for_that(tmp_path: Path) -> None:
    check_own_folders(tmp_path / "own" / "state")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_command_says_it_before_it_asks_anybody_anything(command: tuple[str, ...], tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LLM_SETUP_HOME": "/proc/nowhere", "LANG": "C.UTF-8"}
    ended = subprocess.run(
        [sys.executable, "-m", "wizard", *command, "--json"], env=env, cwd=tmp_path, capture_output=True, timeout=60
    )
    problems = json.loads(ended.stdout)["problems"]
    assert (ended.returncode, problems[0]["code"]) == (1, "not-writable"), ended.stderr.decode()
