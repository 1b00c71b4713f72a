#!/usr/bin/env python3
"""How long the doctor takes beyond the server's own time, for a healthy endpoint, a dead one, and many at once.

    doctor.py [--runs N]

The server is on loopback and answers each request after a fixed time, so that what is left is the doctor's own.
Limits: 3 s beyond the server for a healthy endpoint, 5 s for a dead one, and for twenty endpoints (`--all`) four times
what one takes; twenty dead hosts, which neither take nor refuse a connection, as long as one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER_S = 0.2
# The doctor asks in three rounds of parallel requests, so the server's own share is three answers.
ROUNDS = 3
MANY = 20
KEY = "sk-bench-0123456789abcdef"


class Healthy(BaseHTTPRequestHandler):
    """Every protocol, each after ANSWER_S."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        time.sleep(ANSWER_S)
        said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ready"}]}
        if self.path.endswith("/models"):
            said = {"data": [{"id": "m", "max_model_len": 65536}]}
        elif self.path.endswith("/chat/completions"):
            said = {"choices": [{"index": 0, "message": {"content": "ready"}, "finish_reason": "stop"}]}
        elif self.path.endswith("/responses"):
            said = {"status": "completed", "output": [{"type": "message", "content": [{"text": "ready"}]}]}
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer


def seconds(*argv: str, home: str) -> float:
    """One run of the doctor as a process."""
    env = {"PATH": os.environ["PATH"], "HOME": home, "LLM_SETUP_HOME": f"{home}/own", "LLM_SETUP_API_KEY": KEY}
    begun = time.monotonic()
    command = [sys.executable, "-m", "wizard", "doctor", "--json", *argv]
    subprocess.run(command, env=env, cwd=home, capture_output=True, check=False, timeout=120)
    return time.monotonic() - begun


def remember(home: str, roots: list[str]) -> None:
    """Profiles of these servers in the home's own state folder."""
    from wizard.effects.files import Files
    from wizard.effects.paths import state_paths
    from wizard.effects.profiles import ProfileStore
    from wizard.endpoint.model import Profile

    store = ProfileStore(Files(), state_paths({"LLM_SETUP_HOME": f"{home}/own"}).state / "profiles.json")
    for number, root in enumerate(roots):
        store.put(Profile(f"p{number}", f"{root}/v1", root, "m"), activate=not number)


@contextlib.contextmanager
def black_holes(count: int) -> Iterator[list[str]]:
    """Ports on loopback where connections are neither taken nor refused: their queues are full."""
    with contextlib.ExitStack() as stack:
        roots = []
        for _ in range(count):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            for _ in range(4):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(listener.getsockname())
            roots.append(f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield roots


def many(runs: int) -> bool:
    """Twenty healthy endpoints and twenty dead ones; whether a limit is broken."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Healthy) for _ in range(MANY)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    roots = [f"http://127.0.0.1:{server.server_address[1]}" for server in servers]
    broken = False
    with black_holes(MANY) as holes:
        for kind, places, limit in (("healthy", roots, 4.0), ("dead", holes, 1.5)):
            took = []
            for some in (places[:1], places):
                with tempfile.TemporaryDirectory() as home:
                    remember(home, some)
                    took.append(statistics.median(seconds("--all", home=home) for _ in range(runs)))
            broken |= took[1] > limit * took[0] or (kind == "dead" and took[0] > 5)
            print(f"{MANY} {kind} endpoints: {took[1]:.2f} s, one: {took[0]:.2f} s (limit {limit:g} times)")
    for server in servers:
        server.shutdown()
    return broken


def main() -> int:
    """Measure; returns 1 when a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    server = ThreadingHTTPServer(("127.0.0.1", 0), Healthy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_address[1]}"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{probe.getsockname()[1]}"
    broken = False
    with tempfile.TemporaryDirectory() as home:
        for client, base in (("openai-sdk", f"{root}/v1"), ("codex", f"{root}/v1"), ("claude-code", root)):
            flags = ("--base-url", base, "--model", "m", "--client-type", client)
            own = statistics.median(seconds(*flags, home=home) for _ in range(runs)) - ROUNDS * ANSWER_S
            broken |= own > 3
            print(f"healthy, {client}: {own:.2f} s beyond the server (limit 3)")
        dead = statistics.median(seconds("--base-url", f"{closed}/v1", "--model", "m", home=home) for _ in range(runs))
        broken |= dead > 5
        print(f"dead port: {dead:.2f} s (limit 5)")
    server.shutdown()
    broken |= many(runs)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
