"""Which programs of this user run now, by name."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")


def running_programs(proc: Path = PROC) -> frozenset[str]:
    """Base names of this user's programs and of the scripts that interpreters run; none where there is no `/proc`."""
    found: set[str] = set()
    if not proc.is_dir():
        return frozenset()
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if hasattr(os, "getuid") and entry.stat().st_uid != os.getuid():
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")[:2]
        except OSError:
            continue
        found |= {Path(os.fsdecode(word)).name for word in words if word and not word.startswith(b"-")}
    return frozenset(found)
