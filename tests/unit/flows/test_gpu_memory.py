"""GPU memory of a server: what the driver counts for its processes."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

from wizard.effects.clock import Clock
from wizard.effects.files import Files
from wizard.effects.http import Http
from wizard.effects.paths import state_paths
from wizard.effects.processes import Processes
from wizard.effects.world import World
from wizard.flows.held import without_server
from wizard.flows.serve import gpu_memory_of, stop_server
from wizard.hardware.machine import Cpu, Gpu, GpuProcess, Machine
from wizard.serving.record import ServerRecord
from wizard.ui.screen import Screen


class QuickClock(Clock):
    """Does not wait."""

    def sleep(self, seconds: float) -> None:
        pass


def _machine(*processes: GpuProcess) -> Machine:
    gpus = tuple(Gpu(n, "a gpu", "nvidia", 24.0, 4.0, processes=(process,)) for n, process in enumerate(processes))
    return Machine("linux", Cpu("c", "x86_64", 8), 32.0, 30.0, gpus)


def test_its_processes_count_on_all_gpus_and_others_do_not() -> None:
    machine = _machine(GpuProcess(10, 8.0), GpuProcess(11, 7.5), GpuProcess(99, 3.0), GpuProcess(10, None))
    assert gpu_memory_of(machine, (10, 11)) == 15.5


def test_without_gpus_or_processes_there_is_none() -> None:
    assert gpu_memory_of(_machine(), (10,)) == 0.0
    assert gpu_memory_of(_machine(GpuProcess(10, 8.0)), ()) == 0.0


def test_stopping_waits_until_the_driver_has_the_memory_back(tmp_path: Path) -> None:
    """The driver lists the ended process once more; then it is gone."""
    env = {"LLM_SETUP_HOME": str(tmp_path)}
    processes = Processes()
    world = World(env, tmp_path, tmp_path, "linux", state_paths(env), Files(), Http(), QuickClock(), processes)
    with world.servers.life_lock("local") as hold:
        pid = processes.launch(
            ["sleep", "60"],
            env={"PATH": "/usr/bin:/bin"},
            cwd=tmp_path,
            log=world.servers.log_path("local"),
            pid_file=world.servers.pid_path("local"),
            hold=hold,
        )
    record = ServerRecord(
        "local", pid, processes.identity(pid), "127.0.0.1", 9, "/m", "m", "", "0.32.0", ("x",), "/l", 0.0, build="cuda"
    )
    world.servers.save(record)
    looks = [_machine(GpuProcess(pid, 8.0)), _machine()]
    out = StringIO()
    assert stop_server(world, Screen(out=out, env={}, plain=True), "local", look=lambda _: looks.pop(0))
    assert looks == []
    assert "GPU memory is free" in out.getvalue()


def test_what_the_own_server_holds_counts_as_free_and_what_others_hold_does_not(tmp_path: Path) -> None:
    """By the processes of its record; a record whose server has ended frees nothing."""
    env = {"LLM_SETUP_HOME": str(tmp_path)}
    processes = Processes()
    world = World(env, tmp_path, tmp_path, "linux", state_paths(env), Files(), Http(), QuickClock(), processes)
    with world.servers.life_lock("local") as hold:
        pid = processes.launch(
            ["sleep", "60"],
            env={"PATH": "/usr/bin:/bin"},
            cwd=tmp_path,
            log=world.servers.log_path("local"),
            pid_file=world.servers.pid_path("local"),
            hold=hold,
        )
    record = ServerRecord(
        "local", pid, processes.identity(pid), "127.0.0.1", 9, "/m", "m", "", "0.32.0", ("x",), "/l", 0.0, build="cuda"
    )
    world.servers.save(record)
    machine = _machine(GpuProcess(pid, 8.0), GpuProcess(10**6 + 1, 3.0))
    try:
        freed, gib = without_server(world, machine, "local")
        assert gib == 8.0
        assert [gpu.memory_free_gib for gpu in freed.gpus] == [12.0, 4.0]
        assert [len(gpu.processes) for gpu in freed.gpus] == [0, 1]
        assert without_server(world, machine, "another") == (machine, 0.0)
        assert without_server(world, replace(machine, described=True), "local")[1] == 0.0
    finally:
        processes.end_session(pid, patience_s=5.0)
    assert without_server(world, machine, "local") == (machine, 0.0)
