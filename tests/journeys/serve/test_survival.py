"""Killed at any moment: what a later run finds is right, and nothing leaks."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from .conftest import Place, wait_until

# Twenty-one moments over the three victims.
MOMENTS = 7
STARTS = 500
AT_ONCE = 4


def _kill(pid: int) -> None:
    if pid > 0:  # 0 would be this test's own group
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _server_pid(place: Place) -> int:
    with suppress(OSError, ValueError):
        return int((place.servers / "local.pid").read_text())
    return 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", ["wizard", "server", "both"])
def test_status_and_serve_are_right_after_a_kill_at_a_random_moment(place: Place, victim: str) -> None:
    moments = random.Random(victim)
    for _ in range(MOMENTS):
        starting = place.start("serve", "--detach", "--vllm", str(place.vllm), standin="slow")
        time.sleep(moments.uniform(0.05, 2.5))
        if victim in ("wizard", "both"):
            starting.kill()
        if victim in ("server", "both"):
            _kill(_server_pid(place))
        starting.wait(timeout=30)
        state = place.state()
        if state in ("starting", "ready", "unhealthy"):
            # It may just have been forked, and on a busy machine take a while to note its pid.
            wait_until(lambda: _server_pid(place) in place.processes(), what="the server that is said to live")
        else:
            assert _server_pid(place) not in place.processes(), state
        again = place.serve(standin="ok")
        assert again.returncode == 0, again.stderr
        # One that cannot answer within three seconds, on a machine that is that busy, is said to be unhealthy.
        wait_until(lambda: place.state() == "ready", what="the server ready")
        assert len(place.processes()) == 2
        wait_until(lambda: len(place.log_keepers()) == 1, what="one keeper of its log")
        assert len(list(place.temporary.glob("*/standin-*"))) == 1
        stopped = place.run("stop", "--timeout", "5")
        assert stopped.returncode == 0, stopped.stderr
        assert place.processes() == []
        assert place.state() == "none"
        assert list(place.temporary.iterdir()) == []


@pytest.mark.timeout(1200)
def test_five_hundred_starts_and_stops_leave_nothing_and_grow_nothing(place: Place) -> None:
    from wizard.effects.clock import Clock
    from wizard.effects.files import Files
    from wizard.effects.http import Http
    from wizard.effects.paths import state_paths
    from wizard.effects.world import World
    from wizard.flows.runtime import given_runtime
    from wizard.flows.serve import start_server, stop_server
    from wizard.ui.screen import Screen

    env = place.env | {"STANDIN": "ok"}
    world = World(env, place.root, place.root, "linux", state_paths(env), Files(), Http(), Clock())
    runtime = given_runtime(world, str(place.vllm))
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(AT_ONCE)]
        ports = {f"server-{number}": each.getsockname()[1] for number, each in enumerate(taken)}

    def start_and_stop(name: str, times: int) -> None:
        port = ports[name]
        for _ in range(times):
            start_server(world, screen, runtime, name=name, model=str(place.home), arguments=(), port=port)
            assert stop_server(world, screen, name)

    def held() -> tuple[int, int, set[str]]:
        """Descriptors, KiB of memory, and files without the old logs, of which each server keeps three."""
        wait_until(lambda: not place.processes() and not place.log_keepers(), what="no process")
        memory = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
        assert memory
        files = {path.name for path in place.servers.iterdir()}
        return len(list(Path("/proc/self/fd").iterdir())), int(memory[1]), files

    with Path(os.devnull).open("w") as nowhere, ThreadPoolExecutor(AT_ONCE) as pool:
        screen = Screen(out=nowhere, err=nowhere, env={}, plain=True)
        for job in [pool.submit(start_and_stop, name, 5) for name in ports]:
            job.result()
        before = held()
        for job in [pool.submit(start_and_stop, name, STARTS // AT_ONCE - 5) for name in ports]:
            job.result()
        after = held()
    assert after[0] <= before[0]
    assert after[1] - before[1] < 20_000
    assert after[2] == before[2]
    assert len([name for name in after[2] if ".log." in name]) == 3 * AT_ONCE
    assert list(place.temporary.iterdir()) == []
