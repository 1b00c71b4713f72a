"""Figures as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from wizard.bench.figures import Figures, Spread
from wizard.i18n import t
from wizard.text import display_width, pad, pad_left, three_figures


def render_table(figures: Sequence[Figures], *, columns: int = 0) -> tuple[str, ...]:
    """One line for each target and concurrency, columns aligned; a dash where there is nothing to tell.

    columns: what the terminal holds; a wider table becomes two, of times and of counts. 0: as wide as it is.
    """
    head = (
        t("target"),
        t("at once"),
        t("cache"),
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
            f"{one.rate_per_s:g}/s" if one.rate_per_s else str(one.concurrency),
            cache_name(one.cache),
            str(one.requests),
            str(one.errors),
            *_two(one.time_to_first_token_ms),
            *_two(one.inter_token_latency_ms),
            three_figures(one.end_to_end_ms.p50 if one.end_to_end_ms else None),
            three_figures(one.output_tokens_per_s),
            three_figures(one.requests_per_s),
        )
        for one in figures
    ]
    whole = _aligned([head], rows)
    if not columns or max(map(display_width, whole)) <= columns:
        return whole
    parts = [_narrow(head, rows, of) for of in (_TIMES, _COUNTS)]
    return (*parts[0], "", *parts[1])


# Columns of the two tables that stand for one which the terminal does not hold.
_TIMES = (0, 1, 2, 5, 6, 7, 8, 9)
_COUNTS = (0, 1, 2, 3, 4, 10, 11)


def _narrow(head: Sequence[str], rows: Sequence[Sequence[str]], of: Sequence[int]) -> tuple[str, ...]:
    """Some of the columns, each heading over as many lines as it has words."""
    words = [head[column].split() for column in of]
    most = max(map(len, words))
    above = [["", *[""] * most, *one][-most:] for one in words]
    heads = [[one[line] for one in above] for line in range(most)]
    return _aligned(heads, [[row[column] for column in of] for row in rows])


def _aligned(heads: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    lines = [*heads, *rows]
    widths = [max(display_width(line[column]) for line in lines) for column in range(len(lines[0]))]
    return tuple(
        "  ".join(
            pad(cell, width) if column in (0, 2) else pad_left(cell, width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _two(spread: Spread | None) -> tuple[str, str]:
    return (three_figures(spread.p50), three_figures(spread.p99)) if spread else ("-", "-")


_BAR_COLUMNS = 40


def render_chart(figures: Sequence[Figures], *, symbols: bool = True, columns: int = 80) -> tuple[str, ...]:
    """Bars of the time to first token and of the throughput, one line a target and load; nothing for a single one."""
    shown = [one for one in figures if one.time_to_first_token_ms and one.output_tokens_per_s]
    if len(shown) < 2:
        return ()
    labels = [place(one) for one in shown]
    width = max(display_width(label) for label in labels)
    room = max(10, min(_BAR_COLUMNS, columns - width - 24))
    lines: list[str] = []
    for title, unit, values in (
        (
            t("first token p50"),
            "ms",
            [one.time_to_first_token_ms.p50 if one.time_to_first_token_ms else 0 for one in shown],
        ),
        (t("tokens/s"), "", [one.output_tokens_per_s or 0.0 for one in shown]),
    ):
        most = max(values) or 1.0
        lines.append(title)
        for label, value in zip(labels, values, strict=True):
            bar = _bar(value / most * room, symbols)
            lines.append(f"  {pad(label, width)}  {pad(bar, room)}  {three_figures(value)} {unit}".rstrip())
    return tuple(lines)


def _bar(length: float, symbols: bool) -> str:
    """Eighths of a column where the terminal has blocks; at least a trace."""
    if not symbols:
        return "#" * max(1, round(length))
    eighths = max(1, round(length * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def place(figures: Figures) -> str:
    """Which target and load the figures are of, as short as it can be."""
    load = f"{figures.rate_per_s:g}/s" if figures.rate_per_s else f"x{figures.concurrency}"
    return f"{figures.target} {load}{f' {cache_name(figures.cache)}' if figures.cache == 'warm' else ''}"


def cache_name(cache: str) -> str:
    """How the prefix cache was, for people."""
    return t("warm") if cache == "warm" else t("cold") if cache == "cold" else ""


_SPREADS = (
    "time_to_first_token_ms",
    "inter_token_latency_ms",
    "time_per_output_token_ms",
    "end_to_end_ms",
    "cold_time_to_first_token_ms",
    "warm_time_to_first_token_ms",
)
_SINGLE = (
    "target",
    "concurrency",
    "request_rate_per_s",
    "cache",
    "requests",
    "errors",
    "output_tokens_per_s",
    "requests_per_s",
    "output_tokens",
    "prompt_tokens",
    "cached_tokens",
    "tokens_from",
    "wall_s",
)


def render_csv(figures: Sequence[Figures]) -> str:
    """One line for each target and load; columns are named as in the JSON, percentiles as `NAME_p50`."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    parts = ("mean", "p50", "p90", "p99")
    writer.writerow([*_SINGLE, *(f"{name}_{part}" for name in _SPREADS for part in parts), "notes"])
    for one in figures:
        value = one.as_json()
        spreads = [(value[name] or {}).get(part, "") for name in _SPREADS for part in parts]
        single = ["" if value[name] is None else value[name] for name in _SINGLE]
        writer.writerow([*single, *spreads, " ".join(one.notes)])
    return out.getvalue()


def render_markdown(figures: Sequence[Figures], sentences: Sequence[str]) -> str:
    """A table for a page or a pull request, and sentences below it; times in ms."""
    head = (
        t("target"),
        t("at once"),
        t("cache"),
        t("requests"),
        t("errors"),
        t("first token mean / p50 / p90 / p99"),
        t("between tokens p50 / p99"),
        t("a token p50"),
        t("whole p50 / p99"),
        t("tokens/s"),
        t("requests/s"),
    )
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join(['---', *['---:'] * (len(head) - 1)])}|"]
    for one in figures:
        cells = (
            one.target.replace("|", "\\|"),
            f"{one.rate_per_s:g}/s" if one.rate_per_s else str(one.concurrency),
            cache_name(one.cache),
            str(one.requests),
            str(one.errors),
            _several(one.time_to_first_token_ms, "mean", "p50", "p90", "p99"),
            _several(one.inter_token_latency_ms, "p50", "p99"),
            _several(one.time_per_output_token_ms, "p50"),
            _several(one.end_to_end_ms, "p50", "p99"),
            three_figures(one.output_tokens_per_s),
            three_figures(one.requests_per_s),
        )
        lines.append(f"| {' | '.join(cells)} |")
    notes = dict.fromkeys(note for one in figures for note in one.notes)
    bullets = [f"- {text}" for text in (*sentences, *notes)]
    return "\n".join([*lines, *(["", *bullets] if bullets else [])]) + "\n"


def _several(spread: Spread | None, *parts: str) -> str:
    return " / ".join(three_figures(getattr(spread, part)) for part in parts) if spread else "-"
