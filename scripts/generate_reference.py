#!/usr/bin/env python3
"""Write docs/reference/ from the application, its tables and its specs.

    generate_reference.py            write the pages that differ, and name them
    generate_reference.py --check    write nothing; end with 1 when a page is stale

Each module in scripts/reference/ has `pages()`, which gives {path below docs/reference: text}. A new kind of page is a
new module there; nothing else names it. tests/unit/house/test_reference.py compares all of them.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "reference"


def all_pages() -> dict[Path, str]:
    """Every generated page: where it lies and what it should hold."""
    pages: dict[Path, str] = {}
    for path in sorted((ROOT / "scripts" / "reference").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"reference_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise ImportError(path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for relative, text in module.pages().items():
            pages[DOCS / relative] = f"<!-- Made by scripts/generate_reference.py; do not edit. -->\n{text.rstrip()}\n"
    return pages


def stale_pages() -> dict[Path, str]:
    """The pages whose file is missing or says something else."""
    return {
        path: text
        for path, text in all_pages().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def main() -> int:
    """Write or check; returns the exit code."""
    stale = stale_pages()
    for path, text in stale.items():
        print(path.relative_to(ROOT))
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
