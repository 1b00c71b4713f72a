"""The command against a server whose delays are known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(__file__).parents[2] / "bench" / "synthetic_server.py"


@dataclass(frozen=True)
class Ran:
    """How one run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its stdout as JSON."""
        return json.loads(self.out)

    @property
    def results(self) -> Any:
        """The figures in it."""
        return self.document["results"]


Run = Callable[..., Ran]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A synthetic server's base URL; it ends with its stdin."""
    process = subprocess.Popen([sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    yield process.stdout.readline().strip()
    process.stdin.close()
    process.wait(10)
    process.stdout.close()


@pytest.fixture
def bench(tmp_path: Path, server: str) -> Run:
    """`bench(BEHAVIOUR, *ARGUMENTS)` runs `llm-setup bench --json` against a server that behaves so."""

    def run(
        behaviour: str, *arguments: str, url: str = "", env: dict[str, str] | None = None, plain: bool = False
    ) -> Ran:
        command = [sys.executable, "-m", "wizard", "bench", *([] if plain else ["--json"])]
        if behaviour:
            command += ["--base-url", url or server, "--model", behaviour]
        done = subprocess.run(
            [*command, *arguments],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "LANG": "C.UTF-8",
                "LLM_SETUP_HOME": str(tmp_path / "own"),
                **(env or {}),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
