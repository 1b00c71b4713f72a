"""Text in columns: a Chinese character is two columns wide, a combining mark none.

Widths by Unicode's East Asian Width (UAX 11), as terminals draw it; what is ambiguous there counts as one column.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# What a line may not begin with (closing) in Chinese, so that it stays with the word before.
_CLOSING = frozenset("，。、；：！？）》〉」』】〕”’…%,.;:!?)]}")
_OPENING = frozenset("（《〈「『【〔“‘([{")


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# A word as a shell takes it: blanks inside quotes, or behind a backslash, are part of it.
_SHELL_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")


def display_width(text: str) -> int:
    """The columns that a text takes on a terminal; colours take none."""
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def pad(text: str, width: int) -> str:
    """The text with blanks behind it, up to `width` columns."""
    return text + " " * (width - display_width(text))


def pad_left(text: str, width: int) -> str:
    """The text with blanks before it, up to `width` columns."""
    return " " * (width - display_width(text)) + text


def shorten(text: str, width: int) -> str:
    """The text in at most `width` columns, its end replaced by `…` where it is longer."""
    if display_width(text) <= width:
        return text
    kept, used = "", 0
    for character in text:
        used += _width(character)
        if used > width - 1:
            break
        kept += character
    return kept.rstrip() + "…"


def wrap(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    """Lines of at most `width` columns, each begun with `first` or `others`; broken also between Chinese characters.

    A `first` that leaves no room for a word is a line of its own. A short command in backticks stays on one line, to be
    copied.
    """
    lines: list[str] = []
    line, empty = first, True
    for blank, word in _words(text, width // 2):
        over = display_width(first + word) > width >= display_width(others + word)
        if over and empty and not lines and first.strip():
            lines.append(first.rstrip())
            line = others
        gap = " " if blank and not empty else ""
        if not empty and display_width(line) + len(gap) + display_width(word) > width:
            lines.append(line)
            line, gap = others, ""
        line += gap + word
        empty = False
    return [*lines, line] if not empty else lines


def _words(text: str, longest: int) -> Iterator[tuple[bool, str]]:
    """The pieces between which a line may break, each with whether a blank stood before it. What stands in backticks is
    one piece, where it has no more than `longest` characters."""

    def closed(pair: re.Match[str]) -> str:
        """Without blanks where it is short. Long ones are found too: else their end would pair with the next begin."""
        return pair[0] if len(pair[0]) > longest + 2 else re.sub(r"\s", "_", pair[0])

    for found in re.finditer(r"(\s*)(\S+)", re.sub(r"`[^`\n]+`", closed, text)):
        blank = bool(found[1])
        piece = ""
        for character in text[slice(*found.span(2))]:
            wide = _width(character) == 2
            breaks = piece and (wide or _width(piece[-1]) == 2)
            if breaks and character not in _CLOSING and piece[-1] not in _OPENING:
                yield blank, piece
                piece, blank = "", False
            piece += character
        yield blank, piece


def wrap_command(command: str, width: int, first: str, others: str) -> list[str]:
    """A command of a POSIX shell in lines of at most `width` columns, so that all of them copied are the command.

    Broken at blanks outside of quotes, with a backslash at each end. One that has line ends or a comment is left alone,
    and so is a word that is longer than a line.
    """
    words = _SHELL_WORD.findall(command)
    if display_width(first + command) <= width or "\n" in command or " #" in command or " ".join(words) != command:
        return [first + command]
    lines: list[str] = []
    line, empty = first, True
    for at, word in enumerate(words):
        end = 0 if at == len(words) - 1 else 2
        if not empty and display_width(line) + 1 + display_width(word) + end > width:
            lines.append(line + " \\")
            line, empty = others, True
        line += word if empty else " " + word
        empty = False
    return [*lines, line]


def three_figures(value: float | None) -> str:
    """As many digits as mean something: 0.42, 7.31, 42.1, 1,234; a dash where there is nothing."""
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:,.0f}"
