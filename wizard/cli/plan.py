"""`llm-setup plan`: the recommended command, a reason for each flag, the memory budget."""

from __future__ import annotations

from pathlib import Path

import click

from wizard.cli.app import App, command_options
from wizard.problems import ExitCode


@click.command(
    "plan",
    short_help="The recommended vLLM command line, a reason for each flag, the memory budget.",
    epilog='Example: `llm-setup plan Qwen/Qwen3-8B --gpu "RTX 4090" --context 32768 --set max-num-seqs=16`',
)
@click.argument("model")
@click.option("--gpu", metavar="NAME", help="Plan for this GPU, which need not be here.")
@click.option("--gpus", type=click.IntRange(1, 1024), metavar="N", help="How many of them.")
@click.option("--gpu-memory-gib", type=float, metavar="X", help="Its memory, as its driver reports it.")
@click.option("--gpu-free-gib", type=float, metavar="X", help="What of it is free.")
@click.option("--compute-capability", metavar="8.9", help="Its compute capability.")
@click.option("--vllm-version", metavar="V", help="The vLLM that will run; else the one installed here.")
@click.option("--model-config", type=click.Path(path_type=Path), metavar="PATH", help="A config.json or model folder.")
@click.option("--hub", "ask_hub", is_flag=True, help="Ask the hub before the catalogue.")
@click.option("--revision", metavar="REV", help="Branch or commit on the hub.")
@click.option("--set", "pins", multiple=True, metavar="FLAG=VALUE", help="Fix a flag of vLLM. Repeatable.")
@click.option("--for", "clients", multiple=True, metavar="CLIENT", help="A client that will use it. Repeatable.")
@click.option("--context", type=click.IntRange(1, 2**31), metavar="N", help="Tokens that one request must fit.")
@click.option(
    "--wish",
    type=click.Choice(["balanced", "context", "latency", "throughput"]),
    default="balanced",
    help="What matters most.",
)
@click.option("--served-name", metavar="NAME", help="The name that clients use.")
@click.option("--lora", multiple=True, metavar="NAME=PATH", help="An adapter to load. Repeatable.")
@click.option("--trust-remote-code", is_flag=True, help="Let code of the model's author run.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "command", "yaml", "env", "json"]),
    default="text",
    help="Print only this: a command, a vLLM --config file, variables, JSON.",
)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw the memory bar.")
@command_options()
def command(
    app: App,
    model: str,
    gpu: str | None,
    gpus: int | None,
    gpu_memory_gib: float | None,
    gpu_free_gib: float | None,
    compute_capability: str | None,
    vllm_version: str | None,
    model_config: Path | None,
    ask_hub: bool,
    revision: str | None,
    pins: tuple[str, ...],
    clients: tuple[str, ...],
    context: int | None,
    wish: str,
    served_name: str | None,
    lora: tuple[str, ...],
    trust_remote_code: bool,
    form: str,
    svg: Path | None,
) -> int:
    """Plan how to serve MODEL (a folder, or a name on the hub) here, or on the machine that flags describe.

    Nothing is changed or downloaded. All sizes are estimates, with the range that nine of ten real starts fall into.
    Ends with 1 when the model does not fit.
    """
    from wizard.flows.plan import PlanQuestion, plan_command

    question = PlanQuestion(
        model=model,
        gpu=gpu,
        gpus=gpus,
        gpu_memory_gib=gpu_memory_gib,
        gpu_free_gib=gpu_free_gib,
        compute_capability=compute_capability,
        vllm_version=vllm_version,
        model_config=model_config,
        ask_hub=ask_hub,
        revision=revision,
        pins=pins,
        clients=clients,
        context_tokens=context,
        wish=wish,
        served_name=served_name,
        lora_modules=lora,
        trust_remote_code=trust_remote_code,
        form="json" if app.screen.as_json else form,
        svg=svg,
    )
    return ExitCode.FINE if plan_command(app.world, app.screen, question) else ExitCode.PROBLEM
