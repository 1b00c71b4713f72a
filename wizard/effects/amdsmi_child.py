"""Asks AMD's management library (amdsmi); run as a process of its own, as nvml_child.py and for the same reasons.

Adds to sysfs what only the library knows: the name a GPU is sold under, and sizes where sysfs is not mounted.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any


def tell(event: str, **values: Any) -> None:
    """One record, out at once."""
    sys.stdout.write(json.dumps({"event": event, **values}) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Ask everything; 0 also where there is nothing to ask."""
    # ROCm puts the library beside itself, not on Python's path.
    sys.path.append("/opt/rocm/share/amd_smi")
    try:
        import amdsmi
    except Exception as error:  # ImportError, or whatever its own loading of libamd_smi.so raises
        tell("error", text=f"{type(error).__name__}: {error}")
        return 0
    try:
        amdsmi.amdsmi_init()
        for handle in amdsmi.amdsmi_get_processor_handles():
            record: dict[str, Any] = {"bus": str(amdsmi.amdsmi_get_gpu_device_bdf(handle)).lower()}
            # What it does not tell, sysfs mostly does.
            with contextlib.suppress(amdsmi.AmdSmiException, KeyError):
                record["name"] = str(amdsmi.amdsmi_get_gpu_asic_info(handle)["market_name"])
            with contextlib.suppress(amdsmi.AmdSmiException, KeyError, ValueError):
                usage = amdsmi.amdsmi_get_gpu_vram_usage(handle)
                record.update(total_mib=int(usage["vram_total"]), used_mib=int(usage["vram_used"]))
            tell("gpu", **record)
    except amdsmi.AmdSmiException as error:
        tell("error", text=str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
