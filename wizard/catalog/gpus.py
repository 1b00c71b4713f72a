"""GPUs as rows: reported memory, bandwidth, compute capability, and what follows from them.

The rows are gpus.toml. A name is looked up as drivers print it ("NVIDIA GeForce RTX 4090") or as people write
it ("4090", "H100-80GB"). A name that fits no row, or several, gives None; `nearest` then names what may be meant.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from wizard.catalog.index import read_index

Vendor = Literal["nvidia", "amd", "intel"]
Feature = Literal["bf16", "fp8", "fp4", "flash-attention-2"]

# Least compute capability of NVIDIA GPUs for each feature in hardware: bf16 and FlashAttention 2 came with Ampere, FP8
# tensor cores with Ada, FP4 with Blackwell. (vLLM runs FP8 and FP4 weights on older GPUs through weight-only kernels.)
_SINCE_COMPUTE_CAPABILITY: dict[Feature, tuple[int, int]] = {
    "bf16": (8, 0),
    "flash-attention-2": (8, 0),
    "fp8": (8, 9),
    "fp4": (10, 0),
}
# What the architectures of other makers have; one that is not here has bf16 only.
_ARCHITECTURE_HAS: dict[str, frozenset[Feature]] = {
    "gfx906": frozenset(),
    "gfx908": frozenset({"bf16"}),
    "gfx1030": frozenset(),
    "gfx90a": frozenset({"bf16", "flash-attention-2"}),
    "gfx942": frozenset({"bf16", "fp8", "flash-attention-2"}),
    "gfx950": frozenset({"bf16", "fp8", "fp4", "flash-attention-2"}),
    "gfx1200": frozenset({"bf16", "fp8"}),
    "gfx1201": frozenset({"bf16", "fp8"}),
    "gaudi2": frozenset({"bf16", "fp8", "flash-attention-2"}),
    "gaudi3": frozenset({"bf16", "fp8", "flash-attention-2"}),
}
_VENDORS: dict[str, Vendor] = {"nvidia": "nvidia", "amd": "amd", "intel": "intel"}
# Two figures of one memory size differ by less than this share (nameplate against what a driver reports).
_SAME_MEMORY = 0.12

# Words that say nothing about which GPU it is.
_NOISE_WORDS = """
nvidia geforce tesla amd radeon instinct intel corporation inc r tm gpu graphics generation edition series card adapter
accelerator tensor core rtx gtx rx arc sxm hbm2 hbm2e hbm3 hbm3e gddr6 gddr6x gddr7 blackwell desktop with design center
vram memory vga
"""
_NOISE = frozenset(_NOISE_WORDS.split())


@dataclass(frozen=True, slots=True)
class GpuEntry:
    """One GPU. memory_gib: what the driver reports, GiB (2**30); memory_seen: it was read on a real machine, else it is
    the nameplate times the share that GPUs with this kind of memory report. memory_bandwidth_gb_s: 10**9 bytes/s.
    compute_capability: NVIDIA only. checked: ISO date, None where the figures wait for a check.
    """

    id: str
    name: str
    vendor: Vendor
    nameplate_gb: float
    memory_gib: float
    memory_seen: bool
    memory_kind: str
    memory_bandwidth_gb_s: float
    compute_capability: str | None
    architecture: str | None
    lacks: tuple[Feature, ...]
    name_contains: tuple[str, ...]
    usual: bool
    note: str
    source: str
    checked: str | None

    @property
    def unified_memory(self) -> bool:
        """Processor and GPU share one memory, so that other programs' memory is missing from it."""
        return self.memory_kind == "unified"


@cache
def all_gpus() -> tuple[GpuEntry, ...]:
    """Every row of the catalogue, in its order."""
    table = read_index("gpus")
    share: dict[str, float] = table["reported_share"]
    return tuple(_entry(row, share) for row in table["gpu"])


def find_gpu(name: str, memory_gib: float | None = None) -> GpuEntry | None:
    """The one GPU that `name` means, else None (unknown, or several: see `nearest`).

    memory_gib, as the driver reports it, tells apart GPUs of one name (A100 40 and 80 GB). A memory size within the
    name does the same. A MIG slice is found by the name of the whole GPU.
    """
    matching = [e for e in all_gpus() if _spoken(name) in (_spoken(e.name), _spoken(e.name, with_vendor=False))]
    wanted, sizes = _words(name)
    if not matching:
        matching = [e for e in all_gpus() if _matches(e, wanted)]
        if sizes:
            matching = [e for e in matching if any(_same_memory(e, size) for size in sizes)]
    if len(matching) > 1 and memory_gib is not None:
        by_memory = [e for e in matching if _same_memory(e, memory_gib)]
        matching = by_memory or matching
    if len(matching) > 1:
        # "NVIDIA H100 NVL" fits the plain H100 no better than the row that has all its words.
        most = max(len(_required(e, wanted)) for e in matching)
        matching = [e for e in matching if len(_required(e, wanted)) == most]
    if len(matching) > 1:
        matching = [e for e in matching if e.usual]
    return matching[0] if len(matching) == 1 else None


def names_beginning(typed: str) -> tuple[str, ...]:
    """Names that begin with what was typed, whatever its case, and that no shell has to have in quotes.

    A name may be begun at any of its words, as long as it then means the same GPU: `H2` is begun `H200` for `NVIDIA
    H200`. `find_gpu` takes all of them.
    """
    found: list[str] = []
    wanted = typed.lower().replace(" ", "-")
    for label in dict.fromkeys(_label(entry) for entry in all_gpus()):
        words = re.findall(r"[A-Za-z0-9.+]+", label)
        names = ["-".join(words[start:]) for start in range(len(words) if typed else 1)]
        begun = [name for name in names if name.lower().startswith(wanted)]
        meant = find_gpu(label) if begun else None
        found += [name for name in begun if meant and find_gpu(name) == meant][:1]
    return tuple(dict.fromkeys(found))


def nearest(name: str, count: int = 4) -> tuple[str, ...]:
    """Names of GPUs that `name` may have meant, likeliest first; with the size where several share a name."""
    wanted, _ = _words(name)
    if not wanted:
        return ()

    spelt = [word for word in wanted if _weight(word) > 1] or list(wanted)
    known = frozenset().union(*(_known_words(entry)[1] for entry in all_gpus()))
    # "FooBar 9000": a maker or series that nobody has makes a number like others' no likeness.
    least = 1.0 if any(_weight(word) == 1 and word not in known for word in wanted) else 0.75

    def likeness(entry: GpuEntry) -> float:
        words = _known_words(entry)[1]
        # The number says more than "Ti", "Super" or "Laptop".
        shared = sum(_weight(word) for word in wanted & words) / sum(map(_weight, wanted))
        alike = [(word, other) for word in spelt for other in words if word[0] == other[0]]
        return shared + max((difflib.SequenceMatcher(None, *pair).ratio() for pair in alike), default=0.0)

    ranked = sorted(((likeness(e), e) for e in all_gpus()), key=lambda pair: -pair[0])
    near = [entry for score, entry in ranked if score >= least][: count * 2]
    return tuple(dict.fromkeys(_label(entry) for entry in near))[:count]


def _spoken(name: str, *, with_vendor: bool = True) -> tuple[str, ...]:
    """The words of a name as they are, a dash as good as a blank."""
    words = tuple(name.lower().replace("-", " ").split())
    return words if with_vendor or words[:1] not in (("nvidia",), ("amd",), ("intel",)) else words[1:]


def _weight(word: str) -> int:
    return 3 if any(character.isdigit() for character in word) else 1


def lacks(vendor: Vendor, compute_capability: str | None, architecture: str | None = None) -> tuple[Feature, ...]:
    """Features that a GPU does not have in hardware, from its compute capability (NVIDIA) or architecture."""
    if vendor == "nvidia":
        if compute_capability is None:
            return ()
        major, _, minor = compute_capability.partition(".")
        have = (int(major), int(minor or 0))
        return tuple(f for f, since in _SINCE_COMPUTE_CAPABILITY.items() if have < since)
    has = _ARCHITECTURE_HAS.get(architecture or "", frozenset({"bf16"}))
    return tuple(f for f in _SINCE_COMPUTE_CAPABILITY if f not in has)


def _entry(row: dict[str, object], share: dict[str, float]) -> GpuEntry:
    def text(key: str) -> str | None:
        return str(row[key]) if key in row else None

    def number(key: str) -> float:
        return float(str(row[key]))

    vendor = _VENDORS[str(row["vendor"])]
    kind = str(row["memory"])
    seen = "memory_gib" in row
    contains = row["name_contains"]
    assert isinstance(contains, list)
    return GpuEntry(
        id=str(row["id"]),
        name=str(row["name"]),
        vendor=vendor,
        nameplate_gb=number("nameplate_gb"),
        memory_gib=number("memory_gib") if seen else round(number("nameplate_gb") * share[kind], 2),
        memory_seen=seen,
        memory_kind=kind,
        memory_bandwidth_gb_s=number("memory_bandwidth_gb_s"),
        compute_capability=text("compute_capability"),
        architecture=text("architecture"),
        lacks=lacks(vendor, text("compute_capability"), text("architecture")),
        name_contains=tuple(str(c) for c in contains),
        usual=bool(row.get("usual", False)),
        note=text("note") or "",
        source=str(row["source"]),
        checked=text("checked"),
    )


def _words(name: str) -> tuple[frozenset[str], tuple[float, ...]]:
    """The telling words of a name, and the memory sizes in it: "RTX4090-24GB" -> {"4090"}, (24,)."""
    text = re.sub(r"\bmig\b.*", "", name.lower())
    text = re.sub(r"max-?\s?q", "maxq", text)
    sizes = tuple(float(m) for m in re.findall(r"(?<![\w.])(\d+(?:\.\d+)?)\s?(?:gb|gib|g)\b", text))
    text = re.sub(r"(?<![\w.])\d+(?:\.\d+)?\s?(?:gb|gib|g)\b", " ", text)
    text = re.sub(r"\b(rtx|gtx|rx)(?=[a-z]?\d)", r"\1 ", text)
    text = re.sub(r"\b(\d{4})(ti|super|xtx|xt|gre|d)(?=super|\b)", r"\1 \2 ", text)
    text = re.sub(r"\b(ti)(super)\b", r"\1 \2", text)
    text = re.sub(r"\bsxm\d?\b", "sxm", text)
    words = frozenset(re.findall(r"[a-z0-9]+", text))
    return words - _NOISE, sizes


@cache
def _known_words(entry: GpuEntry) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    fragments = tuple(_words(fragment)[0] for fragment in entry.name_contains)
    return fragments, _words(entry.name)[0].union(*fragments)


def _required(entry: GpuEntry, wanted: frozenset[str]) -> frozenset[str]:
    """The largest of the row's fragments that the wanted words hold; empty when they hold none."""
    return max((f for f in _known_words(entry)[0] if f <= wanted), key=len, default=frozenset())


def _matches(entry: GpuEntry, wanted: frozenset[str]) -> bool:
    """One fragment is held whole, and no word is left that the row does not know ("A4000" against "4000 Ada")."""
    return bool(_required(entry, wanted)) and wanted <= _known_words(entry)[1]


def _same_memory(entry: GpuEntry, size: float) -> bool:
    return any(abs(size - known) <= _SAME_MEMORY * known for known in (entry.nameplate_gb, entry.memory_gib))


def _label(entry: GpuEntry) -> str:
    name = entry.name
    if sum(other.name == name for other in all_gpus()) > 1:
        return f"{name} {entry.nameplate_gb:g}GB"
    return name
