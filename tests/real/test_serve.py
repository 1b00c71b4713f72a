"""`serve` with a real vLLM: start, adopt, survive, stop; and each death named from its own log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

from wizard.effects.processes import Processes

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]
TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "nope")
DUMMY = ("--load-format", "dummy", "--enforce-eager")


@dataclass(frozen=True)
class Wizard:
    """The command line on a home of its own and one vLLM."""

    home: Path
    python: Path
    model: Path

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "wizard", *arguments],
            env=os.environ
            | {"LLM_SETUP_HOME": str(self.home), "LLM_SETUP_PLAIN": "1", "VLLM_WORKER_MULTIPROC_METHOD": "fork"}
            | env,
            capture_output=True,
            text=True,
            check=False,
            timeout=380,
        )

    def serve(self, *flags: str, before: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess[str]:
        """`serve --detach` of the tiny model; flags go to vLLM as they are."""
        given = ("serve", "--detach", "--vllm", str(self.python), "--model", str(self.model), *before)
        return self.run(*given, "--", *DUMMY, *flags, **env)

    @property
    def log(self) -> Path:
        return self.home / "state" / "servers" / "local.log"

    def record(self) -> dict:
        return json.loads(self.log.with_suffix(".json").read_text())

    def death_of_the_server(self, over: Event) -> float:
        """Waits for the server's process to begin and to end; the moment when it ended."""
        processes, pid = Processes(), 0
        while not over.is_set():
            if not pid:
                with suppress(OSError, ValueError):
                    pid = int(self.record()["pid"])
            elif not processes.identity(pid):
                return time.monotonic()
            time.sleep(0.05)
        raise TimeoutError("no server began, or it did not end")

    def state(self) -> str:
        rows = json.loads(self.run("status", "--json").stdout)["servers"]
        return rows[0]["state"] if rows else "none"


@pytest.fixture
def wizard(tmp_path: Path, vllm_runtime: Path, tiny_model: Callable[[str], Path]) -> Iterator[Wizard]:
    made = Wizard(tmp_path / "a home", vllm_runtime, tiny_model("dense"))
    yield made
    with suppress(OSError, ValueError):
        Processes().end_session(made.record()["pid"], patience_s=0)


def test_a_server_starts_is_adopted_outlives_its_engines_parent_and_stops(wizard: Wizard) -> None:
    started = wizard.serve()
    assert started.returncode == 0, started.stderr
    assert "load weights" in started.stdout
    assert "KV cache" in started.stdout
    record = wizard.record()
    assert record["max_model_len"]
    again = wizard.serve()
    assert "is running already" in again.stdout
    assert wizard.record() == record
    # Killed alone, vLLM's API process leaves its engine behind.
    os.kill(record["pid"], signal.SIGKILL)
    time.sleep(1)
    assert wizard.state() == "dead"
    stopped = wizard.run("stop")
    assert stopped.returncode == 0
    assert f"port {record['port']} is free" in stopped.stdout
    assert Processes().session_members(record["pid"]) == ()


@pytest.mark.parametrize(
    ("flags", "code", "fix"),
    [
        pytest.param(("--max-model-len", "1000000"), "max-model-len-too-large", "--max-model-len", id="context"),
        pytest.param(("--quantization", "awq"), "quantization-mismatch", "--quantization", id="quantisation"),
        pytest.param(("--enable-turbo-mode",), "bad-cli-argument", "--enable-turbo-mode", id="unknown flag"),
        pytest.param(("--num-gpu-blocks-override", "4"), "kv-cache-too-small", "--max-model-len", id="KV cache"),
        pytest.param(TOOLS, "parser-unknown", "--tool-call-parser", id="parser"),
        pytest.param(("--tensor-parallel-size", "4"), "tp-heads-not-divisible", "--tensor-parallel-size", id="TP"),
    ],
)
def test_a_death_is_named_with_its_remedy_within_two_seconds(
    wizard: Wizard, flags: tuple[str, ...], code: str, fix: str
) -> None:
    over = Event()
    with ThreadPoolExecutor(1) as pool:
        watch = pool.submit(wizard.death_of_the_server, over)
        ended = wizard.serve(*flags)
        until = time.monotonic()
        time.sleep(0.2)
        over.set()
    assert ended.returncode == 1, ended.stdout
    seconds = until - watch.result()
    assert f"[{code}]" in ended.stderr, ended.stderr
    assert fix in ended.stderr.partition("fix:")[2]
    assert seconds < 2
    assert Processes().session_members(wizard.record()["pid"]) == ()


def test_what_can_be_known_before_a_start_is_said_before_it(wizard: Wizard) -> None:
    begun = time.monotonic()
    for model, code, env in (
        ("/no/such/folder", "model-folder-missing", {}),
        ("no-such/model", "model-not-found", {"HF_HUB_OFFLINE": "1"}),
        (str(wizard.model), "not-enough-ram", {"VLLM_CPU_KVCACHE_SPACE": "4000"}),
    ):
        given = ("serve", "--detach", "--vllm", str(wizard.python), "--model", model)
        ended = wizard.run(*given, **env)
        assert ended.returncode in (1, 2)
        assert f"[{code}]" in ended.stderr, ended.stderr
    assert time.monotonic() - begun < 10
    assert not wizard.log.exists()


def test_with_yes_a_context_that_does_not_fit_is_made_to_fit(wizard: Wizard) -> None:
    ended = wizard.serve("--num-gpu-blocks-override", "4", before=("--yes",))
    assert ended.returncode == 0, ended.stderr
    assert "gives up" in ended.stdout
    assert wizard.record()["max_model_len"] <= 512
    assert wizard.run("stop").returncode == 0


def test_ctrl_c_while_the_engine_loads_leaves_nothing(wizard: Wizard) -> None:
    command = [sys.executable, "-m", "wizard", "serve", "--vllm", str(wizard.python), "--model", str(wizard.model)]
    env = os.environ | {"LLM_SETUP_HOME": str(wizard.home), "LLM_SETUP_PLAIN": "1"}
    with subprocess.Popen([*command, "--", *DUMMY], env=env, stdout=subprocess.PIPE, text=True) as starting:
        until = time.monotonic() + 200
        while not (wizard.log.exists() and "EngineCore" in wizard.log.read_text()):
            assert time.monotonic() < until
            time.sleep(0.2)
        pid = wizard.record()["pid"]
        starting.send_signal(signal.SIGINT)
        assert starting.wait(timeout=30) == 130
    assert Processes().session_members(pid) == ()
    assert wizard.state() == "none"
