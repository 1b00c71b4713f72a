"""`doctor --trace -- CMD`: run a client through a loopback recorder and explain what it met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from wizard.doctor.observations import Exchange, Target
from wizard.doctor.tracing import describe, explain_first_failure
from wizard.effects.recorder import Recorder
from wizard.effects.world import World
from wizard.endpoint.model import Endpoint
from wizard.endpoint.urls import check_base_url, with_version, without_version
from wizard.flows.clients import load_clients
from wizard.flows.doctor import DoctorOptions, observe
from wizard.flows.run import run_client
from wizard.i18n import t
from wizard.problems import Problem, usage_error
from wizard.ui.screen import Screen


def trace_client(
    world: World, screen: Screen, options: DoctorOptions, command: Sequence[str]
) -> tuple[tuple[Exchange, ...], Problem | None, int]:
    """Run the command with its endpoint replaced by a recorder; its exchanges, the cause, and its exit code.

    What it prints goes to stderr where stdout is for the document of `--json` alone.
    """
    if not command:
        raise usage_error(
            "command-missing", t("Say what to run."), t("Example:"), "llm-setup doctor --trace -- codex exec 'say hi'"
        )
    targets = observe(world, replace(options, offline=True)).targets
    if not targets:
        raise usage_error("endpoint-missing", t("No endpoint is known: give `--base-url` and `--model`."))
    name, arguments = _client_of(world, command)
    target = next((one for one in targets if one.client == name), targets[0])
    parts = urlsplit(check_base_url(target.base_url))
    recorder = Recorder(f"{parts.scheme}://{parts.netloc}")
    with recorder.listening():
        endpoint = _through(target, recorder.root, parts.path)
        code = run_client(world, screen, endpoint, name, arguments, out_to_stderr=screen.as_json)
    exchanges = tuple(recorder.exchanges)
    return exchanges, explain_first_failure(exchanges), code


def _client_of(world: World, command: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The client that the program is, with the rest of the line; any other program gets an SDK's environment."""
    program = Path(command[0]).name
    for name, client in load_clients(world).items():
        if client.spec.run.program == program:
            return name, command[1:]
    return "openai-sdk", command


def _through(target: Target, root: str, path: str) -> Endpoint:
    base = root + path.rstrip("/")
    messages = target.wire == "messages"
    return Endpoint(
        name="trace",
        openai_base_url=with_version(base) if messages else base,
        anthropic_base_url=base if messages else without_version(base),
        model=target.model,
        key=target.key,
        max_model_len=target.context_tokens,
    )


def show_trace(screen: Screen, exchanges: Sequence[Exchange], cause: Problem | None, code: int) -> None:
    """Every exchange as a line, then the cause of the first that failed."""
    screen.title(t("What was sent and answered ({count})", count=len(exchanges)))
    for exchange in exchanges:
        fine = exchange.reply is not None and exchange.reply.status < 400 and not exchange.reply.cut
        screen.step("ok" if fine else "failed", describe(exchange))
    if not exchanges:
        screen.step("warning", t("Nothing reached the endpoint: the client stopped before, or has another endpoint."))
    if cause is not None:
        screen.line()
        for line in screen.problem_lines(cause):
            screen.line(line)
    screen.line(t("The client ended with exit code {code}.", code=code))
