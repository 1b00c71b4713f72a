"""A place with a stand-in for vLLM whose speed depends on its flags, and a model folder."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.journeys import conftest as journeys
from tests.journeys.conftest import lay_model

SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "schemas"
STANDIN = Path(__file__).with_name("standin_vllm.py")
SMALL = ("--users", "1", "--requests", "5", "--rounds", "2", "--prefix-tokens", "300", "--max-tokens", "4")


class Place(journeys.Place):
    """Runs of `tune`, and what they leave."""

    @property
    def model(self) -> Path:
        return self.root / "a model"

    @property
    def record(self) -> dict[str, Any]:
        """The search as it is kept."""
        return json.loads((self.home / "state" / "tune" / "local.json").read_text())

    @property
    def settings(self) -> Path:
        return self.home / "config" / "serve" / "local.toml"

    def starts(self) -> list[str]:
        """The command of each server that was started."""
        path = self.root / "starts"
        return path.read_text().splitlines() if path.exists() else []

    def tuning(self, *arguments: str, after: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The words of a small `tune`."""
        return ("tune", str(self.model), "--vllm", str(self.vllm), *SMALL, *arguments, "--", *after)

    def tune(self, *arguments: str, after: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess[str]:
        return self.run(*self.tuning(*arguments, after=after), **env)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """A `tune` that goes on."""
        return self.start(*self.tuning(*arguments))

    def document(self, ran: subprocess.CompletedProcess[str], schema: str = "tune") -> dict[str, Any]:
        """What a run printed with --json, which is as the published schema says."""
        found: dict[str, Any] = json.loads(ran.stdout)
        jsonschema.validate(found, json.loads((SCHEMAS / f"{schema}.json").read_text()))
        return found

    def serve(self, *flags: str) -> subprocess.CompletedProcess[str]:
        """The user's own server, on a port that no other test has; flags go to vLLM."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        given = ("serve", str(self.model), "--detach", "--vllm", str(self.vllm), "--port", port)
        return self.run(*given, "--", *flags)

    def would_serve(self, *arguments: str) -> list[str]:
        """The command that `serve` would start."""
        given = ("serve", str(self.model), "--dry-run", "--json", "--vllm", str(self.vllm), *arguments)
        command: list[str] = json.loads(self.run(*given).stdout)["command"]
        return command

    def states(self) -> dict[str, Any]:
        """Each server's state and pid."""
        return {row["name"]: (row["state"], row["pid"]) for row in self.status()["servers"]}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place.made(tmp_path / "ein Ort", STANDIN) as made:
        lay_model(made.model)
        made.env["STANDIN_STARTS"] = str(made.root / "starts")
        yield made
