"""`llm-setup env`: the triple for a shell."""

from __future__ import annotations

import sys

import click

from wizard.cli.app import App, command_options
from wizard.clients.shells import SHELLS, users_shell
from wizard.i18n import t
from wizard.problems import ExitCode


@click.command("env", epilog='Example: eval "$(llm-setup env)"')
@click.option("--shell", type=click.Choice(SHELLS), default=None, help="Default: the shell that SHELL names.")
@click.option("--profile", default="", metavar="NAME", help="Default: LLM_SETUP_PROFILE, else the active one.")
@click.option("--show-key", is_flag=True, help="Print the key on a terminal, too.")
@command_options()
def command(app: App, shell: str | None, profile: str, show_key: bool) -> int:
    """Print lines that set base URL, key and model in a shell.

    On a terminal the key is masked; through a pipe or `$(...)` it is there.
    """
    from wizard.flows.env import env_text, profile_for_env

    known, endpoint = profile_for_env(app.world, profile)
    if app.screen.as_json:
        from wizard.clients.shells import shell_variables

        # For looking at: a document is kept and logged, and shells take the lines without --json.
        app.screen.document(
            {
                "status": "ok",
                "profile": known.name,
                "variables": dict(shell_variables(endpoint, masked=True)),
                "key": endpoint.key_hint,
                "key_reference": known.key_reference,
                "key_masked": endpoint.key is not None,
            }
        )
        return ExitCode.FINE
    named = shell or users_shell(app.world.env, app.world.platform)
    chosen = next((known for known in SHELLS if known == named), SHELLS[0])
    if sys.stdout.isatty() and not show_key:
        app.screen.line(env_text(endpoint, chosen, masked=True).rstrip("\n"))
        click.echo("# " + t("The key is masked on a terminal: use eval, a pipe, or --show-key."), err=True)
    else:
        sys.stdout.write(env_text(endpoint, chosen))
    return ExitCode.FINE
