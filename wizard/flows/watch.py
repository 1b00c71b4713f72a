"""Servers as they work: their metrics again and again, on a live screen, as lines, or as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from wizard.effects.gpu_watch import GpuWatch
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpReply, HttpRequest
from wizard.endpoint.requests import auth_headers
from wizard.endpoint.urls import check_base_url, without_endpoint, without_version
from wizard.flows.endpoints import KEY_VARIABLE
from wizard.flows.profiles import active_profile, no_endpoint, resolve_key
from wizard.i18n import t
from wizard.problems import ProblemError, usage_error
from wizard.secret import Secret
from wizard.serving.metrics import Load
from wizard.ui.screen import Screen
from wizard.watching.gpus import GpuReading, parse_gpu_lines
from wizard.watching.reading import Reading, Snapshot, parse_snapshot, read_window
from wizard.watching.show import Watched, gpu_line, notes, server_line, table_of

if TYPE_CHECKING:
    from rich.console import RenderableType

_ASK_S = 3.0
_MOST_METRICS_BYTES = 16 * 2**20
_GPU_FIRST_S = 1.0


class GpuLines(Protocol):
    """What reads GPUs; effects.gpu_watch.GpuWatch, or a test's own."""

    def new_lines(self) -> tuple[str, ...]:
        """Lines since the last call."""
        ...

    def close(self) -> None:
        """End it."""
        ...


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """names: servers of llm-setup or profiles; none of them and no URL: every running server, else the active profile.

    count: at most so many looks, None until interrupted. window_s: what percentiles and rates are taken over.
    """

    names: tuple[str, ...] = ()
    base_url: str = ""
    interval_s: float = 2.0
    window_s: float = 30.0
    count: int | None = None


@dataclass(slots=True)
class _Target:
    """A server to ask. root: its URL without `/v1`."""

    name: str
    root: str
    key: Secret | None
    here: bool
    history: list[Snapshot] = field(default_factory=list)


def watch(world: World, screen: Screen, options: WatchOptions, *, gpus: GpuLines | None = None) -> bool:
    """Look until interrupted or `count` looks are done; whether every server told its metrics at the last look.

    Raises ProblemError where there is nothing to watch.
    """
    targets = _targets(world, options)
    here = any(target.here for target in targets)
    reader = gpus or (GpuWatch(world.env, options.interval_s) if here else None)
    try:
        return _watch(world, screen, options, targets, reader)
    finally:
        if reader:
            reader.close()


def _watch(
    world: World, screen: Screen, options: WatchOptions, targets: list[_Target], reader: GpuLines | None
) -> bool:
    looks = 0
    lines: list[str] = []
    with ThreadPoolExecutor(len(targets)) as pool, _shown(screen) as show:
        if reader and options.count == 1:
            # A single look has no later one in which the driver's answer could come.
            until = world.clock.monotonic_s() + _GPU_FIRST_S
            while not lines and world.clock.monotonic_s() < until:
                world.clock.sleep(0.05)
                lines += reader.new_lines()
        while True:
            begun = world.clock.monotonic_s()
            servers = tuple(pool.map(lambda target: _look(world, target, options.window_s), targets))
            if reader:
                lines = [*lines, *reader.new_lines()][-256:]
            readings = parse_gpu_lines(lines)
            show(_Look(world.clock.now().timestamp(), servers, readings))
            looks += 1
            if options.count is not None and looks >= options.count:
                return all(server.reading is not None for server in servers)
            world.clock.sleep(max(0.0, options.interval_s - (world.clock.monotonic_s() - begun)))


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    servers: tuple[Watched, ...]
    gpus: tuple[GpuReading, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "status": "ok" if all(server.reading for server in self.servers) else "error",
            "at": round(self.at, 3),
            "servers": [
                {
                    "name": server.name,
                    "url": server.url,
                    "error": server.error or None,
                    **(server.reading or Reading(Load(), None)).as_json(),
                }
                for server in self.servers
            ],
            "gpus": [gpu.as_json() for gpu in self.gpus],
        }


# --- what to watch


def _targets(world: World, options: WatchOptions) -> list[_Target]:
    found = [_named(world, name) for name in dict.fromkeys(options.names)]
    if options.base_url:
        root = without_version(without_endpoint(check_base_url(options.base_url)))
        text = world.env.get(KEY_VARIABLE, "").strip()
        found.append(_Target(root, root, Secret(text) if text else None, _is_here(root)))
    if not found:
        found = [target for name in world.servers.names() if (target := _own(world, name, only_alive=True))]
    if not found:
        profile = active_profile(world)
        if profile is None:
            raise no_endpoint(world)
        found = [_named(world, profile.name)]
    return found


def _named(world: World, name: str) -> _Target:
    own = _own(world, name)
    if own:
        return own
    profile = world.profiles.load().by_name.get(name)
    if profile is None:
        known = ", ".join(dict.fromkeys((*world.servers.names(), *world.profiles.load().by_name))) or t("none")
        raise usage_error(
            "unknown-server-or-profile",
            t("There is neither a server nor a profile `{name}`.", name=name[:80]),
            t("Known: {names}.", names=known),
            "llm-setup status",
            "llm-setup profiles list",
        )
    root = without_version(profile.openai_base_url)
    return _Target(name, root, resolve_key(world, profile), _is_here(root))


def _own(world: World, name: str, *, only_alive: bool = False) -> _Target | None:
    try:
        record = world.servers.load(name) if name in world.servers.names() else None
    except ProblemError:
        if only_alive:
            return None  # one broken record does not hide the servers that run; `status` tells of it
        raise
    if record is None or (only_alive and not world.servers.life(record).alive):
        return None
    return _Target(name, record.url, world.secrets.get(record.key_reference), here=True)


def _is_here(root: str) -> bool:
    return any(f"//{host}" in root for host in ("127.0.0.1", "localhost", "[::1]"))


# --- looking


def _look(world: World, target: _Target, window_s: float) -> Watched:
    reply = world.http.send(
        HttpRequest(
            "GET",
            target.root + "/metrics",
            auth_headers(target.key),
            timeout_s=_ASK_S,
            connect_timeout_s=1.0,
            trust_env=not target.here,
            max_body_bytes=_MOST_METRICS_BYTES,
        )
    )
    if not isinstance(reply, HttpReply):
        return Watched(target.name, target.root, None, t("does not answer: {why}", why=reply.text))
    if reply.status != 200:
        told = f"GET /metrics: {reply.status}"
        if reply.status == 404:
            told = t("no /metrics (404): vLLM has them, most gateways show none; watch the server behind it")
        return Watched(target.name, target.root, None, told)
    now = parse_snapshot(reply.text, world.clock.monotonic_s())
    if not now.has_metrics:
        return Watched(target.name, target.root, None, t("its /metrics holds none of vLLM's metrics"))
    target.history.append(now)
    # One snapshot older than the window is what the window begins with.
    while len(target.history) > 2 and now.at_s - target.history[1].at_s >= window_s:
        del target.history[0]
    return Watched(target.name, target.root, read_window(target.history, window_s))


# --- showing


class _Show(Protocol):
    def __call__(self, look: _Look) -> None: ...


@contextmanager
def _shown(screen: Screen) -> Iterator[_Show]:
    """How looks are shown: JSON lines, a live table on a terminal, plain lines elsewhere."""
    if screen.as_json:
        yield lambda look: screen.document(look.as_json(), one_line=True)
    elif screen.interactive and not screen.plain:
        with _live_table(screen) as show:
            yield show
    else:
        yield lambda look: _say(screen, look)


def _say(screen: Screen, look: _Look) -> None:
    from datetime import UTC, datetime

    stamp = datetime.fromtimestamp(look.at, UTC).strftime("%H:%M:%SZ")
    for server in look.servers:
        screen.line(f"{stamp} {server_line(server)}")
    for gpu in look.gpus:
        screen.line(f"{stamp} {gpu_line(gpu)}")
    for note in notes(look.servers):
        screen.step("warning", note)


@contextmanager
def _live_table(screen: Screen) -> Iterator[_Show]:
    from rich.console import Console
    from rich.live import Live

    console = Console(file=screen.people, no_color=not screen.colour, highlight=False)
    with Live(console=console, auto_refresh=False, transient=False) as live:
        yield lambda look: live.update(_table(screen, look), refresh=True)


def _table(screen: Screen, look: _Look) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from wizard.secret import redact

    table = Table(box=box.SIMPLE if screen.symbols else box.ASCII, pad_edge=False)
    heads, *rows = table_of(look.servers, screen.columns)
    for at, head in enumerate(heads):
        table.add_column(Text(redact(head)), justify="left" if at == 0 else "right")
    for row in rows:
        table.add_row(*(Text(redact(cell)) for cell in row))
    alone = [Text(redact(f"! {server_line(server)}"), style="red") for server in look.servers if not server.reading]
    below = [Text(gpu_line(gpu)) for gpu in look.gpus] + [Text(note, style="yellow") for note in notes(look.servers)]
    return Group(table, *alone, *below) if len(alone) < len(look.servers) else Group(*alone, *below)
