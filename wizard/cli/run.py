"""`llm-setup run CLIENT -- ARGS`."""

from __future__ import annotations

from typing import Any

import click

from wizard.cli.app import App, command_options
from wizard.cli.clients import endpoint_options, options_of


@click.command("run", epilog="Example: llm-setup run claude-code -- -p 'say hi'")
@click.argument("client")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@endpoint_options
@command_options()
def command(app: App, client: str, arguments: tuple[str, ...], **values: Any) -> int:
    """Start a client on the endpoint; none of its own files is read or changed.

    What follows `--` goes to the client. The key is passed in its environment only.
    """
    from wizard.flows.endpoints import resolve_endpoint
    from wizard.flows.run import run_client

    endpoint = resolve_endpoint(app.world, app.screen, options_of(values))
    return run_client(app.world, app.screen, endpoint, client, arguments)
