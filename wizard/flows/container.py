"""A container image as the runtime: find an engine that works, and fetch the image."""

from __future__ import annotations

import re

from wizard.effects.world import World
from wizard.flows.live import LiveLine
from wizard.hardware.machine import Machine
from wizard.hardware.usable import choose_build
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError
from wizard.serving.container import Container, Engine
from wizard.serving.export import image_for
from wizard.serving.install_plan import TESTED_VERSION
from wizard.serving.runtime import Runtime
from wizard.ui.screen import Screen

_ENGINES: tuple[tuple[Engine, tuple[str, ...]], ...] = (
    # The client alone is often there without its daemon, or without the right to speak to it.
    ("docker", ("version", "--format", "{{.Server.Version}}")),
    ("podman", ("version", "--format", "{{.Version}}")),
)
_ASK_S = 20.0


def find_image(world: World, machine: Machine, *, version: str | None, image: str) -> Runtime:
    """The runtime that an image would be; it need not be here. image: empty for vLLM's own of that version.

    Raises ProblemError where neither Docker nor Podman works.
    """
    build = choose_build(machine).build
    engine = _engine(world)
    image = image or image_for(build, version or TESTED_VERSION)
    tag = re.search(r":v?(\d+(?:\.\d+)+)", image)
    return Runtime(
        name=engine,
        python="",
        vllm_version=version or (tag[1] if tag else TESTED_VERSION),
        build=build,
        torch_version="",
        serve_command=(),
        origin="container",
        folder="",
        container=Container(engine, image),
    )


def ensure_image(world: World, screen: Screen, machine: Machine, *, version: str | None, image: str) -> Runtime:
    """The runtime of an image, which is fetched where it is not here. Raises ProblemError: no engine, no image."""
    runtime = find_image(world, machine, version=version, image=image)
    container = runtime.container
    assert container is not None
    if world.processes.run(
        [container.engine, "image", "inspect", container.image], env=world.env, timeout_s=_ASK_S
    ).code:
        _pull(world, screen, container)
    screen.step("ok", t("{engine} has the image", engine=container.engine), container.image)
    return runtime


def _pull(world: World, screen: Screen, container: Container) -> None:
    screen.step("running", t("fetch the image"), container.image)
    begun = world.clock.monotonic_s()
    lines: list[str] = []
    live = LiveLine(world, screen)

    def say(line: str = "") -> None:
        if line.strip():
            lines.append(line.strip())
            del lines[:-50]
        live.show(f"{lines[-1][:60] if lines else ''}  {world.clock.monotonic_s() - begun:.0f} s")

    code = world.processes.stream([container.engine, "pull", container.image], env=world.env, on_line=say, on_quiet=say)
    live.clear()
    if code != 0:
        raise ProblemError(
            Problem(
                "image-not-fetched",
                t("The image {image} could not be fetched.", image=container.image),
                t("What was fetched of it is kept; the next try goes on from there."),
                (*lines[-2:], t("exit status {code}", code=code)),
                fix=Fix(
                    t("Look whether its registry can be reached, name another image, or install vLLM without one."),
                    (f"{container.engine} pull {container.image}", "llm-setup runtime install"),
                ),
            )
        )


def _engine(world: World) -> Engine:
    saw: list[str] = []
    for engine, asks in _ENGINES:
        if world.processes.which(engine, world.env) is None:
            saw.append(t("{program}: not installed", program=engine))
            continue
        ran = world.processes.run([engine, *asks], env=world.env, timeout_s=_ASK_S)
        if ran.code == 0:
            return engine
        said = (ran.err or ran.out).strip().splitlines()
        saw.append(f"{engine}: {said[-1] if said else ran.code}"[:300])
    raise ProblemError(
        Problem(
            "container-engine-missing",
            t("Neither Docker nor Podman works here."),
            t("An image needs one of them to run."),
            tuple(saw),
            fix=Fix(
                t("Start or install one; or leave `--container` out, and vLLM is installed without."),
                ("sudo systemctl start docker", "sudo apt install podman"),
            ),
        )
    )
