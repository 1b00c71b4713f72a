"""Readings as cells and lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wizard.i18n import t
from wizard.text import display_width, three_figures
from wizard.watching.gpus import GpuReading
from wizard.watching.histogram import Quantile
from wizard.watching.reading import Reading

NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Watched:
    """A server at one look: its reading, or why there is none."""

    name: str
    url: str
    reading: Reading | None
    error: str = ""


def server_columns() -> tuple[str, ...]:
    """The table's heads."""
    return (
        t("server"),
        t("running"),
        t("waiting"),
        t("KV used"),
        t("prefix hits"),
        t("tokens/s"),
        t("prompt tokens/s"),
        t("first token p50"),
        t("first token p99"),
        t("between p50"),
        t("between p99"),
    )


def server_cells(server: Watched) -> tuple[str, ...]:
    """One row, as server_columns; a server without a reading has only its error."""
    reading = server.reading
    if reading is None:
        return (server.name, server.error, *[""] * (len(server_columns()) - 2))
    return (
        server.name,
        _count(reading.load.requests_running),
        _count(reading.load.requests_waiting),
        _share(reading.load.kv_cache_usage),
        _share(reading.prefix_hit_rate),
        three_figures(reading.output_tokens_per_s),
        three_figures(reading.prompt_tokens_per_s),
        milliseconds(reading.percentile("time_to_first_token", 50)),
        milliseconds(reading.percentile("time_to_first_token", 99)),
        milliseconds(reading.percentile("inter_token_latency", 50)),
        milliseconds(reading.percentile("inter_token_latency", 99)),
    )


def table_of(servers: Sequence[Watched], columns: int) -> tuple[tuple[str, ...], ...]:
    """Rows of cells, the first row its heads: a server a row where the terminal is wide enough, else a column. Servers
    without a reading are left out."""
    rows = (server_columns(), *(server_cells(server) for server in servers if server.reading))
    width = sum(max(map(display_width, column)) + 3 for column in zip(*rows, strict=True))
    return rows if width <= columns else tuple(zip(*rows, strict=True))


def server_line(server: Watched) -> str:
    """One line without a table, for logs and screen readers."""
    if server.reading is None:
        return f"{server.name}: {server.error}"
    heads, cells = server_columns()[1:], server_cells(server)[1:]
    pairs = [f"{head} {cell}" for head, cell in zip(heads, cells, strict=True)]
    tail = "" if server.reading.window_s is not None else f" ({t('since its start')})"
    return f"{server.name}: {', '.join(pairs)}{tail}"


def gpu_line(gpu: GpuReading) -> str:
    """One GPU in a line."""
    parts = [f"GPU {gpu.index} {gpu.name}".rstrip()]
    if gpu.memory_used_gib is not None:
        total = "" if gpu.memory_total_gib is None else f" / {gpu.memory_total_gib:.1f}"
        parts.append(f"{gpu.memory_used_gib:.1f}{total} GiB")
    if gpu.power_w is not None:
        parts.append(f"{gpu.power_w:.0f} W")
    if gpu.utilization is not None:
        parts.append(t("busy {share}", share=f"{gpu.utilization:.0%}"))
    if gpu.temperature_c is not None:
        parts.append(f"{gpu.temperature_c} °C")
    return ", ".join(parts)


def notes(servers: Sequence[Watched]) -> tuple[str, ...]:
    """What to do about what is seen: waiting requests, a full cache, preemptions, restarts."""
    found: list[str] = []
    for server in servers:
        reading = server.reading
        if reading is None:
            continue
        usage, waiting = reading.load.kv_cache_usage, reading.load.requests_waiting
        if reading.restarts:
            found.append(t("{name} began anew {n} times while it was watched", name=server.name, n=reading.restarts))
        if reading.preemptions:
            found.append(
                t(
                    "{name}: {n} preemptions: the KV cache is too small for what runs at once",
                    name=server.name,
                    n=reading.preemptions,
                )
            )
        elif waiting and usage is not None and usage > 0.9:
            found.append(t("{name}: requests wait, and the KV cache is full", name=server.name))
        elif waiting and usage is not None and usage < 0.5:
            found.append(
                t("{name}: requests wait while the KV cache has room: `--max-num-seqs` is the limit", name=server.name)
            )
    return tuple(found)


def milliseconds(value: Quantile | None) -> str:
    """A percentile in ms; `>` where it lies beyond the last bucket."""
    if value is None:
        return NOTHING
    return f"{'>' if value.at_least else ''}{three_figures(value.value * 1000)} ms"


def _count(value: int | None) -> str:
    return NOTHING if value is None else str(value)


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0%}" if value >= 0.1 or value == 0 else f"{value:.1%}"
