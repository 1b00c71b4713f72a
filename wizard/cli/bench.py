"""`llm-setup bench`: time to first token, between tokens, throughput."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wizard.cli.app import App, command_options
from wizard.i18n import t
from wizard.problems import ExitCode

if TYPE_CHECKING:
    from wizard.bench.compare import Price


def ladder(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """Concurrencies with commas between them: "1,4,16"."""
    words = [word.strip() for word in value.split(",")]
    if not all(word.isascii() and word.isdigit() and 1 <= int(word) <= 4096 for word in words):
        raise click.BadParameter(
            t("`{value}` is no concurrency; give numbers from 1 to 4096, such as 1,4,16.", value=value)
        )
    return tuple(dict.fromkeys(int(word) for word in words))


def rates(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, ...]:
    """Rates with commas between them: "0.5,2"."""
    found: list[float] = []
    for word in (value or "").split(",") if value else ():
        try:
            number = float(word)
        except ValueError:
            number = 0.0
        if not 0 < number <= 10_000:
            raise click.BadParameter(t("`{value}` is no rate; give requests a second, such as 0.5,2.", value=word))
        found.append(number)
    return tuple(dict.fromkeys(found))


def bounds(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, int]:
    """ "128" or "16-256"."""
    words = value.split("-")
    if len(words) > 2 or not all(word.isascii() and word.isdigit() and 1 <= int(word) <= 10**7 for word in words):
        raise click.BadParameter(
            t("`{value}` is no number of tokens; give 128, or 16-256 for any between.", value=value)
        )
    least, most = int(words[0]), int(words[-1])
    if least > most:
        raise click.BadParameter(
            t("`{value}` is no number of tokens; give 128, or 16-256 for any between.", value=value)
        )
    return least, most


def prices(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[tuple[str, Price], ...]:
    """NAME=IN/OUT for a million tokens each, or NAME=X/h."""
    from wizard.bench.compare import Price

    found: list[tuple[str, Price]] = []
    for text in value:
        name, _, price = text.rpartition("=")
        first, _, second = price.partition("/")
        try:
            numbers = (float(first), 0.0 if second == "h" else float(second))
        except ValueError:
            numbers = (-1.0, -1.0)
        if not name or not all(0 <= number < 1e9 for number in numbers):
            raise click.BadParameter(
                t("`{value}` is no price; give NAME=0.5/2 for a million prompt and output tokens, or NAME=1.80/h.",
                  value=text)
            )  # fmt: skip
        found.append((name, Price(hour=numbers[0]) if second == "h" else Price(*numbers)))
    return tuple(found)


@click.command("bench", epilog="Example: llm-setup bench local gateway --workload agent --concurrency 1,8")
@click.argument("profiles", nargs=-1, metavar="[PROFILE ...]")
@click.option("--base-url", default="", metavar="URL", help="An endpoint instead of, or beside, profiles.")
@click.option("--model", default="", metavar="ID", help="Model ID as the server lists it.")
@click.option("--workload", type=click.Choice(["random", "fixed", "agent"]), help="What is asked. [random]")
@click.option("--prompts", "prompts_file", default="", metavar="FILE", help="Own prompts: lines of text, or .jsonl.")
@click.option("--concurrency", callback=ladder, default="1,4,16", show_default=True, metavar="N[,N]", help="At once.")
@click.option("--rate", "rates", callback=rates, metavar="N[,N]", help="Requests a second instead, at random times.")
@click.option("--requests", type=click.IntRange(1, 10**6), metavar="N", help="At each load. [twice, at least 8]")
@click.option("--max-tokens", callback=bounds, default="128", show_default=True, metavar="N[-N]", help="Of an answer.")
@click.option(
    "--prompt-tokens", callback=bounds, default="256", show_default=True, metavar="N[-N]", help="Random ones."
)
@click.option("--cache", type=click.Choice(["cold", "warm", "both"]), default="cold", show_default=True)
@click.option("--price", "prices", callback=prices, multiple=True, metavar="NAME=IN/OUT|X/h", help="To compare costs.")
@click.option(
    "--output", "outputs", multiple=True, metavar="FILE", help="Also a .json, .csv, .md or .svg (repeatable)."
)
@click.option("--api-key-file", default="", metavar="FILE", help="File with the key; else LLM_SETUP_API_KEY.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of what is random.")
@click.option("--warmup", type=click.IntRange(0, 1000), default=1, show_default=True, metavar="N")
@click.option("--timeout", "timeout_s", type=click.FloatRange(0.1, 86400), default=300.0, metavar="SECONDS")
@click.option("--ignore-eos", is_flag=True, help="Answers of full length (vLLM only).")
@command_options()
def command(app: App, base_url: str, model: str, api_key_file: str, cache: str, **values: Any) -> int:
    """Measure endpoints side by side: the same prompts to each, in turns.

    Without a profile or URL: the active profile. Ends with 1 when requests failed.
    """
    from wizard.flows.bench import BenchOptions, run_bench
    from wizard.flows.endpoints import EndpointOptions

    given = EndpointOptions(base_url=base_url, model=model, api_key_file=api_key_file)
    values["workload"] = values["workload"] or ""
    options = BenchOptions(caches=("cold", "warm") if cache == "both" else (cache,), **values)  # type: ignore[arg-type]
    report = run_bench(app.world, app.screen, given, options)
    return ExitCode.PROBLEM if report.problems else ExitCode.FINE
