"""Starting a real vLLM on loopback, for tests that need one with exact flags."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .processes import Ended, environment, free_port, run

START_LIMIT_S = 240
# The CPU build: no downloads, no usage report, a KV cache of 1 GiB (else it takes nearly all memory).
CPU_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "fork",
}


class ServerDied(RuntimeError):
    """The server ended while it started; its log is the message."""


@dataclass(frozen=True, slots=True)
class RealServer:
    """A vLLM that listens on loopback. root: its URL without `/v1`. process: None where the wizard started it, else
    the leader of a group of its own."""

    root: str
    model: str
    key: str
    process: subprocess.Popen[bytes] | None
    log: Path

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes."""
        return f"{self.root}/v1"

    @property
    def printed(self) -> str:
        """The log so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def start_vllm(
    python: Path, folder: Path, work: Path, *, key: str = "", served_name: str = "", arguments: Sequence[str] = (),
    env: dict[str, str] | None = None, wait: bool = True,
) -> RealServer:  # fmt: skip
    """Start `folder`'s model; with `wait`, return when it answers. Raises ServerDied, or TimeoutError after 4 min."""
    port = free_port()
    work.mkdir(parents=True, exist_ok=True)
    log = work / f"vllm-{port}.log"
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--enforce-eager", "--served-model-name", served_name or folder.name, *arguments]
    secret = {"VLLM_API_KEY": key} if key else {}
    process_environment = environment(work, [python.parent], **CPU_ENVIRONMENT, **secret, **(env or {}))
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=process_environment,
            cwd=work,
            start_new_session=True,
        )
    server = RealServer(f"http://127.0.0.1:{port}", served_name or folder.name, key, process, log)
    deadline = time.monotonic() + START_LIMIT_S
    while wait and not answers(server.root):
        if process.poll() is not None:
            raise ServerDied(f"vLLM ended with {process.returncode}:\n{server.printed[-6000:]}")
        if time.monotonic() > deadline:
            stop_vllm(server)
            raise TimeoutError(f"vLLM did not answer within {START_LIMIT_S} s:\n{server.printed[-6000:]}")
        time.sleep(0.5)
    return server


def answers(root: str) -> bool:
    """Whether /health says that the engine runs."""
    try:
        with urllib.request.urlopen(f"{root}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def stop_vllm(server: RealServer) -> None:
    """End its process group: ask, wait, kill; returns when all of it is gone."""
    if server.process is None:
        raise ValueError("the wizard stops what the wizard started")
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.process.pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            server.process.poll()
            try:
                os.killpg(server.process.pid, 0)
            except ProcessLookupError:
                return
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
    return RealServer(f"http://127.0.0.1:{port}", served_name, key_file.read_text(), None, log)


def stop_by_wizard(home: Path) -> Ended:
    """`llm-setup stop --all` for what `serve_by_wizard` started in `home`."""
    return run([sys.executable, "-m", "wizard", "stop", "--all"], env=wizard_environment(home), cwd=home, within_s=60)


def wizard_environment(home: Path) -> dict[str, str]:
    """A home with its wizard's state below it, and the CPU build's settings."""
    return environment(home, LLM_SETUP_HOME=str(home), **CPU_ENVIRONMENT)
