"""Everything outside, in one value that is passed in; tests pass their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from wizard.effects.clock import Clock
from wizard.effects.files import Files
from wizard.effects.paths import StatePaths, remembered_hub, state_paths
from wizard.effects.profiles import ProfileStore
from wizard.effects.secrets import SecretStore

if TYPE_CHECKING:
    from wizard.effects.http import Http
    from wizard.effects.processes import Processes
    from wizard.effects.servers import ServerStore

Platform = Literal["linux", "darwin", "windows"]


class _Late:
    """Stands for an effect that is imported at its first use: `env` in a shell's start-up file sends no request and
    starts no process, and would load TLS and subprocess for nothing (30 ms)."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        if "_made" not in self.__dict__:
            self._made = self._make()
        return getattr(self._made, name)


def _http() -> Http:
    from wizard.effects.http import Http

    return Http()


def _processes() -> Processes:
    from wizard.effects.processes import Processes

    return Processes()


@dataclass(frozen=True)
class World:
    """The process's surroundings. `home` is where client files are looked for."""

    env: Mapping[str, str]
    home: Path
    cwd: Path
    platform: Platform
    paths: StatePaths
    files: Files
    http: Http
    clock: Clock
    processes: Processes = field(default_factory=lambda: cast("Processes", _Late(_processes)))

    @cached_property
    def profiles(self) -> ProfileStore:
        """Named endpoints."""
        return ProfileStore(self.files, self.paths.state / "profiles.json")

    @cached_property
    def secrets(self) -> SecretStore:
        """Keys."""
        return SecretStore(self.files, self.paths.state / "secrets.json", self.env)

    @cached_property
    def servers(self) -> ServerStore:
        """Servers that llm-setup started."""
        from wizard.effects.servers import ServerStore

        return ServerStore(self.files, self.processes, self.paths.servers)


def real_world() -> World:
    """This process's own surroundings."""
    env = dict(os.environ)
    paths = state_paths(env)
    env |= remembered_hub(paths, env)
    platform: Platform = "windows" if sys.platform == "win32" else "darwin" if sys.platform == "darwin" else "linux"
    return World(
        env=env,
        home=Path.home(),
        cwd=Path.cwd(),
        platform=platform,
        paths=paths,
        files=Files(),
        http=cast("Http", _Late(_http)),
        clock=Clock(),
    )
