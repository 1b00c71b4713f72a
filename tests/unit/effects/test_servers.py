"""Records of servers: what lives, what was announced only, and who may change it."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from wizard.effects import servers
from wizard.effects.files import Files
from wizard.effects.processes import Processes
from wizard.effects.servers import ROTATED_LOGS, ServerStore
from wizard.problems import ProblemError
from wizard.serving.record import ServerRecord


@pytest.fixture
def store(tmp_path: Path) -> ServerStore:
    return ServerStore(Files(), Processes(), tmp_path / "servers")


def _record(name: str = "default", pid: int = 0, started: str = "") -> ServerRecord:
    return ServerRecord(name, pid, started, "127.0.0.1", 8000, "/m", "m", "", "0.32.0", ("x",), "/l", 0.0)


def _launch(
    store: ServerStore, processes: Processes, command: Sequence[str] = ("sleep", "60"), name: str = "default"
) -> int:
    with store.life_lock(name) as hold:
        return processes.launch(
            command,
            env=dict(os.environ),
            cwd=Path("/"),
            log=store.log_path(name),
            pid_file=store.pid_path(name),
            hold=hold,
        )


def test_no_folder_is_no_servers_and_nothing_is_made_by_looking(store: ServerStore) -> None:
    assert store.names() == ()
    assert store.load("default") is None
    assert not store.life_held("default")
    assert not store.folder.exists()


def test_a_record_is_private_and_read_back(store: ServerStore) -> None:
    store.save(_record(pid=5, started="b:1"))
    assert store.load("default") == _record(pid=5, started="b:1")
    assert (store.folder / "default.json").stat().st_mode & 0o077 == 0
    assert store.names() == ("default",)
    store.remove("default")
    assert store.names() == ()


def test_a_start_that_was_killed_before_it_noted_the_pid_is_completed(store: ServerStore) -> None:
    processes = Processes()
    store.announce(_record())
    announced = (store.folder / "default.json").read_bytes()
    pid = _launch(store, processes)
    try:
        loaded = store.load("default")
        assert loaded is not None
        assert loaded.pid == pid
        assert store.life(loaded).alive
        # Another run may be changing it meanwhile: looking writes nothing.
        assert (store.folder / "default.json").read_bytes() == announced
    finally:
        processes.end_session(pid, patience_s=0)


def test_an_announced_start_without_a_process_is_dead_at_once(store: ServerStore) -> None:
    store.announce(_record())
    for noted in ("", f"{os.getpid()}\n"):
        store.pid_path("default").write_text(noted)
        begun = time.monotonic()
        loaded = store.load("default")
        assert loaded is not None
        life = store.life(loaded)
        assert (life.alive, life.remains) == (False, ())
        assert time.monotonic() - begun < 0.5


def test_what_an_announced_server_left_is_found_when_its_own_process_is_gone(store: ServerStore) -> None:
    processes = Processes()
    store.announce(_record())
    pid = _launch(store, processes, command=["sh", "-c", "sleep 60 & wait"])
    try:
        loaded = store.load("default")
        assert loaded is not None
        while len(processes.session_members(pid)) < 2:
            time.sleep(0.02)
        os.kill(pid, 9)
        while store.life(loaded).alive:
            time.sleep(0.02)
        later = store.load("default")
        assert later is not None
        life = store.life(later)
        assert (life.alive, len(life.remains)) == (False, 1)
        assert store.life(replace(later, pid_started="another-boot:")).remains == ()
    finally:
        processes.end_session(pid, patience_s=0)


def test_what_lives_and_has_not_said_its_pid_is_never_called_dead(
    store: ServerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_PID_WAIT_S", 0.2)
    store.announce(_record())
    with store.life_lock("default"):
        for written in (None, "", "12"):
            if written is not None:
                store.pid_path("default").write_text(written)
            with pytest.raises(ProblemError) as caught:
                store.load("default")
            assert caught.value.problem.code == "server-busy"


def test_a_living_server_holds_its_life_and_a_second_cannot_begin(store: ServerStore) -> None:
    processes = Processes()
    pid = _launch(store, processes)
    try:
        assert store.life_held("default")
        with pytest.raises(ProblemError) as caught, store.life_lock("default"):
            pass
        assert caught.value.problem.code == "server-busy"
    finally:
        processes.end_session(pid, patience_s=0)
    assert not store.life_held("default")


def test_a_server_whose_sockets_have_no_place_is_not_announced(store: ServerStore) -> None:
    with pytest.raises(OSError):
        store.announce(replace(_record("one"), sockets="/proc/llm-setup-server-0"))
    assert store.load("one") is None


def test_a_servers_sockets_lie_in_a_short_folder_that_goes_with_it(store: ServerStore, tmp_path: Path) -> None:
    assert store.new_sockets(str(tmp_path)).startswith("/tmp/llm-setup-server-")
    assert store.new_sockets("/no/such").startswith("/tmp/llm-setup-server-")
    first, second = (replace(_record("one"), sockets=store.new_sockets("")) for _ in range(2))
    try:
        for record in (first, second):
            store.announce(record)
            assert stat.S_IMODE(Path(record.sockets).stat().st_mode) == 0o700
            Path(record.sockets, "a-socket").touch()
        assert not Path(first.sockets).exists()
        store.remove("one")
        assert not Path(second.sockets).exists()
        # Never what is no folder of ours.
        store.save(replace(first, sockets=str(tmp_path)))
        store.remove("one")
        assert tmp_path.exists()
    finally:
        for record in (first, second):
            shutil.rmtree(record.sockets, ignore_errors=True)


def test_a_pid_that_another_process_has_now_is_nobody(store: ServerStore) -> None:
    me = Processes().identity(os.getpid())
    record = _record(pid=os.getpid(), started=me)
    assert store.life(record).alive
    life = store.life(replace(record, pid_started=me + "0"))
    assert (life.alive, life.remains) == (False, ())


def test_one_run_at_a_time_changes_a_server(store: ServerStore) -> None:
    with store.changing("default"):
        with pytest.raises(ProblemError) as caught, store.changing("default", wait_s=0.1):
            pass
        assert caught.value.problem.code == "server-busy"
        with store.changing("other", wait_s=0.1):
            pass
    with store.changing("default", wait_s=0.1):
        pass


def test_a_lock_ends_with_its_holder(store: ServerStore) -> None:
    store.folder.mkdir(parents=True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        descriptor = os.open(store.folder / "default.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(writing, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(reading, 1)
    os.kill(child, 9)
    os.waitpid(child, 0)
    with store.changing("default", wait_s=1):
        pass
    os.close(reading)
    os.close(writing)


def test_a_broken_record_is_left_alone(store: ServerStore) -> None:
    store.folder.mkdir(parents=True)
    (store.folder / "default.json").write_text("{")
    with pytest.raises(ProblemError) as caught:
        store.load("default")
    assert caught.value.problem.code == "state-file-broken"
    assert (store.folder / "default.json").read_text() == "{"


def test_old_logs_are_kept_in_a_bounded_number(store: ServerStore) -> None:
    store.folder.mkdir(parents=True)
    for run in range(6):
        store.rotate_log("default").write_text(f"run {run}")
    logs = sorted(path.name for path in store.folder.glob("default.log*"))
    assert logs == ["default.log", *(f"default.log.{n}" for n in range(1, ROTATED_LOGS + 1))]
    assert (store.folder / "default.log.1").read_text() == "run 4"
