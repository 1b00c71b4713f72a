"""Intel GPUs with memory of their own from sysfs: texts -> GPUs. Integrated graphics are left out."""

from __future__ import annotations

from collections.abc import Mapping

from wizard.hardware.machine import GIB, Gpu, GpuProcess
from wizard.i18n import t

VENDOR = "0x8086"


def is_integrated(pci_bus_id: str) -> bool:
    """Intel's integrated graphics sit on the root bus, at 00:02.0 by Intel's own convention."""
    return pci_bus_id.endswith(":00:02.0")


def parse_bar_size(resource: str) -> int | None:
    """The largest memory window of a PCI device in bytes, from its `resource` file (start, end, flags a line).

    With resizable BAR, which Intel asks for on Arc, the window is the whole memory, rounded up to a power of two.
    """
    sizes = []
    for line in resource.splitlines():
        words = line.split()
        if len(words) == 3:
            try:
                start, end = int(words[0], 16), int(words[1], 16)
            except ValueError:
                continue
            if end > start:
                sizes.append(end - start + 1)
    return max(sizes, default=None)


def parse_intel_gpu(
    index: int,
    attributes: Mapping[str, str],
    pci_bus_id: str,
    name: str | None,
    processes: tuple[GpuProcess, ...] = (),
) -> Gpu:
    """One discrete GPU from the texts of its folders: i915's lmem_total_bytes, xe's tile*/physical_vram_size_bytes."""
    unknown: list[str] = []
    sizes = [
        int(value.strip(), 0)
        for key, value in attributes.items()
        if (key == "lmem_total_bytes" or key.endswith("physical_vram_size_bytes")) and _is_number(value)
    ]
    total = sum(sizes) if sizes else None
    available = attributes.get("lmem_avail_bytes", "")
    free = int(available.strip(), 0) if _is_number(available) else None
    if total is None:
        bar = parse_bar_size(attributes.get("resource", ""))
        window = (
            t("its PCI window is {size:.0f} GiB", size=bar / GIB) if bar and bar >= GIB else t("no PCI window tells")
        )
        unknown.append(t("memory: this driver does not report it; {window}", window=window))
    elif free is None:
        unknown.append(
            t("free memory: the {driver} driver tells it only to root", driver=attributes.get("driver", "Intel"))
        )
    return Gpu(
        index=index,
        name=name or f"Intel GPU {attributes.get('device', '').strip()}".strip(),
        vendor="intel",
        memory_total_gib=None if total is None else total / GIB,
        memory_free_gib=None if free is None else free / GIB,
        pci_bus_id=pci_bus_id,
        processes=processes,
        unknown=tuple(unknown),
    )


def _is_number(text: str) -> bool:
    try:
        int(text.strip(), 0)
    except ValueError:
        return False
    return True
