"""What each flag bought: every change against the plan, as rows for a table and for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wizard.i18n import t
from wizard.text import display_width, pad, pad_left, three_figures
from wizard.tuning.goal import Goal
from wizard.tuning.search import helped, noise, plan_trial
from wizard.tuning.space import Knob, changes_answers
from wizard.tuning.trials import Round, Setting, Trial

Verdict = Literal["plan", "helps", "same", "worse", "different answers", "failed", "refused"]


@dataclass(frozen=True, slots=True)
class Bought:
    """One setting against the plan. Changes are shares: -0.5 is half. None: not measured."""

    setting: Setting
    verdict: Verdict
    figures: Round
    first_token_change: float | None = None
    throughput_change: float | None = None
    code: str = ""
    answers: str = ""
    chosen: bool = False

    def as_json(self) -> dict[str, Any]:
        """One row of `bought` in `tune --json`."""

        def rounded(value: float | None) -> float | None:
            return None if value is None else round(value, 4)

        return {
            "setting": dict(self.setting),
            "verdict": self.verdict,
            "time_to_first_token_ms_p50": rounded(self.figures.get("ttft_p50_ms")),
            "output_tokens_per_s": rounded(self.figures.get("tokens_per_s")),
            "first_token_change": rounded(self.first_token_change),
            "throughput_change": rounded(self.throughput_change),
            "answers": self.answers,
            "code": self.code or None,
            "chosen": self.chosen,
        }


def what_was_bought(
    trials: Sequence[Trial], goal: Goal, knobs: Sequence[Knob], best: Trial | None
) -> tuple[Bought, ...]:
    """A row for each trial, the plan's first."""
    plan = plan_trial(trials)
    return tuple(_row(trial, plan, goal, knobs, chosen=trial is best) for trial in trials)


def _row(trial: Trial, plan: Trial | None, goal: Goal, knobs: Sequence[Knob], *, chosen: bool) -> Bought:
    figures = trial.figures
    before = plan.figures if plan else {}
    return Bought(
        trial.setting,
        _verdict(trial, plan, goal, knobs),
        figures,
        _change(figures, before, "ttft_p50_ms") if trial.setting else None,
        _change(figures, before, "tokens_per_s") if trial.setting else None,
        trial.code,
        trial.answers,
        chosen,
    )


def _verdict(trial: Trial, plan: Trial | None, goal: Goal, knobs: Sequence[Knob]) -> Verdict:
    if trial.outcome in ("failed", "refused"):
        return "failed" if trial.outcome == "failed" else "refused"
    if trial.setting == ():
        return "plan"
    if trial.outcome == "pruned" or plan is None:
        return "worse"
    if trial.answers == "different" and not changes_answers(knobs, trial.setting):
        return "different answers"
    if helped(trial, plan, goal, knobs):
        return "helps"
    beyond = goal.violation(trial.figures) > goal.violation(plan.figures) + 0.03
    lower = goal.worth(trial.figures) < goal.worth(plan.figures) * (1 - noise(trial, plan, goal))
    return "worse" if beyond or lower else "same"


def _change(after: Round, before: Round, name: str) -> float | None:
    if name not in after or not before.get(name):
        return None
    return after[name] / before[name] - 1


def setting_text(setting: Setting) -> str:
    """`prefix-caching on, max-num-seqs 64`; the plan by its name."""
    return ", ".join(f"{name} {label}" for name, label in setting) or t("the plan")


def render_bought(rows: Sequence[Bought]) -> tuple[str, ...]:
    """A line for each setting, columns aligned; the chosen one is marked."""
    words = {
        "plan": t("to compare with"),
        "helps": t("helps"),
        "same": t("no difference"),
        "worse": t("worse"),
        "different answers": t("other answers: not taken"),
        "failed": t("failed"),
        "refused": t("does not fit"),
    }
    head = ("", t("setting"), t("first token p50"), "", t("tokens/s"), "", t("verdict"))
    cells = [
        (
            "*" if row.chosen else "",
            setting_text(row.setting),
            _ms(row.figures.get("ttft_p50_ms")),
            _percent(row.first_token_change),
            three_figures(row.figures.get("tokens_per_s")),
            _percent(row.throughput_change),
            words[row.verdict] + (f" [{row.code}]" if row.code else ""),
        )
        for row in rows
    ]
    widths = [max(display_width(line[at]) for line in (head, *cells)) for at in range(len(head))]
    return tuple(
        "  ".join(
            pad(cell, width) if at in (0, 1, 6) else pad_left(cell, width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (head, *cells)
    )


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{three_figures(value)} ms"


def _percent(change: float | None) -> str:
    return "" if change is None else f"{change:+.0%}"


def warm_against_cold(figures: Round) -> float | None:
    """How many times sooner the first token comes where the server had the beginning already; None if not measured."""
    cold, warm = figures.get("cold_p50_ms"), figures.get("warm_p50_ms")
    return cold / warm if cold and warm else None
