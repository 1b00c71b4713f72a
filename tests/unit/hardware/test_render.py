"""The panel for people and the document for programs."""

from __future__ import annotations

import json
from dataclasses import replace

from wizard.hardware.judge import judge_machine
from wizard.hardware.machine import Cpu, Gpu, GpuLink, GpuProcess, Machine
from wizard.hardware.render import machine_json, render_bar, render_gpu, render_machine
from wizard.hardware.usable import choose_build

GPU = Gpu(
    0,
    "NVIDIA GeForce RTX 4090",
    "nvidia",
    24.0,
    6.0,
    compute_capability="8.9",
    processes=(GpuProcess(4242, 12.0, "python train.py", "alice"),),
)
MACHINE = Machine(
    "linux",
    Cpu("AMD EPYC 9354", "x86_64", 64, 32, 2, ("avx512f", "avx512_bf16", "avx2"), quota_cores=8.0),
    256.0,
    200.0,
    gpus=(GPU, replace(GPU, index=1, memory_free_gib=24.0, processes=())),
    driver_version="580.65.06",
    driver_cuda="13.0",
    container="docker",
    wsl=True,
    ssh=True,
    shm_total_gib=0.0625,
    disk_free_gib=512.0,
    links=(GpuLink(0, 1, "host-bridge"),),
)


def test_the_bar_tells_known_unknown_and_free_apart() -> None:
    assert render_bar(GPU, symbols=False, width=24) == "[############??????......]"
    assert render_bar(GPU, symbols=True, width=4) == "██▒░"


def test_a_little_held_memory_still_shows() -> None:
    little = replace(GPU, memory_free_gib=23.9, processes=())
    assert render_bar(little, symbols=False, width=10) == "[?.........]"


def test_without_a_size_there_is_no_bar() -> None:
    assert render_bar(replace(GPU, memory_free_gib=None), symbols=False) == ""


def test_a_gpu_shows_free_memory_holders_and_the_rest() -> None:
    text = "\n".join(render_gpu(GPU, symbols=False))
    assert "6.0 of 24.0 GiB free" in text
    assert "12.0 GiB  python train.py (alice, pid 4242)" in text
    assert "6.0 GiB  the driver, or processes that cannot be seen from here" in text


def test_what_is_unknown_is_shown_with_its_reason() -> None:
    mute = Gpu(0, "NVIDIA GPU", "nvidia", None, None, unknown=("memory: Not Supported",))
    assert "     unknown: memory: Not Supported" in render_gpu(mute, symbols=True)


def test_plain_lines_are_ascii() -> None:
    lines = render_machine(MACHINE, choose_build(MACHINE), symbols=False)
    assert "\n".join(lines).isascii()


def test_the_panel_has_every_part() -> None:
    text = "\n".join(render_machine(MACHINE, choose_build(MACHINE), symbols=True))
    for part in (
        "NVIDIA 580.65.06, CUDA up to 13.0",
        "64 threads on 32 cores",
        "limited to the time of 8",
        "2 NUMA nodes",
        "256.0 GiB, 200.0 GiB available",
        "64 MiB in /dev/shm",
        "512.0 GiB free",
        "in a container (docker), WSL, over SSH",
        "CUDA (cu130)",
        "PCIe, one host bridge: 0-1",
    ):
        assert part in text


def test_a_machine_without_a_gpu_says_so() -> None:
    bare = Machine("linux", Cpu(None, "x86_64", None), None, None)
    text = "\n".join(render_machine(bare, choose_build(bare), symbols=True))
    assert "none found" in text
    assert "unknown (x86_64)" in text
    assert "0.0 GiB" not in text


def test_the_document_keeps_unknown_as_null() -> None:
    mute = replace(MACHINE, gpus=(Gpu(0, "x", "nvidia", None, None, unknown=("memory: Not Supported",)),))
    document = json.loads(json.dumps(machine_json(mute, choose_build(mute), judge_machine(mute))))
    (gpu,) = document["gpus"]
    assert gpu["memory_free_gib"] is None
    assert gpu["memory_used_gib"] is None
    assert gpu["unknown"] == ["memory: Not Supported"]


def test_the_document_has_holders_links_and_the_build() -> None:
    document = machine_json(MACHINE, choose_build(MACHINE), judge_machine(MACHINE))
    assert document["gpus"][0]["processes"] == [
        {"pid": 4242, "name": "python train.py", "user": "alice", "memory_used_gib": 12.0, "graphics": False}
    ]
    assert document["links"] == [{"gpus": [0, 1], "kind": "host-bridge"}]
    assert (document["vllm"]["build"], document["vllm"]["variant"]) == ("cuda", "cu130")
    assert document["cpu"]["quota_cores"] == 8.0
    assert {problem["code"] for problem in document["problems"]} == {"shm-too-small", "gpu-memory-in-use"}
