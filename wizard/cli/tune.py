"""`llm-setup tune`: a measured search over vLLM's flags."""

from __future__ import annotations

from pathlib import Path

import click

from wizard.cli.app import App, command_options
from wizard.problems import ExitCode
from wizard.serving.record import DEFAULT_NAME


@click.command("tune", epilog='Example: llm-setup tune Qwen/Qwen3-8B --target "ttft p50 <= 200 ms at 4" --budget 1h')
@click.argument("extra", nargs=-1, type=click.UNPROCESSED, metavar="[MODEL] [-- VLLM-FLAGS]")
@click.option("--target", default="", metavar="TEXT", help='Must hold: "ttft p50 <= 200 ms at 4".')
@click.option(
    "--then",
    type=click.Choice(["throughput", "first-token"]),
    default="throughput",
    show_default=True,
    help="What to have more of within the target.",
)
@click.option("--budget", default="30m", show_default=True, metavar="TIME", help="Time for all trials together.")
@click.option("--workload", type=click.Choice(["agent", "random", "fixed"]), default="agent", show_default=True)
@click.option("--only", multiple=True, metavar="FLAG", help="Try only this; repeatable.")
@click.option("--set", "pins", multiple=True, metavar="FLAG=VALUE", help="Leave this flag so; repeatable.")
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["kv-dtype", "quantization"]),
    help="May change answers; repeatable.",
)
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="Server whose settings are written.")
@click.option("--trials", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@click.option(
    "--users", type=click.IntRange(1, 1024), metavar="N", help="Requests at once.  [default: the target's, 4]"
)
@click.option("--requests", type=click.IntRange(min=1), metavar="N", help="In a round.  [a conversation of each user]")
@click.option("--rounds", type=click.IntRange(1, 20), default=3, show_default=True, metavar="N")
@click.option(
    "--prefix-tokens", type=click.IntRange(1, 10**6), default=12000, metavar="N", help="Of an agent's prompt."
)
@click.option("--prompt-tokens", type=click.IntRange(1, 10**6), default=256, metavar="N", help="Of a random prompt.")
@click.option("--max-tokens", type=click.IntRange(1, 10**6), default=128, metavar="N", help="Of an answer.")
@click.option("--context", "context_tokens", type=click.IntRange(min=1), metavar="N", help="Tokens of context.")
@click.option("--for", "clients", multiple=True, metavar="CLIENT", help="Plan for this client; repeatable.")
@click.option("--vllm", metavar="PATH", help="An installed vLLM: its venv, `bin/vllm` or Python.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=1), metavar="S", help="Until a trial must be ready.")
@click.option("--stop-running", is_flag=True, help="Stop running servers for the time.")
@click.option("--fresh", is_flag=True, help="Forget earlier trials.")
@click.option("--no-write", is_flag=True, help="Write no settings.")
@command_options(yes=True, dry_run=True)
def command(
    app: App,
    extra: tuple[str, ...],
    target: str,
    then: str,
    budget: str,
    workload: str,
    only: tuple[str, ...],
    pins: tuple[str, ...],
    allow: tuple[str, ...],
    name: str,
    trials: int | None,
    users: int | None,
    requests: int | None,
    rounds: int,
    prefix_tokens: int,
    prompt_tokens: int,
    max_tokens: int,
    context_tokens: int | None,
    clients: tuple[str, ...],
    vllm: str | None,
    timeout_s: float | None,
    stop_running: bool,
    fresh: bool,
    no_write: bool,
) -> int:
    """Find faster flags by measuring: each trial starts a server of its own, asks, measures and stops it.

    Begins at the plan, or at the flags after `--`. Interrupted, it goes on where it was. What it finds is written as
    the server's settings, for `serve`. Answers must stay the same.
    """
    from wizard.bench.workloads import WorkloadOptions
    from wizard.cli.serve import check_extra
    from wizard.flows.hardware import observe_machine
    from wizard.flows.serve_model import ServeAnswers, read_pin
    from wizard.flows.tune import TuneOptions, plan_tune, tune
    from wizard.tuning.goal import parse_duration, parse_goal
    from wizard.ui.questions import Questions

    model: str | None = None
    if extra and not extra[0].startswith("-"):
        model, *others = extra
        extra = tuple(others)
    answers = ServeAnswers(
        model=model,
        name=name,
        vllm=str(Path(vllm).expanduser()) if vllm else None,
        context_tokens=context_tokens,
        clients=clients,
        pins=tuple(read_pin(pin) for pin in pins),
        extra=check_extra(extra),
        timeout_s=timeout_s,
    )
    options = TuneOptions(
        goal=parse_goal(target, "first-token" if then == "first-token" else "throughput", users),
        workload=WorkloadOptions(
            kind="agent" if workload == "agent" else "fixed" if workload == "fixed" else "random",
            prompt_tokens=(prompt_tokens, prompt_tokens),
            max_tokens=(max_tokens, max_tokens),
            prefix_tokens=prefix_tokens,
            ignore_eos=True,
        ),
        requests=requests,
        rounds=rounds,
        budget_s=parse_duration(budget),
        trials=trials,
        allow=allow,
        only=only,
        fresh=fresh,
        stop_running=stop_running,
        write=not no_write,
    )
    if app.dry_run:
        plan_tune(app.world, app.screen, observe_machine(app.world), answers, options)
        return ExitCode.FINE
    questions = Questions(app.screen, yes=app.yes, may_ask=app.may_ask)

    def agree(question: str) -> bool:
        # Not by --yes: a server that others may be using goes only by a word of its own.
        return app.may_ask and questions.confirm("--stop-running", question, recommended=False)

    report = tune(app.world, app.screen, observe_machine, answers, options, agree=agree)
    return ExitCode.FINE if report.best else ExitCode.PROBLEM
