"""Keeps a server's log bounded while the server runs; a process of its own that ends with the server.

    log_child.py LOG PID BYTES KEPT

The server appends to the file all the time and never opens it again, so the file cannot be moved away. When it is
larger than BYTES, its beginning is copied to `LOG.1` (older ones move to `.2` and so on, KEPT are kept), and then cut
out of the file in one step of the file system, which moves nothing that is appended meanwhile: not a byte is lost or
doubled. `LOG.cut` holds how many bytes were cut off so far, for those who follow the log; it is locked while that
changes.

Imports nothing of wizard, to start fast and stay small.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

# fallocate(2)
_KEEP_SIZE_AND_PUNCH_HOLE = 0x01 | 0x02
_COLLAPSE_RANGE = 0x08
_PIECE = 1 << 20
_LOOK_MS = 5000
# What stays in the log itself, so that its last lines are where everybody looks.
_STAYS = 1 / 8


def rotate(log: Path, limit: int, kept: int) -> bool:
    """Cut the log where it is larger than `limit` bytes; returns whether it was. Raises OSError."""
    with log.open("rb+") as file, _noted(log) as noted:
        descriptor = file.fileno()
        block = os.fstatvfs(descriptor).f_bsize
        begin = first_byte(descriptor)
        end = (os.fstat(descriptor).st_size - int(limit * _STAYS)) // block * block
        if os.fstat(descriptor).st_size - begin <= limit or end <= begin:
            return False
        # On a full disk, or one that cannot cut, the older parts stay what they are.
        copy = log.with_name(f"{log.name}.new")
        try:
            with copy.open("wb") as out:
                os.fchmod(out.fileno(), 0o600)
                for at in range(begin, end, _PIECE):
                    out.write(os.pread(descriptor, min(_PIECE, end - at), at))
            _cut(descriptor, noted, end)
        except OSError:
            copy.unlink(missing_ok=True)
            raise
        for number in range(kept, 1, -1):
            older = log.with_name(f"{log.name}.{number - 1}")
            if older.exists():
                older.replace(log.with_name(f"{log.name}.{number}"))
        copy.replace(log.with_name(f"{log.name}.1"))
    return True


@contextlib.contextmanager
def _noted(log: Path) -> Iterator[IO[str]]:
    """The file beside the log, locked."""
    descriptor = os.open(log.with_name(f"{log.name}.cut"), os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+") as noted:
        import fcntl  # not on Windows, where no log is cut

        fcntl.flock(noted, fcntl.LOCK_EX)
        yield noted


def first_byte(descriptor: int) -> int:
    """Where the content begins: behind a hole, where an earlier cut had to leave one."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError:  # all of it is a hole, or the file system knows none
        return 0


def _cut(descriptor: int, noted: IO[str], end: int) -> None:
    before = int(noted.read() or 0)
    try:
        _fallocate(descriptor, _COLLAPSE_RANGE, end)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        # The room is given back all the same; the file keeps its length, with nothing at its beginning.
        _fallocate(descriptor, _KEEP_SIZE_AND_PUNCH_HOLE, end)
        return
    noted.seek(0)
    noted.truncate()
    noted.write(str(before + end))


def _fallocate(descriptor: int, mode: int, length: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.fallocate(descriptor, mode, ctypes.c_long(0), ctypes.c_long(length)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main() -> None:
    """Look every few seconds, until the server ends."""
    import fcntl  # not on Windows, where no log is cut

    log, pid, limit, kept = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    try:
        server = os.pidfd_open(pid)
        # One is enough: whoever finds the server running sees to it that there is one.
        fcntl.flock(os.open(log, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    poll = select.poll()
    poll.register(server, select.POLLIN)
    while not poll.poll(_LOOK_MS):
        # A log that is gone, or a disk that is full: the next look may find better.
        with contextlib.suppress(OSError):
            if log.stat().st_blocks * 512 > limit:
                rotate(log, limit, kept)


if __name__ == "__main__":
    main()
