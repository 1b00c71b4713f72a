#!/usr/bin/env python3
"""Write docs/reference/ from the application, its tables and its specs.

    generate_reference.py            write the pages that differ, and name them
    generate_reference.py --check    write nothing; end with 1 when a page is stale

Each module in scripts/reference/ has `pages(say)`, which gives {path below docs/reference: text}. A new kind of page is
a new module there; nothing else names it. tests/unit/house/test_reference.py compares all of them.

`say` is how a page says a sentence: as it is, or in Chinese for `page.zh.md`, from the product's own messages and from
scripts/reference/chinese.toml.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from wizard.ui.language import Catalogue

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "reference"


Say = Callable[[str], str]


def in_english(text: str) -> str:
    """As it is."""
    return text


class InChinese:
    """Looks sentences up; keeps those that it did not find."""

    def __init__(self) -> None:
        own = tomllib.loads((ROOT / "scripts" / "reference" / "chinese.toml").read_text(encoding="utf-8"))
        self._own: dict[str, str] = own["texts"]
        self._messages = Catalogue(str(ROOT / "wizard" / "locales" / "zh_CN" / "LC_MESSAGES" / "llm-setup.mo"))
        self.missing: list[str] = []

    def __call__(self, text: str) -> str:
        found = self._own.get(text) or self._messages.lookup(text)
        if found == text and re.search(r"[a-z]{3} [a-z]", text):
            self.missing.append(text)
        return found


def all_pages(chinese: Say | None = None) -> dict[Path, str]:
    """Every generated page: where it lies and what it should hold."""
    pages: dict[Path, str] = {}
    for path in sorted((ROOT / "scripts" / "reference").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"reference_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise ImportError(path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for relative, text in module.pages(in_english).items():
            pages[DOCS / relative] = _whole(relative, text)
        for relative, text in module.pages(chinese or InChinese()).items():
            if relative.endswith(".md"):
                pages[DOCS / relative.replace(".md", ".zh.md")] = _whole(relative, _chinese_links(_chinese_marks(text)))
    return pages


def _chinese_marks(text: str) -> str:
    """No blank after a full-width mark, as sentences are joined with one; code is left alone."""
    parts = re.split(r"(```.*?```)", text, flags=re.DOTALL)
    prose = [re.sub(r"(?<=[。；：，）])[ ](?=\S)", "", re.sub(r"`\. (?=\S)", "`。", part)) for part in parts[::2]]
    return "".join(prose[n // 2] if n % 2 == 0 else part for n, part in enumerate(parts))


def _chinese_links(text: str) -> str:
    """To the Chinese pages: a Chinese page is beside every English one."""
    return re.sub(r"(\]\((?![a-z]+:)[^)\s#]+?)(?<!\.zh)\.md(?=[)#])", r"\1.zh.md", text)


def _whole(relative: str, text: str) -> str:
    if not relative.endswith(".md"):
        return f"{text.rstrip()}\n"
    return f"<!-- Made by scripts/generate_reference.py; do not edit. -->\n\n{text.strip()}\n"


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
