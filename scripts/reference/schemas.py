"""The page that lists the published JSON Schema files, which are written by hand in docs/reference/schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "schemas"
# What stands for a document that failed.
ERROR = "error"


def pages(say: Callable[[str], str]) -> dict[str, str]:
    """schemas.md."""
    lines = [
        f"# {say('JSON schemas')}",
        "",
        say(
            "Each command with `--json` prints one document on stdout. Its shape is published here as JSON Schema "
            "(2020-12); tests hold real outputs against it. `schema_version` is 1: fields may be added, never renamed "
            "or taken away."
        ),
        "",
        f"| {say('command')} | {say('schema')} |",
        "|---|---|",
    ]
    for path in sorted(SCHEMAS.glob("*.json")):
        title = json.loads(path.read_text(encoding="utf-8"))["title"]
        shown = say("An error in place of any of them") if path.stem == ERROR else f"`{title}`"
        lines.append(f"| {shown} | [{path.name}](schemas/{path.name}) |")
    return {"schemas.md": "\n".join(lines)}
