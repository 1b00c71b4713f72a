"""What `serve` would run, without running it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wizard.catalog.arguments import flag_value
from wizard.effects.world import World
from wizard.flows.container import find_image
from wizard.flows.install import plan_new_runtime
from wizard.flows.runtime import runtime_here
from wizard.flows.serve import last_port, serve_words, served_name_of
from wizard.flows.serve_model import ServeAnswers, planned_arguments
from wizard.hardware.machine import Machine
from wizard.i18n import t
from wizard.serving import embedded
from wizard.serving.runtime import Runtime
from wizard.serving.start import ALWAYS, DEFAULT_PORT, plan_environment, server_variables
from wizard.ui.screen import Screen


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a start would run. installs: the commands before it, where there is no vLLM."""

    installs: tuple[tuple[str, ...], ...]
    version: str
    command: tuple[str, ...]
    env: dict[str, str]
    model: str
    served_name: str
    max_model_len: int | None
    host: str
    port: int

    def as_json(self) -> dict[str, Any]:
        """For `serve --dry-run --json` and `init --dry-run --json`."""
        return {
            "install": [list(words) for words in self.installs],
            "command": list(self.command),
            "env": self.env,
            "model": self.model,
        }


def plan_dry_run(world: World, screen: Screen, machine: Machine, answers: ServeAnswers) -> DryRun:
    """What `serve` would run; nothing is installed, fetched or started for it."""
    runtime: Runtime | None
    if answers.container:
        runtime = find_image(world, machine, version=answers.vllm_version, image=answers.image)
    else:
        runtime = runtime_here(world, screen, machine, vllm=answers.vllm, version=answers.vllm_version)
    installs: tuple[tuple[str, ...], ...] = ()
    serve: tuple[str, ...] = ("vllm", "serve")
    version = answers.vllm_version
    if runtime is None:
        plan = plan_new_runtime(world, machine, version)
        installs, version = plan.commands(), plan.version
    else:
        version = runtime.vllm_version
    model, arguments, env = planned_arguments(world, machine, answers, version)
    if runtime is not None:
        whole = plan_environment(world.env, runtime, env, local_model=Path(model).is_dir())
        serve = serve_words(world, runtime, answers.name, model, arguments, whole, tuple(env))
        # What only keeps vLLM quiet is left out of what is shown.
        env = {
            name: whole[name]
            for name in server_variables(runtime.build, runtime.folder, env, local_model=Path(model).is_dir())
            if name not in ALWAYS
        }
    port = answers.port or last_port(world, answers.name) or DEFAULT_PORT
    command = (*serve, model, "--host", answers.host, "--port", str(port), *arguments)
    name = flag_value(arguments, "--served-model-name") or served_name_of(model)
    wanted = answers.model or embedded.MODEL_ID
    length = flag_value(arguments, "--max-model-len") or ""
    tokens = int(length) if length.isdecimal() else None
    return DryRun(installs, version or "", command, env, wanted, name, tokens, answers.host, port)


def show_dry_run(screen: Screen, would: DryRun) -> None:
    """Show the install's commands where there is no vLLM, then the server's command and variables."""
    if would.installs:
        screen.title(t("Would install vLLM {version}", version=would.version))
        for words in would.installs:
            screen.line("  $ " + shlex.join(words))
    screen.title(t("Would start"))
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in would.env.items())
    screen.line("  $ " + " ".join(part for part in (settings, shlex.join(would.command)) if part))
    screen.line("  " + t("with a key in VLLM_API_KEY; nothing was installed, written or started."))
