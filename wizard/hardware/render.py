"""A machine as lines for people and as fields for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from wizard.hardware.machine import Gpu, GpuProcess, Machine
from wizard.hardware.usable import BuildChoice
from wizard.i18n import t
from wizard.problems import Problem
from wizard.text import display_width, pad

BAR_WIDTH = 40
# (held by a process that is named, held by nobody that can be seen, free): with symbols and without.
_SYMBOLS, _PLAIN = ("█", "▒", "░"), ("#", "?", ".")
# A driver's own bookkeeping; less than this has no holder worth naming.
_NOBODYS_GIB = 0.05

_LINKS = {
    "nvlink": "NVLink",
    "xgmi": "Infinity Fabric",
    "same-board": "one board",
    "pcie-switch": "one PCIe switch",
    "pcie-switches": "PCIe switches",
    "host-bridge": "PCIe, one host bridge",
    "numa-node": "PCIe, one NUMA node",
    "system": "PCIe, between NUMA nodes",
}


def machine_json(machine: Machine, choice: BuildChoice, problems: Sequence[Problem]) -> dict[str, Any]:
    """The document of `hardware --json`, without its schema_version. Sizes in GiB; null: not known, see `unknown`."""
    return {
        "platform": machine.platform,
        "gpus": [_gpu_json(gpu) for gpu in machine.gpus],
        "links": [{"gpus": [link.first, link.second], "kind": link.kind} for link in machine.links],
        "cpu": asdict(machine.cpu),
        "ram": {"total_gib": _round(machine.ram_total_gib), "available_gib": _round(machine.ram_available_gib)},
        "driver": {
            "version": machine.driver_version,
            "cuda": machine.driver_cuda,
            "rocm": machine.rocm_version,
            "error": machine.driver_error,
            "error_text": machine.driver_error_text,
            "rocm_error": machine.rocm_error,
        },
        "container": machine.container,
        "wsl": machine.wsl,
        "ssh": machine.ssh,
        "shm_total_gib": _round(machine.shm_total_gib),
        "disk_free_gib": _round(machine.disk_free_gib),
        "vllm": {
            "build": choice.build,
            "variant": choice.variant,
            "reason": choice.reason,
            "warnings": list(choice.warnings),
        },
        "unknown": list(machine.unknown),
        "problems": [problem.as_json() for problem in problems],
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _gpu_json(gpu: Gpu) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "name": gpu.name,
        "vendor": gpu.vendor,
        "memory_total_gib": _round(gpu.memory_total_gib),
        "memory_free_gib": _round(gpu.memory_free_gib),
        "memory_used_gib": _round(gpu.memory_used_gib),
        "unified_memory": gpu.unified_memory,
        "compute_capability": gpu.compute_capability,
        "architecture": gpu.architecture,
        "uuid": gpu.uuid,
        "mig": gpu.mig,
        "pci_bus_id": gpu.pci_bus_id,
        "numa_node": gpu.numa_node,
        "nvlink_peers": list(gpu.nvlink_peers),
        "display_attached": gpu.display_attached,
        "hidden_by": gpu.hidden_by,
        "processes": [
            {
                "pid": process.pid,
                "name": process.name,
                "user": process.user,
                "memory_used_gib": _round(process.memory_used_gib),
                "graphics": process.graphics,
            }
            for process in gpu.processes
        ],
        "unknown": list(gpu.unknown),
    }


def render_bar(gpu: Gpu, *, symbols: bool, width: int = BAR_WIDTH) -> str:
    """The GPU's memory as a bar: held by processes that are known, by nobody that can be seen, free."""
    total, used = gpu.memory_total_gib, gpu.memory_used_gib
    if not total or used is None:
        return ""
    known = min(used, sum(process.memory_used_gib or 0.0 for process in gpu.processes))
    first = min(width, round(width * known / total))
    second = max(first, min(width, round(width * used / total)))
    # What is held shows, however little it is.
    if used > _NOBODYS_GIB and second == 0:
        first, second = (1, 1) if known > _NOBODYS_GIB else (0, 1)
    marks = _SYMBOLS if symbols else _PLAIN
    bar = marks[0] * first + marks[1] * (second - first) + marks[2] * (width - second)
    return bar if symbols else f"[{bar}]"


def render_gpu(gpu: Gpu, *, symbols: bool) -> tuple[str, ...]:
    """One GPU: a line that names it, its bar, and who holds its memory."""
    facts = [
        t("compute capability {value}", value=gpu.compute_capability) if gpu.compute_capability else "",
        gpu.architecture or "",
        gpu.pci_bus_id or "",
        t("NUMA node {node}", node=gpu.numa_node) if gpu.numa_node is not None else "",
        t("a display is attached") if gpu.display_attached else "",
        t("shares the machine's memory") if gpu.unified_memory else "",
        t("hidden by {variable}", variable=gpu.hidden_by) if gpu.hidden_by else "",
    ]
    name = t("{name}, MIG slice {slice}", name=gpu.name, slice=gpu.mig) if gpu.mig else gpu.name
    lines = [f"  {gpu.index}  {name}" + "".join(f" · {fact}" if symbols else f", {fact}" for fact in facts if fact)]
    if gpu.memory_total_gib is not None and gpu.memory_free_gib is not None:
        sizes = t("{free:.1f} of {total:.1f} GiB free", free=gpu.memory_free_gib, total=gpu.memory_total_gib)
        lines.append(f"     {render_bar(gpu, symbols=symbols)}  {sizes}")
    elif gpu.memory_total_gib is not None:
        lines.append("     " + t("{total:.1f} GiB", total=gpu.memory_total_gib))
    lines += [f"     {_holder(process)}" for process in gpu.processes]
    used = gpu.memory_used_gib
    if used is not None and not gpu.unified_memory:
        nobodys = used - sum(process.memory_used_gib or 0.0 for process in gpu.processes)
        if nobodys > _NOBODYS_GIB:
            size = t("{size:.1f} GiB", size=nobodys)
            lines.append(f"     {size.rjust(9)}  " + t("the driver, or processes that cannot be seen from here"))
    lines += ["     " + t("unknown: {reason}", reason=reason) for reason in gpu.unknown]
    return tuple(lines)


def _holder(process: GpuProcess) -> str:
    size = t("{size:.1f} GiB", size=process.memory_used_gib) if process.memory_used_gib is not None else t("? GiB")
    name = process.name or t("another container's or user's process")
    who = f"{process.user}, pid {process.pid}" if process.user else f"pid {process.pid}"
    return f"{size.rjust(9)}  {name} ({who})" + (" " + t("draws the display") if process.graphics else "")


def render_machine(machine: Machine, choice: BuildChoice, *, symbols: bool) -> tuple[str, ...]:
    """The whole machine; problems are shown by the caller."""
    lines: list[str] = []
    if machine.gpus:
        lines.append(t("GPUs"))
        for gpu in machine.gpus:
            lines += render_gpu(gpu, symbols=symbols)
        lines += render_links(machine)
        lines.append("")
    facts = [
        (t("GPU"), "" if machine.gpus else t("none found")),
        (t("Driver"), _driver(machine)),
        (t("Processor"), _cpu(machine)),
        (t("Memory"), _ram(machine)),
        (t("Shared memory"), _size(machine.shm_total_gib, t("in /dev/shm"))),
        (t("Disk"), _size(machine.disk_free_gib, t("free where models and vLLM go"))),
        (t("Where"), _where(machine)),
        (t("vLLM build"), _build(choice)),
    ]
    width = max(display_width(label) for label, _ in facts)
    lines += [f"  {pad(label, width)}  {text}" for label, text in facts if text]
    lines += [f"  {t('warning:')} {warning}" for warning in choice.warnings]
    lines += ["  " + t("unknown: {reason}", reason=reason) for reason in machine.unknown]
    return tuple(lines)


def _build(choice: BuildChoice) -> str:
    names = {"cuda": "CUDA", "rocm": "ROCm", "cpu": "CPU"}
    variant = f" ({choice.variant})" if choice.variant else ""
    return f"{names[choice.build]}{variant}: {choice.reason}"


def _driver(machine: Machine) -> str:
    parts = []
    if machine.driver_version:
        parts.append(f"NVIDIA {machine.driver_version}")
    if machine.driver_cuda:
        parts.append(t("CUDA up to {version}", version=machine.driver_cuda))
    if machine.rocm_version:
        parts.append(f"ROCm {machine.rocm_version}")
    return ", ".join(parts)


def _cpu(machine: Machine) -> str:
    cpu = machine.cpu
    parts = [f"{cpu.name or t('unknown')} ({cpu.architecture})"]
    if cpu.logical_cores:
        cores = t("{count} cores", count=cpu.logical_cores)
        if cpu.physical_cores and cpu.physical_cores != cpu.logical_cores:
            cores = t("{threads} threads on {cores} cores", threads=cpu.logical_cores, cores=cpu.physical_cores)
        parts.append(cores)
    if cpu.quota_cores:
        parts.append(t("limited to the time of {count:g}", count=cpu.quota_cores))
    if cpu.numa_nodes and cpu.numa_nodes > 1:
        parts.append(t("{count} NUMA nodes", count=cpu.numa_nodes))
    # What decides the CPU build's speed; the full list is in --json.
    telling = [name for name in ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "bf16", "sve") if name in cpu.features]
    return ", ".join([*parts, *telling])


def _ram(machine: Machine) -> str:
    if machine.ram_total_gib is None:
        return ""
    text = t("{total:.1f} GiB", total=machine.ram_total_gib)
    if machine.ram_available_gib is not None:
        text += ", " + t("{available:.1f} GiB available", available=machine.ram_available_gib)
    return text


def _size(size_gib: float | None, what: str) -> str:
    if size_gib is None:
        return ""
    size = t("{size:.1f} GiB", size=size_gib) if size_gib >= 1 else t("{size:.0f} MiB", size=size_gib * 1024)
    return f"{size} {what}"


def _where(machine: Machine) -> str:
    parts = [
        t("in a container ({name})", name=machine.container) if machine.container else "",
        "WSL" if machine.wsl else "",
        t("over SSH") if machine.ssh else "",
    ]
    return ", ".join(part for part in parts if part)


def render_links(machine: Machine) -> tuple[str, ...]:
    """How GPUs reach each other, one line a kind: every pair where all are alike, else the pairs."""
    by_kind: dict[str, list[str]] = {}
    for link in machine.links:
        by_kind.setdefault(link.kind, []).append(f"{link.first}-{link.second}")
    pairs = len(machine.gpus) * (len(machine.gpus) - 1) // 2
    return tuple(
        "     "
        + t(
            "{kind}: {which}",
            kind=t(_LINKS[kind]),
            which=t("between all GPUs") if len(which) == pairs and pairs > 1 else ", ".join(which),
        )
        for kind, which in by_kind.items()
    )
