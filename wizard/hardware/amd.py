"""AMD GPUs from sysfs and the KFD topology: texts -> GPUs. Nothing here opens a file.

Sources: Linux Documentation/gpu/amdgpu/driver-misc.rst (mem_info_*), drivers/gpu/drm/amd/amdkfd/kfd_topology.c
(node properties), Documentation/gpu/drm-usage-stats.rst (fdinfo).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from wizard.hardware.machine import GIB, Gpu, GpuProcess
from wizard.i18n import t

VENDOR = "0x1002"
_XGMI = 11  # CRAT_IOLINK_TYPE_XGMI


@dataclass(frozen=True, slots=True)
class KfdNode:
    """A GPU node of the compute driver. architecture: "gfx942". location: (PCI domain, bus and device number)."""

    number: int
    gpu_id: int
    architecture: str
    location: tuple[int, int]
    integrated: bool
    xgmi_to: tuple[int, ...] = ()

    @property
    def pci_bus_id(self) -> str:
        """The PCI address, as "0000:c1:00.0"."""
        domain, number = self.location
        return f"{domain:04x}:{number >> 8:02x}:{number >> 3 & 31:02x}.{number & 7}"


def parse_properties(text: str) -> dict[str, int]:
    """A `properties` file of the KFD topology: a name and a number a line."""
    return {
        words[0]: int(words[1])
        for line in text.splitlines()
        if len(words := line.split()) == 2 and words[1].lstrip("-").isdigit()
    }


def parse_gfx_version(number: int) -> str:
    """gfx_target_version 90402 is gfx942, 90010 is gfx90a, 110501 is gfx1151: the minor digits are hexadecimal."""
    return f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}"


def parse_kfd_node(number: int, properties: str, gpu_id: str | None, io_links: Iterable[str] = ()) -> KfdNode | None:
    """One node of /sys/class/kfd/kfd/topology/nodes; None for a node that is a CPU."""
    found = parse_properties(properties)
    version = found.get("gfx_target_version", 0)
    if not found.get("simd_count") or not version:
        return None
    links = [parse_properties(link) for link in io_links]
    return KfdNode(
        number=number,
        gpu_id=int(gpu_id) if gpu_id and gpu_id.strip().isdigit() else 0,
        architecture=parse_gfx_version(version),
        location=(found.get("domain", 0), found.get("location_id", 0)),
        integrated=bool(found.get("cpu_cores_count")),
        xgmi_to=tuple(link["node_to"] for link in links if link.get("type") == _XGMI and "node_to" in link),
    )


def parse_amdgpu_name(ids: str, device: str, revision: str) -> str | None:
    """A marketing name from libdrm's amdgpu.ids ("744C, C8, AMD Radeon RX 7900 XTX"), by hexadecimal ids."""
    wanted = (device.removeprefix("0x").upper(), revision.removeprefix("0x").upper())
    for line in ids.splitlines():
        words = [word.strip() for word in line.split(",", 2)]
        if len(words) == 3 and (words[0].upper(), words[1].upper()) == wanted:
            return words[2].split("\t")[-1].strip()
    return None


def parse_amd_gpu(
    index: int,
    attributes: Mapping[str, str],
    pci_bus_id: str,
    node: KfdNode | None,
    name: str | None,
    processes: tuple[GpuProcess, ...] = (),
) -> Gpu:
    """One GPU from the texts of its device folder (file name -> content) and its node of the compute driver."""
    unknown: list[str] = []
    total, used = _number(attributes, "mem_info_vram_total"), _number(attributes, "mem_info_vram_used")
    if total is None:
        unknown.append(t("memory: the amdgpu driver does not report it (mem_info_vram_total)"))
    if node is None:
        unknown.append(t("architecture: the compute driver (KFD) does not list this GPU"))
    partition = attributes.get("current_compute_partition", "").strip()
    if partition and partition != "SPX":
        unknown.append(
            t(
                "memory of each part: the GPU is split ({partition}), and the figures are the whole's",
                partition=partition,
            )
        )
    given = attributes.get("product_name", "").strip()
    fallback = f"AMD GPU {node.architecture if node else attributes.get('device', '').strip()}"
    numa = _number(attributes, "numa_node")
    return Gpu(
        index=index,
        name=(name or given or fallback).strip(),
        vendor="amd",
        memory_total_gib=None if total is None else total / GIB,
        memory_free_gib=None if total is None or used is None else max(0, total - used) / GIB,
        uuid=f"GPU-{attributes['unique_id'].strip()}" if attributes.get("unique_id", "").strip() else None,
        pci_bus_id=pci_bus_id,
        processes=processes,
        unknown=tuple(unknown),
        architecture=node.architecture if node else None,
        unified_memory=bool(node and node.integrated),
        numa_node=numa if numa is not None and numa >= 0 else None,
    )


def _number(attributes: Mapping[str, str], key: str) -> int | None:
    text = attributes.get(key, "").strip()
    return int(text) if re.fullmatch(r"-?\d+", text) else None


@dataclass(frozen=True, slots=True)
class DrmClient:
    """One open handle on a GPU. client: handles that were duplicated share it and are counted once."""

    pci_bus_id: str
    client: str
    memory_bytes: int | None


_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def parse_fdinfo(text: str) -> DrmClient | None:
    """/proc/PID/fdinfo/FD of a graphics handle: which GPU, and how much of its own memory; None for any other file.

    Memory is drm-resident-<region> where the kernel has it, else the older drm-memory-<region>; regions of a GPU's
    own memory are vram (amdgpu), vram0... (xe) and local0... (i915).
    """
    found = {
        key.strip(): value.strip()
        for key, colon, value in (line.partition(":") for line in text.splitlines())
        if colon and key.startswith("drm-")
    }
    if "drm-pdev" not in found:
        return None
    sizes: dict[str, int] = {}
    for kind in ("memory", "resident"):
        for key, value in found.items():
            region = re.fullmatch(rf"drm-{kind}-(vram\d*|local\d*)", key)
            words = value.split()
            if region and words and words[0].isdigit():
                sizes[region[1]] = int(words[0]) * _UNITS.get(words[1] if len(words) > 1 else "", 1)
    return DrmClient(found["drm-pdev"].lower(), found.get("drm-client-id", ""), sum(sizes.values()) if sizes else None)


def sum_clients(by_pid: Mapping[int, Iterable[DrmClient]], pci_bus_id: str) -> tuple[GpuProcess, ...]:
    """Processes that hold memory of one GPU, most first. A handle without a client number counts by itself."""
    processes: list[GpuProcess] = []
    for pid, clients in by_pid.items():
        mine = [client for client in clients if client.pci_bus_id == pci_bus_id]
        once = {client.client or str(number): client.memory_bytes for number, client in enumerate(mine)}
        sizes = [size for size in once.values() if size is not None]
        if sum(sizes):
            processes.append(GpuProcess(pid, sum(sizes) / GIB))
    return tuple(sorted(processes, key=lambda p: -(p.memory_used_gib or 0.0)))


def merge_processes(first: Iterable[GpuProcess], second: Iterable[GpuProcess]) -> tuple[GpuProcess, ...]:
    """Two views of the same GPU's holders (compute driver, graphics handles): the larger figure of each process."""
    by_pid: dict[int, GpuProcess] = {}
    for process in (*first, *second):
        before = by_pid.get(process.pid)
        if before is None or (process.memory_used_gib or 0.0) > (before.memory_used_gib or 0.0):
            by_pid[process.pid] = process
    return tuple(sorted(by_pid.values(), key=lambda p: -(p.memory_used_gib or 0.0)))


def parse_amdsmi(lines: Iterable[str], gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The same GPUs with what amdsmi adds: a better name, and memory where sysfs had none. Records of
    effects/amdsmi_child.py, one JSON object a line."""
    by_bus: dict[str, dict[str, object]] = {}
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the library itself prints warnings
        if isinstance(record, dict) and record.get("event") == "gpu":
            by_bus[str(record.get("bus"))] = record
    return tuple(_with_amdsmi(gpu, by_bus.get(gpu.pci_bus_id or "", {})) for gpu in gpus)


def _with_amdsmi(gpu: Gpu, record: Mapping[str, object]) -> Gpu:
    name, total, used = record.get("name"), record.get("total_mib"), record.get("used_mib")
    if isinstance(name, str) and name and name != "N/A" and not name.startswith("0x"):
        gpu = replace(gpu, name=name)
    if gpu.memory_total_gib is None and isinstance(total, int) and isinstance(used, int):
        unknown = tuple(reason for reason in gpu.unknown if "mem_info_vram_total" not in reason)
        gpu = replace(gpu, memory_total_gib=total / 1024, memory_free_gib=(total - used) / 1024, unknown=unknown)
    return gpu
