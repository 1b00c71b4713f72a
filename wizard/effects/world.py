"""Everything outside, in one value that is passed in; tests pass their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from wizard.effects.clock import Clock
from wizard.effects.files import Files
from wizard.effects.http import Http
from wizard.effects.paths import StatePaths, state_paths
from wizard.effects.processes import Processes
from wizard.effects.profiles import ProfileStore
from wizard.effects.secrets import SecretStore
from wizard.effects.servers import ServerStore

Platform = Literal["linux", "darwin", "windows"]


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
    processes: Processes = field(default_factory=Processes)

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
        return ServerStore(self.files, self.processes, self.paths.servers)


def real_world() -> World:
    """This process's own surroundings."""
    env = dict(os.environ)
    platform: Platform = "windows" if sys.platform == "win32" else "darwin" if sys.platform == "darwin" else "linux"
    return World(
        env=env,
        home=Path.home(),
        cwd=Path.cwd(),
        platform=platform,
        paths=state_paths(env),
        files=Files(),
        http=Http(),
        clock=Clock(),
    )
