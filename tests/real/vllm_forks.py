"""Imports vLLM once and forks a server for each order: the import is half of a start's time on a small machine.

Runs in vLLM's own Python. An order is a line of JSON on stdin: {"arguments": [...], "env": {...}, "log": FILE}; the
answer is a line with the server's pid. The server leads a session of its own. When stdin ends, however the tests came
to their end, the servers are killed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import signal
import sys

MODULE = "vllm.entrypoints.openai.api_server"


def become_server(order: dict, begun: int) -> None:
    """Turn this forked process into the server: as `python -m MODULE ARGUMENTS` would be. Closes `begun` once it leads
    its group and has its log."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for place, opened in ((0, nothing), (1, log), (2, log)):
        os.dup2(opened, place)
    os.close(begun)
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = ["api_server.py", *order["arguments"]]
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


def main() -> None:
    """Serve orders until stdin ends."""
    importlib.import_module(MODULE)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the servers: no zombies
    servers = []
    for line in sys.stdin:
        listening, begun = os.pipe()
        pid = os.fork()
        if pid == 0:
            become_server(json.loads(line), begun)
            return
        os.close(begun)
        os.read(listening, 1)
        os.close(listening)
        servers.append(pid)
        print(pid, flush=True)
    for pid in servers:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
