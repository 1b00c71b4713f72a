"""The vLLM versions that are installed: list, install, use, remove."""

from __future__ import annotations

import shlex
from typing import get_args

from wizard.effects.world import World
from wizard.flows.install import (
    MARKER,
    folder_size_gib,
    install_runtime,
    installer_of,
    plan_new_runtime,
    remove_runtime,
)
from wizard.flows.runtime import choose_runtime, chosen_name, find_runtime, no_such_runtime, own_runtimes, path_runtime
from wizard.hardware.machine import Machine
from wizard.hardware.usable import Build
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError
from wizard.ui.questions import Questions
from wizard.ui.screen import Screen

AUTO = "auto"


def show_runtimes(world: World, screen: Screen, machine: Machine) -> None:
    """All runtimes, which of them `serve` takes here, and what an interrupted install left."""
    own = own_runtimes(world)
    on_path = path_runtime(world)
    taken = find_runtime(world, screen, machine)
    half = _half_installed(world)
    rows = [*own, *([on_path] if on_path else [])]
    width = max((len(name) for name in (*(runtime.name for runtime in rows), *half)), default=0)
    for runtime in rows:
        is_taken = taken is not None and taken.folder == runtime.folder
        detail = f"vLLM {runtime.vllm_version}, torch {runtime.torch_version}, {runtime.folder}"
        screen.row("ok" if is_taken else "info", f"{runtime.name:<{width}}  ", detail)
    at_work = {name: pid for name in half if (pid := installer_of(world.paths.runtimes / name)) is not None}
    for name in half:
        if name in at_work:
            screen.row("running", f"{name:<{width}}  ", t("being installed by pid {pid}", pid=at_work[name]))
            continue
        detail = t("half installed: `llm-setup runtime install` goes on, `runtime remove {name}` deletes it", name=name)
        screen.row("warning", f"{name:<{width}}  ", detail)
    if not rows and not half:
        screen.line(t("No vLLM is installed here. `llm-setup runtime install` installs one; so does `serve`."))
    if screen.as_json:
        screen.document(
            {
                "status": "ok",
                "used": taken.name if taken else None,
                "chosen": chosen_name(world) or None,
                "runtimes": [runtime.as_json() for runtime in rows],
                "half_installed": [name for name in half if name not in at_work],
                "being_installed": [{"name": name, "pid": pid} for name, pid in at_work.items()],
            }
        )


def install_one(
    world: World, screen: Screen, machine: Machine, version: str | None, build: str | None, *, dry_run: bool
) -> None:
    """Install a runtime, or show the commands that would."""
    wanted: Build | None = next((word for word in get_args(Build) if word == build), None)
    if dry_run:
        commands = plan_new_runtime(world, machine, version, build=wanted).commands()
        for command in commands:
            screen.line("  $ " + shlex.join(command))
        if screen.as_json:
            screen.document({"status": "ok", "install": [list(command) for command in commands]})
        return
    runtime = install_runtime(world, screen, machine, version=version, build=wanted)
    screen.step("ok", t("`{name}` is installed", name=runtime.name), runtime.folder)
    if screen.as_json:
        screen.document({"status": "ok", "runtime": runtime.as_json()})


def use_one(world: World, screen: Screen, name: str) -> None:
    """Choose the runtime that `serve` takes."""
    if name == AUTO:
        world.files.remove(world.paths.runtimes / "chosen")
        screen.step("ok", t("`serve` takes the newest runtime that fits"))
    else:
        runtime = choose_runtime(world, name)
        screen.step("ok", t("`serve` takes `{name}`", name=runtime.name), runtime.folder)
    if screen.as_json:
        screen.document({"status": "ok", "chosen": None if name == AUTO else name})


def remove_one(world: World, screen: Screen, name: str, questions: Questions, *, dry_run: bool) -> None:
    """Delete a runtime of ours. Raises ProblemError for a name that is none, or one that serves now."""
    known = {runtime.name for runtime in own_runtimes(world)} | set(_half_installed(world))
    if name not in known:
        raise no_such_runtime(world, name)
    folder = world.paths.runtimes / name
    pid = installer_of(folder)
    if pid is not None:
        raise ProblemError(
            Problem(
                "runtime-in-use",
                t("Runtime `{name}` is being installed by pid {pid}.", name=name, pid=pid),
                fix=Fix(t("End the install first, or wait for it."), (f"kill {pid}",)),
            )
        )
    for server in world.servers.names():
        record = world.servers.load(server)
        if record and record.python.startswith(f"{folder}/") and world.servers.life(record).alive:
            raise ProblemError(
                Problem(
                    "runtime-in-use",
                    t("Server `{server}` runs with runtime `{name}`.", server=server, name=name),
                    fix=Fix(t("Stop it first."), (f"llm-setup stop {server}",)),
                )
            )
    size = folder_size_gib(folder)
    if dry_run:
        screen.line(t("Would delete {folder} ({size} GiB).", folder=folder, size=f"{size:.1f}"))
    else:
        question = t("Delete {folder} ({size} GiB)?", folder=folder, size=f"{size:.1f}")
        if not questions.confirm("--yes", question, recommended=True):
            return
        remove_runtime(world, folder)
        if chosen_name(world) == name:
            world.files.remove(world.paths.runtimes / "chosen")
        screen.step("ok", t("`{name}` is deleted", name=name), t("{size} GiB freed", size=f"{size:.1f}"))
    if screen.as_json:
        screen.document({"status": "ok", "removed": None if dry_run else name, "size_gib": round(size, 2)})


def _half_installed(world: World) -> tuple[str, ...]:
    folder = world.paths.runtimes
    if not folder.is_dir():
        return ()
    return tuple(sorted(path.name for path in folder.iterdir() if path.is_dir() and not (path / MARKER).exists()))
