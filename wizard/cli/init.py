"""`llm-setup init`: the guided flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wizard.cli.app import App, command_options
from wizard.problems import ExitCode


@click.command(
    "init", epilog="Example: llm-setup init --yes    or: llm-setup init --base-url https://host/v1 --model NAME"
)
@click.option("--base-url", metavar="URL", help="Use this endpoint; start nothing. With or without /v1.")
@click.option("--gateway", metavar="NAME", help="Use this service: see `llm-setup profiles presets`.")
@click.option("--here", is_flag=True, help="Serve on this machine.")
@click.option("--model", metavar="MODEL", help="Served name at the URL; or a hub id or folder to serve here.")
@click.option("--api-key-file", metavar="FILE", default="", help="File with the key; else LLM_SETUP_API_KEY.")
@click.option(
    "--client", "clients", metavar="NAME", multiple=True, help="Write this client's files (repeatable); none: no file."
)
@click.option("--answers", "answers_file", metavar="FILE", help="Take answers from this file (TOML or JSON).")
@click.option("--save-answers", metavar="FILE", help="Write the answers, without the key, into this file.")
@click.option("--resume/--no-resume", default=None, help="Go on where an earlier run was left, or begin anew.")
@click.option("--scope", type=click.Choice(["user", "project"]), help="Home folder (default) or this project.")
@click.option("--profile", metavar="NAME", help="Name under which the endpoint is remembered.")
@click.option("--vllm", metavar="PATH", help="An installed vLLM: its environment, command or Python.")
@click.option("--hub", metavar="NAME|URL", help="Fetch models from huggingface, hf-mirror, modelscope or a mirror.")
@click.option("--host", metavar="ADDRESS", help="Where the server listens; 127.0.0.1 when not given.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="8000, or the next free one, when not given.")
@click.option("--context", type=click.IntRange(min=1), metavar="TOKENS", help="The longest request that must fit.")
@click.option("--set", "pins", multiple=True, metavar="FLAG=VALUE", help="Fix a vLLM flag (repeatable).")
@command_options(yes=True, dry_run=True)
def command(
    app: App,
    base_url: str | None,
    gateway: str | None,
    here: bool,
    model: str | None,
    api_key_file: str,
    clients: tuple[str, ...],
    answers_file: str | None,
    save_answers: str | None,
    resume: bool | None,
    scope: str | None,
    profile: str | None,
    vllm: str | None,
    hub: str | None,
    host: str | None,
    port: int | None,
    context: int | None,
    pins: tuple[str, ...],
) -> int:
    """From this machine, or a URL and a key, to a coding agent that answers."""
    from wizard.flows.endpoints import EndpointOptions, given_key
    from wizard.flows.init import InitFlow, LeftError, Manner, read_answers
    from wizard.ui.questions import Questions

    key = given_key(app.world, app.screen, EndpointOptions(api_key_file=api_key_file))
    flags = {
        "clients": clients or None,
        "clients_anyway": clients or None,
        "source": "serve" if here else None,
        "gateway": gateway,
        "base_url": base_url,
        "model": model,
        "hub": hub,
        "context": context,
        "set": pins or None,
        "vllm": str(Path(vllm).expanduser().absolute()) if vllm else None,
        "host": host,
        "port": port,
        "profile": profile,
        "scope": scope,
    }
    given = read_answers(app.world, Path(answers_file)) if answers_file else {}
    given |= {name: value for name, value in flags.items() if value is not None}
    manner = Manner(app.yes, app.dry_run, resume, Path(save_answers) if save_answers else None)
    questions = Questions(app.screen, yes=app.yes, may_ask=app.may_ask)
    flow = InitFlow(app.world, app.screen, questions, given, key=key, manner=manner)
    try:
        journey = flow.run()
    except LeftError as left:
        return left.exit_code
    failed = any(problem.severity == "error" for problem in journey.problems)
    if app.screen.as_json:
        status = "error" if failed else "warning" if journey.problems else "ok"
        document: dict[str, Any] = {"status": status, **journey.document}
        document["problems"] = [problem.as_json() for problem in journey.problems]
        document["seconds"] = journey.seconds
        app.screen.document(document)
    return ExitCode.PROBLEM if failed else ExitCode.FINE
