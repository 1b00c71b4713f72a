#!/usr/bin/env python3
"""Time and peak memory of `llm-setup hardware` with eight GPUs in the stand-in driver, as whole processes.

    python3 tests/bench/hardware.py [--runs 15] [--command .venv/bin/llm-setup]

Prints the median of each, beside an empty Python, and beside a machine without a GPU. Target: 300 ms with eight GPUs.
The child that asks the driver runs beside the command; its memory is not in the command's figure and is shown apart.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from startup import once

BUILD = Path(__file__).parents[1] / "native" / "build.py"
GPU = "gpu total=81559 reserved=467 used=1024 cc=9.0 bus=00000000:{n:02X}:00.0 uuid=GPU-{n} mig=0 name=NVIDIA H100\n"


def facts() -> str:
    """Eight GPUs, all linked, each with four processes."""
    gpus = "".join(GPU.format(n=n) for n in range(8))
    links = "".join(f"link {a} {b} nvlink\n" for a in range(8) for b in range(a + 1, 8))
    held = "".join(f"process gpu={n} pid={4190000 + 4 * n + m} used=200\n" for n in range(8) for m in range(4))
    return f"driver 580.65.06\ncuda 13000\n{gpus}{links}{held}"


def main() -> None:
    """Interleave, so that a busy machine hits all alike."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--command", default=str(Path(sys.executable).parent / "llm-setup"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(BUILD), folder], check=True, stdout=subprocess.DEVNULL)
        driver = Path(folder) / "driver.txt"
        driver.write_text(facts())
        bare = {"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8", "LLM_SETUP_HOME": f"{folder}/own"}
        eight = {**bare, "LD_LIBRARY_PATH": folder, "NVML_STANDIN": str(driver)}
        child = str(Path(__file__).parents[2] / "wizard" / "effects" / "nvml_child.py")
        python = str(Path(options.command).parent / "python")
        cases = {
            "empty Python": ([python, "-c", "pass"], bare),
            "hardware, no GPU": ([options.command, "hardware", "--json"], bare),
            "hardware, 8 GPUs": ([options.command, "hardware", "--json"], eight),
            "hardware, 8 GPUs, panel": ([options.command, "hardware"], eight),
            "the child alone, 8 GPUs": ([python, "-P", child], eight),
        }
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
        for _ in range(options.runs):
            for name, (argv, env) in cases.items():
                seen[name].append(once(argv, env))
    for name, runs in seen.items():
        milliseconds = sorted(ms for ms, _ in runs)
        peak = statistics.median(mib for _, mib in runs)
        print(
            f"{name:24} {statistics.median(milliseconds):7.1f} ms (p90 {milliseconds[int(len(runs) * 0.9)]:.1f})"
            f" {peak:6.1f} MiB"
        )


if __name__ == "__main__":
    main()
