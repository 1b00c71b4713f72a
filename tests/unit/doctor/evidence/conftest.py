"""Evidence written down by hand: files, variables, a place."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from wizard.doctor.engine import Check, Unseen
from wizard.doctor.observations import ClientFile, Context, Observations, Target
from wizard.doctor.places import PLACES
from wizard.problems import Problem
from wizard.secret import Secret

Look = Callable[..., Observations]
Codes = Callable[..., list[str]]


@pytest.fixture
def look() -> Look:
    """Observations from files (`~/...` or `./...` -> text or JSON), variables and options of Observations."""

    def build(
        files: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        base_url: str = "",
        key: str = "",
        client: str = "openai-sdk",
        assumed: Any = None,
        **more: Any,
    ) -> Observations:
        owners = {place.path: place.client for place in PLACES}
        found = tuple(
            ClientFile(
                owners[path],
                path.replace("~", "/home/ann", 1) if path.startswith("~") else path.replace(".", "/work", 1),
                text if isinstance(text, str) else json.dumps(text),
                scope="user" if path.startswith("~") else "project",
            )
            for path, text in (files or {}).items()
        )
        targets = ()
        if base_url:
            secret = Secret(key) if key else None
            targets = (Target(client, base_url, "m", secret, "--base-url"),)
        return Observations(
            Context("linux", assumed=assumed),
            environment=tuple(sorted((env or {}).items())),
            files=found,
            targets=targets,
            **{"offline": True, "explicit": bool(base_url), **more},
        )

    return build


@pytest.fixture
def problems() -> Callable[..., list[Problem]]:
    """The findings of a module's checks, errors first."""

    def run(checks: tuple[Check, ...], seen: Observations) -> list[Problem]:
        found: list[Problem] = []
        for check in checks:
            verdict = check.judge(seen)
            if isinstance(verdict, Problem):
                found.append(verdict)
            elif verdict is not None and not isinstance(verdict, Unseen):
                found.extend(verdict)
        return sorted(found, key=lambda problem: problem.severity != "error")

    return run
