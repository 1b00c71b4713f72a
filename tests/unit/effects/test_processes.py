"""Processes by pid and beginning, by session, and what is left when they are ended."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from wizard.effects.processes import Processes, interrupts_held, terminated_as_interrupt

ENV = dict(os.environ)
# Starts a child in a process group of its own, as some of vLLM's supervisors do, and waits.
PARENT = (
    "import os, subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], process_group=0)\n"
    "print(child.pid, flush=True)\ntime.sleep(60)\n"
)


def _launch(processes: Processes, folder: Path, *argv: str) -> int:
    descriptor = os.open(folder / "life", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        return processes.launch(argv, env=ENV, cwd=folder, log=folder / "log", pid_file=folder / "pid", hold=descriptor)
    finally:
        os.close(descriptor)


def _wait(holds, timeout_s: float = 10.0) -> None:
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def processes() -> Processes:
    return Processes()


def test_run_returns_output_and_exit_status(processes: Processes) -> None:
    ran = processes.run(
        [sys.executable, "-c", "import sys; print(input()); print('e', file=sys.stderr); sys.exit(3)"],
        env=ENV,
        timeout_s=20,
        text_in="hello\n",
    )
    assert (ran.code, ran.out, ran.err) == (3, "hello\n", "e\n")


def test_a_program_that_is_not_there_is_127(processes: Processes) -> None:
    assert processes.run(["/no/such/program"], env=ENV, timeout_s=5).code == 127
    lines: list[str] = []
    assert processes.stream(["/no/such/program"], env=ENV, on_line=lines.append) == 127
    assert lines


def test_run_ends_what_takes_too_long_with_its_children(processes: Processes, tmp_path: Path) -> None:
    begun = time.monotonic()
    ran = processes.run([sys.executable, "-c", PARENT], env=ENV, timeout_s=1)
    assert ran.code == 124
    assert time.monotonic() - begun < 10
    assert processes.identity(int(ran.out)) == ""


def test_stream_gives_lines_as_they_come_and_ends_them_at_carriage_returns(processes: Processes) -> None:
    lines: list[str] = []
    script = "import sys; sys.stdout.write('a\\r50%\\r\\nb\\n'); sys.stdout.flush(); sys.stderr.write('err')"
    assert processes.stream([sys.executable, "-c", script], env=ENV, on_line=lines.append) == 0
    assert lines == ["a", "50%", "b", "err"]


def test_a_stream_that_says_nothing_for_a_second_lets_others_speak(processes: Processes) -> None:
    said: list[str] = []
    script = "import time; print('a', flush=True); time.sleep(1.6); print('b')"
    processes.stream([sys.executable, "-c", script], env=ENV, on_line=said.append, on_quiet=lambda: said.append("…"))
    assert said == ["a", "…", "b"]


def test_an_interrupted_stream_leaves_no_process(processes: Processes) -> None:
    children: list[int] = []

    def interrupt(line: str) -> None:
        children.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        processes.stream([sys.executable, "-c", PARENT], env=ENV, on_line=interrupt)
    assert processes.identity(children[0]) == ""


def test_a_launched_process_notes_its_pid_writes_its_log_and_holds_the_lock(
    processes: Processes, tmp_path: Path
) -> None:
    pid = _launch(processes, tmp_path, sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)")
    try:
        _wait(lambda: (tmp_path / "log").read_text() == "up\n")
        assert int((tmp_path / "pid").read_text()) == pid
        assert processes.session_members(pid) == (pid,)
        with (tmp_path / "life").open() as life, pytest.raises(BlockingIOError):
            fcntl.flock(life, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        assert processes.end_session(pid, patience_s=0)
    with (tmp_path / "life").open() as life:
        fcntl.flock(life, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_alive_means_that_very_process(processes: Processes, tmp_path: Path) -> None:
    pid = _launch(processes, tmp_path, "sleep", "60")
    started = processes.identity(pid)
    assert processes.alive(pid, started)
    assert not processes.alive(pid, started + "0")
    assert not processes.alive(pid, "")
    os.kill(pid, signal.SIGKILL)
    _wait(lambda: not processes.alive(pid, started))
    assert processes.exit_code(pid) == -9


def test_a_session_is_ended_with_children_that_made_their_own_group(processes: Processes, tmp_path: Path) -> None:
    pid = _launch(processes, tmp_path, sys.executable, "-c", PARENT)
    _wait(lambda: (tmp_path / "log").read_text().endswith("\n"))
    child = int((tmp_path / "log").read_text())
    assert set(processes.session_members(pid)) == {pid, child}
    os.kill(pid, signal.SIGKILL)
    _wait(lambda: processes.session_members(pid) == (child,))
    assert processes.end_session(pid, patience_s=0)
    assert processes.identity(child) == ""


def test_term_is_asked_first_and_kill_follows(processes: Processes, tmp_path: Path) -> None:
    ignoring = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    pid = _launch(processes, tmp_path, sys.executable, "-c", ignoring)
    _wait(lambda: (tmp_path / "log").read_text() == "up\n")
    killed: list[bool] = []
    assert processes.end_session(pid, patience_s=0.4, on_kill=lambda: killed.append(True))
    assert killed == [True]


SHARING = """
import os, sys, time
from multiprocessing import resource_tracker, shared_memory
names = sys.argv[1:]
blocks = [shared_memory.SharedMemory(name, create=True, size=64) for name in names]
for block in blocks:
    resource_tracker.unregister(block._name, "shared_memory")
print("up", flush=True)
time.sleep(60)
"""


def test_shared_memory_goes_with_the_last_process_that_has_it(processes: Processes, tmp_path: Path) -> None:
    """Killed, a process gives none back, and the machine's memory with it: vLLM's are of 160 MiB and more."""
    own, both = f"psm_own{os.getpid()}", f"psm_both{os.getpid()}"
    pid = _launch(processes, tmp_path, sys.executable, "-c", SHARING, own, both)
    _wait(lambda: (tmp_path / "log").read_text() == "up\n")
    paths = [Path("/dev/shm", name) for name in (own, both)]
    try:
        with paths[1].open("r+b") as file, mmap.mmap(file.fileno(), 64):
            assert processes.end_session(pid, patience_s=0)
            assert [path.exists() for path in paths] == [False, True]
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def test_our_own_session_and_strange_numbers_are_never_ended(processes: Processes) -> None:
    for session in (0, 1, -1, os.getsid(0)):
        assert not processes.end_session(session, patience_s=0)


def test_term_and_hangup_interrupt_like_ctrl_c() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        with pytest.raises(KeyboardInterrupt), terminated_as_interrupt():
            os.kill(os.getpid(), number)
            time.sleep(5)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("while_inside", [terminated_as_interrupt, interrupts_held])
def test_a_hangup_that_is_ignored_interrupts_nothing(
    while_inside: Callable[[], AbstractContextManager[None]],
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with while_inside():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_that_is_held_comes_when_the_few_steps_are_done(number: int) -> None:
    before = signal.getsignal(number)
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        os.kill(os.getpid(), number)
        done.append("steps")
    assert done == ["steps"]
    assert signal.getsignal(number) is before


def test_what_is_started_while_interrupts_are_held_hears_them(tmp_path: Path) -> None:
    processes = Processes()
    with interrupts_held():
        pid = _launch(processes, tmp_path, "sleep", "60")
    try:
        os.kill(pid, signal.SIGINT)
        until = time.monotonic() + 10
        while processes.exit_code(pid) is None and time.monotonic() < until:
            time.sleep(0.02)
        assert processes.exit_code(pid) == -signal.SIGINT
    finally:
        processes.end_session(pid, patience_s=0)
