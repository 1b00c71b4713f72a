"""What real starts on this machine have measured, to be used instead of an estimate."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

MOST_STARTS = 200


@dataclass(frozen=True, slots=True)
class MeasuredStart:
    """One start. key: what it was a start of (`start_key`); rest_gib: all of vLLM's share but the cache, on the fullest
    rank; weights_gib: None where the log did not tell.
    """

    key: str
    rest_gib: float
    weights_gib: float | None = None


def start_key(
    model: str, version: str, gpu: str, split: tuple[int, int], batch: tuple[int, int], dtype: str, eager: bool
) -> str:
    """What the memory beside the cache depends on. split: tensor and pipeline ranks; batch: tokens and sequences."""
    return "|".join(
        (model, version, gpu, f"{split[0]}x{split[1]}", f"{batch[0]}/{batch[1]}", dtype, "eager" if eager else "graphs")
    )


def parse_starts(raw: bytes | None) -> tuple[MeasuredStart, ...]:
    """Kept starts. A file that does not parse counts as empty: they are only a help, made anew by the next start."""
    try:
        rows = json.loads(raw or b"[]")
    except ValueError:
        return ()
    starts = []
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            continue
        key, rest, weights = row.get("key"), row.get("rest_gib"), row.get("weights_gib")
        if isinstance(key, str) and isinstance(rest, int | float) and math.isfinite(rest) and rest > 0:
            told = float(weights) if isinstance(weights, int | float) and math.isfinite(weights) else None
            starts.append(MeasuredStart(key, float(rest), told))
    return tuple(starts)


def with_start(starts: Iterable[MeasuredStart], new: MeasuredStart) -> tuple[MeasuredStart, ...]:
    """The kept starts with a new one, which replaces an older one of the same key; the oldest go first."""
    return (*[start for start in starts if start.key != new.key], new)[-MOST_STARTS:]


def render_starts(starts: Iterable[MeasuredStart]) -> bytes:
    """The file's content."""
    rows = [{"key": s.key, "rest_gib": round(s.rest_gib, 4), "weights_gib": s.weights_gib} for s in starts]
    return json.dumps(rows, indent=1, ensure_ascii=False).encode() + b"\n"
