"""What to say when a server ended or does not get ready."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from wizard.i18n import t
from wizard.problems import Fix, Problem
from wizard.serving.phases import Phase, clean_line, phase_title

_ERROR = re.compile(r"\b(?:[A-Za-z_.]*(?:Error|Exception)\b|ERROR\b|error:|Killed|CRITICAL)")
_WRAPPER = re.compile(r"Engine core initialization failed|See root cause above|EngineDeadError|died unexpectedly")
# Harmless lines speak of errors too: "This can cause fd limit errors like `OSError: [Errno 24]`".
_HARMLESS = re.compile(r"\b(?:WARNING|INFO|DEBUG)\b")


def last_error(lines: Sequence[str]) -> str:
    """The last line that speaks of an error and is not only a wrapper's; empty where none does."""
    for line in reversed(lines):
        line = clean_line(line).strip()
        if _ERROR.search(line) and not _WRAPPER.search(line) and not _HARMLESS.search(line):
            return line
    return ""


def plan_end_problem(
    name: str, exit_code: int | None, judged: Sequence[Problem], lines: Sequence[str], *, log: str, phase: Phase
) -> Problem:
    """The problem of a server that ended: its root cause where the log tells it, else its last error.

    exit_code: negative for a signal; None where another run started it. `lines` are the log's last ones.
    """
    where = t("log: {path}", path=log)
    if judged:
        return judged[0].seen(where)
    line = last_error(lines) or next((line for line in map(clean_line, reversed(lines)) if line.strip()), "")
    saw = [line] if line else []
    if exit_code == -9:
        return Problem(
            "server-killed",
            t("Server `{name}` was killed while it was to {phase}.", name=name, phase=phase_title(phase)),
            t("Nothing but the system's memory killer or another program ends a process that way."),
            (*saw, where),
            fix=Fix(
                t("Look whether memory ran out; give the server less, or a smaller model."),
                ("dmesg | grep -i 'killed process' | tail -n 3", f"llm-setup logs {name}"),
            ),
        )
    how = t("exit status {code}", code=exit_code) if exit_code is not None else t("exit status not known")
    return Problem(
        "server-died",
        t("Server `{name}` ended while it was to {phase}.", name=name, phase=phase_title(phase)),
        t("Its log holds no death that is known here."),
        (*saw, how, where),
        fix=Fix(t("Read the log."), (f"llm-setup logs {name} -n 60", f"llm-setup doctor --log {shlex.quote(log)}")),
    )


def plan_stall_problem(name: str, *, waited_s: float, limit: str, last_line: str, log: str, phase: Phase) -> Problem:
    """The problem of a server that lives and does not get ready. limit: `stall` or `total`."""
    idle = t("It neither writes to its log nor works.")
    slow = t("It takes longer than its size explains.")
    return Problem(
        "server-start-stalled",
        t("Server `{name}` is not ready after {minutes} min.", name=name, minutes=f"{waited_s / 60:.0f}"),
        idle if limit == "stall" else slow,
        (t("phase: {phase}", phase=phase_title(phase)), last_line, t("log: {path}", path=log)),
        fix=Fix(
            t("It was stopped. Read the log; give it more time with `--timeout`, or let the doctor look."),
            (f"llm-setup logs {name} -n 60", f"llm-setup doctor --log {shlex.quote(log)}"),
        ),
    )
