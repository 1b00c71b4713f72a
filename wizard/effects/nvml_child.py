"""Asks NVIDIA's driver library; run as a process of its own by effects/nvml.py.

A driver in trouble may never answer, or may end the process that asks, so nobody who has other work asks it himself.
Prints one JSON object a line as it goes: what was read before the trouble is not lost. Imports nothing of wizard, to
start fast.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

# Where the library is when the loader's own list lacks it: WSL, NixOS, the container toolkit's older mounts.
FALLBACKS = (
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
)


def tell(event: str, **values: Any) -> None:
    """One record, out at once."""
    sys.stdout.write(json.dumps({"event": event, **values}) + "\n")
    sys.stdout.flush()


def load(nvml: Any) -> None:
    """Initialise the library; where the loader does not find it, from the fallbacks (a loaded soname is found)."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            raise
        for path in FALLBACKS:
            try:
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            except OSError:
                continue
            nvml.nvmlInit()
            return
        raise


def text(value: Any) -> str:
    """The binding gives str or bytes, by version."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def read_device(nvml: Any, handle: Any, index: int, errors: dict[str, str]) -> dict[str, Any]:
    """Everything about one GPU or slice; what fails is named in `errors` with the library's own word."""

    def ask(key: str, question: Callable[[], Any], otherwise: Any = None) -> Any:
        try:
            return question()
        except nvml.NVMLError as error:
            errors[key] = text(error)
            return otherwise

    record: dict[str, Any] = {"index": index, "errors": errors}
    record["name"] = ask("name", lambda: text(nvml.nvmlDeviceGetName(handle)))
    record["uuid"] = ask("uuid", lambda: text(nvml.nvmlDeviceGetUUID(handle)))
    reserve: dict[str, str] = {}
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        record.update(total=memory.total, reserved=memory.reserved, free=memory.free)
    except (nvml.NVMLError, AttributeError) as error:  # a driver, or a binding, from before the second version
        reserve["memory"] = text(error)
        memory = ask("memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        if memory is not None:
            record.update(total=memory.total, free=memory.free)
    record["capability"] = ask("capability", lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    record["bus"] = ask("bus", lambda: text(nvml.nvmlDeviceGetPciInfo(handle).busId))
    shown = [
        bool(answer)
        for answer in (
            ask("display_mode", lambda: nvml.nvmlDeviceGetDisplayMode(handle)),
            ask("display_active", lambda: nvml.nvmlDeviceGetDisplayActive(handle)),
        )
        if answer is not None
    ]
    record["display"] = any(shown) if shown else None
    held: list[dict[str, Any]] = []
    for graphics, question in (
        (False, nvml.nvmlDeviceGetComputeRunningProcesses),
        (True, nvml.nvmlDeviceGetGraphicsRunningProcesses),
    ):
        key = "processes" if not graphics else "graphics_processes"
        for process in ask(key, lambda question=question: question(handle), ()):  # type: ignore[misc]
            held.append({"pid": process.pid, "used": process.usedGpuMemory, "graphics": graphics})
    record["processes"] = held
    return record


def read_slices(nvml: Any, handle: Any, index: int, whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The MIG slices of a GPU as records of their own; none where MIG is off."""
    try:
        if nvml.nvmlDeviceGetMigMode(handle)[0] != 1:
            return []
        most = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except nvml.NVMLError:
        return []
    slices: list[dict[str, Any]] = []
    for number in range(most):
        try:
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except nvml.NVMLError:
            continue  # slots are sparse: an unused number is an error, and the next may be used
        record = read_device(nvml, part, index, {})
        record["parent_name"] = whole["name"]
        record["capability"] = record["capability"] or whole["capability"]
        record["bus"] = record["bus"] or whole["bus"]
        record["errors"] = {k: v for k, v in record["errors"].items() if k not in ("capability", "bus")}
        slices.append(record)
    if not slices:
        # CUDA sees no device here until a slice is made.
        whole.pop("total", None)
        whole.pop("free", None)
        whole["errors"]["mig_empty"] = "MIG is on, and no slice is made"
    return slices


def main() -> int:
    """Ask everything; 0 also where the library has only errors to tell."""
    try:
        import pynvml as nvml
    except ImportError as error:
        tell("error", at="import", text=str(error))
        return 0
    try:
        load(nvml)
        try:
            driver = text(nvml.nvmlSystemGetDriverVersion())
        except nvml.NVMLError:
            driver = ""
        try:
            cuda = nvml.nvmlSystemGetCudaDriverVersion()
        except nvml.NVMLError:
            cuda = 0
        tell("driver", driver_version=driver, cuda=cuda)
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        tell("error", at="init", code=error.value, text=text(error))
        return 0
    tell("count", gpus=count)
    handles: dict[int, Any] = {}
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            tell("gpu", index=index, errors={"handle": text(error)})
            continue
        handles[index] = handle
        whole = read_device(nvml, handle, index, {})
        for record in read_slices(nvml, handle, index, whole) or [whole]:
            tell("gpu", **record)
    for first in handles:
        for second in handles:
            if first < second:
                tell_link(nvml, first, handles[first], second, handles[second])
    tell("end")
    return 0


def tell_link(nvml: Any, first: int, a: Any, second: int, b: Any) -> None:
    """How two GPUs reach each other. vLLM asks the same NVLink question (platforms/cuda.py, is_fully_connected)."""
    nvlink = False
    level = None
    # No answer is no NVLink; the level tells the PCIe distance, where the system knows it (not in WSL).
    with contextlib.suppress(nvml.NVMLError):
        nvlink = nvml.nvmlDeviceGetP2PStatus(a, b, nvml.NVML_P2P_CAPS_INDEX_NVLINK) == nvml.NVML_P2P_STATUS_OK
    with contextlib.suppress(nvml.NVMLError):
        level = nvml.nvmlDeviceGetTopologyCommonAncestor(a, b)
    if nvlink or level is not None:
        tell("link", first=first, second=second, nvlink=nvlink, level=level)


if __name__ == "__main__":
    sys.exit(main())
