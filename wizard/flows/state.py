"""Our own folders: what cannot be written there is one clear problem, not a bug."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wizard.effects.files import try_folder
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Turn what the system says about a folder that cannot be written into a problem. `folder`: what is named when
    the error does not name a file."""
    try:
        yield
    except OSError as error:
        place = error.filename or folder
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            problem = disk_full(f"{place}: {error.strerror}")
        else:
            problem = Problem(
                "not-writable",
                t("llm-setup cannot write into its own folder."),
                t("It keeps there what it has to remember: servers, keys, installed runtimes."),
                (f"{place}: {error.strerror or error}",),
                fix=Fix(
                    t("Set LLM_SETUP_HOME to a folder that you can write."), ("export LLM_SETUP_HOME=~/llm-setup",)
                ),
            )
        raise ProblemError(problem) from error


def check_own_folders(*folders: Path) -> None:
    """Raise a problem where a folder of our own cannot be made or written, whatever the reason is: before any work
    whose result would be kept there. Leaves nothing."""
    for folder in folders:
        with writable(folder):
            try_folder(folder)


def disk_full(saw: str) -> Problem:
    """The problem of a disk without room, and where that was seen."""
    return Problem(
        "disk-space",
        t("The disk is full."),
        saw=(saw,),
        fix=Fix(t("Free some, or set LLM_SETUP_HOME to a folder on a larger disk."), ("df -h",)),
    )
