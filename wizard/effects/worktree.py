"""Whether git would publish a file."""

from __future__ import annotations

import subprocess
from pathlib import Path

_GIT_TIMEOUT_S = 5.0


def exposed_in_git(path: Path) -> tuple[Path, str] | None:
    """(root of the work tree, path in it) where the file lies in one that does not ignore it, else None."""
    root = next((folder for folder in path.parents if (folder / ".git").exists()), None)
    if root is None:
        return None
    try:
        ignored = subprocess.run(
            ["git", "-C", str(root), "check-ignore", "--quiet", "--no-index", "--", str(path)],
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        ignored = 1  # no git to ask: better one warning too many
    return None if ignored == 0 else (root, path.relative_to(root).as_posix())
