"""What a machine's owner should know before serving."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import pytest

from wizard.hardware.judge import judge_machine
from wizard.hardware.machine import Cpu, DriverError, Gpu, GpuProcess, Machine

GPU = Gpu(0, "NVIDIA GeForce RTX 4090", "nvidia", 24.0, 24.0, compute_capability="8.9", pci_bus_id="0000:01:00.0")
MACHINE = Machine("linux", Cpu("cpu", "x86_64", 8), 64.0, 60.0, gpus=(GPU,), driver_version="580.65.06")


def codes(machine: Machine) -> list[str]:
    return [problem.code for problem in judge_machine(machine)]


def test_a_healthy_machine_has_no_problem() -> None:
    assert codes(MACHINE) == []


@pytest.mark.parametrize("error", get_args(DriverError))
def test_each_trouble_of_the_driver_has_a_code_a_cause_and_a_fix(error: DriverError) -> None:
    (problem,) = judge_machine(replace(MACHINE, driver_error=error, driver_error_text="its own word"))
    assert problem.code == error
    assert problem.why
    assert problem.fix is not None and problem.fix.text
    assert problem.saw[0] == "its own word"


def test_a_missing_driver_in_a_container_points_to_the_container() -> None:
    problem = judge_machine(replace(MACHINE, driver_error="driver-missing", container="docker"))[0]
    assert problem.fix is not None
    assert "--gpus" in problem.fix.commands[0]
    assert problem.severity == "warning"


def test_memory_held_by_others_names_who_holds_it() -> None:
    held = replace(
        GPU, memory_free_gib=4.0, processes=(GpuProcess(4242, 18.0, "python train.py", "alice"), GpuProcess(77, 1.5))
    )
    (problem,) = judge_machine(replace(MACHINE, gpus=(held,)))
    assert problem.code == "gpu-memory-in-use"
    assert problem.severity == "info"
    assert "python train.py (pid 4242, alice)" in problem.saw[0]
    assert problem.fix is not None
    assert problem.fix.commands == ("ps -fp 4242",)


def test_a_little_memory_in_use_is_nothing_to_tell() -> None:
    assert codes(replace(MACHINE, gpus=(replace(GPU, memory_free_gib=23.5),))) == []


def test_an_old_gpu_is_named() -> None:
    problem = judge_machine(replace(MACHINE, gpus=(replace(GPU, compute_capability="6.1"),)))[0]
    assert problem.code == "gpu-too-old"
    assert "6.1" in problem.saw[0]


def test_small_shared_memory_matters_with_several_gpus() -> None:
    assert codes(replace(MACHINE, shm_total_gib=0.0625)) == []
    two = replace(MACHINE, gpus=(GPU, replace(GPU, index=1)), shm_total_gib=0.0625)
    assert codes(two) == ["shm-too-small"]
    assert codes(replace(two, shm_total_gib=16.0)) == []


def test_errors_come_first() -> None:
    machine = replace(
        MACHINE,
        gpus=(replace(GPU, memory_free_gib=2.0), replace(GPU, index=1)),
        shm_total_gib=0.0625,
        driver_error="driver-hung",
    )
    assert [p.severity for p in judge_machine(machine)] == ["error", "warning", "info"]


@pytest.mark.parametrize(
    ("error", "container", "command"),
    [
        ("rocm-device-missing", "docker", "--device /dev/kfd"),
        ("rocm-device-missing", None, "dmesg"),
        ("rocm-no-permission", None, "usermod"),
    ],
)
def test_a_compute_device_that_cannot_be_used_has_its_fix(
    error: Literal["rocm-device-missing", "rocm-no-permission"], container: str | None, command: str
) -> None:
    amd = Gpu(0, "AMD Instinct MI300X", "amd", 192.0, 191.5, architecture="gfx942")
    (problem,) = judge_machine(replace(MACHINE, gpus=(amd,), rocm_error=error, container=container))
    assert problem.code == error
    assert problem.fix is not None
    assert command in problem.fix.commands[0]
