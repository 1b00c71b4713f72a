"""`llm-setup models`: models ranked for this machine and for the intended clients."""

from __future__ import annotations

import click

from wizard.cli.app import App, command_options
from wizard.problems import ExitCode


@click.command(
    "models",
    epilog='Example: `llm-setup models --for codex --gpu "RTX 4090"`',
    short_help="Models ranked for this machine and for the intended clients.",
)
@click.option("--for", "clients", multiple=True, metavar="CLIENT", help="A client that will use it; repeatable.")
@click.option("--gpu", metavar="NAME", help="Rank for a machine with this GPU instead of this one.")
@click.option("--gpus", type=int, default=1, metavar="N", help="How many of them.  [default: 1]")
@click.option("--gpu-memory-gib", "memory_gib", type=float, metavar="X", help="Their memory, as the driver reports it.")
@click.option("--gpu-free-gib", "free_gib", type=float, metavar="X", help="How much of it is free.  [default: all]")
@click.option("--compute-capability", metavar="C", help="Their compute capability, such as 8.9.")
@click.option("--context", "context_tokens", type=click.IntRange(min=1), metavar="N", help="Tokens of context wanted.")
@click.option("--vllm-version", metavar="V", help="The vLLM that will run; else the one installed here.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show this many.  [default: 10]")
@click.option(
    "--all", "everything", is_flag=True, help="Also those that lack something or do not fit, with the reason."
)
@command_options()
def command(
    app: App,
    clients: tuple[str, ...],
    gpu: str | None,
    gpus: int,
    memory_gib: float | None,
    free_gib: float | None,
    compute_capability: str | None,
    context_tokens: int | None,
    vllm_version: str | None,
    limit: int | None,
    everything: bool,
) -> int:
    """Show what to serve here: fit, context, speed, tools, licence, download.

    Nothing is changed or downloaded. Ends with 1 when no model has all that the clients need.
    """
    from wizard.flows.hardware import observe_machine
    from wizard.flows.held import without_server
    from wizard.flows.models import show_models
    from wizard.flows.plan import installed_version
    from wizard.hardware.describe import describe_machine
    from wizard.planning.intent import Intent

    described = gpu is not None or memory_gib is not None
    machine = (
        describe_machine(gpu, gpus, memory_gib, free_gib, compute_capability)
        if described
        else without_server(app.world, observe_machine(app.world))[0]
    )
    if vllm_version is None and not described:
        vllm_version = installed_version(app.world, machine)
    suits = show_models(
        app.world,
        app.screen,
        machine,
        clients=clients,
        intent=Intent(clients=clients, context_tokens=context_tokens, vllm_version=vllm_version),
        everything=everything,
        limit=limit,
    )
    return ExitCode.FINE if suits else ExitCode.PROBLEM
