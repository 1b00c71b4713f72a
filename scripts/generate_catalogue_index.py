#!/usr/bin/env python3
"""Write wizard/catalog/index/*.json: the catalogue's TOML files in the form that is read at run time.

People edit TOML; reading its 150 files takes some 150 ms, and the index 2 ms. A test compares.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

CATALOGUE = Path(__file__).resolve().parents[1] / "wizard" / "catalog"


def indexes(catalogue: Path = CATALOGUE) -> dict[Path, str]:
    """Each index file and what it should hold."""
    models = [read(path) for path in sorted((catalogue / "models").rglob("*.toml"))]
    made: dict[str, Any] = {"models": models}
    for name in ("gpus", "flags", "vllm_flags"):
        if (path := catalogue / f"{name}.toml").exists():
            made[name] = read(path)
    return {catalogue / "index" / f"{name}.json": dump(value) for name, value in made.items()}


def read(path: Path) -> dict[str, Any]:
    """A TOML file."""
    return tomllib.loads(path.read_text("utf-8"))


def dump(value: Any) -> str:
    """JSON with one entry of a list a line, so that a diff shows what changed."""
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"{line(key)}: {rows(part)}" for key, part in value.items()) + "\n}\n"
    return rows(value) + "\n"


def rows(value: Any) -> str:
    """A list with a line for each entry; anything else on one line."""
    return "[\n" + ",\n".join(map(line, value)) + "\n]" if isinstance(value, list) and value else line(value)


def line(value: Any) -> str:
    """One value on one line; dates as text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def main() -> None:
    """Write the files that differ, and name them."""
    for path, content in indexes().items():
        if not path.exists() or path.read_text("utf-8") != content:
            path.parent.mkdir(exist_ok=True)
            path.write_text(content, "utf-8")
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
