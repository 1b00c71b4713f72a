"""A lock that processes take to change the same files one after another."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from wizard.effects.files import make_file, make_folders
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError

_WAIT_S = 10.0
_PRIVATE_FOLDER = 0o700


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file, which stays; its folder is made. The system lets go of it when the process ends.

    Waits 10 s for another llm-setup that holds it, then raises ProblemError. Raises OSError where the file cannot be
    made. Not to be taken twice by one process.
    """
    make_folders(path.parent, _PRIVATE_FOLDER)
    make_file(path)
    with path.open("a+b") as handle:
        deadline = time.monotonic() + _WAIT_S
        while not _try_lock(handle.fileno()):
            if time.monotonic() > deadline:
                raise ProblemError(
                    Problem(
                        "another-llm-setup",
                        t("Another llm-setup is changing client files."),
                        saw=(str(path),),
                        fix=Fix(t("Wait until it is done, then run the command again.")),
                    )
                )
            time.sleep(0.05)
        try:
            yield
        finally:
            _unlock(handle.fileno())


def _try_lock(descriptor: int) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    if os.name == "nt":
        import msvcrt

        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_UN)
