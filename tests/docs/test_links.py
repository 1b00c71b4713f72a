"""No relative link in the documentation is broken."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def links(page: Path) -> list[str]:
    found = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    return [link for link in found if "://" not in link and not link.startswith("mailto:")]


def test_every_relative_link_leads_to_a_file() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        for link in links(page)
        if not (page.parent / link).exists()
    ]
    assert broken == []
    assert len(PAGES) > 50


def test_the_first_readme_lines_are_what_the_checks_run() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line for line in readme.splitlines() if line.startswith("    ")]
    assert lines[0].endswith("llm-setup init --yes")
    assert lines[1] == "    python3 scripts/check"
