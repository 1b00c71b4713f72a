"""The servers that llm-setup started: a record, a log and two locks for each name.

`NAME.json` is the record, `NAME.log` the log, `NAME.pid` what the process wrote about itself when it began.
`NAME.lock` is held by a run of llm-setup while it changes that server; `NAME.life` is held by the server itself, by a
descriptor that it inherits, so that the kernel says whether anything of it lives. Lock files stay; an unheld lock
says nothing, and removing one that another run just opened would let both in.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from wizard.effects import log_child
from wizard.effects.files import Files
from wizard.effects.processes import Processes
from wizard.effects.serverlog import cut_path
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, move_away
from wizard.serving.record import ServerRecord, parse_record

ROTATED_LOGS = 3
MAX_LOG_BYTES = 64 * 2**20
# A process notes its pid before anything else; how long that takes is a matter of how busy the machine is.
_PID_WAIT_S = 15.0
_SOCKETS = "llm-setup-server-"
_SHORT = 40


@dataclass(frozen=True, slots=True)
class Life:
    """What is left of a server's processes. alive: the server process itself; remains: others of its session."""

    alive: bool
    remains: tuple[int, ...] = ()


class ServerStore:
    """Reads, writes and locks the records in the servers folder."""

    def __init__(self, files: Files, processes: Processes, folder: Path) -> None:
        self._files = files
        self._processes = processes
        self.folder = folder

    def _path(self, name: str, suffix: str) -> Path:
        return self.folder / f"{name}.{suffix}"

    def log_path(self, name: str) -> Path:
        """Where a server's output goes."""
        return self._path(name, "log")

    def pid_path(self, name: str) -> Path:
        """Where a server's process writes its own pid when it begins."""
        return self._path(name, "pid")

    def names(self) -> tuple[str, ...]:
        """Names that have a record, sorted."""
        try:
            return tuple(sorted(path.stem for path in self.folder.glob("*.json")))
        except OSError:
            return ()

    def load(self, name: str) -> ServerRecord | None:
        """The record, or None. A record whose process was announced and not noted is completed from what the process
        wrote itself. One that does not parse is a problem, and is left alone."""
        raw = self._files.read_bytes(self._path(name, "json"))
        if raw is None:
            return None
        try:
            record = parse_record(json.loads(raw))
        except ValueError as error:
            raise ProblemError(
                Problem(
                    "state-file-broken",
                    t("The record of server `{name}` does not parse; it was left as it is.", name=name),
                    saw=(f"{self._path(name, 'json')}: {error}",),
                    fix=Fix(
                        t("Move it away. A server that still runs then has to be stopped by its pid."),
                        (move_away(self._path(name, "json")),),
                    ),
                )
            ) from error
        return self._completed(record) if record.pid == 0 else record

    def _completed(self, record: ServerRecord) -> ServerRecord:
        """The run that started this server has not noted the pid yet, or was killed before it could. The process notes
        it first of all; while it holds its life lock, what it noted is its own pid and no one else's. Once it ended,
        its pid still says which session was its: what it started may go on without it.

        Raises ProblemError where something lives and does not say its pid (a machine that is out of breath)."""
        until = time.monotonic() + _PID_WAIT_S
        while True:
            held = self.life_held(record.name)
            noted = self._files.read_bytes(self.pid_path(record.name)) or b""
            if noted.endswith(b"\n") and noted.strip().isdigit():
                pid = int(noted)
                started = self._processes.identity(pid) if held else ""
                return replace(record, pid=pid, pid_started=started or record.pid_started)
            if not held:
                return record
            if time.monotonic() >= until:
                raise ProblemError(_busy(record.name, self._path(record.name, "life")))
            time.sleep(0.05)

    def new_sockets(self, wanted: str) -> str:
        """A path for a server's folder of sockets, below the folder for temporary files that is wanted, where that is
        short enough: the address of a socket holds 107 characters (104 on macOS), and vLLM's names are 36 long."""
        fits = wanted and len(wanted) <= _SHORT and Path(wanted).is_dir() and os.access(wanted, os.W_OK | os.X_OK)
        base = wanted if fits else "/tmp"
        return str(Path(base, f"{_SOCKETS}{secrets.token_hex(4)}"))

    def announce(self, record: ServerRecord) -> None:
        """Write the record of a server that is about to begin, and make its folder of sockets. Its pid is not known,
        but in which run of the machine it will be. What the one before it left is removed."""
        self._clear_noted(record.name)
        if record.sockets:
            Path(record.sockets).mkdir(mode=0o700)
        self.save(replace(record, pid=0, pid_started=f"{self._processes.boot()}:"))

    def clear(self, record: ServerRecord) -> None:
        """Remove the sockets of a server that ended; vLLM leaves some of them even when it ends in order."""
        sockets = Path(record.sockets)
        if sockets.name.startswith(_SOCKETS):
            shutil.rmtree(sockets, ignore_errors=True)

    def _clear_noted(self, name: str) -> None:
        with contextlib.suppress(ValueError):
            self.clear(parse_record(json.loads(self._files.read_bytes(self._path(name, "json")) or b"")))

    def save(self, record: ServerRecord) -> None:
        """Write the record (private: it names paths and models)."""
        text = json.dumps(record.as_json(), indent=2, ensure_ascii=False)
        self._files.write_private(self._path(record.name, "json"), text.encode() + b"\n")

    def remove(self, name: str) -> None:
        """Forget a server that ended; its log stays."""
        self._clear_noted(name)
        self._files.remove(self._path(name, "json"))
        self._files.remove(self.pid_path(name))

    def life(self, record: ServerRecord) -> Life:
        """What of the server lives. While a member of its session lives, its pid is given to nobody else; a process
        with that pid and another beginning therefore means that nothing is left."""
        if record.pid <= 0:
            return Life(False)
        if self._processes.alive(record.pid, record.pid_started):
            others = tuple(pid for pid in self._processes.session_members(record.pid) if pid != record.pid)
            return Life(True, others)
        if self._processes.identity(record.pid) or not self._same_boot(record):
            return Life(False)
        return Life(False, self._processes.session_members(record.pid))

    def _same_boot(self, record: ServerRecord) -> bool:
        return self._processes.boot() == record.pid_started.partition(":")[0]

    @contextlib.contextmanager
    def changing(self, name: str, *, wait_s: float = 15.0) -> Iterator[None]:
        """Hold the right to start or stop the server of that name; a problem where another run has it too long."""
        descriptor = self._open(name, "lock")
        try:
            until = time.monotonic() + wait_s
            while not _try_lock(descriptor):
                if time.monotonic() >= until:
                    raise ProblemError(_busy(name, self._path(name, "lock")))
                time.sleep(0.05)
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def life_lock(self, name: str) -> Iterator[int]:
        """A locked descriptor for the server to inherit; our own copy is closed on leaving. Held for the caller to
        launch under `changing`, after it saw that nothing lives. A problem where it is held after all."""
        descriptor = self._open(name, "life")
        try:
            # A run that only asks holds it for an instant.
            for _ in range(20):
                if _try_lock(descriptor):
                    break
                time.sleep(0.05)
            else:
                raise ProblemError(_busy(name, self._path(name, "life")))
            yield descriptor
        finally:
            os.close(descriptor)

    def life_held(self, name: str) -> bool:
        """Whether any process holds the server's life lock."""
        if not self._path(name, "life").exists():
            return False
        descriptor = self._open(name, "life")
        try:
            return not _try_lock(descriptor)
        finally:
            os.close(descriptor)

    def rotate_log(self, name: str) -> Path:
        """Move the log of the run before aside (`.1` newest, at most three kept) and return the path of the new."""
        log = self.log_path(name)
        cut_path(log).unlink(missing_ok=True)
        if log.exists() and log.stat().st_size > 0:
            for number in range(ROTATED_LOGS, 0, -1):
                older = log.with_name(f"{log.name}.{number - 1}") if number > 1 else log
                if older.exists():
                    older.replace(log.with_name(f"{log.name}.{number}"))
        return log

    def keep_log_bounded(self, name: str, pid: int) -> None:
        """Leave a process beside the server that cuts its log when it grows over MAX_LOG_BYTES, and ends with it; where
        one is there already, the second ends at once."""
        child = [sys.executable, "-I", str(Path(log_child.__file__))]
        self._processes.leave([*child, str(self.log_path(name)), str(pid), str(MAX_LOG_BYTES), str(ROTATED_LOGS)])

    def _open(self, name: str, suffix: str) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        return os.open(self._path(name, suffix), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _busy(name: str, held: Path) -> Problem:
    return Problem(
        "server-busy",
        t("Another run of llm-setup is starting or stopping server `{name}`.", name=name),
        saw=(str(held),),
        fix=Fix(t("Wait for it, or use another name with `--name`."), ("llm-setup status",)),
    )


def _try_lock(descriptor: int) -> bool:
    import fcntl  # not on Windows, where no server is started

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
