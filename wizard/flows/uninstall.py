"""`uninstall`: everything that llm-setup ever wrote, and the way back."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wizard.effects.files import measure_folder
from wizard.effects.world import World
from wizard.flows.clients import edit_store, restore_clients
from wizard.flows.version import removal_command
from wizard.i18n import t
from wizard.problems import Problem, usage_error
from wizard.ui.screen import Screen


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of llm-setup's own that is there."""

    path: Path
    files: int
    size_bytes: int

    def as_json(self) -> dict[str, Any]:
        """For `uninstall --json`."""
        return {"path": str(self.path), "files": self.files, "size_bytes": self.size_bytes}


@dataclass(frozen=True, slots=True)
class Traces:
    """What llm-setup left on this machine.

    changed: files of clients that hold its changes now; given_back: those that did once. kept: versions of others that
    a restore replaced. folders: its own. keys: names of the keys that it keeps. servers: those that it knows.
    """

    changed: tuple[Path, ...]
    given_back: tuple[Path, ...]
    kept: tuple[Path, ...]
    folders: tuple[Folder, ...]
    keys: tuple[str, ...]
    servers: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For `uninstall --json`."""
        return {
            "changed": [str(path) for path in self.changed],
            "given_back": [str(path) for path in self.given_back],
            "kept": [str(path) for path in self.kept],
            "folders": [folder.as_json() for folder in self.folders],
            "keys": list(self.keys),
            "servers": list(self.servers),
        }


def observe_traces(world: World) -> Traces:
    """Look at receipts, folders and keys; changes nothing."""
    store = edit_store(world)
    changed = tuple(store.receipts())
    paths = world.paths
    places = dict.fromkeys((paths.config, paths.state, paths.data, paths.cache, paths.logs))
    # On some systems one of them is inside another.
    outer = [path for path in places if not any(other in path.parents for other in places)]
    return Traces(
        changed,
        tuple(path for path in store.ever() if path not in changed),
        store.replaced(),
        tuple(Folder(path, *measure_folder(path)) for path in outer if path.is_dir()),
        world.secrets.names(),
        world.servers.names(),
    )


def show_traces(screen: Screen, traces: Traces) -> None:
    """List them."""
    for title, paths in (
        (t("Client files that hold changes now"), traces.changed),
        (t("Client files that were changed once, and given back"), traces.given_back),
        (t("Versions of yours that were kept when an original was given back"), traces.kept),
    ):
        if paths:
            screen.title(title)
            for path in paths:
                screen.line(f"  {path}")
    if traces.keys:
        screen.title(t("Keys"))
        screen.line("  " + ", ".join(traces.keys))
    if traces.servers:
        screen.title(t("Servers"))
        screen.line("  " + ", ".join(traces.servers))
    if traces.folders:
        screen.title(t("Folders of its own"))
        for folder in traces.folders:
            size = folder.size_bytes / 2**20
            what = t("{files} files, {size} MiB", files=folder.files, size=f"{size:.1f}")
            screen.line(f"  {folder.path}  {what}")
    if traces == Traces((), (), (), (), (), ()):
        screen.step("ok", t("Nothing was ever written here."))


def give_back(
    world: World,
    screen: Screen,
    traces: Traces,
    *,
    yes: bool,
    confirm: Callable[[str], bool] | None,
    keep_changes: bool = False,
) -> tuple[Problem, ...] | None:
    """Give every client file back and forget the keys; returns what stays in a keyring all the same, None where the
    answer was no. Folders are left: the commands that remove them are shown, since one may hold what is not ours.
    keep_changes: as restore_clients has it. Raises a usage problem without an answer."""
    if not (traces.changed or traces.keys):
        return ()
    if not yes:
        if confirm is None:
            raise usage_error(
                "confirmation-missing",
                t("Nothing was taken back: there is no terminal to ask on. `--yes` takes it back, `--dry-run` lists."),
                t("Add `--yes`."),
            )
        if not confirm(t("Give the client files back and forget the keys?")):
            return None
    restore_clients(world, screen, (), every=True, yes=True, keep_changes=keep_changes)
    left = {name: problem for name in traces.keys if (problem := world.secrets.forget(name))}
    forgotten = [name for name in traces.keys if name not in left]
    if forgotten:
        screen.step("ok", t("keys forgotten: {names}", names=", ".join(forgotten)))
    for problem in left.values():
        screen.problem(problem)
    return tuple(left.values())


def removal_commands(traces: Traces) -> tuple[str, ...]:
    """What to type for the rest, in its order. What others wrote is moved out of our folders first."""
    kept = tuple(f"mv {shlex.quote(str(folder))} ~/llm-setup-kept" for folder in {path.parent for path in traces.kept})
    stop = ("llm-setup stop --all",) if traces.servers else ()
    folders = " ".join(shlex.quote(str(folder.path)) for folder in traces.folders)
    return (*stop, *kept, *((f"rm -r {folders}",) if folders else ()), removal_command())
