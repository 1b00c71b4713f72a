"""Client folders: those that come with llm-setup, and the user's own, which override them by name."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

Folders = dict[str, dict[str, str]]

_SPEC = "client.toml"


def packaged_templates() -> Traversable:
    """`wizard/_templates` in an installed wheel, `templates/` beside the package in a checkout."""
    package = resources.files("wizard")
    inside = package / "_templates"
    return inside if inside.is_dir() else Path(str(package)).parent / "templates"


def read_client_folders(own: Path) -> Folders:
    """Texts of every client folder, by client and file name. A folder of the user's replaces ours file by file."""
    found: Folders = {}
    for root in (packaged_templates(), own):
        if not root.is_dir():
            continue
        for folder in sorted(root.iterdir(), key=lambda entry: entry.name):
            if not folder.is_dir() or (not (folder / _SPEC).is_file() and folder.name not in found):
                continue
            texts = found.setdefault(folder.name, {})
            for entry in folder.iterdir():
                if entry.name == _SPEC or entry.name.endswith(".j2"):
                    texts[entry.name] = entry.read_text(encoding="utf-8")
    return found
