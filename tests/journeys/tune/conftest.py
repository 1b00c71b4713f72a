"""A home of its own, a stand-in for vLLM whose speed depends on its flags, a model folder, and the command line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "schemas"
STANDIN = Path(__file__).with_name("standin_vllm.py")
# A small dense model's, as far as a plan reads it.
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "dtype": "bfloat16",
    "head_dim": 64,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "model_type": "llama",
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "tie_word_embeddings": True,
    "vocab_size": 49152,
}
SMALL = ("--users", "1", "--requests", "5", "--rounds", "2", "--prefix-tokens", "300", "--max-tokens", "4")


@dataclass
class Place:
    """Runs of llm-setup on a home of their own."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    begun: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.root / "home"

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

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "wizard", *arguments],
            env=self.env | env,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            cwd=self.root,
        )

    def tuning(self, *arguments: str, after: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The words of a small `tune`."""
        return ("tune", str(self.model), "--vllm", str(self.root / "venv"), *SMALL, *arguments, "--", *after)

    def tune(self, *arguments: str, after: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess[str]:
        return self.run(*self.tuning(*arguments, after=after), **env)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """A `tune` that goes on."""
        process = subprocess.Popen(
            [sys.executable, "-m", "wizard", *self.tuning(*arguments)],
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self.root,
        )
        self.begun.append(process)
        return process

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
        given = ("serve", str(self.model), "--detach", "--vllm", str(self.root / "venv"), "--port", port)
        return self.run(*given, "--", *flags)

    def would_serve(self, *arguments: str) -> list[str]:
        """The command that `serve` would start."""
        given = ("serve", str(self.model), "--dry-run", "--json", "--vllm", str(self.root / "venv"), *arguments)
        command: list[str] = json.loads(self.run(*given).stdout)["command"]
        return command

    def states(self) -> dict[str, Any]:
        """Each server's state and pid."""
        rows = json.loads(self.run("status", "--json").stdout)["servers"]
        return {row["name"]: (row["state"], row["pid"]) for row in rows}

    def standins(self) -> list[int]:
        """Living stand-ins of this place."""
        mark = f"LLM_SETUP_HOME={self.home}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with suppress(OSError):
                words = (entry / "environ").read_bytes().split(b"\0")
                alive = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
                if mark in words and alive and b"standin_vllm" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    root = tmp_path / "ein Ort"
    made = Place(root)
    python = root / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nexport STANDIN_PYTHON=\"$0\"\nexec '{sys.executable}' -I '{STANDIN}' \"$@\"\n")
    python.chmod(0o755)
    made.model.mkdir()
    (made.model / "config.json").write_text(json.dumps(CONFIG))
    (made.model / "tokenizer_config.json").write_text('{"chat_template": "x"}')
    head = json.dumps({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (made.model / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
    made.env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ} | {
        "HOME": str(root),
        "LLM_SETUP_HOME": str(made.home),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LLM_SETUP_PLAIN": "1",
        "STANDIN_STARTS": str(root / "starts"),
    }
    yield made
    for process in made.begun:
        if process.poll() is None:
            process.kill()
        process.communicate()
    for pid in made.standins():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
