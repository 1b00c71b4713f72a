"""Measure endpoints: the same prompts to each, at each concurrency, interleaved; figures and what to doubt in them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from wizard.bench.figures import ClientLoad, Figures, compute_figures
from wizard.bench.prompts import Prompt, parse_prompts
from wizard.bench.render import render_table
from wizard.bench.samples import Sample, parse_sample
from wizard.bench.workloads import (
    Ask,
    Cache,
    Conversation,
    WorkloadOptions,
    plan_arrivals,
    plan_conversations,
    plan_warm_up,
)
from wizard.effects.streams import LoadResult, StreamJob, StreamLoad
from wizard.effects.world import World
from wizard.endpoint.model import Endpoint
from wizard.endpoint.requests import chat_request
from wizard.flows.endpoints import EndpointOptions, resolve_endpoint
from wizard.i18n import t
from wizard.problems import Fix, Problem, usage_error
from wizard.ui.screen import Screen

# With several targets each has its requests in this many turns, so that all see the same hour of a shared server.
_TURNS = 3


class Load(Protocol):
    """What sends requests; effects.streams.StreamLoad, or a test's own."""

    def run(
        self,
        chains: Sequence[Sequence[StreamJob]],
        concurrency: int,
        *,
        starts_s: Sequence[float] = (),
        done: Callable[[], None] | None = None,
    ) -> LoadResult:
        """Send all, `concurrency` chains at a time, or each at its time."""
        ...


@dataclass(frozen=True, slots=True)
class Measurement:
    """Figures, and the samples that they were made from."""

    figures: Figures
    samples: tuple[Sample, ...]


def measure(
    load: Load,
    endpoint: Endpoint,
    workload: WorkloadOptions,
    *,
    concurrency: int = 1,
    requests: int = 8,
    warm_up: int = 0,
    rate_per_s: float | None = None,
    name: str = "",
    done: Callable[[], None] | None = None,
) -> Measurement:
    """Measure one endpoint with one workload: `measure(StreamLoad(world.env), endpoint, WorkloadOptions(kind="agent",
    nonce=new_nonce()), concurrency=4, requests=40, warm_up=1).figures.time_to_first_token_ms.p50`.

    requests: all together (an agent's conversation is several). warm_up: requests before, in no figure. rate_per_s:
    instead of a fixed number at once, new conversations at random times with this mean (Poisson; seeded). done: called
    after each request. Same workload, same prompts: give each run a nonce of its own, or the server has them cached.
    Nothing that the server does raises; errors are counted in the figures.
    """
    workload = workload.fitted(endpoint.max_model_len)
    taken = _Taken()
    if warm_up:
        _send(load, endpoint, workload, plan_warm_up(workload, warm_up), concurrency=concurrency)
    conversations = plan_conversations(workload, requests)
    taken.add(_send(load, endpoint, workload, conversations, concurrency, rate_per_s=rate_per_s, done=done))
    figures = taken.figures(name or endpoint.name, concurrency, workload, rate_per_s)
    return Measurement(figures, tuple(taken.samples))


def new_nonce() -> str:
    """What makes a run's prompts unlike those of any run before."""
    return secrets.token_hex(4)


class _Taken:
    """Samples of one target at one load, from one turn or several."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.wall_s = 0.0
        self._busy_s = 0.0
        self._lag_ms = 0.0
        self._stamped = True

    def add(self, more: tuple[list[Sample], LoadResult]) -> None:
        """One more turn."""
        samples, result = more
        self.samples += samples
        self.wall_s += result.wall_s
        self._busy_s += result.client.cpu_cores * result.wall_s
        self._lag_ms = max(self._lag_ms, result.client.lag_ms)
        self._stamped = self._stamped and result.client.stamped

    def figures(self, name: str, concurrency: int, workload: WorkloadOptions, rate_per_s: float | None) -> Figures:
        """Of all turns together."""
        cores = self._busy_s / self.wall_s if self.wall_s else 0.0
        return compute_figures(
            name,
            concurrency,
            self.samples,
            self.wall_s,
            ClientLoad(cores, self._lag_ms, self._stamped),
            cache=workload.cache,
            rate_per_s=rate_per_s,
        )


def _send(
    load: Load,
    endpoint: Endpoint,
    workload: WorkloadOptions,
    conversations: Sequence[Conversation],
    concurrency: int,
    *,
    rate_per_s: float | None = None,
    done: Callable[[], None] | None = None,
) -> tuple[list[Sample], LoadResult]:
    target = chat_request(endpoint, stream=True)
    headers = (*target.headers, ("content-type", "application/json"), ("accept", "text/event-stream"))

    def job(ask: Ask) -> StreamJob:
        return StreamJob(target.url, headers, ask.body(endpoint.model, ignore_eos=workload.ignore_eos))

    chains = [[job(ask) for ask in conversation] for conversation in conversations]
    starts_s = plan_arrivals(len(chains), rate_per_s, workload.seed) if rate_per_s else ()
    result = load.run(chains, concurrency, starts_s=starts_s, done=done)
    asks = [ask for conversation in conversations for ask in conversation]
    samples = [
        parse_sample(record, max_tokens=ask.max_tokens, seen=ask.seen)
        for record, ask in zip(result.records, asks, strict=True)
    ]
    return samples, result


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What to measure. requests None: twice the concurrency, at least eight. cache: "cold" gives each request a
    beginning of its own; "warm" sends one prompt again and again. prompts_file: one prompt a line, in turn."""

    profiles: tuple[str, ...] = ()
    concurrency: tuple[int, ...] = (1, 4, 16)
    requests: int | None = None
    max_tokens: int = 128
    prompt_tokens: int = 256
    prompts_file: str = ""
    seed: int = 0
    cache: Cache = "cold"
    warmup: int = 1
    timeout_s: float = 300.0
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class BenchReport:
    """All figures in the order they were taken, the warm-up's time to first token by target, and problems."""

    figures: tuple[Figures, ...]
    warmup_ms: dict[str, float]
    problems: tuple[Problem, ...]

    def as_json(self, options: BenchOptions) -> dict[str, Any]:
        """The document of `bench --json`, without its schema_version."""
        worst = any(problem.severity == "error" for problem in self.problems)
        return {
            "status": "error" if worst else "warning" if self.problems else "ok",
            "settings": {
                "max_tokens": options.max_tokens,
                "prompt_tokens": None if options.prompts_file else options.prompt_tokens,
                "seed": options.seed,
                "cache": options.cache,
                "warmup_requests": options.warmup,
            },
            "results": [figures.as_json() for figures in self.figures],
            "warmup_time_to_first_token_ms": {name: round(value, 3) for name, value in self.warmup_ms.items()},
            "problems": [problem.as_json() for problem in self.problems],
        }


def run_bench(
    world: World, screen: Screen, given: EndpointOptions, options: BenchOptions, *, load: Load | None = None
) -> BenchReport:
    """Measure every target at every concurrency, and show it. Raises ProblemError for targets that are not known."""
    targets = _targets(world, screen, given, options)
    load = load or StreamLoad(world.env, timeout_s=options.timeout_s)
    workload = _workload(world, options)
    for _, endpoint in targets:
        workload = workload.fitted(endpoint.max_model_len)
    warmup_ms: dict[str, float] = {}
    problems: list[Problem] = []
    figures: list[Figures] = []
    for name, endpoint in targets:
        warm_up = plan_warm_up(workload, options.warmup)
        samples = _send(load, endpoint, workload, warm_up, 1)[0] if warm_up else []
        good = [sample for sample in samples if not sample.error]
        if good:
            warmup_ms[name] = good[0].time_to_first_token_s * 1000
    for concurrency in options.concurrency:
        figures += _measure(screen, load, targets, workload, options, concurrency)
    for one in figures:
        if one.errors:
            problems.append(_errors_problem(one))
    report = BenchReport(tuple(figures), warmup_ms, tuple(problems))
    if screen.as_json:
        screen.document(report.as_json(options))
    else:
        _show(screen, report, options)
    return report


def _workload(world: World, options: BenchOptions) -> WorkloadOptions:
    prompts = _read_prompts(world, options.prompts_file) if options.prompts_file else ()
    return WorkloadOptions(
        kind="file" if prompts else "random",
        prompt_tokens=(options.prompt_tokens, options.prompt_tokens),
        max_tokens=(options.max_tokens, options.max_tokens),
        prompts=prompts,
        cache=options.cache,
        seed=options.seed,
        nonce=new_nonce(),
        ignore_eos=options.ignore_eos,
    )


def _targets(
    world: World, screen: Screen, given: EndpointOptions, options: BenchOptions
) -> tuple[tuple[str, Endpoint], ...]:
    found: list[tuple[str, Endpoint]] = []
    for name in dict.fromkeys(options.profiles):
        # A profile brings its own key; one in the environment belongs to `--base-url`.
        found.append((name, resolve_endpoint(world, screen, EndpointOptions(profile=name, model=given.model))))
    if given.base_url or not found:
        endpoint = resolve_endpoint(world, screen, given)
        found.append((endpoint.openai_base_url if given.base_url else endpoint.name, endpoint))
    return tuple(found)


def _read_prompts(world: World, name: str) -> tuple[Prompt, ...]:
    """The user's own prompts; JSON lines where the file's name ends in .jsonl. Raises a usage problem."""
    raw = world.files.read_bytes(Path(name).expanduser())
    if raw is None:
        raise usage_error(
            "prompts-file-missing", t("There is no file of prompts `{path}`.", path=name), t("Check the path.")
        )
    try:
        prompts = parse_prompts(raw.decode("utf-8", "replace"), lines_of_json=name.lower().endswith(".jsonl"))
    except ValueError as error:
        raise usage_error(
            "prompts-file-malformed",
            t("Line {number} of `{path}` is no prompt.", number=str(error), path=name),
            t("A line of JSON is a text, or an object with `prompt` or `messages`."),
        ) from error
    if not prompts:
        raise usage_error(
            "prompts-file-empty", t("The file `{path}` has no prompt.", path=name), t("Write one prompt a line.")
        )
    return prompts


def _measure(
    screen: Screen,
    load: Load,
    targets: Sequence[tuple[str, Endpoint]],
    workload: WorkloadOptions,
    options: BenchOptions,
    concurrency: int,
) -> list[Figures]:
    count = options.requests or max(8, 2 * concurrency)
    conversations = plan_conversations(workload, count, part=str(concurrency))
    taken = {name: _Taken() for name, _ in targets}
    for numbers in _turns(len(conversations), concurrency, len(targets)):
        for name, endpoint in targets:
            chosen = [conversations[number] for number in numbers]
            taken[name].add(_send(load, endpoint, workload, chosen, concurrency))
            if screen.interactive and not screen.plain:
                screen.step("running", t("{target}, {count} at once", target=name, count=concurrency))
    return [taken[name].figures(name, concurrency, workload, None) for name, _ in targets]


def _turns(count: int, concurrency: int, targets: int) -> Iterator[range]:
    """One turn for a single target; several for more, none shorter than the concurrency."""
    turns = 1 if targets == 1 else max(1, min(_TURNS, count // max(1, concurrency)))
    for turn in range(turns):
        yield range(count * turn // turns, count * (turn + 1) // turns)


def _errors_problem(figures: Figures) -> Problem:
    problem = Problem(
        "bench-errors",
        t(
            "{errors} of {requests} requests to {target} failed, {count} at once.",
            errors=figures.errors,
            requests=figures.requests,
            target=figures.target,
            count=figures.concurrency,
        ),
        t("Failed requests are in no figure but their own count."),
        tuple(f"{count} x {kind}" for kind, count in figures.error_kinds[:5]),
        Fix(t("Find out why."), ("llm-setup doctor",)),
        severity="warning",
    )
    return replace(problem, severity="error") if figures.errors == figures.requests else problem


def _show(screen: Screen, report: BenchReport, options: BenchOptions) -> None:
    screen.title(
        t(
            "{tokens} tokens an answer at most, prefix cache {cache}, times in ms",
            tokens=options.max_tokens,
            cache=t("warm") if options.cache == "warm" else t("cold"),
        )
    )
    for line in render_table(report.figures):
        screen.line(f"  {line}")
    notes: dict[str, list[str]] = {}
    for figures in report.figures:
        for note in figures.notes:
            notes.setdefault(note, []).append(f"{figures.target} x {figures.concurrency}")
    for note, places in notes.items():
        screen.step("info", note, f"({', '.join(places)})")
    for problem in report.problems:
        screen.problem(problem)
