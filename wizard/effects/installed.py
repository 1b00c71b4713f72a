"""Which programs are installed, and their versions as their own package says, without starting them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def find_program(name: str, env: Mapping[str, str]) -> Path | None:
    """The program on this environment's PATH, or None."""
    found = shutil.which(name, path=env.get("PATH", os.defpath))
    return Path(found) if found else None


def installed_version(program: str, env: Mapping[str, str]) -> str | None:
    """The version in the package.json above an npm program (a start of Node would take a second), or None."""
    path = find_program(program, env)
    if path is None:
        return None
    for folder in Path(os.path.realpath(path)).parents:
        manifest = folder / "package.json"
        try:
            if manifest.is_file():
                document = json.loads(manifest.read_bytes())
                binaries = document.get("bin")
                if isinstance(document.get("version"), str) and (
                    isinstance(binaries, str) or (isinstance(binaries, dict) and program in binaries)
                ):
                    return str(document["version"])
        except (OSError, ValueError, AttributeError):
            return None
        if folder.name == "node_modules":
            return None
    return None
