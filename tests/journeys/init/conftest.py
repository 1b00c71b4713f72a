"""A whole `llm-setup init`, as a process, against an endpoint on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.unit.flows.conftest import TinyEndpoint, vllm_like

KEY = "sk-journey-00000000000000"


@pytest.fixture
def endpoint() -> Iterator[TinyEndpoint]:
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


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "LLM_SETUP_HOME": str(home / "own"),
        "LLM_SETUP_API_KEY": KEY,
    }


@pytest.fixture
def llm_setup(environment: dict[str, str], home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*argv: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "wizard", *argv]
        env = {**environment, **more}
        return subprocess.run(
            command, env=env, cwd=home, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )

    return run


@pytest.fixture
def on_terminal(environment: dict[str, str], home: Path) -> Iterator[Callable[..., Any]]:
    """Start it on a pseudo-terminal of 80 by 24."""
    children: list[Any] = []

    def start(*argv: str) -> Any:
        env = {**os.environ, **environment}
        child = pexpect.spawn(
            sys.executable,
            ["-m", "wizard", *argv],
            env=env,
            cwd=str(home),
            dimensions=(24, 80),
            timeout=30,
            encoding="utf-8",
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)
