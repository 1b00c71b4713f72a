"""`clients verify`: each client's own kind of request, from the file as written; with `--run` its own program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from wizard.clients.fit import holds_first_request
from wizard.clients.read import Triple, files_to_read, read_triple
from wizard.clients.spec import ClientSpec, Protocol
from wizard.effects.children import run_captured, scratch_folder
from wizard.effects.installed import find_program
from wizard.effects.world import World
from wizard.endpoint import replies, requests
from wizard.endpoint.exchange import HttpFailure, HttpReply, HttpRequest
from wizard.endpoint.model import Endpoint
from wizard.endpoint.replies import Judged
from wizard.flows.clients import applied_names, choose_clients, load_clients, places_of, read_contents, with_our_key
from wizard.i18n import t
from wizard.secret import redact
from wizard.ui.screen import Mark, Screen

# context: the request was answered, and the client's own first one, which is far longer, cannot be.
VerifyStatus = Literal["ok", "failed", "context", "skipped"]

PROMPT = "Reply with one word: ready"
_RUN_TIMEOUT_S = 120.0
# Of each protocol: how a whole answer is judged, and how a streamed one.
_Judge = Callable[[HttpReply | HttpFailure], Judged]
_JUDGES: dict[Protocol, tuple[_Judge, _Judge]] = {
    "chat": (replies.judge_chat, replies.judge_chat_stream),
    "responses": (replies.judge_responses, replies.judge_responses_stream),
    "messages": (replies.judge_messages, replies.judge_messages_stream),
}
_MARKS: dict[VerifyStatus, Mark] = {"ok": "ok", "failed": "failed", "context": "warning", "skipped": "skipped"}


@dataclass(frozen=True, slots=True)
class Verified:
    """One client's verdict. request: what was sent, without the key. ours: its files name an endpoint, or nobody reads
    them back."""

    client: str
    how: Literal["request", "run"]
    status: VerifyStatus
    detail: str
    request: str = ""
    seconds: float = 0.0
    ours: bool = True

    def as_json(self) -> dict[str, Any]:
        """For `clients verify --json`."""
        return {
            "client": self.client,
            "how": self.how,
            "status": self.status,
            "detail": redact(self.detail),
            "request": self.request,
            "duration_ms": round(self.seconds * 1000),
        }


def verify_clients(world: World, screen: Screen, names: Sequence[str], *, run: bool = False) -> tuple[Verified, ...]:
    """Verify the named clients, or all that are applied. Nothing is retried."""
    clients = load_clients(world)
    chosen = choose_clients(clients, names or [name for name in applied_names(world) if name in clients])
    places = places_of(world)
    done: list[Verified] = []
    rooms = _Rooms(world)
    for client in chosen:
        triple = read_triple(client.spec, places, read_contents(world, files_to_read(client.spec, places)))
        triple = with_our_key(world, triple) if triple else None
        done.append(_verify_by_request(world, client.spec, triple, rooms))
        _show(screen, client.spec, done[-1])
        if run:
            done.append(_verify_by_run(world, client.spec))
            _show(screen, client.spec, done[-1])
    return tuple(done)


def _show(screen: Screen, spec: ClientSpec, verified: Verified) -> None:
    how = t("{title}: its own request", title=spec.title)
    if verified.how == "run":
        how = t("{title}: its own program", title=spec.title)
    screen.step(_MARKS[verified.status], how, verified.detail, verified.seconds or None)


def request_as_client(spec: ClientSpec, triple: Triple) -> tuple[HttpRequest, Endpoint]:
    """The client's own kind of request: its protocol, URL form, header of the key; tools and a stream where it asks for
    them."""
    base = (triple.base_url or "").rstrip("/")
    messages = spec.protocol == "messages"
    endpoint = Endpoint(spec.name, base, base if messages else None, triple.model or "", triple.key, kind="unknown")
    tools = "tools" in spec.needs
    if messages:
        from_api_key = triple.key_source.endswith("ANTHROPIC_API_KEY")
        request = requests.messages_request(
            endpoint,
            stream=spec.streams,
            tools=[requests.messages_tool()] if tools else None,
            auth="x-api-key" if from_api_key else "bearer",
        )
    elif spec.protocol == "responses":
        request = requests.responses_request(
            endpoint, stream=spec.streams, tools=[requests.responses_tool()] if tools else None
        )
    elif tools:
        request = requests.chat_request(
            endpoint, stream=spec.streams, max_tokens=16, tools=[requests.function_tool()], tool_choice="auto"
        )
    else:
        request = requests.chat_request(endpoint, stream=spec.streams)
    sent = {name.lower() for name, _ in request.headers}
    extra = tuple((name, value) for name, value in spec.headers if name.lower() not in sent)
    return HttpRequest(
        request.method,
        request.url,
        (*request.headers, *extra),
        json_body=request.json_body,
        timeout_s=request.timeout_s,
    ), endpoint


class _Rooms:
    """How many tokens the model of an endpoint holds, where its list of models says so; each list is asked for once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._listed: dict[tuple[str, str], dict[str, int | None]] = {}

    def __call__(self, spec: ClientSpec, endpoint: Endpoint) -> int | None:
        base = endpoint.openai_base_url + ("/v1" if spec.protocol == "messages" else "")
        asked = (base, endpoint.key_hint)
        if asked not in self._listed:
            request = requests.models_request(replace(endpoint, openai_base_url=base))
            judged = replies.judge_models(self._world.http.send(request))
            self._listed[asked] = judged.value if judged.ok else {}
        return self._listed[asked].get(endpoint.model)


def _verify_by_request(world: World, spec: ClientSpec, triple: Triple | None, rooms: _Rooms) -> Verified:
    if not spec.read.base_url:
        # Nothing says where its URL stands (curl's is a whole request): what is there was not looked at.
        return Verified(spec.name, "request", "skipped", t("not checked: its files are not read back; start it once"))
    if triple is None or not triple.base_url or not triple.model:
        return Verified(spec.name, "request", "skipped", t("its files hold no base URL and model of ours"), ours=False)
    request, endpoint = request_as_client(spec, triple)
    reply = world.http.send(request)
    judged = _judge(spec, request, reply)
    detail = judged.detail
    if not judged.ok and triple.base_urls:
        detail = t("{detail} (from {source})", detail=judged.detail, source=triple.base_urls[0].source)
    status: VerifyStatus = "ok" if judged.ok else "failed"
    room = rooms(spec, endpoint) if judged.ok else None
    if room is not None and not holds_first_request(spec, room):
        status = "context"
        detail = t(
            "a short request is answered; its own first one is about {first} tokens, and the context holds {room}",
            first=f"{spec.first_request_tokens:,}",
            room=f"{room:,}",
        )
    return Verified(
        spec.name,
        "request",
        status,
        detail,
        f"{request.method} {request.url}",
        reply.elapsed_s,
    )


def _judge(spec: ClientSpec, request: HttpRequest, reply: HttpReply | HttpFailure) -> Judged:
    whole, streamed = _JUDGES[spec.protocol]
    judged = (streamed if request.json_body.get("stream") else whole)(reply)
    # A model may spend the few tokens of the question on reasoning or on a tool call: the road is proved all the same.
    return Judged("", judged.detail, judged.value) if judged.trouble in ("empty-content", "no-usage") else judged


def _verify_by_run(world: World, spec: ClientSpec) -> Verified:
    program = find_program(spec.run.program, world.env) if spec.run.program and spec.run.headless else None
    if program is None:
        return Verified(spec.name, "run", "skipped", t("not installed, or it cannot run without a terminal"))
    begun = world.clock.monotonic_s()
    with scratch_folder(world.env) as folder:
        arguments = [PROMPT if word == "{prompt}" else word for word in spec.run.headless]
        ended = run_captured([str(program), *arguments], world.env, folder, _RUN_TIMEOUT_S)
    seconds = world.clock.monotonic_s() - begun
    said = replies.excerpt(ended.out or ended.err, 120)
    if ended.timed_out:
        detail = t("no end after {limit:.0f} s: {said}", limit=_RUN_TIMEOUT_S, said=said)
        return Verified(spec.name, "run", "failed", detail, "", seconds)
    if ended.code != 0 or not ended.out.strip():
        detail = t("exit code {code}: {said}", code=ended.code, said=said)
        return Verified(spec.name, "run", "failed", detail, "", seconds)
    return Verified(spec.name, "run", "ok", said, "", seconds)
