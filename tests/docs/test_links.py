"""No link in the documentation is broken: every file is there, and every heading that an anchor names."""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def prose(page: Path) -> str:
    """The page without its code blocks, in which a bracket is no link."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> Iterator[str]:
    for link in re.findall(r"\]\(([^)\s]+)", prose(page)):
        if "://" not in link and not link.startswith("mailto:"):
            yield link


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """The names that GitHub and the site give to headings: lower case, blanks to hyphens, marks left out."""
    found = re.findall(r"^#{1,6} +(.+)$", prose(page), re.MULTILINE)
    texts = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in found]
    return frozenset(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text)) for text in texts)


def test_every_relative_link_leads_to_a_file_and_a_heading() -> None:
    broken = []
    for page in PAGES:
        for link in links(page):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []
    assert len(PAGES) > 50


def test_a_chinese_page_leads_to_chinese_pages() -> None:
    """But for the changes, and where a page names the other language's."""
    leads_out = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        if page.stem.endswith(".zh")
        for link in links(page)
        if (target := page.parent / link.partition("#")[0]).suffix == ".md" and not target.stem.endswith(".zh")
    ]
    assert leads_out == ["README.zh.md: README.md", "README.zh.md: CHANGELOG.md"]


def test_links_do_not_leave_the_project() -> None:
    """What is built into a site or unpacked from an archive has nothing above it."""
    outside = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        for link in links(page)
        if not (page.parent / link.partition("#")[0]).resolve().is_relative_to(ROOT)
    ]
    assert outside == []


def test_every_page_of_the_documentation_is_reached_from_its_first_page() -> None:
    reached: set[Path] = set()
    left = [ROOT / "docs" / "README.md"]
    while left:
        page = left.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        left += [(page.parent / link.partition("#")[0]).resolve() for link in links(page) if link.partition("#")[0]]
    pages = {page for page in (ROOT / "docs").rglob("*.md") if not page.stem.endswith(".zh")}
    pages -= set((ROOT / "docs" / "explanation" / "decisions").glob("*.md"))  # listed by the site's navigation
    assert sorted(str(page.relative_to(ROOT)) for page in pages - reached) == []


def test_the_first_readme_lines_are_what_the_checks_run() -> None:
    for name in ("README.md", "README.zh.md"):
        readme = (ROOT / name).read_text(encoding="utf-8")
        lines = [line for line in readme.splitlines() if line.startswith("    ")]
        assert lines[0].endswith("llm-setup init --yes")
        assert lines[1] == "    python3 scripts/check"
