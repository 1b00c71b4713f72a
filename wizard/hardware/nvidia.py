"""What the driver library answered -> GPUs. The records come from effects/nvml_child.py, one JSON object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from wizard.hardware.machine import GIB, DriverError, Gpu, GpuLink, GpuProcess, LinkKind
from wizard.i18n import t

Ended = Literal["done", "timeout", "crashed", "not-started"]

# Error numbers of nvml.h.
_ERRORS: dict[int, DriverError] = {
    4: "driver-no-permission",
    9: "driver-not-loaded",
    12: "driver-library-missing",
    18: "driver-library-mismatch",
}
# nvmlGpuTopologyLevel_t of nvml.h.
_LEVELS: dict[int, LinkKind] = {
    0: "same-board",
    10: "pcie-switch",
    20: "pcie-switches",
    30: "host-bridge",
    40: "numa-node",
    50: "system",
}


@dataclass(frozen=True, slots=True)
class NvidiaFacts:
    """What NVML said. error: why it said nothing, or not all; error_text its own word."""

    gpus: tuple[Gpu, ...] = ()
    links: tuple[GpuLink, ...] = ()
    driver_version: str | None = None
    driver_cuda: str | None = None
    error: DriverError | None = None
    error_text: str = ""


def parse_cuda_version(number: int) -> str:
    """NVML's 12080 is "12.8"."""
    return f"{number // 1000}.{number % 1000 // 10}"


def parse_nvml(lines: Iterable[str], ended: Ended, time_limit_s: float) -> NvidiaFacts:
    """All records of one reading. A reading that hung or died keeps what it had, and says what is missing."""
    records = [record for line in lines if (record := _record(line)) is not None]
    facts = NvidiaFacts()
    count = 0
    gpus: list[Gpu] = []
    whole: set[int] = set()
    pairs: list[tuple[int, int, LinkKind]] = []
    for record in records:
        event = record.get("event")
        if event == "error":
            code = record.get("code")
            known = _ERRORS.get(code, "driver-error") if isinstance(code, int) else "driver-library-missing"
            facts = replace(facts, error=known, error_text=str(record.get("text", "")))
        elif event == "driver":
            cuda = record.get("cuda")
            facts = replace(
                facts,
                driver_version=record.get("driver_version") or None,
                driver_cuda=parse_cuda_version(cuda) if isinstance(cuda, int) and cuda > 0 else None,
            )
        elif event == "count":
            count = int(record["gpus"])
        elif event == "gpu":
            whole.add(int(record["index"]))
            gpus.append(_gpu(record))
        elif event == "link":
            level = record.get("level")
            kind = "nvlink" if record.get("nvlink") else _LEVELS.get(level) if isinstance(level, int) else None
            if kind:
                pairs.append((int(record["first"]), int(record["second"]), kind))
    if ended in ("timeout", "crashed"):
        hung = ended == "timeout"
        why = (
            t("the driver did not answer within {seconds:g} s", seconds=time_limit_s)
            if hung
            else t("the driver's library ended the process that asked it")
        )
        facts = replace(facts, error="driver-hung" if hung else "driver-crashed", error_text=why)
        for index in range(count):
            if index not in whole:
                gpus.append(
                    Gpu(
                        index,
                        t("NVIDIA GPU (not read)"),
                        "nvidia",
                        None,
                        None,
                        unknown=(t("everything: {why}", why=why),),
                    )
                )
    return _renumbered(facts, gpus, pairs)


def _record(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None  # the last line of a reading that was cut off, or something that a library printed
    return value if isinstance(value, dict) and "event" in value else None


def _gpu(record: Mapping[str, Any]) -> Gpu:
    errors: Mapping[str, Any] = record.get("errors") or {}
    unknown = [
        t("{what}: {why}", what=t(_WHAT[key]), why=why)
        for key, why in errors.items()
        # Not having displays, MIG or a reserve to report is an answer, not a gap.
        if key in _WHAT
    ]
    total, reserved, free = record.get("total"), record.get("reserved"), record.get("free")
    # cudaMemGetInfo, which vLLM asks, leaves the driver's own reserve out of the total; NVML's first version counts it.
    visible = total - (reserved or 0) if isinstance(total, int) else None
    if visible is not None and reserved is None:
        unknown.append(t("the driver's own reserve: this driver is too old to tell; the total is up to 0.6 GiB high"))
    mig = re.search(r"\bMIG (\S+)$", str(record.get("name", "")))
    capability = record.get("capability")
    return Gpu(
        index=int(record["index"]),
        name=str(record.get("parent_name") or record.get("name") or t("NVIDIA GPU (not read)")),
        vendor="nvidia",
        memory_total_gib=None if visible is None else visible / GIB,
        memory_free_gib=free / GIB if isinstance(free, int) else None,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        uuid=record.get("uuid") or None,
        mig=mig[1] if mig else None,
        pci_bus_id=normal_bus_id(str(record["bus"])) if record.get("bus") else None,
        display_attached=record.get("display"),
        processes=_processes(record.get("processes") or ()),
        unknown=tuple(unknown),
    )


_WHAT = {
    "handle": "everything",
    "name": "name",
    "memory": "memory",
    "capability": "compute capability",
    "processes": "who holds its memory",
    "uuid": "uuid",
    "bus": "PCI address",
    "mig_empty": "memory",
}


def _processes(items: Iterable[Mapping[str, Any]]) -> tuple[GpuProcess, ...]:
    """One entry a process: a program that computes and draws is listed twice, each time with all its memory."""
    by_pid: dict[int, GpuProcess] = {}
    for item in items:
        pid, used = int(item["pid"]), item.get("used")
        size = used / GIB if isinstance(used, int) else None
        graphics = bool(item.get("graphics"))
        before = by_pid.get(pid)
        if before:
            size = size if before.memory_used_gib is None else max(before.memory_used_gib, size or 0.0)
            graphics = before.graphics and graphics
        by_pid[pid] = GpuProcess(pid, size, graphics=graphics)
    return tuple(sorted(by_pid.values(), key=lambda p: -(p.memory_used_gib or 0.0)))


def _renumbered(facts: NvidiaFacts, gpus: list[Gpu], pairs: list[tuple[int, int, LinkKind]]) -> NvidiaFacts:
    """Slices of one GPU count as GPUs of their own, so numbers after them move up; links follow. A slice reaches no
    other GPU directly."""
    gpus.sort(key=lambda gpu: gpu.index)
    number = {gpu.index: new for new, gpu in enumerate(gpus) if gpu.mig is None}
    links = tuple(
        GpuLink(number[first], number[second], kind)
        for first, second, kind in pairs
        if first in number and second in number
    )
    peers: dict[int, list[int]] = {}
    for link in links:
        if link.kind == "nvlink":
            peers.setdefault(link.first, []).append(link.second)
            peers.setdefault(link.second, []).append(link.first)
    return replace(
        facts,
        gpus=tuple(
            replace(gpu, index=new, nvlink_peers=tuple(sorted(peers.get(new, ())))) for new, gpu in enumerate(gpus)
        ),
        links=links,
    )


def normal_bus_id(text: str) -> str:
    """NVML's "00000000:1B:00.0" as the kernel writes it: "0000:1b:00.0"."""
    domain, _, rest = text.strip().lower().partition(":")
    return f"{domain[-4:].rjust(4, '0')}:{rest}" if rest else text.lower()


def parse_kernel_module_version(text: str) -> str | None:
    """/proc/driver/nvidia/version -> "580.65.06", of the closed and of the open module."""
    found = re.search(r"Kernel Module\b.*?\s(\d{3}\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else None


def parse_kernel_gpu(text: str, index: int, why: str) -> Gpu:
    """/proc/driver/nvidia/gpus/ADDRESS/information: what the kernel knows of a GPU when NVML does not answer."""
    found = dict(re.findall(r"^([A-Za-z ]+):[ \t]+(.+?)[ \t]*$", text, re.MULTILINE))
    bus = found.get("Bus Location")
    return Gpu(
        index=index,
        name=found.get("Model", t("NVIDIA GPU (not read)")),
        vendor="nvidia",
        memory_total_gib=None,
        memory_free_gib=None,
        uuid=found.get("GPU UUID"),
        pci_bus_id=normal_bus_id(bus) if bus else None,
        unknown=(t("memory, compute capability, processes: {why}", why=why),),
    )


def hide_invisible(gpus: tuple[Gpu, ...], value: str | None, variable: str) -> tuple[Gpu, ...]:
    """Mark the GPUs that CUDA_VISIBLE_DEVICES (or HIP_..., ROCR_...) hides: numbers, UUIDs or their beginnings.

    As CUDA reads it: everything from the first entry that is no GPU of this machine is ignored; "" hides all.
    """
    if value is None:
        return gpus
    seen: set[int] = set()
    for word in (part.strip() for part in value.split(",")):
        chosen = [
            gpu.index
            for gpu in gpus
            if word and ((word.isdigit() and gpu.index == int(word)) or (gpu.uuid or "").startswith(word))
        ]
        if not chosen:
            break
        seen.update(chosen)
    return tuple(gpu if gpu.index in seen else replace(gpu, hidden_by=variable) for gpu in gpus)
