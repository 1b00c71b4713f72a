"""Starting a real vLLM on loopback, for tests that need one with exact flags."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .installing import cache_folder
from .processes import Ended, environment, free_port, run

START_LIMIT_S = 240
# The CPU build: no downloads, no usage report, a KV cache of 1 GiB (else it takes nearly all memory). The cache folder
# keeps what vLLM finds out about a model's class, in a process of its own, at its first start.
CPU_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "fork",
    "VLLM_CACHE_ROOT": str(cache_folder() / "vllm"),
}


class ServerDied(RuntimeError):
    """The server ended while it started; its log is the message."""


@dataclass(frozen=True, slots=True)
class RealServer:
    """A vLLM that listens on loopback. root: its URL without `/v1`. pid: it leads a group of its own; 0 where the
    wizard started it, and stops it."""

    root: str
    model: str
    key: str
    pid: int
    log: Path

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes."""
        return f"{self.root}/v1"

    @property
    def printed(self) -> str:
        """The log so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


class Nursery:
    """The process that forks servers; see vllm_forks.py."""

    def __init__(self, python: Path, work: Path) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self._one_at_a_time = threading.Lock()
        with (work / "nursery.log").open("wb") as log:
            self._process = subprocess.Popen(
                [python, Path(__file__).with_name("vllm_forks.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(work, [python.parent], **CPU_ENVIRONMENT),
                cwd=work,
                start_new_session=True,
            )

    def fork(self, arguments: Sequence[str], env: dict[str, str], log: Path) -> int:
        """A new server's pid."""
        assert self._process.stdin and self._process.stdout
        order = json.dumps({"arguments": list(arguments), "env": env, "log": str(log)})
        with self._one_at_a_time:
            print(order, file=self._process.stdin, flush=True)
            return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and every server of its that still runs."""
        self._process.communicate()


def start_vllm(
    nursery: Nursery, folder: Path, work: Path, *, key: str = "", served_name: str = "", arguments: Sequence[str] = (),
    env: dict[str, str] | None = None, wait: bool = True,
) -> RealServer:  # fmt: skip
    """Start `folder`'s model; with `wait`, return when it answers. Raises ServerDied, or TimeoutError after 4 min."""
    port = free_port()
    work.mkdir(parents=True, exist_ok=True)
    log = work / f"vllm-{port}.log"
    name = served_name or folder.name
    flags = ["--model", str(folder), "--host", "127.0.0.1", "--port", str(port), "--served-model-name", name]
    secret = {"VLLM_API_KEY": key} if key else {}
    server_environment = environment(work, **CPU_ENVIRONMENT, **secret, **(env or {}))
    pid = nursery.fork([*flags, "--enforce-eager", *arguments], server_environment, log)
    server = RealServer(f"http://127.0.0.1:{port}", name, key, pid, log)
    if wait:
        try:
            wait_for(server)
        except BaseException:
            stop_vllm(server)
            raise
    return server


def wait_for(server: RealServer) -> None:
    """Return when it answers. Raises ServerDied, or TimeoutError after 4 min."""
    deadline = time.monotonic() + START_LIMIT_S
    while not answers(server.root):
        if not alive(server.pid):
            raise ServerDied(f"vLLM ended:\n{server.printed[-6000:]}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"vLLM did not answer within {START_LIMIT_S} s:\n{server.printed[-6000:]}")
        time.sleep(0.5)


def answers(root: str) -> bool:
    """Whether /health says that the engine runs."""
    try:
        with urllib.request.urlopen(f"{root}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def alive(group: int) -> bool:
    """Whether a process group has a member."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def stop_vllm(server: RealServer) -> None:
    """End its process group: ask, wait, kill; returns when all of it is gone."""
    if not server.pid:
        raise ValueError("the wizard stops what the wizard started")
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not alive(server.pid):
            return
        os.killpg(server.pid, number)
        deadline = time.monotonic() + 10
        while alive(server.pid) and time.monotonic() < deadline:
            time.sleep(0.1)


def serve_by_wizard(
    python: Path, model: Path, home: Path, *, key_file: Path, served_name: str, arguments: Sequence[str]
) -> RealServer:
    """`llm-setup serve --detach`, its state in `home`. Raises ServerDied with what it said."""
    port = free_port()
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "wizard", "serve", model, "--detach", "--yes", "--name", "real"]
    command += ["--vllm", python.parent.parent, "--port", str(port), "--api-key-file", key_file]
    command += ["--", "--served-model-name", served_name, "--enforce-eager", *arguments]
    ended = run(command, env=wizard_environment(home), cwd=home, within_s=2 * START_LIMIT_S)
    if ended.code != 0:
        raise ServerDied(ended.text)
    log = home / "state" / "servers" / "real.log"
    return RealServer(f"http://127.0.0.1:{port}", served_name, key_file.read_text(), 0, log)


def stop_by_wizard(home: Path) -> Ended:
    """`llm-setup stop --all` for what `serve_by_wizard` started in `home`."""
    return run([sys.executable, "-m", "wizard", "stop", "--all"], env=wizard_environment(home), cwd=home, within_s=60)


def wizard_environment(home: Path) -> dict[str, str]:
    """A home with its wizard's state below it, and the CPU build's settings."""
    return environment(home, LLM_SETUP_HOME=str(home), **CPU_ENVIRONMENT)
