"""`llm-setup export`."""

from __future__ import annotations

from pathlib import Path

import click

from wizard.cli.app import App, command_options


@click.command(epilog="Example: llm-setup export systemd-user --install")
@click.argument("kind", required=False)
@click.option("--name", default=None, help="The server.  [default: local]")
@click.option("--model", metavar="MODEL", help="Plan for this model, not as it was started.")
@click.option("--context", "context_tokens", type=click.IntRange(min=1), metavar="N", help="Tokens of context.")
@click.option("--set", "pins", multiple=True, metavar="FLAG=VALUE", help="Fix one of vLLM's flags; repeatable.")
@click.option("--gpu", metavar="NAME", help="Plan for a machine with this GPU.")
@click.option(
    "--gpus",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="GPUs of a machine.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port.  [default: 8000]")
@click.option("--vllm", metavar="PATH", help="The vLLM that a unit runs.")
@click.option("--vllm-version", metavar="V", help="Version of the container image.")
@click.option("--image", metavar="IMAGE", default="", help="Another container image.")
@click.option("--output", "-o", type=click.Path(file_okay=False, path_type=Path), help="Folder for the files.")
@click.option("--public-name", metavar="HOST", default="", help="The name that a proxy answers to.")
@click.option("--nodes", type=click.IntRange(min=1), default=1, show_default=True, help="Machines of one server.")
@click.option("--master", metavar="ADDRESS", default="", help="The first machine's address, as the others reach it.")
@click.option("--tensor-parallel", "tensor", type=click.IntRange(min=1), metavar="N", help="GPUs of each machine.")
@click.option("--install", is_flag=True, help="systemd-user: put it in place, start it now and at boot.")
@command_options(yes=True, dry_run=True)
def command(
    app: App,
    kind: str | None,
    name: str | None,
    model: str | None,
    context_tokens: int | None,
    pins: tuple[str, ...],
    gpu: str | None,
    gpus: int,
    host: str,
    port: int | None,
    vllm: str | None,
    vllm_version: str | None,
    image: str,
    output: Path | None,
    public_name: str,
    nodes: int,
    master: str,
    tensor: int | None,
    install: bool,
) -> None:
    """Files that run a server elsewhere or for long: units, compose, Kubernetes, proxies, dashboards, several machines.

    Without KIND: the list. For the server of `serve`, or a planned one (`--model`).
    """
    from wizard.flows.export import ExportOptions, export, show_kinds
    from wizard.flows.hardware import observe_machine
    from wizard.flows.serve_model import ServeAnswers, read_pin
    from wizard.hardware.describe import describe_machine
    from wizard.hardware.usable import choose_build
    from wizard.planning.intent import Pin
    from wizard.serving.export import check_public_name, split_over_nodes
    from wizard.serving.record import DEFAULT_NAME, check_name

    if kind is None:
        show_kinds(app.world, app.screen)
        return
    machine = describe_machine(gpu, gpus * nodes) if gpu else observe_machine(app.world)
    parallel: tuple[Pin, ...] = ()
    if nodes > 1:
        sizes = split_over_nodes(choose_build(machine).build, nodes, tensor or gpus)
        flags = ("--tensor-parallel-size", "--pipeline-parallel-size")
        parallel = tuple(Pin(flag, str(size)) for flag, size in zip(flags, sizes, strict=True))
    answers = ServeAnswers(
        model=model,
        name=check_name(name or DEFAULT_NAME),
        host=host,
        port=port,
        vllm=vllm,
        vllm_version=vllm_version,
        context_tokens=context_tokens,
        pins=(*(read_pin(pin) for pin in pins), *parallel),
    )
    options = ExportOptions(
        output=output.expanduser() if output else None,
        nodes=nodes,
        master=check_public_name(master) if master else "",
        tensor_parallel_size=tensor or (gpus if gpu or nodes > 1 else None),
        public_name=check_public_name(public_name) if public_name else "",
        image=image,
        install=install,
        overwrite=app.yes,
        dry_run=app.dry_run,
    )
    export(app.world, app.screen, machine, kind, answers, options)
