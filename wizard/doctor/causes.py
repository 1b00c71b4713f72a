"""The causes that the doctor knows: what each is, what tells it apart, and which others it explains.

Rows of causes.toml, in the order of nearness to the root. The causes of server logs have their texts in
`wizard.serving`, next to the patterns; among the others they stand where `LOG_RANK` says.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from wizard.i18n import t
from wizard.problems import Fix, Problem, Severity

# A server that died explains that nothing answers: its log comes before everything about the way to it, but after what
# is wrong in the client's own files, which would still be wrong with the server up.
_LOG_COMES_BEFORE = "stale-profile"
_CONSEQUENCES_OF_A_DEAD_SERVER = frozenset({"server-unreachable", "server-not-ready", "stale-profile"})


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause. rank: smaller is nearer to the root, when several are found. Texts as in causes.toml, in English."""

    code: str
    title: str
    why: str
    fix: str
    tells: str
    rank: int
    explains: frozenset[str] = frozenset()


@cache
def _table() -> dict[str, Cause]:
    rows = tomllib.loads(files("wizard.doctor").joinpath("causes.toml").read_text(encoding="utf-8"))
    return {
        code: Cause(
            code, row["title"], row["why"], row["fix"], row["tells"], 10 * place, frozenset(row.get("explains", ()))
        )
        for place, (code, row) in enumerate(rows.items(), start=1)
    }


def all_causes() -> tuple[Cause, ...]:
    """Every row, in the table's order."""
    return tuple(_table().values())


def find_cause(code: str) -> Cause:
    """The cause of a code; for one that the table has not (a server's death), a row without texts."""
    known = _table().get(code)
    if known is not None:
        return known
    return Cause(code, "", "", "", "", _table()[_LOG_COMES_BEFORE].rank - 1, _CONSEQUENCES_OF_A_DEAD_SERVER)


def found(
    code: str,
    what: str,
    *saw: str,
    severity: Severity = "error",
    why: str = "",
    fix: str = "",
    commands: tuple[str, ...] = (),
    automatic: bool = False,
) -> Problem:
    """A finding with the table's texts where none are given. `what` says it with this case's values."""
    cause = find_cause(code)
    return Problem(
        code,
        what,
        why or t(cause.why),
        tuple(item for item in saw if item),
        Fix(fix or t(cause.fix), commands, automatic),
        severity,
    )
