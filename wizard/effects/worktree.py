"""Whether git would publish a file."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_GIT_TIMEOUT_S = 5.0
# Set while git runs a hook, say: they would make it look at another repository.
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")


@dataclass(frozen=True, slots=True)
class Exposed:
    """A file that git would publish: the root of its work tree, its name in there, and whether it is committed (or at
    least added) already, which no rule of what to ignore undoes."""

    root: Path
    name: str
    tracked: bool


def exposed_in_git(path: Path) -> Exposed | None:
    """How the file lies open in a git work tree; None where it lies in none, or is ignored there.

    The file that counts is the one behind symbolic links: dotfiles are kept in a repository and linked from the home.
    """
    path = Path(os.path.realpath(path))
    root = next((folder for folder in path.parents if (folder / ".git").exists()), None)
    if root is None or _git(root, "check-ignore", "--quiet", "--", str(path)):
        return None
    return Exposed(
        root, path.relative_to(root).as_posix(), _git(root, "ls-files", "--error-unmatch", "--", f":(literal){path}")
    )


def _git(root: Path, *words: str) -> bool:
    """Whether git answered a question with yes. Without a git to ask it is no: better one warning too many."""
    try:
        return not subprocess.run(
            ["git", "-C", str(root), *words],
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
            env={name: value for name, value in os.environ.items() if name not in _FOREIGN},
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False
