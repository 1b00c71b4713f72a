"""Killed at any moment: what a later run finds is right, and nothing leaks.

`LLM_SETUP_TEST_ROUNDS` multiplies how often (1 by default: a few seconds).
"""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from .conftest import Place, wait_until

ROUNDS = int(os.environ.get("LLM_SETUP_TEST_ROUNDS", "1"))


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
    for _ in range(3 * ROUNDS):
        starting = place.start("serve", "--detach", "--vllm", str(place.vllm), standin="slow")
        time.sleep(moments.uniform(0.05, 2.5))
        if victim in ("wizard", "both"):
            starting.kill()
        if victim in ("server", "both"):
            _kill(_server_pid(place))
        starting.wait(timeout=30)
        # A process that was just forked shows itself within a moment.
        time.sleep(0.1)
        living = bool(_server_pid(place)) and _server_pid(place) in place.processes()
        assert (place.state() in ("starting", "ready", "unhealthy")) == living
        again = place.serve(standin="ok")
        assert again.returncode == 0, again.stderr
        assert place.state() == "ready"
        assert len(place.processes()) == 2
        stopped = place.run("stop", "--timeout", "5")
        assert stopped.returncode == 0, stopped.stderr
        assert place.processes() == []
        assert place.state() == "none"


@pytest.mark.timeout(1200)
def test_many_starts_and_stops_leave_nothing_and_grow_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from wizard.effects.clock import Clock
    from wizard.effects.files import Files
    from wizard.effects.http import Http
    from wizard.effects.paths import state_paths
    from wizard.effects.ports import free_port
    from wizard.effects.world import World
    from wizard.flows.runtime import given_runtime
    from wizard.flows.serve import start_server, stop_server
    from wizard.ui.screen import Screen

    env = place.env | {"STANDIN": "ok"}
    world = World(env, place.root, place.root, "linux", state_paths(env), Files(), Http(), Clock())
    runtime = given_runtime(world, str(place.vllm))
    with Path(os.devnull).open("w") as nowhere:
        screen = Screen(out=nowhere, err=nowhere, env={}, plain=True)
        files: set[str] = set()
        memory = 0
        for number in range(5 * ROUNDS):
            port = free_port("127.0.0.1")
            start_server(world, screen, runtime, name="local", model=str(place.home), arguments=(), port=port)
            assert stop_server(world, screen, "local")
            descriptors = len(list(Path("/proc/self/fd").iterdir()))
            if number == 2:
                files = {path.name for path in place.servers.iterdir()}
                memory, first_descriptors = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, descriptors
    assert place.processes() == []
    grown = {path.name for path in place.servers.iterdir()} - files
    assert all(name.startswith("local.log.") for name in grown)
    assert len(list(place.servers.glob("*.log.*"))) <= 3
    assert descriptors <= first_descriptors
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 20_000
    wait_until(lambda: not place.processes(), what="no process")
