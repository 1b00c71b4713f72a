"""`llm-setup hardware`: what is in this machine, and who holds its GPU memory."""

from __future__ import annotations

import click

from wizard.cli.app import App, command_options
from wizard.problems import ExitCode


@click.command(
    "hardware",
    epilog="Example: `llm-setup hardware --json | jq '.gpus[].memory_free_gib'`",
    short_help="What is in this machine, and who holds its GPU memory.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 600),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a GPU driver may take to answer.",
)
@command_options()
def command(app: App, timeout_s: float) -> int:
    """Show GPUs, their memory and who holds it, driver, processor, RAM, disk, container.

    Nothing is changed. What cannot be read is shown as unknown, with the reason. Ends with 1 when a GPU is here that
    its driver does not let anybody use.
    """
    from wizard.flows.hardware import show_hardware

    return ExitCode.PROBLEM if show_hardware(app.world, app.screen, gpu_time_limit_s=timeout_s) else ExitCode.FINE
