"""A key never shows itself, and never survives redaction."""

import logging

import pytest

from wizard.effects.log import RedactingFormatter, close_log, open_log
from wizard.secret import Secret, redact


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        pytest.param("sk-proj-0123456789abcdef", "sk-…cdef", id="prefix-and-last-four"),
        pytest.param("0123456789abcdef", "…cdef", id="no-prefix"),
        pytest.param("short", "…", id="a-short-key-shows-nothing"),
        pytest.param("", "none", id="empty"),
    ],
)
def test_a_hint_is_enough_to_recognise_and_too_little_to_use(value: str, hint: str) -> None:
    assert Secret(value).hint == hint
    assert str(Secret(value)) == hint
    assert value == "" or value not in repr(Secret(value))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Authorization: Bearer zz-very-private-1", id="bearer"),
        pytest.param("x-api-key: zz-very-private-1", id="x-api-key"),
        pytest.param('{"OPENAI_API_KEY": "zz-very-private-1"}', id="json"),
        pytest.param("export TAOTOKEN_API_KEY=zz-very-private-1", id="shell"),
        pytest.param("refresh_token = 'zz-very-private-1'", id="oauth"),
    ],
)
def test_redaction_finds_keys_by_where_they_stand(text: str) -> None:
    assert "very-private" not in redact(text)


def test_redaction_finds_a_registered_key_of_any_shape() -> None:
    key = Secret("a strange key with blanks")
    assert key.reveal() not in redact(f"the server echoed {key.reveal()}!")


def test_redaction_leaves_ordinary_text_alone() -> None:
    text = "GET http://127.0.0.1:8000/v1/models 401 {'error': 'Unauthorized'} --max-model-len 65536 key: none"
    assert redact(text) == text


def test_an_exception_in_the_log_has_no_key() -> None:
    key = Secret("sk-planted-000000000001")
    try:
        raise ValueError(f"header {key.reveal()}")
    except ValueError as error:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), (type(error), error, error.__traceback__))
    assert key.reveal() not in RedactingFormatter("%(message)s").format(record)


def test_opening_the_log_makes_no_file_until_a_line_is_written(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = open_log(tmp_path / "logs")
    assert not path.parent.exists()
    logging.getLogger("llm-setup").info("first line")
    assert path.read_text().endswith("first line\n")
    assert path.stat().st_mode & 0o077 == 0
    close_log()
