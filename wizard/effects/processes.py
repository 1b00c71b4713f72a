"""Processes: run one and read its lines, start one that outlives us, ask whether one still lives, end one with all
that it started.

A process is named by its pid together with an opaque word for when it began, because pids are used again. A server
is launched as the leader of a session of its own; what it starts stays in that session, even when a part of it makes
its own process group, and the kernel does not give the leader's pid to anything else while one member lives.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PROC = Path("/proc")
# proc_pid_maps(5): the last field of a line; what is removed already ends in " (deleted)".
_SHARED = re.compile(r"(/dev/shm/(?:psm_|sem\.mp-)\S+)$", re.MULTILINE)
# Of a signal: its number and the frame that it interrupted.
Handler = Callable[[int, object], None]

# The child writes its own pid before it becomes the command, so that whoever looks later finds it even when the
# starter was killed between the two. `exec` keeps the pid. One small write: who reads sees all of it, or nothing yet.
_LAUNCHER = 'echo "$$" >"$0" && exec "$@"'


# Children are the whole process's, whoever asks for them: launched and running, and exit statuses of those that ended.
_running: dict[int, subprocess.Popen[bytes]] = {}
_ended: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class Ran:
    """A process that ended. code: exit status, negative for a signal, 127 where it could not be started, 124 where it
    ran past its time. out holds stdout, err stderr."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class _Seen:
    pid: int
    started: str
    session: int
    zombie: bool
    cpu_ticks: int = 0


class Processes:
    """This machine's processes."""

    def __init__(self) -> None:
        self._boot = ""

    # --- running something to its end

    def which(self, name: str, env: Mapping[str, str]) -> str | None:
        """The path of a program, by the PATH of the given environment."""
        return shutil.which(name, path=env.get("PATH"))

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout_s: float,
        cwd: Path | None = None,
        text_in: str = "",
    ) -> Ran:
        """Run to the end and return what it wrote; killed with its children after timeout_s. Never raises OSError."""
        try:
            process = subprocess.Popen(
                list(argv),
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return Ran(127, "", f"{type(error).__name__}: {error}")
        try:
            out, err = process.communicate(text_in.encode(), timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self._kill_session(process.pid)
            out, err = process.communicate()
            return Ran(124, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
        except BaseException:
            self._kill_session(process.pid)
            process.wait()
            raise
        return Ran(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def stream(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        on_line: Callable[[str], None],
        cwd: Path | None = None,
        on_quiet: Callable[[], None] | None = None,
    ) -> int:
        """Run to the end, giving each line of stdout and stderr as it comes; returns the exit status.

        on_quiet: called for each second in which nothing came.

        Whatever leaves this function early (Ctrl-C, an error in on_line) takes the process and its children along.
        A carriage return ends a line too, so that progress bars arrive. 127 where the program could not be started.
        """
        try:
            process = subprocess.Popen(
                list(argv),
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            on_line(f"{type(error).__name__}: {error}")
            return 127
        assert process.stdout is not None
        try:
            with process.stdout as out:
                for line in _lines(out, on_quiet):
                    on_line(line)
            return process.wait()
        except BaseException:
            self._kill_session(process.pid)
            process.wait()
            raise

    # --- starting something that outlives us

    def launch(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        pid_file: Path,
        hold: int,
    ) -> int:
        """Start a process in a session of its own with its output appended to `log`; returns its pid.

        `hold` is a file descriptor that the process keeps open (a lock that says it lives). Raises OSError.
        """
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _LAUNCHER, str(pid_file), *argv],
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
                pass_fds=(hold,),
            )
        finally:
            os.close(descriptor)
        _running[process.pid] = process
        _ended.pop(process.pid, None)
        return process.pid

    def leave(self, argv: Sequence[str]) -> None:
        """Start a process that outlives us and is nobody's to wait for, in a session of its own, without input or
        output. Raises OSError."""
        subprocess.run(
            ["/bin/sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh", *argv],
            cwd="/",
            start_new_session=True,
            check=False,
        )

    def exit_code(self, pid: int) -> int | None:
        """The exit status of a process that this run launched, once it ended; None while it runs or for any other."""
        child = _running.get(pid)
        code = child.poll() if child else None
        if code is not None:
            del _running[pid]
            _ended[pid] = code
        return _ended.get(pid)

    # --- asking

    def identity(self, pid: int) -> str:
        """The opaque word for when the process began; empty where there is none, or only its unreaped remains."""
        if pid <= 0:
            return ""
        self.exit_code(pid)
        seen = self._look(pid)
        return seen.started if seen and not seen.zombie else ""

    def boot(self) -> str:
        """The opaque word for this run of the machine, with which the identities of all its processes begin."""
        return self.identity(os.getpid()).partition(":")[0]

    def alive(self, pid: int, started: str) -> bool:
        """Whether that very process lives."""
        return bool(started) and self.identity(pid) == started

    def session_members(self, session: int) -> tuple[int, ...]:
        """Living processes of a session, its leader among them."""
        return tuple(seen.pid for seen in self._all() if seen.session == session and not seen.zombie)

    def session_cpu_s(self, session: int) -> float:
        """CPU seconds that a session's living processes have used; grows while it works. 0 where not known."""
        ticks = sum(seen.cpu_ticks for seen in self._all() if seen.session == session)
        return ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0

    # --- ending

    def end_session(self, session: int, *, patience_s: float, on_kill: Callable[[], None] | None = None) -> bool:
        """Ask every process of the session to end (TERM to the leader first, so that it ends its own children in
        order), wait, then kill what is left. Returns whether nothing is left. 0 patience kills at once.

        A process that is killed leaves the shared memory that it would have given back: it is removed, too.
        """
        if session <= 1 or session == os.getsid(0):
            return False
        shared = self._shared_memory(self.session_members(session))
        ended = self._ended_in_order(session, patience_s) if patience_s > 0 else False
        if not ended:
            if on_kill and patience_s > 0:
                on_kill()
            self._kill_session(session)
            ended = self._gone(session, 10.0)
        left = {path for path in shared if path.exists()}
        if ended and left:
            for path in left - self._shared_memory(seen.pid for seen in self._all()):
                path.unlink(missing_ok=True)
        return ended

    def _ended_in_order(self, session: int, patience_s: float) -> bool:
        if self.identity(session):
            self._signal((session,), signal.SIGTERM)
            if self._gone(session, patience_s * 0.8):
                return True
        self._signal(self.session_members(session), signal.SIGTERM)
        return self._gone(session, patience_s * 0.2)

    def _shared_memory(self, pids: Iterable[int]) -> set[Path]:
        """Files of shared memory and semaphores, as Python names them, that these processes have mapped; none where
        there is no /proc."""
        found: set[Path] = set()
        for pid in pids:
            with contextlib.suppress(OSError):
                maps = PROC.joinpath(str(pid), "maps").read_text(errors="replace")
                found |= {Path(name) for name in _SHARED.findall(maps)}
        return found

    def _kill_session(self, session: int) -> None:
        # A process that forks while we look escapes one round; it cannot escape for ever, because its parent is gone.
        for _ in range(20):
            members = [pid for pid in self.session_members(session) if pid != os.getpid()]
            if not members:
                return
            self._signal(members, signal.SIGKILL)
            time.sleep(0.02)

    def _gone(self, session: int, wait_s: float) -> bool:
        until = time.monotonic() + wait_s
        while True:
            if not self.session_members(session):
                self.exit_code(session)
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)

    def _signal(self, pids: Sequence[int], number: int) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    # --- looking

    def _look(self, pid: int) -> _Seen | None:
        if PROC.joinpath("self", "stat").exists():
            return self._look_proc(pid)
        return next((seen for seen in self._ps(pid)), None)

    def _all(self) -> Iterator[_Seen]:
        if PROC.joinpath("self", "stat").exists():
            for entry in PROC.iterdir():
                if entry.name.isdigit():
                    seen = self._look_proc(int(entry.name))
                    if seen:
                        yield seen
            return
        yield from self._ps(None)

    def _look_proc(self, pid: int) -> _Seen | None:
        """proc_pid_stat(5): after the name in parentheses, which may hold anything, field 3 is the state."""
        try:
            raw = PROC.joinpath(str(pid), "stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return None
        fields = raw.rpartition(b")")[2].split()
        if not self._boot:
            with contextlib.suppress(OSError):
                self._boot = PROC.joinpath("sys/kernel/random/boot_id").read_text().strip()
        return _Seen(
            pid=pid,
            started=f"{self._boot}:{int(fields[19])}",
            session=int(fields[3]),
            zombie=fields[0] in (b"Z", b"X"),
            cpu_ticks=int(fields[11]) + int(fields[12]),
        )

    def _ps(self, pid: int | None) -> Iterator[_Seen]:
        """Where there is no /proc (macOS, BSD): `ps`, with the process group in place of the session."""
        which = ["-p", str(pid)] if pid is not None else ["-ax"]
        ran = subprocess.run(
            ["ps", *which, "-o", "pid=,pgid=,stat=,lstart="], capture_output=True, text=True, check=False
        )
        for line in ran.stdout.splitlines():
            parts = line.split(None, 3)
            if len(parts) == 4:
                yield _Seen(int(parts[0]), parts[3].strip(), int(parts[1]), parts[2].startswith("Z"))


def _lines(out: IO[bytes], on_quiet: Callable[[], None] | None) -> Iterator[str]:
    """Lines as they come, ended by a newline or a carriage return; a line without end comes in pieces."""
    pending = b""
    while True:
        while on_quiet and not select.select([out], [], [], 1.0)[0]:
            on_quiet()
        chunk = os.read(out.fileno(), 65536)
        if not chunk:
            break
        *whole, pending = (pending + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
        if len(pending) > 65536:
            yield pending.decode("utf-8", "replace")
            pending = b""
    if pending:
        yield pending.decode("utf-8", "replace")


@contextlib.contextmanager
def handled(handler: Handler, *names: str) -> Iterator[None]:
    """While inside, these signals go to the handler; what `nohup` had us ignore stays ignored, and one that this
    system does not have is left out. A thread hears no signals: there, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, kept in before.items():
            signal.signal(number, kept)


@contextlib.contextmanager
def terminated_as_interrupt() -> Iterator[None]:
    """While inside, TERM and HUP (a closed terminal) interrupt as Ctrl-C does, so that what was begun is ended."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    with handled(interrupt, "SIGTERM", "SIGHUP"):
        yield


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """While inside, INT, TERM and HUP wait; one that came interrupts at the end. For the few steps between which what
    was begun is known to nobody. A process started inside has the usual handlers."""
    came: list[int] = []
    with handled(lambda number, _: came.append(number), "SIGINT", "SIGTERM", "SIGHUP"):
        yield
    if came:
        raise KeyboardInterrupt
