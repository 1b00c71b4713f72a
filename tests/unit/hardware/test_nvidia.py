"""Records of the driver's library become GPUs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wizard.hardware import nvidia
from wizard.hardware.machine import Gpu

MIB = 2**20


def gpu(index: int, **values: Any) -> dict[str, Any]:
    """A record of an RTX 4090 as effects/nvml_child.py prints it."""
    record: dict[str, Any] = {
        "event": "gpu",
        "index": index,
        "errors": {},
        "name": "NVIDIA GeForce RTX 4090",
        "uuid": f"GPU-{index}",
        "total": 24564 * MIB,
        "reserved": 481 * MIB,
        "free": 24083 * MIB,
        "capability": [8, 9],
        "bus": f"00000000:{index + 1:02X}:00.0",
        "display": False,
        "processes": [],
    }
    return record | values


def read(*records: dict[str, Any], ended: nvidia.Ended = "done") -> nvidia.NvidiaFacts:
    return nvidia.parse_nvml([json.dumps(record) for record in records], ended, 20.0)


def test_the_total_is_what_cuda_reports_without_the_drivers_reserve() -> None:
    (found,) = read(gpu(0)).gpus
    assert found.memory_total_gib == pytest.approx(23.52, abs=0.005)
    assert found.memory_free_gib == pytest.approx(23.52, abs=0.005)
    assert found.compute_capability == "8.9"
    assert found.pci_bus_id == "0000:01:00.0"
    assert found.unknown == ()


def test_a_driver_that_does_not_tell_its_reserve_is_said_to_be_so() -> None:
    (found,) = read(gpu(0, reserved=None)).gpus
    assert found.memory_total_gib == pytest.approx(23.99, abs=0.005)
    assert "reserve" in found.unknown[0]


def test_memory_that_cannot_be_read_is_unknown_with_the_reason() -> None:
    (found,) = read(gpu(0, total=None, free=None, errors={"memory": "Not Supported"})).gpus
    assert found.memory_total_gib is None
    assert found.memory_free_gib is None
    assert found.unknown == ("memory: Not Supported",)


def test_driver_and_cuda_versions() -> None:
    facts = read({"event": "driver", "driver_version": "570.86.10", "cuda": 12080})
    assert (facts.driver_version, facts.driver_cuda) == ("570.86.10", "12.8")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (4, "driver-no-permission"),
        (9, "driver-not-loaded"),
        (12, "driver-library-missing"),
        (18, "driver-library-mismatch"),
        (999, "driver-error"),
    ],
)
def test_errors_of_the_library_are_told_apart(code: int, error: str) -> None:
    facts = read({"event": "error", "at": "init", "code": code, "text": "the library's word"})
    assert (facts.error, facts.error_text) == (error, "the library's word")


def test_a_process_that_computes_and_draws_counts_once() -> None:
    processes = [
        {"pid": 7, "used": 2048 * MIB, "graphics": False},
        {"pid": 7, "used": 2048 * MIB, "graphics": True},
        {"pid": 8, "used": 512 * MIB, "graphics": True},
        {"pid": 9, "used": None, "graphics": False},
    ]
    found = read(gpu(0, processes=processes)).gpus[0].processes
    assert [(p.pid, p.memory_used_gib, p.graphics) for p in found] == [
        (7, 2.0, False),
        (8, 0.5, True),
        (9, None, False),
    ]


def test_slices_are_gpus_of_their_own_and_numbers_move_up() -> None:
    a100 = {"name": "NVIDIA A100-SXM4-40GB", "capability": [8, 0]}
    part = {"parent_name": a100["name"], "capability": [8, 0], "total": 4864 * MIB, "reserved": 0, "free": 4852 * MIB}
    facts = read(
        gpu(0, **part, name="NVIDIA A100-SXM4-40GB MIG 1g.5gb", uuid="MIG-a"),
        gpu(0, **part, name="NVIDIA A100-SXM4-40GB MIG 1g.5gb", uuid="MIG-b"),
        gpu(1, **a100),
        gpu(2, **a100),
        {"event": "link", "first": 0, "second": 1, "nvlink": True, "level": 50},
        {"event": "link", "first": 1, "second": 2, "nvlink": True, "level": 50},
    )
    assert [(g.index, g.name, g.mig) for g in facts.gpus] == [
        (0, "NVIDIA A100-SXM4-40GB", "1g.5gb"),
        (1, "NVIDIA A100-SXM4-40GB", "1g.5gb"),
        (2, "NVIDIA A100-SXM4-40GB", None),
        (3, "NVIDIA A100-SXM4-40GB", None),
    ]
    assert [(link.first, link.second) for link in facts.links] == [(2, 3)]
    assert facts.gpus[2].nvlink_peers == (3,)


def test_pcie_levels_are_named() -> None:
    facts = read(gpu(0), gpu(1), {"event": "link", "first": 0, "second": 1, "nvlink": False, "level": 30})
    assert [link.kind for link in facts.links] == ["host-bridge"]
    assert facts.gpus[0].nvlink_peers == ()


def test_a_reading_that_hung_keeps_what_it_had_and_names_the_rest() -> None:
    facts = read({"event": "count", "gpus": 3}, gpu(0), ended="timeout")
    assert facts.error == "driver-hung"
    assert [g.memory_total_gib is not None for g in facts.gpus] == [True, False, False]
    assert "20 s" in facts.gpus[2].unknown[0]


def test_a_line_that_was_cut_off_is_left_out() -> None:
    facts = nvidia.parse_nvml([json.dumps(gpu(0)), '{"event": "gpu", "ind'], "crashed", 20.0)
    assert facts.error == "driver-crashed"
    assert len(facts.gpus) == 1


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC\nGCC version:  gcc 12.2",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.183.01  Release Build  (dvs-builder@U22)\n",
    ],
)
def test_the_kernel_module_tells_its_version(text: str) -> None:
    assert nvidia.parse_kernel_module_version(text) == "535.183.01"


def test_the_kernel_names_a_gpu_whose_library_is_silent() -> None:
    text = (
        "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:   \t\t 185\nGPU UUID: \t GPU-5f3a\n"
        "Video BIOS: \t 95.02.3c\nBus Location: \t 0000:41:00.0\n"
    )
    found = nvidia.parse_kernel_gpu(text, 0, "Driver/library version mismatch")
    assert (found.name, found.uuid, found.pci_bus_id) == ("NVIDIA GeForce RTX 4090", "GPU-5f3a", "0000:41:00.0")
    assert "mismatch" in found.unknown[0]
    assert found.memory_total_gib is None


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("1", [1]),
        ("2,0", [0, 2]),
        ("-1", []),
        ("0,9,1", [0]),
        ("GPU-b", [1]),
        ("NoDevFiles", []),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(value: str | None, seen: list[int]) -> None:
    gpus = tuple(Gpu(n, "x", "nvidia", 1.0, 1.0, uuid=f"GPU-{letter}") for n, letter in enumerate("abc"))
    marked = nvidia.hide_invisible(gpus, value, "CUDA_VISIBLE_DEVICES")
    assert [g.index for g in marked if g.hidden_by is None] == seen
