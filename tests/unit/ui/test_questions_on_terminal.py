"""Questions on a terminal with symbols: what each key does, sent through a pipe."""

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.plain_text import PlainTextOutput

from wizard.ui.questions import BackRequested, Choice, Questions
from wizard.ui.screen import Screen

ROWS = [Choice("a", "Apple"), Choice("b", "Pear"), Choice("c", "Cherry")]
MANY = [Choice(f"v{n}", f"Model {n}") for n in range(1, 40)]


class TerminalText(io.StringIO):
    encoding = "utf-8"


@pytest.fixture
def pressing() -> Iterator[Callable[[str], tuple[Questions, Callable[[], str]]]]:
    """`pressing("\\r")`: questions to somebody who presses these keys, and what was drawn."""
    out = TerminalText()
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=PlainTextOutput(out)):

        def begin(keys: str) -> tuple[Questions, Callable[[], str]]:
            pipe.send_text(keys)
            screen = Screen(out=out, err=out, env={})
            assert screen.symbols
            return Questions(screen, yes=False, may_ask=True), out.getvalue

        yield begin


def test_escape_where_there_is_no_way_back_leaves_enter_its_meaning(pressing: Any) -> None:
    assert pressing("\x1b\r")[0].choose("--x", "Which?", ROWS, "c") == "c"
    assert pressing("\x1b\r")[0].several("--x", "Which?", ROWS, ("a",)) == ("a",)
    assert pressing("\x1b\r")[0].confirm("--yes", "Sure?", recommended=False) is False
    assert pressing("ab\x1b\r")[0].text("--x", "Word?") == "ab"


def test_escape_goes_back_where_there_is_a_way(pressing: Any) -> None:
    with pytest.raises(BackRequested):
        pressing("\x1b")[0].choose("--x", "Which?", ROWS, "c", may_go_back=True)


def test_enter_takes_nothing_where_no_row_has_the_word(pressing: Any) -> None:
    questions, _ = pressing("zzz\r\x7f\x7f\x7f17\r")
    assert questions.choose("--x", "Which?", MANY, "v1") == "v17"


def test_that_no_row_has_the_word_is_said(pressing: Any) -> None:
    # It is drawn while a key after Esc is waited for.
    questions, drawn = pressing("zzz\x1b")
    with pytest.raises(BackRequested):
        questions.choose("--x", "Which?", MANY, "v1", may_go_back=True)
    assert "Nothing has `zzz` in its name" in drawn()


def test_a_part_of_the_name_finds_a_row(pressing: Any) -> None:
    assert pressing("del 23\r")[0].choose("--x", "Which?", MANY, "v1") == "v23"


def test_a_row_that_cannot_be_taken_is_not_found_by_its_name_either(pressing: Any) -> None:
    rows = [*MANY, Choice("no", "Pear", "not ripe")]
    questions, _ = pressing("pear\r\x7f\x7f\x7f\x7f17\r")
    assert questions.choose("--x", "Which?", rows, "v1") == "v17"


@pytest.mark.parametrize(
    ("keys", "said"),
    [("\r", True), ("y\r", True), ("No\r", False), ("maybe\r\x7f\x7f\x7f\x7f\x7fn\r", False), ("yn\r\x7f\r", True)],
)
def test_yes_and_no_are_lines_and_nothing_else_is_taken_for_one(pressing: Any, keys: str, said: bool) -> None:
    assert pressing(keys)[0].confirm("--yes", "Sure?") is said
