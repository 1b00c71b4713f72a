"""`llm-setup bench`: time to first token, between tokens, throughput."""

from __future__ import annotations

from typing import Any

import click

from wizard.cli.app import App, command_options
from wizard.i18n import t
from wizard.problems import ExitCode


def ladder(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """Concurrencies with commas between them: "1,4,16"."""
    words = [word.strip() for word in value.split(",")]
    if not all(word.isascii() and word.isdigit() and 1 <= int(word) <= 4096 for word in words):
        raise click.BadParameter(
            t("`{value}` is no concurrency; give numbers from 1 to 4096, such as 1,4,16.", value=value)
        )
    return tuple(dict.fromkeys(int(word) for word in words))


@click.command("bench", epilog="Example: llm-setup bench local gateway --concurrency 1,8 --max-tokens 256")
@click.argument("profiles", nargs=-1, metavar="[PROFILE ...]")
@click.option("--base-url", default="", metavar="URL", help="An endpoint instead of, or beside, profiles.")
@click.option("--model", default="", metavar="ID", help="Model ID as the server lists it.")
@click.option("--api-key-file", default="", metavar="FILE", help="File with the key; else LLM_SETUP_API_KEY.")
@click.option("--concurrency", callback=ladder, default="1,4,16", show_default=True, metavar="N[,N]")
@click.option("--requests", type=click.IntRange(1, 10**6), metavar="N", help="At each concurrency. [twice it, min. 8]")
@click.option("--max-tokens", type=click.IntRange(1, 10**6), default=128, show_default=True, metavar="N")
@click.option("--prompt-tokens", type=click.IntRange(1, 10**7), default=256, show_default=True, metavar="N")
@click.option("--prompts", "prompts_file", default="", metavar="FILE", help="Own prompts, one a line.")
@click.option("--cache", type=click.Choice(["cold", "warm"]), default="cold", show_default=True, help="Prefix cache.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of the random prompts.")
@click.option("--warmup", type=click.IntRange(0, 1000), default=1, show_default=True, metavar="N")
@click.option("--timeout", "timeout_s", type=click.FloatRange(0.1, 86400), default=300.0, metavar="SECONDS")
@click.option("--ignore-eos", is_flag=True, help="Answers of full length (vLLM only).")
@command_options()
def command(app: App, base_url: str, model: str, api_key_file: str, **values: Any) -> int:
    """Measure endpoints: the same prompts to each, interleaved, at each concurrency.

    Without a profile or URL: the active profile. Ends with 1 when requests failed.
    """
    from wizard.flows.bench import BenchOptions, run_bench
    from wizard.flows.endpoints import EndpointOptions

    given = EndpointOptions(base_url=base_url, model=model, api_key_file=api_key_file)
    report = run_bench(app.world, app.screen, given, BenchOptions(**values))
    return ExitCode.PROBLEM if report.problems else ExitCode.FINE
