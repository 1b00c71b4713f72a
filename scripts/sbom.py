#!/usr/bin/env python3
"""Write what an installed llm-setup is made of, as a CycloneDX list (JSON).

    uvx --from cyclonedx-bom python scripts/sbom.py dist/llm_setup-*.whl -o dist/llm-setup.cdx.json

Installs the wheel into a new environment, without anything for development, and lists that environment. The list is
the same for the same packages: no time and no random number is in it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Write the list; raises where the installation or the tool fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "venv"
        venv.create(place, with_pip=False)
        python = place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
        subprocess.run([*pip, "install", "-q", str(options.wheel)], check=True)
        tool = [sys.executable, "-m", "cyclonedx_py", "environment", str(python)]
        described = ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "application"]
        written = ["--of", "JSON", "--output-reproducible", "-o", str(options.output.absolute())]
        subprocess.run([*tool, *described, *written], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
