"""Asks NVIDIA's driver library again and again; run as a process of its own by effects/gpu_watch.py.

    gpu_watch_child.py SECONDS

Prints one JSON object a line for each GPU: memory in bytes, power in milliwatts, utilization in percent. Ends when its
stdin does, so that it never outlives who started it.
"""

from __future__ import annotations

import contextlib
import json
import runpy
import select
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """0 also where there is no driver: then nothing is printed."""
    every_s = float(sys.argv[1])
    try:
        import pynvml as nvml
    except ImportError:
        return 0
    # Where the library may lie is known there; a script by its path has no package to import it from.
    load = runpy.run_path(str(Path(__file__).with_name("nvml_child.py")))["load"]
    try:
        load(nvml)
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return 0
    while True:
        for index, handle in enumerate(handles):
            print(json.dumps({"event": "gpu", "index": index, **_read(nvml, handle)}), flush=True)
        if select.select([sys.stdin], [], [], every_s)[0]:
            return 0


def _read(nvml: Any, handle: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    # Each figure by itself: many cards have no power meter, and slices no utilization.
    with contextlib.suppress(nvml.NVMLError):
        name = nvml.nvmlDeviceGetName(handle)
        found["name"] = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    # The second version leaves the driver's own reserve out of what is used, as `nvidia-smi` does.
    for version in (getattr(nvml, "nvmlMemory_v2", None), None):
        with contextlib.suppress(nvml.NVMLError):
            memory = nvml.nvmlDeviceGetMemoryInfo(handle, version)
            found |= {"used": int(memory.used), "total": int(memory.total)}
            break
    with contextlib.suppress(nvml.NVMLError):
        found["power_mw"] = int(nvml.nvmlDeviceGetPowerUsage(handle))
    with contextlib.suppress(nvml.NVMLError):
        found["utilization"] = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    with contextlib.suppress(nvml.NVMLError):
        found["temperature"] = int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
    return found


if __name__ == "__main__":
    sys.exit(main())
