"""Find a vLLM that can serve on this machine, or install one into an environment of its own."""

from __future__ import annotations

import re
from pathlib import Path

from wizard.effects.world import World
from wizard.hardware.machine import Machine
from wizard.hardware.usable import choose_build
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError
from wizard.serving.runtime import PROBE_SCRIPT, Probed, Runtime, parse_probe, runtime_from
from wizard.ui.screen import Screen

_SHEBANG = re.compile(rb"^#!\s*(?P<direct>/[^\n]*?python[0-9.]*)\s*$", re.MULTILINE)
# How pip writes a shebang that is too long or has blanks: a shell line that executes the interpreter.
_EXECUTED = re.compile(rb"^'''exec' (?:\"(?P<quoted>[^\"]+)\"|(?P<bare>\S+)) ", re.MULTILINE)


def ensure_runtime(
    world: World, screen: Screen, machine: Machine, *, vllm: str | None = None, version: str | None = None
) -> Runtime:
    """The vLLM to serve with: the one named, else the chosen one, else one on PATH, else our own, else a new one.

    vllm: a virtual environment's folder, its `bin/vllm` or its Python. version: install and use this one.
    Raises ProblemError where there is none and none can be installed.
    """
    found = runtime_here(world, screen, machine, vllm=vllm, version=version)
    if found:
        return found
    from wizard.flows.install import install_runtime

    return install_runtime(world, screen, machine, version=version)


def runtime_here(
    world: World, screen: Screen, machine: Machine, *, vllm: str | None = None, version: str | None = None
) -> Runtime | None:
    """What `ensure_runtime` takes without an install; None where it would install one."""
    if vllm:
        return given_runtime(world, vllm)
    return find_runtime(world, screen, machine) if version is None else None


def find_runtime(world: World, screen: Screen, machine: Machine) -> Runtime | None:
    """An installed vLLM that fits this machine, or None. One on PATH that does not fit is passed over, and said."""
    own = own_runtimes(world)
    chosen = chosen_name(world)
    for runtime in own:
        if runtime.name == chosen:
            return runtime
    on_path = path_runtime(world)
    if on_path is not None:
        if _fits(on_path, machine):
            return on_path
        text = t(
            "{path} is vLLM's {build} build, which is not for this machine", path=on_path.folder, build=on_path.build
        )
        screen.step("skipped", text)
    return next((runtime for runtime in own if _fits(runtime, machine)), None)


def path_runtime(world: World) -> Runtime | None:
    """The vLLM on PATH, or None."""
    script = world.processes.which("vllm", world.env)
    probed = _probe_beside(world, Path(script)) if script else None
    return runtime_from(probed, "path", "path") if probed and probed.complete else None


def given_runtime(world: World, path: str) -> Runtime:
    """The vLLM that the user named. Raises ProblemError where there is none."""
    place = Path(path).expanduser()
    place = place if place.is_absolute() else world.cwd / place
    probed = _probe_given(world, place)
    if probed is None or not probed.complete:
        saw = t("no vLLM was found by {path}", path=place)
        if probed is not None:
            saw = t("{python} has no vLLM", python=probed.executable)
            if probed.vllm_version:
                saw = t(
                    "{python} has vLLM {version} and no torch", python=probed.executable, version=probed.vllm_version
                )
        raise ProblemError(
            Problem(
                "vllm-not-found",
                t("There is no vLLM at `{path}`.", path=path),
                t("`--vllm` takes the folder of a virtual environment, its `bin/vllm` or its Python."),
                saw=(saw,),
                fix=Fix(t("Name another, or leave `--vllm` out: llm-setup then finds or installs one.")),
            )
        )
    return runtime_from(probed, place.name, "given")


def own_runtimes(world: World) -> tuple[Runtime, ...]:
    """Completely installed runtimes of our own, newest vLLM first."""
    found: list[Runtime] = []
    folder = world.paths.runtimes
    for marker in sorted(folder.glob("*/llm-setup.json")) if folder.is_dir() else []:
        probed = probe_python(world, venv_python(marker.parent))
        if probed and probed.complete:
            found.append(runtime_from(probed, marker.parent.name, "own"))
    return tuple(sorted(found, key=lambda runtime: _version_key(runtime.vllm_version), reverse=True))


def chosen_name(world: World) -> str:
    """The name of the runtime that `runtime use` chose; empty for none."""
    raw = world.files.read_bytes(world.paths.runtimes / "chosen")
    return raw.decode("utf-8", "replace").strip() if raw else ""


def choose_runtime(world: World, name: str) -> Runtime:
    """Make one of our own runtimes the one that is used. Raises ProblemError for a name that is none."""
    for runtime in own_runtimes(world):
        if runtime.name == name:
            world.files.write_bytes(world.paths.runtimes / "chosen", name.encode() + b"\n")
            return runtime
    raise no_such_runtime(world, name)


def no_such_runtime(world: World, name: str) -> ProblemError:
    """The problem with a name that is none of ours."""
    names = ", ".join(runtime.name for runtime in own_runtimes(world)) or t("none")
    return ProblemError(
        Problem(
            "runtime-unknown",
            t("There is no installed runtime `{name}`.", name=name),
            saw=(t("installed: {names}", names=names),),
            fix=Fix(t("See the list."), ("llm-setup runtime list",)),
        )
    )


def probe_python(world: World, python: Path) -> Probed | None:
    """What an interpreter has; None where it cannot be run."""
    env = {name: value for name, value in world.env.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    ran = world.processes.run([str(python), "-B", "-c", PROBE_SCRIPT], env=env, cwd=_anywhere(world), timeout_s=60)
    return parse_probe(ran.out) if ran.code == 0 else None


def venv_python(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / "bin" / "python"


def _anywhere(world: World) -> Path | None:
    """A folder that holds no `vllm` by accident: `-c` looks in the current one first."""
    return world.home if world.home.is_dir() else None


def _fits(runtime: Runtime, machine: Machine) -> bool:
    """A GPU build needs its GPU; the CPU build runs anywhere, and is wrong beside a GPU that it would leave idle."""
    return runtime.build == choose_build(machine).build


def _probe_given(world: World, place: Path) -> Probed | None:
    if place.is_dir():
        candidates = [venv_python(place), place / "python", place / ".venv" / "bin" / "python"]
        python = next((path for path in candidates if path.exists()), None)
        return probe_python(world, python) if python else None
    if place.name.startswith("python"):
        return probe_python(world, place)
    return _probe_beside(world, place)


def _probe_beside(world: World, script: Path) -> Probed | None:
    """The interpreter of a console script: by its first line, else the one that lies beside it."""
    try:
        with script.open("rb") as opened:
            head = opened.read(2048)
    except OSError:
        return None
    candidates: list[Path] = []
    if direct := _SHEBANG.search(head):
        candidates.append(Path(direct["direct"].decode("utf-8", "replace")))
    elif executed := _EXECUTED.search(head):
        candidates.append(Path((executed["quoted"] or executed["bare"]).decode("utf-8", "replace")))
    candidates += [script.parent / "python", script.parent / "python3"]
    for python in candidates:
        if python.exists() and (probed := probe_python(world, python)):
            return probed
    return None


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:4])
