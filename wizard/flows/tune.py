"""A measured search over vLLM's flags: start, ask, measure, stop; a kill loses no more than the trial that ran.

Each trial is a server of its own name and port. A server that the user runs is stopped only with their word, and
started again afterwards.
"""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wizard.bench.workloads import WorkloadOptions
from wizard.catalog.arguments import flag_value
from wizard.effects.ports import free_port
from wizard.effects.processes import terminated_as_interrupt
from wizard.effects.streams import StreamLoad
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpReply, HttpRequest
from wizard.endpoint.model import Endpoint
from wizard.endpoint.requests import chat_request
from wizard.flows.bench import Load, measure
from wizard.flows.download import ensure_model
from wizard.flows.live import LiveLine
from wizard.flows.plan import ModelSource, observe_model, plan_for
from wizard.flows.runtime import ensure_runtime, given_runtime
from wizard.flows.serve import LOOPBACK, ServerDiedError, server_died, start_server, stop_server
from wizard.flows.serve_model import Prepared, ServeAnswers, pins_of, prepare, prepare_dry
from wizard.flows.state import writable
from wizard.flows.tuned import settings_path
from wizard.hardware.machine import Machine
from wizard.i18n import t
from wizard.planning.evaluate import default_batch
from wizard.planning.intent import Intent, Pin
from wizard.planning.recommend import serving_gpus
from wizard.planning.versions import parse_version
from wizard.problems import Fix, Problem, ProblemError, usage_error
from wizard.serving.record import ServerRecord, check_name
from wizard.serving.record import parse_record as parse_server
from wizard.serving.runtime import Runtime
from wizard.serving.start import without_flags
from wizard.text import three_figures
from wizard.tuning import answers as greedy
from wizard.tuning.bought import Bought, render_bought, setting_text, warm_against_cold, what_was_bought
from wizard.tuning.goal import Goal
from wizard.tuning.search import Step, best_trial, clearly_worse, has_optimiser, next_step
from wizard.tuning.settings import Settings, parse_settings, pins_beside, render_settings, words_of
from wizard.tuning.space import (
    ALLOWANCES,
    Choice,
    Knob,
    Surroundings,
    arguments_of,
    knob_names,
    model_of,
    plan_space,
)
from wizard.tuning.trials import (
    Outcome,
    Record,
    Round,
    Trial,
    failed_share,
    identity_of,
    parse_record,
    round_of,
)
from wizard.ui.screen import Screen
from wizard.watching.reading import Snapshot, parse_snapshot, read_window

# More failed requests than this, and figures of the others tell little.
_MOST_FAILED = 0.05
_ASK_S = 120.0
_METRICS_S = 10.0


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How to search. requests None: a conversation of every user in each round. allow: what may change answers.
    only: knobs or flags to try; none: all. budget_s: over all runs of the same search. stop_running: the user's word.
    """

    goal: Goal = field(default_factory=Goal)
    workload: WorkloadOptions = field(default_factory=lambda: WorkloadOptions(kind="agent", ignore_eos=True))
    requests: int | None = None
    rounds: int = 3
    budget_s: float = 1800.0
    trials: int | None = None
    allow: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    fresh: bool = False
    stop_running: bool = False
    write: bool = True
    seed: int = 0

    @property
    def round_requests(self) -> int:
        """Requests of one round."""
        if self.requests:
            return self.requests
        return self.goal.users * (self.workload.turns if self.workload.kind == "agent" else 2)


@dataclass(frozen=True, slots=True)
class TuneReport:
    """What came of it. written: the settings' file; None where nothing is better than the plan, or nothing was to be
    written. command: what starts the best one."""

    record: Record
    goal: Goal
    best: Trial | None
    bought: tuple[Bought, ...]
    command: tuple[str, ...]
    written: Path | None = None
    backup: Path | None = None

    def as_json(self) -> dict[str, Any]:
        """The document of `tune --json`, without its schema_version."""
        return {
            "status": "ok" if self.best else "error",
            "goal": self.goal.text,
            "about": self.record.about,
            "finished": self.record.finished,
            "spent_s": round(self.record.spent_s, 1),
            "best": self.best.as_json() if self.best else None,
            "warm_against_cold": warm_against_cold(self.best.figures) if self.best else None,
            "bought": [row.as_json() for row in self.bought],
            "trials": [trial.as_json() for trial in self.record.trials],
            "command": list(self.command),
            "written": str(self.written) if self.written else None,
            "backup": str(self.backup) if self.backup else None,
        }


def tune(
    world: World,
    screen: Screen,
    look: Callable[[World], Machine],
    answers: ServeAnswers,
    options: TuneOptions,
    *,
    agree: Callable[[str], bool] | None = None,
    load: Load | None = None,
) -> TuneReport:
    """Search, show, and write what was found.

    answers: as for `serve`; its pins stay fixed, `extra` is where the search begins. look: observes the machine.
    agree: asks whether a running server may be stopped for the time. Raises ProblemError where the plan's own server
    does not start (nothing to compare with), or where a server of the user's would have to go and may not.
    """
    check_name(answers.name)
    _check_words(options)
    with terminated_as_interrupt(), _alone(world, answers.name):
        _clear_left_over(world, answers.name)
        machine = look(world)
        answers, record = _named(world, answers)
        runtime = ensure_runtime(world, screen, machine, vllm=answers.vllm, version=answers.vllm_version)
        with _others_out_of_the_way(world, screen, runtime.build, answers.name, options, agree) as stopped:
            # What is planned for the trials is planned for the memory that they have.
            machine = look(world) if stopped else machine
            answers, prepared = _prepared(world, screen, machine, answers, record, runtime)
            search = _Search(world, screen, machine, prepared, answers, options, load)
            search.run()
            report = search.report()
    report = _written(world, report, answers, prepared, options, search.knobs)
    if screen.as_json:
        screen.document(report.as_json())
    else:
        _show(screen, report, search.knobs)
    return report


def plan_tune(
    world: World, screen: Screen, machine: Machine, answers: ServeAnswers, options: TuneOptions
) -> tuple[Knob, ...]:
    """What would be tried, shown; nothing is started."""
    _check_words(options)
    answers, record = _named(world, answers)
    answers, prepared = _prepared(world, screen, machine, answers, record, None)
    knobs = _knobs(world, machine, prepared, answers, options)
    screen.title(t("Would measure, against {goal}", goal=options.goal.text))
    screen.line("  $ vllm serve " + shlex.join((prepared.model, *prepared.arguments)))
    for knob in knobs:
        values = ", ".join(choice.label for choice in knob.choices)
        screen.step("info", f"{knob.name}: {knob.now} -> {values}", knob.why)
    if screen.as_json:
        screen.document(
            {
                "status": "ok",
                "goal": options.goal.text,
                "model": prepared.model,
                "arguments": list(prepared.arguments),
                "knobs": [
                    {"name": knob.name, "now": knob.now, "choices": [choice.label for choice in knob.choices]}
                    for knob in knobs
                ],
            }
        )
    return knobs


def _named(world: World, answers: ServeAnswers) -> tuple[ServeAnswers, ServerRecord | None]:
    """The answers with their model: the one that is named, else that of the server of that name, whose record comes
    with it. A model that nobody knows is a problem, before any server is stopped for it."""
    answers = replace(answers, use_settings=False)
    record: ServerRecord | None = None
    if answers.model is None:
        # One that a killed run stopped is no less the one that is meant.
        owed = (one for one in _left_stopped(world) if one.name == answers.name)
        record = world.servers.load(answers.name) or next(owed, None)
    if record is not None:
        answers = replace(answers, model=record.model, vllm=answers.vllm or record.python)
    if answers.model is not None:
        observe_model(world, answers.model, ModelSource())
    return answers, record


def _prepared(
    world: World,
    screen: Screen,
    machine: Machine,
    answers: ServeAnswers,
    record: ServerRecord | None,
    runtime: Runtime | None,
) -> tuple[ServeAnswers, Prepared]:
    """What the search begins with: the plan of the model, or the flags of the server that is tuned. runtime None: only
    to be shown, so nothing is installed or fetched."""

    def made_ready(answers: ServeAnswers) -> Prepared:
        if runtime is None:
            return prepare_dry(world, screen, machine, answers)
        return prepare(world, screen, machine, answers, runtime=runtime)

    if record is None:
        return answers, made_ready(answers)
    given = pins_of(answers.extra)
    prepared = made_ready(replace(answers, extra=()))
    more = pins_beside(pins_of(record.arguments), pins_of(prepared.arguments))
    named = {pin.flag for pin in given}
    extra = (*(word for pin in more if pin.flag not in named for word in words_of(pin)), *answers.extra)
    arguments = (*without_flags(prepared.arguments, [pin.flag for pin in (*more, *given)]), *extra)
    return replace(answers, extra=extra), replace(prepared, arguments=arguments)


def record_path(world: World, name: str) -> Path:
    """Where a search of that name is kept."""
    return world.paths.state / "tune" / f"{name}.json"


def trial_name(name: str) -> str:
    """The name of the server that trials start."""
    return f"tune-{name}"[:64]


def _check_words(options: TuneOptions) -> None:
    for word in options.allow:
        if word not in ALLOWANCES:
            raise usage_error(
                "unknown-allowance",
                t("`--allow {word}` is not known.", word=word[:40]),
                t("Known: {names}.", names=", ".join(ALLOWANCES)),
            )


# --- the machine to oneself


@contextmanager
def _alone(world: World, name: str) -> Iterator[None]:
    """One search of a name at a time."""
    with writable(world.paths.servers), world.servers.changing(f"{name}.tuning", wait_s=0.0):
        yield


def _clear_left_over(world: World, name: str) -> None:
    """A run that was killed left its trial's server."""
    own = trial_name(name)
    if own in world.servers.names():
        stop_server(world, _quiet(), own)


def _quiet() -> Screen:
    return Screen(plain=True, out=io.StringIO(), err=io.StringIO(), env={})


@contextmanager
def _others_out_of_the_way(
    world: World,
    screen: Screen,
    build: str,
    name: str,
    options: TuneOptions,
    agree: Callable[[str], bool] | None,
) -> Iterator[tuple[ServerRecord, ...]]:
    """Stop the user's running servers where they said so, and start them again at the end, whatever happened."""
    kept = _stopped_path(world)
    running = (*_running(world, but=trial_name(name)), *_left_stopped(world))
    if not running:
        yield ()
        return
    names = ", ".join(f"`{record.name}`" for record in running)
    alive = any(world.servers.load(record.name) is not None for record in running)
    if alive and not options.stop_running and build == "cpu":
        # They share the processor, which makes figures worse for every trial alike, and harms nobody.
        screen.step("warning", t("{names} runs beside the trials: figures are lower than alone", names=names))
        yield ()
        return
    question = t("Stop {names} while tuning, and start it again afterwards?", names=names)
    if alive and not options.stop_running and not (agree and agree(question)):
        raise ProblemError(
            Problem(
                "tune-needs-the-gpu",
                t("{names} holds GPU memory that the trials need.", names=names),
                t("Two servers on one GPU get half of it each: what is measured so says nothing about one alone."),
                fix=Fix(
                    t("Let `tune` stop it for the time and start it again, or stop it yourself."),
                    ("llm-setup tune --stop-running", f"llm-setup stop {running[0].name}"),
                ),
            )
        )
    contained = [record.name for record in running if record.container]
    if contained:
        raise ProblemError(
            Problem(
                "tune-needs-the-gpu",
                t("{names} holds GPU memory that the trials need.", names=", ".join(f"`{name}`" for name in contained)),
                t("It runs in a container, which `tune` could not start again as it was."),
                fix=Fix(
                    t("Stop it yourself, and start it again afterwards."),
                    tuple(f"llm-setup stop {name}" for name in contained),
                ),
            )
        )
    # On disk first: a run that is killed owes them to the next one.
    with writable(kept.parent):
        world.files.write_private(kept, _owed(running))
    try:
        for record in running:
            if world.servers.load(record.name) is not None:
                stop_server(world, screen, record.name)
        yield running
    finally:
        owed = [record for record in running if not _start_again(world, screen, record)]
        if owed:
            with writable(kept.parent):
                world.files.write_private(kept, _owed(owed))
        else:
            world.files.remove(kept)


def _running(world: World, *, but: str) -> tuple[ServerRecord, ...]:
    found: list[ServerRecord] = []
    for name in world.servers.names():
        # A record that does not parse is no server that could be stopped; `status` tells of it.
        with suppress(ProblemError):
            record = world.servers.load(name)
            if record is not None and name != but and world.servers.life(record).alive:
                found.append(record)
    return tuple(found)


def _stopped_path(world: World) -> Path:
    """Where the servers are kept that are to be started again."""
    return world.paths.state / "tune" / "stopped.json"


def _owed(records: Sequence[ServerRecord]) -> bytes:
    return json.dumps([record.as_json() for record in records]).encode()


def _left_stopped(world: World) -> tuple[ServerRecord, ...]:
    """Servers that a run stopped which was killed before it could start them again, or could not."""
    try:
        records = [parse_server(row) for row in json.loads(world.files.read_bytes(_stopped_path(world)) or b"[]")]
    except (ValueError, TypeError):
        return ()
    names = world.servers.names()
    return tuple(record for record in records if record.name not in names)


def _start_again(world: World, screen: Screen, record: ServerRecord) -> bool:
    """Whether it runs again; why not is told."""
    try:
        start_server(
            world,
            screen,
            given_runtime(world, record.python),
            name=record.name,
            model=record.model,
            arguments=record.arguments,
            env=dict(record.environment),
            host=record.host,
            port=record.port,
        )
    except ProblemError as error:
        screen.problem(error.problem)
        return False
    return True


# --- the search


def _knobs(
    world: World, machine: Machine, prepared: Prepared, answers: ServeAnswers, options: TuneOptions
) -> tuple[Knob, ...]:
    # The plan knows the embedded model also where it is not fetched yet.
    model = prepared.plan.model if prepared.plan else prepared.model
    facts = observe_model(world, answers.model or model, ModelSource())
    gpus = serving_gpus(machine)
    first = gpus[0] if gpus else None
    version = prepared.runtime.vllm_version
    arguments = prepared.arguments
    tensor = int(flag_value(arguments, "--tensor-parallel-size") or 1)
    device = {"cpu": "cpu", "rocm": "rocm"}.get(prepared.runtime.build, "cuda")
    total = (first.memory_total_gib if first else None) or 0.0
    batch = default_batch(
        parse_version(version), "cpu" if device == "cpu" else "cuda", total, first.name if first else "", tensor
    )
    free = [gpu.memory_free_gib / gpu.memory_total_gib for gpu in gpus if gpu.memory_free_gib and gpu.memory_total_gib]
    length = _whole(arguments, "--max-model-len") or (prepared.plan.max_model_len if prepared.plan else 0)
    capability = (first.compute_capability or "").split(".") if first else []
    knobs = plan_space(
        Surroundings(
            version=version,
            device=device,
            arguments=arguments,
            batch=(
                _whole(arguments, "--max-num-batched-tokens") or batch[0],
                _whole(arguments, "--max-num-seqs") or batch[1],
            ),
            users=options.goal.users,
            gpus=len(gpus),
            heads=facts.attention_heads,
            draft_layers=facts.mtp_layers,
            capability=(int(capability[0]), int(capability[1])) if len(capability) == 2 else None,
            free_share=min(free) if free else None,
            max_model_len=length,
            pinned=tuple(pin.flag for pin in answers.pins),
            variants=_variants(prepared) if "quantization" in options.allow else (),
        ),
        allow=options.allow,
        only=options.only,
    )
    if options.only and not knobs:
        raise usage_error(
            "nothing-to-tune",
            t("Nothing of that can be tried here: {names}.", names=", ".join(options.only)),
            t("Known: {names}. A flag that is fixed by `--set`, or that this vLLM lacks, is not tried.",
              names=", ".join(knob_names())),
        )  # fmt: skip
    return knobs


def _variants(prepared: Prepared) -> tuple[tuple[str, str], ...]:
    from wizard.catalog.models import find_base_model

    entry = find_base_model(prepared.plan.model) if prepared.plan else None
    if entry is None:
        return ()
    return tuple((v.precision, v.model) for v in entry.variants if v.model.lower() != prepared.model.lower())


def _whole(arguments: Sequence[str], flag: str) -> int | None:
    text = flag_value(arguments, flag) or ""
    return int(text) if text.isdecimal() else None


class _Search:
    """One run of the search: what was tried before, and what is tried now."""

    def __init__(
        self,
        world: World,
        screen: Screen,
        machine: Machine,
        prepared: Prepared,
        answers: ServeAnswers,
        options: TuneOptions,
        load: Load | None,
    ) -> None:
        self._world = world
        self._screen = screen
        self._machine = machine
        self._prepared = prepared
        self._answers = answers
        self._options = options
        # Straight to the trial's server, as everything else that it is asked: no proxy is in the way to this machine.
        self._load = load or StreamLoad({})
        self._path = record_path(world, answers.name)
        self._live = LiveLine(world, screen)
        self.knobs = _knobs(world, machine, prepared, answers, options)
        self.record = self._begin()

    def _begin(self) -> Record:
        options, prepared = self._options, self._prepared
        workload = options.workload
        about: dict[str, Any] = {
            "model": prepared.model,
            "vllm_version": prepared.runtime.vllm_version,
            "build": prepared.runtime.build,
            "arguments": list(prepared.arguments),
            "machine": [gpu.name for gpu in serving_gpus(self._machine)] or [self._machine.cpu.name or ""],
            "users": options.goal.users,
            "workload": workload.kind,
            "prefix_tokens": workload.prefix_tokens if workload.kind == "agent" else None,
            "prompt_tokens": None if workload.kind == "agent" else list(workload.prompt_tokens),
            "max_tokens": list(workload.max_tokens),
            "prompts": identity_of({"p": repr(workload.prompts)}) if workload.prompts else None,
            "turns": workload.turns,
            "requests": options.round_requests,
            "rounds": options.rounds,
            "seed": options.seed,
        }
        identity = identity_of(about)
        before = parse_record(self._world.files.read_bytes(self._path))
        if before is not None and before.identity == identity and not options.fresh:
            if before.trials:
                text = t("go on with {n} trials that were done before", n=len(before.trials))
                self._screen.step("ok", text, str(self._path))
            if before.goal != options.goal.text:
                # What was clearly worse for another goal may be the best for this one.
                before = replace(before, trials=tuple(one for one in before.trials if one.outcome != "pruned"))
            return replace(before, goal=options.goal.text)
        if before is not None:
            kept = self._path.with_name(f"{self._path.name}.{_stamp(self._world)}")
            self._world.files.write_private(kept, before.render())
            self._screen.step("info", t("another search was kept here before; it is now"), str(kept))
        return Record(identity, about, goal=options.goal.text)

    def _save(self, record: Record) -> None:
        self.record = record
        with writable(self._path.parent):
            self._world.files.write_private(self._path, record.render())

    def run(self) -> None:
        """Trials until the budget, their number or the space is used up."""
        options = self._options
        self._screen.title(t("Tune for {goal}", goal=options.goal.text))
        while True:
            done = len(self.record.trials)
            if options.trials is not None and done >= options.trials:
                self._screen.step("info", t("{n} trials are done", n=done))
                return
            step = next_step(self.knobs, self.record.trials, options.goal, seed=options.seed)
            if step is None:
                self._save(replace(self.record, finished=True))
                if not has_optimiser():
                    text = t("combinations are searched further with Optuna: `pip install 'llm-setup[tune]'`")
                    self._screen.step("info", text)
                return
            if done and self.record.spent_s * (done + 1) / done > options.budget_s:
                self._screen.step(
                    "info",
                    t("the time is used up: {spent} of {budget} min", spent=f"{self.record.spent_s / 60:.1f}",
                      budget=f"{options.budget_s / 60:.1f}"),
                )  # fmt: skip
                return
            self._try(step)

    def _try(self, step: Step) -> None:
        text = setting_text(step.setting)
        number = len(self.record.trials) + 1
        self._live.show(t("trial {n}: {setting}: start", n=number, setting=text))
        begun = self._world.clock.monotonic_s()
        try:
            trial = self._run(step, number, text)
        finally:
            self._live.clear()
        trial = replace(trial, spent_s=self._world.clock.monotonic_s() - begun)
        self._save(self.record.with_trial(trial))
        self._say(trial, number)

    def _say(self, trial: Trial, number: int) -> None:
        figures = trial.figures
        head = t("trial {n}: {setting}", n=number, setting=setting_text(trial.setting))
        if trial.outcome in ("failed", "refused"):
            self._screen.step("failed", head, f"{trial.what} [{trial.code}]", trial.spent_s)
            return
        told = t(
            "first token {first} ms, {rate} tokens/s",
            first=three_figures(figures.get("ttft_p50_ms")),
            rate=three_figures(figures.get("tokens_per_s")),
        )
        if trial.outcome == "pruned":
            self._screen.step("skipped", head, t("{told}: clearly worse, ended early", told=told), trial.spent_s)
        elif trial.answers == "different":
            self._screen.step(
                "warning", head, t("{told}; {n} answers differ", told=told, n=len(trial.differs)), trial.spent_s
            )
        else:
            self._screen.step("ok", head, told, trial.spent_s)

    def _run(self, step: Step, number: int, text: str) -> Trial:
        base = self._prepared
        arguments = arguments_of(base.arguments, self.knobs, step.setting)
        model = model_of(base.model, self.knobs, step.setting)
        environment = tuple(sorted(base.env.items()))
        empty = Trial(step.setting, step.stage, "failed", arguments=arguments, model=model, environment=environment)
        refusal = self._foreseen(step)
        if refusal is not None:
            return replace(empty, outcome="refused", code=refusal.code, what=refusal.what)
        begun = self._world.clock.monotonic_s()
        name = trial_name(self._answers.name)
        variant = model != base.model
        try:
            place = ensure_model(self._world, self._screen, base.runtime, model) if variant else model
            record = self._start(name, place, arguments)
        except ProblemError as error:
            # A variant that cannot be fetched is no reason to end the search.
            if step.stage == "plan" or not (_of_the_server(error) or variant):
                raise
            return replace(empty, code=error.problem.code, what=error.problem.what)
        start_s = self._world.clock.monotonic_s() - begun
        try:
            trial = self._measured(replace(empty, start_s=start_s), record, number, text)
        finally:
            stop_server(self._world, _quiet(), name)
            left = self._world.secrets.forget(f"server-{name}")
            if left is not None:
                self._screen.step("warning", left.what)
        if step.stage == "plan" and trial.outcome == "failed":
            raise ProblemError(
                Problem(
                    trial.code,
                    trial.what,
                    t("Without figures of the plan's own server there is nothing to compare with."),
                    fix=Fix(t("Find out why."), ("llm-setup doctor",)),
                )
            )
        return trial

    def _start(self, name: str, model: str, arguments: tuple[str, ...]) -> ServerRecord:
        for again in (True, False):
            try:
                return start_server(
                    self._world,
                    _quiet(),
                    self._prepared.runtime,
                    name=name,
                    model=model,
                    arguments=arguments,
                    env=self._prepared.env,
                    host=LOOPBACK,
                    port=free_port(LOOPBACK),
                    weights_gib=self._prepared.weights_gib,
                    timeout_s=self._answers.timeout_s,
                    replace_running=True,
                )
            except ProblemError as error:
                # vLLM opens its port long after it was found free.
                if error.problem.code != "port-in-use" or not again:
                    raise
        raise AssertionError("the second attempt returns or raises")

    def _foreseen(self, step: Step) -> Problem | None:
        """Why the plan knows that this cannot start; None where it may."""
        if not step.setting or self._answers.model is None:
            return None
        words = [word for choice in self._choices(step) for word in choice.words]
        given = {pin.flag: pin for pin in (*self._answers.pins, *pins_of(self._answers.extra), *pins_of(tuple(words)))}
        intent = Intent(
            clients=self._answers.clients,
            context_tokens=self._answers.context_tokens,
            vllm_version=self._prepared.runtime.vllm_version,
            pins=tuple(given.values()),
        )
        model = model_of(self._answers.model, self.knobs, step.setting)
        try:
            plan = plan_for(self._world, model, machine=self._machine, intent=intent)
        except ProblemError as error:
            return error.problem
        return plan.problems[0] if plan.problems else None

    def _choices(self, step: Step) -> list[Choice]:
        chosen = dict(step.setting)
        found = [knob.choice(chosen[knob.name]) for knob in self.knobs if knob.name in chosen]
        return [choice for choice in found if choice is not None]

    def _measured(self, trial: Trial, record: ServerRecord, number: int, text: str) -> Trial:
        key = self._world.secrets.get(record.key_reference)
        endpoint = Endpoint(
            trial_name(self._answers.name), record.url + "/v1", None, record.served_name, key,
            max_model_len=record.max_model_len, kind="vllm",
        )  # fmt: skip
        given = self._ask(endpoint)
        rounds: list[Round] = []
        outcome: Outcome = "measured"
        for one in range(self._options.rounds):
            before = self._snapshot(record)
            figures = self._round(endpoint, one, number, text)
            rounds.append(figures | self._told_by_the_server(before, self._snapshot(record)))
            best = best_trial(self.record.trials, self._options.goal, self.knobs)
            if one == 0 and self._options.rounds > 1 and clearly_worse(rounds[0], best, self._options.goal):
                outcome = "pruned"
                break
            if failed_share(rounds) > _MOST_FAILED:
                break
        trial = replace(trial, rounds=tuple(rounds), outcome=outcome)
        if not self._world.processes.alive(record.pid, record.pid_started):
            problem = server_died(self._world, record).problem
            return replace(trial, outcome="failed", code=problem.code, what=problem.what)
        if failed_share(rounds) > _MOST_FAILED:
            what = t("{share} of its requests failed.", share=f"{failed_share(rounds):.0%}")
            return replace(trial, outcome="failed", code="bench-errors", what=what)
        return self._with_answers(trial, given, endpoint)

    def _snapshot(self, record: ServerRecord) -> Snapshot | None:
        reply = self._world.http.send(
            HttpRequest("GET", record.url + "/metrics", timeout_s=_METRICS_S, trust_env=False)
        )
        if not isinstance(reply, HttpReply) or reply.status != 200:
            return None
        found = parse_snapshot(reply.text, self._world.clock.monotonic_s())
        return found if found.has_metrics else None

    @staticmethod
    def _told_by_the_server(before: Snapshot | None, after: Snapshot | None) -> Round:
        """What its own counters say of a round: the share of prompt tokens found in the prefix cache, preemptions."""
        if before is None or after is None:
            return {}
        reading = read_window([before, after], 0.0)
        found: Round = {}
        if reading.prefix_hit_rate is not None:
            found["prefix_hit_rate"] = reading.prefix_hit_rate
        if reading.preemptions is not None:
            found["preemptions"] = float(reading.preemptions)
        return found

    def _round(self, endpoint: Endpoint, one: int, number: int, text: str) -> Round:
        options = self._options
        done = 0

        def count() -> None:
            nonlocal done
            done += 1
            share = (one + done / options.round_requests) / options.rounds
            self._live.show(t("trial {n}: {setting}: measure", n=number, setting=text), min(1.0, share))

        # The same prompts for every trial, which each meets with an empty cache; other ones in each round.
        workload = replace(options.workload, nonce=f"tune-{one}", seed=options.seed)
        measured = measure(
            self._load,
            endpoint,
            workload,
            concurrency=options.goal.users,
            requests=options.round_requests,
            warm_up=1 if one == 0 else 0,
            done=count,
        )
        return round_of(measured.figures)

    def _ask(self, endpoint: Endpoint) -> tuple[greedy.Answer | None, ...]:
        found: list[greedy.Answer | None] = []
        for question in greedy.QUESTIONS:
            body = greedy.answer_body(endpoint.model, question)
            request = chat_request(
                endpoint, body["messages"], max_tokens=body["max_tokens"], timeout_s=_ASK_S,
                temperature=0, logprobs=True, top_logprobs=2,
            )  # fmt: skip
            reply = self._world.http.send(replace(request, trust_env=False))
            ok = isinstance(reply, HttpReply) and reply.status == 200
            found.append(greedy.parse_answer(reply.json()) if ok and isinstance(reply, HttpReply) else None)
        return tuple(found)

    def _with_answers(self, trial: Trial, given: tuple[greedy.Answer | None, ...], endpoint: Endpoint) -> Trial:
        if trial.setting == ():
            # Asked again after the load, with a full cache: what changes now is not steady enough to judge others.
            reference = greedy.steady(given, self._ask(endpoint))
            self.record = replace(self.record, reference=greedy.render_answers(reference))
            return replace(trial, answers="same" if any(reference) else "unknown")
        reference_answers = greedy.parse_answers(self.record.reference)
        if reference_answers is None or len(reference_answers) != len(given):
            return trial
        differs = greedy.differing(reference_answers, given)
        if differs is None:
            return trial
        return replace(trial, answers="different" if differs else "same", differs=differs)

    def report(self) -> TuneReport:
        """What came of all trials."""
        goal = self._options.goal
        best = best_trial(self.record.trials, goal, self.knobs)
        rows = what_was_bought(self.record.trials, goal, self.knobs, best)
        self._save(replace(self.record, chosen=best.setting if best else None))
        return TuneReport(self.record, goal, best, rows, ())


def _of_the_server(error: ProblemError) -> bool:
    """Whether a start failed by the server's own doing, which a trial records, rather than by ours."""
    return isinstance(error, ServerDiedError) or error.problem.code == "server-start-stalled"


# --- the end


def _written(
    world: World,
    report: TuneReport,
    answers: ServeAnswers,
    prepared: Prepared,
    options: TuneOptions,
    knobs: Sequence[Knob],
) -> TuneReport:
    """The settings' file, where the best is not the plan as it stands."""
    best = report.best
    if best is None:
        return report
    chosen = dict(best.setting)
    words = [
        word
        for knob in knobs
        if knob.name in chosen and (choice := knob.choice(chosen[knob.name])) is not None
        for word in choice.words
    ]
    # What was found under another `--only` has no knob now, and its flags in its command.
    more = pins_beside(pins_of(best.arguments), pins_of(prepared.arguments))
    wanted = {pin.flag for pin in (*answers.pins, *pins_of(answers.extra), *pins_of(tuple(words)), *more)}
    pins = tuple(pin for pin in pins_of(best.arguments) if pin.flag in wanted)
    asked = best.model if best.model != prepared.model else answers.model
    model = () if asked is None else (asked,)
    name = ("--name", answers.name) if answers.name != ServeAnswers().name else ()
    report = replace(report, command=("llm-setup", "serve", *model, *name))
    if not options.write:
        return replace(report, command=(*report.command, *_as_options(pins)))
    path = settings_path(world, answers.name)
    if not pins:
        return replace(report, backup=_set_aside(world, path, _settings_model(world, best, answers, prepared)))
    note = t("Found by `llm-setup tune` on {date} for {goal}: {setting}.", date=f"{world.clock.now():%Y-%m-%d}",
             goal=report.goal.text, setting=setting_text(best.setting))  # fmt: skip
    content = render_settings(
        Settings(_settings_model(world, best, answers, prepared), prepared.runtime.vllm_version, pins, note)
    )
    before = world.files.read_bytes(path)
    backup: Path | None = None
    with writable(path.parent):
        if before is not None and before != content:
            backup = path.with_name(f"{path.name}.{_stamp(world)}")
            world.files.write_private(backup, before)
        if before != content:
            world.files.write_private(path, content)
    return replace(report, written=path, backup=backup)


def _set_aside(world: World, path: Path, model: str) -> Path | None:
    """Settings for the model that an earlier search wrote go where they are kept: the plan is better now, and `serve`
    would still take them. What is no settings' file, or is another model's, stays."""
    raw = world.files.read_bytes(path)
    try:
        if raw is None or parse_settings(raw).model != model:
            return None
    except ValueError:
        return None
    backup = path.with_name(f"{path.name}.{_stamp(world)}")
    with writable(path.parent):
        world.files.write_private(backup, raw)
        world.files.remove(path)
    return backup


def _settings_model(world: World, best: Trial, answers: ServeAnswers, prepared: Prepared) -> str:
    """The model as `serve` will be asked for it: a hub's id, or a folder's whole path."""
    if best.model != prepared.model or answers.model is None:
        return best.model
    folder = (world.cwd / Path(answers.model).expanduser()).absolute()
    return str(folder) if folder.is_dir() else answers.model


def _as_options(pins: Sequence[Pin]) -> tuple[str, ...]:
    return tuple(
        word
        for pin in pins
        for word in ("--set", pin.flag.removeprefix("--") + ("" if pin.value is None else f"={pin.value}"))
    )


def _stamp(world: World) -> str:
    return f"{world.clock.now():%Y-%m-%dT%H-%M-%S}"


def _show(screen: Screen, report: TuneReport, knobs: Sequence[Knob]) -> None:
    screen.title(t("What each setting bought"))
    for line in render_bought(report.bought):
        screen.line(f"  {line}")
    best = report.best
    if best is None:
        screen.step("failed", t("nothing could be measured"))
        return
    ratio = warm_against_cold(best.figures)
    if ratio is not None:
        screen.step(
            "info",
            t(
                "first token on the best server: {cold} ms for a beginning that is new, {warm} ms for one that it"
                " had: {ratio:.1f} times",
                cold=three_figures(best.figures["cold_p50_ms"]),
                warm=three_figures(best.figures["warm_p50_ms"]),
                ratio=ratio,
            ),
        )
    if report.goal.limits and report.goal.violation(best.figures) > 0:
        screen.step("warning", t("no setting reaches the target; this one comes nearest"), report.goal.text)
    why = {knob.name: knob.why for knob in knobs}
    for name, label in best.setting:
        screen.step("ok", f"{name} {label}", why.get(name, ""))
    if not best.setting:
        screen.step("ok", t("the plan stays: nothing that was tried is better beyond what rounds differ by"))
    if report.written:
        screen.step("ok", t("settings written; `serve` uses them for this name and model"), str(report.written))
    if report.backup:
        screen.step("info", t("those before are kept"), str(report.backup))
    screen.title(t("Next"))
    screen.line("  $ " + shlex.join(report.command))
