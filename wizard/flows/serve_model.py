"""`serve` from its answers: runtime, model, plan, start, remedies; then stay with the server, or leave it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from wizard.catalog.arguments import argument_pairs, flag_value
from wizard.effects.processes import terminated_as_interrupt
from wizard.effects.serverlog import LogReader
from wizard.effects.world import World
from wizard.endpoint.model import Profile
from wizard.flows.download import ensure_model
from wizard.flows.logs import show_added
from wizard.flows.profiles import free_name
from wizard.flows.serve import ServerDiedError, ended_by_another, server_died, start_server, stop_server
from wizard.hardware.machine import Machine
from wizard.i18n import t
from wizard.planning.intent import Intent, Pin
from wizard.planning.model import ServePlan
from wizard.planning.pins import parse_pin
from wizard.problems import Fix, Problem, ProblemError, usage_error
from wizard.secret import Secret
from wizard.serving.embedded import EmbeddedModel
from wizard.serving.install_plan import runtime_name
from wizard.serving.phases import Progress, advance
from wizard.serving.record import DEFAULT_NAME, ServerRecord
from wizard.serving.remedies import MAX_RESTARTS, next_start, restart_pause_s
from wizard.serving.runtime import Runtime
from wizard.ui.screen import Screen

_LOOK_S = 0.3
MAX_CRASHES = 5
# A server that ran this long was well: its next crash counts as the first again.
_WELL_AFTER_S = 600.0


@dataclass(frozen=True, slots=True)
class ServeAnswers:
    """What flags say. model None: the embedded default where no GPU is usable. port None: 8000 or the next free one.

    pins: vLLM's flags by `--set`. extra: words after `--`, given to vLLM as they are. key None: kept or made.
    container: an image instead of an installed vLLM; image: which, empty for vLLM's own.
    use_settings: take what `tune` wrote for this name and model.
    """

    model: str | None = None
    name: str = DEFAULT_NAME
    host: str = "127.0.0.1"
    port: int | None = None
    vllm: str | None = None
    vllm_version: str | None = None
    context_tokens: int | None = None
    clients: tuple[str, ...] = ()
    pins: tuple[Pin, ...] = ()
    extra: tuple[str, ...] = ()
    key: Secret | None = None
    timeout_s: float | None = None
    replace_running: bool = False
    use_settings: bool = True
    container: bool = False
    image: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What would be started, and the plan behind it. weights_gib None: not known."""

    runtime: Runtime
    model: str
    arguments: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    weights_gib: float | None = None
    warnings: tuple[str, ...] = ()
    plan: ServePlan | None = None


def read_pin(text: str) -> Pin:
    """`--set max-model-len=8192`, `--set enforce-eager`. Raises a usage problem, also for what has its own option."""
    pin = parse_pin(text)
    if pin.flag in ("--api-key", "--host", "--port"):
        raise usage_error(
            "bad-pin",
            t("`{flag}` is not set that way.", flag=pin.flag),
            t("Use `--host`, `--port` or `--api-key-file`; a key in a command line is seen by everyone here."),
        )
    return pin


def prepare(
    world: World,
    screen: Screen,
    machine: Machine,
    answers: ServeAnswers,
    *,
    ask_token: Callable[[str], str] | None = None,
    runtime: Runtime | None = None,
) -> Prepared:
    """Find or install the runtime, plan the model's flags, and fetch what is not here of it.

    runtime: the one that was found before.
    """
    from wizard.flows.container import ensure_image
    from wizard.flows.runtime import ensure_runtime
    from wizard.flows.state import check_own_folders
    from wizard.flows.tuned import with_settings

    check_own_folders(world.paths.state, world.paths.data)
    answers, settings = with_settings(world, answers)
    if settings:
        screen.step("ok", t("settings of this server, as `tune` or you wrote them"), str(settings))
    if answers.model is not None:
        # A model that nobody knows is said before an install of several minutes, not after it.
        from wizard.flows.plan import ModelSource, observe_model

        observe_model(world, answers.model, ModelSource())
    if runtime is None and answers.container:
        runtime = ensure_image(world, screen, machine, version=answers.vllm_version, image=answers.image)
    if runtime is None:
        runtime = ensure_runtime(world, screen, machine, vllm=answers.vllm, version=answers.vllm_version)
    screen.step("ok", f"vLLM {runtime.vllm_version} ({runtime.build})", runtime.folder)
    if answers.model is None:
        if runtime.build != "cpu" or runtime.container:
            raise usage_error(
                "missing-answer",
                t("Which model is to be served?"),
                t("Name it, or let `init` recommend one."),
                "llm-setup models",
                "llm-setup serve --model MODEL",
            )
        return _embedded(world, screen, machine, runtime, answers)
    plan = _plan(world, machine, answers, runtime.vllm_version)
    if plan.problems:
        raise ProblemError(plan.problems[0])
    # Inside a container, vLLM fetches by itself, into the cache that it shares with this machine.
    place = plan.serve_as
    if runtime.container is None:
        place = ensure_model(world, screen, runtime, plan.serve_as, ask_token=ask_token)
    arguments = _merged(plan.arguments, answers.extra)
    if place != plan.serve_as and flag_value(arguments, "--served-model-name") is None:
        # It lies in a folder of ours, and is asked for by its own name.
        arguments = ("--served-model-name", plan.serve_as, *arguments)
    return Prepared(
        runtime,
        place,
        arguments,
        dict(plan.env),
        plan.memory.weights_gib,
        plan.warnings,
        plan,
    )


def prepare_dry(world: World, screen: Screen, machine: Machine, answers: ServeAnswers) -> Prepared:
    """What `prepare` would give, without an install or a fetch: the runtime is the one here, else the one that would be
    installed; the model is named as it would be fetched."""
    from wizard.flows.install import plan_new_runtime
    from wizard.flows.runtime import runtime_here

    runtime = runtime_here(world, screen, machine, vllm=answers.vllm, version=answers.vllm_version)
    if runtime is None:
        new = plan_new_runtime(world, machine, answers.vllm_version)
        runtime = Runtime(
            name=runtime_name(new.build, new.version),
            python="",
            vllm_version=new.version,
            build=new.build,
            torch_version="",
            serve_command=("vllm", "serve"),
            origin="own",
            folder=new.folder,
        )
    model, arguments, env = planned_arguments(world, machine, answers, runtime.vllm_version)
    plan = plan_ahead(world, machine, answers, runtime.vllm_version)
    return Prepared(runtime, model, arguments, env, plan.memory.weights_gib, plan.warnings, plan)


def planned_arguments(
    world: World, machine: Machine, answers: ServeAnswers, version: str
) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """Model, flags and variables for a start that is only shown; the embedded model is not fetched for it."""
    from wizard.flows.tuned import with_settings

    answers, _ = with_settings(world, answers)
    if answers.model is None:
        from wizard.serving import embedded

        folder = world.paths.models / embedded.FOLDER_NAME
        template = world.paths.models / embedded.CHAT_TEMPLATE
        model = embedded.plan_embedded(str(folder), str(template), "own")
        return model.folder, _embedded_arguments(model, answers), dict(model.environment)
    plan = _plan(world, machine, answers, version)
    if plan.problems:
        raise ProblemError(plan.problems[0])
    return plan.serve_as, _merged(plan.arguments, answers.extra), dict(plan.env)


def _plan(world: World, machine: Machine, answers: ServeAnswers, version: str) -> ServePlan:
    from wizard.flows.held import without_server
    from wizard.flows.plan import plan_for

    assert answers.model is not None
    machine, _ = without_server(world, machine, answers.name)
    intent = Intent(
        clients=answers.clients,
        context_tokens=answers.context_tokens,
        vllm_version=version,
        pins=answers.pins,
        kv_space_gib=_given_kv_space(world),
    )
    return plan_for(world, answers.model, machine=machine, intent=intent)


def _given_kv_space(world: World) -> int | None:
    """The KV cache's size on a CPU where the user's environment says it, GiB; else the plan chooses."""
    text = world.env.get("VLLM_CPU_KVCACHE_SPACE", "").strip()
    return int(text) if text.isdigit() and int(text) > 0 else None


def _embedded(world: World, screen: Screen, machine: Machine, runtime: Runtime, answers: ServeAnswers) -> Prepared:
    from wizard.flows.embedded import ensure_embedded_model
    from wizard.serving.embedded import too_small_for_an_agent

    model = ensure_embedded_model(world, screen, runtime)
    arguments = _embedded_arguments(model, answers)
    environment = _embedded_environment(world, model)
    plan = _embedded_plan(world, machine, answers, runtime.vllm_version, model, model.folder)
    return Prepared(runtime, model.folder, arguments, environment, model.weights_gib, (too_small_for_an_agent(),), plan)


def plan_ahead(world: World, machine: Machine, answers: ServeAnswers, version: str) -> ServePlan:
    """The plan of a start, before anything is installed or fetched for it. version: the vLLM that will run.

    Raises ProblemError where the model's facts cannot be had; what does not fit is in the plan's problems.
    """
    if answers.model is not None:
        return _plan(world, machine, answers, version)
    from wizard.serving import embedded

    folder = world.paths.models / embedded.FOLDER_NAME
    template = world.paths.models / embedded.CHAT_TEMPLATE
    model = embedded.plan_embedded(str(folder), str(template), "own")
    return _embedded_plan(world, machine, answers, version, model, embedded.MODEL_ID)


def _embedded_environment(world: World, model: EmbeddedModel) -> dict[str, str]:
    environment = dict(model.environment)
    space = _given_kv_space(world) or int(environment["VLLM_CPU_KVCACHE_SPACE"])
    return environment | {"VLLM_CPU_KVCACHE_SPACE": str(space)}


def _embedded_plan(
    world: World, machine: Machine, answers: ServeAnswers, version: str, model: EmbeddedModel, name: str
) -> ServePlan:
    """Its flags are fixed, so that the road is quick and tools work; the plan says what memory they take. name: where
    its facts are, its folder or its name in the catalogue."""
    from wizard.flows.plan import plan_for
    from wizard.serving.embedded import reasons

    pins = pins_of(_embedded_arguments(model, answers))
    space = int(_embedded_environment(world, model)["VLLM_CPU_KVCACHE_SPACE"])
    intent = Intent(clients=answers.clients, vllm_version=version, pins=pins, kv_space_gib=space)
    plan = plan_for(world, name, machine=machine, intent=intent)
    why = reasons()
    given = {pin.flag for pin in answers.pins}
    flags = tuple(
        flag if flag.flag in given else replace(flag, reason=why.get(flag.flag, flag.reason), source="model")
        for flag in plan.flags
    )
    # Too little memory is no reason not to try a model of 0.3 GiB: the estimate is of the whole server, and said. What
    # the model itself cannot do stays a problem.
    kept = tuple(p for p in plan.problems if p.code == "max-model-len-above-model")
    warnings = (*plan.warnings, *(p.what for p in plan.problems if p not in kept))
    return replace(plan, flags=flags, fits=not kept, problems=kept, warnings=warnings)


def pins_of(arguments: tuple[str, ...]) -> tuple[Pin, ...]:
    """Flags of a command line as pins: `--flag value`, `--flag=value`, or a bare `--flag`."""
    return tuple(Pin(name, value) for name, value in argument_pairs(arguments))


def _embedded_arguments(model: EmbeddedModel, answers: ServeAnswers) -> tuple[str, ...]:
    pinned = tuple(
        word for pin in answers.pins for word in ((pin.flag,) if pin.value is None else (pin.flag, pin.value))
    )
    context = () if answers.context_tokens is None else ("--max-model-len", str(answers.context_tokens))
    return _merged(_merged(model.arguments, (*context, *pinned)), answers.extra)


def _merged(planned: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    """Planned flags without those that were given, then the given ones as they are."""
    from wizard.serving.start import without_flags

    names = tuple(word.partition("=")[0] for word in given if word.startswith("--"))
    return (*without_flags(planned, names), *given)


def serve_model(
    world: World,
    screen: Screen,
    prepared: Prepared,
    answers: ServeAnswers,
    *,
    yes: bool,
    agree: Callable[[str], bool] | None = None,
) -> ServerRecord:
    """Start what was prepared; where it dies of something that a safe change mends, change that and start again.

    With `yes` at most three times, saying each time what is given up; else `agree` is asked; without either the
    problem is raised with its remedy as text.
    """
    for warning in prepared.warnings:
        screen.step("warning", warning)
    port = answers.port
    shared: frozenset[int] = frozenset()
    for restart in range(MAX_RESTARTS + 1):
        try:
            record = start_server(
                world,
                screen,
                prepared.runtime,
                name=answers.name,
                model=prepared.model,
                arguments=prepared.arguments,
                env=prepared.env,
                key=answers.key,
                host=answers.host,
                port=port,
                weights_gib=prepared.weights_gib,
                timeout_s=answers.timeout_s,
                replace_running=answers.replace_running,
                not_ports=shared,
            )
        except ServerDiedError as error:
            if error.problem.code == "port-in-use" and port is None and restart < MAX_RESTARTS:
                # vLLM opens its port half a minute after it was found free; nobody asked for this one in particular.
                screen.step("warning", t("another program took the port meanwhile; taking the next free one"))
                # It may look free again by now, as to the one who found it free before.
                shared |= {error.port}
                continue
            changed = next_start(prepared.arguments, prepared.env, error.remedies)
            if changed is None or restart == MAX_RESTARTS:
                raise
            gives_up = t("gives up: {what}", what=changed.gives_up) if changed.gives_up else ""
            if not yes and agree is None:
                raise
            # Who is asked has to know what it is about; who says no gets it in full.
            detail = f"[{error.problem.code}]" if yes else next(iter(error.problem.saw), "")
            screen.step("failed", error.problem.what, detail)
            if not yes and not (agree and agree(t("Start again with {changes}?", changes=changed.said))):
                raise
            screen.step("warning", t("start again with {changes}", changes=changed.said), gives_up)
            prepared = replace(prepared, arguments=changed.arguments, env=changed.env)
        except ProblemError as error:
            if error.problem.code != "port-in-use" or port is None or not yes:
                raise
            screen.step("warning", t("port {port} is taken; taking the next free one", port=port))
            port = None
        else:
            profile = remember_profile(world, record)
            if profile.name != record.name:
                told = t("the profile `{taken}` is another endpoint's; this server's is `{name}`",
                         taken=record.name, name=profile.name)  # fmt: skip
                screen.step("info", told)
            if prepared.plan is not None:
                remember_measured(world, record, prepared.plan)
            return record
    raise AssertionError("the last attempt returns or raises")


def remember_measured(world: World, record: ServerRecord, plan: ServePlan) -> None:
    """What vLLM measured replaces the estimate in the next plan for this machine."""
    from wizard.flows.plan import remember_start

    progress = Progress()
    for line in LogReader(Path(record.log)).new_lines():
        progress = advance(progress, line, 0.0)
    measured = progress.measured
    remember_start(world, plan, kv_gib=measured.kv_gib, weights_gib=measured.weights_gib)


def remember_profile(world: World, record: ServerRecord) -> Profile:
    """The server as a profile, so that `env`, `use`, `run` and `clients` know it; active where none is. It has the
    server's name, but where that is another endpoint's, which somebody may have entered with a key."""
    known = world.profiles.load()
    before = next((profile for profile in known.by_name.values() if profile.server == record.name), None)
    url = record.url + "/v1"
    free = free_name([record.name], known.by_name, lambda profile: profile.openai_base_url == url)
    profile = Profile(
        name=before.name if before else free,
        openai_base_url=url,
        anthropic_base_url=record.url,
        model=record.served_name,
        key_reference=record.key_reference,
        max_model_len=record.max_model_len,
        speaks=before.speaks if before and before.model == record.served_name else (),
        kind="vllm",
        server=record.name,
    )
    world.profiles.put(profile, activate=not known.active)
    return profile


def serve_attached(
    world: World,
    screen: Screen,
    name: str,
    start: Callable[[], ServerRecord],
    *,
    restart: bool,
    on_ready: Callable[[ServerRecord], None],
) -> None:
    """Start, follow the server's log, and stop it on Ctrl-C, TERM or a closed terminal; its end is a problem.

    A server that was running before is left running. restart: start again after a crash, with a growing pause; a
    server that ran ten minutes starts the count anew.
    """
    before = world.servers.load(name)
    kept = (before.pid, before.pid_started) if before else None
    with terminated_as_interrupt():
        try:
            record = start()
            on_ready(record)
            ours = (record.pid, record.pid_started) != kept
            screen.line(
                t("Ctrl-C stops the server. Its log follows.")
                if ours
                else t("Its log follows. It was running before: Ctrl-C leaves it running.")
            )
            _follow(world, screen, record, start if restart else None)
        except KeyboardInterrupt:
            screen.line()
            now = world.servers.load(name)
            if now is not None and (now.pid, now.pid_started) != kept and world.servers.life(now).alive:
                stop_server(world, screen, name)
            raise


def _follow(world: World, screen: Screen, record: ServerRecord, start_again: Callable[[], ServerRecord] | None) -> None:
    crashes = 0
    reader = LogReader(Path(record.log), followed=True)
    while True:
        alive = world.processes.alive(record.pid, record.pid_started)
        show_added(screen, reader, Path(record.log), over=not alive)
        if alive:
            world.clock.sleep(_LOOK_S)
            continue
        if ended_by_another(world, record):
            screen.step("ok", t("`{name}` was stopped elsewhere", name=record.name))
            return
        error = server_died(world, record)
        if start_again is None:
            raise error
        ran_s = world.clock.now().timestamp() - record.started_at
        crashes = 1 if ran_s > _WELL_AFTER_S else crashes + 1
        if crashes > MAX_CRASHES:
            raise ProblemError(_crash_loop(record, error.problem))
        pause = restart_pause_s(crashes)
        screen.step("failed", error.problem.what, f"[{error.problem.code}]")
        screen.step("running", t("restart in {pause} s", pause=f"{pause:g}"))
        world.clock.sleep(pause)
        record = start_again()
        reader = LogReader(Path(record.log), followed=True)


def _crash_loop(record: ServerRecord, last: Problem) -> Problem:
    return replace(
        last,
        what=t("Server `{name}` crashed {n} times in a row: {what}", name=record.name, n=MAX_CRASHES, what=last.what),
        fix=last.fix or Fix(t("Read the log."), (f"llm-setup logs {record.name} -n 60",)),
    )
