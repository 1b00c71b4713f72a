"""Which vLLM build this machine can run: CUDA, ROCm or CPU, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wizard.hardware.machine import Gpu, Machine
from wizard.i18n import t

Build = Literal["cuda", "rocm", "cpu"]

# vLLM's CUDA wheels hold kernels from 7.5 (Turing) on: docs/getting_started/installation/gpu.cuda.inc.md, v0.21.0 on.
MINIMUM_COMPUTE_CAPABILITY = (7, 5)
# vLLM 0.33.0 on PyPI requires torch 2.13.0, whose wheel on PyPI requires cuda-toolkit 13.0: a driver of CUDA 13 (580).
DEFAULT_CUDA = (13, 0)
DEFAULT_VARIANT = "cu130"
# The other variant that vLLM publishes; CUDA's minor-version compatibility lets any driver of CUDA 12 (525) run it.
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
OLDER_CUDA = (12, 9)
OLDER_VARIANT = "cu129"
# Kernels for Blackwell exist from CUDA 12.8 on, and so do the drivers that run it.
_DRIVER_FOR_CUDA = {12: "525", 13: "580"}
# docs/getting_started/installation/gpu.rocm.inc.md of vLLM: what its ROCm wheels hold kernels for.
ROCM_ARCHITECTURES = frozenset(
    "gfx90a gfx942 gfx950 gfx1100 gfx1101 gfx1150 gfx1151 gfx1200 gfx1201".split()  # noqa: SIM905
)
MINIMUM_ROCM = (6, 3)


@dataclass(frozen=True, slots=True)
class BuildChoice:
    """The build to install. `reason` is one sentence for people; `warnings` are about what was passed over.

    variant: which CUDA a CUDA build must be made for, as wheel indexes spell it ("cu130" is the default on PyPI;
    "cu129" for drivers that know CUDA 12 only); None for other builds.
    """

    build: Build
    reason: str
    warnings: tuple[str, ...] = ()
    variant: str | None = None


def choose_build(machine: Machine) -> BuildChoice:
    """The best build that this machine can run; `cpu` where no GPU is usable, with the reason.

    A described machine is taken at its word: it has a driver that is new enough.
    """
    warnings: list[str] = []
    hidden = [gpu for gpu in machine.gpus if gpu.hidden_by]
    if hidden:
        warnings.append(
            t(
                "{count} of {all} GPUs are hidden by {variable}.",
                count=len(hidden),
                all=len(machine.gpus),
                variable=hidden[0].hidden_by,
            )
        )
    for vendor, choose in (("nvidia", _cuda), ("amd", _rocm)):
        gpus = [gpu for gpu in machine.usable_gpus if gpu.vendor == vendor]
        if gpus:
            chosen = choose(machine, gpus, warnings)
            if chosen:
                return chosen
    for gpu in machine.usable_gpus:
        if gpu.vendor == "intel":
            warnings.append(
                t("{name}: vLLM runs on Intel GPUs only when built from source (XPU); it is not used.", name=gpu.name)
            )
        elif gpu.vendor == "apple":
            warnings.append(t("{name}: vLLM computes on the processor here, not on the GPU.", name=gpu.name))
    return BuildChoice("cpu", _why_cpu(machine, warnings), tuple(warnings))


def _why_cpu(machine: Machine, warnings: list[str]) -> str:
    if not machine.gpus:
        return t("There is no GPU here; vLLM's CPU build runs, slowly.")
    if all(gpu.hidden_by for gpu in machine.gpus):
        return t("Every GPU here is hidden by {variable}; vLLM's CPU build runs.", variable=machine.gpus[0].hidden_by)
    return t("No GPU here can run vLLM: {why}", why=warnings[-1] if warnings else "")


def _cuda(machine: Machine, gpus: list[Gpu], warnings: list[str]) -> BuildChoice | None:
    if machine.platform == "windows":
        warnings.append(t("vLLM does not run on Windows itself: install WSL, and run llm-setup there."))
        return None
    for gpu in gpus:
        if not _new_enough(gpu):
            warnings.append(
                t(
                    "{name} has compute capability {capability}; vLLM's wheels start at {minimum}.",
                    name=gpu.name,
                    capability=gpu.compute_capability,
                    minimum="{}.{}".format(*MINIMUM_COMPUTE_CAPABILITY),
                )
            )
    usable = [gpu for gpu in gpus if _new_enough(gpu) and not _unread(gpu, machine)]
    if not usable:
        if machine.driver_error:
            warnings.append(
                t("The NVIDIA driver does not answer ({why}).", why=machine.driver_error_text or machine.driver_error)
            )
        elif all(_new_enough(gpu) for gpu in gpus):
            warnings.append(t("{name} tells nothing about itself.", name=gpus[0].name))
        return None
    names = _names(usable)
    driver = _version(machine.driver_cuda)
    if driver is None:
        if not machine.described:
            warnings.append(t("The driver does not tell which CUDA it can run; vLLM needs {minimum}.", minimum="12.0"))
        return BuildChoice(
            "cuda", t("vLLM's CUDA build runs on {names}.", names=names), tuple(warnings), DEFAULT_VARIANT
        )
    if driver >= DEFAULT_CUDA:
        reason = t(
            "vLLM's CUDA build runs on {names}; the driver allows CUDA {cuda}.", names=names, cuda=machine.driver_cuda
        )
        return BuildChoice("cuda", reason, tuple(warnings), DEFAULT_VARIANT)
    if driver >= (12, 0):
        reason = t(
            "vLLM's CUDA 12.9 build runs on {names}; the driver allows CUDA {cuda}, too old for the CUDA 13 build.",
            names=names,
            cuda=machine.driver_cuda,
        )
        if driver < OLDER_CUDA:
            warnings.append(
                t(
                    "The driver is older than CUDA 12.9: most of vLLM runs, but kernels that are compiled on first use"
                    " may not. A driver from {driver} on removes the doubt.",
                    driver=_DRIVER_FOR_CUDA[13],
                )
            )
        return BuildChoice("cuda", reason, tuple(warnings), OLDER_VARIANT)
    warnings.append(
        t(
            "The NVIDIA driver {version} allows CUDA {cuda}; vLLM needs a driver from {driver} on.",
            version=machine.driver_version or "",
            cuda=machine.driver_cuda,
            driver=_DRIVER_FOR_CUDA[12],
        )
    )
    return None


def _rocm(machine: Machine, gpus: list[Gpu], warnings: list[str]) -> BuildChoice | None:
    if machine.platform != "linux":
        warnings.append(t("vLLM's ROCm build runs on Linux only."))
        return None
    if machine.rocm_error:
        warnings.append(t("{names}: the compute device /dev/kfd cannot be used here.", names=_names(gpus)))
        return None
    for gpu in gpus:
        if gpu.architecture is not None and gpu.architecture not in ROCM_ARCHITECTURES:
            warnings.append(
                t(
                    "{name} ({architecture}) is none that vLLM's ROCm build has kernels for.",
                    name=gpu.name,
                    architecture=gpu.architecture,
                )
            )
        elif gpu.architecture is None and not machine.described:
            warnings.append(
                t(
                    "{name}: the compute driver does not list it (is /dev/kfd there, and may you open it?).",
                    name=gpu.name,
                )
            )
    usable = [
        gpu for gpu in gpus if gpu.architecture in ROCM_ARCHITECTURES or (machine.described and not gpu.architecture)
    ]
    if not usable:
        return None
    rocm = _version(machine.rocm_version)
    if rocm and rocm < MINIMUM_ROCM:
        warnings.append(t("ROCm {version} is here; vLLM asks for 6.3 or newer.", version=machine.rocm_version))
    return BuildChoice("rocm", t("vLLM's ROCm build runs on {names}.", names=_names(usable)), tuple(warnings))


def _new_enough(gpu: Gpu) -> bool:
    version = _version(gpu.compute_capability)
    return version is None or version >= MINIMUM_COMPUTE_CAPABILITY


def _unread(gpu: Gpu, machine: Machine) -> bool:
    return not machine.described and gpu.compute_capability is None and gpu.memory_total_gib is None


def _names(gpus: list[Gpu]) -> str:
    counts: dict[str, int] = {}
    for gpu in gpus:
        name = f"{gpu.name} ({gpu.mig})" if gpu.mig else gpu.name
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items())


def _version(text: str | None) -> tuple[int, int] | None:
    major, _, minor = (text or "").partition(".")
    minor = minor.partition(".")[0]
    return (int(major), int(minor or 0)) if major.isdigit() and (not minor or minor.isdigit()) else None
