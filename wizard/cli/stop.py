"""`llm-setup stop`."""

from __future__ import annotations

import click

from wizard.cli.app import App, command_options
from wizard.i18n import t
from wizard.problems import ExitCode, ProblemError, usage_error


@click.command(epilog="Example: llm-setup stop       (the default server; all of them: llm-setup stop --all)")
@click.argument("name", required=False)
@click.option("--all", "every", is_flag=True, help="Stop every server that llm-setup started.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=20.0,
    show_default=True,
    metavar="S",
    help="Seconds until it is killed.",
)
@command_options()
def command(app: App, name: str | None, every: bool, timeout_s: float) -> int:
    """Stop a server with all its processes, and see that its port is free again."""
    from wizard.flows.serve import stop_server
    from wizard.serving.record import DEFAULT_NAME

    if every and name:
        raise usage_error("wrong-usage", t("`--all` and a name exclude each other."), t("Give one of them."))
    names = app.world.servers.names() if every else (name or DEFAULT_NAME,)
    stopped: list[str] = []
    problems: list[ProblemError] = []
    for each in names:
        try:
            if stop_server(app.world, app.screen, each, patience_s=timeout_s):
                stopped.append(each)
        except ProblemError as error:
            if not every:
                raise
            problems.append(error)
            app.screen.problem(error.problem)
    if app.screen.as_json:
        app.screen.document(
            {
                "status": "error" if problems else "ok",
                "stopped": stopped,
                "problems": [error.problem.as_json() for error in problems],
            }
        )
    return ExitCode.PROBLEM if problems else ExitCode.FINE
