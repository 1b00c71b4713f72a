"""`llm-setup doctor` as a process, against sockets on loopback."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.conftest import KEY


class Examined:
    """How the doctor ended: exit code, document, seconds, everything printed."""

    def __init__(self, done: subprocess.CompletedProcess[str], seconds: float) -> None:
        self.code, self.out, self.err, self.seconds = done.returncode, done.stdout, done.stderr, seconds

    @property
    def document(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value

    @property
    def first(self) -> str:
        """The code of the first finding."""
        findings = self.document["findings"]
        return str(findings[0]["code"]) if findings else ""


@pytest.fixture
def doctor(home: Path) -> Callable[..., Examined]:
    def run(*argv: str, as_json: bool = True, **more: str) -> Examined:
        env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "LLM_SETUP_HOME": str(home / "own"),
            "LLM_SETUP_API_KEY": KEY,
            **more,
        }
        command = [sys.executable, "-m", "wizard", "doctor", *(["--json"] if as_json else []), *argv]
        begun = time.monotonic()
        done = subprocess.run(
            command, env=env, cwd=home, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
        return Examined(done, time.monotonic() - begun)

    return run


@pytest.fixture
def talker() -> Iterator[Callable[..., str]]:
    """Start a server that does with each connection what it is told; gives its URL."""
    servers: list[socketserver.ThreadingTCPServer] = []

    def start(talk: Callable[[socket.socket], None], context: ssl.SSLContext | None = None) -> str:
        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):  # the doctor hangs up when it has seen enough
                    if context is None:
                        talk(self.request)
                        return
                    with context.wrap_socket(self.request, server_side=True) as sock:
                        talk(sock)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            block_on_close = False

        server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        return f"{'https' if context else 'http'}://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def black_hole() -> Iterator[str]:
    """A port whose queue of waiting connections is full: connecting neither succeeds nor is refused."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting: list[socket.socket] = []
    for _ in range(4):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
        waiting.append(sock)
    time.sleep(0.2)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    for sock in (*waiting, listener):
        sock.close()


def unused_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
