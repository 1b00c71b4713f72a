"""`llm-setup logs`."""

from __future__ import annotations

import click

from wizard.cli.app import App, command_options


@click.command(epilog="Example: llm-setup logs -f")
@click.argument("name", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is added, until Ctrl-C.")
@click.option("-n", "--lines", type=click.IntRange(0, 100_000), default=40, show_default=True, help="Last lines.")
@click.option("--path", "path_only", is_flag=True, help="Print where the log is, and nothing else.")
@command_options()
def command(app: App, name: str | None, follow: bool, lines: int, path_only: bool) -> None:
    """Show or follow a server's log; keys in it are masked."""
    from wizard.flows.logs import follow_log, log_of, show_log
    from wizard.serving.record import DEFAULT_NAME

    path = log_of(app.world, name or DEFAULT_NAME)
    if path_only and not app.screen.as_json:
        app.screen.line(str(path))
        return
    show_log(app.screen, path, 0 if path_only else lines)
    if follow and not app.screen.as_json:
        follow_log(app.world, app.screen, name or DEFAULT_NAME, path)
