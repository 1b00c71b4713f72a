"""Whole commands with `--json`, in a home of their own, against an endpoint on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.flows.conftest import TinyEndpoint, vllm_like

KEY = "sk-schemas-00000000000000"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def endpoint() -> Iterator[TinyEndpoint]:
    server = TinyEndpoint()
    vllm_like(server, key=KEY, model="tiny", context=65536)
    yield server
    server.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def run(home: Path) -> Run:
    """`run(*ARGV, **ENV)` is one run of llm-setup to its end."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "LLM_SETUP_HOME": str(home / "own"),
        "LLM_SETUP_API_KEY": KEY,
        "LLM_SETUP_KEYRING": "off",
    }

    def one(*argv: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "wizard", *argv]
        return subprocess.run(
            command,
            env={**env, **more},
            cwd=home,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    return one
