"""A machine from flags."""

from __future__ import annotations

from typing import Any

import pytest

from wizard.hardware.describe import describe_machine
from wizard.problems import ExitCode, ProblemError


def test_two_known_gpus_have_the_catalogues_figures() -> None:
    machine = describe_machine("RTX 4090", 2)
    assert machine.described
    assert [gpu.index for gpu in machine.gpus] == [0, 1]
    assert machine.gpus[1].memory_total_gib == pytest.approx(23.52, abs=0.1)
    assert machine.gpus[1].memory_free_gib == machine.gpus[1].memory_total_gib
    assert machine.gpus[1].compute_capability == "8.9"
    assert machine.links[0].kind == "system"


def test_given_figures_go_before_the_catalogue() -> None:
    (gpu,) = describe_machine("RTX 4090", memory_gib=47.5, free_gib=40.0, compute_capability="8.9").gpus
    assert (gpu.memory_total_gib, gpu.memory_free_gib) == (47.5, 40.0)


def test_modules_come_with_nvlink() -> None:
    machine = describe_machine("H200", 4)
    assert {link.kind for link in machine.links} == {"nvlink"}
    assert machine.gpus[1].nvlink_peers == (0, 2, 3)


def test_an_amd_gpu_has_its_architecture() -> None:
    (gpu,) = describe_machine("MI300X").gpus
    assert (gpu.vendor, gpu.architecture, gpu.compute_capability) == ("amd", "gfx942", None)


def test_an_unknown_name_with_its_memory_is_described() -> None:
    (gpu,) = describe_machine("Frobnicator 9000", memory_gib=40.0, compute_capability="9.0").gpus
    assert (gpu.name, gpu.memory_total_gib, gpu.compute_capability) == ("Frobnicator 9000", 40.0, "9.0")


def test_memory_alone_describes_a_gpu() -> None:
    (gpu,) = describe_machine(memory_gib=24.0).gpus
    assert (gpu.vendor, gpu.memory_total_gib) == ("nvidia", 24.0)


def test_a_misspelt_name_is_one_error_with_near_names() -> None:
    with pytest.raises(ProblemError) as caught:
        describe_machine("RTX 4091")
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.problem.code == "unknown-gpu"
    assert caught.value.problem.fix is not None
    assert "4090" in caught.value.problem.fix.text


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        pytest.param({}, "gpu-not-described", id="nothing"),
        pytest.param({"gpu": "RTX 4090", "gpus": 0}, "wrong-number-of-gpus", id="no-gpus"),
        pytest.param({"gpu": "RTX 4090", "gpus": 10**9}, "wrong-number-of-gpus", id="too-many"),
        pytest.param({"memory_gib": -1.0}, "wrong-memory", id="negative"),
        pytest.param({"memory_gib": float("nan")}, "wrong-memory", id="nan"),
        pytest.param({"memory_gib": float("inf")}, "wrong-memory", id="infinite"),
        pytest.param({"gpu": "RTX 4090", "free_gib": 30.0}, "free-above-total", id="more-free-than-total"),
        pytest.param({"gpu": "RTX 4090", "compute_capability": "ada"}, "wrong-compute-capability", id="capability"),
        pytest.param({"gpu": "", "gpus": 1}, "gpu-not-described", id="empty-name"),
    ],
)
def test_flags_that_describe_no_machine(flags: dict[str, Any], code: str) -> None:
    with pytest.raises(ProblemError) as caught:
        describe_machine(**flags)
    assert caught.value.problem.code == code
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_name_like_none_leads_to_memory_and_to_names_that_are_known() -> None:
    with pytest.raises(ProblemError) as caught:
        describe_machine("FooBar 9000")
    assert caught.value.problem.fix is not None
    assert "a name such as `RTX 4090`" in caught.value.problem.fix.text
    assert "Quadro" not in caught.value.problem.fix.text


@pytest.mark.parametrize(
    ("memory", "windows"), [(23.99, True), (23.52, False), (20.0, False), (24.0, False), (25.0, False)]
)
def test_a_card_with_all_its_memory_is_seen_through_the_driver_of_windows(memory: float, windows: bool) -> None:
    assert describe_machine("RTX 4090", memory_gib=memory).wsl is windows


def test_a_card_of_a_server_is_not_taken_for_one_under_windows() -> None:
    assert not describe_machine("H100", memory_gib=80.0).wsl
    assert describe_machine("16GB WSL2 GPU", memory_gib=15.99).wsl
