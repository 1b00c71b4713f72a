"""Figures as a picture: one SVG file without scripts or fonts of its own, readable on light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from wizard.bench.figures import Figures
from wizard.bench.render import cache_name
from wizard.i18n import t

# Okabe and Ito's colours, told apart by colour-blind readers, too.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_WIDTH, _PANEL, _LEFT, _TOP, _BOTTOM = 760, 250, 70, 40, 40
_LEGEND_LINE = 18

Value = Callable[[Figures], float | None]


def render_svg(figures: Sequence[Figures]) -> str:
    """Time to first token (median and 99th percentile) and throughput over the number at once, a line a target."""
    lines: dict[str, list[Figures]] = {}
    for one in figures:
        if one.time_to_first_token_ms:
            lines.setdefault(f"{one.target}{f' ({cache_name(one.cache)})' if one.cache else ''}", []).append(one)
    panels: tuple[tuple[str, tuple[tuple[str, Value], ...]], ...] = (
        (t("time to first token, ms (p50; dashed p99)"), (("", _first_token), ("5 4", _slow_first_token))),
        (t("tokens/s"), (("", lambda one: one.output_tokens_per_s),)),
    )
    height = len(panels) * _PANEL + _LEGEND_LINE * len(lines) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif"'
        f' font-size="12" role="img" aria-label="{escape(t("Benchmark"), quote=True)}">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (title, values) in enumerate(panels):
        parts += _panel(number * _PANEL, title, lines, values)
    for number, name in enumerate(lines):
        y = len(panels) * _PANEL + 14 + number * _LEGEND_LINE
        parts.append(f'<rect x="{_LEFT}" y="{y - 9}" width="14" height="10" fill="{_colour(number)}"/>')
        parts.append(f'<text x="{_LEFT + 20}" y="{y}" fill="#222222">{escape(name)}</text>')
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _first_token(one: Figures) -> float | None:
    return one.time_to_first_token_ms.p50 if one.time_to_first_token_ms else None


def _slow_first_token(one: Figures) -> float | None:
    return one.time_to_first_token_ms.p99 if one.time_to_first_token_ms else None


def _step(one: Figures) -> float:
    """Requests a second where a rate ruled, else how many at once."""
    return one.rate_per_s or float(one.concurrency)


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _panel(top: int, title: str, lines: dict[str, list[Figures]], values: tuple[tuple[str, Value], ...]) -> list[str]:
    steps = sorted({_step(one) for ladder in lines.values() for one in ladder})
    found = [value for ladder in lines.values() for one in ladder for _, of in values if (value := of(one)) is not None]
    most = _round_up(max(found, default=1.0))
    right, bottom = _WIDTH - 20, top + _PANEL - _BOTTOM

    def x(step: float) -> float:
        """Steps of a ladder grow by factors, so they stand at equal distances."""
        if len(steps) == 1:
            return (_LEFT + right) / 2
        return _LEFT + (right - _LEFT) * steps.index(step) / (len(steps) - 1)

    def y(value: float) -> float:
        return bottom - (bottom - top - _TOP) * value / most

    parts = [f'<text x="{_LEFT}" y="{top + 22}" font-weight="bold" fill="#222222">{escape(title)}</text>']
    for part in range(5):
        value = most * part / 4
        parts.append(
            f'<line x1="{_LEFT}" y1="{y(value):.1f}" x2="{right}" y2="{y(value):.1f}" stroke="#dddddd"/>'
            f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#444444">{value:g}</text>'
        )
    for step in steps:
        parts.append(f'<text x="{x(step):.1f}" y="{bottom + 18}" text-anchor="middle" fill="#444444">{step:g}</text>')
    for number, ladder in enumerate(lines.values()):
        for dash, of in values:
            points = [(x(_step(one)), y(value)) for one in ladder if (value := of(one)) is not None]
            path = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
            style = f'fill="none" stroke="{_colour(number)}" stroke-width="2"'
            parts.append(f'<polyline points="{path}" {style}{f""" stroke-dasharray="{dash}" """ if dash else ""}/>')
            parts += [
                f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3" fill="{_colour(number)}"/>' for across, down in points
            ]
    return parts


def _round_up(value: float) -> float:
    """To 1, 2, 4 or 8 times a power of ten, so that quarters of it are round."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 4, 8) if step * power >= value), 10 * power)
