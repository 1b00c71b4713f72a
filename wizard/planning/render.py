"""A plan as pictures and as text: the memory bar, the command, vLLM's configuration file, environment variables."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from wizard.i18n import t
from wizard.planning.model import Alternative, Memory, ServePlan

BAR_WIDTH = 60


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the bar. key: stable; fill, plain: its character with and without symbols; colour: of the SVG."""

    key: str
    label: str
    gib: float
    fill: str
    plain: str
    ansi: str
    colour: str


def segments(memory: Memory) -> tuple[Segment, ...]:
    """The parts of one GPU's memory (or of the RAM), from what others hold to what stays free."""
    parts = (
        Segment("others", t("held by others"), memory.used_by_others_gib, "▒", "x", "2", "#9ca3af"),
        Segment("weights", t("weights"), memory.weights_gib, "█", "W", "34", "#2563eb"),
        Segment("activation", t("activations"), memory.activation_gib, "▓", "A", "35", "#9333ea"),
        Segment("graphs", t("CUDA graphs"), memory.cuda_graph_gib, "▓", "G", "33", "#d97706"),
        Segment("other", t("libraries and buffers"), memory.other_gib, "▓", "o", "36", "#0891b2"),
        Segment("kv", t("context (KV cache)"), memory.kv_gib, "░", "K", "32", "#16a34a"),
    )
    used = sum(part.gib for part in parts)
    free = Segment("free", t("free"), max(0.0, memory.total_gib - used), "·", ".", "2", "#e5e7eb")
    return tuple(part for part in (*parts, free) if part.gib > 0.005)


def _shares(sizes: Sequence[float], width: int) -> list[int]:
    """Whole cells for each size, at least one, together `width`."""
    total = sum(sizes) or 1.0
    cells = [max(1, round(size / total * width)) for size in sizes]
    while sum(cells) > width and max(cells) > 1:
        cells[cells.index(max(cells))] -= 1
    while cells and sum(cells) < width:
        cells[cells.index(max(cells))] += 1
    return cells


def bar_cells(memory: Memory, width: int = BAR_WIDTH) -> tuple[tuple[Segment, int], ...]:
    """The segments with their widths in characters."""
    parts = segments(memory)
    return tuple(zip(parts, _shares([part.gib for part in parts], width), strict=True))


def bar_svg(plan: ServePlan) -> str:
    """The bar as SVG, for documents: a title, one rectangle a part, and a legend with GiB. Readable without colours."""
    memory = plan.memory
    parts = segments(memory)
    width, height, left = 720, 34, 20
    total = sum(part.gib for part in parts) or 1.0
    x = float(left)
    shapes, legend = [], []
    for at, part in enumerate(parts):
        wide = part.gib / total * width
        label = escape(f"{part.label}: {part.gib:.2f} GiB")
        shapes.append(
            f'<rect x="{x:.1f}" y="40" width="{wide:.1f}" height="{height}" fill="{part.colour}" stroke="#ffffff">'
            f"<title>{label}</title></rect>"
        )
        x += wide
        column, row = at % 3, at // 3
        legend_x, legend_y = left + column * 240, 100 + row * 22
        legend.append(
            f'<rect x="{legend_x}" y="{legend_y - 11}" width="12" height="12" fill="{part.colour}" stroke="#6b7280"/>'
            f'<text x="{legend_x + 18}" y="{legend_y}">{label}</text>'
        )
    lines = 100 + ((len(parts) + 2) // 3) * 22
    title = escape(
        t(
            "{model}, vLLM {version}: {total:.1f} GiB",
            model=plan.model,
            version=plan.vllm_version,
            total=memory.total_gib,
        )
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2 * left} {lines}" role="img" '
        f'aria-label="{title}" font-family="system-ui, sans-serif" font-size="13">\n'
        f'<text x="{left}" y="24" font-size="15">{title}</text>\n' + "\n".join([*shapes, *legend]) + "\n</svg>\n"
    )


def as_command(plan: ServePlan, way: Alternative | None = None) -> str:
    """Shell text that starts the server; variables first, one flag a line. way: another way of the plan's instead."""
    head = [f"{name}={shlex.quote(value)}" for name, value in sorted(plan.env.items())]
    if way is None:
        words, flags = [plan.serve_as], [list(flag.words) for flag in plan.flags]
    else:
        words, flags = list(way.command[2:3]), []
        for word in way.command[3:]:
            if word.startswith("--") or not flags:
                flags.append([])
            flags[-1].append(word)
    lines = [" ".join([*head, "vllm", "serve", *map(shlex.quote, words)]), *map(shlex.join, flags)]
    return " \\\n  ".join(lines)


_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def as_yaml(plan: ServePlan) -> str:
    """A file for `vllm serve --config FILE`, each flag with its reason."""
    lines = [
        f"# vLLM {plan.vllm_version}. vllm serve --config FILE",
        f"model: {json.dumps(plan.serve_as, ensure_ascii=False)}",
    ]
    for name, value in sorted(plan.env.items()):
        lines.insert(1, f"# needs {name}={value}")
    for flag in plan.flags:
        value = "true" if flag.value is None else flag.value
        if len(flag.values) > 1:
            value = json.dumps(flag.values, ensure_ascii=False)
        elif flag.value is not None and not _PLAIN_NUMBER.fullmatch(flag.value):
            value = json.dumps(flag.values[0], ensure_ascii=False)
        lines.append(f"{flag.flag.removeprefix('--')}: {value}  # {flag.reason}")
    return "\n".join(lines) + "\n"


def as_env(plan: ServePlan) -> str:
    """Variables for a unit or compose file: vLLM's own, the model, the name that clients use, and the arguments."""
    values = {
        **plan.env,
        "VLLM_MODEL": plan.serve_as,
        "VLLM_SERVED_NAME": plan.served_name,
        "VLLM_ARGUMENTS": shlex.join(plan.arguments),
    }
    return "".join(f"{name}={json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())
