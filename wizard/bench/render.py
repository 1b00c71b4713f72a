"""Figures as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from wizard.bench.figures import Figures, Spread
from wizard.i18n import t
from wizard.text import display_width, pad, pad_left


def render_table(figures: Sequence[Figures]) -> tuple[str, ...]:
    """One line for each target and concurrency, columns aligned; a dash where there is nothing to tell."""
    head = (
        t("target"),
        t("at once"),
        t("requests"),
        t("errors"),
        t("first token p50"),
        t("p99"),
        t("between p50"),
        t("p99"),
        t("whole p50"),
        t("tokens/s"),
        t("requests/s"),
    )
    rows = [
        (
            one.target,
            str(one.concurrency),
            str(one.requests),
            str(one.errors),
            *_two(one.time_to_first_token_ms),
            *_two(one.inter_token_latency_ms),
            _number(one.end_to_end_ms.p50 if one.end_to_end_ms else None),
            _number(one.output_tokens_per_s),
            _number(one.requests_per_s),
        )
        for one in figures
    ]
    widths = [max(display_width(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return tuple(
        "  ".join(
            pad(cell, width) if column == 0 else pad_left(cell, width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    )


def _two(spread: Spread | None) -> tuple[str, str]:
    return (_number(spread.p50), _number(spread.p99)) if spread else ("-", "-")


def _number(value: float | None) -> str:
    """Three figures that mean something: 0.42, 7.31, 42.1, 1234."""
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"
