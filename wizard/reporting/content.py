"""What a report says: values from what other parts found, ready for a template."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wizard.i18n import t
from wizard.planning.model import ServePlan
from wizard.planning.render import as_command, segments
from wizard.text import three_figures
from wizard.tuning.bought import setting_text
from wizard.tuning.trials import Trial


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and what it is."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a memory bar. share: of the whole, 0 to 100."""

    label: str
    gib: float
    share: float
    colour: str


@dataclass(frozen=True, slots=True)
class Table:
    """Heads and rows of text; marked: the number of a row to point out, -1 for none."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: int = -1


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a report. Whatever is empty is left out; command: a command line in full; absent: why there is
    nothing, with what to type."""

    id: str
    title: str
    lines: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    bars: tuple[Bar, ...] = ()
    bars_of: str = ""
    table: Table | None = None
    notes: tuple[str, ...] = ()
    command: str = ""
    absent: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report. made: when, UTC; version: of llm-setup."""

    title: str
    made: str
    version: str
    sections: tuple[Section, ...]


def machine_section(lines: Sequence[str], problems: Sequence[str]) -> Section:
    """The machine, as `hardware` shows it."""
    return Section("machine", t("Machine"), lines=tuple(line.rstrip() for line in lines), notes=tuple(problems))


def server_section(status: Mapping[str, Any]) -> Section:
    """A server, from its row of `status --json`."""
    usage, hits = status.get("kv_cache_usage"), status.get("prefix_cache_hit_rate")
    facts = [
        Fact(t("state"), str(status.get("state"))),
        Fact(t("model"), str(status.get("served_name"))),
        Fact(t("base URL"), str(status.get("base_url"))),
        Fact("vLLM", str(status.get("vllm_version"))),
        Fact(t("context"), t("{n} tokens", n=f"{status.get('max_model_len') or 0:,}")),
    ]
    if status.get("kv_cache_tokens"):
        facts.append(Fact(t("KV cache"), t("{n} tokens", n=f"{status['kv_cache_tokens']:,}")))
    if usage is not None:
        facts.append(Fact(t("KV cache used"), f"{usage:.1%}"))
    if hits is not None:
        facts.append(Fact(t("prefix hits"), f"{hits:.0%}"))
    return Section("server", t("Server"), facts=tuple(facts), notes=_some(status.get("last_error")))


def plan_section(plan: ServePlan) -> Section:
    """The plan: flags with reasons, the memory budget, the command."""
    memory = plan.memory
    parts = segments(memory)
    whole = sum(part.gib for part in parts) or 1.0
    facts = (
        Fact(t("model"), plan.model),
        Fact(t("context"), t("{n} tokens", n=f"{plan.max_model_len:,}")),
        Fact(t("KV cache"), t("{n} tokens", n=f"{memory.kv_tokens:,}")),
        Fact(t("full requests at once"), f"{memory.max_concurrency:.1f}"),
    )
    return Section(
        "plan",
        t("Plan"),
        facts=facts,
        bars=tuple(Bar(part.label, part.gib, 100 * part.gib / whole, part.colour) for part in parts),
        bars_of=t("GiB, measured") if memory.measured else t("GiB, estimated"),
        table=Table(
            (t("flag"), t("reason")),
            tuple((" ".join(flag.words), f"{flag.reason} {flag.cost}".strip()) for flag in plan.flags),
        ),
        notes=(*plan.warnings, *(problem.what for problem in plan.problems)),
        command=as_command(plan),
    )


def proof_section(steps: Sequence[Mapping[str, Any]]) -> Section:
    """The requests that were sent to prove the endpoint, from their JSON rows."""
    marks = {"ok": "✓", "warning": "!", "error": "✗"}
    rows = tuple(
        (
            marks.get(str(step["status"]), "?"),
            str(step["title"]),
            str(step.get("detail") or ""),
            f"{three_figures(float(step['duration_ms']))} ms",
        )
        for step in steps
    )
    return Section("proof", t("Proof"), table=Table(("", t("request"), t("answer"), t("time")), rows))


def bench_section(document: Mapping[str, Any]) -> Section:
    """Figures, verdicts and causes, from a `bench --json` document. Raises ValueError for what is none."""
    results = document.get("results")
    if not isinstance(results, list) or not all(isinstance(row, dict) and "target" in row for row in results):
        raise ValueError("no results")
    rows = tuple(
        (
            str(row["target"]),
            str(row.get("concurrency", "")),
            str(row.get("cache") or ""),
            str(row.get("requests", "")),
            str(row.get("errors", "")),
            _part(row, "time_to_first_token_ms", "p50"),
            _part(row, "time_to_first_token_ms", "p99"),
            _part(row, "inter_token_latency_ms", "p50"),
            _part(row, "end_to_end_ms", "p50"),
            three_figures(row.get("output_tokens_per_s")),
            three_figures(row.get("requests_per_s")),
        )
        for row in results
    )
    heads = (
        t("target"),
        t("at once"),
        t("prefix cache"),
        t("requests"),
        t("errors"),
        t("first token p50, ms"),
        t("p99"),
        t("between p50"),
        t("whole p50"),
        t("tokens/s"),
        t("requests/s"),
    )
    told: list[str] = [str(row["sentence"]) for row in _dicts(document, "verdicts") if row.get("sentence")]
    for row in _dicts(document, "explanations"):
        told.append(" ".join(str(row[key]) for key in ("what", "action") if row.get(key)))
    for row in results:
        told += [str(note) for note in row.get("notes") or ()]
    return Section("bench", t("Measured"), table=Table(heads, rows), notes=tuple(dict.fromkeys(told)))


def tune_section(goal: str, trials: Sequence[Trial], best: int, ratio: float | None, spent_s: float) -> Section:
    """The search over flags; best: the number of the best trial, -1 for none; ratio: cold by warm first token."""
    outcomes = {
        "measured": t("measured"),
        "pruned": t("worse, ended early"),
        "failed": t("failed"),
        "refused": t("does not fit"),
    }
    rows = tuple(
        (
            setting_text(trial.setting),
            three_figures(trial.figures.get("ttft_p50_ms")),
            three_figures(trial.figures.get("itl_p50_ms")),
            three_figures(trial.figures.get("tokens_per_s")),
            {"same": t("same"), "different": t("different")}.get(trial.answers, "-"),
            outcomes[trial.outcome] + (f" [{trial.code}]" if trial.code else ""),
        )
        for trial in trials
    )
    heads = (
        t("setting"),
        t("first token p50, ms"),
        t("between p50"),
        t("tokens/s"),
        t("answers"),
        t("outcome"),
    )
    facts = [
        Fact(t("wanted"), goal),
        Fact(t("trials"), str(len(trials))),
        Fact(t("time"), t("{n} min", n=f"{spent_s / 60:.0f}")),
    ]
    if ratio is not None:
        facts.append(Fact(t("first token, new beginning against known"), t("{n} times", n=f"{ratio:.1f}")))
    command = f"vllm serve {shlex.join((trials[best].model, *trials[best].arguments))}" if best >= 0 else ""
    return Section("tune", t("Tuned"), facts=tuple(facts), table=Table(heads, rows, best), command=command)


def absent_section(id_: str, title: str, why: str) -> Section:
    """A part that there is nothing of."""
    return Section(id_, title, absent=why)


def _part(row: Mapping[str, Any], quantity: str, part: str) -> str:
    spread = row.get(quantity)
    return three_figures(spread.get(part)) if isinstance(spread, dict) else "-"


def _dicts(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = document.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _some(text: object) -> tuple[str, ...]:
    return (str(text),) if text else ()
