"""A home of one's own on disk, with the real file effects and nothing on the network."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from wizard.effects.clock import Clock
from wizard.effects.files import Files
from wizard.effects.paths import state_paths
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpFailure, HttpReply, HttpRequest
from wizard.endpoint.model import Endpoint
from wizard.flows.clients import Applied, Restored, apply_clients, restore_clients
from wizard.secret import Secret
from wizard.ui.screen import Screen

PLANTED_KEY = "sk-planted-0123456789abcdefXYZ"


@dataclass
class Network:
    """Answers by URL; whatever is not listed refuses the connection."""

    replies: dict[str, tuple[int, Any]] = field(default_factory=dict)
    sent: list[HttpRequest] = field(default_factory=list)

    def send(self, request: HttpRequest) -> HttpReply | HttpFailure:
        self.sent.append(request)
        if request.url not in self.replies:
            return HttpFailure("refused", "connection refused", 0.0)
        status, body = self.replies[request.url]
        kind = "text/event-stream" if isinstance(body, str) else "application/json"
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        return HttpReply(status, (("content-type", kind),), content, 0.0, 0.0)


class Home:
    """A user's home, project and llm-setup folders below one folder."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None, user: str = "home") -> None:
        self.path = folder / user
        self.project = folder / "project"
        self.state = folder / "state"
        for made in (self.path, self.project):
            made.mkdir(parents=True)
        self.network = Network()
        self.out = io.StringIO()
        self.env = {"LLM_SETUP_HOME": str(self.state), "PATH": "/nowhere", "SHELL": "/bin/bash", **(env or {})}

    @property
    def world(self) -> World:
        return World(
            env=self.env,
            home=self.path,
            cwd=self.project,
            platform="linux",
            paths=state_paths(self.env),
            files=Files(),
            http=self.network,  # type: ignore[arg-type]
            clock=Clock(),
        )

    @property
    def screen(self) -> Screen:
        return Screen(plain=True, out=self.out, err=self.out, env={})

    @property
    def said(self) -> str:
        return self.out.getvalue()

    def write(self, path: str, content: str | bytes, mode: int | None = None) -> Path:
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            target.chmod(mode)
        return target

    def apply(self, *names: str, endpoint: Endpoint | None = None, **options: Any) -> tuple[Applied, ...]:
        return apply_clients(
            self.world, self.screen, endpoint or an_endpoint(), names, **{"yes": True, "offline": True, **options}
        )

    def restore(self, *names: str, **options: Any) -> tuple[Restored, ...]:
        return restore_clients(self.world, self.screen, names, every=not names, **{"yes": True, **options})

    def tree(self) -> dict[str, bytes]:
        """Every file of the user's, by path; llm-setup's own state apart."""
        roots = (self.path, self.project, self.state / "config")
        return {str(p): p.read_bytes() for root in roots for p in sorted(root.rglob("*")) if p.is_file()}


def an_endpoint(**changes: Any) -> Endpoint:
    return replace(
        Endpoint(
            name="local",
            openai_base_url="http://127.0.0.1:8000/v1",
            anthropic_base_url="http://127.0.0.1:8000",
            model="Qwen/Qwen3-8B",
            key=Secret(PLANTED_KEY),
            max_model_len=65536,
        ),
        **changes,
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def make_home(tmp_path: Path) -> type[Home]:
    return Home


@pytest.fixture
def endpoint() -> Endpoint:
    return an_endpoint()


@pytest.fixture
def planted_key() -> str:
    return PLANTED_KEY
