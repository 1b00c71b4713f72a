"""What a client.toml may hold, from the docstrings of what it is parsed into."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable

from wizard.clients.spec import ClientSpec, FileSpec, ReadSpec, RunSpec, Trap


def pages(say: Callable[[str], str]) -> dict[str, str]:
    """client-toml.md."""
    return {"client-toml.md": _client_toml(say)}


def _client_toml(say: Callable[[str], str]) -> str:
    parts = [
        "# client.toml",
        say(
            "A client is a folder in `templates/`: this file, and the templates (`*.j2`) that it names. A folder of "
            "your own in `templates/` of llm-setup's config folder adds a client, or overrides ours file by file. A "
            "misspelt key is named."
        ),
        say(
            "Templates are Jinja with one value, `endpoint`; each value has to go through a quoting filter (`toml`, "
            "`json`, `yaml`, `sh`, `fish`, `powershell`, `cmd`, `dotenv`, `url`, `curl`, `verbatim`), and one without "
            "is refused."
        ),
    ]
    for title, kind in (
        ("Top level", ClientSpec),
        ("`[[file]]`, and each of `[read.files]` (without `template` and `write`)", FileSpec),
        ("`[read]`", ReadSpec),
        ("`[run]`", RunSpec),
        ("`[[trap]]`", Trap),
    ):
        names = ", ".join(f"`{_toml_name(kind, field.name)}`" for field in dataclasses.fields(kind))
        paragraphs = inspect.cleandoc(kind.__doc__ or "").split("\n\n")
        parts += [
            f"## {say(title)}",
            say("Keys: {names}.").format(names=names),
            *(say(" ".join(p.split())) for p in paragraphs),
        ]
    return "\n\n".join(parts)


def _toml_name(kind: type, name: str) -> str:
    """Arrays of tables are named in the singular."""
    return {"files": "[[file]]", "traps": "[[trap]]"}.get(name, name) if kind is ClientSpec else name
