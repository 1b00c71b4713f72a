"""NVIDIA's driver library, asked at arm's length: by a child process with a time limit."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

CHILD = Path(__file__).with_name("nvml_child.py")


@dataclass(frozen=True, slots=True)
class ChildReading:
    """Lines a child printed, and how it ended; `text` is the end of its stderr."""

    lines: tuple[str, ...]
    ended: Literal["done", "timeout", "crashed", "not-started"]
    text: str = ""


class GpuReader(Protocol):
    """Something that reads a driver's library and is asked for the lines once."""

    def reading(self, time_limit_s: float) -> ChildReading:
        """What was read within `time_limit_s`."""
        ...


class Child:
    """A reader that works while its caller does other things. Start it early, ask for its lines late."""

    def __init__(self, script: Path, env: Mapping[str, str]) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._failure = ""
        try:
            # -P: its folder must not go first on the import path, where http.py would hide Python's own.
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**env},
                start_new_session=True,
            )
        except OSError as error:
            self._failure = str(error)

    def reading(self, time_limit_s: float) -> ChildReading:
        """Wait for the end, at most `time_limit_s`; then the child is killed and what it said so far is returned."""
        if self._process is None:
            return ChildReading((), "not-started", self._failure)
        process = self._process
        try:
            out, err = process.communicate(timeout=time_limit_s)
        except subprocess.TimeoutExpired as expired:
            out, err = expired.stdout or b"", expired.stderr or b""
            process.kill()
            # A process that hangs inside the kernel does not die of a signal; then it is left alone.
            with contextlib.suppress(subprocess.TimeoutExpired):
                out, err = process.communicate(timeout=0.5)
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()
            return ChildReading(_lines(out), "timeout", _tail(err))
        except BaseException:
            process.kill()
            raise
        return ChildReading(_lines(out), "done" if process.returncode == 0 else "crashed", _tail(err))


def _lines(out: bytes) -> tuple[str, ...]:
    return tuple(out.decode("utf-8", "replace").splitlines())


def _tail(err: bytes) -> str:
    return err.decode("utf-8", "replace").strip()[-400:]


def start_nvml(env: Mapping[str, str]) -> Child:
    """Begin to ask NVIDIA's library; see `parse_nvml` of wizard.hardware.nvidia for what comes back."""
    return Child(CHILD, env)


def start_amdsmi(env: Mapping[str, str]) -> Child:
    """Begin to ask AMD's library; see `parse_amdsmi` of wizard.hardware.amd for what comes back."""
    return Child(CHILD.with_name("amdsmi_child.py"), env)
