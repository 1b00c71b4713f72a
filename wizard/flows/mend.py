"""`doctor --fix`: shows a change and asks, makes it, asks the endpoint again, and takes it back if it did not help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from wizard.clients.edit import show_difference
from wizard.doctor.engine import examine
from wizard.doctor.mending import (
    FileMend,
    Mend,
    ProfileMend,
    ServerMend,
    plan_mend,
    plan_profile_mend,
    plan_server_mend,
    plan_shell_mends,
)
from wizard.effects.world import World
from wizard.flows.clients import Applied, apply_clients, edit_store, restore_clients
from wizard.flows.doctor import DoctorOptions, Report, run_doctor
from wizard.i18n import t
from wizard.problems import ProblemError, usage_error
from wizard.serving.record import ServerRecord
from wizard.serving.remedies import MAX_RESTARTS, Changed, apply_remedy, next_start
from wizard.ui.screen import Screen

Confirm = Callable[[str], bool]
Kind = Literal["client", "profile", "server", "shell"]


@dataclass(frozen=True, slots=True)
class Mended:
    """One thing's outcome: `mended`, `undone` (it did not help) or `declined`. name: of a client, profile, server or
    file."""

    name: str
    outcome: str
    codes: tuple[str, ...]
    kind: Kind = "client"


@dataclass(frozen=True, slots=True)
class _Hands:
    """What every mending needs: where, how it asks, how it looks again, how a server is started."""

    world: World
    screen: Screen
    options: DoctorOptions
    yes: bool
    dry_run: bool
    confirm: Confirm | None
    start: Callable[[World, Screen, ServerRecord], object]

    def agreed(self, question: str) -> bool:
        """Whether to go on. Raises ProblemError where nobody can be asked and nothing was said beforehand."""
        if self.yes:
            return True
        if self.confirm is None:
            raise usage_error(
                "confirmation-missing",
                t("Nothing was written: there is no terminal to ask on. Give `--yes` to write, `--dry-run` to see."),
                t("Add `--yes`."),
            )
        return self.confirm(question)

    def left(self, options: DoctorOptions, codes: tuple[str, ...]) -> set[str]:
        """Which of the codes are still errors, seen anew."""
        after = run_doctor(self.world, self.screen, options)
        return {finding.code for finding in after.diagnosis.findings if finding.severity == "error"} & set(codes)

    def say(self, name: str, outcome: str) -> None:
        """How it went."""
        if outcome == "mended":
            self.screen.step("ok", t("{client}: mended", client=name))
        elif outcome == "undone":
            self.screen.step("warning", t("{client}: it did not help, so it was taken back", client=name))


def mend(
    world: World,
    screen: Screen,
    report: Report,
    options: DoctorOptions,
    *,
    yes: bool,
    dry_run: bool = False,
    confirm: Confirm | None = None,
    start: Callable[[World, Screen, ServerRecord], object] | None = None,
) -> tuple[Mended, ...]:
    """Mend what can be mended safely. Shows each change and asks, unless `yes`; every change is proved or undone.

    start: starts a server as its record says, in place of one that runs; for tests.
    """
    hands = _Hands(world, screen, options, yes, dry_run, confirm, start or _start)
    done = tuple(_mend_all(hands, report))
    if not done:
        screen.line(t("Nothing here can be mended by itself; the commands above say what to type."))
    return done


def _mend_all(hands: _Hands, report: Report) -> Iterator[Mended]:
    restarted: set[str] = set()
    for file in plan_shell_mends(report.shared, report.diagnosis.findings):
        yield _mend_file(hands, file)
    profiles = hands.world.profiles.load().by_name
    for seen in report.seen:
        findings = examine(report.shared, (seen,)).findings
        server = plan_server_mend(seen, findings)
        if server is not None and server.server not in restarted:
            restarted.add(server.server)
            yield _mend_server(hands, server)
        profile = plan_profile_mend(seen, findings, profiles)
        if profile is not None:
            yield _mend_profile(hands, profile)
            continue
        client = plan_mend(seen, findings)
        if client is not None:
            yield _mend_client(hands, client)


# ---- clients -----------------------------------------------------------------------------------------------------


def _mend_client(hands: _Hands, plan: Mend) -> Mended:
    world, screen = hands.world, hands.screen
    known = set(edit_store(world).receipts())
    applied = apply_clients(
        world,
        screen,
        plan.endpoint,
        [plan.client],
        yes=hands.yes,
        dry_run=hands.dry_run,
        confirm=hands.confirm,
        offline=True,
    )
    if hands.dry_run or not any(result.status == "applied" for result in applied):
        return Mended(plan.client, "declined", plan.codes)
    outcome = "mended"
    if hands.left(replace(hands.options, base_url="", client=plan.client, every=True), plan.codes):
        _undo(world, screen, applied, plan, known_before=known)
        outcome = "undone"
    hands.say(plan.client, outcome)
    return Mended(plan.client, outcome, plan.codes)


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


# ---- profiles ----------------------------------------------------------------------------------------------------


def _mend_profile(hands: _Hands, plan: ProfileMend) -> Mended:
    before, after = plan.before, plan.after
    name = t("profile {name}", name=before.name)
    for old, new in (
        (before.openai_base_url, after.openai_base_url),
        (before.anthropic_base_url, after.anthropic_base_url),
        (before.model, after.model),
    ):
        if old != new:
            hands.screen.line(f"- {old}")
            hands.screen.line(f"+ {new}")
    if hands.dry_run or not hands.agreed(t("Change the profile `{name}` so?", name=before.name)):
        return Mended(before.name, "declined", plan.codes, "profile")
    hands.world.profiles.put(after, activate=False)
    outcome = "mended"
    if hands.left(hands.options, plan.codes):
        hands.world.profiles.put(before, activate=False)
        outcome = "undone"
    hands.say(name, outcome)
    return Mended(before.name, outcome, plan.codes, "profile")


# ---- servers -----------------------------------------------------------------------------------------------------


def _mend_server(hands: _Hands, plan: ServerMend) -> Mended:
    world, screen = hands.world, hands.screen
    record = world.servers.load(plan.server)
    alive = record is not None and world.servers.life(record).alive
    declined = Mended(plan.server, "declined", plan.codes, "server")
    if record is None or not record.python:
        return declined
    changed = _changed(plan, record, alive=alive)
    if changed is None:
        return declined
    if changed.said:
        screen.line(changed.said)
    if changed.gives_up:
        screen.line(t("gives up: {what}", what=changed.gives_up))
    question = (
        t("Start the server `{name}` again so? Requests under way are cut off.", name=plan.server)
        if alive
        else t("Start the server `{name}`?", name=plan.server)
    )
    if hands.dry_run or not hands.agreed(question):
        return declined
    helped = _started(hands, record, changed) and not hands.left(hands.options, plan.codes)
    if not helped and alive:
        hands.start(world, screen, record)
    elif not helped:
        _put_record_back(world, record)
    outcome = "mended" if helped else "undone"
    hands.say(plan.server, outcome)
    return Mended(plan.server, outcome, plan.codes, "server")


def _put_record_back(world: World, record: ServerRecord) -> None:
    """What is remembered of a server that died is what it was before the tries, unless one of them runs."""
    tried = world.servers.load(record.name)
    if tried is None or not world.servers.life(tried).alive:
        world.servers.save(record)


def _started(hands: _Hands, record: ServerRecord, changed: Changed) -> bool:
    """Start it so; where it dies of something that its log says how to mend, with that too."""
    from wizard.flows.serve import ServerDiedError

    for _ in range(MAX_RESTARTS):
        better = replace(record, arguments=changed.arguments, environment=tuple(sorted(changed.env.items())))
        try:
            hands.start(hands.world, hands.screen, better)
        except ServerDiedError as error:
            hands.screen.problem(error.problem)
            next_change = next_start(changed.arguments, changed.env, error.remedies)
            if next_change is None or not hands.agreed(t("Start again with {changes}?", changes=next_change.said)):
                return False
            changed = next_change
        except ProblemError as error:
            hands.screen.problem(error.problem)
            return False
        else:
            return True
    return False


def _changed(plan: ServerMend, record: ServerRecord, *, alive: bool) -> Changed | None:
    """What to start with; of a server that died, what its log says would let it start, else as it was."""
    if alive:
        return apply_remedy(record.arguments, dict(record.environment), plan.remedy)
    from wizard.serving.deaths import find_deaths_in_bytes

    as_it_was = Changed(record.arguments, dict(record.environment), "", "")
    try:
        with Path(record.log).open("rb") as log:
            deaths = find_deaths_in_bytes(iter(lambda: log.read(1 << 20), b""))
    except OSError:
        return as_it_was
    remedies = [remedy for death in deaths for remedy in death.remedies]
    return next_start(record.arguments, dict(record.environment), remedies) or as_it_was


def _start(world: World, screen: Screen, record: ServerRecord) -> object:
    from wizard.flows.runtime import given_runtime
    from wizard.flows.serve import start_server
    from wizard.flows.serve_model import remember_profile

    started = start_server(
        world,
        screen,
        given_runtime(world, record.python),
        name=record.name,
        model=record.model,
        arguments=record.arguments,
        env=dict(record.environment),
        host=record.host,
        port=record.port,
        replace_running=True,
    )
    return remember_profile(world, started)


# ---- start-up files of shells ------------------------------------------------------------------------------------


def _mend_file(hands: _Hands, plan: FileMend) -> Mended:
    path = Path(plan.path)
    before, after = plan.before.encode(), plan.after.encode()
    declined = Mended(plan.path, "declined", plan.codes, "shell")
    hands.screen.line(show_difference(before, after, plan.path))
    # What was read was decoded: bytes that are not UTF-8, or a file that changed since, are left alone.
    if hands.world.files.read_bytes(path) != before:
        return declined
    if hands.dry_run or not hands.agreed(t("Write {path} so?", path=plan.path)):
        return declined
    stamp = hands.world.clock.now().strftime("%Y%m%dT%H%M%S")
    kept = edit_store(hands.world).keep_replaced(path, before, stamp)
    hands.world.files.write_bytes(path, after)
    outcome = "mended"
    # A start-up file counts in the next terminal only, so that what is looked at again is the file.
    again = run_doctor(hands.world, hands.screen, replace(hands.options, offline=True))
    if any(left.path == plan.path for left in plan_shell_mends(again.shared, again.diagnosis.findings)):
        hands.world.files.write_bytes(path, before)
        outcome = "undone"
    hands.say(plan.path, outcome)
    if outcome == "mended":
        hands.screen.line(t("It counts in terminals that are opened from now on."))
        hands.screen.line(t("As it was before, the file is kept at {path}.", path=kept))
    return Mended(plan.path, outcome, plan.codes, "shell")
