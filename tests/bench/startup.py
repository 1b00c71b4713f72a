#!/usr/bin/env python3
"""Time and memory of commands that stand in start-up files or are typed often, as whole processes.

    python3 tests/bench/startup.py [--runs 15] [--command .venv/bin/llm-setup]

Prints median milliseconds and peak MiB of each, beside an empty Python of the same interpreter in the same run.
Targets: `--help` under 100 ms and 30 MiB; `env` under 150 ms; `plan` from the catalogue under 250 ms.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGETS: dict[str, tuple[tuple[str, ...], float, float | None]] = {
    # name: (arguments, target in ms, target in MiB)
    "--help": (("--help",), 100, 30),
    "--version": (("--version",), 100, 30),
    "env": (("env", "--shell", "bash"), 150, None),
    "plan": (("plan", "Qwen/Qwen3-8B", "--gpu", "RTX 4090", "--json"), 250, None),
}


def once(argv: list[str], env: dict[str, str]) -> tuple[float, float]:
    """(milliseconds, peak MiB) of one process. ru_maxrss of the child alone, by wait4."""
    begun = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"{' '.join(argv)} ended with {os.waitstatus_to_exitcode(status)}")
    return (time.perf_counter() - begun) * 1000, usage.ru_maxrss / 1024


def main() -> None:
    """Interleave the commands, so that a busy machine hits all of them alike."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--command", default=str(Path(sys.executable).parent / "llm-setup"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "LLM_SETUP_HOME": f"{home}/own"}
        # `env` needs an endpoint to speak of; nothing listens there, and nothing is asked.
        profile = ["profiles", "add", "bench", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--offline"]
        subprocess.run([options.command, *profile], env=env, check=True, capture_output=True, timeout=60)
        commands = {"empty Python": [sys.executable, "-c", "pass"]}
        commands |= {name: [options.command, *arguments] for name, (arguments, _, _) in TARGETS.items()}
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(options.runs):
            for name, argv in commands.items():
                seen[name].append(once(argv, env))
    for name, runs in seen.items():
        milliseconds = statistics.median(ms for ms, _ in runs)
        mib = statistics.median(peak for _, peak in runs)
        target = TARGETS.get(name)
        limits = f"  (target {target[1]:g} ms{f', {target[2]:g} MiB' if target[2] else ''})" if target else ""
        print(f"{name:14} {milliseconds:7.1f} ms {mib:6.1f} MiB{limits}")


if __name__ == "__main__":
    main()
