"""A server that is a table of routes, and the doctor run against it without a socket."""

from __future__ import annotations

import fnmatch
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from wizard.doctor.engine import Diagnosis, examine
from wizard.doctor.manners import wire_of
from wizard.doctor.observations import AddressResult, AuthStyle, Context, NetworkFacts, Observations, Target
from wizard.effects.clock import Clock
from wizard.effects.files import Files
from wizard.effects.http import HttpFailure, HttpReply, HttpRequest
from wizard.effects.paths import state_paths
from wizard.effects.world import World
from wizard.flows.clients import load_clients
from wizard.flows.probe import Limits, Prober
from wizard.secret import Secret

HOST = "http://server.test:8000"
Headers = Mapping[str, str]
When = Callable[[dict[str, Any], Headers], bool]
HTML_PAGE = "<!doctype html><html><head><title>Gateway</title></head><body></body></html>"
NOT_FOUND = {"detail": "Not Found"}
CHAT_OK = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ready"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2},
}
MESSAGE_OK = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "ready"}],
    "stop_reason": "end_turn",
}
RESPONSE_OK = {
    "object": "response",
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ready"}]}],
}
MODELS_OK = {"object": "list", "data": [{"id": "m", "object": "model"}]}


@dataclass(frozen=True)
class Route:
    """The first route whose method, path and condition fit answers."""

    path: str
    body: Any
    status: int = 200
    method: str = "POST"
    kind: str = "application/json"
    when: When | None = None
    headers: tuple[tuple[str, str], ...] = ()
    cut: str = ""


def models(*ids: str, at: str = "/v1", **extra: Any) -> Route:
    """A list of models."""
    return Route(
        f"{at}/models", {"object": "list", "data": [{"id": name, **extra} for name in ids or ("m",)]}, method="GET"
    )


def chat(body: Any = None, status: int = 200, at: str = "/v1", **rest: Any) -> Route:
    """An answer of chat completions."""
    return Route(f"{at}/chat/completions", CHAT_OK if body is None else body, status, **rest)


def messages(body: Any = None, status: int = 200, at: str = "", **rest: Any) -> Route:
    """An answer of Anthropic's messages."""
    return Route(f"{at}/v1/messages", MESSAGE_OK if body is None else body, status, **rest)


def responses(body: Any = None, status: int = 200, at: str = "/v1", **rest: Any) -> Route:
    """An answer of the Responses API."""
    return Route(f"{at}/responses", RESPONSE_OK if body is None else body, status, **rest)


def error(message: str, **rest: Any) -> dict[str, Any]:
    """An error in OpenAI's form."""
    return {"error": {"message": message, **rest}}


def roles(body: dict[str, Any]) -> list[str]:
    """The roles of a request's messages."""
    items = body.get("messages", body.get("input"))
    return [str(item.get("role")) for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def sends(*names: str) -> When:
    """The request has one of these fields."""
    return lambda body, _: any(body.get(name) for name in names)


def has_role(name: str) -> When:
    """The request has a message of that role."""
    return lambda body, _: name in roles(body)


def starts_with_system(body: dict[str, Any], _: Headers) -> bool:
    """The first message is a system message."""
    return roles(body)[:1] == ["system"]


def same_role_twice(body: dict[str, Any], _: Headers) -> bool:
    """Two messages of one role in a row."""
    found = roles(body)
    return any(a == b for a, b in itertools.pairwise(found))


def content_is_list(body: dict[str, Any], _: Headers) -> bool:
    """Some message's content is a list of parts."""
    return any(isinstance(item.get("content"), list) for item in body.get("messages", []))


def streams(body: dict[str, Any], _: Headers) -> bool:
    """A stream is asked for."""
    return body.get("stream") is True


def tool_of(*kinds: str) -> When:
    """A tool of one of these types is sent."""
    return lambda body, _: any(tool.get("type") in kinds for tool in body.get("tools") or [])


def without_header(name: str, value: str) -> When:
    """The header is missing or another."""
    return lambda _, headers: headers.get(name) != value


def with_header(name: str) -> When:
    """The header is there."""
    return lambda _, headers: bool(headers.get(name))


@dataclass
class FakeHttp:
    """Answers from the table; proxied requests fail when the environment's proxy is dead."""

    routes: tuple[Route, ...]
    default: Route = field(default_factory=lambda: Route("*", NOT_FOUND, 404))
    proxied: bool = False
    sent: list[HttpRequest] = field(default_factory=list)

    def send(self, request: HttpRequest) -> HttpReply | HttpFailure:
        """One exchange."""
        self.sent.append(request)
        if self.proxied and request.trust_env:
            return HttpFailure("refused", "ConnectionRefusedError: the proxy", 0.01)
        parts = urlsplit(request.url)
        if parts.scheme == "https":
            return HttpFailure("tls", "SSLError: WRONG_VERSION_NUMBER", 0.01)
        body = request.json_body if isinstance(request.json_body, dict) else {}
        headers = {name.lower(): value for name, value in request.headers}
        route = next(
            (
                r
                for r in self.routes
                if r.method in ("*", request.method)
                and fnmatch.fnmatchcase(parts.path, r.path)
                and (r.when is None or r.when(body, headers))
            ),
            self.default,
        )
        raw = (
            route.body
            if isinstance(route.body, bytes)
            else (
                route.body.encode()
                if isinstance(route.body, str)
                else json.dumps(route.body, ensure_ascii=False).encode()
            )
        )
        most = request.most_bytes(route.status)
        cut = route.cut if len(raw) <= most else f"more than {most} bytes"
        raw = raw[:most]
        return HttpReply(route.status, (("content-type", route.kind), *route.headers), raw, 0.01, 0.01, cut)


class FakeNetwork:
    """Every host accepts."""

    def look(self, scheme: str, host: str, port: int, **_: Any) -> NetworkFacts:
        """Open."""
        return NetworkFacts(scheme, host, port, (host,), tcp=(AddressResult(host, port, "open", 0.0),))

    def knock(self, host: str, port: int, timeout_s: float = 1.0) -> AddressResult:
        """Refused."""
        return AddressResult(host, port, "refused", 0.0)

    def own_addresses(self) -> tuple[str, ...]:
        """None."""
        return ()


@dataclass(frozen=True)
class Patient:
    """A client's triple and what it is told."""

    client: str = "openai-sdk"
    base: str = "/v1"
    model: str = "m"
    key: str = "sk-test-123456"
    max_tokens: int | None = None
    context: int | None = None
    env: tuple[tuple[str, str], ...] = ()


def fake_world(tmp_path: Path, http: Any, env: Mapping[str, str]) -> World:
    """A world whose only outside is the table."""
    return World(
        dict(env), tmp_path, tmp_path, "linux", state_paths({"LLM_SETUP_HOME": str(tmp_path)}), Files(), http, Clock()
    )


@pytest.fixture
def examined(tmp_path: Path) -> Callable[..., Diagnosis]:
    """Examine a patient against routes; gives the diagnosis of the endpoint's checks."""

    def run(
        patient: Patient, *routes: Route, default: Route | None = None, cheap: bool = False, auth: AuthStyle = "bearer"
    ) -> Diagnosis:
        env = dict(patient.env)
        proxied = any(name.lower().endswith("_proxy") and name.lower() != "no_proxy" for name in env)
        http = FakeHttp(routes, default or Route("*", NOT_FOUND, 404), proxied)
        world = fake_world(tmp_path, http, env)
        base = patient.base if "://" in patient.base else HOST + patient.base
        known = load_clients(world)
        target = Target(
            client=patient.client,
            base_url=base,
            model=patient.model,
            key=Secret(patient.key) if patient.key else None,
            source="--base-url",
            key_source="LLM_SETUP_API_KEY",
            max_tokens=patient.max_tokens,
            context_tokens=patient.context,
            wire=wire_of(patient.client),
            auth=auth,
            prompt_tokens=known[patient.client].spec.first_request_tokens if patient.client in known else None,
        )
        shared = Observations(
            context=Context("linux"), environment=tuple(env.items()), targets=(target,), explicit=True, probed=True
        )
        seen = Prober(world, Limits(cheap=cheap), FakeNetwork()).examine(shared, target)  # type: ignore[arg-type]
        from wizard.doctor.engine import all_checks

        checks = [check for check in all_checks() if check.scope == "target"]
        return examine(shared, (seen,), checks)

    return run
