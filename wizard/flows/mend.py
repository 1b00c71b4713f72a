"""`doctor --fix`: writes what was proved to work, asks the endpoint again, and takes it back if that did not help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from wizard.doctor.mending import Mend, plan_mend
from wizard.effects.world import World
from wizard.flows.clients import Applied, apply_clients, edit_store, restore_clients
from wizard.flows.doctor import DoctorOptions, Report, run_doctor
from wizard.i18n import t
from wizard.ui.screen import Screen


@dataclass(frozen=True, slots=True)
class Mended:
    """One client's outcome: `mended`, `undone` (it did not help) or `declined`."""

    client: str
    outcome: str
    codes: tuple[str, ...]


def mend(
    world: World,
    screen: Screen,
    report: Report,
    options: DoctorOptions,
    *,
    yes: bool,
    dry_run: bool = False,
    confirm: Callable[[str], bool] | None = None,
) -> tuple[Mended, ...]:
    """Mend what can be mended safely. Shows each diff and asks, unless `yes`; every change is proved or undone."""
    plans = [plan for seen in report.seen if (plan := plan_mend(seen, report.diagnosis.findings)) is not None]
    if not plans:
        screen.line(t("Nothing here can be mended by itself; the commands above say what to type."))
    return tuple(_mend_one(world, screen, plan, options, yes=yes, dry_run=dry_run, confirm=confirm) for plan in plans)


def _mend_one(
    world: World,
    screen: Screen,
    plan: Mend,
    options: DoctorOptions,
    *,
    yes: bool,
    dry_run: bool,
    confirm: Callable[[str], bool] | None,
) -> Mended:
    known = set(edit_store(world).receipts())
    applied = apply_clients(
        world, screen, plan.endpoint, [plan.client], yes=yes, dry_run=dry_run, confirm=confirm, offline=True
    )
    if dry_run or not any(result.status == "applied" for result in applied):
        return Mended(plan.client, "declined", plan.codes)
    after = run_doctor(world, screen, replace(options, base_url="", client=plan.client, every=True))
    left = {finding.code for finding in after.diagnosis.findings if finding.severity == "error"}
    if not left & set(plan.codes):
        screen.step("ok", t("{client}: mended", client=plan.client))
        return Mended(plan.client, "mended", plan.codes)
    _undo(world, screen, applied, plan, known_before=known)
    screen.step("warning", t("{client}: it did not help, so it was taken back", client=plan.client))
    return Mended(plan.client, "undone", plan.codes)


def _undo(world: World, screen: Screen, applied: tuple[Applied, ...], plan: Mend, *, known_before: set[Path]) -> None:
    edits = [edit for result in applied for edit in result.edits]
    if not any(edit.path in known_before for edit in edits):
        restore_clients(world, screen, [plan.client], yes=True)
        return
    # Files that llm-setup had written before go back to what they held a moment ago, not to their first original.
    for edit in edits:
        if edit.before is not None:
            world.files.write_bytes(edit.path, edit.before)
        else:
            world.files.remove(edit.path)
