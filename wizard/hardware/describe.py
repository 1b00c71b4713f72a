"""A machine that is not here, from flags: `--gpu "RTX 4090" --gpus 2`."""

from __future__ import annotations

import re
from dataclasses import replace

from wizard.catalog import gpus as catalog
from wizard.hardware.machine import Cpu, Gpu, GpuLink, LinkKind, Machine, Vendor
from wizard.i18n import t
from wizard.problems import usage_error

MOST_GPUS = 1024
# More than 16 GPUs share no board; their links are not described.
MOST_LINKED = 16


def describe_machine(
    gpu: str | None = None,
    gpus: int = 1,
    memory_gib: float | None = None,
    free_gib: float | None = None,
    compute_capability: str | None = None,
) -> Machine:
    """The described machine: `gpus` equal GPUs, each with memory_gib as its driver reports it, GiB.

    What is not given comes from the catalogue; free memory is then all of it. Without a name, memory_gib describes an
    NVIDIA GPU of that size. Raises ProblemError (exit 2) for a name that the catalogue does not know, unless memory_gib
    is given, and for figures that no machine has.
    """
    _check(gpus, memory_gib, free_gib, compute_capability)
    entry = catalog.find_gpu(gpu, memory_gib) if gpu else None
    if gpu and entry is None and memory_gib is None:
        near = catalog.nearest(gpu)
        raise usage_error(
            "unknown-gpu",
            t("No GPU named `{name}` is in the catalogue.", name=gpu),
            t("Name one of these: {names}.", names=", ".join(f"`{name}`" for name in near))
            if near
            else t("Give its memory with `--gpu-memory-gib 24`, or a name such as `RTX 4090`, `L40S` or `H100`."),
            why=t("Its memory and compute capability decide what fits; they are not guessed.")
            + (" " + t("A GPU that is not listed can be described with `--gpu-memory-gib`.") if near else ""),
        )
    if not gpu and memory_gib is None:
        raise usage_error(
            "gpu-not-described",
            t("A machine is described by its GPU: `--gpu NAME` or `--gpu-memory-gib X` is missing."),
            t('Name the GPU, such as `--gpu "RTX 4090"`.'),
        )
    total = memory_gib if memory_gib is not None else entry.memory_gib if entry else None
    if total is not None and free_gib is not None and free_gib > total:
        raise usage_error(
            "free-above-total",
            t("`--gpu-free-gib {free:g}` is more than the GPU has ({total:g} GiB).", free=free_gib, total=total),
            t("Give at most its total memory."),
        )
    vendor: Vendor = entry.vendor if entry else _guess_vendor(gpu or "")
    one = Gpu(
        index=0,
        name=entry.name if entry else gpu or t("GPU with {size:g} GiB", size=total),
        vendor=vendor,
        memory_total_gib=total,
        memory_free_gib=total if free_gib is None else free_gib,
        compute_capability=compute_capability or (entry.compute_capability if entry else None),
        architecture=entry.architecture if entry and vendor != "nvidia" else None,
        unified_memory=bool(entry and entry.unified_memory),
    )
    links = _links(one, gpus)
    nvlinks = [link for link in links if link.kind == "nvlink"]
    return Machine(
        platform="linux",
        cpu=Cpu(name=None, architecture="x86_64", logical_cores=None),
        ram_total_gib=None,
        ram_available_gib=None,
        gpus=tuple(
            replace(
                one,
                index=index,
                nvlink_peers=tuple(sorted({*(x.first for x in nvlinks), *(x.second for x in nvlinks)} - {index}))
                if index < MOST_LINKED
                else (),
            )
            for index in range(gpus)
        ),
        links=links,
        wsl=_reports_as_windows(entry, total) or bool(re.search(r"\bwsl ?2?\b", (gpu or "").lower())),
        described=True,
    )


# Windows' driver, and so WSL2, reports the whole memory of a card; Linux keeps some 2% of it (an RTX 4090: 23.99 and
# 23.52 GiB, an RTX 5090: 31.84 and 31.36).
_WHOLE_MEMORY = 0.9925


def _reports_as_windows(entry: catalog.GpuEntry | None, total: float | None) -> bool:
    """Whether a card that people put into their own computers has as much memory as only Windows says."""
    if entry is None or entry.vendor != "nvidia" or entry.memory_kind != "gddr" or total is None:
        return False
    return _WHOLE_MEMORY <= total / entry.nameplate_gb < 1.0  # the nameplate itself is what people type


def _check(gpus: int, memory_gib: float | None, free_gib: float | None, compute_capability: str | None) -> None:
    if not 1 <= gpus <= MOST_GPUS:
        raise usage_error(
            "wrong-number-of-gpus",
            t("`--gpus {gpus}` is no number of GPUs in one machine.", gpus=gpus),
            t("Give a number from 1 to {most}.", most=MOST_GPUS),
        )
    for flag, value in (("--gpu-memory-gib", memory_gib), ("--gpu-free-gib", free_gib)):
        # not (a <= x) is also true for NaN
        if flag == "--gpu-free-gib" and value == 0:
            continue
        if value is not None and not 0 < value <= 4096:
            raise usage_error(
                "wrong-memory",
                t("`{flag} {value:g}` is no memory of a GPU.", flag=flag, value=value),
                t("Give GiB, such as 23.5, as the driver reports it."),
            )
    if compute_capability is not None and not re.fullmatch(r"\d{1,2}\.\d", compute_capability):
        raise usage_error(
            "wrong-compute-capability",
            t("`--compute-capability {value}` is none.", value=compute_capability),
            t("Give it as NVIDIA writes it, such as 8.9 or 12.0."),
        )


def _guess_vendor(name: str) -> Vendor:
    text = name.lower()
    if re.search(r"\b(amd|radeon|instinct|mi\d{2,3}[a-z]?|rx)\b", text):
        return "amd"
    if re.search(r"\b(intel|arc)\b", text):
        return "intel"
    return "apple" if text.startswith("apple") else "nvidia"


def _links(gpu: Gpu, count: int) -> tuple[GpuLink, ...]:
    """Modules (SXM, HGX, GB200) come with NVLink, OAM modules with XGMI; cards are taken to be on PCIe."""
    text = gpu.name.lower()
    kind: LinkKind = "system"
    if gpu.vendor == "nvidia" and re.search(r"sxm|hgx|h100 80gb hbm3|\bgb[23]00|\b[bh]20[0-9]\b|\bb300\b", text):
        kind = "nvlink"
    elif gpu.vendor == "amd" and re.search(r"\bmi3\d\d[xa]?\b|\bmi250x?\b", text):
        kind = "xgmi"
    most = min(count, MOST_LINKED)
    return tuple(GpuLink(a, b, kind) for a in range(most) for b in range(a + 1, most))
