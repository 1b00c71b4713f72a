"""A home of its own, a stand-in for vLLM, and the command line on both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

STANDIN = Path(__file__).with_name("standin_vllm.py")
# SmolLM2-135M-Instruct's, as far as a plan reads it.
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


@dataclass
class Place:
    """An own LLM_SETUP_HOME with a stand-in runtime and an embedded model that is there already."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    begun: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def servers(self) -> Path:
        return self.home / "state" / "servers"

    @property
    def vllm(self) -> Path:
        return self.root / "venv"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "wizard", *arguments]

    def run(self, *arguments: str, standin: str = "ok", timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        """One run of llm-setup to its end."""
        return subprocess.run(
            self.command(*arguments),
            env=self.env | {"STANDIN": standin},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=self.root,
        )

    def start(self, *arguments: str, standin: str = "ok") -> subprocess.Popen[str]:
        """A run of llm-setup that goes on."""
        process = subprocess.Popen(
            self.command(*arguments),
            env=self.env | {"STANDIN": standin},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.root,
        )
        self.begun.append(process)
        return process

    def serve(self, *arguments: str, standin: str = "ok") -> subprocess.CompletedProcess[str]:
        """`serve --detach` with the stand-in."""
        return self.run("serve", "--detach", "--vllm", str(self.vllm), *arguments, standin=standin)

    def status(self, *arguments: str) -> dict:
        """The document of `status --json`."""
        return json.loads(self.run("status", "--json", *arguments).stdout)

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

    def processes(self) -> list[int]:
        """Living processes of the stand-in, by the variable that marks this place."""
        mark = f"LLM_SETUP_HOME={self.home}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with suppress(OSError):
                words = (entry / "environ").read_bytes().split(b"\0")
                stat = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                if mark in words and stat[0] not in (b"Z", b"X") and b"wizard" not in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        return found


def wait_until(holds, timeout_s: float = 20.0, what: str = "") -> None:
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    root = tmp_path / "ein Ort für вLLM"
    made = Place(root)
    python = made.vllm / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nexport STANDIN_PYTHON=\"$0\"\nexec '{sys.executable}' -I '{STANDIN}' \"$@\"\n")
    python.chmod(0o755)
    model = made.home / "data" / "models" / "SmolLM2-135M-Instruct"
    model.mkdir(parents=True)
    (model / "tokenizer.json").write_text("{}")
    head = json.dumps({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (model / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
    (model / "config.json").write_text(json.dumps(CONFIG))
    made.env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ} | {
        "HOME": str(root),
        "LLM_SETUP_HOME": str(made.home),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LLM_SETUP_PLAIN": "1",
    }
    yield made
    for process in made.begun:
        if process.poll() is None:
            process.kill()
        process.communicate()
    for pid in made.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
