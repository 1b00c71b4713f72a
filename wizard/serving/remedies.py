"""Apply what may let a dead server start: change its flags and variables, and say what that gives up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wizard.catalog.arguments import flag_value
from wizard.i18n import t
from wizard.serving.deaths import Remedy
from wizard.serving.start import without_flags

MAX_RESTARTS = 3


@dataclass(frozen=True, slots=True)
class Changed:
    """Arguments and variables after a remedy. said: the changes for people; gives_up: their price."""

    arguments: tuple[str, ...]
    env: dict[str, str]
    said: str
    gives_up: str


def apply_remedy(arguments: Sequence[str], env: Mapping[str, str], remedy: Remedy) -> Changed | None:
    """What is started next, or None where the remedy changes nothing (then it cannot help)."""
    changed = tuple(arguments)
    said: list[str] = []
    for change in remedy.changes:
        before = flag_value(changed, change.flag)
        is_there = any(word.partition("=")[0] == change.flag for word in changed)
        if change.value is None:
            if is_there:
                changed = without_flags(changed, (change.flag,))
                value = f" {before}" if before and not before.startswith("--") else ""
                said.append(t("without {setting}", setting=f"{change.flag}{value}"))
        elif change.value == "":
            if not is_there:
                changed = (*changed, change.flag)
                said.append(change.flag)
        elif before != change.value:
            changed = (*without_flags(changed, (change.flag,)), change.flag, change.value)
            said.append(f"{change.flag} {change.value}")
    after = dict(env)
    for name, value in remedy.env:
        if value and after.get(name) != value:
            after[name] = value
            said.append(f"{name}={value}")
        elif not value and name in after:
            del after[name]
            said.append(t("without {setting}", setting=name))
    if not said:
        return None
    return Changed(changed, after, ", ".join(said), remedy.gives_up)


def next_start(
    arguments: Sequence[str], env: Mapping[str, str], remedies: Sequence[Remedy], *, only_safe: bool = True
) -> Changed | None:
    """The first remedy that may be applied and changes something."""
    for remedy in remedies:
        if remedy.safe or not only_safe:
            changed = apply_remedy(arguments, env, remedy)
            if changed:
                return changed
    return None


def restart_pause_s(crashes_in_a_row: int) -> float:
    """Seconds before a restart: 1, 2, 4, ... 60."""
    return float(min(60, 2 ** max(0, crashes_in_a_row - 1)))
