"""Measure endpoints: the same prompts to each, at each concurrency, interleaved; figures and what to doubt in them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from wizard.bench.figures import ClientLoad, Figures, compute_figures
from wizard.bench.prompts import cut_prompts, random_prompt
from wizard.bench.render import render_table
from wizard.bench.samples import Sample, parse_sample
from wizard.effects.streams import LoadResult, StreamJob, StreamLoad
from wizard.effects.world import World
from wizard.endpoint.model import Endpoint
from wizard.endpoint.requests import chat_request
from wizard.flows.endpoints import EndpointOptions, resolve_endpoint
from wizard.i18n import t
from wizard.problems import Fix, Problem, usage_error
from wizard.ui.screen import Screen

Cache = Literal["cold", "warm"]

# With several targets each has its requests in this many turns, so that all see the same hour of a shared server.
_TURNS = 3


class Load(Protocol):
    """What sends requests; effects.streams.StreamLoad, or a test's own."""

    def run(self, jobs: Sequence[StreamJob], concurrency: int) -> LoadResult:
        """Send all, `concurrency` at a time."""
        ...


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
    # In every run another, so that the server's prefix cache has not seen the prompts of the last one.
    nonce = "" if options.cache == "warm" else secrets.token_hex(4)
    prompts = _Prompts(world, options, nonce)
    warmup_ms: dict[str, float] = {}
    problems: list[Problem] = []
    figures: list[Figures] = []
    for name, endpoint in targets:
        samples = _warm_up(load, endpoint, prompts, options)
        good = [sample for sample in samples if not sample.error]
        if good:
            warmup_ms[name] = good[0].time_to_first_token_s * 1000
    for concurrency in options.concurrency:
        figures += _measure(screen, load, targets, prompts, options, concurrency)
    for one in figures:
        if one.errors:
            problems.append(_errors_problem(one))
    report = BenchReport(tuple(figures), warmup_ms, tuple(problems))
    if screen.as_json:
        screen.document(report.as_json(options))
    else:
        _show(screen, report, options)
    return report


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


class _Prompts:
    """Prompts without end; the n-th is the same for every target of a run."""

    def __init__(self, world: World, options: BenchOptions, nonce: str) -> None:
        self._options = options
        self._nonce = nonce
        self._given: tuple[str, ...] = ()
        if options.prompts_file:
            raw = world.files.read_bytes(Path(options.prompts_file).expanduser())
            if raw is None:
                raise usage_error(
                    "prompts-file-missing",
                    t("There is no file of prompts `{path}`.", path=options.prompts_file),
                    t("Check the path."),
                )
            self._given = cut_prompts(raw.decode("utf-8", "replace"))
            if not self._given:
                raise usage_error(
                    "prompts-file-empty",
                    t("The file `{path}` has no prompt.", path=options.prompts_file),
                    t("Write one prompt a line."),
                )

    def at(self, number: int) -> str:
        """The n-th prompt."""
        if self._options.cache == "warm":
            number = 0
        if self._given:
            text = self._given[number % len(self._given)]
            return f"[{self._nonce}-{number}] {text}" if self._nonce else text
        return random_prompt(f"{self._options.seed}-{self._nonce}-{number}", self._options.prompt_tokens)


def _job(endpoint: Endpoint, prompt: str, options: BenchOptions) -> StreamJob:
    extra: dict[str, Any] = {"temperature": 0}
    if options.ignore_eos:
        extra["ignore_eos"] = True
    request = chat_request(
        endpoint, [{"role": "user", "content": prompt}], stream=True, max_tokens=options.max_tokens, **extra
    )
    body = json.dumps(request.json_body, ensure_ascii=False, separators=(",", ":")).encode()
    headers = (*request.headers, ("content-type", "application/json"), ("accept", "text/event-stream"))
    return StreamJob(request.url, headers, body)


def _warm_up(load: Load, endpoint: Endpoint, prompts: _Prompts, options: BenchOptions) -> list[Sample]:
    """Requests that no figure counts: first-use compilation, connection pools, and the prefix cache where it is meant
    to be warm. Prompt 0 is the warm one; cold runs take theirs from where no measured request comes."""
    first = 0 if options.cache == "warm" else 10**9
    jobs = [_job(endpoint, prompts.at(first + number), options) for number in range(options.warmup)]
    return [parse_sample(record) for record in load.run(jobs, 1).records] if jobs else []


def _measure(
    screen: Screen,
    load: Load,
    targets: Sequence[tuple[str, Endpoint]],
    prompts: _Prompts,
    options: BenchOptions,
    concurrency: int,
) -> list[Figures]:
    count = options.requests or max(8, 2 * concurrency)
    samples: dict[str, list[Sample]] = {name: [] for name, _ in targets}
    wall: dict[str, float] = dict.fromkeys(samples, 0.0)
    busy: dict[str, float] = dict.fromkeys(samples, 0.0)
    lag: dict[str, float] = dict.fromkeys(samples, 0.0)
    for numbers in _turns(count, concurrency, len(targets)):
        for name, endpoint in targets:
            # A level's prompts are its own: the server has cached those of the level before.
            jobs = [_job(endpoint, prompts.at(concurrency * 10**6 + number), options) for number in numbers]
            result = load.run(jobs, concurrency)
            samples[name] += [parse_sample(record) for record in result.records]
            wall[name] += result.wall_s
            busy[name] += result.client.cpu_cores * result.wall_s
            lag[name] = max(lag[name], result.client.lag_ms)
            if screen.interactive and not screen.plain:
                screen.step("running", t("{target}, {count} at once", target=name, count=concurrency))
    return [
        compute_figures(
            name,
            concurrency,
            samples[name],
            wall[name],
            ClientLoad(busy[name] / wall[name] if wall[name] else 0.0, lag[name]),
        )
        for name, _ in targets
    ]


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
