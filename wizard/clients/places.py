"""Where a client's files are on this machine: pure path arithmetic over variables, home and platform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from wizard.clients.shells import users_shell
from wizard.clients.spec import ClientSpec, FileSpec, PlatformName, Scope


@dataclass(frozen=True, slots=True)
class Places:
    """What paths depend on. `own`: llm-setup's own config folder, for side files. `has`: whether a program is
    installed."""

    env: Mapping[str, str]
    home: Path
    cwd: Path
    platform: PlatformName
    own: Path
    has: Callable[[str], bool] = lambda program: False

    def resolve(self, pattern: str) -> Path:
        """`~/x`, `./x`, `{xdg_config}/x`, `{config}/x` or `%APPDATA%/x` as an absolute path."""
        if pattern.startswith("~"):
            return self.home / pattern[1:].lstrip("/\\")
        if pattern.startswith("{config}"):
            return self.own / pattern[len("{config}") :].lstrip("/\\")
        if pattern.startswith("{xdg_config}"):
            base = Path(self.env.get("XDG_CONFIG_HOME") or self.home / ".config")
            return base / pattern[len("{xdg_config}") :].lstrip("/\\")
        if pattern.startswith("%APPDATA%"):
            roaming = self.env.get("APPDATA") or str(self.home / "AppData" / "Roaming")
            return Path(roaming) / pattern[len("%APPDATA%") :].lstrip("/\\")
        path = Path(pattern)
        return path if path.is_absolute() else self.cwd / path

    def candidates(self, file: FileSpec) -> tuple[Path, ...]:
        """Where the file may be, preferred first."""
        for variable, pattern in file.moved_by:
            value = self.env.get(variable, "")
            if value:
                moved = Path(pattern.replace("{}", value, 1))
                return (moved if moved.is_absolute() else self.resolve(str(moved)),)
        return tuple(self.resolve(pattern) for pattern in (file.target, *file.alternatives))

    def choose(self, file: FileSpec, exists: Callable[[Path], bool]) -> Path:
        """The candidate that is there already, else the preferred one."""
        candidates = self.candidates(file)
        return next((path for path in candidates if exists(path)), candidates[0])

    def applies(self, file: FileSpec, scope: Scope, exists: Callable[[Path], bool]) -> bool:
        """Whether the file is one to write here: its scope, platform, shell, programs and presence fit."""
        if file.scope != scope or (file.on and self.platform not in file.on):
            return False
        there = any(exists(path) for path in self.candidates(file))
        if file.shell:
            # Its start-up file is of no use without the program that reads it.
            here = not file.programs or any(map(self.has, file.programs))
            return here and (there or self.shell == file.shell)
        if file.programs:
            return there or any(map(self.has, file.programs))
        return there or not file.if_exists

    @property
    def shell(self) -> str:
        """The user's shell by name."""
        return users_shell(self.env, self.platform)


def marker_paths(spec: ClientSpec, places: Places) -> tuple[Path, ...]:
    """Paths whose presence says that the client was used here."""
    return tuple(places.resolve(pattern) for pattern in spec.markers)
