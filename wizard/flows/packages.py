"""Packages from an index: room on the disk, and an installer that works here."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from wizard.effects.world import World
from wizard.problems import ProblemError
from wizard.serving.install_plan import disk_problem, installer_environment
from wizard.serving.runtime import Runtime


class PackageError(Exception):
    """No installer here could get the packages; `saw` holds what each said last."""

    def __init__(self, saw: tuple[str, ...]) -> None:
        super().__init__("; ".join(saw))
        self.saw = saw


def free_gib(folder: Path) -> float | None:
    """Free room where the folder is or will be; None where the system does not say."""
    for place in (folder, *folder.parents):
        if place.exists():
            try:
                return shutil.disk_usage(place).free / 2**30
            except OSError:
                return None
    return None


def check_disk(folder: Path, needed_gib: float, what: str) -> None:
    """Raise a problem where the disk has less room than is needed; nothing was written until then."""
    free = free_gib(folder)
    if free is not None and free < needed_gib:
        raise ProblemError(disk_problem(what, needed_gib, free, str(folder)))


def install_beside(
    world: World, runtime: Runtime, folder: Path, packages: tuple[str, ...], *, with_requirements: bool = False
) -> None:
    """Put packages (without their requirements, unless told) into a folder of their own, for the runtime's Python; no
    environment is changed. Raises PackageError."""
    where = (*(() if with_requirements else ("--no-deps",)), "--target", str(folder))
    ways: list[list[str]] = []
    # The interpreter of the runtime, else ours: pure packages, and the runtime's may come without pip.
    for python in dict.fromkeys((runtime.python, sys.executable)):
        ways.append([python, "-m", "pip", "install", "--quiet", *where, *packages])
    uv = world.processes.which("uv", world.env)
    if uv:
        ways.append([uv, "pip", "install", "--python", runtime.python, *where, *packages])
    saw: list[str] = []
    for way in ways:
        lines: list[str] = []
        code = world.processes.stream(way, env=installer_environment(world.env), on_line=lines.append)
        if code == 0:
            return
        told = [line.strip() for line in lines if line.strip()]
        errors = [line for line in told if line.lower().startswith("error")]
        saw.append((errors or told or [f"{way[0]}: {code}"])[-1][:300])
    raise PackageError(tuple(dict.fromkeys(saw)))
