"""The causes that the doctor knows: what each is, what tells it apart, and which others it explains.

Findings and the pages under docs/reference/problems/ both take their texts from here. The causes of server logs have
theirs in `wizard.serving`, next to the patterns; here is only where they stand among the others.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_RANK = 20


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause. rank: smaller is nearer to the root, when several are found.

    why: the mechanism. fix: the remedy in general. tells: what sets it apart from others with the same symptom.
    explains: codes that follow from this cause and are folded under it.
    """

    code: str
    title: str = ""
    why: str = ""
    fix: str = ""
    tells: str = ""
    rank: int = DEFAULT_RANK
    explains: frozenset[str] = frozenset()


_ROWS: tuple[Cause, ...] = ()
_BY_CODE = {row.code: row for row in _ROWS}


def find_cause(code: str) -> Cause:
    """The cause of a code; one without texts and with the default rank where the table has none."""
    return _BY_CODE.get(code) or Cause(code)


def all_causes() -> tuple[Cause, ...]:
    """Every row, in the table's order."""
    return _ROWS
