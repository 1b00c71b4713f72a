"""Prove an endpoint by the requests that clients send: each protocol once, each shown as a line with its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from wizard.effects.world import World
from wizard.endpoint import replies, requests
from wizard.endpoint.exchange import HttpFailure, HttpReply, HttpRequest
from wizard.endpoint.model import Capability, Endpoint
from wizard.endpoint.replies import Judged
from wizard.i18n import t
from wizard.ui.screen import Mark, Screen

StepStatus = Literal["ok", "warning", "error"]

_MARK: dict[StepStatus, Mark] = {"ok": "ok", "warning": "warning", "error": "failed"}


@dataclass(frozen=True, slots=True)
class ProofStep:
    """One request and its verdict."""

    id: str
    title: str
    status: StepStatus
    detail: str
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """As in `init --json`."""
        return {
            "id": self.id,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "duration_ms": round(self.seconds * 1000),
        }


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved. `models` maps each served name to its context in tokens, where the server says it."""

    steps: tuple[ProofStep, ...]
    speaks: frozenset[Capability]
    models: dict[str, int | None]

    @property
    def ok(self) -> bool:
        """Whether a chat client can work: no step failed that every client needs."""
        return not any(step.status == "error" for step in self.steps)

    @property
    def failed(self) -> tuple[ProofStep, ...]:
        """The steps that failed."""
        return tuple(step for step in self.steps if step.status == "error")


def prove_endpoint(world: World, screen: Screen, endpoint: Endpoint, *, ours: bool, calls_tools: bool = True) -> Proof:
    """Send every request, show every verdict. Nothing is retried: what fails here fails for a client, too.

    Protocols that only some clients need (`responses`, `messages`, tools) are errors for a server that we started
    (ours), and warnings elsewhere: the endpoint may do without, and clients that need them are left out.
    Ours is asked past any proxy that the environment names: it is on this machine.
    calls_tools False: the model is known to be too small to call a tool by itself, so its call is forced at once.
    """
    steps: list[ProofStep] = []
    speaks: set[Capability] = set()
    models: dict[str, int | None] = {}
    for step, capability, value in _steps(world, endpoint, ours=ours, calls_tools=calls_tools):
        steps.append(step)
        screen.step(_MARK[step.status], step.title, step.detail, step.seconds)
        if capability:
            speaks.add(capability)
        if step.id == "models" and isinstance(value, dict):
            models = value
    return Proof(tuple(steps), frozenset(speaks), models)


_Ask = Callable[[HttpRequest], tuple[HttpReply | HttpFailure, float]]
_Step = tuple[ProofStep, Capability | None, Any]


def _steps(world: World, endpoint: Endpoint, *, ours: bool, calls_tools: bool) -> Iterator[_Step]:
    def ask(request: HttpRequest) -> tuple[HttpReply | HttpFailure, float]:
        reply = world.http.send(replace(request, trust_env=not ours))
        return reply, reply.elapsed_s

    def verdict(
        id_: str, title: str, judged: Judged, seconds: float, capability: Capability | None, *, needed: bool
    ) -> _Step:
        status: StepStatus = "ok" if judged.ok else "error" if needed else "warning"
        return ProofStep(id_, title, status, judged.detail, seconds), capability if judged.ok else None, judged.value

    reply, seconds = ask(requests.models_request(endpoint))
    judged = replies.judge_models(reply)
    if judged.ok and endpoint.model not in judged.value:
        served = ", ".join(judged.value) or t("nothing")
        judged = Judged(
            "model-missing", t("`{model}` is not served; served: {served}", model=endpoint.model, served=served)
        )
    # Some gateways list no models and serve them all the same; a server that is not there or refuses the key does not.
    turned_away = isinstance(reply, HttpFailure) or reply.status in (401, 403)
    title = t("models, with the key") if endpoint.key else t("models")
    yield verdict("models", title, judged, seconds, "models", needed=ours or turned_away)
    if isinstance(reply, HttpFailure):
        return

    if endpoint.key:
        reply, seconds = ask(requests.models_request(endpoint, auth="none"))
        yield _without_key(reply, seconds, ours=ours)

    reply, seconds = ask(requests.chat_request(endpoint))
    judged = replies.judge_chat(reply)
    if judged.trouble == "empty-content" and judged.value:
        judged = Judged("", t("reasoning only; 16 tokens were too few for an answer"))
    yield verdict("chat", t("chat"), judged, seconds, "chat", needed=True)

    reply, seconds = ask(requests.chat_request(endpoint, stream=True))
    judged = replies.judge_chat_stream(reply)
    yield verdict("stream", t("stream, with usage"), judged, seconds, "stream", needed=True)

    yield _sdk(endpoint, direct=ours)

    yield _tools(ask, endpoint, needed=ours, calls_tools=calls_tools)

    reply, seconds = ask(requests.responses_request(endpoint, tools=[requests.responses_tool()]))
    yield verdict("responses", "/v1/responses", replies.judge_responses(reply), seconds, "responses", needed=ours)

    reply, seconds = ask(requests.messages_request(endpoint, tools=[requests.messages_tool()]))
    yield verdict("messages", "/v1/messages", replies.judge_messages(reply), seconds, "messages", needed=ours)

    reply, seconds = ask(requests.count_tokens_request(endpoint))
    judged = replies.judge_count_tokens(reply)
    yield verdict("count_tokens", "/v1/messages/count_tokens", judged, seconds, "count_tokens", needed=False)


def _without_key(reply: HttpReply | HttpFailure, seconds: float, *, ours: bool) -> _Step:
    """A server that answers without the key is open to everyone who reaches it."""
    title = t("models, without a key")
    if isinstance(reply, HttpReply) and reply.status in (401, 403):
        return (
            ProofStep("models-without-key", title, "ok", t("refused ({status})", status=reply.status), seconds),
            None,
            None,
        )
    judged = replies.judge_models(reply)
    if judged.ok:
        detail = t("answered: this server asks nobody for a key")
        return ProofStep("models-without-key", title, "error" if ours else "warning", detail, seconds), None, None
    return ProofStep("models-without-key", title, "warning", judged.detail, seconds), None, None


def _sdk(endpoint: Endpoint, *, direct: bool) -> _Step:
    """The same through the openai SDK, as most programs do it: its own parsing of the stream must find the text."""
    from wizard.effects.openai_sdk import ask_openai_sdk

    answer = ask_openai_sdk(endpoint.openai_base_url, endpoint.model, endpoint.key, requests.HELLO, direct=direct)
    detail = answer.error or replies.excerpt(answer.text, 60) or t("no text in {n} tokens", n=answer.completion_tokens)
    status: StepStatus = "error" if answer.error else "ok"
    return (
        ProofStep("openai-sdk", t("the openai SDK"), status, replies.excerpt(detail, 160), answer.elapsed_s),
        None,
        None,
    )


def _tools(ask: _Ask, endpoint: Endpoint, *, needed: bool, calls_tools: bool) -> _Step:
    """A call by the model itself; else, on vLLM, the call's text is forced, so that the parser is proved at least."""
    title = t("tool-call round trip")
    seconds, note = 0.0, ""
    judged = Judged("no-tool-call")
    if calls_tools:
        reply, seconds = ask(requests.tool_call_request(endpoint))
        judged = replies.judge_chat(reply, wants_tool_call=True)
    if judged.trouble == "no-tool-call":
        forced = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
        reply, more = ask(requests.tool_call_request(endpoint, constrained_to=forced))
        seconds += more
        second = replies.judge_chat(reply, wants_tool_call=True)
        if second.ok:
            judged, note = second, t("the server parses calls; this model made none unless forced")
        elif not judged.detail:
            judged = second
    if judged.ok:
        reply, more = ask(requests.tool_result_request(endpoint, judged.value))
        seconds += more
        after = replies.judge_chat(reply)
        if after.trouble not in ("", "empty-content"):
            judged = after
    if judged.ok:
        status: StepStatus = "warning" if note else "ok"
        return ProofStep("tools", title, status, note or judged.detail, seconds), "tools", judged.value
    return ProofStep("tools", title, "error" if needed else "warning", judged.detail, seconds), None, None
