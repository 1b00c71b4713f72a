"""Which programs run now on a home folder, by name."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")


def running_programs(home: Path, proc: Path = PROC) -> frozenset[str]:
    """Base names of programs, and of the scripts that interpreters run, which were started with this home folder.

    None where there is no `/proc`.
    """
    found: set[str] = set()
    if not proc.is_dir():
        return frozenset()
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if b"HOME=" + os.fsencode(home) not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")[:2]
        except OSError:
            continue
        found |= {Path(os.fsdecode(word)).name for word in words if word and not word.startswith(b"-")}
    return frozenset(found)
