"""Start a server and see it to readiness, adopt one that runs, stop one with all that belongs to it."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from wizard.catalog.arguments import flag_value
from wizard.effects.hub import hugging_face_home, hugging_face_models
from wizard.effects.ports import first_free_port, free_port, port_holders, port_is_free
from wizard.effects.processes import interrupts_held, terminated_as_interrupt
from wizard.effects.serverlog import LogReader, last_lines, pieces_of_log
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpReply, HttpRequest
from wizard.flows.download import token_environment
from wizard.flows.live import LiveLine
from wizard.flows.packages import free_gib
from wizard.flows.state import disk_full, writable
from wizard.hardware.machine import Machine
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError
from wizard.secret import Secret
from wizard.serving.container import CACHE_INSIDE, Mount, container_name, plan_container_run
from wizard.serving.deaths import Remedy, all_deaths, find_deaths_in_bytes
from wizard.serving.endings import plan_end_problem, plan_stall_problem
from wizard.serving.phases import Patience, PhaseTime, Progress, advance, patience_for, phase_title
from wizard.serving.record import ServerRecord, check_name
from wizard.serving.runtime import Runtime
from wizard.serving.start import (
    DEFAULT_PORT,
    PORTS_TRIED,
    plan_command,
    plan_environment,
    told_apart,
)
from wizard.ui.screen import Screen

LOOPBACK = "127.0.0.1"
STOP_PATIENCE_S = 20.0
_LOOK_S = 0.1
_GPU_LOOKS = 10
_ASK_S = 1.0
# An engine has a minute to remove a container, and a server's last parts a few seconds.
_ANOTHER_S = 90.0
_REMOVALS = 3
_NO_ROOM_GIB = 0.001
# Where vLLM's processes have the sockets by which they speak to one another; else all servers' lie in /tmp.
_SOCKETS_VARIABLE = "VLLM_RPC_BASE_PATH"


def start_server(
    world: World,
    screen: Screen,
    runtime: Runtime,
    *,
    name: str,
    model: str,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    key: Secret | None = None,
    host: str = LOOPBACK,
    port: int | None = None,
    weights_gib: float | None = None,
    timeout_s: float | None = None,
    replace_running: bool = False,
    not_ports: frozenset[int] = frozenset(),
) -> ServerRecord:
    """Start a detached server and return its record once it answers; a running one that is the same is adopted.

    model: a folder or a hub id. arguments: vLLM's flags, without host, port and key. env: added to the user's own.
    key: the server's; None takes the one that this server had before, or makes one. It is kept in `world.secrets`
    as `server-NAME` and reaches vLLM by its environment. port None: the one that this server had last, else 8000,
    or the next free one; none of `not_ports`. weights_gib: makes the time limit grow; timeout_s replaces it.
    replace_running: stop a running server of that name that is another one.
    Raises ProblemError: the name or port is taken, the server died (root cause first), or it does not get ready.
    Ctrl-C ends the server with all its processes, unless it was already running.
    """
    check_name(name)
    if world.platform == "windows":
        raise ProblemError(_windows())
    added = dict(env or {})
    begun: list[ServerRecord] = []
    with terminated_as_interrupt(), _ended_when_interrupted(world, screen, begun):
        started = _launch(
            world,
            screen,
            runtime,
            _Wanted(name, model, tuple(arguments), added, key, host, port, not_ports),
            begun,
            replace_running=replace_running,
        )
        patience = patience_for(weights_gib, downloaded=_is_local(model))
        if timeout_s is not None:
            patience = Patience(timeout_s, max(timeout_s, patience.stall_s))
        if runtime.container:
            # What works inside is not seen from here, and compiling is silent.
            patience = Patience(patience.total_s, patience.total_s)
        return _until_ready(world, screen, started, patience)


@dataclass(frozen=True, slots=True)
class _Wanted:
    name: str
    model: str
    arguments: tuple[str, ...]
    env: dict[str, str]
    key: Secret | None
    host: str
    port: int | None
    not_ports: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Started:
    """A server and whether this run began it (then Ctrl-C ends it)."""

    record: ServerRecord
    ours: bool


@contextmanager
def _ended_when_interrupted(world: World, screen: Screen, begun: Sequence[ServerRecord]) -> Iterator[None]:
    """Whatever the interrupted run was doing: servers that it began are ended and forgotten."""
    try:
        yield
    except KeyboardInterrupt:
        for record in begun:
            screen.step("running", t("interrupted: ending server `{name}`", name=record.name))
            with interrupts_held():
                _end(world, record, patience_s=5.0)
                world.servers.remove(record.name)
        raise


def _is_local(model: str) -> bool:
    return Path(model).expanduser().is_dir()


def _launch(
    world: World,
    screen: Screen,
    runtime: Runtime,
    wanted: _Wanted,
    begun: list[ServerRecord],
    *,
    replace_running: bool,
) -> _Started:
    servers = world.servers
    name = wanted.name
    with writable(world.paths.servers), servers.changing(name):
        before = servers.load(name)
        if before is not None:
            life = servers.life(before)
            if life.alive:
                other = told_apart(before, wanted.model, wanted.arguments, wanted.host, wanted.port)
                if not other:
                    # The run that started it may have been killed before it saw to that.
                    servers.keep_log_bounded(name, before.pid)
                    return _Started(before, ours=False)
                if not replace_running:
                    raise ProblemError(_name_taken(before, other))
            if life.alive or life.remains or before.container:
                screen.step("running", t("stop what is left of server `{name}`", name=name))
                _end(world, before)
        elif servers.life_held(name):
            raise ProblemError(_unknown_holder(world, name))
        port = _choose_port(world, wanted, before.port if before else last_port(world, name))
        key_reference = _keep_key(world, wanted)
        served_name = flag_value(wanted.arguments, "--served-model-name") or served_name_of(wanted.model)
        environment = _environment(world, runtime, wanted)
        announced = ServerRecord(
            name=name,
            pid=0,
            pid_started="",
            host=wanted.host,
            port=port,
            model=wanted.model,
            served_name=served_name,
            key_reference=key_reference,
            vllm_version=runtime.vllm_version,
            command=plan_command(
                serve_words(
                    world, runtime, wanted.name, wanted.model, wanted.arguments, environment, tuple(wanted.env)
                ),
                wanted.model,
                wanted.arguments,
                host=wanted.host,
                port=port,
                served_name=served_name,
            ),
            log=str(servers.log_path(name)),
            started_at=world.clock.now().timestamp(),
            python=runtime.python,
            build=runtime.build,
            arguments=wanted.arguments,
            environment=tuple(sorted(wanted.env.items())),
            container=(runtime.container.engine, container_name(name)) if runtime.container else (),
            sockets=""
            if runtime.container or _SOCKETS_VARIABLE in environment
            else servers.new_sockets(environment.get("TMPDIR", "")),
        )
        return _Started(_begin(world, environment, announced, begun), ours=True)


def _environment(world: World, runtime: Runtime, wanted: _Wanted) -> dict[str, str]:
    local = _is_local(wanted.model)
    environment = plan_environment(world.env, runtime, wanted.env, local_model=local)
    return environment if local else environment | token_environment(world)


def serve_words(
    world: World,
    runtime: Runtime,
    name: str,
    model: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    added: Sequence[str],
) -> tuple[str, ...]:
    """What the model and its flags are added to: the runtime's own command, or a container with what it has to see.

    environment: of the process; added: names in it that were set for this server.
    """
    if runtime.container is None:
        return runtime.serve_command
    mounts = [Mount(str(source), target, read_only=False) for source, target in _caches(world).items()]
    # `--flag PATH`, `--flag=PATH`, and `name=PATH` of an adapter. A target that is named twice is an engine's error.
    words = dict.fromkeys(part for word in (model, *arguments) for part in (word, word.partition("=")[2]))
    mounts += [Mount(word, word) for word in words if Path(word).is_absolute() and Path(word).exists()]
    said = flag_value(arguments, "--tensor-parallel-size") or ""
    gpus = int(said) if said.isdecimal() else 1
    return plan_container_run(
        runtime.container,
        runtime.build,
        server=name,
        environment=environment,
        added=added,
        mounts=mounts,
        shm_gib=max(2, 4 * gpus),
    )


def _caches(world: World) -> dict[Path, str]:
    """Folders of the hub's client, which a container shares: where each is inside."""
    home, models = hugging_face_home(world.env, world.home), hugging_face_models(world.env, world.home)
    return {home: CACHE_INSIDE} | ({} if models == home / "hub" else {models: f"{CACHE_INSIDE}/hub"})


def _begin(
    world: World, environment: dict[str, str], announced: ServerRecord, begun: list[ServerRecord]
) -> ServerRecord:
    """Announce, launch, note. Whatever happens between the three, a later run finds the server or none: the process
    writes its own pid, and holds a lock as long as it lives."""
    servers = world.servers
    key = world.secrets.get(announced.key_reference)
    if key:
        environment["VLLM_API_KEY"] = key.reveal()
    if announced.sockets:
        environment[_SOCKETS_VARIABLE] = announced.sockets
    if announced.container:
        for folder in _caches(world):
            folder.mkdir(parents=True, exist_ok=True)
        _remove_container(world, announced)
    world.files.remove(servers.pid_path(announced.name))
    log = servers.rotate_log(announced.name)
    servers.announce(announced)
    pid = 0
    try:
        with interrupts_held():
            with servers.life_lock(announced.name) as hold:
                pid = world.processes.launch(
                    announced.command,
                    env=environment,
                    cwd=world.cwd,
                    log=log,
                    pid_file=servers.pid_path(announced.name),
                    hold=hold,
                )
            record = replace(announced, pid=pid, pid_started=world.processes.identity(pid))
            servers.save(record)
            begun.append(record)
        servers.keep_log_bounded(announced.name, pid)
    except BaseException:
        world.processes.end_session(pid, patience_s=0)
        _remove_container(world, announced)
        servers.remove(announced.name)
        begun.clear()
        raise
    return record


def _until_ready(world: World, screen: Screen, started: _Started, patience: Patience) -> ServerRecord:
    record = started.record
    if started.ours:
        screen.step(
            "running",
            t("start `{name}`", name=record.name),
            t("port {port}, log {log}", port=record.port, log=record.log),
        )
    else:
        health = ask_health(world, record)
        if health.ready:
            screen.step("ok", t("`{name}` is running already", name=record.name), record.url)
            return _noted_ready(world, record, health)
        screen.step("running", t("wait for `{name}`, which is starting already", name=record.name))
    watch = _Watch(world, screen, record)
    all_deaths()  # read now, while the server is busy, and not between its death and what we say of it
    try:
        while True:
            code = world.processes.exit_code(record.pid)
            alive = world.processes.alive(record.pid, record.pid_started)
            progress = watch.look(ended=not alive)
            if not alive:
                raise _death(world, record, code, progress)
            if watch.worth_asking():
                # One that accepts and does not answer must not keep us from seeing it die.
                health = ask_health(world, record, timeout_s=3.0 if progress.announced_ready else 1.0)
                strangers = _strangers_on(world, record) if progress.announced_ready or health.ready else ()
                if strangers:
                    if started.ours:
                        _end(world, record)
                        world.servers.remove(record.name)
                    raise ServerDiedError(_port_shared(record, strangers), (), record.port)
                if health.ready:
                    watch.finish()
                    return _noted_ready(world, record, health)
            limit = watch.over(patience)
            if limit:
                problem = plan_stall_problem(
                    record.name,
                    waited_s=watch.waited_s,
                    limit=limit,
                    last_line=progress.last_line,
                    log=record.log,
                    phase=progress.phase,
                )
                if started.ours:
                    _end(world, record)
                raise ProblemError(problem)
            world.clock.sleep(_LOOK_S)
    finally:
        watch.clear()


def _strangers_on(world: World, record: ServerRecord) -> tuple[int, ...]:
    """Processes that listen on the server's port and are none of its own. Two vLLMs may: the kernel then spreads
    connections over them, and each client is answered by either."""
    # What listens for a container is none of our processes.
    holders = () if record.container else port_holders(record.port, record.host)
    return tuple(set(holders) - set(world.processes.session_members(record.pid))) if holders else ()


class _Watch:
    """Follows a start: new log lines, phases on the screen, and how long nothing moved."""

    def __init__(self, world: World, screen: Screen, record: ServerRecord) -> None:
        self._world = world
        self._screen = screen
        self._record = record
        self._reader = LogReader(Path(record.log))
        self._progress = Progress()
        self._shown = 0
        # Seconds since the process began, also where another run began it.
        self._begun = world.clock.monotonic_s() - max(0.0, world.clock.now().timestamp() - record.started_at)
        self._moved = world.clock.monotonic_s()
        self._moved_mark: tuple[int, float] = (0, 0.0)
        self._cpu_looked = 0.0
        self._asked = world.clock.monotonic_s()
        self._announced = False
        self._live = LiveLine(world, screen, quiet=True)

    @property
    def waited_s(self) -> float:
        """Seconds since the process began."""
        return self._world.clock.monotonic_s() - self._begun

    def look(self, *, ended: bool) -> Progress:
        """Read what is new and show it."""
        for line in self._reader.rest() if ended else self._reader.new_lines():
            self._progress = advance(self._progress, line, self.waited_s)
        done = self._progress.phases[:-1]
        for phase in done[self._shown :]:
            self.clear()
            took = (phase.ended_s or 0.0) - phase.began_s
            self._screen.step("ok", phase_title(phase.phase), seconds=took)
        self._shown = len(done)
        if not ended:
            self._status()
        return self._progress

    def _status(self) -> None:
        current = self._progress.phases[-1]
        text = f"{phase_title(current.phase)}  {self.waited_s - current.began_s:.0f} s"
        self._live.show(text, self._progress.fraction)

    def clear(self) -> None:
        """Take the live line away."""
        self._live.clear()

    def finish(self) -> None:
        """Show the end of the last phase."""
        self.clear()
        current = self._progress.phases[-1]
        self._screen.step("ok", phase_title(current.phase), seconds=self.waited_s - current.began_s)
        measured = self._progress.measured
        size = "" if measured.kv_tokens is None else t("KV cache {n} tokens (measured)", n=f"{measured.kv_tokens:,}")
        self._screen.step("ok", t("ready: {url}", url=self._record.url), size, self.waited_s)

    def worth_asking(self) -> bool:
        """At once when the log announces readiness, then each second; each five seconds before (the announcement may
        be a line that is not known here)."""
        now = self._world.clock.monotonic_s()
        if self._progress.announced_ready and not self._announced:
            self._announced = True
        elif now - self._asked < (_ASK_S if self._progress.phase == "serve" else 5 * _ASK_S):
            return False
        self._asked = now
        return True

    def over(self, patience: Patience) -> Literal["", "stall", "total"]:
        """Which limit is passed. CPU time counts as movement: compilers are silent for minutes."""
        now = self._world.clock.monotonic_s()
        if now - self._cpu_looked > 5.0:
            self._cpu_looked = now
            mark = (self._reader.offset, self._world.processes.session_cpu_s(self._record.pid))
            if mark[0] != self._moved_mark[0] or mark[1] > self._moved_mark[1] + 1.0:
                self._moved, self._moved_mark = now, mark
        if now - self._moved > patience.stall_s:
            return "stall"
        return "total" if self.waited_s > patience.total_s else ""


@dataclass(frozen=True, slots=True)
class Health:
    """What a server answered. models: served name -> max_model_len. text: what came where it is not ready."""

    ready: bool
    models: tuple[tuple[str, int | None], ...] = ()
    text: str = ""
    status: int | None = None


def ask_health(world: World, record: ServerRecord, *, timeout_s: float = 3.0) -> Health:
    """Ask `/health`, then `/v1/models` with the key: ready is who answers both, and serves the name of the record."""
    health = world.http.send(
        HttpRequest("GET", record.url + "/health", timeout_s=timeout_s, connect_timeout_s=1.0, trust_env=False)
    )
    if not isinstance(health, HttpReply):
        return Health(False, text=health.text)
    if health.status != 200:
        return Health(False, text=f"GET /health: {health.status}", status=health.status)
    key = world.secrets.get(record.key_reference)
    headers = (("authorization", f"Bearer {key.reveal()}"),) if key else ()
    reply = world.http.send(
        HttpRequest(
            "GET", record.url + "/v1/models", headers, timeout_s=timeout_s, connect_timeout_s=1.0, trust_env=False
        )
    )
    if not isinstance(reply, HttpReply):
        return Health(False, text=reply.text)
    document = reply.json()
    if reply.status != 200 or not isinstance(document, dict):
        return Health(False, text=f"GET /v1/models: {reply.status}", status=reply.status)
    rows = [row for row in document.get("data") or () if isinstance(row, dict)]
    models = tuple((str(row.get("id")), _whole(row.get("max_model_len"))) for row in rows)
    if record.served_name not in dict(models):
        names = ", ".join(name for name, _ in models)
        return Health(False, models, t("another server answers there; it serves: {names}", names=names), reply.status)
    return Health(True, models, status=200)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _noted_ready(world: World, record: ServerRecord, health: Health) -> ServerRecord:
    length = dict(health.models).get(record.served_name)
    ready_at = record.ready_at or world.clock.now().timestamp()
    noted = replace(record, ready_at=ready_at, max_model_len=length or record.max_model_len)
    if noted != record:
        with world.servers.changing(record.name):
            now = world.servers.load(record.name)
            if now is not None and (now.pid, now.pid_started) == (record.pid, record.pid_started):
                world.servers.save(noted)
    return noted


class ServerDiedError(ProblemError):
    """A server that ended before it was ready, with the changes that may let it start, and the port that it had."""

    def __init__(self, problem: Problem, remedies: tuple[Remedy, ...], port: int) -> None:
        super().__init__(problem)
        self.remedies = remedies
        self.port = port


def server_died(world: World, record: ServerRecord) -> ServerDiedError:
    """Why a server that was ready ended; what is left of its processes is ended too."""
    code = world.processes.exit_code(record.pid)
    return _death(world, record, code, Progress(phases=(PhaseTime("serve", 0.0),)))


def ended_by_another(world: World, record: ServerRecord) -> bool:
    """Whether another run stopped this server, or replaced it under its name; waits until that run is through."""
    with world.servers.changing(record.name, wait_s=_ANOTHER_S):
        now = world.servers.load(record.name)
    return now is None or (now.pid, now.pid_started) != (record.pid, record.pid_started)


def _death(world: World, record: ServerRecord, code: int | None, progress: Progress) -> ServerDiedError:
    if world.servers.life(record).remains:
        world.processes.end_session(record.pid, patience_s=0)
    world.servers.clear(record)
    if record.container and not ended_by_another(world, record):
        _remove_container(world, record)
    if record.container and code == 137:
        code = -9  # as the engine says that it was killed
    log = Path(record.log)
    try:
        deaths = find_deaths_in_bytes(pieces_of_log(log))
        tail = last_lines(log, 200)
    except OSError as error:
        deaths, tail = (), [str(error)]
    problem = plan_end_problem(
        record.name, code, tuple(death.problem for death in deaths), tail, log=record.log, phase=progress.phase
    )
    room = free_gib(log.parent)
    if not deaths and room is not None and room < _NO_ROOM_GIB:
        # It could not write why it ended, and most likely ended because it could not write.
        problem = disk_full(t("log: {path}", path=record.log))
    return ServerDiedError(problem, deaths[0].remedies if deaths else (), record.port)


# --- stopping


def stop_server(
    world: World,
    screen: Screen,
    name: str,
    *,
    patience_s: float = STOP_PATIENCE_S,
    look: Callable[[World], Machine] | None = None,
) -> bool:
    """End a server with all its processes, see that its port is free again, and forget it.

    patience_s: how long it may take to end by itself, before it is killed. Returns whether anything ran.
    Raises ProblemError for a name that is unknown, or where a part will not end.
    """
    check_name(name)
    with writable(world.paths.servers), world.servers.changing(name):
        record = world.servers.load(name)
        if record is None:
            raise unknown_server(world, name)
        life = world.servers.life(record)
        begun = world.clock.monotonic_s()
        ran = life.alive or bool(life.remains)
        members = world.processes.session_members(record.pid) if ran else ()
        # Whoever was told to stop a server finishes: half of it stopped is worse than either.
        with interrupts_held():
            if ran or record.container:  # a container goes on without the process that showed it
                _end(world, record, patience_s=patience_s, screen=screen)
            world.servers.remove(name)
    if not ran:
        screen.step("skipped", t("`{name}` was not running; its record is gone", name=name))
        return False
    seconds = world.clock.monotonic_s() - begun
    if _port_free(record):
        screen.step("ok", t("`{name}` is stopped", name=name), t("port {port} is free", port=record.port), seconds)
    else:
        holders = ", ".join(str(pid) for pid in port_holders(record.port)) or t("not visible from here")
        text = t("port {port} is held by another process: {holders}", port=record.port, holders=holders)
        screen.step("warning", t("`{name}` is stopped", name=name), text, seconds)
    if record.build in ("cuda", "rocm"):
        _see_gpu_memory_freed(world, screen, members, look)
    return True


def _see_gpu_memory_freed(
    world: World, screen: Screen, pids: tuple[int, ...], look: Callable[[World], Machine] | None
) -> None:
    """The driver gives memory back some moments after a process ended; until it says so, the next start would fail."""
    from wizard.flows.hardware import observe_machine

    held = 0.0
    for _ in range(_GPU_LOOKS):
        held = gpu_memory_of((look or observe_machine)(world), pids)
        if held == 0:
            screen.step("ok", t("its GPU memory is free"))
            return
        world.clock.sleep(1.0)
    screen.step("warning", t("the driver still counts {gib} GiB for its processes", gib=f"{held:.1f}"))


def gpu_memory_of(machine: Machine, pids: Sequence[int]) -> float:
    """GiB that these processes hold on all GPUs, as far as the driver says."""
    wanted = set(pids)
    return sum(
        process.memory_used_gib or 0.0 for gpu in machine.gpus for process in gpu.processes if process.pid in wanted
    )


def _end(
    world: World, record: ServerRecord, *, patience_s: float = STOP_PATIENCE_S, screen: Screen | None = None
) -> None:
    def say_kill() -> None:
        if screen:
            screen.step("warning", t("`{name}` does not end by itself; killing it", name=record.name))

    life = world.servers.life(record)
    # Parts whose leader is gone have nobody to end them in order, and vLLM's engine does not listen to TERM then.
    patience_s = patience_s if life.alive else min(patience_s, 5.0)
    if (life.alive or life.remains) and not world.processes.end_session(
        record.pid, patience_s=patience_s, on_kill=say_kill
    ):
        left = ", ".join(str(pid) for pid in world.processes.session_members(record.pid))
        if left:
            look = f"ps -o pid,stat,wchan:32,cmd -p {left.replace(' ', '')}"
            raise ProblemError(_will_not_end(record, t("pids: {pids}", pids=left), look))
    said = _remove_container(world, record)
    if said:
        engine, name = record.container
        raise ProblemError(_will_not_end(record, said, f"{engine} rm --force {name}"))
    # The kernel gives a port back a moment after the process that held it.
    for _ in range(40):
        if _port_free(record):
            return
        world.clock.sleep(0.05)


def _remove_container(world: World, record: ServerRecord) -> str:
    """End the container, where there is one: a process that only showed it may have been killed without it. Returns
    what the engine says where it is still there."""
    if not record.container:
        return ""
    engine, name = record.container
    said = ""
    for _ in range(_REMOVALS):
        ran = world.processes.run([engine, "rm", "--force", name], env=world.env, timeout_s=60)
        if not ran.code or not _has_container(world, engine, name):
            return ""
        said = (ran.err or ran.out).strip()[-300:] or t("exit status {code}", code=ran.code)
        world.clock.sleep(_ASK_S)  # a removal that the client began itself may be under way
    return said


def _has_container(world: World, engine: str, name: str) -> bool:
    return world.processes.run([engine, "container", "inspect", name], env=world.env, timeout_s=10).code == 0


def _port_free(record: ServerRecord) -> bool:
    with suppress(OSError):
        return port_is_free(record.host, record.port)
    return False


# --- choices


def last_port(world: World, name: str) -> int | None:
    """The port that a server of this name had before it was stopped: its profile keeps it, and clients' files have it.
    None where it never ran."""
    profile = next((p for p in world.profiles.load().by_name.values() if p.server == name), None)
    try:
        return urlsplit(profile.openai_base_url).port if profile else None
    except ValueError:  # a profile that somebody edited
        return None


def _choose_port(world: World, wanted: _Wanted, last: int | None) -> int:
    host, port, avoided = wanted.host, wanted.port, wanted.not_ports
    try:
        if port is not None:
            if port_is_free(host, port):
                return port
            raise ProblemError(_port_taken(world, host, port, wanted.name))
        if last is not None and last not in avoided and port_is_free(host, last):
            return last
        return first_free_port(host, DEFAULT_PORT, PORTS_TRIED, avoided) or free_port(host)
    except OSError as error:
        raise ProblemError(
            Problem(
                "bad-host",
                t("This machine cannot listen on `{host}`.", host=host if port is None else f"{host}:{port}"),
                t("A server listens on an address of its own machine: loopback, one of its own, or 0.0.0.0 for all."),
                saw=(str(error),),
                fix=Fix(t("Leave `--host` out for loopback, or take a port above 1023.")),
            )
        ) from error


def _keep_key(world: World, wanted: _Wanted) -> str:
    name = f"server-{wanted.name}"
    return world.secrets.put(name, wanted.key or world.secrets.get(f"store:{name}") or fresh_key())


def fresh_key() -> Secret:
    """A new random key, in the form that clients and gateways expect of one."""
    return Secret("sk-" + secrets.token_urlsafe(32))


def served_name_of(model: str) -> str:
    """A folder is served by its own name; a hub id as it is."""
    return Path(model).name if os.sep in model and Path(model).is_absolute() else model


# --- problems


def _windows() -> Problem:
    return Problem(
        "platform-unsupported",
        t("vLLM does not run on Windows itself."),
        fix=Fix(t("Run llm-setup inside WSL 2."), ("wsl --install", "wsl llm-setup init")),
    )


def _name_taken(running: ServerRecord, other: str) -> Problem:
    return Problem(
        "server-name-taken",
        t("Another server runs as `{name}`.", name=running.name),
        t("One name is one server, so that clients and `stop` mean the same."),
        saw=(t("running: {model} on {url}", model=running.model, url=running.url), t("differs in: {what}", what=other)),
        fix=Fix(
            t("Stop it, or give the new one a name of its own with `--name`."), (f"llm-setup stop {running.name}",)
        ),
    )


def _will_not_end(record: ServerRecord, saw: str, command: str) -> Problem:
    return Problem(
        "server-will-not-end",
        t("Processes of server `{name}` do not end.", name=record.name),
        t("A process that waits in the kernel (a driver, a dead network disk) cannot be killed."),
        saw=(saw,),
        fix=Fix(t("Look what they wait for."), (command,)),
    )


def _unknown_holder(world: World, name: str) -> Problem:
    noted = world.files.read_bytes(world.servers.pid_path(name)) or b""
    return Problem(
        "server-record-lost",
        t("A process of a server `{name}` lives, whose record is gone.", name=name),
        saw=(t("pid: {pid}", pid=noted.decode("ascii", "replace").strip() or t("unknown")),),
        fix=Fix(
            t("End it by its pid, or use another name with `--name`."),
            (shlex.join(("fuser", "-v", str(world.servers.folder / f"{name}.life"))),),
        ),
    )


def unknown_server(world: World, name: str) -> ProblemError:
    """The problem with a name that no server has."""
    names = world.servers.names()
    return ProblemError(
        Problem(
            "server-unknown",
            t("There is no server `{name}`.", name=name),
            saw=(t("known: {names}", names=", ".join(names) or t("none")),),
            fix=Fix(t("See the list."), ("llm-setup status",)),
        )
    )


def _port_shared(record: ServerRecord, strangers: tuple[int, ...]) -> Problem:
    return Problem(
        "port-in-use",
        t("Another process listens on port {port} too.", port=record.port),
        t("vLLM lets several processes listen on one port, and the system spreads requests over all of them."),
        saw=(t("held by pid: {pids}", pids=", ".join(map(str, strangers))),),
        fix=Fix(t("Leave `--port` out and a free one is taken, or name another.")),
    )


def _port_taken(world: World, host: str, port: int, name: str) -> Problem:
    own = next(
        (r for n in world.servers.names() if n != name and (r := world.servers.load(n)) is not None and r.port == port),
        None,
    )
    if own is not None and world.servers.life(own).alive:
        saw = t("server `{name}` of llm-setup listens there", name=own.name)
        fix = Fix(t("Stop it, or take another port."), (f"llm-setup stop {own.name}",))
    else:
        pids = ", ".join(str(pid) for pid in port_holders(port)) or t("not visible from here")
        saw = t("held by pid: {pids}", pids=pids)
        fix = Fix(t("Leave `--port` out and a free one is taken, or name another."))
    return Problem(
        "port-in-use",
        t("Port {port} is taken.", port=port),
        t("Only one process can listen on {host}:{port}.", host=host, port=port),
        saw=(saw,),
        fix=fix,
    )
