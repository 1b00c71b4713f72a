"""`llm-setup runtime`: the vLLM versions that are installed here."""

from __future__ import annotations

import click

from wizard.cli.app import App, command_options, run_list


@click.group(invoke_without_command=True, epilog="Example: llm-setup runtime install --vllm-version 0.31.0")
@click.pass_context
def command(context: click.Context) -> int:
    """Installed vLLM versions: several side by side, one of them used."""
    return run_list(context, list_command)


@command.command("list", epilog="Example: llm-setup runtime list --json")
@command_options()
def list_command(app: App) -> None:
    """Show the vLLM on PATH and those that llm-setup installed, and which one `serve` takes."""
    from wizard.flows.hardware import observe_machine
    from wizard.flows.runtimes import show_runtimes

    show_runtimes(app.world, app.screen, observe_machine(app.world))


@command.command("install", epilog="Example: llm-setup runtime install --vllm-version 0.31.0 --build cpu")
@click.option("--vllm-version", metavar="V", help="Version of vLLM.  [default: the one that llm-setup was tested with]")
@click.option(
    "--build", type=click.Choice(["cuda", "rocm", "cpu"]), help="What it computes on.  [default: by the hardware]"
)
@command_options(dry_run=True)
def install_command(app: App, vllm_version: str | None, build: str | None) -> None:
    """Install a vLLM into an environment of its own; an interrupted install goes on where it ended."""
    from wizard.flows.hardware import observe_machine
    from wizard.flows.runtimes import install_one

    install_one(app.world, app.screen, observe_machine(app.world), vllm_version, build, dry_run=app.dry_run)


@command.command("use", epilog="Example: llm-setup runtime use 0.31.0-cpu")
@click.argument("name")
@command_options()
def use_command(app: App, name: str) -> None:
    """Make `serve` take this runtime; `auto` gives the choice back."""
    from wizard.flows.runtimes import use_one

    use_one(app.world, app.screen, name)


@command.command("remove", epilog="Example: llm-setup runtime remove 0.31.0-cpu --yes")
@click.argument("name")
@command_options(yes=True, dry_run=True)
def remove_command(app: App, name: str) -> None:
    """Delete a runtime that llm-setup installed, whole or half installed. One that serves now is kept."""
    from wizard.flows.runtimes import remove_one
    from wizard.ui.questions import Questions

    remove_one(
        app.world,
        app.screen,
        name,
        Questions(app.screen, yes=app.yes, may_ask=app.may_ask),
        dry_run=app.dry_run,
    )
