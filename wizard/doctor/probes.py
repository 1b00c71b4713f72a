"""Which requests tell the causes apart: planned from what is known so far, sent by a flow, read by the checks.

Three rounds. `plan_first`: what the client itself would send, and the cheap questions around it. The searches: where
the API is, and with which key, when it is not where the client looks. `plan_behaviour`: one variation at a time, at
the place that answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from wizard.doctor.manners import manner_of, model_on_the_wire
from wizard.doctor.observations import AuthStyle, RequestSummary, Target, Wire
from wizard.endpoint.exchange import HttpRequest
from wizard.endpoint.requests import (
    ANTHROPIC_VERSION,
    HELLO,
    TOOL_QUESTION,
    function_tool,
    messages_tool,
    responses_tool,
)
from wizard.endpoint.urls import ends_in_version, pasted_endpoint, without_endpoint
from wizard.secret import Secret

_WRONG_KEY = "sk-llm-setup-doctor-wrong-key-000000000000"
_MAX_BODY_BYTES = 2**20
# A question about a path or a list is answered at once or not at all; a model may think.
ASK_TIMEOUT_S = 8.0
# A lost packet is sent again after one second and after three. What is asked when nobody took a connection fits into
# the five seconds that a dead host may cost.
CONNECT_TIMEOUT_S = 3.2
BROWSER = "curl/8.5.0"
ROOMY_TOKENS = 1024
# What clients ask for that set a limit at all, at the most.
MANY_TOKENS = 65_536

# Where gateways and vendors put an OpenAI-compatible API other than at /v1.
_OPENAI_PATHS = (
    "/v1",
    "/api/v1",
    "/openai/v1",
    "/api/openai/v1",
    "/v1/openai",
    "/api",
    "/openai",
    "/v1beta/openai",
    "/compatible-mode/v1",
    "/api/paas/v4",
    "/api/v3",
    "/inference/v1",
    "/llm/v1",
    "/proxy/v1",
    "/engines/v1",
    "/serving-endpoints",
)
_ANTHROPIC_PATHS = (
    "",
    "/anthropic",
    "/api/anthropic",
    "/api",
    "/claude",
    "/apps/anthropic",
    "/v1/anthropic",
    "/openrouter",
)
_WIRE_SUFFIX: dict[Wire, str] = {"chat": "/chat/completions", "responses": "/responses", "messages": "/v1/messages"}


@dataclass(frozen=True, slots=True)
class Probe:
    """A request to send. generates: a model answers it, so it costs tokens; tokens: at most so many, in and out."""

    id: str
    request: HttpRequest
    summary: RequestSummary
    generates: bool = False
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Spot:
    """Where and how to ask: the base as the client holds it, the style of the key, the model's id on the wire."""

    base: str
    auth: AuthStyle
    model: str
    key: Secret | None
    wire: Wire
    user_agent: str
    timeout_s: float
    direct: bool = False


def spot_of(target: Target, timeout_s: float, auth: AuthStyle | None = None) -> Spot:
    """The spot that the client itself uses."""
    manner = manner_of(target.client)
    return Spot(
        base=target.base_url.strip(),
        auth=auth or (target.auth if target.key else "none"),
        model=model_on_the_wire(target.client, target.model),
        key=target.key,
        wire=target.wire,
        user_agent=manner.user_agent,
        timeout_s=timeout_s,
    )


# ---- building ----------------------------------------------------------------------------------------------------


def _auth_headers(spot: Spot, style: AuthStyle) -> tuple[tuple[str, str], ...]:
    key = _WRONG_KEY if style == "wrong" else spot.key.reveal().strip() if spot.key else ""
    if not key or style == "none":
        return ()
    bearer = ("authorization", f"Bearer {key}")
    x_api_key = ("x-api-key", key)
    return {"x-api-key": (x_api_key,), "api-key": (("api-key", key),), "both": (bearer, x_api_key)}.get(
        style, (bearer,)
    )


def get(
    name: str, url: str, spot: Spot, auth: AuthStyle | None = None, *, user_agent: str = "", direct: bool = False
) -> Probe:
    """A GET with the spot's key, or with the style given."""
    style = auth or spot.auth
    headers = (("user-agent", user_agent or spot.user_agent), *_auth_headers(spot, style))
    past = direct or spot.direct
    request = HttpRequest(
        "GET",
        url,
        headers,
        timeout_s=ASK_TIMEOUT_S,
        connect_timeout_s=CONNECT_TIMEOUT_S,
        trust_env=not past,
        max_body_bytes=_MAX_BODY_BYTES,
    )
    return Probe(
        name, request, RequestSummary("GET", url, style if spot.key or style == "wrong" else "none", None, past)
    )


def post(
    name: str,
    url: str,
    spot: Spot,
    body: dict[str, Any],
    auth: AuthStyle | None = None,
    *,
    generates: bool = True,
    headers: tuple[tuple[str, str], ...] = (),
    user_agent: str = "",
    direct: bool = False,
    first_byte_is_enough: bool = False,
    shown: dict[str, Any] | None = None,
) -> Probe:
    """A POST of a JSON body. first_byte_is_enough: hang up then, so that a long answer is cut.

    shown: what the evidence keeps of a body that is too long for it.
    """
    style = auth or spot.auth
    past = direct or spot.direct
    extra = (("anthropic-version", ANTHROPIC_VERSION),) if "/messages" in url else ()
    request = HttpRequest(
        "POST",
        url,
        (("user-agent", user_agent or spot.user_agent), *extra, *headers, *_auth_headers(spot, style)),
        json_body=body,
        timeout_s=spot.timeout_s,
        connect_timeout_s=CONNECT_TIMEOUT_S,
        trust_env=not past,
        max_body_bytes=_MAX_BODY_BYTES,
        first_byte_is_enough=first_byte_is_enough,
    )
    summary = RequestSummary(
        "POST", url, style if spot.key or style == "wrong" else "none", shown or body, past, (*extra, *headers)
    )
    return Probe(name, request, summary, generates, _most_tokens(body, first_byte_is_enough) if generates else 0)


# An answer that is hung up at its first byte goes on until the server notices.
_UNREAD_TOKENS = 32


def _most_tokens(body: dict[str, Any], cut: bool) -> int:
    """What a request may cost at most: its own text and the answer that it allows."""
    limits = (body.get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"))
    answer = _UNREAD_TOKENS if cut else next((limit for limit in limits if isinstance(limit, int)), 0)
    return len(json.dumps(body)) // _CHARACTERS_PER_TOKEN + answer


def url_of(base: str, wire: Wire) -> str:
    """The URL that a client of that protocol asks, given its base URL. One slash at its end is taken off, as all do."""
    return joined(base, _WIRE_SUFFIX[wire])


def models_url(base: str, wire: Wire) -> str:
    """The list of models beside the protocol's endpoint."""
    return joined(base, "/v1/models" if wire == "messages" else "/models")


def joined(base: str, path: str) -> str:
    """The path behind the base, before its query (Azure's `?api-version=`)."""
    before, mark, query = base.partition("?")
    return before.removesuffix("/") + path + mark + query


def hello_body(model: str, wire: Wire, max_tokens: int = 16) -> dict[str, Any]:
    """The smallest request of a protocol."""
    if wire == "responses":
        return {
            "model": model,
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": HELLO}]}],
            "store": False,
            "max_output_tokens": max_tokens,
        }
    return {"model": model, "max_tokens": max_tokens, "messages": [{"role": "user", "content": HELLO}]}


def root_of(url: str) -> str:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


# ---- first round -------------------------------------------------------------------------------------------------


def plan_first(spot: Spot, *, proxied: bool) -> Iterator[Probe]:
    """The client's own question and what surrounds it. proxied: the environment sends this URL through a proxy."""
    base, wire = spot.base, spot.wire
    root = root_of(base)
    yield post("main", url_of(base, wire), spot, hello_body(spot.model, wire))
    yield get("models", models_url(base, wire), spot)
    yield get("models.nokey", models_url(base, wire), spot, "none")
    yield get("models.wrong", models_url(base, wire), spot, "wrong")
    yield get("health", f"{root}/health", spot, "none")
    yield get("openapi", f"{root}/openapi.json", spot, "none")
    yield get("metrics", f"{root}/metrics", spot, "none")
    if spot.wire != "messages" and not ends_in_version(base):
        yield get("models.v1", base.removesuffix("/") + "/v1/models", spot)
    if base.endswith("/"):
        yield post("main.slash", base + _WIRE_SUFFIX[wire], spot, hello_body(spot.model, wire))
    if proxied:
        yield get("models.direct", models_url(base, wire), spot, direct=True)
        yield post("main.direct", url_of(base, wire), spot, hello_body(spot.model, wire), direct=True)


# ---- search ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """Another base that might be meant. kind: how it differs from the configured one."""

    kind: str
    base: str


def candidates(base: str, wire: Wire) -> tuple[Candidate, ...]:
    """Other forms of the base, the likeliest first; the configured one is not among them."""
    tidy = base.rstrip("/")
    root = root_of(tidy)
    stripped = without_endpoint(tidy) if pasted_endpoint(tidy) else tidy
    found: list[Candidate] = []
    if stripped != tidy:
        # An Anthropic client adds `/v1/messages`, so of a pasted `…/v1/messages` the version goes too.
        found.append(Candidate("stripped", _without_v1(stripped) if wire == "messages" else stripped))
    path = urlsplit(stripped).path
    bare = _without_v1(stripped)
    if wire == "messages":
        found.append(Candidate("drop-v1", bare))
    else:
        found.append(Candidate("add-v1", stripped + "/v1"))
        while bare.endswith("/v1"):
            bare = _without_v1(bare)
        found.append(Candidate("drop-v1", bare + "/v1"))
        found.append(Candidate("no-version", bare))
    prefix = urlsplit(bare).path.strip("/")
    if prefix:
        tail = path[len(urlsplit(bare).path) :]
        found.append(Candidate("double-prefix", f"{root}/{prefix}/{prefix}{tail}"))
        found.append(Candidate("no-prefix", f"{root}{tail}" if wire == "messages" else f"{root}/v1"))
        first = prefix.split("/")[0]
        if first != prefix:
            found.append(Candidate("short-prefix", f"{root}/{first}" + ("" if wire == "messages" else "/v1")))
    for known in _ANTHROPIC_PATHS if wire == "messages" else _OPENAI_PATHS:
        found.append(Candidate("vendor", root + known))
    unique: dict[str, Candidate] = {}
    for candidate in found:
        if candidate.base not in (tidy, base):
            unique.setdefault(candidate.base, candidate)
    return tuple(unique.values())


def _without_v1(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def plan_models_search(spot: Spot) -> Iterator[Probe]:
    """Ask every candidate for its list of models: costs nothing."""
    for candidate in candidates(spot.base, spot.wire):
        yield get(f"models@{candidate.base}", models_url(candidate.base, spot.wire), spot)
    bare = _without_v1(spot.base)
    prefix = urlsplit(bare).path.strip("/")
    if prefix:
        root = root_of(bare)
        yield get("ui.prefix", f"{root}/{prefix}/ui/", spot, "none")
        yield get("ui.double", f"{root}/{prefix}/{prefix}/ui/", spot, "none")
        yield get("health.double", f"{root}/{prefix}/{prefix}/health", spot, "none")


def plan_main_search(spot: Spot, bases: tuple[str, ...]) -> Iterator[Probe]:
    """Ask the client's own question at other bases."""
    for base in bases:
        yield post(f"main@{base}", url_of(base, spot.wire), spot, hello_body(spot.model, spot.wire))


def plan_other_wires(spot: Spot, base: str) -> Iterator[Probe]:
    """Which protocols are spoken beside the client's: told from a path that does not exist."""
    openai = base.removesuffix("/") if spot.wire != "messages" else base.removesuffix("/") + "/v1"
    body = hello_body(spot.model, "chat")
    if spot.wire != "chat":
        yield post("other.chat", openai + "/chat/completions", spot, body)
    if spot.wire == "messages" and urlsplit(base).path.strip("/"):
        yield post("other.chat.root", root_of(base) + "/v1/chat/completions", spot, body)
    if spot.wire == "chat":
        yield post(
            "other.completions", openai + "/completions", spot, {"model": spot.model, "prompt": "1", "max_tokens": 1}
        )


def plan_auth(spot: Spot) -> Iterator[Probe]:
    """Who is asked for which key: the same question with other headers."""
    url = url_of(spot.base, spot.wire)
    body = hello_body(spot.model, spot.wire)
    yield post("main.nokey", url, spot, body, "none")
    yield post("main.wrong", url, spot, body, "wrong")
    if spot.key:
        yield post("main.bearer", url, spot, body, "bearer")
        yield post("main.x-api-key", url, spot, body, "x-api-key")
        yield post("main.api-key", url, spot, body, "api-key")
        yield get("usage.token", root_of(spot.base) + "/api/usage/token/", spot)
    yield post("main.browser", url, spot, body, user_agent=BROWSER)


def plan_user_agent(spot: Spot) -> Iterator[Probe]:
    """The same question by another program's name."""
    yield post(
        "main.browser", url_of(spot.base, spot.wire), spot, hello_body(spot.model, spot.wire), user_agent=BROWSER
    )


def plan_scheme(spot: Spot) -> Iterator[Probe]:
    """The other of http and https, at the same port."""
    base = spot.base
    other = "http" + base[5:] if base.startswith("https") else "https" + base[4:]
    yield get("models.scheme", models_url(other, spot.wire), replace(spot, base=other))


# ---- behaviour ---------------------------------------------------------------------------------------------------

_PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA"
    "60e6kgAAAABJRU5ErkJggg=="
)


def plan_roomy(spot: Spot) -> Iterator[Probe]:
    """The plain question with room for thinking: only worth its tokens where the short answer was empty."""
    body = hello_body(spot.model, spot.wire, ROOMY_TOKENS)
    yield post(f"{spot.wire}.roomy", url_of(spot.base, spot.wire), spot, body)


# A client's first request is measured in tokens; of English text about four characters make one.
_CHARACTERS_PER_TOKEN = 4
_FILLER = "The quick brown fox jumps over the lazy dog. "
# Shorter ones are no different from the other probes, longer ones cost more than they tell.
SHORT_PROMPT_TOKENS = 1_000
MOST_PROMPT_TOKENS = 32_000
# A GPU reads such a prompt in a second or two; a slow server is not kept busy for longer.
_OWN_SIZE_S = 10.0


def plan_own_size(target: Target, spot: Spot) -> Iterator[Probe]:
    """The plain question behind as much text as the client's own first request has: does it get through, and fit?"""
    tokens = min(target.prompt_tokens or 0, MOST_PROMPT_TOKENS)
    if tokens < SHORT_PROMPT_TOKENS:
        return
    characters = tokens * _CHARACTERS_PER_TOKEN
    text = (_FILLER * (characters // len(_FILLER) + 1))[:characters]
    yield post(
        f"{spot.wire}.own-size",
        url_of(spot.base, spot.wire),
        replace(spot, timeout_s=min(spot.timeout_s, _OWN_SIZE_S)),
        _asked_after(text, spot),
        shown=_asked_after(f"{_FILLER}… ({characters} characters) ", spot),
        first_byte_is_enough=True,
    )


LONG_STREAM = "long-stream"
_LONG_STREAM_TOKENS = 1_024
# Long enough to see that nothing comes; what comes later is cut.
_LONG_STREAM_S = 6.0


def plan_long_stream(spot: Spot, *, vllm: bool) -> Iterator[Probe]:
    """A stream long enough to see whether it arrives as it is made. vllm: the server can be told not to stop early."""
    url = joined(spot.base, "/v1/chat/completions" if spot.wire == "messages" else "/chat/completions")
    body = {**hello_body(spot.model, "chat", _LONG_STREAM_TOKENS), "stream": True}
    body["messages"] = [{"role": "user", "content": "Count from 1 to 400, digits and commas only."}]
    if vllm:
        body |= {"min_tokens": _LONG_STREAM_TOKENS, "ignore_eos": True}
    # Clients take packed answers, and a proxy that packs a stream collects it first.
    packed = (("accept-encoding", "gzip"),)
    patient = replace(spot, timeout_s=min(spot.timeout_s, _LONG_STREAM_S))
    yield post(LONG_STREAM, url, patient, body, headers=packed)


def _asked_after(text: str, spot: Spot) -> dict[str, Any]:
    body = hello_body(spot.model, spot.wire)
    if spot.wire == "responses":
        return {**body, "instructions": text}
    if spot.wire == "messages":
        return {**body, "system": text}
    return {**body, "messages": [{"role": "user", "content": text + HELLO}]}


def plan_behaviour(target: Target, spot: Spot) -> Iterator[Probe]:
    """One variation at a time, in the client's protocol."""
    if spot.key and spot.wire == "messages":
        other: AuthStyle = "bearer" if spot.auth == "x-api-key" else "x-api-key"
        yield post(f"auth.{other}", url_of(spot.base, spot.wire), spot, hello_body(spot.model, spot.wire), other)
    if spot.wire == "chat":
        yield from _plan_chat(target, spot)
    elif spot.wire == "responses":
        yield from _plan_responses(spot)
    else:
        yield from _plan_messages(target, spot)


def _plan_chat(target: Target, spot: Spot) -> Iterator[Probe]:
    url = url_of(spot.base, "chat")
    body = hello_body(spot.model, "chat")
    user = {"role": "user", "content": HELLO}

    def chat(name: str, messages: list[dict[str, Any]] | None = None, **extra: Any) -> Probe:
        return post(f"chat.{name}", url, spot, {**body, **({"messages": messages} if messages else {}), **extra})

    yield chat("system", [{"role": "system", "content": "You are brief."}, user])
    yield chat(
        "two-systems",
        [{"role": "system", "content": "You are brief."}, {"role": "system", "content": "Use English."}, user],
    )
    yield chat("developer", [{"role": "developer", "content": "You are brief."}, user])
    yield chat("two-users", [{"role": "system", "content": "You are brief."}, user, user])
    yield chat("parts", [{"role": "user", "content": [{"type": "text", "text": HELLO}]}])
    yield chat("null-content", [user, {"role": "assistant", "content": None, "tool_calls": [_CALL]}, _CALL_ANSWER])
    yield chat(
        "tools",
        [{"role": "user", "content": TOOL_QUESTION}],
        tools=[function_tool()],
        tool_choice="auto",
        max_tokens=256,
    )
    yield chat("stream", stream=True)
    yield chat("usage", stream=True, stream_options={"include_usage": True})
    yield chat(
        "extras", temperature=0.2, top_p=0.9, presence_penalty=0, frequency_penalty=0, seed=1, n=1, user="doctor"
    )
    yield chat(
        "openai-extras", parallel_tool_calls=True, store=False, reasoning_effort="low", metadata={"from": "doctor"}
    )
    without = {name: value for name, value in body.items() if name != "max_tokens"}
    yield post("chat.completion-tokens", url, spot, {**without, "max_completion_tokens": 16})
    image = [{"type": "text", "text": "What colour?"}, {"type": "image_url", "image_url": {"url": _PIXEL}}]
    yield chat("image", [{"role": "user", "content": image}])
    limit = target.max_tokens or manner_of(target.client).max_tokens or MANY_TOKENS
    asked = {**body, "max_tokens": limit, "stream": True}
    yield post("chat.max-tokens", url, spot, asked, first_byte_is_enough=True)


_CALL = {
    "id": "call_doctor01",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}
_CALL_ANSWER = {"role": "tool", "tool_call_id": "call_doctor01", "content": "21 degrees"}


def _plan_responses(spot: Spot) -> Iterator[Probe]:
    url = url_of(spot.base, "responses")
    body = hello_body(spot.model, "responses")
    developer = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are brief."}]}

    def responses(name: str, **extra: Any) -> Probe:
        return post(f"responses.{name}", url, spot, {**body, **extra})

    namespace = {
        "type": "namespace",
        "name": "doctor_space",
        "description": "Tools of the doctor.",
        "tools": [responses_tool()],
    }
    ask = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": TOOL_QUESTION}]}]
    yield responses("developer", input=[developer, *body["input"]], instructions="You are a coding agent.")
    yield responses("function", input=ask, tools=[responses_tool()], tool_choice="auto", max_output_tokens=256)
    yield responses("two-users", input=[*body["input"], *body["input"]])
    # vLLM takes tools here even without --enable-auto-tool-choice and then parses no call; only its chat path says so.
    said = {**hello_body(spot.model, "chat", 64), "messages": [{"role": "user", "content": TOOL_QUESTION}]}
    chat_url = spot.base.removesuffix("/") + "/chat/completions"
    yield post("cross.tools", chat_url, spot, {**said, "tools": [function_tool()], "tool_choice": "auto"})
    yield responses(
        "namespace", input=ask, tools=[responses_tool(), namespace], tool_choice="auto", max_output_tokens=256
    )
    yield responses("web-search", tools=[responses_tool(), {"type": "web_search"}], tool_choice="auto")
    yield responses("custom", tools=[responses_tool(), {"type": "custom", "name": "apply_patch"}], tool_choice="auto")
    yield responses("stream", stream=True)
    yield responses("truncated", max_output_tokens=1)
    yield responses(
        "codex",
        instructions="You are a coding agent.",
        include=["reasoning.encrypted_content"],
        reasoning={"effort": "medium", "summary": "auto"},
        parallel_tool_calls=False,
        prompt_cache_key="llm-setup-doctor",
    )


# Claude Code sends these together; a strict gateway refuses a request for any that it does not know.
_BETAS = (
    "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,"
    "prompt-caching-scope-2026-01-05,advanced-tool-use-2025-11-20,effort-2025-11-24"
)


def _plan_messages(target: Target, spot: Spot) -> Iterator[Probe]:
    url = url_of(spot.base, "messages")
    body = hello_body(spot.model, "messages")
    user = {"role": "user", "content": [{"type": "text", "text": HELLO}]}

    def message(name: str, headers: tuple[tuple[str, str], ...] = (), **extra: Any) -> Probe:
        return post(f"messages.{name}", url, spot, {**body, **extra}, headers=headers)

    ask = [{"role": "user", "content": TOOL_QUESTION}]
    yield message("system", system=[{"type": "text", "text": "You are brief."}])
    yield message("parts", messages=[user])
    yield message("two-users", messages=[user, user])
    yield message("system-inside", messages=[user, {"role": "system", "content": "Be brief."}, user])
    yield message("tools", messages=ask, tools=[messages_tool()], max_tokens=256)
    yield message("stream", stream=True)
    beta = (("anthropic-beta", _BETAS),)
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    yield message("context-management", beta, context_management=edits)
    tool = {**messages_tool(), "input_examples": [{"city": "Paris"}]}
    yield message("input-examples", beta, messages=ask, tools=[tool], max_tokens=64)
    deferred = {**messages_tool(), "name": "later", "defer_loading": True}
    yield message("defer-loading", beta, messages=ask, tools=[messages_tool(), deferred], max_tokens=64)
    cached = [{"type": "text", "text": "You are brief.", "cache_control": {"type": "ephemeral", "scope": "global"}}]
    yield message("cache-scope", beta, system=cached)
    yield message(
        "thinking",
        beta,
        thinking={"type": "adaptive"},
        output_config={"effort": "high"},
        metadata={"user_id": "doctor"},
    )
    counted = {"model": spot.model, "messages": [{"role": "user", "content": HELLO}]}
    yield post("count-tokens", url + "/count_tokens?beta=true", spot, counted, generates=False)
    small = [target.small_model] if target.small_model else list(manner_of(target.client).small_models)
    for name in small:
        if name and name != spot.model:
            yield post(f"small.{name}", url, spot, {**body, "model": name})
    limit = target.max_tokens or manner_of(target.client).max_tokens
    if limit:
        yield post(
            "messages.max-tokens", url, spot, {**body, "max_tokens": limit, "stream": True}, first_byte_is_enough=True
        )
