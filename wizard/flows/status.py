"""What the servers of this machine are doing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wizard.effects.serverlog import last_lines, pieces_of_log
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpReply, HttpRequest
from wizard.flows.serve import Health, ask_health, gpu_memory_of
from wizard.hardware.machine import Machine
from wizard.i18n import t
from wizard.problems import Problem, ProblemError
from wizard.serving.deaths import find_deaths_in_bytes
from wizard.serving.endings import last_error
from wizard.serving.metrics import Load, parse_load
from wizard.serving.phases import Progress, advance, phase_title
from wizard.serving.record import ServerRecord, State, check_name
from wizard.ui.screen import Screen


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server as it is now. uptime_s: since the process began; None when it does not live."""

    record: ServerRecord
    state: State
    uptime_s: float | None
    health: Health
    load: Load
    phase: str = ""
    error: str = ""
    processes: int = 0
    gpu_memory_gib: float | None = None

    def as_json(self) -> dict[str, Any]:
        """One row of `status --json`."""
        record = self.record
        return {
            "name": record.name,
            "state": self.state,
            "phase": self.phase or None,
            "pid": record.pid if self.uptime_s is not None else None,
            "processes": self.processes,
            "url": record.url,
            "base_url": record.url + "/v1",
            "model": record.model,
            "served_name": record.served_name,
            "max_model_len": dict(self.health.models).get(record.served_name) or record.max_model_len,
            "vllm_version": record.vllm_version,
            "uptime_s": None if self.uptime_s is None else round(self.uptime_s, 1),
            "started_at": record.started_at,
            **self.load.as_json(),
            "gpu_memory_gib": None if self.gpu_memory_gib is None else round(self.gpu_memory_gib, 2),
            "last_error": self.error or None,
            "log": record.log,
            "command": list(record.command),
        }


def server_statuses(world: World, names: tuple[str, ...] = ()) -> tuple[tuple[ServerStatus, ...], tuple[Problem, ...]]:
    """The servers of these names, or all, and what is wrong with records that do not parse."""
    found: list[ServerStatus] = []
    problems: list[Problem] = []
    for name in names or world.servers.names():
        check_name(name)
        try:
            record = world.servers.load(name)
        except ProblemError as error:
            problems.append(error.problem)
            continue
        if record is not None:
            found.append(observe_server(world, record))
    return tuple(found), tuple(problems)


def observe_server(
    world: World, record: ServerRecord, *, look: Callable[[World], Machine] | None = None
) -> ServerStatus:
    """One server, asked: its processes, its health, its metrics, its GPU memory, its log where it does not answer."""
    status = _observe(world, record)
    if status.processes and record.build in ("cuda", "rocm"):
        from wizard.flows.hardware import observe_machine

        held = gpu_memory_of((look or observe_machine)(world), world.processes.session_members(record.pid))
        # A driver that hides other containers' processes says nothing, which is not zero.
        status = replace(status, gpu_memory_gib=held or None)
    return status


def _observe(world: World, record: ServerRecord) -> ServerStatus:
    life = world.servers.life(record)
    if not life.alive:
        return ServerStatus(
            record, "dead", None, Health(False), Load(), error=_root_cause(record), processes=len(life.remains)
        )
    uptime_s = max(0.0, world.clock.now().timestamp() - record.started_at)
    processes = 1 + len(life.remains)
    health = ask_health(world, record)
    if health.ready:
        return ServerStatus(record, "ready", uptime_s, health, _ask_load(world, record), processes=processes)
    if record.ready_at is None:
        progress = Progress()
        for line in _tail(record, 2000):
            progress = advance(progress, line, 0.0)
        phase = phase_title(progress.phase)
        return ServerStatus(record, "starting", uptime_s, health, Load(), phase=phase, processes=processes)
    error = health.text or _last_error(record)
    return ServerStatus(record, "unhealthy", uptime_s, health, Load(), error=error, processes=processes)


def _ask_load(world: World, record: ServerRecord) -> Load:
    reply = world.http.send(
        HttpRequest("GET", record.url + "/metrics", timeout_s=3.0, connect_timeout_s=1.0, trust_env=False)
    )
    return parse_load(reply.text) if isinstance(reply, HttpReply) and reply.status == 200 else Load()


def _tail(record: ServerRecord, count: int) -> list[str]:
    try:
        return last_lines(Path(record.log), count)
    except OSError:
        return []


def _root_cause(record: ServerRecord) -> str:
    """What ended it, as far as its log says; empty where it was killed or stopped from outside."""
    try:
        deaths = find_deaths_in_bytes(pieces_of_log(Path(record.log)))
    except OSError:
        return ""
    if deaths:
        return f"{deaths[0].problem.what} [{deaths[0].problem.code}]"
    return _last_error(record)


def _last_error(record: ServerRecord) -> str:
    return last_error(_tail(record, 200))


def show_statuses(screen: Screen, statuses: tuple[ServerStatus, ...]) -> None:
    """The servers for people."""
    if not statuses:
        screen.line(t("No server was started by llm-setup. Start one: `llm-setup serve`."))
        return
    for status in statuses:
        record = status.record
        mark = {"ready": "ok", "starting": "running", "dead": "failed", "unhealthy": "failed"}[status.state]
        state = {
            "ready": t("ready"),
            "starting": t("starting: {phase}", phase=status.phase),
            "dead": t("dead"),
            "unhealthy": t("does not answer"),
        }[status.state]
        screen.step(mark, f"{record.name}  {state}", record.url)  # type: ignore[arg-type]
        facts = [record.served_name, f"vLLM {record.vllm_version}"]
        if status.uptime_s is not None:
            facts.append(t("up {time}, pid {pid}", time=_duration(status.uptime_s), pid=record.pid))
        screen.line("      " + ", ".join(facts))
        load = status.load
        if load.requests_running is not None:
            usage = "?" if load.kv_cache_usage is None else f"{load.kv_cache_usage:.1%}"
            hits = "-" if load.prefix_hit_rate is None else f"{load.prefix_hit_rate:.0%}"
            screen.line(
                "      "
                + t(
                    "{running} running, {waiting} waiting, KV cache {usage} used, prefix hits {hits}",
                    running=load.requests_running,
                    waiting=load.requests_waiting if load.requests_waiting is not None else "?",
                    usage=usage,
                    hits=hits,
                )
            )
        if status.gpu_memory_gib is not None:
            screen.line("      " + t("{gib} GiB of GPU memory", gib=f"{status.gpu_memory_gib:.1f}"))
        if status.error:
            screen.line("      " + t("last error: {error}", error=status.error[:300]))
        if status.state == "dead" and status.processes:
            screen.line("      " + t("{n} of its processes are left; `llm-setup stop` ends them", n=status.processes))


def _duration(seconds: float) -> str:
    whole = int(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
