"""What a GPU does right now, out of the lines of effects/gpu_watch_child.py."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from wizard.hardware.machine import GIB


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU now. utilization: 0 to 1, the share of time in which it computed. None: its driver does not tell."""

    index: int
    name: str
    memory_used_gib: float | None = None
    memory_total_gib: float | None = None
    power_w: float | None = None
    utilization: float | None = None
    temperature_c: int | None = None

    def as_json(self) -> dict[str, Any]:
        """For `watch --json`."""

        def rounded(value: float | None) -> float | None:
            return None if value is None else round(value, 2)

        return {
            "index": self.index,
            "name": self.name,
            "memory_used_gib": rounded(self.memory_used_gib),
            "memory_total_gib": rounded(self.memory_total_gib),
            "power_w": rounded(self.power_w),
            "utilization": rounded(self.utilization),
            "temperature_c": self.temperature_c,
        }


def parse_gpu_lines(lines: Iterable[str]) -> tuple[GpuReading, ...]:
    """The newest reading of each GPU; what is no reading is passed over."""
    newest: dict[int, GpuReading] = {}
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if not isinstance(record, dict) or record.get("event") != "gpu" or not isinstance(record.get("index"), int):
            continue
        newest[record["index"]] = GpuReading(
            index=record["index"],
            name=str(record.get("name") or ""),
            memory_used_gib=_scaled(record.get("used"), GIB),
            memory_total_gib=_scaled(record.get("total"), GIB),
            power_w=_scaled(record.get("power_mw"), 1000),
            utilization=_scaled(record.get("utilization"), 100),
            temperature_c=record["temperature"] if isinstance(record.get("temperature"), int) else None,
        )
    return tuple(newest[index] for index in sorted(newest))


def _scaled(value: object, unit: int) -> float | None:
    return value / unit if isinstance(value, int) and not isinstance(value, bool) else None
