"""Whether a server says the same."""

from __future__ import annotations

import pytest

from wizard.tuning.answers import (
    QUESTIONS,
    Answer,
    compare_answer,
    differing,
    parse_answer,
    parse_answers,
    render_answers,
    steady,
)

SURE = (9.0, 9.0, 9.0)


@pytest.mark.parametrize(
    ("other", "leads", "verdict"),
    [
        pytest.param(("a", "b", "c"), SURE, "same", id="token by token"),
        pytest.param(("a", "x", "c"), SURE, "different", id="another token where it was sure"),
        pytest.param(("a", "x", "y"), (9.0, 0.1, 9.0), "tie", id="another token where two were equally likely"),
        pytest.param(("a", "b"), SURE, "different", id="ended early"),
        pytest.param(("a", "b"), (9.0, 9.0, 0.2), "tie", id="ended early where that was as likely"),
        pytest.param(("a", "x", "c"), (9.0, 0.6, 9.0), "different", id="another token where it was sure enough"),
        pytest.param(("a", "x", "c"), (), "different", id="nothing is known of likelihoods"),
    ],
)
def test_a_difference_counts_where_the_reference_was_sure(
    other: tuple[str, ...], leads: tuple[float, ...], verdict: str
) -> None:
    assert compare_answer(Answer(("a", "b", "c"), leads), Answer(other, SURE[: len(other)])) == verdict


def test_one_that_goes_on_is_a_tie_where_it_was_not_sure_of_going_on() -> None:
    reference = Answer(("a", "b"), (9.0, 9.0))
    assert compare_answer(reference, Answer(("a", "b", "c"), (9.0, 9.0, 0.2))) == "tie"
    assert compare_answer(reference, Answer(("a", "b", "c"), SURE)) == "different"


def test_what_a_server_says_differently_itself_judges_nobody() -> None:
    first = (Answer(("a",), (9.0,)), Answer(("b",), (9.0,)), None, Answer(("d",), (9.0,)))
    again = (Answer(("a",), (9.0,)), Answer(("x",), (9.0,)), Answer(("c",), ()), None)
    assert steady(first, again) == (first[0], None, None, None)


def test_the_questions_that_differ_are_named() -> None:
    reference = (Answer(("a",), (9.0,)), Answer(("b",), (9.0,)), None, None)
    others = (Answer(("a",), (9.0,)), Answer(("x",), (9.0,)), Answer(("c",), ()), None)
    assert differing(reference, others) == (QUESTIONS[1],)
    assert differing((None,) * 4, others) is None


def test_log_probabilities_are_read() -> None:
    tops = [{"token": "a", "logprob": -0.1}, {"token": "b", "logprob": -2.6}]
    entry = {"token": "a", "logprob": -0.1, "top_logprobs": tops}
    document = {"choices": [{"message": {"content": "a"}, "logprobs": {"content": [entry]}}]}
    assert parse_answer(document) == Answer(("a",), (2.5,))


def test_without_them_the_text_counts() -> None:
    assert parse_answer({"choices": [{"message": {"content": "hi"}, "logprobs": None}]}) == Answer(("hi",))


@pytest.mark.parametrize("document", [None, {}, {"choices": []}, {"error": "x"}, {"choices": [{"message": {}}]}])
def test_what_is_no_answer_is_none(document: object) -> None:
    assert parse_answer(document) is None


def test_a_reference_survives_its_file() -> None:
    reference = (Answer(("a", "b"), (1.5, 0.25)), None)
    assert parse_answers(render_answers(reference)) == reference
    assert parse_answers("?") is None
