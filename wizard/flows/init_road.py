"""The road of `init` as a value: what was answered, what comes next, how one goes back. Touches nothing."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from wizard.i18n import t
from wizard.problems import usage_error

Answer = str | int | tuple[str, ...]
Source = Literal["running", "serve", "url", "gateway"]
Step = Literal[
    # questions
    "clients", "source", "gateway", "base-url", "key", "served-model", "model", "hub", "agree",
    # work
    "discover", "measure-hub", "plan", "serve", "connect", "prove", "apply", "verify", "finish",
]  # fmt: skip
SOURCES: tuple[Source, ...] = ("running", "serve", "url", "gateway")
# The model that is served where there is no GPU; a word, since it is a hub id only by accident.
EMBEDDED = "embedded"

# What an answers file may say: the kind of each value. A key is none of it.
FIELDS: dict[str, type] = {
    "clients": tuple,
    # Those whose files are written even where they cannot get an answer: named by `--client`, or ticked after that was
    # said.
    "clients_anyway": tuple,
    "source": str,
    "gateway": str,
    "base_url": str,
    "model": str,
    "hub": str,
    "context": int,
    "set": tuple,
    "vllm": str,
    "host": str,
    "port": int,
    "profile": str,
    "scope": str,
}
# Answers that are no question of their own and are remembered all the same, for a run that goes on later.
_KEPT_BESIDE = {"key": str, "agree": str}

# The order in which answers are given on the road.
_IN_ORDER = ("clients", "source", "gateway", "base_url", "key", "model", "hub", "context", "set", "agree")

_SERVING = ("source", "model", "hub", "context", "set", "vllm", "host", "port", "clients")
_PLACE = ("source", "gateway", "base_url")
_ELSEWHERE = (*_PLACE, "key")
# The answers on which a step's result rests: when one of them changes, the step is done anew.
_RESTS_ON: dict[Step, tuple[str, ...]] = {
    "measure-hub": ("source", "model"),
    "plan": _SERVING,
    "serve": (*_SERVING, "agree"),
    "discover": _ELSEWHERE,
    "connect": (*_ELSEWHERE, "model"),
    "prove": (*_SERVING, *_ELSEWHERE, "agree"),
    "apply": (*_SERVING, *_ELSEWHERE, "agree", "scope"),
    "verify": (*_SERVING, *_ELSEWHERE, "agree", "scope"),
}


@dataclass(frozen=True, slots=True)
class Road:
    """Where a run is.

    given: answers of flags and files, which are not asked. asked: answers of the user, in order; of several for one
    question the last counts, so that going back takes off the last. done: steps that were done, each with the answers
    that it rested on. slow_hub: the hub was measured, and a mirror is worth a question. assumed: answers that followed
    from others (the only model of an endpoint), forgotten when one of those is taken back.
    """

    given: Mapping[str, Answer] = field(default_factory=dict)
    asked: tuple[tuple[str, Answer], ...] = ()
    done: Mapping[Step, tuple[Answer | None, ...]] = field(default_factory=dict)
    slow_hub: bool = False
    assumed: Mapping[str, Answer] = field(default_factory=dict)

    def get(self, name: str) -> Answer | None:
        """The answer, None where there is none yet."""
        for asked, answer in reversed(self.asked):
            if asked == name:
                return answer
        return self.given.get(name, self.assumed.get(name))

    def text(self, name: str) -> str:
        """A text answer; empty where there is none."""
        found = self.get(name)
        return found if isinstance(found, str) else ""

    def number(self, name: str) -> int | None:
        """A number, None where there is none."""
        found = self.get(name)
        return found if isinstance(found, int) else None

    def words(self, name: str) -> tuple[str, ...]:
        """A list; empty where there is none."""
        found = self.get(name)
        return found if isinstance(found, tuple) else ()

    def answered(self, name: str, answer: Answer) -> Road:
        """With one more answer of the user."""
        return replace(self, asked=(*self.asked, (name, answer)))

    @property
    def can_go_back(self) -> bool:
        """Whether the user answered anything."""
        return bool(self.asked)

    def back(self) -> Road:
        """Without the last answer."""
        return replace(self, asked=self.asked[:-1], assumed={})

    def assuming(self, name: str, answer: Answer) -> Road:
        """With an answer that follows from the others."""
        return replace(self, assumed={**self.assumed, name: answer})

    def resumed(self, kept: Mapping[str, Answer]) -> Road:
        """With the answers of an earlier run behind those of this one, as if they had just been asked.

        What was answered for another place (its key above all) is no answer for this one, and what was agreed to is
        what was planned then.
        """
        changed = {name for name, answer in self.given.items() if kept.get(name) != answer}
        stale: tuple[str, ...] = ("agree",) if changed & {*_SERVING} else ()
        if changed & {*_PLACE}:
            stale = tuple(name for name in _IN_ORDER if name != "clients")
        fresh = {name: answer for name, answer in kept.items() if name not in self.given and name not in stale}
        beside = {name: answer for name, answer in fresh.items() if name not in _IN_ORDER}
        asked = tuple((name, fresh[name]) for name in _IN_ORDER if name in fresh)
        return replace(self, given={**beside, **self.given}, asked=asked)

    def reopened(self, *names: str) -> Road:
        """These questions are open again, whoever answered them: flags, too."""
        return replace(
            self,
            given={name: answer for name, answer in self.given.items() if name not in names},
            asked=tuple((name, answer) for name, answer in self.asked if name not in names),
            assumed={},
        )

    def did(self, step: Step) -> Road:
        """With a step done on the present answers."""
        return replace(self, done={**self.done, step: self._rests_on(step)})

    def undone(self, step: Step) -> Road:
        """The step is to be done again."""
        return replace(self, done={name: on for name, on in self.done.items() if name != step})

    def has_done(self, step: Step) -> bool:
        """Whether the step was done, and on these answers."""
        return self.done.get(step) == self._rests_on(step)

    def _rests_on(self, step: Step) -> tuple[Answer | None, ...]:
        return tuple(self.get(name) for name in _RESTS_ON[step])

    def kept(self) -> dict[str, Answer]:
        """All answers by name, as they are kept for later. The key is not among them, only that there is one."""
        names = {*self.given, *(name for name, _ in self.asked)}
        found = {name: self.get(name) for name in (*FIELDS, *_KEPT_BESIDE) if name in names}
        return {name: answer for name, answer in found.items() if answer is not None}


def next_step(road: Road) -> Step:
    """What comes next. Questions that answers have made needless are left out."""
    if road.get("clients") is None:
        return "clients"
    if not road.text("source"):
        return "source"
    ahead = _serve_here(road) if road.text("source") in ("serve", "running") else _elsewhere(road)
    if ahead:
        return ahead
    rest: tuple[Step, ...] = ("prove", "apply", "verify")
    return next((step for step in rest if not road.has_done(step)), "finish")


def _serve_here(road: Road) -> Step | None:
    if road.text("source") == "serve":
        if not road.text("model"):
            return "model"
        if not road.has_done("measure-hub"):
            return "measure-hub"
        if road.slow_hub and not road.text("hub"):
            return "hub"
        if not road.has_done("plan"):
            return "plan"
        if not road.text("agree"):
            return "agree"
    return None if road.has_done("serve") else "serve"


def _elsewhere(road: Road) -> Step | None:
    if road.text("source") == "gateway" and not road.text("gateway"):
        return "gateway"
    if not road.text("base_url"):
        return "base-url"
    if not road.text("key"):
        return "key"
    if not road.has_done("discover"):
        return "discover"
    if not road.text("model"):
        return "served-model"
    return None if road.has_done("connect") else "connect"


WayOut = Literal[
    "retry", "another-model", "change-flag", "smaller-context", "another-hub", "token", "another-url", "another-key",
    "gateway", "serve-here", "own-vllm", "other-clients", "leave",
]  # fmt: skip


def ways_out(road: Road, step: Step, code: str, *, has_vllm: bool = True) -> tuple[WayOut, ...]:
    """What can be done where a step failed, the most promising first. code: of the problem; has_vllm: one is here."""
    here = road.text("source") in ("serve", "running")
    ways: list[WayOut] = []
    if step == "apply":
        # The endpoint is proved; a file of a client is in the way.
        ways = ["retry", "other-clients"]
    elif here and not has_vllm and code in _INSTALL:
        # Neither a model nor a flag mends an install.
        ways = ["retry", "own-vllm", "gateway"]
    elif here:
        if code.startswith("hf-gated") or code == "hub-denied":
            ways += ["token"]
        elif code.startswith(("hub-", "hf-", "download")):
            ways += ["retry", "another-hub"]
        elif code in _TOO_LARGE:
            ways += ["smaller-context", "another-model", "change-flag"]
        ways += ["retry", "another-model"]
        if step in ("plan", "serve", "prove"):
            ways += ["change-flag"]
        ways += ["gateway"]
    else:
        if code.startswith("key-"):
            ways += ["another-key"]
        ways += ["retry", "another-url", "another-key"]
        if step in ("connect", "prove"):
            ways += ["another-model"]
        ways += ["gateway", "serve-here"]
    return (*dict.fromkeys(ways), "leave")


# What an install of vLLM fails of (serving/install_plan.py), as far as neither room nor rights are missing.
_INSTALL = (
    "install-failed", "install-busy", "venv-unavailable", "proxy-failed", "network-unreachable", "torch-cpu-missing",
    "package-not-found", "python-unsupported", "torch-wrong-build", "vllm-not-found", "runtime-unknown",
    "tls-untrusted-ca",
)  # fmt: skip
_TOO_LARGE = ("kv-cache-too-small", "cuda-oom", "cpu-memory-short", "max-model-len-above-model", "not-enough-ram")


def taken(road: Road, way: WayOut, step: Step) -> Road:
    """The road after a way out was chosen. What `smaller-context`, `change-flag`, `token` and `own-vllm` need is asked
    for by the caller."""
    if step == "prove":
        # What is proved may be gone: looking at it, or starting it, comes first.
        road = road.undone("serve").undone("discover").undone("connect")
    match way:
        case "retry" | "token" | "own-vllm":
            return road.undone(step)
        case "other-clients":
            return road.reopened("clients").undone(step)
        case "another-model":
            here = road.text("source") == "running"
            road = road.reopened("source").answered("source", "serve") if here else road
            return road.reopened("model", "agree", "set", "context").undone(step)
        case "another-hub":
            return replace(road.reopened("hub", "agree").undone(step), slow_hub=True)
        case "change-flag" | "smaller-context":
            return road.reopened("agree").undone(step)
        case "another-url":
            return road.reopened("base_url", "gateway", "key", "model").undone(step)
        case "another-key":
            return road.reopened("key").undone(step)
        case "gateway":
            return road.reopened(*_ELSEWHERE, "model", "agree").answered("source", "gateway").undone(step)
        case "serve-here":
            names = ("source", "gateway", "base_url", "key", "model")
            return road.reopened(*names).answered("source", "serve").undone(step)
        case "leave":
            return road


def parse_answers(text: str, name: str, *, kept: bool = False) -> dict[str, Answer]:
    """The answers of a file, TOML or JSON. name: the file, for what is wrong with it. kept: it is one of our own, of a
    run that was left.

    Raises a usage problem: it does not parse, or it has an answer that is none, a value of a wrong kind, or a key.
    """
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except ValueError as error:
        raise usage_error(
            "answers-broken",
            t("The answers in `{file}` do not parse.", file=name),
            t("It is TOML or JSON; `llm-setup init --save-answers FILE` writes one."),
            why=str(error),
        ) from error
    fields = FIELDS | _KEPT_BESIDE if kept else FIELDS
    return {key: _checked(key, value, name, fields.get(key)) for key, value in document.items()}


def _checked(key: str, value: object, name: str, kind: type | None) -> Answer:
    if kind is None:
        near = difflib.get_close_matches(key, FIELDS, n=1)
        fix = t("Did you mean `{near}`?", near=near[0]) if near else t("Answers: {names}.", names=", ".join(FIELDS))
        if key in ("key", "api_key", "token", "secret"):
            fix = t("A key stays out of such a file: give it as LLM_SETUP_API_KEY or `--api-key-file`.")
        raise usage_error(
            "answers-unknown", t("`{file}` answers `{name}`, which is not asked.", file=name, name=key), fix
        )
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        value = tuple(value)
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = {str: t("a text"), int: t("a whole number"), tuple: t("a list of texts")}
        raise usage_error(
            "answers-wrong",
            t("`{name}` in `{file}` is not {kind}.", name=key, file=name, kind=kinds[kind]),
            t("Example: {example}", example=_EXAMPLES[kind].format(key)),
        )
    if isinstance(value, int) and not 1 <= value <= _MOST.get(key, value):
        raise usage_error(
            "answers-wrong",
            t("`{name}` in `{file}` cannot be `{value}`.", name=key, file=name, value=value),
            t("Example: {example}", example=_EXAMPLES[int].format(key)),
        )
    allowed = _ALLOWED.get(key)
    if allowed and value not in allowed:
        near = difflib.get_close_matches(str(value), allowed, n=1)
        fix = (
            t("Did you mean `{near}`?", near=near[0]) if near else t("It is one of: {names}.", names=", ".join(allowed))
        )
        raise usage_error(
            "answers-wrong", t("`{name}` in `{file}` cannot be `{value}`.", name=key, file=name, value=value), fix
        )
    return cast(Answer, value)


_EXAMPLES = {str: '{} = "…"', int: "{} = 8000", tuple: '{} = ["…"]'}
_MOST = {"port": 65_535}
_ALLOWED: dict[str, tuple[str, ...]] = {"source": SOURCES, "scope": ("user", "project")}


def render_answers(answers: Mapping[str, Answer]) -> str:
    """TOML that parse_answers reads."""
    lines = []
    for name, answer in answers.items():
        value = list(answer) if isinstance(answer, tuple) else answer
        # JSON's texts, numbers and lists are TOML's, too, except for DEL.
        lines.append(f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f"))
    return "\n".join(lines) + "\n"


def check_road(road: Road) -> None:
    """Raise a usage problem for answers that do not go together."""
    source = road.text("source")
    other = next((name for name in ("base_url", "gateway") if road.text(name)), "")
    if source in ("serve", "running") and other:
        raise usage_error(
            "answers-contradict",
            t("A server here and an endpoint elsewhere were both asked for."),
            t("Leave `{flag}` out, or `--here`.", flag=f"--{other.replace('_', '-')}"),
        )
