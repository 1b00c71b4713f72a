"""A place with a stand-in for vLLM that behaves as it is told, and the embedded model."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.journeys import conftest as journeys
from tests.journeys.conftest import lay_model

STANDIN = Path(__file__).with_name("standin_vllm.py")


class Place(journeys.Place):
    """`standin` of each run says how a server that it starts behaves; see standin_vllm.py."""

    def run(
        self, *arguments: str, standin: str = "ok", timeout_s: float = 100, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return super().run(*arguments, timeout_s=timeout_s, STANDIN=standin, **env)

    def start(self, *arguments: str, standin: str = "ok", **env: str) -> subprocess.Popen[str]:
        return super().start(*arguments, STANDIN=standin, **env)

    def serve(self, *arguments: str, standin: str = "ok") -> subprocess.CompletedProcess[str]:
        """`serve --detach` with the stand-in."""
        return self.run("serve", "--detach", "--vllm", str(self.vllm), *arguments, standin=standin)

    def state(self, name: str = "local") -> str:
        """A server's state, or `none`."""
        rows = [row for row in self.status()["servers"] if row["name"] == name]
        return rows[0]["state"] if rows else "none"

    def record(self, name: str = "local") -> dict:
        return json.loads((self.servers / f"{name}.json").read_text())

    def log_keepers(self) -> list[int]:
        """Pids of the processes that keep the logs of this place bounded."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                line = entry.read_bytes()
                if b"log_child.py" in line and str(self.servers).encode() in line:
                    found.append(int(entry.parent.name))
        return found


def wait_until(holds, timeout_s: float = 20.0, what: str = "") -> None:
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place.made(tmp_path / "ein Ort für вLLM", STANDIN) as made:
        lay_model(made.home / "data" / "models" / "SmolLM2-135M-Instruct")
        yield made
