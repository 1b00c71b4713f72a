"""Texts fit the terminal that there is, and are left alone where there is none."""

import io
import shlex
from collections.abc import Callable

import pytest

from wizard.problems import Fix, Problem
from wizard.text import display_width, shorten
from wizard.ui.screen import Screen


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def of_columns(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], tuple[Screen, Tty]]:
    def make(columns: int) -> tuple[Screen, Tty]:
        monkeypatch.setenv("COLUMNS", str(columns))
        out = Tty()
        return Screen(out=out, err=out, env={}), out

    return make


LONG = "vLLM keeps a share of the memory for the context, 模型的上下文需要显存, and the rest is for weights and graphs."


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_a_step_fits_with_its_detail_and_time(of_columns: Callable[[int], tuple[Screen, Tty]], columns: int) -> None:
    screen, out = of_columns(columns)
    screen.step("ok", LONG, "and a detail", 1.25)
    lines = out.getvalue().splitlines()
    assert all(display_width(line) <= columns for line in lines)
    assert lines[0].startswith("  \x1b[32m✓\x1b[0m ")
    assert "1.2 s" in " ".join(lines)


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_the_columns_of_a_row_keep_their_width_however_narrow_it_is(
    of_columns: Callable[[int], tuple[Screen, Tty]], columns: int
) -> None:
    screen, out = of_columns(columns)
    screen.row("info", "aider   installed  ", LONG)
    lines = out.getvalue().splitlines()
    assert "aider   installed" in lines[0]
    assert all(display_width(line) <= columns for line in lines[columns < 40 :])
    assert lines[1].startswith(" " * min(23, columns // 2))


def test_a_problem_fits_and_its_commands_can_be_copied(of_columns: Callable[[int], tuple[Screen, Tty]]) -> None:
    screen, out = of_columns(40)
    command = "llm-setup clients apply codex --base-url http://127.0.0.1:8000/v1 --model m"
    screen.problem(Problem("some-code", LONG, LONG, (LONG,), Fix(LONG, (command,))))
    lines = out.getvalue().splitlines()
    assert all(display_width(line) <= 40 for line in lines)
    _, _, copied = out.getvalue().partition("       $ ")
    assert shlex.split(copied.replace("\\\n", "")) == command.split()


def test_read_aloud_a_command_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    command = "llm-setup clients apply codex --base-url http://127.0.0.1:8000/v1 --model m"
    assert Screen(plain=True, out=Tty(), err=Tty(), env={}).command(command, "$ ") == [f"$ {command}"]


def test_a_word_that_is_longer_than_a_line_stays_whole(of_columns: Callable[[int], tuple[Screen, Tty]]) -> None:
    screen, _ = of_columns(20)
    path = "/a/very/long/path/that/is/copied"
    assert any(path in line for line in screen.fit(f"see {path} for more", "- ", "  "))


def test_where_no_terminal_is_a_line_is_a_line() -> None:
    out = io.StringIO()
    Screen(out=out, err=out, env={}).step("ok", LONG)
    assert out.getvalue().count("\n") == 1


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("模型名称", 5, "模型…"), ("模型名称", 8, "模型名称"), ("a b c", 3, "a…")],
)
def test_a_text_is_shortened_to_its_columns(text: str, width: int, short: str) -> None:
    assert shorten(text, width) == short
    assert display_width(shorten(text, width)) <= width
