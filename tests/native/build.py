#!/usr/bin/env python3
"""Compile the stand-in of NVIDIA's driver library: `python tests/native/build.py FOLDER` puts libnvidia-ml.so.1 there.

With the system's compiler where there is one, else with the compiler in the `ziglang` package, so that a machine with
nothing but Python can run the tests.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml_standin.c")
NAME = "libnvidia-ml.so.1"


def compiler() -> list[str]:
    """The command that compiles C, or an exit that says what to install."""
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    sys.exit("There is no C compiler: install one, or `pip install ziglang`.")


def build(folder: Path) -> Path:
    """Compile into the folder; returns the library."""
    target = folder / NAME
    options = ["-shared", "-fPIC", "-fvisibility=hidden", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{NAME}"]
    subprocess.run([*compiler(), *options, "-o", str(target), str(SOURCE)], check=True)
    return target


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
