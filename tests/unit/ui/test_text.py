"""Columns: Chinese characters are two wide."""

import shlex

import pytest

from wizard.cli.words import wrap_text
from wizard.text import display_width, pad, pad_left, wrap, wrap_command


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("plain", 5),
        ("模型", 4),
        ("模型 A", 6),
        ("（`x`）", 7),
        ("e\N{COMBINING ACUTE ACCENT}", 1),
        ("é ✓ · …", 7),
        ("a\N{ZERO WIDTH SPACE}b", 2),
        ("\N{FULLWIDTH LATIN CAPITAL LETTER A}", 2),
    ],
)
def test_the_width_is_what_a_terminal_shows(text: str, width: int) -> None:
    assert display_width(text) == width


def test_columns_line_up() -> None:
    labels = ("GPU", "显存", "vLLM 构建版")
    assert [pad(label, 12) + "|" for label in labels] == ["GPU         |", "显存        |", "vLLM 构建版 |"]
    assert [pad_left(label, 12) for label in labels] == ["         GPU", "        显存", " vLLM 构建版"]
    assert pad("too long for it", 4) == "too long for it"


def test_words_are_wrapped_at_blanks() -> None:
    assert wrap("one two  three\nfour", 9) == ["one two", "three", "four"]
    assert wrap("one two", 9, "- ", "  ") == ["- one two"]
    assert wrap("one two three", 9, "- ", "  ") == ["- one two", "  three"]
    assert wrap("", 9) == []


def test_chinese_is_wrapped_between_characters() -> None:
    assert wrap("启动服务器", 6) == ["启动服", "务器"]


def test_a_line_begins_with_no_closing_mark_and_ends_with_no_opening_one() -> None:
    assert wrap("启动服务器。", 10) == ["启动服务", "器。"]
    assert wrap("启动（服务）", 6) == ["启动", "（服", "务）"]


def test_a_word_in_chinese_text_stays_whole() -> None:
    assert wrap("用`llm-setup doctor`诊断", 14) == ["用`llm-setup", "doctor`诊断"]


def test_a_word_that_is_longer_than_the_line_is_not_cut() -> None:
    assert wrap("a http://127.0.0.1:8000/v1 b", 10) == ["a", "http://127.0.0.1:8000/v1", "b"]


@pytest.mark.parametrize("width", [0, 1])
def test_a_terminal_without_width_gets_a_word_a_line(width: int) -> None:
    assert wrap("a `b c` d", width) == ["a", "`b", "c`", "d"]


def test_paragraphs_of_help_are_kept_and_line_ends_in_chinese_are_no_blanks() -> None:
    assert wrap_text("一二\n三\n\nfour\nfive", 20, "  ", "  ", preserve_paragraphs=True) == "  一二三\n\n  four five"


COMMAND = "llm-setup clients apply codex --base-url 'http://127.0.0.1:8000/a b/v1' --model Qwen/Qwen3-8B --scope user"


@pytest.mark.parametrize("width", [50, 60, 80])
def test_the_lines_of_a_long_command_copied_are_the_command(width: int) -> None:
    lines = wrap_command(COMMAND, width, "       $ ", " " * 11)
    assert len(lines) > 1
    assert all(display_width(line) <= width for line in lines)
    copied = "\n".join(lines).removeprefix("       $ ")
    # A shell reads a backslash at a line's end as nothing.
    assert shlex.split(copied.replace("\\\n", "")) == shlex.split(COMMAND)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("llm-setup doctor", id="short"),
        pytest.param("cat <<'EOF' > file\n" + "x" * 50 + "\nEOF", id="several-lines"),
        pytest.param("llm-setup serve --model Qwen/Qwen3-8B # the one that was there before", id="comment"),
        pytest.param("echo 'a quote that is not closed, of more than forty columns", id="open-quote"),
        pytest.param("x" * 60, id="one-long-word"),
    ],
)
def test_what_cannot_be_broken_stays_as_it_is(command: str) -> None:
    assert wrap_command(command, 40, "$ ", "    ") == [f"$ {command}"]


@pytest.mark.parametrize(
    "text", ["Then run `llm-setup init` again, and see.", "然后再运行一次 `llm-setup init`，再看。"]
)
@pytest.mark.parametrize("width", range(28, 45))
def test_a_short_command_in_a_text_is_on_one_line(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert any("`llm-setup init`" in line for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_long_command_in_a_text_does_not_glue_what_follows_it() -> None:
    text = "Run `llm-setup serve qwen3-8b --port 8000` or then `llm-setup init` now."
    assert wrap(text, 32) == ["Run `llm-setup serve qwen3-8b", "--port 8000` or then", "`llm-setup init` now."]


def test_a_head_that_leaves_no_room_is_a_line_of_its_own() -> None:
    assert wrap("a reason", 20, "  --a-long-flag 12345  ", "    ") == ["  --a-long-flag 12345", "    a reason"]
    assert wrap("值的原因", 12, "  [bar-bar] ", "  ") == ["  [bar-bar]", "  值的原因"]
    # A word that fits nowhere is no reason for an empty line.
    assert wrap("/a/very/long/path/indeed", 20, "  ok ", "    ") == ["  ok /a/very/long/path/indeed"]
