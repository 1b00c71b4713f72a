"""Golden renderings: `<client>/<case>/case.toml` and what it has to give, byte for byte.

A case's `before/` is the home as it was, `after/` the home as it becomes; `project/` and `config/` below both stand for
the project's folder and llm-setup's own. `LLM_SETUP_WRITE_GOLDEN=1` writes `after/` anew: read the difference.
"""

from __future__ import annotations

import io
import os
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from wizard.effects.clock import Clock
from wizard.effects.files import Files
from wizard.effects.http import Http
from wizard.effects.paths import state_paths
from wizard.effects.world import World
from wizard.endpoint.model import Endpoint
from wizard.flows.clients import apply_clients, load_clients
from wizard.secret import Secret
from wizard.ui.screen import Screen

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/*/case.toml"))
PLACE = "/place"


def render(case: Path, folder: Path) -> dict[str, bytes]:
    """Apply the case in a copy of its home; the copy's place is written as `/place`."""
    options = tomllib.loads((case / "case.toml").read_text(encoding="utf-8"))
    home = folder / "home"
    if (case / "before").exists():
        shutil.copytree(case / "before", home, symlinks=True)
    for made in (home, home / "project"):
        made.mkdir(parents=True, exist_ok=True)
    env = {"LLM_SETUP_HOME": str(folder / "state"), "PATH": "/nowhere", **options.get("env", {})}
    world = World(
        env=env,
        home=home,
        cwd=home / "project",
        platform=options.get("platform", "linux"),
        paths=state_paths(env),
        files=Files(),
        http=Http(),
        clock=Clock(),
    )
    given: dict[str, Any] = options["endpoint"]
    endpoint = Endpoint(
        name=given["name"],
        openai_base_url=given["openai_base_url"],
        anthropic_base_url=given.get("anthropic_base_url"),
        model=given["model"],
        key=Secret(given["key"]) if given.get("key") else None,
        max_model_len=given.get("max_model_len"),
    )
    nowhere = io.StringIO()
    screen = Screen(plain=True, out=nowhere, err=nowhere, env={})
    name = case.parent.name
    apply_clients(world, screen, endpoint, [name], scope=options.get("scope", "user"), yes=True, offline=True)
    files = {path.relative_to(home).as_posix(): path for path in sorted(home.rglob("*")) if path.is_file()}
    config = world.paths.config
    files |= {
        f"config/{path.relative_to(config).as_posix()}": path for path in sorted(config.rglob("*")) if path.is_file()
    }
    return {at: path.read_bytes().replace(str(folder).encode(), PLACE.encode()) for at, path in files.items()}


@pytest.mark.parametrize("case", CASES, ids=[f"{case.parent.name}/{case.name}" for case in CASES])
def test_a_case_gives_exactly_its_files(case: Path, tmp_path: Path) -> None:
    got = render(case, tmp_path)
    after = case / "after"
    if os.environ.get("LLM_SETUP_WRITE_GOLDEN"):
        shutil.rmtree(after, ignore_errors=True)
        for at, content in got.items():
            (after / at).parent.mkdir(parents=True, exist_ok=True)
            (after / at).write_bytes(content)
    wanted = {
        path.relative_to(after).as_posix(): path.read_bytes() for path in sorted(after.rglob("*")) if path.is_file()
    }
    assert got == wanted


def test_every_client_has_a_case(tmp_path: Path) -> None:
    env = {"LLM_SETUP_HOME": str(tmp_path)}
    world = World(env, tmp_path, tmp_path, "linux", state_paths(env), Files(), Http(), Clock())
    assert set(load_clients(world)) == {case.parent.name for case in CASES}
