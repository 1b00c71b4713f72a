"""The clients' pages: one table, one how-to for each client, and the presets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from wizard.clients.spec import SPEC_NAME, ClientSpec, parse_spec
from wizard.effects.templates import read_client_folders
from wizard.endpoint.presets import all_presets

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"

CLIENTS = (
    "`llm-setup clients apply NAME --base-url URL --model ID` writes each client's own form of the triple; "
    "`llm-setup clients list` says which are installed here. **First request** is what the client sends before your "
    "first word, **context** the least it can work with, both in tokens. *Seen*: the client itself was run in that "
    "version; *read*: its documentation was."
)

PRESETS = (
    "Services and servers that `llm-setup profiles add NAME --preset ID` knows. A URL of a known host gets both its "
    "forms by itself. What each speaks is what its documentation says; the proof of `llm-setup init` asks the "
    "endpoint. **Evidence**: asked for real (seen), read in a document, or recalled and still to be read."
)

Say = Callable[[str], str]
# For tests/docs/test_code_blocks.py: tests/real runs the clients themselves.
NEEDS_THE_CLIENT = "<!-- test: parse -->"


def specs() -> list[ClientSpec]:
    """Every client that comes with llm-setup, by title."""
    folders = read_client_folders(Path("/nonexistent"))
    found = [parse_spec(name, texts[SPEC_NAME]) for name, texts in folders.items()]
    return sorted(found, key=lambda spec: spec.title.lower())


def pages(say: Say) -> dict[str, str]:
    """clients.md, presets.md, and ../how-to/connect-<client>.md."""
    how_to = {f"../how-to/connect-{spec.name}.md": _how_to(spec, say) for spec in specs()}
    return {"clients.md": _table(say), "presets.md": _presets(say), **how_to}


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(say: Say, *names: str) -> list[str]:
    return [_row([say(name) for name in names]), "|" + "---|" * len(names)]


def _table(say: Say) -> str:
    lines = [f"# {say('Clients')}\n\n{say(CLIENTS)}\n"]
    lines += _head(say, "client", "name", "needs", "base URL", "first request", "context", "files", "evidence")
    for spec in specs():
        form = say("without `/v1`") if spec.protocol == "messages" else say("with `/v1`")
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
            f"{say(spec.evidence)}: {spec.checked}",
        )
        lines.append(_row(cells))
    return "\n".join(lines)


def _presets(say: Say) -> str:
    lines = [f"# {say('Presets')}\n\n{say(PRESETS)}\n"]
    lines += _head(say, "id", "service", "OpenAI clients", "Anthropic clients", "keys", "speaks", "evidence")
    for preset in all_presets():
        anthropic = f"`{preset.anthropic_base_url}`" if preset.anthropic_base_url else "-"
        page = f"[{say('key page')}]({preset.key_page})"
        keys = page if preset.key_page else "-" if preset.key_needed else say("none needed")
        keys += f", `{preset.key_prefix}…`" if preset.key_prefix else ""
        title, spoken = f"[{preset.title}](../how-to/use-{preset.id}.md)", ", ".join(preset.speaks)
        lines.append(
            _row(
                (
                    f"`{preset.id}`",
                    title,
                    f"`{preset.openai_base_url}`",
                    anthropic,
                    keys,
                    spoken,
                    f"[{say(preset.evidence)}]({preset.source})",
                )
            )
        )
    notes = [f"- **{preset.title}**: {say(preset.note)}" for preset in all_presets() if preset.note]
    return "\n".join([*lines, "", *notes])


def _how_to(spec: ClientSpec, say: Say) -> str:
    parts = [
        f"# {_in(say('Connect {client}'), client=spec.title)}",
        _in(
            say("From an endpoint to {client} in one command. The client's own page: <{page}>."),
            client=spec.title,
            page=spec.docs,
        ),
        "```sh\n"
        f"export LLM_SETUP_API_KEY=...      # {say('or --api-key-file FILE, or the active profile')}\n"
        f"llm-setup clients apply {spec.name} --base-url http://127.0.0.1:8000/v1 --model qwen\n"
        f"llm-setup clients verify {spec.name}\n"
        "```",
    ]
    if spec.install:
        parts.append(_in(say("Not installed yet: `{command}`."), command=spec.install))
    needs = ", ".join(f"`{need}`" for need in spec.needs)
    if needs:
        parts.append(
            _in(
                say(
                    "It needs {needs}. Its first request is about {tokens} tokens; give it a context of {context} "
                    "or more."
                ),
                needs=needs,
                tokens=f"{spec.first_request_tokens:,}",
                context=f"{spec.minimum_context_tokens:,}",
            )
        )
    known = "Written for versions {versions} ({evidence} with {checked})." if spec.versions else EVIDENCE
    parts.append(_in(say(known), versions=spec.versions, evidence=say(spec.evidence), checked=spec.checked))
    parts += [f"> {say(note)}" for note in spec.notes]
    fresh = GOLDEN / spec.name / "fresh" / "after"
    shown = [path for path in sorted(fresh.rglob("*")) if path.is_file()]
    parts += [f"## {say('What is written')}", say("Into an empty home; what is there already stays, comments and all.")]
    for path in shown:
        at = path.relative_to(fresh).as_posix()
        own = at.removeprefix("config/")
        place = _in(say("llm-setup's own folder, `{path}`"), path=own) if at.startswith("config/") else f"`~/{at}`"
        text = path.read_text(encoding="utf-8").replace("sk-golden-0123456789abcdef", "sk-...").rstrip()
        parts.append(f"{place}:\n\n```text\n{text}\n```")
    if spec.run.env or spec.run.files:
        words = " ".join(spec.run.headless).replace("{prompt}", '"say hi"') or "..."
        example = f"llm-setup run {spec.name} -- {words}"
        if not spec.run.program:
            example = f"llm-setup run {spec.name} -- python app.py"
        parts.append(f"## {say('Without writing anything')}\n\n{NEEDS_THE_CLIENT}\n```sh\n{example.rstrip()}\n```")
    if any(file.scope == "project" for file in spec.files):
        parts += [f"## {say('For one project only')}", say("Add `--scope project`, in the project's folder.")]
    parts += [
        f"## {say('Back')}",
        _in(say("`{command}` gives the exact bytes back, and says what changed since."), command=_restore(spec)),
    ]
    if spec.traps:
        parts.append(f"## {say('What goes wrong')}")
        parts += [
            f"- **{say(trap.what)}** {say(trap.why)} {say(trap.fix)} "
            f"([`{trap.code}`](../reference/problems/{trap.code}.md))"
            for trap in spec.traps
        ]
    return "\n\n".join(parts)


EVIDENCE = "Evidence: {evidence} ({checked})."


def _restore(spec: ClientSpec) -> str:
    return f"llm-setup clients restore {spec.name}"


def _in(text: str, **values: str) -> str:
    """Values put into a sentence; braces of the values are left alone."""
    return text.format(**values)
