"""What `serve` would run, without running it."""

from __future__ import annotations

import shlex

from wizard.effects.world import World
from wizard.flows.install import plan_new_runtime
from wizard.flows.runtime import find_runtime, given_runtime
from wizard.flows.serve_model import ServeAnswers, planned_arguments
from wizard.hardware.machine import Machine
from wizard.i18n import t
from wizard.serving import embedded
from wizard.serving.runtime import Runtime
from wizard.serving.start import DEFAULT_PORT
from wizard.ui.screen import Screen


def show_dry_run(world: World, screen: Screen, machine: Machine, answers: ServeAnswers) -> None:
    """Show the install's commands where there is no vLLM, then the server's command and variables."""
    runtime: Runtime | None = given_runtime(world, answers.vllm) if answers.vllm else None
    if runtime is None and answers.vllm_version is None:
        runtime = find_runtime(world, screen, machine)
    installs: tuple[tuple[str, ...], ...] = ()
    serve: tuple[str, ...] = ("vllm", "serve")
    version = answers.vllm_version
    if runtime is None:
        plan = plan_new_runtime(world, machine, version)
        installs, version = plan.commands(), plan.version
    else:
        serve, version = runtime.serve_command, runtime.vllm_version
    model, arguments, env = planned_arguments(world, machine, answers, version)
    port = answers.port or DEFAULT_PORT
    command = (*serve, model, "--host", answers.host, "--port", str(port), *arguments)
    if screen.as_json:
        screen.document(
            {
                "status": "ok",
                "install": [list(words) for words in installs],
                "command": list(command),
                "env": env,
                "model": answers.model or embedded.MODEL_ID,
            }
        )
        return
    if installs:
        screen.title(t("Would install vLLM {version}", version=version))
        for words in installs:
            screen.line("  $ " + shlex.join(words))
    screen.title(t("Would start"))
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
    screen.line("  $ " + " ".join(part for part in (settings, shlex.join(command)) if part))
    screen.line("  " + t("with a key in VLLM_API_KEY; nothing was installed, written or started."))
