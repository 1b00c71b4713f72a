"""TCP ports on this machine: whether one is free, and who has it."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

_LISTEN = "0A"


def port_is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now, by binding as it would. Raises OSError for a host that is not ours."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(address)
            trial.listen(1)
        except PermissionError:
            raise
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def first_free_port(host: str, first: int, count: int) -> int | None:
    """The first of `count` ports that is free, or None. Raises OSError for a host that is not ours."""
    return next((port for port in range(first, first + count) if port_is_free(host, port)), None)


def free_port(host: str) -> int:
    """A port that the system gives."""
    with socket.create_server((host or "127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def port_holders(port: int) -> tuple[int, ...]:
    """Pids of the processes that listen on a port, where /proc shows them to us."""
    inodes: set[str] = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = Path("/proc/net", table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if len(fields) > 9 and fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    return tuple(_processes_with(inodes)) if inodes else ()


def _processes_with(inodes: set[str]) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if any(str(handle.readlink()) in inodes for handle in (entry / "fd").iterdir()):
                found.append(int(entry.name))
        except OSError:  # ended meanwhile, or another user's
            continue
    return found
