"""What is said of a server that ended, where its log says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from wizard.effects.clock import Clock
from wizard.effects.files import Files
from wizard.effects.http import Http
from wizard.effects.paths import state_paths
from wizard.effects.world import World
from wizard.flows import serve
from wizard.serving.record import ServerRecord


@pytest.mark.parametrize(
    ("room_gib", "said", "code"),
    [
        pytest.param(0.0, "", "disk-space", id="it could not write"),
        pytest.param(None, "", "server-died", id="the system does not say"),
        pytest.param(5.0, "", "server-died", id="there is room"),
        pytest.param(0.0, "torch.OutOfMemoryError: CUDA out of memory.\n", "cuda-oom", id="its log knows better"),
    ],
)
def test_a_server_that_could_not_write_its_log_died_of_the_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room_gib: float | None, said: str, code: str
) -> None:
    monkeypatch.setattr(serve, "free_gib", lambda folder: room_gib)
    env = {"LLM_SETUP_HOME": str(tmp_path)}
    world = World(env, tmp_path, tmp_path, "linux", state_paths(env), Files(), Http(), Clock())
    log = tmp_path / "local.log"
    log.write_text(said)
    record = ServerRecord("local", 0, "", "127.0.0.1", 8000, "/m", "m", "", "0.32.0", ("x",), str(log), 0.0)
    assert serve.server_died(world, record).problem.code == code
