"""What a machine is. Everything that could not be read is None, and `unknown` says why; never zero."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Vendor = Literal["nvidia", "amd", "intel", "apple"]
GIB = 2**30


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds GPU memory. name or user None: another container or user, not visible from here."""

    pid: int
    memory_used_gib: float | None
    name: str | None = None
    user: str | None = None
    graphics: bool = False


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. Memory in GiB (2**30 bytes) as the driver reports it, not the nameplate.

    compute_capability: "8.9" for NVIDIA, None elsewhere. mig: name of the MIG slice, where this is one.
    """

    index: int
    name: str
    vendor: Vendor
    memory_total_gib: float | None
    memory_free_gib: float | None
    compute_capability: str | None = None
    uuid: str | None = None
    mig: str | None = None
    pci_bus_id: str | None = None
    nvlink_peers: tuple[int, ...] = ()
    display_attached: bool | None = None
    processes: tuple[GpuProcess, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cpu:
    """The processor. features: such as avx2, avx512f, avx512_bf16, amx_bf16 (lower case, as Linux names them)."""

    name: str | None
    architecture: str
    logical_cores: int | None
    physical_cores: int | None = None
    numa_nodes: int | None = None
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine, as far as serving a model is concerned. Sizes in GiB.

    container: docker, podman, kubernetes, lxc or None. memory limits of a container are already applied to ram_*.
    driver_cuda: the newest CUDA that the NVIDIA driver can run ("12.8"). disk_free_gib: where our data folder is.
    described: True for a machine that flags described (`--gpu`), which is not here.
    """

    platform: Literal["linux", "darwin", "windows"]
    cpu: Cpu
    ram_total_gib: float | None
    ram_available_gib: float | None
    gpus: tuple[Gpu, ...] = ()
    driver_version: str | None = None
    driver_cuda: str | None = None
    rocm_version: str | None = None
    container: str | None = None
    wsl: bool = False
    ssh: bool = False
    shm_total_gib: float | None = None
    disk_free_gib: float | None = None
    described: bool = False
    unknown: tuple[str, ...] = field(default=())
