"""One file to share with a team: machine, server, plan, proof, figures, search."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wizard import __version__
from wizard.effects.templates import packaged_templates
from wizard.effects.world import World
from wizard.endpoint.model import Endpoint
from wizard.flows.profiles import active_profile, resolve_key
from wizard.flows.prove import prove_endpoint
from wizard.flows.serve_model import pins_of
from wizard.flows.status import observe_server
from wizard.flows.tune import record_path
from wizard.hardware.judge import judge_machine
from wizard.hardware.machine import Machine
from wizard.hardware.render import render_links, render_machine
from wizard.hardware.usable import choose_build
from wizard.i18n import t
from wizard.planning.intent import Intent
from wizard.problems import Fix, Problem, ProblemError, usage_error
from wizard.reporting.content import (
    Report,
    Section,
    absent_section,
    bench_section,
    machine_section,
    plan_section,
    proof_section,
    server_section,
    tune_section,
)
from wizard.reporting.render import GENERATOR, render_html, render_markdown
from wizard.serving.record import DEFAULT_NAME, ServerRecord
from wizard.tuning.bought import warm_against_cold
from wizard.tuning.trials import Record, parse_record
from wizard.ui.screen import Screen

DEFAULT_FILE = "llm-setup-report"
_MOST_BENCH_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """name: a server or profile; empty: the running server, else the active profile. output None: a file of the usual
    name here; "-": stdout. bench_file: what `bench --json` printed. measure: a short bench now. offline: ask no server.
    """

    name: str = ""
    output: str | None = None
    markdown: bool = False
    bench_file: str = ""
    measure: bool = False
    offline: bool = False
    overwrite: bool = False


def make_report(
    world: World, screen: Screen, options: ReportOptions, *, look: Callable[[World], Machine] | None = None
) -> Path | None:
    """Gather, render, write; the file, or None where it went to stdout. What is not there is said in its place."""
    from wizard.flows.hardware import observe_machine

    bench = _read_bench(world, options.bench_file) if options.bench_file else None
    path = _place(world, options)
    machine = (look or observe_machine)(world)
    record, endpoint = _subject(world, options.name)
    search = parse_record(
        world.files.read_bytes(record_path(world, options.name or (record.name if record else DEFAULT_NAME)))
    )
    sections: list[Section] = [_machine(machine)]
    if record is not None:
        sections.append(_server(world, record, machine, offline=options.offline))
        sections.append(_plan(world, machine, record.model, record.vllm_version, record.arguments))
    elif search is not None and search.trials:
        first = search.trials[0]
        version = str(search.about.get("vllm_version") or "")
        sections.append(_plan(world, machine, first.model, version, first.arguments))
    sections.append(_proof(world, endpoint, ours=record is not None, offline=options.offline))
    sections.append(_bench(world, options, endpoint, bench, ours=record is not None, plain=screen.plain))
    sections.append(_tune(search))
    name = endpoint.model if endpoint else t("this machine")
    report = Report(
        t("{name}: how it is served and how fast it is", name=name),
        f"{world.clock.now():%Y-%m-%d %H:%M} UTC",
        __version__,
        tuple(sections),
    )
    text = _render(world, report, markdown=options.markdown)
    if path is None:
        print(text, end="", file=screen.people)
    else:
        world.files.write_bytes(path, text.encode())
        screen.step("ok", t("report written"), str(path))
        for section in sections:
            if section.absent:
                screen.step("skipped", section.title, section.absent)
    if screen.as_json:
        screen.document(
            {
                "status": "ok",
                "file": str(path) if path else None,
                "sections": {section.id: section.absent or "ok" for section in sections},
            }
        )
    return path


def _place(world: World, options: ReportOptions) -> Path | None:
    if options.output == "-":
        return None
    name = f"{DEFAULT_FILE}.{'md' if options.markdown else 'html'}"
    path = world.cwd / Path(options.output or name).expanduser()
    path = path / name if path.is_dir() else path
    before = world.files.read_bytes(path)
    if before and GENERATOR.encode() not in before[:2000] and not options.overwrite:
        raise ProblemError(
            Problem(
                "file-exists",
                t("`{path}` is there and differs.", path=path),
                t("It is no report of llm-setup."),
                fix=Fix(t("Write elsewhere with `--output`, or replace it with `--yes`.")),
            )
        )
    return path


def _subject(world: World, name: str) -> tuple[ServerRecord | None, Endpoint | None]:
    """The server and the endpoint that the report is about, as far as there are any."""
    names = world.servers.names()
    if name in names or not name:
        running = [name] if name else list(names)
        for one in running:
            record = world.servers.load(one)
            if record is not None and (name or world.servers.life(record).alive):
                key = world.secrets.get(record.key_reference)
                endpoint = Endpoint(
                    record.name, record.url + "/v1", record.url, record.served_name, key, record.max_model_len,
                    kind="vllm",
                )  # fmt: skip
                return record, endpoint
    profile = active_profile(world, name)
    return None, profile.endpoint(resolve_key(world, profile)) if profile else None


def _quiet(*, as_json: bool = False, out: io.StringIO | None = None) -> Screen:
    return Screen(as_json=as_json, plain=True, out=out or io.StringIO(), err=io.StringIO(), env={})


def _machine(machine: Machine) -> Section:
    choice = choose_build(machine)
    lines = (*render_machine(machine, choice, symbols=True), *render_links(machine))
    return machine_section(tuple(dict.fromkeys(lines)), [problem.what for problem in judge_machine(machine)])


def _server(world: World, record: ServerRecord, machine: Machine, *, offline: bool) -> Section:
    if offline:
        return absent_section("server", t("Server"), t("not asked (--offline)"))
    return server_section(observe_server(world, record, look=lambda _: machine).as_json())


def _plan(world: World, machine: Machine, model: str, version: str, arguments: tuple[str, ...]) -> Section:
    from wizard.flows.plan import plan_for

    try:
        intent = Intent(vllm_version=version or None, pins=pins_of(arguments))
        return plan_section(plan_for(world, model, machine=machine, intent=intent))
    except ProblemError as error:
        return absent_section("plan", t("Plan"), error.problem.what)


def _proof(world: World, endpoint: Endpoint | None, *, ours: bool, offline: bool) -> Section:
    if endpoint is None:
        why = t("no endpoint: `llm-setup serve` starts one, `llm-setup profiles add` names one")
        return absent_section("proof", t("Proof"), why)
    if offline:
        return absent_section("proof", t("Proof"), t("not asked (--offline)"))
    proof = prove_endpoint(world, _quiet(), endpoint, ours=ours)
    return proof_section([step.as_json() for step in proof.steps])


def _bench(
    world: World,
    options: ReportOptions,
    endpoint: Endpoint | None,
    given: Mapping[str, Any] | None,
    *,
    ours: bool,
    plain: bool,
) -> Section:
    if given is None and options.measure and endpoint is not None and not options.offline:
        given = _measured(world, endpoint, ours=ours, plain=plain)
    if given is None:
        why = t("nothing measured: `--measure` does now, `--bench FILE` takes what `llm-setup bench --json` printed")
        return absent_section("bench", t("Measured"), why)
    try:
        return bench_section(given)
    except (TypeError, ValueError) as error:
        raise _no_bench(options.bench_file, str(error)) from error


def _measured(world: World, endpoint: Endpoint, *, ours: bool, plain: bool) -> Mapping[str, Any]:
    """A short bench, as its document. ours: a server of llm-setup on this machine, to which no proxy leads."""
    from wizard.bench.workloads import WorkloadOptions
    from wizard.effects.streams import StreamLoad
    from wizard.flows.bench import measure, new_nonce

    load = StreamLoad({} if ours else world.env)
    workload = WorkloadOptions(max_tokens=(64, 64), nonce=new_nonce())
    # To stderr, since the report itself may go to stdout.
    progress = Screen(plain=plain, out=sys.stderr)
    results = []
    for users in (1, 4):
        requests = max(8, 2 * users)
        progress.step("running", t("measuring: {requests} requests, {users} at once", requests=requests, users=users))
        measured = measure(load, endpoint, workload, concurrency=users, requests=requests, warm_up=1)
        results.append(measured.figures.as_json())
    return {"results": results}


def _read_bench(world: World, name: str) -> Mapping[str, Any]:
    raw = world.files.read_some(Path(name).expanduser(), _MOST_BENCH_BYTES)
    try:
        document = json.loads(raw or b"")
    except ValueError as error:
        raise _no_bench(name, str(error)) from error
    if not isinstance(document, dict):
        raise _no_bench(name, "no JSON object")
    return document


def _no_bench(name: str, saw: str) -> ProblemError:
    return usage_error(
        "bench-file-malformed",
        t("`{path}` is not what `bench --json` prints.", path=name),
        t("Make it so."),
        "llm-setup bench --json > bench.json",
        why=saw,
    )


def _tune(record: Record | None) -> Section:
    if record is None or not record.trials:
        return absent_section("tune", t("Tuned"), t("no search: `llm-setup tune` makes one"))
    best = next((at for at, trial in enumerate(record.trials) if trial.setting == record.chosen), -1)
    ratio = warm_against_cold(record.trials[best].figures) if best >= 0 else None
    return tune_section(record.goal, record.trials, best, ratio, record.spent_s)


def _render(world: World, report: Report, *, markdown: bool) -> str:
    from wizard.i18n import translated

    kind = "md" if markdown else "html"
    own = world.paths.config / "templates" / "report" / f"report.{kind}.j2"
    raw = world.files.read_bytes(own)
    template = (
        raw.decode("utf-8")
        if raw is not None
        else packaged_templates().joinpath("report", f"report.{kind}.j2").read_text(encoding="utf-8")
    )
    if markdown:
        return render_markdown(report, template, home=str(world.home))
    return render_html(report, template, language="zh-CN" if translated() else "en", home=str(world.home))
