"""`llm-setup completion SHELL`: the script for a shell, and the names that Tab completes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from wizard.cli.app import App, command_options

if TYPE_CHECKING:
    from wizard.flows.names import Kind

SHELLS = ("bash", "zsh", "fish", "powershell")
# The variable through which the script asks; click makes the name from the program's.
VARIABLE = "_LLM_SETUP_COMPLETE"
# (command, parameter) -> whose names are completed there; `*` is any command.
_NAMES: dict[tuple[str, str], Kind] = {
    ("*", "profile"): "profiles",
    ("use", "name"): "profiles",
    ("use", "fallback"): "profiles",
    ("bench", "profiles"): "profiles",
    ("profiles show", "name"): "profiles",
    ("profiles key", "name"): "profiles",
    ("profiles remove", "name"): "profiles",
    ("*", "client"): "clients",
    ("*", "clients"): "clients",
    ("*", "client_type"): "clients",
    ("clients show", "names"): "clients",
    ("clients diff", "names"): "clients",
    ("clients apply", "names"): "clients",
    ("clients restore", "names"): "clients",
    ("clients verify", "names"): "clients",
    ("stop", "name"): "servers",
    ("logs", "name"): "servers",
    ("status", "name"): "servers",
    ("plan", "model"): "models",
    ("serve", "extra"): "models",
    ("*", "preset"): "presets",
    ("*", "gpu"): "gpus",
}


@click.command("completion", epilog='Example: eval "$(llm-setup completion bash)"    (a line for ~/.bashrc)')
@click.argument("shell", type=click.Choice(SHELLS))
@command_options()
def command(app: App, shell: str) -> None:
    """Print what makes Tab complete commands, options and names in a shell.

    bash and zsh: put the example's line into ~/.bashrc or ~/.zshrc. fish: llm-setup completion fish >
    ~/.config/fish/completions/llm-setup.fish. PowerShell: llm-setup completion powershell | Out-String |
    Invoke-Expression, in $PROFILE.
    """
    text = completion_script(shell)
    if app.screen.as_json:
        app.screen.document({"status": "ok", "shell": shell, "script": text})
    else:
        click.echo(text, nl=False)


def completion_script(shell: str) -> str:
    """The script of click for that shell; it asks `llm-setup` itself at every Tab."""
    found = get_completion_class(shell)
    if found is None:
        raise LookupError(shell)
    # Not source(): for bash that starts a bash to look at its version, and refuses where bash is another's.
    asker = found(click.Command("llm-setup"), {}, "llm-setup", VARIABLE)
    return asker.source_template % asker.source_vars()


def complete_names(command: click.Command, path: str) -> None:
    """Let Tab complete names of profiles, clients, servers, models, presets and GPUs in the command at `path`."""
    for parameter in command.params:
        name = parameter.name or ""
        kind = _NAMES.get((path, name)) or _NAMES.get(("*", name))
        if kind and not isinstance(parameter.type, click.Choice):
            setattr(parameter, "shell_complete", _completer(kind))  # noqa: B010 (click takes it at construction only)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            complete_names(inner, f"{path} {inner.name}")


def _completer(kind: Kind) -> Callable[[click.Context, str], list[CompletionItem[str]]]:
    def complete(_: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from wizard.effects.world import real_world
        from wizard.flows.names import names_of

        return [CompletionItem(name) for name in names_of(real_world(), kind, incomplete)]

    return complete
