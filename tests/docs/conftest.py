"""A home in which the pages' commands run, with an endpoint and a vLLM that stand in for real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.journeys.serve.conftest import Place, place  # noqa: F401 (a fixture)
from tests.unit.flows.conftest import TinyEndpoint, vllm_like

KEY = "sk-page-0000000000000000"
# What pages call the endpoint; the stand-in has a port of its own.
SAID = ("http://127.0.0.1:8000", "http://10.0.0.5:8000")


@dataclass(frozen=True)
class Desk:
    """Where somebody sits who reads a page. folder: home and working folder."""

    folder: Path
    env: dict[str, str]

    def type(self, lines: str) -> subprocess.CompletedProcess[str]:
        """Run a block in bash, from its first line to its last, stopping at what fails."""
        argv = ["bash", "--norc", "-euo", "pipefail", "-c", lines]
        return subprocess.run(
            argv,
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=100,
            stdin=subprocess.DEVNULL,
        )


WRAPPER = """\
#!{python}
import os, sys
words = sys.argv[1:]
for said in {said!r}:
    words = [word.replace(said, {url!r}) for word in words]
# Foreign hosts are not asked by tests.
foreign = "--preset" in words or "--profile" in words
if words[:2] in (["profiles", "add"], ["clients", "apply"]) and foreign and "--offline" not in words:
    words.append("--offline")
if words[:2] == ["clients", "apply"] and "--yes" not in words:
    words.append("--yes")
if os.environ.get("LLM_SETUP_API_KEY"):
    os.environ["LLM_SETUP_API_KEY"] = {key!r}
os.execv({python!r}, [{python!r}, "-m", "wizard", *words])
"""


@pytest.fixture(scope="session")
def endpoint() -> Iterator[TinyEndpoint]:
    server = TinyEndpoint()
    vllm_like(server, key=KEY, model="qwen", context=65536)
    yield server
    server.close()


@pytest.fixture(scope="session")
def known_profiles(endpoint: TinyEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state of a reader who has two endpoints: `local`, which is active, and `taotoken`."""
    home = tmp_path_factory.mktemp("reader")
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LLM_SETUP_HOME": str(home), "LLM_SETUP_API_KEY": KEY}
    for name in ("taotoken", "local"):
        argv = [sys.executable, "-m", "wizard", "profiles", "add", name, "--base-url", endpoint.url, "--model", "qwen"]
        done = subprocess.run(
            [*argv, "--use"], env={**env, "LLM_SETUP_KEYRING": "off"}, capture_output=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
    return home / "state"


@pytest.fixture
def desk(place: Place, endpoint: TinyEndpoint, known_profiles: Path) -> Desk:  # noqa: F811 (the fixture)
    """With `llm-setup` on the PATH and in `.venv`, and two profiles."""
    text = WRAPPER.format(python=sys.executable, said=SAID, url=endpoint.url, key=KEY)
    for where in (place.root / "bin", place.root / ".venv" / "bin"):
        where.mkdir(parents=True)
        (where / "llm-setup").write_text(text)
        (where / "llm-setup").chmod(0o755)
    shutil.copytree(known_profiles, place.home / "state", dirs_exist_ok=True)
    path = f"{place.root / 'bin'}:{os.environ['PATH']}"
    more = {"PATH": path, "SHELL": "/bin/bash", "LLM_SETUP_KEYRING": "off", "LLM_SETUP_API_KEY": KEY}
    return Desk(place.root, {**place.env, **more})


@pytest.fixture
def server(place: Place, desk: Desk) -> None:  # noqa: F811
    """A server `local` that runs, as after the tutorial's first step, with the profile of that name."""
    assert place.run("profiles", "remove", "local", "--yes").returncode == 0
    started = place.serve()
    assert started.returncode == 0, started.stderr
