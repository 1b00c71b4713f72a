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

    compute_capability: "8.9" for NVIDIA, None elsewhere; architecture: "gfx942" for AMD. mig: name of the MIG slice,
    where this is one. unified_memory: its memory is the machine's RAM. numa_node: the CPU node it hangs on.
    hidden_by: the environment variable (such as CUDA_VISIBLE_DEVICES) that keeps programs from using it.
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
    architecture: str | None = None
    unified_memory: bool = False
    numa_node: int | None = None
    hidden_by: str | None = None

    @property
    def memory_used_gib(self) -> float | None:
        """Total less free: what processes hold, or None where either is not known."""
        if self.memory_total_gib is None or self.memory_free_gib is None:
            return None
        return max(0.0, self.memory_total_gib - self.memory_free_gib)


LinkKind = Literal["nvlink", "xgmi", "same-board", "pcie-switch", "pcie-switches", "host-bridge", "numa-node", "system"]


@dataclass(frozen=True, slots=True)
class GpuLink:
    """How two GPUs (by index, first < second) reach each other; the words from fastest to slowest as in LinkKind."""

    first: int
    second: int
    kind: LinkKind


@dataclass(frozen=True, slots=True)
class Cpu:
    """The processor. features: such as avx2, avx512f, avx512_bf16, amx_bf16 (lower case, as Linux names them).

    logical_cores: those this process may use. quota_cores: CPU time that a container's limit allows, in cores.
    """

    name: str | None
    architecture: str
    logical_cores: int | None
    physical_cores: int | None = None
    numa_nodes: int | None = None
    features: tuple[str, ...] = ()
    quota_cores: float | None = None


DriverError = Literal[
    "driver-missing",
    "driver-not-loaded",
    "driver-library-missing",
    "driver-library-mismatch",
    "driver-no-permission",
    "driver-hung",
    "driver-crashed",
    "driver-error",
]


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine, as far as serving a model is concerned. Sizes in GiB.

    container: docker, podman, kubernetes, lxc or None. memory limits of a container are already applied to ram_*.
    driver_cuda: the newest CUDA that the NVIDIA driver can run ("12.8"). disk_free_gib: where our data folder is.
    described: True for a machine that flags described (`--gpu`), which is not here.
    driver_error: why the NVIDIA driver did not answer; driver_error_text: its own word. rocm_error: why AMD's compute
    device /dev/kfd cannot be used.
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
    links: tuple[GpuLink, ...] = ()
    driver_error: DriverError | None = None
    driver_error_text: str = ""
    rocm_error: Literal["rocm-device-missing", "rocm-no-permission"] | None = None

    @property
    def usable_gpus(self) -> tuple[Gpu, ...]:
        """GPUs that a program started here would see."""
        return tuple(gpu for gpu in self.gpus if gpu.hidden_by is None)
