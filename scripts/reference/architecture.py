"""The picture of the packages, drawn from the imports themselves: docs/pictures/architecture.svg.

An arrow is an import of some module of the lower package by one of the upper; one that follows from others is left out.
Packages that import each other share a box.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from xml.sax.saxutils import escape

import grimp

# Modules beside the packages that everything may import: one box.
WORDS = "problems, secret, text, i18n"
PURPOSES = {
    "cli": "a command: options in, an exit code out",
    "flows": "a journey: observe, decide, show, act",
    "effects": "HTTP, processes, files, drivers, keyring",
    "ui": "questions, screens, language",
    "planning": "machine and model to flags and memory",
    "hardware": "what a machine is",
    "catalog": "facts as rows with sources",
    "serving": "a server's life, deaths, exports",
    "endpoint": "the triple, URL forms, replies",
    "clients": "a client's files: read, render, merge",
    "doctor": "observations in, findings out",
    "bench": "samples in, figures out",
    "tuning": "a measured search over flags",
    "watching": "metrics in, readings out",
    "reporting": "figures in, a report out",
    WORDS: "values that everybody speaks in",
}
TOUCHES = ("effects", "ui")
BOX = (222, 18)
GAP = (30, 34)

Edges = dict[str, set[str]]
Box = tuple[str, ...]


def pages(say: Callable[[str], str]) -> dict[str, str]:
    """../pictures/architecture.svg."""
    return {"../pictures/architecture.svg": draw(package_imports())}


def package_imports() -> Edges:
    """Package -> the packages that it imports, from import-linter's own graph."""
    graph = grimp.build_graph("wizard", cache_dir=None)
    edges: Edges = {}
    for module in graph.modules:
        package = _package(module)
        if package is None:
            continue
        others = {_package(other) for other in graph.find_modules_directly_imported_by(module)}
        edges.setdefault(package, set()).update(other for other in others if other and other != package)
    return edges


def _package(module: str) -> str | None:
    parts = module.split(".")
    if len(parts) < 2 or parts[1] == "__main__":
        return None
    return WORDS if parts[1] in WORDS.split(", ") else parts[1]


def reduced(edges: Mapping[str, set[str]]) -> tuple[list[Box], dict[Box, set[Box]]]:
    """Boxes (packages that reach each other are one), and the arrows that do not follow from others."""
    reach = {package: _reach(edges, package) for package in edges}
    boxes = sorted(
        {
            tuple(sorted({package, *(other for other in edges if other in reach[package] and package in reach[other])}))
            for package in edges
        }
    )
    box_of = {package: box for box in boxes for package in box}
    arrows = {box: {box_of[other] for package in box for other in edges[package]} - {box} for box in boxes}
    beyond = {box: {box_of[other] for package in box for other in reach[package]} - {box} for box in boxes}
    return boxes, {
        box: {target for target in targets if not any(target in beyond[other] for other in targets - {target})}
        for box, targets in arrows.items()
    }


def _reach(edges: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    left = [start]
    while left:
        for other in edges.get(left.pop(), ()):
            if other not in found:
                found.add(other)
                left.append(other)
    return found


def draw(edges: Mapping[str, set[str]]) -> str:
    """The picture: rows from what imports to what is imported."""
    boxes, arrows = reduced(edges)
    rows = _rows(boxes, arrows)
    width = max(len(row) for row in rows) * (BOX[0] + GAP[0]) + GAP[0]
    place: dict[Box, tuple[float, float, float]] = {}
    top = float(GAP[0])
    for row in rows:
        height = max(_height(box) for box in row)
        left = (width - len(row) * BOX[0] - (len(row) - 1) * GAP[0]) / 2
        for box in row:
            place[box] = (left, top, _height(box))
            left += BOX[0] + GAP[0]
        top += height + GAP[1]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top - GAP[1] + GAP[0]:.0f}" '
        'font-family="system-ui, sans-serif" role="img">',
        "<title>Packages of llm-setup, and which imports which</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#607080"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for box, (left, box_top, height) in place.items():
        for target in sorted(arrows[box]):
            x, y, _ = place[target]
            start, end = (left + BOX[0] / 2, box_top + height), (x + BOX[0] / 2, y)
            middle = (start[1] + end[1]) / 2
            lines.append(
                f'<path d="M{start[0]:.0f} {start[1]:.0f}C{start[0]:.0f} {middle:.0f} {end[0]:.0f} {middle:.0f} '
                f'{end[0]:.0f} {end[1]:.0f}" fill="none" stroke="#607080" marker-end="url(#tip)">'
                f"<title>{escape(', '.join(box))} -> {escape(', '.join(target))}</title></path>"
            )
    for box, (left, box_top, height) in place.items():
        lines += _box(box, left, box_top, height)
    return "\n".join([*lines, "</svg>"])


def _rows(boxes: Iterable[Box], arrows: Mapping[Box, set[Box]]) -> list[list[Box]]:
    """Each box as near to what imports it as it can be; in a row, in the order of those."""
    above: dict[Box, list[Box]] = {box: [other for other in arrows if box in arrows[other]] for box in boxes}
    depth: dict[Box, int] = {}

    def deep(box: Box) -> int:
        if box not in depth:
            depth[box] = 1 + max((deep(other) for other in above[box]), default=-1)
        return depth[box]

    rows: list[list[Box]] = []
    where: dict[Box, float] = {}
    for _, group in itertools.groupby(sorted(boxes, key=lambda box: (deep(box), box)), key=deep):
        row = sorted(group, key=lambda box: (sum(where[o] for o in above[box]) / max(1, len(above[box])), box))
        where |= {box: number - (len(row) - 1) / 2 for number, box in enumerate(row)}
        rows.append(row)
    return rows


def _height(box: Box) -> float:
    return len(box) * 2 * BOX[1] + 8


def _box(box: Box, left: float, top: float, height: float) -> list[str]:
    fill = "#fdf0e0" if set(box) & set(TOUCHES) else "#eef2f6" if box in (("cli",), ("flows",)) else "#e8f4ec"
    lines = [
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{BOX[0]}" height="{height:.0f}" rx="6" fill="{fill}" '
        'stroke="#607080"/>'
    ]
    for number, package in enumerate(box):
        y = top + number * 2 * BOX[1] + 19
        x = left + BOX[0] / 2
        lines += [
            f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" font-size="13" font-weight="600" fill="#102030">'
            f"{escape(package)}</text>",
            f'<text x="{x:.0f}" y="{y + 16:.0f}" text-anchor="middle" font-size="9.5" fill="#405060">'
            f"{escape(PURPOSES[package])}</text>",
        ]
    return lines
