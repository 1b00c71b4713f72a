"""GPU memory and power as they change, read by a child process: a driver that hangs makes figures old, not us slow."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

CHILD = Path(__file__).with_name("gpu_watch_child.py")
_MOST_BYTES = 2**20


class GpuWatch:
    """A running child; `new_lines` gives what it printed since the last call, at once."""

    def __init__(self, env: Mapping[str, str], every_s: float) -> None:
        self._pending = b""
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(CHILD), f"{every_s:g}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**env},
                start_new_session=True,
            )
        if self._process and self._process.stdout:
            os.set_blocking(self._process.stdout.fileno(), False)

    def new_lines(self) -> tuple[str, ...]:
        """Whole lines that came since the last call; none where there is no driver."""
        if self._process is None or self._process.stdout is None:
            return ()
        raw = b""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._process.stdout.fileno(), 65536):
                raw += chunk
                if len(raw) > _MOST_BYTES:
                    break
        *whole, self._pending = (self._pending + raw).split(b"\n")
        return tuple(line.decode("utf-8", "replace") for line in whole)

    def close(self) -> None:
        """End the child; one that hangs inside the kernel is left alone."""
        if self._process is None:
            return
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.5)
        self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
