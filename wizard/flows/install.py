"""Install vLLM into an environment of its own: room, interpreter, ways in order of preference, proof by import."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wizard.effects.files import measure_folder
from wizard.effects.holding import held, holder
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpReply, HttpRequest
from wizard.flows.live import LiveLine
from wizard.flows.packages import check_disk
from wizard.flows.runtime import probe_python, venv_python
from wizard.flows.state import writable
from wizard.hardware.machine import Machine
from wizard.hardware.usable import Build, BuildChoice, choose_build
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError
from wizard.serving import install_plan
from wizard.serving.install_plan import (
    Attempt,
    InstallPlan,
    InstallProgress,
    Tools,
    advance_install,
    count_unpacked,
    installer_environment,
    judge_install,
    judge_installed,
    plan_install,
    runtime_name,
)
from wizard.serving.runtime import Probed, Runtime, runtime_from
from wizard.ui.screen import Screen

MARKER = "llm-setup.json"
_PROBE_S = 3.0
_SAYS_PYTHON = "import sys, venv; print('%d.%d' % sys.version_info[:2]); import ensurepip"


def install_runtime(
    world: World, screen: Screen, machine: Machine, *, version: str | None = None, build: Build | None = None
) -> Runtime:
    """Install vLLM in a runtime of our own and return it; one that is complete already is returned at once.

    An install that was interrupted goes on in the same folder. Raises ProblemError: no room, no network, no fitting
    Python, or an environment that did not become what was wanted.
    """
    choice = _choice(machine, build)
    version = version or install_plan.TESTED_VERSION
    folder = world.paths.runtimes / runtime_name(choice.build, version)
    done = _complete(world, folder)
    if done:
        return done
    screen.title(t("Install vLLM {version} ({build} build)", version=version, build=choice.build))
    screen.step("info", choice.reason)
    needed = max(1.0, install_plan.NEEDED_GIB[choice.build] - folder_size_gib(folder))
    check_disk(folder, needed, t("vLLM's {build} build", build=choice.build))
    plan = plan_install(choice.build, str(folder), _tools(world, choice.build), version, choice.variant)
    with writable(folder.parent), installing(folder):
        return _complete(world, folder) or _install(world, screen, plan)


def _choice(machine: Machine, build: Build | None) -> BuildChoice:
    """The build for this machine, or the one that was asked for. Raises ProblemError where that cannot run here, before
    gigabytes of it are fetched."""
    choice = choose_build(machine)
    if build is None or build == choice.build:
        return choice
    cuda = re.match(r"\d+", machine.driver_cuda or "")
    if build == "cuda" and cuda and int(cuda[0]) < 12:
        raise ProblemError(
            Problem(
                "driver-too-old",
                t("The NVIDIA driver is too old for vLLM's CUDA build."),
                choice.reason,
                (t("driver {version}, CUDA {cuda}", version=machine.driver_version or "?", cuda=machine.driver_cuda),),
                fix=Fix(
                    t("Update the driver, or take the CPU build."),
                    ("nvidia-smi", "llm-setup runtime install --build cpu"),
                ),
            )
        )
    return BuildChoice(build, t("It was asked for."))


@contextmanager
def installing(folder: Path) -> Iterator[None]:
    """Hold the right to fill a runtime's folder. Raises ProblemError where another run does."""
    try:
        with held(_lock_of(folder)):
            yield
    except BlockingIOError:
        raise ProblemError(
            Problem(
                "install-busy",
                t("Another run of llm-setup is installing `{name}`.", name=folder.name),
                saw=(t("pid: {pid}", pid=installer_of(folder) or t("unknown")),),
                fix=Fix(t("Wait for it; then run the command again."), ("llm-setup runtime list",)),
            )
        ) from None


def installer_of(folder: Path) -> int | None:
    """The pid of the run that is filling a runtime's folder now, or None."""
    return holder(_lock_of(folder))


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.installing")


def plan_new_runtime(world: World, machine: Machine, version: str | None, *, build: Build | None = None) -> InstallPlan:
    """What would be installed here, and how; only indexes are asked whether they answer."""
    choice = _choice(machine, build)
    version = version or install_plan.TESTED_VERSION
    folder = world.paths.runtimes / runtime_name(choice.build, version)
    return plan_install(choice.build, str(folder), _tools(world, choice.build), version, choice.variant)


def _complete(world: World, folder: Path) -> Runtime | None:
    if not (folder / MARKER).exists():
        return None
    probed = probe_python(world, venv_python(folder))
    return runtime_from(probed, folder.name, "own") if probed and probed.complete else None


def folder_size_gib(folder: Path) -> float:
    """What an earlier, interrupted install has already written."""
    return measure_folder(folder)[1] / 2**30


def _tools(world: World, build: Build) -> Tools:
    """What can install here. The two other indexes are asked together with nothing else waiting on them."""
    uv = world.processes.which("uv", world.env)
    hosts: set[str] = set()
    if build == "cpu":
        # An index that cannot be reached costs pip minutes of retries for each package: it is asked once instead.
        for host, path in (("download.pytorch.org", "/whl/cpu/torch/"), ("wheels.vllm.ai", "/")):
            reply = world.http.send(
                HttpRequest("HEAD", f"https://{host}{path}", timeout_s=_PROBE_S, connect_timeout_s=_PROBE_S)
            )
            if isinstance(reply, HttpReply) and reply.status < 500:
                hosts.add(host)
    return Tools(uv, _find_python(world, build, uv), frozenset(hosts))


def _find_python(world: World, build: Build, uv: str | None) -> str:
    """An interpreter that the wheels support and that can make environments: our own first, then PATH's, then uv's."""
    wanted = install_plan.pythons_for(build)
    own = getattr(sys, "_base_executable", None) or sys.executable
    names = [f"python{major}.{minor}" for major, minor in wanted]
    candidates = [own, *(path for name in names if (path := world.processes.which(name, world.env)))]
    seen: list[str] = []
    for python in dict.fromkeys(candidates):
        ran = world.processes.run([python, "-c", _SAYS_PYTHON], env=installer_environment(world.env), timeout_s=20)
        said = re.match(r"(\d+)\.(\d+)", ran.out)
        if not said:
            continue
        version = (int(said[1]), int(said[2]))
        if version in wanted and (ran.code == 0 or uv):
            return python
        seen.append(f"{python}: {said[0]}" + ("" if ran.code == 0 else t(" without ensurepip")))
    if uv:
        # uv fetches an interpreter of that version where there is none.
        return f"{wanted[0][0]}.{wanted[0][1]}"
    raise ProblemError(install_plan.python_unsupported(build, tuple(seen)))


def _install(world: World, screen: Screen, plan: InstallPlan) -> Runtime:
    folder = Path(plan.folder)
    log = _InstallLog(world, screen, world.paths.logs / f"install-{folder.name}.log", folder)
    begun = world.clock.monotonic_s()
    if folder.is_dir():
        screen.step("info", t("going on with what an interrupted install left"), str(folder))
    with writable(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        log.open()
    try:
        if not _works(world, venv_python(folder)):
            _first_that_works(log, plan, plan.environments, t("make the environment"))
        _first_that_works(log, plan, plan.attempts, t("install"))
        _mend(world, log, plan)
        probed = _verify(world, log, plan)
    finally:
        log.close()
    world.files.write_bytes(
        folder / MARKER,
        json.dumps({"schema_version": 1, "vllm": probed.vllm_version, "torch": probed.torch_version}).encode() + b"\n",
    )
    runtime = runtime_from(probed, folder.name, "own")
    seconds = world.clock.monotonic_s() - begun
    text = t("vLLM {version} with torch {torch}", version=runtime.vllm_version, torch=runtime.torch_version)
    screen.step("ok", text, str(folder), seconds)
    return runtime


def _works(world: World, python: Path) -> bool:
    """Whether a (perhaps half made) environment has an interpreter with pip."""
    if not python.exists():
        return False
    env = installer_environment(world.env)
    return world.processes.run([str(python), "-m", "pip", "--version"], env=env, timeout_s=60).code == 0


def _first_that_works(log: _InstallLog, plan: InstallPlan, attempts: tuple[Attempt, ...], title: str) -> None:
    for attempt in attempts:
        if all(log.run(command, f"{title}: {attempt.title}") == 0 for command in attempt.commands):
            return
        if log.full_disk:
            break
    raise ProblemError(judge_install(list(log.tail), build=plan.build, version=plan.version, log=str(log.path)))


def _mend(world: World, log: _InstallLog, plan: InstallPlan) -> None:
    """Put right what the repackaging for CPU leaves wrong: companions of another torch, and its missing metadata."""
    python = venv_python(Path(plan.folder))
    env = installer_environment(world.env)
    ran = world.processes.run(
        [str(python), "-c", install_plan.COMPANION_SCRIPT, *install_plan.CHECKED_COMPANIONS], env=env, timeout_s=300
    )
    try:
        broken = json.loads(ran.out)
    except ValueError:
        broken = []
    if broken:
        uninstall: tuple[str, ...] = (str(python), "-m", "pip", "uninstall", "-y", *broken)
        log.run(uninstall, t("remove what does not fit this torch: {names}", names=", ".join(broken)))
    probed = probe_python(world, python)
    if probed and probed.vllm_version and not probed.has_metadata:
        packages = Path(probed.packages)
        target = packages / install_plan.metadata_folder(probed.vllm_version)
        for name, text in install_plan.metadata_files(probed.vllm_distribution, probed.vllm_version).items():
            world.files.write_bytes(target / name, text.encode())


def _verify(world: World, log: _InstallLog, plan: InstallPlan) -> Probed:
    """The proof: the right torch, and both packages import (which the metadata alone does not say)."""
    python = venv_python(Path(plan.folder))
    probed = probe_python(world, python)
    problem = judge_installed(probed, plan.build, str(log.path))
    if problem is None and log.run((str(python), "-c", install_plan.VERIFY_SCRIPT), t("import vLLM")) != 0:
        problem = Problem(
            "install-failed",
            t("vLLM is installed and does not import."),
            saw=(*[line.strip()[:300] for line in list(log.tail)[-2:]], t("log: {path}", path=log.path)),
            fix=Fix(
                t("Remove the runtime and install it again."),
                (f"llm-setup runtime remove {Path(plan.folder).name}", "llm-setup runtime install"),
            ),
        )
    if problem is not None:
        raise ProblemError(problem)
    assert probed is not None
    return probed


class _InstallLog:
    """Runs installers: every line into a file, progress on the screen, the last lines kept for judging."""

    def __init__(self, world: World, screen: Screen, path: Path, folder: Path) -> None:
        """path: the file for the lines. folder: the environment that is being filled."""
        self._world = world
        self._screen = screen
        self._folder = folder
        self.path = path
        self.tail: deque[str] = deque(maxlen=200)
        self._live = LiveLine(world, screen)

    def open(self) -> None:
        """Begin the file; raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a", encoding="utf-8", errors="replace")

    def close(self) -> None:
        """End the file and the live line."""
        self._live.clear()
        self._file.close()

    @property
    def full_disk(self) -> bool:
        """Whether the last command ended for want of room: another way would end there too."""
        return any("No space left on device" in line for line in self.tail)

    def run(self, command: tuple[str, ...], title: str) -> int:
        """Run one installer command with its progress shown; returns its exit status."""
        from wizard.secret import redact

        folder = self._folder
        self._screen.step("running", title)
        self.tail.clear()
        progress = InstallProgress()
        begun = self._world.clock.monotonic_s()
        self._file.write(f"$ {redact(' '.join(command))}\n")

        def on_line(line: str) -> None:
            nonlocal progress
            progress = advance_install(progress, line)
            self.tail.append(redact(line))
            self._file.write(redact(line) + "\n")
            self._say(progress, self._world.clock.monotonic_s() - begun)

        def on_quiet() -> None:
            names = (
                [path.name for path in folder.glob("lib/python*/site-packages/*.dist-info")]
                if progress.to_unpack
                else []
            )
            self._say(count_unpacked(progress, names), self._world.clock.monotonic_s() - begun)

        env = installer_environment(self._world.env)
        code = self._world.processes.stream(command, env=env, on_line=on_line, on_quiet=on_quiet)
        self._live.clear()
        self._file.write(f"exit status {code}\n")
        self._file.flush()
        mark = "ok" if code == 0 else "warning"
        detail = "" if code == 0 else t("exit status {code}", code=code)
        self._screen.step(mark, title, detail, self._world.clock.monotonic_s() - begun)  # type: ignore[arg-type]
        return code

    def _say(self, progress: InstallProgress, seconds: float) -> None:
        """What the installer is at."""
        stage = {
            "resolve": t("resolve"),
            "download": t("download"),
            "build": t("build"),
            "install": t("unpack"),
            "done": t("done"),
        }[progress.stage]
        part = "" if progress.fraction is None else f" {progress.fraction:.0%}"
        package = progress.package[:48]
        counts = t("{n} packages, {size} GB", n=progress.packages, size=f"{progress.downloaded_gb:.2f}")
        self._live.show(f"{stage} {package}{part}  {counts}  {seconds:.0f} s")


def remove_runtime(world: World, folder: Path) -> None:
    """Delete a runtime of our own; the marker first, so that a half removed one is not taken for whole."""
    world.files.remove(folder / MARKER)
    shutil.rmtree(folder)
