"""A how-to for each gateway and each other server, from the presets and from what the clients need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wizard.clients.spec import SPEC_NAME, ClientSpec, parse_spec
from wizard.effects.templates import read_client_folders
from wizard.endpoint.presets import Preset, all_presets

Say = Callable[[str], str]
# For tests/docs/test_code_blocks.py: a test machine reaches none of these services.
NEEDS_THE_SERVICE = "<!-- test: parse -->"


def pages(say: Say) -> dict[str, str]:
    """../how-to/use-<preset>.md, one for each but vLLM itself, which llm-setup starts."""
    folders = read_client_folders(Path("/nonexistent"))
    specs = sorted((parse_spec(name, texts[SPEC_NAME]) for name, texts in folders.items()), key=lambda s: s.name)
    return {f"../how-to/use-{preset.id}.md": _page(preset, specs, say) for preset in all_presets()}


def _page(preset: Preset, specs: list[ClientSpec], say: Say) -> str:
    here = preset.title.removesuffix(" on this machine")
    agents = [spec for spec in specs if spec.needs]
    served = [spec for spec in agents if set(spec.needs) <= set(preset.speaks)]
    others = [spec for spec in agents if spec not in served]
    first = [spec.name for spec in served if spec.name in ("codex", "claude-code", "cline")] or ["cline"]
    added = f"llm-setup profiles add {preset.id} --preset {preset.id} --model MODEL"
    if "RESOURCE" in preset.openai_base_url:
        added = f"llm-setup profiles add {preset.id} --base-url {preset.openai_base_url} --model MODEL"
    lines = [
        f"export LLM_SETUP_API_KEY={preset.key_prefix}...",
        added,
        f"llm-setup clients apply {' '.join(first)} --profile {preset.id}",
    ]
    parts = [
        f"# {say('Use {service}').format(service=here)}",
        say(
            "{service} as the endpoint of your coding clients, beside what you serve yourself: one key, one command."
        ).format(service=here),
        f"## {say('Set it up')}",
        _key(preset, say),
        "```sh\n" + "\n".join(lines[0 if preset.key_needed else 1 :]) + "\n```",
        say("Then each client's own kind of request, from the file just written:"),
        f"{NEEDS_THE_SERVICE}\n```sh\nllm-setup clients verify {' '.join(first)}\n```",
        say(
            "`MODEL` is the name as this endpoint lists it. The key comes from the variable (or `--api-key-file`), is "
            "kept in the keyring, and is in no argument and no log. Any form of the URL will do; the right one is "
            "found by asking."
        ),
    ]
    if preset.note:
        parts.append(f"> {say(preset.note)}")
    anthropic = f"`{preset.anthropic_base_url}`" if preset.anthropic_base_url else say("(not spoken)")
    parts += [
        f"## {say('The URL that each client gets')}",
        f"| {say('client')} | {say('base URL')} |\n|---|---|\n"
        f"| {say('clients of the OpenAI kind')} | `{preset.openai_base_url}` |\n"
        f"| {say('Claude Code, Anthropic SDK')} | {anthropic} |",
        say("Why they differ: [does the base URL end in `/v1`?](../explanation/url-forms.md)"),
        f"## {say('Which clients work with it')}",
        say("By what its documentation promises: {words}.").format(words=", ".join(preset.speaks)),
        f"- {say('all that they need is there')}: {_links(served) or '-'}",
    ]
    if others:
        parts[-1] += "\n" + "\n".join(
            f"- {say('{words} is not promised').format(words=', '.join(f'`{n}`' for n in _lacking(spec, preset)))}: "
            f"{_links([spec])}"
            for spec in others
        )
        parts.append(
            say(
                "Documentation lags behind: `llm-setup clients verify` sends each client's own kind of request and "
                "says what came back."
            )
        )
    parts += [
        f"## {say('Between your own server and this one')}",
        f"```sh\nllm-setup use {preset.id}\nllm-setup use -\n```",
        say("The first line moves every applied client here, the second back to where they were."),
        f"## {say('When it does not answer')}",
        f"{NEEDS_THE_SERVICE}\n```sh\nllm-setup doctor --cheap\n```",
        say(
            "`--cheap` sends nothing that costs tokens. More: [find out why it does not work]"
            "(find-out-why-it-does-not-work.md)."
        ),
        say("Evidence: {evidence} ({checked}).").format(
            evidence=say(preset.evidence),
            checked=f"<{preset.source}>" + (f", {preset.checked}" if preset.checked else ""),
        ),
    ]
    return "\n\n".join(parts)


def _key(preset: Preset, say: Say) -> str:
    if not preset.key_needed:
        return say("It asks for no key unless it was started with one.")
    page = say("Keys are made at <{page}>.").format(page=preset.key_page) if preset.key_page else ""
    prefix = say("They begin with `{prefix}`.").format(prefix=preset.key_prefix) if preset.key_prefix else ""
    return " ".join(part for part in (page, prefix) if part)


def _lacking(spec: ClientSpec, preset: Preset) -> list[str]:
    return [need for need in spec.needs if need not in preset.speaks]


def _links(specs: list[ClientSpec]) -> str:
    return ", ".join(f"[{spec.title}](connect-{spec.name}.md)" for spec in specs)
