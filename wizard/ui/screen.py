"""What the user sees: lines for people, or one JSON document for programs.

With `--json`, stdout carries the document and nothing else; all that is for people goes to stderr. Nothing that is
printed may contain a key: every line passes through `redact`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, Literal

from wizard.i18n import t
from wizard.problems import Problem
from wizard.secret import redact
from wizard.text import display_width, wrap, wrap_command

Mark = Literal["ok", "failed", "skipped", "running", "info", "warning"]

_MARKS: dict[Mark, tuple[str, str, str]] = {
    # mark: (symbol, plain word, ANSI colour)
    "ok": ("✓", "ok", "32"),
    "failed": ("✗", "failed", "31"),
    "skipped": ("-", "skipped", "2"),
    "running": ("…", "...", "36"),
    "info": ("·", "info", "36"),
    "warning": ("!", "warning", "33"),
}
_SEVERITY_COLOUR = {"error": "31", "warning": "33", "info": "36"}
# The words of both tables, as the catalogues have them.
_WORDS = ("ok", "failed", "skipped", "...", "info", "warning", "error")


# Line ends and tabs are layout; the rest of C0, DEL and C1 steers a terminal. Our own colours are let through where
# colours are shown.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROL_BUT_COLOUR = re.compile(r"(?!\x1b\[[0-9;]*m)[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Screen:
    """Prints. `plain`: no colour, no symbols that need sight (screen readers); chosen where stdout is no terminal."""

    def __init__(
        self,
        *,
        as_json: bool = False,
        plain: bool = False,
        out: IO[str] | None = None,
        err: IO[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.as_json = as_json
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        environment = os.environ if env is None else env
        people = self._people
        self.interactive = people.isatty()
        self.plain = plain
        self.colour = (
            self.interactive and not plain and "NO_COLOR" not in environment and environment.get("TERM") != "dumb"
        )
        self.symbols = not plain and (getattr(people, "encoding", "") or "").lower().replace("-", "") in (
            "utf8",
            "utf16",
        )

    @property
    def _people(self) -> IO[str]:
        return self._err if self.as_json else self._out

    @property
    def people(self) -> IO[str]:
        """The stream for people (for a rich Console): stdout, or stderr with `--json`."""
        return self._people

    @property
    def columns(self) -> int:
        """Width of the terminal in columns; 80 where there is none."""
        import shutil

        return shutil.get_terminal_size((80, 24)).columns

    def paint(self, text: str, code: str) -> str:
        """The text in an ANSI colour, where colours are shown."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text

    def line(self, text: str = "") -> None:
        """One line for people."""
        print(self._safe(text), file=self._people, flush=True)

    def _safe(self, text: str) -> str:
        """Without keys, and without control characters: texts of servers and files must not steer the terminal."""
        shown = redact(text)
        if self.colour:
            return _CONTROL_BUT_COLOUR.sub(_escaped, shown)
        return _CONTROL.sub(_escaped, shown)

    def fit(self, text: str, first: str = "", others: str = "") -> list[str]:
        """The text in lines that the terminal holds, begun with `first` or `others`; one line where there is none.

        Words that are longer than a line (paths, commands) stay whole, so that they can be copied.
        """
        if not self.interactive or display_width(first + text) <= self.columns:
            return [first + text]
        # A narrow terminal has no room for a deep indentation.
        others = others[: max(2, self.columns // 2)]
        return wrap(text, self.columns, first, others)

    def say(self, text: str, first: str = "", others: str = "") -> None:
        """A text, in the lines of `fit`."""
        for line in self.fit(text, first, others):
            self.line(line)

    def title(self, text: str) -> None:
        """A heading."""
        self.line()
        for line in self.fit(text):
            self.line(self.paint(line, "1"))

    def step(self, mark: Mark, text: str, detail: str = "", seconds: float | None = None) -> None:
        """One line of a list of things done: mark, text, detail, time."""
        symbol, word, colour = _MARKS[mark]
        took = f"  {seconds:.1f} s" if seconds is not None else ""
        head = self.paint(symbol, colour) if self.symbols else f"[{t(word)}]"
        self.say(f"{text}{f'  {detail}' if detail else ''}{self.paint(took, '2')}", f"  {head} ", "    ")

    def row(self, mark: Mark, columns: str, text: str) -> None:
        """One line of a table: columns that are padded and keep their width, and a text that goes on below itself."""
        symbol, word, colour = _MARKS[mark]
        first = f"  {self.paint(symbol, colour) if self.symbols else f'[{t(word)}]'} {columns}"
        for line in self.fit(text, first, " " * display_width(first)):
            self.line(line.rstrip())

    def problem(self, problem: Problem) -> None:
        """A problem in full; to stderr when it is an error."""
        print(self._safe("\n".join(self.problem_lines(problem))), file=self._err, flush=True)

    def problem_lines(self, problem: Problem) -> Sequence[str]:
        """The lines of a problem: what, why, saw, fix with its commands, docs."""
        head = self.paint(f"{t(problem.severity)}:", _SEVERITY_COLOUR[problem.severity] + ";1")
        lines = self.fit(f"{problem.what} [{problem.code}]", f"{head} ", "  ")
        if problem.why:
            lines += self.fit(problem.why, f"  {t('why:')} ", "       ")
        # Two requests that were answered alike are one thing to know.
        for item in dict.fromkeys(problem.saw):
            lines += self.fit(item, f"  {t('saw:')} ", "       ")
        if problem.fix:
            lines += self.fit(problem.fix.text, f"  {t('fix:')} ", "       ")
            for command in problem.fix.commands:
                lines += self.command(command, "       $ ")
        return lines

    def command(self, command: str, first: str) -> list[str]:
        """A command to copy, in lines that the terminal does not cut; whole where it is read aloud, or is for another
        shell than those that know a backslash at a line's end."""
        if not self.interactive or self.plain or sys.platform == "win32":
            return [first + command]
        return wrap_command(command, self.columns, first, " " * (display_width(first) + 2))

    def document(self, value: Mapping[str, Any], *, one_line: bool = False) -> None:
        """The one JSON document of a `--json` run; one_line: one of many, each a line, of a command that goes on."""
        # Each text by itself: redaction of the finished document could swallow a quote or a backslash of JSON's own.
        clean = _redact_texts({"schema_version": 1, **value})
        print(json.dumps(clean, ensure_ascii=False, indent=None if one_line else 2), file=self._out, flush=True)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _redact_texts(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {_redact_texts(name): _redact_texts(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_texts(item) for item in value]
    return value
