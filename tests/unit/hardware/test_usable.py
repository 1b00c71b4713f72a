"""Which vLLM build fits a machine, and what the user is told about what was passed over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wizard.hardware.machine import Cpu, Gpu, Machine
from wizard.hardware.usable import choose_build

CPU = Cpu("cpu", "x86_64", 8)
RTX = Gpu(0, "NVIDIA GeForce RTX 4090", "nvidia", 23.5, 23.0, compute_capability="8.9")
MI300X = Gpu(0, "AMD Instinct MI300X", "amd", 192.0, 191.0, architecture="gfx942")


def machine(*gpus: Gpu, **values: Any) -> Machine:
    return Machine("linux", CPU, 64.0, 60.0, gpus=gpus, **values)


def test_a_current_driver_gets_the_default_cuda_build() -> None:
    choice = choose_build(machine(RTX, driver_version="580.65.06", driver_cuda="13.0"))
    assert (choice.build, choice.variant, choice.warnings) == ("cuda", "cu130", ())
    assert "RTX 4090" in choice.reason


def test_a_cuda_12_driver_gets_the_build_for_cuda_12() -> None:
    choice = choose_build(machine(RTX, driver_version="575.51", driver_cuda="12.9"))
    assert (choice.build, choice.variant, choice.warnings) == ("cuda", "cu129", ())
    assert "12.9" in choice.reason


def test_a_driver_before_12_9_is_warned_about() -> None:
    choice = choose_build(machine(RTX, driver_version="535.183.01", driver_cuda="12.2"))
    assert (choice.build, choice.variant) == ("cuda", "cu129")
    assert "580" in choice.warnings[0]


def test_a_driver_before_cuda_12_leaves_the_processor() -> None:
    choice = choose_build(machine(RTX, driver_version="470.256.02", driver_cuda="11.4"))
    assert choice.build == "cpu"
    assert "470.256.02" in choice.reason
    assert "525" in choice.reason


@pytest.mark.parametrize("capability", ["6.1", "7.0"])
def test_a_gpu_older_than_turing_leaves_the_processor(capability: str) -> None:
    choice = choose_build(machine(replace(RTX, name="Tesla V100", compute_capability=capability), driver_cuda="12.4"))
    assert choice.build == "cpu"
    assert capability in choice.reason


@pytest.mark.parametrize("capability", ["7.5", "10.0", "12.1"])
def test_turing_and_later_are_new_enough(capability: str) -> None:
    assert choose_build(machine(replace(RTX, compute_capability=capability), driver_cuda="13.0")).build == "cuda"


def test_an_old_gpu_beside_a_new_one_is_only_warned_about() -> None:
    old = replace(RTX, index=1, name="NVIDIA GeForce GTX 1080", compute_capability="6.1")
    choice = choose_build(machine(RTX, old, driver_cuda="13.0"))
    assert choice.build == "cuda"
    assert "1080" in choice.warnings[0]
    assert "1080" not in choice.reason


def test_a_silent_driver_leaves_the_processor_and_says_why() -> None:
    mute = Gpu(0, "NVIDIA GeForce RTX 4090", "nvidia", None, None)
    choice = choose_build(
        machine(mute, driver_error="driver-library-mismatch", driver_error_text="Driver/library version mismatch")
    )
    assert choice.build == "cpu"
    assert "Driver/library version mismatch" in choice.reason


def test_hidden_gpus_are_not_used() -> None:
    hidden = replace(RTX, hidden_by="CUDA_VISIBLE_DEVICES")
    choice = choose_build(machine(hidden, driver_cuda="13.0"))
    assert choice.build == "cpu"
    assert "CUDA_VISIBLE_DEVICES" in choice.reason


def test_an_instinct_gets_the_rocm_build() -> None:
    choice = choose_build(machine(MI300X, MI300X, rocm_version="7.2.1"))
    assert (choice.build, choice.variant, choice.warnings) == ("rocm", None, ())
    assert "2 x AMD Instinct MI300X" in choice.reason


def test_an_amd_gpu_whose_device_cannot_be_opened_is_not_used() -> None:
    choice = choose_build(machine(MI300X, rocm_error="rocm-no-permission"))
    assert choice.build == "cpu"
    assert "/dev/kfd" in choice.reason


def test_an_old_rocm_is_warned_about() -> None:
    assert "6.3" in choose_build(machine(MI300X, rocm_version="6.1.0")).warnings[0]


@pytest.mark.parametrize("architecture", ["gfx906", "gfx1030", None])
def test_an_amd_gpu_without_kernels_leaves_the_processor(architecture: str | None) -> None:
    choice = choose_build(machine(replace(MI300X, architecture=architecture)))
    assert choice.build == "cpu"
    assert choice.warnings


def test_nvidia_goes_before_amd_and_amd_stands_in() -> None:
    assert choose_build(machine(MI300X, RTX, driver_cuda="13.0")).build == "cuda"
    old = replace(RTX, compute_capability="6.1")
    assert choose_build(machine(MI300X, old, driver_cuda="13.0")).build == "rocm"


def test_a_mac_and_an_intel_gpu_compute_on_the_processor() -> None:
    mac = replace(machine(Gpu(0, "Apple M4", "apple", 16.0, 8.0, unified_memory=True)), platform="darwin")
    assert choose_build(mac).build == "cpu"
    assert "Apple M4" in choose_build(mac).reason
    assert "XPU" in choose_build(machine(Gpu(0, "Arc B580", "intel", 12.0, None))).reason


def test_windows_is_sent_to_wsl() -> None:
    choice = choose_build(replace(machine(RTX, driver_cuda="13.0"), platform="windows"))
    assert choice.build == "cpu"
    assert "WSL" in choice.reason


def test_no_gpu_is_the_cpu_build_without_a_warning() -> None:
    assert choose_build(machine()).build == "cpu"
    assert choose_build(machine()).warnings == ()


def test_a_described_machine_is_taken_at_its_word() -> None:
    unread = replace(RTX, compute_capability=None)
    assert choose_build(machine(unread, described=True)).warnings == ()
    assert choose_build(machine(unread, described=True)).build == "cuda"
