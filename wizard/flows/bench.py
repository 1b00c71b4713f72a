"""Measure endpoints: the same prompts to each, at each concurrency, interleaved; figures and what to doubt in them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from wizard.bench.compare import (
    Price,
    Ratio,
    Taken,
    Verdict,
    compute_ratios,
    cost_per_million_tokens,
    judge_targets,
    load_of,
)
from wizard.bench.explain import Cause, PrefixProbe, ServerView, explain
from wizard.bench.figures import ClientLoad, Figures, compute_figures
from wizard.bench.network import Network, Reach, compute_network
from wizard.bench.prompts import Prompt, parse_prompts
from wizard.bench.samples import NO_CONNECTION, Sample, StreamRecord, parse_sample, peak_in_flight
from wizard.bench.workloads import (
    Cache,
    Conversation,
    WorkloadKind,
    WorkloadOptions,
    plan_arrivals,
    plan_conversations,
    plan_warm_up,
    shared_tokens,
)
from wizard.effects.streams import LoadResult, StreamJob, StreamLoad
from wizard.effects.world import World
from wizard.endpoint.model import Endpoint
from wizard.endpoint.requests import chat_request
from wizard.flows.bench_server import ServerEyes
from wizard.flows.bench_show import Progress, check_outputs, show_progress, show_report, write_outputs
from wizard.flows.endpoints import EndpointOptions, resolve_endpoint
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, usage_error
from wizard.ui.screen import Screen

# With several targets each has its requests in this many turns, so that all see the same hour of a shared server.
_TURNS = 3
_REACHES = 5
_SECONDS_AT_A_RATE = 20
# Below this share of hits the prefix cache is looked into.
_FEW_HITS = 0.2


class Load(Protocol):
    """What sends requests; effects.streams.StreamLoad, or a test's own."""

    def run(
        self,
        chains: Sequence[Sequence[StreamJob]],
        concurrency: int,
        take: Callable[[int, StreamRecord], None],
        *,
        starts_s: Sequence[float] = (),
        done: Callable[[], None] | None = None,
    ) -> LoadResult:
        """Send all, `concurrency` chains at a time, or each at its time; `take` gets what came of each."""
        ...


class ReachingLoad(Load, Protocol):
    """One that can also tell what the way to a server takes."""

    def reach(self, job: StreamJob, times: int) -> tuple[Reach, ...]:
        """Fresh connections, one by one."""
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
        _send(load, endpoint, workload, plan_warm_up(workload, warm_up, used=requests), concurrency)
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


def _empty_job(endpoint: Endpoint) -> StreamJob:
    """A request that a server refuses before it asks its model for anything."""
    target = chat_request(endpoint, stream=True)
    headers = (*target.headers, ("content-type", "application/json"), ("accept", "text/event-stream"))
    return StreamJob(target.url, headers, b"{}")


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
    empty = _empty_job(endpoint)
    chains = [
        [replace(empty, body=ask.body(endpoint.model, ignore_eos=workload.ignore_eos)) for ask in conversation]
        for conversation in conversations
    ]
    starts_s = plan_arrivals(len(chains), rate_per_s, workload.seed) if rate_per_s else ()
    asks = [ask for conversation in conversations for ask in conversation]
    samples: dict[int, Sample] = {}

    def take(number: int, record: StreamRecord) -> None:
        samples[number] = parse_sample(record, max_tokens=asks[number].max_tokens, seen=asks[number].seen)

    result = load.run(chains, concurrency, take, starts_s=starts_s, done=done)
    return [samples[number] for number in range(len(asks))], result


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What to measure. requests None: twice the concurrency, at least eight; at a rate, 20 seconds of it. workload
    empty: "file" with a file of prompts, else "random". caches: see WorkloadOptions; each is measured by itself.
    rates: conversations a second, instead of fixed numbers at once. prices: by target. outputs: files to write, their
    kind by their ending."""

    profiles: tuple[str, ...] = ()
    concurrency: tuple[int, ...] = (1, 4, 16)
    rates: tuple[float, ...] = ()
    requests: int | None = None
    workload: WorkloadKind | Literal[""] = ""
    max_tokens: tuple[int, int] = (128, 128)
    prompt_tokens: tuple[int, int] = (256, 256)
    prompts_file: str = ""
    caches: tuple[Cache, ...] = ("cold",)
    prices: tuple[tuple[str, Price], ...] = ()
    outputs: tuple[str, ...] = ()
    seed: int = 0
    warmup: int = 1
    timeout_s: float = 300.0
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class BenchReport:
    """All figures in the order they were taken, the warm-up's time to first token by target, and what they say."""

    figures: tuple[Figures, ...]
    warmup_ms: dict[str, float]
    network: tuple[Network, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    causes: tuple[tuple[str, Cause], ...] = ()
    costs: tuple[tuple[Figures, float], ...] = ()
    problems: tuple[Problem, ...] = ()

    def as_json(self, options: BenchOptions, workload: WorkloadOptions) -> dict[str, Any]:
        """The document of `bench --json`, without its schema_version."""

        def bounds(value: tuple[int, int]) -> int | list[int]:
            return value[0] if value[0] == value[1] else list(value)

        worst = any(problem.severity == "error" for problem in self.problems)
        return {
            "status": "error" if worst else "warning" if self.problems else "ok",
            "settings": {
                "workload": workload.kind,
                "max_tokens": bounds(options.max_tokens),
                "prompt_tokens": bounds(options.prompt_tokens) if workload.kind == "random" else None,
                "prefix_tokens": workload.prefix_tokens if workload.kind == "agent" else None,
                "seed": options.seed,
                "cache": options.caches[0] if len(options.caches) == 1 else "both",
                "warmup_requests": options.warmup,
            },
            "results": [figures.as_json() for figures in self.figures],
            "warmup_time_to_first_token_ms": {name: round(value, 3) for name, value in self.warmup_ms.items()},
            "network": [one.as_json() for one in self.network],
            "ratios": [ratio.as_json() for ratio in self.ratios],
            "costs": [
                {
                    "target": figures.target,
                    "concurrency": figures.concurrency,
                    "cache": figures.cache,
                    "cost_per_million_tokens": round(cost, 4),
                }
                for figures, cost in self.costs
            ],
            "verdicts": [verdict.as_json() for verdict in self.verdicts],
            "explanations": [cause.as_json(target) for target, cause in self.causes],
            "problems": [problem.as_json() for problem in self.problems],
        }


def run_bench(
    world: World, screen: Screen, given: EndpointOptions, options: BenchOptions, *, load: ReachingLoad | None = None
) -> BenchReport:
    """Measure every target at every load, say what it means, and show it. Raises ProblemError for targets that are not
    known, and for files that cannot be read or written."""
    check_outputs(world, options.outputs)
    named = _targets(world, screen, given, options)
    targets = [_Target(world, name, endpoint, number) for number, (name, endpoint) in enumerate(named)]
    load = load or StreamLoad(world.env, timeout_s=options.timeout_s)
    workload = _workload(world, options)
    for target in targets:
        # The same prompts for all, so that of the smallest context.
        workload = workload.fitted(target.endpoint.max_model_len)
    warmup_ms: dict[str, float] = {}
    taken: list[Taken] = []
    loads = _loads(options)
    counts = [_requests(options, *one) for one in loads]
    before = sum(
        len(conversation)
        for cache in options.caches
        for conversation in plan_warm_up(replace(workload, cache=cache), options.warmup, used=max(counts))
    )
    with show_progress(screen, (before + sum(counts) * len(options.caches)) * len(targets)) as progress:
        for target in targets:
            target.reached = load.reach(_empty_job(target.endpoint), _REACHES)
        for cache in options.caches:
            chosen = replace(workload, cache=cache)
            for target in targets:
                progress.say(t("{target}: warm-up", target=target.name))
                own = target.own(chosen)
                warm_up = plan_warm_up(own, options.warmup, used=max(counts))
                first_ms = _warm_up(load, target, own, warm_up, progress)
                if first_ms is not None:
                    warmup_ms.setdefault(target.name, first_ms)
            for concurrency, rate in loads:
                taken += _measure(load, targets, chosen, options, concurrency, rate, progress)
    report = _judge(targets, taken, warmup_ms, workload, options)
    write_outputs(world, options.outputs, report, report.as_json(options, workload))
    if screen.as_json:
        screen.document(report.as_json(options, workload))
    else:
        show_report(screen, report, options, workload)
    return report


class _Target:
    """One endpoint and what is known of it. views: what its server said about each figures of its ladder."""

    def __init__(self, world: World, name: str, endpoint: Endpoint, number: int) -> None:
        self.name = name
        self._number = number
        self.endpoint = endpoint
        self.eyes = ServerEyes(world, endpoint)
        self.reached: tuple[Reach, ...] = ()
        self.views: list[tuple[Figures, ServerView | None]] = []

    def own(self, workload: WorkloadOptions) -> WorkloadOptions:
        """The same prompts behind a mark of this target's: two targets may lead to one server and its cache."""
        return replace(workload, nonce=f"{workload.nonce}{self._number:x}")


def _workload(world: World, options: BenchOptions) -> WorkloadOptions:
    if options.prompts_file and options.workload:
        raise usage_error(
            "prompts-and-workload",
            t("`--prompts` and `--workload` both say what is asked."),
            t("Leave one of them out."),
        )
    prompts = _read_prompts(world, options.prompts_file) if options.prompts_file else ()
    return WorkloadOptions(
        kind=options.workload or ("file" if prompts else "random"),
        prompt_tokens=options.prompt_tokens,
        max_tokens=options.max_tokens,
        prompts=prompts,
        cache=options.caches[0],
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


def _loads(options: BenchOptions) -> tuple[tuple[int, float | None], ...]:
    """(at once, a second): one of the two rules."""
    if options.rates:
        return tuple((1, rate) for rate in options.rates)
    return tuple((concurrency, None) for concurrency in options.concurrency)


def _requests(options: BenchOptions, concurrency: int, rate: float | None) -> int:
    if options.requests:
        return options.requests
    return max(8, round(rate * _SECONDS_AT_A_RATE)) if rate else max(8, 2 * concurrency)


def _warm_up(
    load: Load,
    target: _Target,
    workload: WorkloadOptions,
    conversations: Sequence[Conversation],
    progress: Progress,
) -> float | None:
    """Requests that no figure counts: first-use compilation, connection pools, and the prefix cache where it is meant
    to be warm. Returns the first one's time to first token in ms. Raises ProblemError where none found a server: there
    is nothing to measure."""
    if not conversations:
        return None
    samples, _ = _send(load, target.endpoint, workload, conversations, 1, done=progress.step)
    if all(sample.error.startswith(NO_CONNECTION) for sample in samples):
        raise ProblemError(_unreachable(target, samples[0].error))
    return next((sample.time_to_first_token_s * 1000 for sample in samples if not sample.error), None)


def _unreachable(target: _Target, error: str) -> Problem:
    url = target.endpoint.openai_base_url
    return Problem(
        "bench-errors",
        t("{target} cannot be reached at {url}: nothing was measured.", target=target.name, url=url),
        t("The warm-up, which comes first, found nobody there."),
        (error,),
        Fix(t("Start the server, or find out what is in the way."), ("llm-setup doctor",)),
    )


def _measure(
    load: Load,
    targets: Sequence[_Target],
    workload: WorkloadOptions,
    options: BenchOptions,
    concurrency: int,
    rate: float | None,
    progress: Progress,
) -> list[Taken]:
    # A load's prompts are its own: the server has cached those of the load before.
    count = _requests(options, concurrency, rate)
    planned = {
        target.name: plan_conversations(target.own(workload), count, part=f"{rate or ''}x{concurrency}")
        for target in targets
    }
    taken = {target.name: _Taken() for target in targets}
    for target in targets:
        target.eyes.begin()
    for numbers in _turns(len(planned[targets[0].name]), concurrency, len(targets)):
        for target in targets:
            if rate:
                progress.say(t("{target}: {rate:g} a second", target=target.name, rate=rate))
            else:
                progress.say(t("{target}: {count} at once", target=target.name, count=concurrency))
            chosen = [planned[target.name][number] for number in numbers]
            with target.eyes:
                sent = _send(load, target.endpoint, workload, chosen, concurrency, rate_per_s=rate, done=progress.step)
            taken[target.name].add(sent)
    found: list[Taken] = []
    for target in targets:
        one = taken[target.name]
        at_once = peak_in_flight(one.samples) if rate else concurrency
        figures = one.figures(target.name, at_once, workload, rate)
        view = target.eyes.view()
        if view and view.reading.prefix_hit_rate is not None and view.reading.prefix_hit_rate < _FEW_HITS:
            view = replace(view, probe=_probe(target, planned[target.name]))
        target.views.append((figures, view))
        found.append((figures, tuple(one.samples)))
    return found


def _probe(target: _Target, conversations: Sequence[Conversation]) -> PrefixProbe | None:
    """Of two requests of one conversation, or of the same request twice: a template that writes the time differs."""
    longest = max(conversations, key=len)
    return target.eyes.probe(longest[0], longest[min(1, len(longest) - 1)])


def _turns(count: int, concurrency: int, targets: int) -> Iterator[range]:
    """One turn for a single target; several for more, none shorter than the concurrency."""
    turns = 1 if targets == 1 else max(1, min(_TURNS, count // max(1, concurrency)))
    for turn in range(turns):
        yield range(count * turn // turns, count * (turn + 1) // turns)


def _judge(
    targets: Sequence[_Target],
    taken: Sequence[Taken],
    warmup_ms: dict[str, float],
    workload: WorkloadOptions,
    options: BenchOptions,
) -> BenchReport:
    prices = dict(options.prices)
    network: list[Network] = []
    causes: list[tuple[str, Cause]] = []
    for target in targets:
        # Loads may be given in any order.
        views = sorted(target.views, key=lambda view: load_of(view[0]))
        lowest = next((one.time_to_first_token_ms for one, _ in views if one.time_to_first_token_ms), None)
        way = compute_network(target.name, target.reached, lowest.p50 if lowest else None)
        network.append(way)
        for cache in options.caches:
            ladder = [(figures, view) for figures, view in views if figures.cache == cache]
            shared = shared_tokens(replace(workload, cache=cache))
            known = {cause.code for name, cause in causes if name == target.name}
            found = explain(ladder, way, tokens_shared=shared)
            causes += [(target.name, cause) for cause in found if cause.code not in known]
    ratios = compute_ratios(taken, options.seed) if len(targets) > 1 else ()
    costs = [
        (figures, cost)
        for figures, _ in taken
        if figures.target in prices and (cost := cost_per_million_tokens(figures, prices[figures.target])) is not None
    ]
    return BenchReport(
        figures=tuple(figures for figures, _ in taken),
        warmup_ms=warmup_ms,
        network=tuple(network),
        ratios=ratios,
        verdicts=judge_targets(taken, prices),
        causes=tuple(causes),
        costs=tuple(costs),
        problems=tuple(_errors_problem(figures) for figures, _ in taken if figures.errors),
    )


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
