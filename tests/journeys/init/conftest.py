"""A whole `llm-setup init`, as a process, against an endpoint on loopback."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.journeys.conftest import KEY, lay_model, lay_runtime

STANDIN = Path(__file__).with_name("standin_vllm.py")
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")
# What may stand between two characters of a text on a terminal: blanks, line ends, colours.
BREAK = r"(?:\x1b\[[0-9;?]*[A-Za-z]|[\r\n ])*?"


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


class Terminal:
    """`llm-setup` on a pseudo-terminal: what it shows is awaited, and answered."""

    def __init__(self, child: Any) -> None:
        self.child = child
        self.shown = ""

    def sees(self, *texts: str) -> Terminal:
        """Wait for these texts, one after the other, wherever lines break."""
        for text in texts:
            pattern = BREAK.join(map(re.escape, text.replace(" ", "")))
            self.child.expect(pattern)
            self.shown += self.child.before + self.child.after
        return self

    def types(self, text: str) -> Terminal:
        self.child.send(text)
        return self

    def enter(self) -> Terminal:
        return self.types("\r")

    def escape(self) -> Terminal:
        return self.types("\x1b")

    def down(self, times: int = 1) -> Terminal:
        return self.types("\x1b[B" * times)

    def up(self, times: int = 1) -> Terminal:
        return self.types("\x1b[A" * times)

    def ends(self, code: int = 0) -> Terminal:
        """Wait for its end with this exit code."""
        self.child.expect(pexpect.EOF)
        self.shown += self.child.before
        self.child.wait()
        assert self.child.exitstatus == code, self.text[-3000:]
        return self

    def kill(self) -> None:
        """As `kill -9`."""
        self.child.kill(signal.SIGKILL)
        self.child.wait()

    @property
    def lines(self) -> list[str]:
        """Every line that was drawn, also those that were drawn over later."""
        return ANSI.sub("", re.sub(r"\x1b\[[0-9;?]*[A-DHJK]", "\n", self.shown)).replace("\r", "\n").split("\n")

    @property
    def text(self) -> str:
        """All that was shown, without what steers a terminal."""
        return ANSI.sub("", self.shown).replace("\r", "")


@pytest.fixture
def on_terminal(environment: dict[str, str], home: Path) -> Iterator[Callable[..., Terminal]]:
    """Start it on a pseudo-terminal of 80 by 24, or of so many columns."""
    started: list[Terminal] = []

    def start(*argv: str, columns: int = 80, **more: str) -> Terminal:
        child = pexpect.spawn(
            sys.executable,
            ["-m", "wizard", *argv],
            env={**environment, **more},
            cwd=str(home),
            dimensions=(24, columns),
            timeout=30,
            encoding="utf-8",
        )
        started.append(Terminal(child))
        return started[-1]

    yield start
    for terminal in started:
        terminal.child.close(force=True)


class Machine:
    """A machine with a stand-in vLLM and the small model; `behave` changes how the next start goes."""

    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        self.own = home / "own"
        self.vllm = home / "venv"
        self._mode = home / "mode"
        environment["STANDIN_MODE"] = str(self._mode)
        environment.pop("LLM_SETUP_API_KEY", None)
        lay_runtime(self.vllm, STANDIN)
        lay_model(self.own / "data" / "models" / "SmolLM2-135M-Instruct")

    def behave(self, mode: str) -> None:
        self._mode.write_text(mode)

    @property
    def record(self) -> dict[str, Any]:
        """What is remembered of the server."""
        found: dict[str, Any] = json.loads((self.own / "state/servers/local.json").read_text())
        return found

    @property
    def kept(self) -> Path:
        """Where the answers of a run that was left are."""
        return self.own / "state/init-answers.toml"

    def close(self) -> None:
        with suppress(OSError, ValueError):
            shutil.rmtree(self.record["sockets"], ignore_errors=True)
            os.killpg(self.record["pid"], signal.SIGKILL)


@pytest.fixture
def machine(home: Path, environment: dict[str, str]) -> Iterator[Machine]:
    made = Machine(home, environment)
    yield made
    made.close()
