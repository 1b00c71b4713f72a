"""What journeys share: an endpoint on loopback that answers as vLLM does, a home of their own, and a place with a
stand-in for vLLM and a small model."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from tests.unit.flows.conftest import TinyEndpoint, vllm_like

KEY = "sk-journey-00000000000000"
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


def lay_model(folder: Path) -> Path:
    """The folder of a small model, whole as far as it is looked at before a start."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text('{"chat_template": "x"}')
    head = json.dumps({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
    return folder


def lay_runtime(folder: Path, standin: Path) -> Path:
    """A virtual environment, so far as llm-setup can tell, whose Python is this script."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nexport STANDIN_PYTHON=\"$0\"\nexec '{sys.executable}' -I '{standin}' \"$@\"\n")
    python.chmod(0o755)
    return folder


@dataclass
class Place:
    """An own LLM_SETUP_HOME with a stand-in for vLLM, and runs of llm-setup on it."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    begun: list[subprocess.Popen[str]] = field(default_factory=list)

    @classmethod
    @contextmanager
    def made(cls, root: Path, standin: Path) -> Iterator[Self]:
        """A new one; whatever runs in it at the end is killed."""
        place = cls(root)
        lay_runtime(place.vllm, standin)
        place.env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ} | {
            "HOME": str(root),
            "LLM_SETUP_HOME": str(place.home),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LLM_SETUP_PLAIN": "1",
            # Short enough for sockets.
            "TMPDIR": tempfile.mkdtemp(dir="/tmp"),
        }
        try:
            yield place
        finally:
            for process in place.begun:
                if process.poll() is None:
                    process.kill()
                process.communicate()
            for pid in place.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(place.temporary)

    @property
    def temporary(self) -> Path:
        """The folder for temporary files."""
        return Path(self.env["TMPDIR"])

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

    def run(self, *arguments: str, timeout_s: float = 100, **env: str) -> subprocess.CompletedProcess[str]:
        """One run of llm-setup to its end."""
        return subprocess.run(
            self.command(*arguments),
            env=self.env | env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=self.root,
        )

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """A run of llm-setup that goes on."""
        process = subprocess.Popen(
            self.command(*arguments),
            env=self.env | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.root,
        )
        self.begun.append(process)
        return process

    def status(self, *arguments: str) -> dict[str, Any]:
        """The document of `status --json`."""
        found: dict[str, Any] = json.loads(self.run("status", "--json", *arguments).stdout)
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


@pytest.fixture
def endpoint() -> Iterator[TinyEndpoint]:
    """It asks for `KEY` and serves `tiny`."""
    server = TinyEndpoint()
    vllm_like(server, key=KEY, model="tiny", context=65536)
    yield server
    server.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a blank and letters beyond ASCII in its name."""
    folder = tmp_path / "Zoë 家"
    folder.mkdir()
    return folder
