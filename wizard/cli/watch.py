"""`llm-setup watch`: servers as they work."""

from __future__ import annotations

import click

from wizard.cli.app import App, command_options
from wizard.problems import ExitCode


@click.command("watch", epilog="Example: llm-setup watch local --once --json")
@click.argument("names", nargs=-1, metavar="[NAME ...]")
@click.option("--base-url", default="", metavar="URL", help="A vLLM elsewhere; its key from LLM_SETUP_API_KEY.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(0.1, 3600),
    default=2.0,
    show_default=True,
    metavar="S",
    help="Seconds from one look to the next.",
)
@click.option(
    "--window",
    "window_s",
    type=click.FloatRange(0.1, 86400),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Seconds that rates and percentiles are taken over.",
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="So many looks.  [default: until Ctrl-C]")
@click.option("--once", is_flag=True, help="One look, over all of the server's life.")
@command_options()
def command(
    app: App, names: tuple[str, ...], base_url: str, interval_s: float, window_s: float, count: int | None, once: bool
) -> int:
    """Live metrics of vLLM servers: running, waiting, KV cache, prefix hits, time to first token, tokens/s, GPU.

    NAME is a server of llm-setup or a profile; without one, every running server. Lines instead of a live table with
    --plain or without a terminal; with --json a line of JSON for each look. Ends with 1 when one does not answer.
    """
    from wizard.flows.watch import WatchOptions, watch

    options = WatchOptions(names, base_url, interval_s, window_s, 1 if once else count)
    return ExitCode.FINE if watch(app.world, app.screen, options) else ExitCode.PROBLEM
