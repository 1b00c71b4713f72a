"""Whole commands with `--json`, in a home of their own, against an endpoint on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journeys.conftest import KEY

Run = Callable[..., subprocess.CompletedProcess[str]]


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
