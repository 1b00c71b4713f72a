"""Runs the whole command against the compiled stand-in of NVIDIA's driver library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

BUILD = Path(__file__).parents[2] / "native" / "build.py"


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


Run = Callable[..., Ran]


@pytest.fixture(scope="session")
def driver_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the stand-in, compiled once."""
    folder = tmp_path_factory.mktemp("nvml")
    subprocess.run([sys.executable, str(BUILD), str(folder)], check=True, stdout=subprocess.DEVNULL, timeout=300)
    return folder


@pytest.fixture
def hardware(tmp_path: Path, driver_library: Path) -> Run:
    """`hardware(FACTS, *ARGUMENTS, env={})` runs `llm-setup hardware` where the driver says FACTS."""

    def run(facts: str, *arguments: str, env: dict[str, str] | None = None) -> Ran:
        path = tmp_path / "driver.txt"
        path.write_text(facts)
        surroundings = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "LANG": "C.UTF-8",
            "LLM_SETUP_HOME": str(tmp_path / "own"),
            "LD_LIBRARY_PATH": str(driver_library),
            "NVML_STANDIN": str(path),
            **(env or {}),
        }
        done = subprocess.run(
            [sys.executable, "-m", "wizard", "hardware", *arguments],
            env=surroundings,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
