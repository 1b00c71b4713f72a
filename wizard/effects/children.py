"""Starting a client in the foreground, with a scratch folder that is gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wizard.effects.processes import handled

RUN_MARKER = "LLM_SETUP_RUN"
_LEFT_OVER_WAIT_S = 2.0
_STDERR = 2


@dataclass(frozen=True, slots=True)
class Ended:
    """How a client ended, with what it wrote where that was caught."""

    code: int
    out: str = ""
    err: str = ""
    timed_out: bool = False


@contextlib.contextmanager
def scratch_folder(env: Mapping[str, str]) -> Iterator[Path]:
    """A folder of our own (0700), removed at the end with all that came into it."""
    base = env.get("TMPDIR") or None
    folder = Path(tempfile.mkdtemp(prefix="llm-setup-run-", dir=base if base and Path(base).is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_in_foreground(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, *, out_to_stderr: bool = False
) -> Ended:
    """Give the client the terminal. Ctrl-C is the client's to answer; we only wait for it.

    out_to_stderr: what it prints goes to stderr, since stdout is kept for something else.

    A closed terminal (SIGHUP) or SIGTERM ends the waiting by SystemExit, so that what was made for the client is
    removed before we go.
    """
    with handled(_leave, "SIGHUP", "SIGTERM"), handled(_nothing, "SIGINT"):
        # A handler is not inherited: the client has the usual ones.
        child = subprocess.Popen(list(command), env=dict(env), cwd=cwd, stdout=_STDERR if out_to_stderr else None)
        code = child.wait()
    return Ended(128 - code if code < 0 else code)


def _leave(number: int, _: object) -> None:
    # Only once: a second signal must not cut the clearing up.
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _nothing(number: int, _: object) -> None:
    """The client has heard it, too."""


def run_captured(command: Sequence[str], env: Mapping[str, str], cwd: Path, timeout_s: float) -> Ended:
    """Run a client headless, without a terminal, and catch what it says."""
    child = subprocess.Popen(
        list(command),
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=timeout_s)
        timed_out = False
    except subprocess.TimeoutExpired:
        timed_out = True
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
    return Ended(child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), timed_out)


def end_left_overs(marker: str) -> int:
    """End daemons that a client started and left (Codex, Cline), known by the marker in their environment; how many.

    Only where `/proc` shows environments; elsewhere none are found.
    """
    found = _marked(marker)
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _LEFT_OVER_WAIT_S
    while (left := _marked(marker)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def _marked(marker: str) -> list[int]:
    wanted = f"{RUN_MARKER}={marker}".encode()
    found: list[int] = []
    proc = Path("/proc")
    if not proc.is_dir():
        return found
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if (
                wanted in (entry / "environ").read_bytes().split(b"\0")
                and (entry / "stat").read_text().split()[2] != "Z"
            ):
                found.append(int(entry.name))
        except (OSError, IndexError):
            continue
    return found
