"""A line that changes in place on a terminal; elsewhere a line now and then, so that a log shows that work goes on."""

from __future__ import annotations

from wizard.effects.world import World
from wizard.ui.screen import Screen

_SAY_EVERY_S = 15.0


class LiveLine:
    """What is going on right now."""

    def __init__(self, world: World, screen: Screen, *, quiet: bool = False) -> None:
        """quiet: nothing at all where there is no terminal."""
        self._world = world
        self._screen = screen
        self._quiet = quiet
        self._live = screen.interactive and not screen.plain
        self._written = False
        self._said = world.clock.monotonic_s()

    def show(self, text: str, fraction: float | None = None) -> None:
        """Show the text, with a bar where it is known how far the work is."""
        line = f"  … {bar(fraction)} {text}" if fraction is not None else f"  … {text}"
        if self._live:
            self._screen.people.write(f"\r\x1b[2K{line[: self._screen.columns - 1]}")
            self._screen.people.flush()
            self._written = True
        elif not self._quiet and self._world.clock.monotonic_s() - self._said > _SAY_EVERY_S:
            self._said = self._world.clock.monotonic_s()
            told = f"{fraction:.0%} {text}" if fraction is not None else text
            self._screen.step("running", told) if self._screen.plain else self._screen.line("  " + line)

    def clear(self) -> None:
        """Take the line away, before another is printed."""
        if self._written:
            self._screen.people.write("\r\x1b[2K")
            self._screen.people.flush()
            self._written = False


def bar(fraction: float, width: int = 20) -> str:
    """`[######..............] 30%`."""
    full = round(max(0.0, min(1.0, fraction)) * width)
    return f"[{'#' * full}{'.' * (width - full)}] {fraction:.0%}"
