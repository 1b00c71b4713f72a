"""`llm-setup` as a process, in a home of its own, with a small endpoint and stand-in clients."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.flows.conftest import TinyEndpoint, vllm_like

KEY = "sk-planted-journey-0123456789abcdef"

# Stands for any client: writes down how it was called, and behaves as it is told.
STAND_IN = """\
#!{python}
import json, os, subprocess, sys, time
folder = next((os.environ[n] for n in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "CLINE_DIR") if n in os.environ), "")
files = {{}}
for root, _, names in os.walk(folder) if folder else ():
    for name in names:
        path = os.path.join(root, name)
        files[os.path.relpath(path, folder)] = [oct(os.stat(path).st_mode & 0o777), open(path).read()]
with open({record!r}, "w") as out:
    json.dump({{"argv": sys.argv, "env": dict(os.environ), "files": files, "folder": folder,
               "pid": os.getpid()}}, out)
if "--leave-daemon" in sys.argv:
    daemon = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    print(daemon.pid)
if folder and "--write" in sys.argv:
    open(os.path.join(folder, "history"), "w").write("x")
print("ready", flush=True)
if "--stay" in sys.argv:
    time.sleep(60)
sys.exit(3 if "--fail" in sys.argv else 0)
"""


class Person:
    """Someone at a keyboard: a home, programs, and what was said to them so far."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        self.bin = folder / "bin"
        self.record = folder / "record.json"
        self.state = folder / "state"
        for made in (self.home, self.work, self.bin):
            made.mkdir()
        for name in ("codex", "claude", "cline", "open-webui"):
            program = self.bin / name
            program.write_text(STAND_IN.format(python=sys.executable, record=str(self.record)))
            program.chmod(0o755)
        self.said: list[str] = []
        self.env = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "LLM_SETUP_HOME": str(self.state),
        }

    def llm_setup(self, *argv: str, key: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        given = {"LLM_SETUP_API_KEY": key} if key else {}
        ended = subprocess.run(
            [sys.executable, "-m", "wizard", *argv],
            env={**self.env, **given, **env},
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.said.append(ended.stdout + ended.stderr)
        return ended

    def files(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.home)): p.read_bytes() for p in sorted(self.home.rglob("*")) if p.is_file()}


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


@pytest.fixture
def endpoint() -> Iterator[TinyEndpoint]:
    server = TinyEndpoint()
    vllm_like(server, key=KEY, model="tiny", context=65536)
    yield server
    server.close()


@pytest.fixture
def planted_key() -> str:
    return KEY


@pytest.fixture(autouse=True)
def _no_own_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("LLM_SETUP"):
            monkeypatch.delenv(name)
