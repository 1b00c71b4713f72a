"""Sizes of a checkpoint's tensors, from the heads of its safetensors files."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError

# The format's own limit; safetensors 0.4 `MAX_HEADER_SIZE`.
MAX_HEADER_BYTES = 100_000_000
_PREFIX = 8
_ITEM_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip

_TOWER_NAMES = (
    "vision_",
    "visual.",
    "model.visual.",
    "model.vision",
    "vision_tower.",
    "audio_",
    "vpm.",
    "img_processor",
)
_DRAFT_NAMES = ("mtp.", "model.mtp", "mtp_", "model.mtp_layers", "nextn.")


@dataclass(frozen=True, slots=True)
class TensorSizes:
    """Bytes of a checkpoint: all, of an encoder beside the language model, of heads that only speculation loads.

    dtypes: bytes for each dtype, by the format's names.
    """

    total: int = 0
    tower: int = 0
    draft: int = 0
    dtypes: tuple[tuple[str, int], ...] = ()

    @property
    def loaded(self) -> int:
        """Bytes that a server loads without speculative decoding."""
        return self.total - self.draft


def _lying(file: str, saw: str) -> ProblemError:
    return ProblemError(
        Problem(
            "checkpoint-broken",
            t("`{file}` is no sound safetensors file.", file=file),
            t("Its head says what is in it, and where; a file that was cut off or changed does not add up."),
            (saw,),
            Fix(t("Delete the file and fetch the model again.")),
        )
    )


def header_length(file: str, first: bytes, file_size: int) -> int:
    """Bytes of the head after the first 8. Raises ProblemError when it cannot be right."""
    if len(first) < _PREFIX or file_size < _PREFIX:
        raise _lying(file, t("the file has {size} bytes", size=file_size))
    if first.startswith(b"version "):
        raise _lying(file, t("it is a pointer of Git LFS, not the file: `git lfs pull` fetches that"))
    length = int.from_bytes(first[:_PREFIX], "little")
    if not 2 <= length <= min(MAX_HEADER_BYTES, max(0, file_size - _PREFIX)):
        raise _lying(file, t("its head claims {length} bytes of {size}", length=length, size=file_size))
    return length


def parse_header(file: str, head: bytes, file_size: int, draft_layer: int | None = None) -> TensorSizes:
    """The sizes in one file's head (its JSON, without the first 8 bytes).

    draft_layer: layers from this number on belong to a multi-token-prediction head. Raises ProblemError for a head that
    is no JSON, or whose tensors are larger than the file, overlap its end, or do not fit their shapes.
    """
    try:
        table = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise _lying(file, t("its head is no JSON: {error}", error=str(error)[:80])) from error
    if not isinstance(table, dict):
        raise _lying(file, t("its head is no JSON object"))
    room = file_size - _PREFIX - len(head)
    total = tower = draft = 0
    dtypes: dict[str, int] = {}
    for name, entry in table.items():
        if name == "__metadata__":
            continue
        size, dtype = _tensor(file, name, entry, room)
        total += size
        dtypes[dtype] = dtypes.get(dtype, 0) + size
        if name.startswith(_TOWER_NAMES):
            tower += size
        elif name.startswith(_DRAFT_NAMES) or (draft_layer is not None and _layer_number(name) >= draft_layer):
            draft += size
    if total > room:
        raise _lying(file, t("its tensors take {total} bytes, the file has room for {room}", total=total, room=room))
    return TensorSizes(total, tower, draft, tuple(sorted(dtypes.items())))


def _tensor(file: str, name: str, entry: Any, room: int) -> tuple[int, str]:
    if not isinstance(entry, Mapping):
        raise _lying(file, t("tensor `{name}` has no description", name=name[:80]))
    offsets, shape, dtype = entry.get("data_offsets"), entry.get("shape"), entry.get("dtype")
    numbers = isinstance(offsets, list) and len(offsets) == 2 and all(type(number) is int for number in offsets)
    if not numbers or not isinstance(shape, list) or not isinstance(dtype, str):
        raise _lying(file, t("tensor `{name}` has no offsets, shape or dtype", name=name[:80]))
    assert isinstance(offsets, list)
    begin, end = offsets
    if not 0 <= begin <= end <= room:
        raise _lying(file, t("tensor `{name}` lies outside the file", name=name[:80]))
    if not all(type(number) is int and number >= 0 for number in shape):
        raise _lying(file, t("tensor `{name}` has a shape that cannot be", name=name[:80]))
    bits = _ITEM_BITS.get(dtype)
    if bits and math.prod(shape) * bits // 8 != end - begin:
        raise _lying(file, t("tensor `{name}` does not fit its shape", name=name[:80]))
    return end - begin, dtype


def _layer_number(name: str) -> int:
    parts = name.split(".")
    for before, after in itertools.pairwise(parts):
        if before == "layers" and after.isdigit():
            return int(after)
    return -1


def add_sizes(parts: Iterable[TensorSizes]) -> TensorSizes:
    """The sizes of all files together."""
    total = tower = draft = 0
    dtypes: dict[str, int] = {}
    for part in parts:
        total, tower, draft = total + part.total, tower + part.tower, draft + part.draft
        for dtype, size in part.dtypes:
            dtypes[dtype] = dtypes.get(dtype, 0) + size
    return TensorSizes(total, tower, draft, tuple(sorted(dtypes.items())))


def parse_index(raw: bytes) -> tuple[int | None, tuple[str, ...]]:
    """(total bytes as told, names of files) of a model.safetensors.index.json; (None, ()) where it does not parse."""
    try:
        table = json.loads(raw)
    except (ValueError, RecursionError):
        return None, ()
    if not isinstance(table, dict):
        return None, ()
    metadata = table.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    weights = table.get("weight_map")
    names = sorted({name for name in weights.values() if isinstance(name, str)}) if isinstance(weights, dict) else []
    return (total if type(total) is int and total > 0 else None), tuple(names)
