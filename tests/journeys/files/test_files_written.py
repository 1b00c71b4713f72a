"""Every path that commands leave is in the list of docs/reference/files.md, and as private as it says."""

from __future__ import annotations

import fnmatch
import stat
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.journeys.schemas.conftest import Run, run  # noqa: F401 (a fixture)
from tests.journeys.serve.conftest import Place, place  # noqa: F401 (a fixture)
from tests.unit.flows.conftest import TinyEndpoint


@pytest.fixture(scope="module")
def listed(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("reference/files")


def unlisted(listed: ModuleType, own: Path) -> list[str]:
    """Files below llm-setup's folder that no row names, and those that others can read though a row says no."""
    found = []
    for path in own.rglob("*"):
        if path.is_dir():
            continue
        folder, _, name = path.relative_to(own).as_posix().partition("/")
        if f"{{{folder}}}/{name}" in {cells[2].strip("`") for cells in listed._clients()}:
            continue  # a side file of a client
        rows = [row for row in listed.OWN if row.folder == folder and fnmatch.fnmatch(name, row.pattern)]
        mode = stat.S_IMODE(path.stat().st_mode)
        if not rows:
            found.append(f"{folder}/{name}: in no row")
        elif rows[0].private and mode & 0o077:
            found.append(f"{folder}/{name}: mode {mode:o}")
    return sorted(found)


def test_a_life_with_an_endpoint(run: Run, endpoint: TinyEndpoint, home: Path, listed: ModuleType) -> None:  # noqa: F811
    given = ["--base-url", endpoint.url, "--model", "tiny"]
    before = set(home.rglob("*"))
    for argv in (
        ["init", *given, "--client", "codex", "--client", "shell", "--profile", "lab", "--yes"],
        ["clients", "apply", "--all", *given, "--yes"],
        ["profiles", "add", "other", *given],
        ["use", "other"],
        ["use", "-"],
        ["clients", "verify", "--all"],
        ["clients", "restore", "codex", "--yes"],
        ["doctor", *given],
        ["plan", "Qwen/Qwen3-8B", "--gpu", "RTX 4090"],
        ["bench", *given, "--concurrency", "1", "--requests", "1", "--max-tokens", "4"],
    ):
        run(*argv, SHELL="/bin/bash")
    own = home / "own"
    assert (own / "state" / "profiles.json").exists()
    left = unlisted(listed, own)
    assert left == []
    # Beside its own folder: files of clients only.
    targets = [cells[2].strip("`") for cells in listed._clients()]
    allowed = [target.replace("~/", "") for target in targets] + [".config/" + t[13:] for t in targets if t[0] == "{"]
    others = {path.relative_to(home).as_posix() for path in set(home.rglob("*")) - before if path.is_file()}
    others = {name for name in others if not name.startswith("own/")}
    strange = [name for name in others if not any(name == each or name.endswith(each) for each in allowed)]
    assert strange == []


def test_a_life_with_a_server(place: Place, listed: ModuleType) -> None:  # noqa: F811
    assert place.serve().returncode == 0
    place.run("status")
    place.run("watch", "--once")
    place.run("stop")
    assert place.serve(standin="die=boom").returncode == 1
    assert (place.servers / "local.json").exists()
    assert unlisted(listed, place.home) == []
