"""Questions by lines: for screen readers, dumb terminals, and terminals without symbols."""

import io
from collections.abc import Callable
from typing import Any

import pytest

from wizard.problems import ProblemError
from wizard.ui.questions import BackRequested, Choice, Questions
from wizard.ui.screen import Screen

ROWS = [Choice("a", "Apple"), Choice("b", "Pear", "not ripe"), Choice("c", "Cherry")]


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[Questions, Callable[[], str]]]:
    """`asks("1\\n")`: questions to somebody who types these lines, and what was shown."""

    def begin(typed: str) -> tuple[Questions, Callable[[], str]]:
        out = io.StringIO()
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        screen = Screen(plain=True, out=out, err=out, env={})
        return Questions(screen, yes=False, may_ask=True), out.getvalue

    return begin


def test_enter_takes_the_recommended_answer(asks: Any) -> None:
    questions, shown = asks("\n")
    assert questions.choose("--x", "Which?", ROWS, "c") == "c"
    assert "  1. Apple\n  2. Pear, not possible: not ripe\n  3. Cherry\n" in shown()
    assert "Enter for 3" in shown()


@pytest.mark.parametrize("wrong", ["2", "0", "4", "-1", "x", "１２"])
def test_what_cannot_be_taken_is_asked_again(asks: Any, wrong: str) -> None:
    questions, shown = asks(f"{wrong}\n1\n")
    assert questions.choose("--x", "Which?", ROWS, "c") == "a"
    assert "A number from 1 to 3" in shown()


def test_of_many_rows_a_part_of_the_name_is_enough(asks: Any) -> None:
    many = [Choice(f"v{n}", f"Model {n}") for n in range(1, 40)]
    questions, shown = asks("model 3\n2\n")
    assert questions.choose("--x", "Which?", many, "v1") == "v30"
    assert "  2. Model 30\n" in shown()


@pytest.mark.parametrize("typed", ["4\n", "<\n", "back\n", "B\n"])
def test_back_is_the_last_row_or_a_sign(asks: Any, typed: str) -> None:
    questions, _ = asks(typed)
    with pytest.raises(BackRequested):
        questions.choose("--x", "Which?", ROWS, "c", may_go_back=True)


def test_the_sign_for_back_is_no_answer_where_there_is_no_way_back(asks: Any) -> None:
    questions, _ = asks("<\n1\n")
    assert questions.choose("--x", "Which?", ROWS, "c") == "a"


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [("\n", ("a", "c")), ("3\n", ("c",)), ("1，3\n", ("a", "c")), ("0\n", ()), ("9\n3\n", ("c",)), ("2, 3\n", ("c",))],
)
def test_several_are_numbers_with_commas(asks: Any, typed: str, chosen: tuple[str, ...]) -> None:
    questions, _ = asks(typed)
    assert questions.several("--x", "Which?", ROWS, ("a", "c")) == chosen


def test_a_line_is_asked_for_until_it_is_right(asks: Any) -> None:
    questions, shown = asks("no\nyes\n")
    assert questions.text("--x", "Word?", check=lambda line: "" if line == "yes" else "Say yes.") == "yes"
    assert "Say yes." in shown()


def test_that_back_is_typed_is_said_in_words(asks: Any) -> None:
    questions, shown = asks("<\n")
    with pytest.raises(BackRequested):
        questions.text("--x", "Base URL", may_go_back=True)
    assert "Base URL (type < to go back):\n" in shown()


def test_a_question_mark_is_answered_with_what_to_type(asks: Any) -> None:
    asking: tuple[Callable[[Questions], Any], ...] = (
        lambda questions: questions.choose("--x", "Which?", ROWS, "a"),
        lambda questions: questions.several("--x", "Which?", ROWS, ("a",)),
        lambda questions: questions.text("--x", "Word?", "a"),
    )
    for ask in asking:
        questions, shown = asks("?\n\n")
        assert ask(questions) in ("a", ("a",))
        assert "Ctrl-C leaves." in shown()


def test_yes_and_no_are_rows(asks: Any) -> None:
    assert asks("\n")[0].confirm("--yes", "Sure?") is True
    assert asks("2\n")[0].confirm("--yes", "Sure?") is False
    assert asks("\n")[0].confirm("--yes", "Sure?", recommended=False) is False
    with pytest.raises(BackRequested):
        asks("3\n")[0].confirm("--yes", "Sure?", may_go_back=True)


def test_the_end_of_input_leaves(asks: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        asks("")[0].choose("--x", "Which?", ROWS, "c")


def test_with_yes_nothing_is_asked() -> None:
    screen = Screen(plain=True, out=io.StringIO(), err=io.StringIO(), env={})
    questions = Questions(screen, yes=True, may_ask=True)
    assert questions.choose("--x", "Which?", ROWS, "c", may_go_back=True) == "c"
    assert questions.secret("KEY", "Key") == ""
    assert not questions.may_ask


def test_without_anybody_to_ask_the_flag_is_named() -> None:
    screen = Screen(plain=True, out=io.StringIO(), err=io.StringIO(), env={})
    with pytest.raises(ProblemError) as raised:
        Questions(screen, yes=False, may_ask=False).choose("--x NAME", "Which?", ROWS, "c")
    assert raised.value.problem.fix is not None and "`--x NAME`" in raised.value.problem.fix.text


def test_where_nothing_is_recommended_enter_is_none(asks: Any) -> None:
    questions, shown = asks("\n")
    assert questions.several("--x", "Which?", ROWS, ()) == ()
    assert "Numbers with commas between them, or Enter for none:\n" in shown()
