"""Requests in each protocol, as the clients send them: pure values, to be sent by an effect.

Sources of the shapes: OpenAI's chat completions and responses, Anthropic's messages, and bodies captured from Codex
0.171, Claude Code 2.1.332 and Cline 3.0.65 on 2026-11-30.
"""

from __future__ import annotations

from typing import Any, Literal

from wizard.endpoint.exchange import HttpRequest
from wizard.endpoint.model import Endpoint
from wizard.secret import Secret

AuthStyle = Literal["bearer", "x-api-key", "none"]

# A prompt whose answer is short in every model, and costs next to nothing.
HELLO = "Reply with one word: ready"
TOOL_QUESTION = "What is the weather in Paris? Use the tool."
TOOL_NAME = "get_weather"
TOOL_DESCRIPTION = "Get the current weather in a city."
TOOL_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Name of the city"}},
    "required": ["city"],
}
TOOL_ANSWER = '{"city": "Paris", "temperature_c": 21}'
ANTHROPIC_VERSION = "2023-06-01"


def auth_headers(key: Secret | None, style: AuthStyle = "bearer") -> tuple[tuple[str, str], ...]:
    """The header that carries the key; nothing without a key. vLLM reads `Authorization: Bearer` only."""
    if key is None or not key or style == "none":
        return ()
    if style == "x-api-key":
        return (("x-api-key", key.reveal()),)
    return (("authorization", f"Bearer {key.reveal()}"),)


def models_request(endpoint: Endpoint, *, auth: AuthStyle = "bearer", timeout_s: float = 10.0) -> HttpRequest:
    """`GET {openai_base_url}/models`."""
    return HttpRequest(
        "GET", f"{endpoint.openai_base_url}/models", auth_headers(endpoint.key, auth), timeout_s=timeout_s
    )


def function_tool() -> dict[str, Any]:
    """One tool in the form of chat completions."""
    return {
        "type": "function",
        "function": {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "parameters": TOOL_PARAMETERS},
    }


def responses_tool() -> dict[str, Any]:
    """The same tool in the form of the responses API."""
    return {"type": "function", "name": TOOL_NAME, "description": TOOL_DESCRIPTION, "parameters": TOOL_PARAMETERS}


def messages_tool() -> dict[str, Any]:
    """The same tool in the form of Anthropic's messages."""
    return {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "input_schema": TOOL_PARAMETERS}


def _post(endpoint: Endpoint, url: str, body: dict[str, Any], auth: AuthStyle, timeout_s: float) -> HttpRequest:
    return HttpRequest("POST", url, auth_headers(endpoint.key, auth), json_body=body, timeout_s=timeout_s)


def chat_request(
    endpoint: Endpoint,
    messages: list[dict[str, Any]] | None = None,
    *,
    stream: bool = False,
    max_tokens: int | None = 16,
    auth: AuthStyle = "bearer",
    timeout_s: float = 60.0,
    **extra: Any,
) -> HttpRequest:
    """`POST {openai_base_url}/chat/completions`. A stream asks for usage in its last chunk, as coding clients do."""
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": messages or [{"role": "user", "content": HELLO}],
        **({"max_tokens": max_tokens} if max_tokens is not None else {}),
        **({"stream": True, "stream_options": {"include_usage": True}} if stream else {}),
        **extra,
    }
    return _post(endpoint, f"{endpoint.openai_base_url}/chat/completions", body, auth, timeout_s)


def tool_call_request(endpoint: Endpoint, *, constrained_to: str = "", timeout_s: float = 60.0) -> HttpRequest:
    """A chat with one tool and `tool_choice: auto`.

    constrained_to: the exact text that the model must write (vLLM's `structured_outputs`), which shows whether the
    server's parser turns it into a tool call even where the model is too small to call a tool by itself.
    """
    extra: dict[str, Any] = {"structured_outputs": {"choice": [constrained_to]}} if constrained_to else {}
    return chat_request(
        endpoint,
        [{"role": "user", "content": TOOL_QUESTION}],
        tools=[function_tool()],
        tool_choice="auto",
        max_tokens=256,
        temperature=0,
        timeout_s=timeout_s,
        **extra,
    )


def tool_result_request(endpoint: Endpoint, tool_call: dict[str, Any], *, timeout_s: float = 60.0) -> HttpRequest:
    """The second half of the round trip: the call as the assistant's turn, then the tool's result."""
    return chat_request(
        endpoint,
        [
            {"role": "user", "content": TOOL_QUESTION},
            {"role": "assistant", "content": None, "tool_calls": [tool_call]},
            {"role": "tool", "tool_call_id": tool_call.get("id", "call_1"), "content": TOOL_ANSWER},
        ],
        tools=[function_tool()],
        tool_choice="auto",
        max_tokens=16,
        temperature=0,
        timeout_s=timeout_s,
    )


def responses_request(
    endpoint: Endpoint,
    *,
    stream: bool = False,
    tools: list[dict[str, Any]] | None = None,
    max_output_tokens: int | None = 16,
    timeout_s: float = 60.0,
    **extra: Any,
) -> HttpRequest:
    """`POST {openai_base_url}/responses`, in Codex's shape: developer and user items, nothing stored."""
    body: dict[str, Any] = {
        "model": endpoint.model,
        "instructions": "You are a coding agent.",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": HELLO}]}],
        "store": False,
        **({"max_output_tokens": max_output_tokens} if max_output_tokens is not None else {}),
        **({"tools": tools, "tool_choice": "auto"} if tools else {}),
        **({"stream": True} if stream else {}),
        **extra,
    }
    return _post(endpoint, f"{endpoint.openai_base_url}/responses", body, "bearer", timeout_s)


def messages_request(
    endpoint: Endpoint,
    *,
    stream: bool = False,
    tools: list[dict[str, Any]] | None = None,
    max_tokens: int = 16,
    auth: AuthStyle = "bearer",
    model: str = "",
    timeout_s: float = 60.0,
    **extra: Any,
) -> HttpRequest:
    """`POST {anthropic_base_url}/v1/messages`. model: another id, such as a client's small model."""
    root = endpoint.anthropic_base_url or endpoint.openai_base_url.removesuffix("/v1")
    body: dict[str, Any] = {
        "model": model or endpoint.model,
        "max_tokens": max_tokens,
        "messages": [{"role": "user", "content": [{"type": "text", "text": HELLO}]}],
        **({"tools": tools} if tools else {}),
        **({"stream": True} if stream else {}),
        **extra,
    }
    headers = (("anthropic-version", ANTHROPIC_VERSION), *auth_headers(endpoint.key, auth))
    return HttpRequest("POST", f"{root}/v1/messages", headers, json_body=body, timeout_s=timeout_s)


def count_tokens_request(endpoint: Endpoint, *, timeout_s: float = 30.0) -> HttpRequest:
    """`POST {anthropic_base_url}/v1/messages/count_tokens`."""
    root = endpoint.anthropic_base_url or endpoint.openai_base_url.removesuffix("/v1")
    body = {"model": endpoint.model, "messages": [{"role": "user", "content": HELLO}]}
    headers = (("anthropic-version", ANTHROPIC_VERSION), *auth_headers(endpoint.key))
    return HttpRequest("POST", f"{root}/v1/messages/count_tokens", headers, json_body=body, timeout_s=timeout_s)
