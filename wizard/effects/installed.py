"""Which programs are installed, and their versions as their own package says, without starting them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path


def find_program(name: str, env: Mapping[str, str]) -> Path | None:
    """The program on this environment's PATH, or None."""
    found = shutil.which(name, path=env.get("PATH", os.defpath))
    return Path(found) if found else None


def installed_version(program: str, env: Mapping[str, str]) -> str | None:
    """The version of the npm or Python package that a program came with, or of the folder where it really lies; None
    where neither says. Nothing is started: that would take a second each."""
    path = find_program(program, env)
    return (
        (_npm_version(path, program) or _python_version(path, program) or _folder_version(path, program))
        if path
        else None
    )


def library_version(library: str, env: Mapping[str, str], cwd: Path) -> str | None:
    """The version of a Python library where a program started here would import it from: the active or the project's
    virtual environment, else that of the Python on the PATH. None where it is not there."""
    python = find_program("python3", env) or find_program("python", env)
    active = env.get("VIRTUAL_ENV")
    places = [Path(active)] if active else []
    places += [cwd / ".venv", *([python.parent.parent] if python else [])]
    for place in places:
        if (place / "pyvenv.cfg").is_file() or (python and place == python.parent.parent):
            found = [version for info in _packages(place) if (version := _named(info, library))]
            return found[0] if found else None
    return None


def _python_version(path: Path, program: str) -> str | None:
    """By the entry points of the packages beside the program, or beside the Python in its first line."""
    try:
        with path.open("rb") as script:
            first = script.readline(1024)
    except OSError:
        return None
    words = first.removeprefix(b"#!").split() if first.startswith(b"#!") else []
    places = [path.parent.parent, Path(os.path.realpath(path)).parent.parent]
    places += [Path(os.fsdecode(words[0])).parent.parent] if words else []
    line = re.compile(rf"^{re.escape(program)}\s*=", re.MULTILINE)
    for info in (info for place in dict.fromkeys(places) for info in _packages(place)):
        try:
            if line.search((info / "entry_points.txt").read_text(encoding="utf-8")):
                return info.name.removesuffix(".dist-info").rpartition("-")[2]
        except (OSError, UnicodeDecodeError):
            continue
    return None


def _folder_version(path: Path, program: str) -> str | None:
    """From where a link leads: Homebrew's `Cellar/codex/0.171.0/bin/codex`, the `claude/versions/2.1.332` of Claude
    Code's own installer, `/opt/codex/0.171.0/codex`. A folder of another's, as `nodejs/20.11.1/bin`, says nothing."""
    parts = Path(os.path.realpath(path)).parts
    for at in range(len(parts) - 1, 1, -1):
        if re.fullmatch(r"\d+(?:\.\d+){2,}", parts[at]):
            above, before = parts[at - 1], parts[at - 2]
            # Version managers have `versions/3.12.1/bin` for what they manage, and programs of others in it.
            own = above == "versions" and (at == len(parts) - 1 or before == program)
            if own or before in ("Cellar", "Caskroom") or above == program:
                return parts[at]
    return None


def _packages(place: Path) -> Iterator[Path]:
    """The `NAME-VERSION.dist-info` folders of an installation of Python."""
    for folder in ("lib/python3*/site-packages", "lib/python3*/dist-packages", "Lib/site-packages"):
        yield from place.glob(f"{folder}/*.dist-info")


def _named(info: Path, library: str) -> str:
    name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
    return version if name.lower().replace("-", "_") == library.lower().replace("-", "_") else ""


def _npm_version(path: Path, program: str) -> str | None:
    """From the package.json above it."""
    for folder in Path(os.path.realpath(path)).parents:
        manifest = folder / "package.json"
        try:
            if manifest.is_file():
                document = json.loads(manifest.read_bytes())
                binaries = document.get("bin")
                if isinstance(document.get("version"), str) and (
                    isinstance(binaries, str) or (isinstance(binaries, dict) and program in binaries)
                ):
                    return str(document["version"])
        except (OSError, ValueError, AttributeError):
            return None
        if folder.name == "node_modules":
            return None
    return None
