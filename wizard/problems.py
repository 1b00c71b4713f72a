"""One shape for everything that goes wrong: what, why, what was seen, what to do.

A raised error and a doctor's finding are the same value, so that both read alike on the screen and in JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]

DOCS_ROOT = "docs/reference/problems/"


class ExitCode(IntEnum):
    """What the process tells its caller."""

    FINE = 0
    PROBLEM = 1
    USAGE = 2
    BUG = 3
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Fix:
    """A remedy. `commands` can be pasted as they stand; `automatic` means llm-setup can do it itself, safely."""

    text: str
    commands: tuple[str, ...] = ()
    automatic: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem as the user reads it.

    `code` is kebab-case and stable; `what` is one sentence; `why` explains the mechanism; `saw` is the evidence,
    already free of secrets; `fix` is the remedy.
    """

    code: str
    what: str
    why: str = ""
    saw: tuple[str, ...] = ()
    fix: Fix | None = None
    severity: Severity = "error"

    @property
    def docs(self) -> str:
        """Where the page about this code is, relative to the project's root."""
        return f"{DOCS_ROOT}{self.code}.md"

    def seen(self, *more: str) -> Problem:
        """The same problem with more evidence."""
        return replace(self, saw=(*self.saw, *more))

    def as_json(self) -> dict[str, Any]:
        """The finding of the JSON contract."""
        fix = self.fix or Fix("")
        return {
            "code": self.code,
            "severity": self.severity,
            "what": self.what,
            "why": self.why,
            "saw": list(self.saw),
            "fix": {"text": fix.text, "commands": list(fix.commands), "automatic": fix.automatic},
            "docs": self.docs,
        }


class ProblemError(Exception):
    """The one exception that carries a problem to the edge, where it is shown. Any other that escapes is our bug."""

    def __init__(self, problem: Problem, exit_code: ExitCode = ExitCode.PROBLEM) -> None:
        super().__init__(f"{problem.what} [{problem.code}]")
        self.problem = problem
        self.exit_code = exit_code


class ReaderGoneError(Exception):
    """Whoever read our output (`| head`) has gone, and has what it wanted. No OSError: click ends those its own way."""


def move_away(path: object) -> str:
    """The command that moves a file away, so that it is there to be mended."""
    import shlex  # most commands show no problem

    return shlex.join(("mv", str(path), f"{path}.broken"))


def usage_error(code: str, what: str, fix: str = "", *commands: str, why: str = "") -> ProblemError:
    """A problem with how a command was called (exit code 2)."""
    return ProblemError(Problem(code, what, why, fix=Fix(fix, commands) if fix or commands else None), ExitCode.USAGE)
