"""A server's log for people, or its last lines for programs."""

from __future__ import annotations

from pathlib import Path

from wizard.effects.serverlog import LogReader, last_lines
from wizard.effects.world import World
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError
from wizard.serving.phases import clean_line
from wizard.serving.record import check_name
from wizard.ui.screen import Screen

_LOOK_S = 0.3


def log_of(world: World, name: str) -> Path:
    """The log of a server, running or not. Raises ProblemError where there never was one."""
    record = world.servers.load(check_name(name))
    path = Path(record.log) if record else world.servers.log_path(name)
    if not path.exists():
        raise ProblemError(
            Problem(
                "log-missing",
                t("There is no log of a server `{name}`.", name=name),
                saw=(str(path),),
                fix=Fix(t("See which servers there are."), ("llm-setup status",)),
            )
        )
    return path


def show_log(screen: Screen, path: Path, count: int) -> None:
    """The last lines, without colours and control characters."""
    lines = [clean_line(line) for line in last_lines(path, count)]
    if screen.as_json:
        screen.document({"status": "ok", "log": str(path), "size_bytes": path.stat().st_size, "lines": lines})
        return
    for line in lines:
        screen.line(line)


def show_added(screen: Screen, reader: LogReader, path: Path, *, over: bool) -> None:
    """What was added to a log that is followed. over: its writer is gone."""
    lines = reader.rest() if over else reader.new_lines()
    skipped = reader.take_skipped()
    if skipped:
        screen.line(t("({mib} MiB are not shown; they are in {path})", mib=f"{skipped / 2**20:.1f}", path=path))
    for line in lines:
        screen.line(clean_line(line))


def follow_log(world: World, screen: Screen, name: str, path: Path) -> None:
    """Print what is added until the server's processes are gone, or Ctrl-C."""
    reader = LogReader(path, followed=True)
    while True:
        record = world.servers.load(name)
        over = record is None or not world.servers.life(record).alive
        show_added(screen, reader, path, over=over)
        if over:
            return
        world.clock.sleep(_LOOK_S)
