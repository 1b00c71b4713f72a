"""`llm-setup status`."""

from __future__ import annotations

import click

from wizard.cli.app import App, command_options
from wizard.problems import ExitCode


@click.command(epilog="Example: llm-setup status --json")
@click.argument("name", required=False)
@command_options()
def command(app: App, name: str | None) -> int:
    """Servers that llm-setup started: state, model, load, last error. Exit code 1 when one of them is dead."""
    from wizard.flows.status import server_statuses, show_statuses

    statuses, problems = server_statuses(app.world, (name,) if name else ())
    bad = bool(problems) or any(status.state in ("dead", "unhealthy") for status in statuses)
    if name and not statuses and not problems:
        from wizard.flows.serve import unknown_server

        raise unknown_server(app.world, name)
    show_statuses(app.screen, statuses)
    for problem in problems:
        app.screen.problem(problem)
    if app.screen.as_json:
        app.screen.document(
            {
                "status": "error" if bad else "ok",
                "servers": [status.as_json() for status in statuses],
                "problems": [problem.as_json() for problem in problems],
            }
        )
    return ExitCode.PROBLEM if bad else ExitCode.FINE
