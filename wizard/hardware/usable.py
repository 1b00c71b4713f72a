"""Which vLLM build this machine can run: CUDA, ROCm or CPU, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wizard.hardware.machine import Gpu, Machine
from wizard.i18n import t

Build = Literal["cuda", "rocm", "cpu"]

# vLLM's CUDA wheels hold kernels from 7.5 (Turing) on; docs/getting_started/installation/gpu.cuda.inc.md of v0.21.0.
MINIMUM_COMPUTE_CAPABILITY = (7, 5)
# The oldest CUDA that a published CUDA wheel of vLLM is built for (cu129), same page; the default on PyPI may be newer.
MINIMUM_DRIVER_CUDA = (12, 9)


@dataclass(frozen=True, slots=True)
class BuildChoice:
    """The build to install. `reason` is one sentence for people; `warnings` are about what was passed over."""

    build: Build
    reason: str
    warnings: tuple[str, ...] = ()


def choose_build(machine: Machine) -> BuildChoice:
    """The best build that this machine can run; `cpu` where no GPU is usable, with the reason."""
    nvidia = [gpu for gpu in machine.gpus if gpu.vendor == "nvidia"]
    amd = [gpu for gpu in machine.gpus if gpu.vendor == "amd"]
    if nvidia:
        usable = [gpu for gpu in nvidia if _new_enough(gpu)]
        if usable:
            return BuildChoice("cuda", t("{name} runs vLLM's CUDA build.", name=usable[0].name))
    if amd and machine.platform == "linux":
        return BuildChoice("rocm", t("{name} runs vLLM's ROCm build.", name=amd[0].name))
    return BuildChoice("cpu", t("There is no GPU here that vLLM can use."))


def _new_enough(gpu: Gpu) -> bool:
    if gpu.compute_capability is None:
        return True
    major, _, minor = gpu.compute_capability.partition(".")
    return (int(major), int(minor or 0)) >= MINIMUM_COMPUTE_CAPABILITY
