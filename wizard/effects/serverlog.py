"""Reading a server's log: only what is new, or only its ends, whatever its size."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from wizard.effects.log_child import first_byte

_CHUNK = 256 * 1024
_LONGEST_LINE = 64 * 1024
# A screen takes some thousand lines a second; a death must not wait behind them.
_SHOWN_BYTES = 128 * 1024
_MOST_BYTES = 2 * 2**20
HEAD_BYTES = 1 * 2**20
TAIL_BYTES = 8 * 2**20


class LogReader:
    """Gives the lines that were added since the last call. A line without end is cut at 64 KiB; a file that shrank
    is read from its beginning, unless it was that which was cut off. A missing file has no lines yet.

    followed: begin at the end, and of what comes faster than it can be shown, give the last 128 KiB alone."""

    def __init__(self, path: Path, *, followed: bool = False) -> None:
        self._path = path
        self._followed = followed
        self._skipped = 0
        self._offset = 0  # since the log began, with what was cut off meanwhile
        self._pending = b""
        if followed and path.exists():
            with _steady(path) as cut:
                self._offset = cut + path.stat().st_size

    @property
    def offset(self) -> int:
        """Bytes read so far; grows when anything was written."""
        return self._offset

    def take_skipped(self) -> int:
        """Bytes that were left out since the last call."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    def new_lines(self) -> list[str]:
        """Complete lines since the last call, at most about 2 MiB of them: who watches a server looks whether it lives
        between two calls."""
        try:
            with _steady(self._path) as cut, self._path.open("rb") as log:
                size = os.fstat(log.fileno()).st_size
                if cut + size < self._offset:
                    self._offset, self._pending = cut, b""
                if self._followed and (much := cut + size - self._offset - _SHOWN_BYTES) > 0:
                    self._skipped += much
                    self._offset, self._pending = self._offset + much, b""
                raw = self._cut_off_unread(cut + first_byte(log.fileno()))
                log.seek(self._offset + len(raw) - cut)
                raw += log.read(min(cut + size - self._offset - len(raw), _MOST_BYTES))
        except FileNotFoundError:
            return []
        self._offset += len(raw)
        # A progress bar is one line that is written again and again: each state counts as a line here.
        *whole, self._pending = (self._pending + raw).replace(b"\r", b"\n").split(b"\n")
        if len(self._pending) > _LONGEST_LINE:
            whole.append(self._pending)
            self._pending = b""
        return [_text(line) for line in whole if line]

    def _cut_off_unread(self, begin: int) -> bytes:
        """What was cut off since the last call and not read before: the end of the newest cut part. begin: where, since
        the log began, its content begins now."""
        missing = begin - self._offset
        if missing <= 0:
            return b""
        try:
            part = self._path.with_name(f"{self._path.name}.1").open("rb")
        except FileNotFoundError:  # somebody made room
            self._offset = begin
            return b""
        with part:
            missing = min(missing, os.fstat(part.fileno()).st_size)
            self._offset = begin - missing
            part.seek(-missing, os.SEEK_END)
            return part.read()

    def rest(self) -> list[str]:
        """As new_lines, with a last line that has no end yet; for when the writer is gone."""
        lines = self.new_lines()
        if self._pending:
            lines.append(_text(self._pending))
            self._pending = b""
        return lines


@contextlib.contextmanager
def _steady(path: Path) -> Iterator[int]:
    """While inside, nothing is cut off the log's beginning by log_child.py; how many bytes were so far."""
    try:
        noted = cut_path(path).open("rb")
    except OSError:
        yield 0
        return
    with noted:
        import fcntl  # not on Windows, where no log is cut

        fcntl.flock(noted, fcntl.LOCK_SH)
        text = noted.read()
        yield int(text) if text.isdigit() else 0


def cut_path(log: Path) -> Path:
    """The file that says how many bytes were cut off a log's beginning while it was written."""
    return log.with_name(f"{log.name}.cut")


def pieces_of_log(path: Path, *, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES) -> Iterator[bytes]:
    """A log's beginning and end in pieces, in order; all of it where it is small. Bounded in memory and time: a
    death's root cause stands in the last lines, its configuration in the first. Raises OSError."""
    with _steady(path), path.open("rb") as log:
        size = os.fstat(log.fileno()).st_size
        if size <= head_bytes + tail_bytes:
            yield from _span(log.fileno(), 0, size)
            return
        yield from _span(log.fileno(), 0, head_bytes)
        yield b"\n"
        yield from _span(log.fileno(), size - tail_bytes, size)


def last_lines(path: Path, count: int) -> list[str]:
    """The last `count` lines, read backwards from the end within TAIL_BYTES. Raises OSError."""
    if count <= 0:
        return []
    with _steady(path), path.open("rb") as log:
        size = os.fstat(log.fileno()).st_size
        begin, found = size, b""
        while begin > 0 and found.count(b"\n") <= count and size - begin < TAIL_BYTES:
            step = min(_CHUNK, begin)
            begin -= step
            found = os.pread(log.fileno(), step, begin) + found
    lines = found.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    return [_text(line) for line in lines[-count:]]


def _span(descriptor: int, begin: int, end: int) -> Iterator[bytes]:
    at = begin
    while at < end and (chunk := os.pread(descriptor, min(_CHUNK, end - at), at)):
        at += len(chunk)
        yield chunk


def _text(line: bytes) -> str:
    if len(line) > _LONGEST_LINE:
        line = line[: _LONGEST_LINE // 2] + line[-_LONGEST_LINE // 2 :]
    return line.decode("utf-8", "replace")
