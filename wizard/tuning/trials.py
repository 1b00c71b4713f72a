"""Trials and the record of a whole search: values, and their form in a file that survives a kill."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from wizard.bench.figures import Figures, Spread

Stage = Literal["plan", "alone", "together", "search"]
Outcome = Literal["measured", "pruned", "failed", "refused"]
Answers = Literal["same", "different", "unknown"]

# A setting: knob -> the label of the choice; a knob that is not in it is as in the plan.
Setting = tuple[tuple[str, str], ...]
Round = dict[str, float]


def setting_of(chosen: Mapping[str, str]) -> Setting:
    """A mapping as a setting, in one order."""
    return tuple(sorted(chosen.items()))


@dataclass(frozen=True, slots=True)
class Trial:
    """One start of a server and what it gave. rounds: figures of each round, equal amounts of work.

    outcome: "measured"; "pruned", clearly worse and ended early; "failed", the server died or its requests did, with
    the death's `code`; "refused", not started because the plan says that it does not fit. differs: prompts that got
    another answer than from the plan's server. spent_s: start, measuring and stop together.
    """

    setting: Setting
    stage: Stage
    outcome: Outcome
    rounds: tuple[Round, ...] = ()
    answers: Answers = "unknown"
    differs: tuple[str, ...] = ()
    code: str = ""
    what: str = ""
    start_s: float = 0.0
    spent_s: float = 0.0
    arguments: tuple[str, ...] = ()
    model: str = ""
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def figures(self) -> Round:
        """The median of each figure over the rounds."""
        names = dict.fromkeys(name for one in self.rounds for name in one)
        return {name: statistics.median(one[name] for one in self.rounds if name in one) for name in names}

    def spread(self, name: str) -> float:
        """Half of how far apart the rounds are in a figure, as a share of its median; 0 for a single round."""
        values = [one[name] for one in self.rounds if name in one]
        middle = statistics.median(values) if values else 0.0
        return (max(values) - min(values)) / 2 / middle if len(values) > 1 and middle else 0.0

    def as_json(self) -> dict[str, Any]:
        """For the record's file and `tune --json`."""
        return {
            "setting": dict(self.setting),
            "stage": self.stage,
            "outcome": self.outcome,
            "figures": {name: round(value, 3) for name, value in self.figures.items()},
            "rounds": [{name: round(value, 4) for name, value in one.items()} for one in self.rounds],
            "answers": self.answers,
            "differs": list(self.differs),
            "code": self.code or None,
            "what": self.what or None,
            "start_s": round(self.start_s, 2),
            "spent_s": round(self.spent_s, 2),
            "arguments": list(self.arguments),
            "model": self.model,
            "environment": dict(self.environment),
        }


def parse_trial(value: Mapping[str, Any]) -> Trial:
    """A trial of the file. Raises KeyError, TypeError or ValueError for what is none."""
    if value["outcome"] not in get_args(Outcome):
        raise ValueError(f"an outcome that is none: {value['outcome']}")
    return Trial(
        setting=setting_of({str(k): str(v) for k, v in value["setting"].items()}),
        stage=cast(Stage, str(value["stage"])),
        outcome=cast(Outcome, str(value["outcome"])),
        rounds=tuple({str(k): float(v) for k, v in one.items()} for one in value["rounds"]),
        answers=cast(Answers, str(value["answers"])),
        differs=tuple(str(word) for word in value.get("differs") or ()),
        code=str(value.get("code") or ""),
        what=str(value.get("what") or ""),
        start_s=float(value.get("start_s") or 0),
        spent_s=float(value.get("spent_s") or 0),
        arguments=tuple(str(word) for word in value.get("arguments") or ()),
        model=str(value.get("model") or ""),
        environment=tuple((str(k), str(v)) for k, v in (value.get("environment") or {}).items()),
    )


@dataclass(frozen=True, slots=True)
class Record:
    """A search so far. identity: what it is a search of; another one cannot go on from it. about: the same for people.

    reference: the plan's answers, as tuning.answers keeps them; None until they were asked. goal: the last run's, for
    people; chosen: the setting that it took, None before its end.
    """

    identity: str
    about: dict[str, Any]
    trials: tuple[Trial, ...] = ()
    reference: Any = None
    finished: bool = False
    goal: str = ""
    chosen: Setting | None = None

    @property
    def spent_s(self) -> float:
        """What all trials took, over all runs."""
        return sum(trial.spent_s for trial in self.trials)

    def tried(self) -> frozenset[Setting]:
        """The settings that had their trial; none gets a second one."""
        return frozenset(trial.setting for trial in self.trials)

    def with_trial(self, trial: Trial) -> Record:
        """One more."""
        return replace(self, trials=(*self.trials, trial), finished=False, chosen=None)

    def render(self) -> bytes:
        """The file's content."""
        document = {
            "schema_version": 1,
            "identity": self.identity,
            "about": self.about,
            "finished": self.finished,
            "goal": self.goal,
            "chosen": None if self.chosen is None else dict(self.chosen),
            "reference": self.reference,
            "trials": [trial.as_json() for trial in self.trials],
        }
        return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def parse_record(raw: bytes | None) -> Record | None:
    """The record in a file; None where there is none or it does not parse (a search can always begin anew)."""
    try:
        document = json.loads(raw or b"")
        return Record(
            identity=str(document["identity"]),
            about=dict(document["about"]),
            trials=tuple(parse_trial(row) for row in document["trials"]),
            reference=document.get("reference"),
            finished=bool(document.get("finished")),
            goal=str(document.get("goal") or ""),
            chosen=None if document.get("chosen") is None else setting_of(document["chosen"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def identity_of(about: Mapping[str, Any]) -> str:
    """A short name for what is searched: the same for the same questions, whatever their order."""
    text = json.dumps(about, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# What a round's figures are called, and where they are in bench's.
_SPREADS = (
    ("ttft", "time_to_first_token_ms"),
    ("itl", "inter_token_latency_ms"),
    ("tpot", "time_per_output_token_ms"),
    ("e2e", "end_to_end_ms"),
    ("cold", "cold_first_token_ms"),
    ("warm", "warm_first_token_ms"),
)


def round_of(figures: Figures) -> Round:
    """Bench's figures as a flat round: `ttft_p50_ms`, `tokens_per_s`, `cold_p50_ms`, `warm_p50_ms` and so on."""
    found: Round = {"requests": float(figures.requests), "errors": float(figures.errors)}
    for short, name in _SPREADS:
        spread: Spread | None = getattr(figures, name)
        if spread is not None:
            found |= {f"{short}_{part}_ms": float(getattr(spread, part)) for part in ("mean", "p50", "p90", "p99")}
    if figures.output_tokens_per_s is not None:
        found["tokens_per_s"] = figures.output_tokens_per_s
    if figures.requests_per_s is not None:
        found["requests_per_s"] = figures.requests_per_s
    if figures.prompt_tokens and figures.cached_tokens is not None:
        found["cached_share"] = figures.cached_tokens / figures.prompt_tokens
    return found


def failed_share(rounds: Sequence[Round]) -> float:
    """The share of requests that failed, 0 to 1."""
    requests = sum(one.get("requests", 0.0) for one in rounds)
    return sum(one.get("errors", 0.0) for one in rounds) / requests if requests else 0.0
