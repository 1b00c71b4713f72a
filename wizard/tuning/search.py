"""What to try next: the plan, each change alone, what helped together, then an optimiser over all combinations.

The history of trials is the only state, so that a search goes on wherever it was interrupted.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from wizard.tuning.goal import Goal
from wizard.tuning.space import Knob, changes_answers
from wizard.tuning.trials import Round, Setting, Stage, Trial, setting_of

# A difference below this share is none, however steady the rounds were.
LEAST_GAIN = 0.03
# Of the best one's worth; less after a first round, and a trial is not worth its other rounds.
_CLEARLY_WORSE = 0.7
_CLEARLY_BEYOND = 0.3
_ASKS = 64


@dataclass(frozen=True, slots=True)
class Step:
    """The next trial."""

    setting: Setting
    stage: Stage


def next_step(knobs: Sequence[Knob], trials: Sequence[Trial], goal: Goal, *, seed: int = 0) -> Step | None:
    """The next trial, or None when all that is worth one had it. Without Optuna the last stage is left out."""
    tried = {trial.setting for trial in trials}
    if () not in tried:
        return Step((), "plan")
    plan = plan_trial(trials)
    if plan is None or plan.outcome != "measured":
        return None  # nothing to compare with
    for setting in _alone(knobs):
        if setting not in tried:
            return Step(setting, "alone")
    together = _together(knobs, trials, goal)
    if together and together not in tried:
        return Step(together, "together")
    found = suggest(knobs, trials, goal, seed=seed)
    return Step(found, "search") if found is not None else None


def plan_trial(trials: Sequence[Trial]) -> Trial | None:
    """The plan's own trial."""
    return next((trial for trial in trials if trial.setting == ()), None)


def _alone(knobs: Sequence[Knob]) -> list[Setting]:
    """Each choice by itself: the first of every knob, then the second ones."""
    longest = max((len(knob.choices) for knob in knobs), default=0)
    return [
        setting_of({knob.name: knob.choices[at].label})
        for at in range(longest)
        for knob in knobs
        if at < len(knob.choices)
    ]


def _together(knobs: Sequence[Knob], trials: Sequence[Trial], goal: Goal) -> Setting:
    """The best helpful choice of each knob; empty where fewer than two helped."""
    plan = plan_trial(trials)
    chosen: dict[str, str] = {}
    for knob in knobs:
        alone = [
            trial
            for trial in trials
            if len(trial.setting) == 1
            and trial.setting[0][0] == knob.name
            and plan
            and helped(trial, plan, goal, knobs)
        ]
        if alone:
            best = min(alone, key=lambda trial: goal.rank(trial.figures))
            chosen[knob.name] = best.setting[0][1]
    return setting_of(chosen) if len(chosen) > 1 else ()


def eligible(trial: Trial, knobs: Sequence[Knob]) -> bool:
    """Whether a trial may be chosen: measured to its end, with the plan's answers or with leave to change them."""
    return trial.outcome == "measured" and (trial.answers != "different" or changes_answers(knobs, trial.setting))


def noise(one: Trial, other: Trial, goal: Goal) -> float:
    """The share by which two trials must differ to be told apart."""
    return max(LEAST_GAIN, one.spread(goal.objective) + other.spread(goal.objective))


def helped(trial: Trial, plan: Trial, goal: Goal, knobs: Sequence[Knob]) -> bool:
    """Whether a trial is better than the plan by more than the rounds differ among themselves."""
    if not eligible(trial, knobs) or trial.setting == plan.setting:
        return False
    before, after = goal.violation(plan.figures), goal.violation(trial.figures)
    if after < before - LEAST_GAIN:
        return True
    return after <= before and goal.worth(trial.figures) > goal.worth(plan.figures) * (1 + noise(trial, plan, goal))


def best_trial(trials: Sequence[Trial], goal: Goal, knobs: Sequence[Knob]) -> Trial | None:
    """The one to take: the best that may be chosen, or of those that cannot be told from it the one with the fewest
    changes. None where none was measured."""
    able = [trial for trial in trials if eligible(trial, knobs)]
    if not able:
        return None
    top = min(able, key=lambda trial: goal.rank(trial.figures))
    limit = goal.violation(top.figures) + 1e-6
    near = [
        trial
        for trial in able
        if goal.violation(trial.figures) <= limit
        and goal.worth(trial.figures) >= goal.worth(top.figures) * (1 - noise(trial, top, goal))
    ]
    return min(near, key=lambda trial: (len(trial.setting), goal.rank(trial.figures)))


def clearly_worse(first: Round, best: Trial | None, goal: Goal) -> bool:
    """Whether a first round already tells that a setting is not the one."""
    if best is None:
        return False
    seen, held = goal.violation(first), goal.violation(best.figures)
    worth, best_worth = goal.worth(first), goal.worth(best.figures)
    if seen > held + _CLEARLY_BEYOND and worth <= best_worth * (1 + LEAST_GAIN):
        return True
    return seen >= held - 1e-6 and worth < best_worth * _CLEARLY_WORSE


def has_optimiser() -> bool:
    """Whether Optuna is installed."""
    from importlib.util import find_spec

    return find_spec("optuna") is not None


def suggest(knobs: Sequence[Knob], trials: Sequence[Trial], goal: Goal, *, seed: int = 0) -> Setting | None:
    """A combination that Optuna's TPE expects most of, given all trials; None without Optuna, when all were tried, or
    when it asks again and again for what was tried: it has found its best.

    The study is made anew from the history each time: the same history and seed give the same suggestion.
    """
    # Of a run with other knobs, only what these can express tells something about them.
    labels = {knob.name: {knob.now, *(choice.label for choice in knob.choices)} for knob in knobs}
    trials = [one for one in trials if all(label in labels.get(name, ()) for name, label in one.setting)]
    tried = {trial.setting for trial in trials}
    if not knobs or not has_optimiser() or len(tried) >= prod(len(knob.choices) + 1 for knob in knobs):
        return None
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space: dict[str, optuna.distributions.BaseDistribution] = {
        knob.name: optuna.distributions.CategoricalDistribution([knob.now, *(c.label for c in knob.choices)])
        for knob in knobs
    }
    plan = plan_trial(trials)
    scale = (goal.worth(plan.figures) if plan else 0.0) or 1.0
    with warnings.catch_warnings():
        # Optuna calls options experimental that it has had for years.
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.TPESampler(seed=seed + len(trials), multivariate=True, n_startup_trials=1)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for trial in trials:
            chosen = dict(trial.setting)
            params = {knob.name: chosen.get(knob.name, knob.now) for knob in knobs}
            study.add_trial(
                optuna.trial.create_trial(params=params, distributions=space, value=_value(trial, goal, scale, knobs))
            )
        for _ in range(_ASKS):
            asked = study.ask(space)
            setting = setting_of(
                {knob.name: asked.params[knob.name] for knob in knobs if asked.params[knob.name] != knob.now}
            )
            if setting not in tried:
                return setting
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
    return None


def _value(trial: Trial, goal: Goal, scale: float, knobs: Sequence[Knob]) -> float:
    """One number to make large: worth in units of the plan's, less what is beyond the limits. What cannot be chosen
    is worth nothing, so that the optimiser keeps away."""
    if trial.outcome in ("failed", "refused") or not trial.rounds:
        return -100.0
    value = goal.worth(trial.figures) / scale - 10 * goal.violation(trial.figures)
    if trial.answers == "different" and not changes_answers(knobs, trial.setting):
        return min(value, 0.0) - 10
    return value
