"""Starting programs in a known environment, with a time limit, and finding every process that they left."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# In the environment of everything started here; children and daemons inherit it, whatever session they make.
MARK_NAME = "LLM_SETUP_TEST_MARK"
MARK = uuid.uuid4().hex
# What everything started here printed since the leak test last took it.
PRINTED: list[str] = []


@dataclass(frozen=True, slots=True)
class Ended:
    """What a program printed and how it ended; code None: it was stopped at its time limit."""

    code: int | None
    stdout: str
    stderr: str
    seconds: float

    @property
    def text(self) -> str:
        """All output, for assertions and their messages."""
        return f"exit {self.code} after {self.seconds:.1f} s\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def environment(home: Path, path: Sequence[Path] = (), **more: str) -> dict[str, str]:
    """A login's environment in `home` and nothing else of the developer's: no keys, proxies or settings leak in."""
    kept = {name: os.environ[name] for name in ("SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    found = os.pathsep.join([*(str(folder) for folder in path), "/usr/local/bin", "/usr/bin", "/bin"])
    return {
        **kept,
        "HOME": str(home),
        "PATH": found,
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "SHELL": "/bin/bash",
        "USER": "someone",
        MARK_NAME: MARK,
        **more,
    }


def run(
    command: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path, within_s: float, given: str | None = None
) -> Ended:
    """Run to the end, or stop its whole process group at the limit. Output goes through files, not pipes: a daemon
    that a client leaves behind would hold a pipe open."""
    out, err = cwd.parent / f".out-{uuid.uuid4().hex}", cwd.parent / f".err-{uuid.uuid4().hex}"
    begun = time.monotonic()
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        try:
            process.communicate(None if given is None else given.encode(), timeout=within_s)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            code = None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    seconds = time.monotonic() - begun
    printed = [path.read_text(encoding="utf-8", errors="replace") for path in (out, err)]
    out.unlink(), err.unlink()
    PRINTED.extend(printed)
    return Ended(code, *printed, seconds)


def marked() -> dict[int, str]:
    """Living processes that carry our mark, and all in a session with one: pid -> command line. vLLM's engine rewrites
    its title over its environment, so that only its session tells whose it is."""
    sessions: dict[int, list[int]] = {}
    ours: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            session = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
            sessions.setdefault(session, []).append(int(folder.name))
            if f"{MARK_NAME}={MARK}".encode() in (folder / "environ").read_bytes():
                ours.add(session)
        except OSError:
            continue  # it ended meanwhile, or is not ours
    ours.discard(os.getsid(0))
    return {pid: _command_line(pid) for session in ours for pid in sessions[session]}


def _command_line(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode(errors="replace")


def end_marked(but: frozenset[int] = frozenset()) -> dict[int, str]:
    """Kill what is left with our mark, except `but`; returns what that was."""
    left = {pid: line for pid, line in marked().items() if pid not in but}
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


def free_port() -> int:
    """A port on loopback that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
