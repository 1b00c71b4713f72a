"""How a benchmark is shown: progress, the table and what it means, and files for others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wizard.bench.render import cache_name, place, render_chart, render_csv, render_markdown, render_table
from wizard.bench.svg import render_svg
from wizard.effects.world import World
from wizard.i18n import t
from wizard.problems import usage_error
from wizard.ui.screen import Screen

if TYPE_CHECKING:
    from wizard.bench.workloads import WorkloadOptions
    from wizard.flows.bench import BenchOptions, BenchReport

OUTPUT_KINDS = (".json", ".csv", ".md", ".svg")


class Progress(Protocol):
    """Told of each request that ended, and of what is going on."""

    def step(self) -> None:
        """One request more."""
        ...

    def say(self, what: str) -> None:
        """What is going on."""
        ...


class _Lines:
    """A line for each new thing; requests are not counted."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._said: set[str] = set()

    def step(self) -> None:
        """Nothing to show."""

    def say(self, what: str) -> None:
        """Once each: targets take turns."""
        if what not in self._said:
            self._said.add(what)
            self._screen.step("running", what)


class _Bar:
    """A bar that moves with the requests; drawn twice a second, to leave the processor to the measurement."""

    def __init__(self, screen: Screen, requests: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        console = Console(file=screen.people, no_color=not screen.colour)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.rich = RichProgress(*columns, console=console, transient=True, refresh_per_second=2)
        self._task = self.rich.add_task("", total=requests)

    def step(self) -> None:
        """One request more."""
        self.rich.advance(self._task)

    def say(self, what: str) -> None:
        """Beside the bar."""
        from rich.markup import escape

        self.rich.update(self._task, description=escape(what))


@contextmanager
def show_progress(screen: Screen, requests: int) -> Iterator[Progress]:
    """A bar on a terminal, lines elsewhere."""
    if not screen.interactive or screen.plain:
        yield _Lines(screen)
        return
    bar = _Bar(screen, requests)
    with bar.rich:
        yield bar


def check_outputs(world: World, outputs: Sequence[str]) -> None:
    """Before a long run: that each file's kind is known and its folder there. Raises a usage problem."""
    for name in outputs:
        path = _path(world, name)
        if path.suffix.lower() not in OUTPUT_KINDS:
            raise usage_error(
                "output-kind-unknown",
                t("`{path}` says not which kind of file it is.", path=name),
                t("Give it one of these endings: {kinds}.", kinds=", ".join(OUTPUT_KINDS)),
            )
        if not path.parent.is_dir():
            raise usage_error(
                "output-folder-missing",
                t("There is no folder `{path}`.", path=str(path.parent)),
                t("Make it, or choose another."),
            )


def write_outputs(world: World, outputs: Sequence[str], report: BenchReport, document: Mapping[str, Any]) -> None:
    """Each file in the kind of its ending."""
    for name in outputs:
        path = _path(world, name)
        kind = path.suffix.lower()
        if kind == ".json":
            text = json.dumps({"schema_version": 1, **document}, ensure_ascii=False, indent=2) + "\n"
        elif kind == ".csv":
            text = render_csv(report.figures)
        elif kind == ".svg":
            text = render_svg(report.figures)
        else:
            text = render_markdown(report.figures, _sentences(report))
        world.files.write_bytes(path, text.encode())


def _path(world: World, name: str) -> Path:
    return world.cwd / Path(name).expanduser()


def _sentences(report: BenchReport) -> list[str]:
    found = [verdict.sentence for verdict in report.verdicts]
    found += [f"{target}: {cause.what} {cause.action} {cause.gain}" for target, cause in report.causes]
    return found


def show_report(screen: Screen, report: BenchReport, options: BenchOptions, workload: WorkloadOptions) -> None:
    """The table, a chart, what one target is against another, why, and what to doubt."""
    screen.title(
        t("{tokens} tokens an answer at most, workload {workload}, times in ms",
          tokens=max(options.max_tokens), workload=workload.kind)
    )  # fmt: skip
    for line in render_table(report.figures, columns=screen.columns - 2):
        screen.line(f"  {line}")
    chart = render_chart(report.figures, symbols=screen.symbols, columns=screen.columns)
    if chart:
        screen.line()
    for line in chart:
        screen.line(f"  {line}")
    _show_cache(screen, report)
    _show_network(screen, report)
    _show_comparison(screen, report)
    _show_causes(screen, report)
    notes: dict[str, list[str]] = {}
    for figures in report.figures:
        for note in figures.notes:
            notes.setdefault(note, []).append(place(figures))
    for note, places in notes.items():
        screen.step("info", note, f"({', '.join(dict.fromkeys(places))})")
    for problem in report.problems:
        screen.problem(problem)
    for name in options.outputs:
        screen.step("ok", t("Written: {path}", path=name))


def _show_cache(screen: Screen, report: BenchReport) -> None:
    for figures in report.figures:
        cold, warm = figures.cold_first_token_ms, figures.warm_first_token_ms
        if cold and warm and warm.p50 > 0:
            screen.step(
                "info",
                t("{place}: first token {cold:.0f} ms of a new beginning, {warm:.0f} ms of one sent before"
                  " ({ratio:.1f} x)",
                  place=place(figures), cold=cold.p50, warm=warm.p50, ratio=cold.p50 / warm.p50),
            )  # fmt: skip


def _show_network(screen: Screen, report: BenchReport) -> None:
    for one in report.network:
        if one.empty_request_ms is None:
            continue
        opening = [value.p50 for value in (one.resolve_ms, one.connect_ms, one.tls_ms) if value]
        screen.step(
            "info",
            t("{target}: the way there takes {empty:.1f} ms of the first token ({share:.0%}); a new connection"
              " {opening:.1f} ms",
              target=one.target, empty=one.empty_request_ms.p50, share=one.share or 0.0, opening=sum(opening)),
        )  # fmt: skip


def _show_comparison(screen: Screen, report: BenchReport) -> None:
    if report.ratios:
        screen.title(t("Side by side"))
    names = {
        "time_to_first_token_ms": t("first token"),
        "time_per_output_token_ms": t("each token"),
        "end_to_end_ms": t("whole answer"),
        "output_tokens_per_s": t("tokens/s"),
    }
    for ratio in report.ratios:
        rate, at_once = ratio.load
        load = f"{rate:g}/s" if rate else f"x{at_once:g}"
        load += f" {cache_name(ratio.cache)}" if ratio.cache == "warm" else ""
        detail = "" if ratio.decided else t("no difference that this run can tell")
        screen.step(
            "info",
            t("{second} / {first}, {load}, {quantity}: {value:.2f} (95%: {low:.2f} to {high:.2f})",
              second=ratio.second, first=ratio.first, load=load, quantity=names[ratio.quantity],
              value=ratio.value, low=ratio.low, high=ratio.high),
            detail,
        )  # fmt: skip
    for figures, cost in report.costs:
        screen.step(
            "info", t("{place}: a million tokens of this workload cost {cost:.2f}", place=place(figures), cost=cost)
        )
    for verdict in report.verdicts:
        screen.step("ok" if verdict.best else "info", verdict.sentence)


def _show_causes(screen: Screen, report: BenchReport) -> None:
    if report.causes:
        screen.title(t("Why, and what would help"))
    for target, cause in report.causes:
        screen.step("info", f"{target}: {cause.what}")
        for line in cause.saw:
            screen.line(f"      {t('saw:')} {line}")
        screen.line(f"      {t('fix:')} {cause.action}")
        for flag in cause.flags:
            screen.line(f"           {flag}")
        screen.line(f"      {t('gain:')} {cause.gain}")
