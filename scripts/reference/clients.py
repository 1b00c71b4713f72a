"""The clients' pages: one table, one how-to for each client, what a client.toml may hold, and the presets."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path

from wizard.clients.spec import SPEC_NAME, ClientSpec, FileSpec, ReadSpec, RunSpec, Trap, parse_spec
from wizard.effects.templates import read_client_folders
from wizard.endpoint.presets import all_presets

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"

CLIENTS = """
# Clients

`llm-setup clients apply NAME --base-url URL --model ID` writes each client's own form of the triple;
`llm-setup clients list` says which are installed here. **First request** is what the client sends before your first
word, **context** the least it can work with, both in tokens. *Seen*: the client itself was run in that version; *read*:
its documentation was.
"""

PRESETS = """
# Presets

Services and servers that `llm-setup profiles add NAME --preset ID` knows. A URL of a known host gets both its forms by
itself. What each speaks is what its documentation says; the proof of `llm-setup init` asks the endpoint.
**Evidence**: asked for real (seen), read in a document, or recalled and still to be read.
"""

SPEC = """
# client.toml

A client is a folder in `templates/`: this file, and the templates (`*.j2`) that it names. A folder of your own in
`templates/` of llm-setup's config folder adds a client, or overrides ours file by file. A misspelt key is named.

Templates are Jinja with one value, `endpoint`; each value has to go through a quoting filter (`toml`, `json`, `yaml`,
`sh`, `fish`, `powershell`, `cmd`, `dotenv`, `url`, `curl`, `verbatim`), and one without is refused.
"""


def specs() -> list[ClientSpec]:
    """Every client that comes with llm-setup, by title."""
    folders = read_client_folders(Path("/nonexistent"))
    found = [parse_spec(name, texts[SPEC_NAME]) for name, texts in folders.items()]
    return sorted(found, key=lambda spec: spec.title.lower())


def pages() -> dict[str, str]:
    """clients.md, presets.md, client-toml.md, and ../how-to/connect-<client>.md."""
    how_to = {f"../how-to/connect-{spec.name}.md": _how_to(spec) for spec in specs()}
    return {"clients.md": _table(), "presets.md": _presets(), "client-toml.md": _client_toml(), **how_to}


def _table() -> str:
    lines = [
        CLIENTS,
        "| client | name | needs | base URL | first request | context | files | evidence |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for spec in specs():
        form = "without `/v1`" if spec.protocol == "messages" else "with `/v1`"
        files = "<br>".join(
            dict.fromkeys(f"`{file.target}`" for file in spec.files if not file.on or "linux" in file.on)
        )
        cells = (
            f"[{spec.title}](../how-to/connect-{spec.name}.md)",
            f"`{spec.name}`",
            ", ".join(spec.needs) or "-",
            form,
            f"{spec.first_request_tokens:,}",
            f"{spec.minimum_context_tokens:,}",
            files,
            f"{spec.evidence}: {spec.checked}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _presets() -> str:
    lines = [
        PRESETS,
        "| id | service | OpenAI clients | Anthropic clients | keys | speaks | evidence |",
        "|---|---|---|---|---|---|---|",
    ]
    for preset in all_presets():
        anthropic = f"`{preset.anthropic_base_url}`" if preset.anthropic_base_url else "-"
        keys = f"[key page]({preset.key_page})" if preset.key_page else "none needed" if not preset.key_needed else "-"
        keys += f", `{preset.key_prefix}…`" if preset.key_prefix else ""
        title, spoken = f"[{preset.title}]({preset.source})", ", ".join(preset.speaks)
        cells = (f"`{preset.id}`", title, f"`{preset.openai_base_url}`", anthropic, keys, spoken, preset.evidence)
        lines.append(f"| {' | '.join(cells)} |")
    notes = [f"- **{preset.title}**: {preset.note}" for preset in all_presets() if preset.note]
    return "\n".join([*lines, "", *notes])


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


def _how_to(spec: ClientSpec) -> str:
    parts = [
        f"# Connect {spec.title}",
        f"From an endpoint to {spec.title} in one command. The client's own page: <{spec.docs}>.",
        "```sh\n"
        "export LLM_SETUP_API_KEY=...      # or --api-key-file FILE, or the active profile\n"
        f"llm-setup clients apply {spec.name} --base-url http://127.0.0.1:8000/v1 --model qwen\n"
        f"llm-setup clients verify {spec.name}\n"
        "```",
    ]
    if spec.install:
        parts.append(f"Not installed yet: `{spec.install}`.")
    needs = ", ".join(f"`{need}`" for need in spec.needs)
    if needs:
        parts.append(
            f"It needs {needs}. Its first request is about {spec.first_request_tokens:,} tokens; give it a context of "
            f"{spec.minimum_context_tokens:,} or more."
        )
    if spec.versions:
        parts.append(f"Written for versions {spec.versions} ({spec.evidence} with {spec.checked}).")
    else:
        parts.append(f"Evidence: {spec.evidence} ({spec.checked}).")
    parts += [f"> {note}" for note in spec.notes]
    fresh = GOLDEN / spec.name / "fresh" / "after"
    shown = [path for path in sorted(fresh.rglob("*")) if path.is_file()]
    parts.append("## What is written\n\nInto an empty home; what is there already stays, comments and all.")
    for path in shown:
        at = path.relative_to(fresh).as_posix()
        place = "llm-setup's own folder, " + at.removeprefix("config/") if at.startswith("config/") else f"~/{at}"
        text = path.read_text(encoding="utf-8").replace("sk-golden-0123456789abcdef", "sk-...").rstrip()
        parts.append(f"`{place}`:\n\n```\n{text}\n```")
    if spec.run.env or spec.run.files:
        example = f"llm-setup run {spec.name} -- " + (" ".join(spec.run.headless[:1]) or "...")
        if not spec.run.program:
            example = f"llm-setup run {spec.name} -- python app.py"
        parts.append(f"## Without writing anything\n\n```sh\n{example.rstrip()}\n```")
    if any(file.scope == "project" for file in spec.files):
        parts.append("## For one project only\n\nAdd `--scope project`, in the project's folder.")
    parts.append(
        f"## Back\n\n`llm-setup clients restore {spec.name}` gives the exact bytes back, and says what changed since."
    )
    if spec.traps:
        parts.append("## What goes wrong")
        parts += [f"- **{trap.what}** {trap.why} {trap.fix} (`{trap.code}`)" for trap in spec.traps]
    return "\n\n".join(parts)
