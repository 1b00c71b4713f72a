"""The picture of the architecture matches the imports."""

import html
import re
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "architecture.svg"

Edges = dict[str, set[str]]


def reach(edges: Edges, start: str) -> set[str]:
    found: set[str] = set()
    left = [start]
    while left:
        for other in edges.get(left.pop(), set()) - found:
            found.add(other)
            left.append(other)
    return found


@pytest.fixture(scope="module")
def drawn() -> Edges:
    """What the picture says: package -> packages below it. Packages that share a box reach each other."""
    text = PICTURE.read_text(encoding="utf-8")
    words = next(box for box in re.findall(r'font-weight="600" fill="#102030">([^<]*)<', text) if ", " in box)
    packages = {html.unescape(box) for box in re.findall(r'font-weight="600" fill="#102030">([^<]*)<', text)}
    edges: Edges = {package: set() for package in packages}
    for title in re.findall(r"<title>([^<]*)</title></path>", text):
        start, end = ([side] if side == words else side.split(", ") for side in html.unescape(title).split(" -> "))
        for box in (start, end):
            for package in box:
                edges[package] |= set(box) - {package}
        edges[start[0]] |= set(end)
    return edges


@pytest.fixture(scope="module")
def imported(drawn: Edges) -> Edges:
    """What grimp, import-linter's own reader, finds."""
    words = next(package for package in drawn if ", " in package)

    def package_of(module: str) -> str:
        name = [*module.split("."), ""][1]
        return words if name in words.split(", ") else name

    graph = grimp.build_graph("wizard", cache_dir=None)
    edges: Edges = {}
    for module in graph.modules - {"wizard", "wizard.__main__"}:
        here = package_of(module)
        found = {package_of(other) for other in graph.find_modules_directly_imported_by(module)}
        edges.setdefault(here, set()).update(found - {here, ""})
    return edges


def test_every_package_is_in_the_picture(drawn: Edges, imported: Edges) -> None:
    assert set(drawn) == set(imported)


def test_an_arrow_leads_wherever_an_import_does_and_nowhere_else(drawn: Edges, imported: Edges) -> None:
    """If this fails: run scripts/generate_reference.py."""
    for package in imported:
        assert reach(drawn, package) - {package} == reach(imported, package) - {package}, package


def test_no_package_imports_what_imports_it(imported: Edges) -> None:
    assert [package for package in imported if package in reach(imported, package)] == []


def test_the_page_shows_the_picture() -> None:
    for name in ("architecture.md", "architecture.zh.md"):
        assert "../pictures/architecture.svg" in (ROOT / "docs" / "explanation" / name).read_text(encoding="utf-8")
