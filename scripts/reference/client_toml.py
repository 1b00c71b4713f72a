"""What a client.toml may hold, from the docstrings of what it is parsed into."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable

from wizard.clients.spec import ClientSpec, FileSpec, ReadSpec, RunSpec, Trap

# For whoever writes templates, made of docstrings.
ENGLISH_ONLY = True

SPEC = """
# client.toml

A client is a folder in `templates/`: this file, and the templates (`*.j2`) that it names. A folder of your own in
`templates/` of llm-setup's config folder adds a client, or overrides ours file by file. A misspelt key is named.

Templates are Jinja with one value, `endpoint`; each value has to go through a quoting filter (`toml`, `json`, `yaml`,
`sh`, `fish`, `powershell`, `cmd`, `dotenv`, `url`, `curl`, `verbatim`), and one without is refused.
"""


def pages(say: Callable[[str], str]) -> dict[str, str]:
    """client-toml.md."""
    return {"client-toml.md": _client_toml()}


def _client_toml() -> str:
    parts = [SPEC]
    for title, kind in (
        ("Top level", ClientSpec),
        ("`[[file]]`, and each of `[read.files]` (without `template` and `write`)", FileSpec),
        ("`[read]`", ReadSpec),
        ("`[run]`", RunSpec),
        ("`[[trap]]`", Trap),
    ):
        text = textwrap.dedent((kind.__doc__ or "").partition("\n")[0] + "\n" + _dedented(kind.__doc__ or ""))
        names = ", ".join(f"`{_toml_name(kind, field.name)}`" for field in dataclasses.fields(kind))
        parts.append(f"\n## {title}\n\nKeys: {names}.\n\n{text.strip()}")
    return "\n".join(parts)


def _dedented(text: str) -> str:
    return textwrap.dedent("\n".join(text.split("\n")[1:]))


def _toml_name(kind: type, name: str) -> str:
    """Arrays of tables are named in the singular."""
    return {"files": "[[file]]", "traps": "[[trap]]"}.get(name, name) if kind is ClientSpec else name
