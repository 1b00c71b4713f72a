"""Loaded at the start of every Python that a test starts: writes down what the leak test looks at.

Into `$LEAK_WATCH/PID.jsonl`, a line each: `argv` of this process and of each program that it starts, what it prints
(the wizard's processes only), and each file that the wizard's code writes. What a file held before the wizard first
replaced it is kept beside, under the hash of its path. The pytest process itself uses `watch` for tests that call the
wizard's code directly. No pathlib here: it costs each start 10 ms, and tests make its methods fail.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

VARIABLE = "LEAK_WATCH"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# Of this checkout or of an installed wheel.
_PACKAGE = f"{os.sep}wizard{os.sep}"
_LARGEST_BYTES = 1_000_000


def _by_the_wizard() -> bool:
    """Whether the wizard's code is what is at work."""
    frame = sys._getframe(2)
    while frame is not None:
        if _PACKAGE in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def watch(say: Callable[[str, Any], None], folder: Callable[[], str]) -> None:
    """From now on, `say(kind, value)` for each program started ("argv", its words) and each file that the wizard
    writes ("written", its path). folder: where earlier contents are kept now."""
    busy = False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal busy
        if busy or event not in ("open", "os.rename", "subprocess.Popen", "os.exec", "os.posix_spawn"):
            return
        busy = True
        try:
            if event == "open":
                path, _, flags = arguments
                if flags & _WRITES and not isinstance(path, int) and path is not None and _by_the_wizard():
                    say("written", os.path.abspath(os.fsdecode(path)))
            elif event == "os.rename":
                if _by_the_wizard():
                    path = os.path.abspath(os.fsdecode(arguments[1]))
                    keep_first(folder(), path)
                    say("written", path)
            else:
                words = arguments[1]
                words = [words] if isinstance(words, str | bytes | os.PathLike) else words
                say("argv", [os.fsdecode(word) for word in words])
        finally:
            busy = False

    sys.addaudithook(hook)


def kept_first(folder: str, path: str) -> str:
    """Where the first content of a path is kept."""
    return os.path.join(folder, "first-" + hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest())


def keep_first(folder: str, path: str) -> None:
    """Keep what a path holds, unless something is kept already."""
    kept = kept_first(folder, path)
    with contextlib.suppress(OSError):
        if os.path.getsize(path) <= _LARGEST_BYTES and not os.path.exists(kept):
            with open(path, "rb") as before, open(kept, "wb") as out:
                out.write(before.read())


class _Teed(io.TextIOWrapper):
    """A standard stream that tells what is written to it."""

    heard: Callable[[str], None]

    def write(self, text: str) -> int:
        self.heard(text)
        return super().write(text)


def _tee(name: str, say: Callable[[str, Any], None]) -> None:
    stream = getattr(sys, name)
    if not isinstance(stream, io.TextIOWrapper):
        return  # closed, as a daemon's is
    how = {"encoding": stream.encoding, "errors": stream.errors, "line_buffering": stream.line_buffering}
    through = stream.write_through
    teed = _Teed(stream.detach(), write_through=through, **how)  # type: ignore[arg-type]
    teed.heard = lambda text: say(name, text)
    setattr(sys, name, teed)
    setattr(sys, f"__{name}__", teed)


def _is_the_wizard() -> bool:
    words = sys.orig_argv
    return words[1:3] == ["-m", "wizard"] or any(os.path.basename(word) == "llm-setup" for word in words[:2])


def _watch_this_process(folder: str) -> None:
    def say(kind: str, value: Any) -> None:
        line = json.dumps({"kind": kind, "value": value, "parent": os.getppid()}) + "\n"
        with contextlib.suppress(OSError):  # the test is over, and its folder gone
            out = os.open(os.path.join(folder, f"{os.getpid()}.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(out, line.encode())
            finally:
                os.close(out)

    say("start", sys.orig_argv)
    watch(say, lambda: folder)
    if _is_the_wizard():
        _tee("stdout", say)
        _tee("stderr", say)


def lines_of(folder: str) -> Iterator[tuple[str, str, Any]]:
    """(process id, kind, value) of everything written down below the folder."""
    for name in sorted(os.listdir(folder)):
        if name.endswith(".jsonl"):
            with open(os.path.join(folder, name), encoding="utf-8") as lines:
                for line in lines:
                    with contextlib.suppress(ValueError):  # cut by a kill
                        said = json.loads(line)
                        yield name.removesuffix(".jsonl"), said["kind"], said["value"]


if __name__ == "sitecustomize" and os.environ.get(VARIABLE):
    _watch_this_process(os.environ[VARIABLE])
