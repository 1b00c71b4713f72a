"""A Mac from the text of `sysctl` and `vm_stat`. One memory serves CPU and GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wizard.hardware.machine import GIB, Cpu, Gpu
from wizard.i18n import t

# The names to ask; what a Mac lacks is left out of the answer.
SYSCTL_NAMES = (
    "hw.memsize",
    "hw.physicalcpu",
    "hw.logicalcpu",
    "hw.machine",
    "hw.optional.avx2_0",
    "hw.optional.avx512f",
    "hw.optional.arm.FEAT_BF16",
    "hw.optional.arm.FEAT_I8MM",
    "hw.optional.arm.FEAT_DotProd",
    "machdep.cpu.brand_string",
    "iogpu.wired_limit_mb",
)
_FEATURES = {
    "hw.optional.avx2_0": "avx2",
    "hw.optional.avx512f": "avx512f",
    "hw.optional.arm.FEAT_BF16": "bf16",
    "hw.optional.arm.FEAT_I8MM": "i8mm",
    "hw.optional.arm.FEAT_DotProd": "asimddp",
}


@dataclass(frozen=True, slots=True)
class AppleFacts:
    """What the texts say; sizes in GiB."""

    cpu: Cpu
    ram_total_gib: float | None
    ram_available_gib: float | None
    gpus: tuple[Gpu, ...]


def parse_sysctl(text: str) -> dict[str, str]:
    """`name: value` lines."""
    return {key.strip(): value.strip() for key, colon, value in (x.partition(":") for x in text.splitlines()) if colon}


def parse_vm_stat(text: str) -> int | None:
    """Bytes that can be had without swapping: free, inactive, speculative and purgeable pages."""
    page = re.search(r"page size of (\d+) bytes", text)
    pages = re.findall(r"^Pages (?:free|inactive|speculative|purgeable):\s+(\d+)\.", text, re.MULTILINE)
    return int(page[1]) * sum(map(int, pages)) if page and pages else None


def parse_apple(sysctl: str, vm_stat: str, architecture: str) -> AppleFacts:
    """The machine. On Apple silicon the GPU's memory is what macOS lets it wire: iogpu.wired_limit_mb where set, else
    about two thirds of RAM up to 36 GiB and three quarters above (Metal's recommendedMaxWorkingSetSize)."""
    found = parse_sysctl(sysctl)

    def number(key: str) -> int | None:
        return int(found[key]) if found.get(key, "").isdigit() else None

    memory, available = number("hw.memsize"), parse_vm_stat(vm_stat)
    name = found.get("machdep.cpu.brand_string") or None
    cpu = Cpu(
        name=name,
        architecture=architecture,
        logical_cores=number("hw.logicalcpu"),
        physical_cores=number("hw.physicalcpu"),
        features=tuple(sorted(feature for key, feature in _FEATURES.items() if found.get(key) == "1")),
    )
    gpus: tuple[Gpu, ...] = ()
    if name and name.startswith("Apple"):
        limit_mib = number("iogpu.wired_limit_mb")
        if limit_mib:
            total: float | None = limit_mib * 2**20 / GIB
        else:
            total = None if memory is None else memory / GIB * (2 / 3 if memory <= 36 * GIB else 3 / 4)
        free = None if total is None or available is None else min(total, available / GIB)
        note = () if limit_mib else (t("the GPU's share of memory: estimated from the size of RAM"),)
        gpus = (Gpu(0, name, "apple", total, free, unified_memory=True, unknown=note),)
    return AppleFacts(
        cpu,
        None if memory is None else memory / GIB,
        None if available is None else available / GIB,
        gpus,
    )
