"""`llm-setup init`: the guided flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from wizard.cli.app import App, command_options
from wizard.problems import ExitCode


@click.command(
    "init", epilog="Example: llm-setup init --yes    or: llm-setup init --base-url https://host/v1 --model NAME"
)
@click.option("--base-url", metavar="URL", help="Use this endpoint; start nothing. With or without /v1.")
@click.option("--model", metavar="MODEL", help="Served name at the URL; or a hub id or folder to serve here.")
@click.option("--api-key-file", metavar="FILE", default="", help="File with the key; else LLM_SETUP_API_KEY.")
@click.option(
    "--client", "clients", metavar="NAME", multiple=True, help="Write this client's files (repeatable); none: no file."
)
@click.option("--scope", type=click.Choice(["user", "project"]), default="user", help="Home folder or this project.")
@click.option("--profile", metavar="NAME", help="Name under which the endpoint is remembered.")
@click.option("--vllm", metavar="PATH", help="An installed vLLM: its environment, command or Python.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where the server listens.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="8000, or the next free one, when not given.")
@click.option("--context", type=click.IntRange(min=1), metavar="TOKENS", help="The longest request that must fit.")
@click.option("--set", "pins", multiple=True, metavar="FLAG=VALUE", help="Fix a vLLM flag (repeatable).")
@command_options(yes=True, dry_run=True)
def command(
    app: App,
    base_url: str | None,
    model: str | None,
    api_key_file: str,
    clients: tuple[str, ...],
    scope: Literal["user", "project"],
    profile: str | None,
    vllm: str | None,
    host: str,
    port: int | None,
    context: int | None,
    pins: tuple[str, ...],
) -> int:
    """From this machine, or a URL and a key, to a coding agent that answers."""
    from wizard.flows.endpoints import EndpointOptions, given_key
    from wizard.flows.init import InitAnswers, InitFlow
    from wizard.ui.questions import Questions

    key = given_key(app.world, app.screen, EndpointOptions(api_key_file=api_key_file))
    answers = InitAnswers(
        base_url=base_url,
        model=model,
        key=key,
        clients=clients,
        vllm=str(Path(vllm).expanduser().absolute()) if vllm else None,
        host=host,
        port=port,
        context_tokens=context,
        pins=pins,
        profile=profile,
        scope=scope,
    )
    questions = Questions(app.screen, yes=app.yes, may_ask=app.may_ask)
    flow = InitFlow(app.world, app.screen, questions, answers, yes=app.yes, dry_run=app.dry_run)
    journey = flow.run()
    if app.screen.as_json:
        document: dict[str, Any] = {"status": "error" if journey.problems else "ok", **journey.document}
        document["problems"] = [problem.as_json() for problem in journey.problems]
        document["seconds"] = journey.seconds
        app.screen.document(document)
    return ExitCode.PROBLEM if journey.problems else ExitCode.FINE
