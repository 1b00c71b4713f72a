"""`run CLIENT`: start a client on the endpoint with nothing of its own changed; the key only in its environment."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from wizard.clients.fit import judge_fit
from wizard.clients.formats import merge
from wizard.clients.render import Values, render_text, template_values
from wizard.clients.spec import ClientSpec
from wizard.effects.children import RUN_MARKER, Ended, end_left_overs, run_in_foreground, scratch_folder
from wizard.effects.installed import find_program
from wizard.effects.world import World
from wizard.endpoint.model import Endpoint
from wizard.flows.clients import Client, choose_clients, load_clients, places_of
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, usage_error
from wizard.ui.screen import Screen


def run_client(
    world: World,
    screen: Screen,
    endpoint: Endpoint,
    name: str,
    arguments: Sequence[str],
    *,
    out_to_stderr: bool = False,
) -> int:
    """Start it in the foreground; returns its exit code. Its own files are neither read nor written.

    The client gets a scratch folder as its home for settings, which is removed when it ends; daemons that it leaves
    behind are ended too. Raises ProblemError where it is not installed or cannot be started this way.
    """
    client = choose_clients(load_clients(world), [name])[0]
    program, rest = _program(world, client.spec, arguments)
    for problem in judge_fit(client.spec, endpoint):
        screen.problem(problem)
    with scratch_folder(world.env) as folder:
        env, fixed = prepare_run(world, client, endpoint, folder)
        marker = secrets.token_hex(8)
        try:
            ended: Ended = run_in_foreground(
                [str(program), *fixed, *rest], {**env, RUN_MARKER: marker}, world.cwd, out_to_stderr=out_to_stderr
            )
        finally:
            end_left_overs(marker)
    return ended.code


def _program(world: World, spec: ClientSpec, arguments: Sequence[str]) -> tuple[Path, Sequence[str]]:
    if not spec.run.env and not spec.run.files:
        raise usage_error(
            "client-not-runnable",
            t("{title} cannot be started from here: it takes its settings from files only.", title=spec.title),
            t("Write them instead."),
            f"llm-setup clients apply {spec.name}",
        )
    wanted, rest = spec.run.program, arguments
    if not wanted:
        if not arguments:
            raise usage_error(
                "command-missing",
                t("Say which program to start with {title}.", title=spec.title),
                t("Example:"),
                f"llm-setup run {spec.name} -- python app.py",
            )
        wanted, rest = arguments[0], arguments[1:]
    program = find_program(wanted, world.env)
    if program is None:
        raise ProblemError(
            Problem(
                "client-not-installed",
                t("`{program}` is not installed, or not on the PATH.", program=wanted),
                fix=Fix(t("Install it."), (spec.install,) if spec.install else ()),
            )
        )
    return program, rest


def prepare_run(world: World, client: Client, endpoint: Endpoint, folder: Path) -> tuple[dict[str, str], list[str]]:
    """The environment and leading arguments for the client, after its scratch files were written (0600)."""
    spec = client.spec
    values: Values = template_values(endpoint, spec, places_of(world))
    random = secrets.token_hex(16)

    def filled(text: str, where: str) -> str:
        text = render_text(text, values, f"{spec.name} [run] {where}")
        return text.replace("{home}", str(folder)).replace("{random}", random)

    for path, template in spec.run.files:
        text = render_text(client.templates[template], values, f"{spec.name}/{template}")
        if text.strip():
            text = text.replace("{home}", str(folder))
            kind = "json" if path.endswith(".json") else "text"
            world.files.write_private(folder / path, merge(None, text, kind, folder / path))
    env = {name: value for name, value in world.env.items() if name not in spec.run.unset}
    env |= {name: filled(text, name) for name, text in spec.run.env}
    # A dead proxy variable must not catch what goes to this machine.
    if any(env.get(name) for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")):
        local = ",".join(filter(None, (env.get("NO_PROXY") or env.get("no_proxy"), "127.0.0.1,localhost,::1")))
        env |= {"NO_PROXY": local, "no_proxy": local}
    arguments = [filled(text, "args") for text in spec.run.args]
    if endpoint.key and any(endpoint.key.reveal() in argument for argument in arguments):
        raise ProblemError(
            Problem(
                "key-in-arguments",
                t(
                    "The template of {title} puts the key into the command line, where everyone can read it.",
                    title=spec.title,
                ),
                fix=Fix(t("Put it into [run.env] of its client.toml.")),
            )
        )
    return {**env, "PWD": os.fspath(world.cwd)}, arguments
