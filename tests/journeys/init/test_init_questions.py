"""The questions, answered on a pseudo-terminal."""

from pathlib import Path
from typing import Any

DOWN, SPACE, ENTER = "\x1b[B", " ", "\r"


def test_questions_lead_to_written_files(on_terminal: Any, endpoint: Any, home: Path) -> None:
    child = on_terminal("init", "--base-url", endpoint.url, "--model", "tiny")
    child.expect("Which clients should use it")
    child.send(ENTER)
    child.expect("Write these files")
    child.send("y")
    child.expect("What now")
    child.wait()
    assert child.exitstatus == 0
    assert (home / ".codex/config.toml").exists()


def test_no_leaves_every_file_as_it_was(on_terminal: Any, endpoint: Any, home: Path) -> None:
    child = on_terminal("init", "--base-url", endpoint.url, "--model", "tiny", "--client", "codex")
    child.expect("Write these files")
    child.send("n")
    child.expect("What now")
    child.wait()
    assert not (home / ".codex").exists()


def test_ctrl_c_at_a_question_leaves_nothing(on_terminal: Any, home: Path) -> None:
    child = on_terminal("init")
    child.expect("Which clients should use it")
    child.sendcontrol("c")
    child.wait()
    assert child.exitstatus == 130
    assert list(home.iterdir()) == []
