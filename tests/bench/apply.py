#!/usr/bin/env python3
"""Time of `llm-setup clients apply --all` as a whole process: every client, into an empty home, and again over it.

    python3 tests/bench/apply.py [--runs 9] [--command .venv/bin/llm-setup]

Prints the median and the slowest of each. Nothing listens at the URL, so that no server's time is in the figures.
Target: 1.5 s.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from startup import once

TARGET_MS = 1500
ARGUMENTS = ["clients", "apply", "--all", "--base-url", "http://127.0.0.1:9", "--model", "m", "--yes"]


def main() -> None:
    """Into a new home in every run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--command", default=str(Path(sys.executable).parent / "llm-setup"))
    options = parser.parse_args()
    seen: dict[str, list[float]] = {"empty home": [], "applied before": []}
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as home:
            env = {"PATH": os.environ["PATH"], "HOME": home, "LLM_SETUP_HOME": f"{home}/own", "LANG": "C.UTF-8"}
            for figures in seen.values():
                figures.append(once([options.command, *ARGUMENTS], {**env, "LLM_SETUP_API_KEY": "sk-made-up"})[0])
    for name, figures in seen.items():
        print(f"{name:15} {statistics.median(figures):7.0f} ms, slowest {max(figures):.0f} ms (target {TARGET_MS} ms)")
    sys.exit(0 if max(max(figures) for figures in seen.values()) < TARGET_MS else 1)


if __name__ == "__main__":
    main()
