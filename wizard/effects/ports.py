"""TCP ports on this machine: whether one is free, and who has it."""

from __future__ import annotations

import errno
import socket
import sys
from pathlib import Path

_LISTEN = "0A"


def port_is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now, by binding as it would. Raises OSError for a host that is not ours.

    vLLM binds its port minutes before it listens, in a way that lets another vLLM bind it too (SO_REUSEPORT): both
    would then get connections by chance. Such a port cannot be bound strictly, and the kernel lists no connection of
    it that only lingers.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    for strictly in (False, True):
        with socket.socket(family, kind, protocol) as trial:
            if not strictly:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(address)
                if not strictly:
                    trial.listen(1)
            except PermissionError:
                raise
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                return strictly and _lingers(port)
    return True


def _lingers(port: int) -> bool:
    """Whether a connection of that port is listed, open or remembered; true where the system lists none at all."""
    tables = [rows for table in ("tcp", "tcp6") if (rows := _table(table))]
    return not tables or any(int(row[1].rpartition(":")[2], 16) == port for rows in tables for row in rows)


def _table(name: str) -> list[list[str]]:
    """The rows of a table of sockets in /proc/net, in fields (proc_net(5)); none where there is no such table."""
    try:
        rows = Path("/proc/net", name).read_text().splitlines()[1:]
    except OSError:
        return []
    return [fields for row in rows if len(fields := row.split()) > 9]


def first_free_port(host: str, first: int, count: int, but: frozenset[int] = frozenset()) -> int | None:
    """The first of `count` ports that is free, and none of `but`. Raises OSError for a host that is not ours."""
    ports = (port for port in range(first, first + count) if port not in but)
    return next((port for port in ports if port_is_free(host, port)), None)


def free_port(host: str) -> int:
    """A port that the system gives."""
    with socket.create_server((host or "127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def port_holders(port: int, host: str | None = None) -> tuple[int, ...]:
    """Pids of the processes that listen on a port, where /proc shows them to us. host: on that very address only."""
    wanted = None if host is None else _listed_address(host, port)
    inodes: set[str] = set()
    for table in ("tcp", "tcp6"):
        for fields in _table(table):
            address, _, number = fields[1].rpartition(":")
            if fields[3] == _LISTEN and int(number, 16) == port and wanted in (None, address):
                inodes.add(f"socket:[{fields[9]}]")
    return tuple(_processes_with(inodes)) if inodes else ()


def _listed_address(host: str, port: int) -> str:
    """The address as /proc/net lists it: words of four bytes, each in this machine's order. Raises OSError."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    packed = socket.inet_pton(found[0], str(found[4][0]))
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


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
