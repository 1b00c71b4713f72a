"""Each cause, as some server or gateway shows it, is named first; a healthy server gets no error."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from wizard.doctor.engine import Diagnosis

from .conftest import (
    CHAT_OK,
    MESSAGE_OK,
    RESPONSE_OK,
    Patient,
    Route,
    When,
    chat,
    content_is_list,
    error,
    has_role,
    messages,
    models,
    responses,
    same_role_twice,
    sends,
    starts_with_system,
    streams,
    tool_of,
    with_header,
    without_header,
)

Examined = Callable[..., Diagnosis]
CODEX = Patient("codex")
CLAUDE = Patient("claude-code", "")
CLINE = Patient("cline")
PLAIN = Patient()
UNAUTHORIZED = {"error": "Unauthorized"}
CLIENTS = (
    *("codex", "claude-code", "cline", "continue", "opencode", "qwen", "kilo", "crush", "pi", "aider", "llm", "roo"),
    *("zed", "open-webui", "litellm", "cc-switch", "openai-sdk", "anthropic-sdk", "curl", "shell"),
)
HTML = "<!doctype html><html><head><title>Gateway</title></head><body></body></html>"


def chunk(**fields: Any) -> str:
    return f"data: {json.dumps(fields)}\n\n"


SSE_OK = chunk(choices=[{"index": 0, "delta": {"content": "ready"}}]) + chunk(
    choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]
)


def sse(text: str) -> Route:
    return chat(text, kind="text/event-stream", when=streams)


def said(content: Any = "ready", finish: str = "stop", tokens: int = 2, **message: Any) -> dict[str, Any]:
    return {
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
        ],
        "usage": {"completion_tokens": tokens},
    }


def case(name: str, code: str | tuple[str, ...], patient: Patient, *routes: Route, default: Route | None = None) -> Any:
    return pytest.param((code,) if isinstance(code, str) else code, patient, routes, default, id=name)


KEY_CASES = [
    case("vllm-wrong-key", "key-invalid", PLAIN, Route("/v1/*", UNAUTHORIZED, 401, "*")),
    case(
        "vllm-no-key",
        "key-missing",
        Patient(key=""),
        Route("/v1/*", UNAUTHORIZED, 401, "*", when=without_header("authorization", "Bearer right")),
        models(),
        chat(),
    ),
    case(
        "litellm-key-without-sk",
        "key-format-rejected",
        Patient(key="my-team-key-1"),
        Route(
            "/v1/*",
            error(
                "Authentication Error, LiteLLM Virtual Key expected. Received=my-team, expected to start with 'sk-'."
            ),
            401,
            "*",
        ),
    ),
    case(
        "litellm-key-not-in-database",
        "key-invalid",
        PLAIN,
        Route(
            "/v1/*",
            error(
                "Authentication Error, Invalid proxy server token passed. Unable to find token in cache or "
                "`LiteLLM_VerificationTokenTable`",
                type="token_not_found_in_db",
                code="401",
            ),
            401,
            "*",
        ),
    ),
    case(
        "openrouter-key-at-openai-like-host",
        "key-wrong-provider",
        Patient(key="sk-or-v1-0123456789abcdef"),
        Route("/v1/*", error("Incorrect API key provided: sk-or-v1*cdef.", code="invalid_api_key"), 401, "*"),
    ),
    case(
        "anthropic-key-at-own-server",
        "key-wrong-provider",
        Patient("claude-code", "", key="sk-ant-api03-0123456789"),
        Route("/v1/*", UNAUTHORIZED, 401, "*"),
    ),
    case("quoted-key", "key-whitespace", Patient(key='"sk-test-123456"'), models(), chat()),
    case("key-with-line-end", "key-whitespace", Patient(key="sk-test-123456\n"), models(), chat()),
    case("key-with-bearer", "key-whitespace", Patient(key="Bearer sk-test-123456"), models(), chat()),
    case(
        "messages-want-x-api-key",
        "gateway-auth-header-style",
        CLAUDE,
        messages(when=with_header("x-api-key")),
        messages(error("missing x-api-key"), 401),
    ),
    case(
        "bearer-only-and-client-sends-x-api-key",
        "gateway-auth-header-style",
        Patient("claude-code", "", env=(("ANTHROPIC_API_KEY", "sk-test-123456"),)),
        messages(when=with_header("authorization")),
        messages(UNAUTHORIZED, 401),
    ),
    case(
        "both-styles-work-only-one-known",
        "gateway-auth-header-style",
        CLAUDE,
        messages(error("invalid x-api-key", type="authentication_error"), 401, when=with_header("x-api-key")),
        messages(),
        Route("/v1/messages/count_tokens", {"input_tokens": 3}),
        models(),
    ),
    case(
        "litellm-upstream-key",
        "upstream-auth-failed",
        PLAIN,
        models(),
        chat(
            error("litellm.AuthenticationError: AuthenticationError: OpenAIException - Incorrect API key provided"), 401
        ),
    ),
    case(
        "upstream-says-401-inside-500",
        "upstream-auth-failed",
        PLAIN,
        models(),
        chat(error("upstream returned 401 Unauthorized: invalid credentials"), 500),
    ),
    case(
        "gateway-list-open-chat-refused",
        "upstream-auth-failed",
        PLAIN,
        models(),
        chat(error("Your API key is invalid or expired", code="invalid_api_key"), 401),
    ),
    case(
        "new-api-own-token-refused-though-list-is-open",
        "key-invalid",
        PLAIN,
        models(),
        chat(error("该令牌已过期 (request id: 2026)", type="new_api_error"), 401),
    ),
]

FRONT_CASES = [
    case("cloudflare-1020", "waf-block", PLAIN, Route("*", "error code: 1020", 403, "*", "text/plain")),
    case(
        "waf-by-user-agent",
        "waf-block",
        PLAIN,
        Route(
            "/v1/*",
            "<html><title>Attention Required! | Cloudflare</title></html>",
            403,
            "*",
            "text/html",
            when=lambda _, h: "OpenAI" in h.get("user-agent", ""),
        ),
        models(),
        chat(),
    ),
    case(
        "just-a-moment",
        "waf-block",
        PLAIN,
        Route(
            "*",
            "<html><title>Just a moment...</title></html>",
            503,
            "*",
            "text/html",
            headers=(("server", "cloudflare"),),
        ),
    ),
    case(
        "plain-403-page", "waf-block", PLAIN, Route("*", "<html><h1>403 Forbidden</h1></html>", 403, "*", "text/html")
    ),
    case(
        "nginx-502",
        "server-not-ready",
        PLAIN,
        Route("*", "<html><h1>502 Bad Gateway</h1>nginx</html>", 502, "*", "text/html"),
    ),
    case("envoy-no-healthy", "server-not-ready", PLAIN, Route("*", "no healthy upstream", 503, "*", "text/plain")),
    case(
        "llama-cpp-loading",
        "server-not-ready",
        PLAIN,
        Route("*", error("Loading model", type="unavailable_error", code=503), 503, "*"),
    ),
    case("plain-503-json", "server-not-ready", PLAIN, Route("*", {"detail": "Service Unavailable"}, 503, "*")),
    case(
        "nginx-504",
        "proxy-read-timeout",
        PLAIN,
        models(),
        chat("<html><h1>504 Gateway Time-out</h1>nginx</html>", 504, kind="text/html"),
    ),
    case(
        "cloudflare-524",
        "proxy-read-timeout",
        PLAIN,
        models(),
        chat(
            "<html>error code: 524</html>", 524, kind="text/html", headers=(("server", "cloudflare"), ("cf-ray", "x"))
        ),
    ),
    case(
        "api-gateway-504", "proxy-read-timeout", PLAIN, models(), chat({"message": "Endpoint request timed out"}, 504)
    ),
    case(
        "client-gave-up",
        "client-timeout-too-short",
        PLAIN,
        models(),
        chat(error("context canceled: client disconnected before the response"), 499),
    ),
    case(
        "dead-proxy-variable",
        "proxy-env-captures-local",
        Patient(base="http://192.168.1.20:8000/v1", env=(("HTTP_PROXY", "http://10.0.0.9:3128"),)),
        models(),
        chat(),
    ),
    case(
        "no-proxy-with-scheme",
        "no-proxy-malformed",
        Patient(
            base="http://127.0.0.1:8000/v1",
            env=(("http_proxy", "http://10.0.0.9:3128"), ("no_proxy", "http://127.0.0.1:8000")),
        ),
        models(),
        chat(),
    ),
]

WHERE_CASES = [
    case(
        "full-endpoint-responses",
        "base-url-full-endpoint",
        Patient("codex", "/v1/responses"),
        models(),
        responses(),
        chat(),
    ),
    case("full-endpoint-messages", "base-url-full-endpoint", Patient("claude-code", "/v1/messages"), messages()),
    case("full-endpoint-completions", "base-url-full-endpoint", Patient("cline", "/v1/completions"), models(), chat()),
    case("missing-v1-codex", "base-url-missing-v1", Patient("codex", ""), models(), responses(), chat()),
    case(
        "missing-v1-lm-studio",
        "base-url-missing-v1",
        Patient(base=""),
        models(),
        chat(),
        default=Route("*", {"error": "Unexpected endpoint or method. (POST /chat/completions)"}, 200),
    ),
    case(
        "missing-v1-json-string",
        "base-url-missing-v1",
        Patient(base=""),
        models(),
        chat(),
        default=Route("*", '"ok"', 200),
    ),
    case(
        "missing-v1-below-prefix", "base-url-missing-v1", Patient(base="/llm"), models(at="/llm/v1"), chat(at="/llm/v1")
    ),
    case(
        "missing-v1-and-a-key-is-wanted",
        "base-url-missing-v1",
        Patient(base=""),
        Route("/v1/*", UNAUTHORIZED, 401, "*", when=without_header("authorization", "Bearer sk-test-123456")),
        models(),
        chat(),
    ),
    case("trailing-slash", "base-url-trailing-slash", Patient(base="/v1/"), models(), chat(), sse(SSE_OK)),
    case("doubled-v1", "base-url-extra-v1", Patient(base="/v1/v1"), models(), chat()),
    case("claude-with-v1", "base-url-extra-v1", Patient("claude-code", "/v1"), messages(), models()),
    case(
        "no-messages-405",
        "endpoint-unsupported-messages",
        CLAUDE,
        models(),
        chat(),
        messages({"detail": "Method Not Allowed"}, 405),
    ),
    case(
        "no-messages-not-implemented",
        "endpoint-unsupported-messages",
        CLAUDE,
        models(),
        chat(),
        messages(error("not implemented (request id: 1)", type="new_api_error", code="convert_request_failed"), 500),
    ),
    case(
        "no-responses-html",
        "endpoint-unsupported-responses",
        CODEX,
        models(),
        chat(),
        default=Route("*", "<html><h1>404 Not Found</h1></html>", 404, kind="text/html"),
    ),
    case(
        "no-responses-lm-studio",
        "endpoint-unsupported-responses",
        CODEX,
        models(),
        chat(),
        responses({"error": "Unexpected endpoint or method. (POST /v1/responses)"}),
    ),
    case(
        "no-responses-go",
        "endpoint-unsupported-responses",
        CODEX,
        models(),
        chat(),
        default=Route("*", "404 page not found", 404, kind="text/plain"),
    ),
    case(
        "no-responses-not-implemented",
        "endpoint-unsupported-responses",
        CODEX,
        models(),
        chat(),
        responses(error("The responses API is not supported by this provider"), 501),
    ),
    case(
        "vendor-path-openai",
        "base-url-wrong-path",
        Patient(base="/v1"),
        models(at="/api/paas/v4"),
        chat(at="/api/paas/v4"),
    ),
    case(
        "vendor-path-compatible",
        "base-url-wrong-path",
        Patient(base="/api/v1"),
        models(at="/compatible-mode/v1"),
        chat(at="/compatible-mode/v1"),
    ),
    case("vendor-path-anthropic", "base-url-wrong-path", CLAUDE, messages(at="/anthropic"), chat()),
    case("ollama-native-path", "base-url-wrong-path", Patient(base="/api"), models(), chat()),
    case(
        "proxy-prefix-not-stripped",
        "proxy-prefix-mismatch",
        Patient(base="/team-a/v1"),
        models(at="/team-a/team-a/v1"),
        chat(at="/team-a/team-a/v1"),
    ),
    case("proxy-prefix-not-there", "proxy-prefix-mismatch", Patient(base="/vllm/v1"), models(), chat()),
    case(
        "fastapi-with-other-routes",
        "wrong-endpoint-path",
        PLAIN,
        Route(
            "/openapi.json",
            {"openapi": "3.1.0", "paths": {"/generate": {}, "/predict": {}, "/health": {}}},
            method="GET",
        ),
    ),
    case("web-page-everywhere", "html-instead-of-json", PLAIN, Route("*", HTML, 200, "*", "text/html")),
    case("bare-string-everywhere", "html-instead-of-json", PLAIN, Route("*", '"Ollama is running"', 200, "*")),
    case("azure-classic", "azure-deployment-path", Patient(base="https://acme.openai.azure.com/")),
    case(
        "azure-without-version",
        "azure-deployment-path",
        Patient(base="https://acme.cognitiveservices.azure.com/openai/deployments/gpt"),
    ),
    case("azure-words", "azure-deployment-path", PLAIN, Route("*", error("Resource not found", code="404"), 404, "*")),
    case(
        "azure-needs-api-version",
        "azure-deployment-path",
        PLAIN,
        Route("*", error("Missing required query parameter: api-version", code="BadRequest"), 400, "*"),
    ),
]

WHAT_CASES = [
    case(
        "vllm-unknown-model",
        "model-name-mismatch",
        Patient(model="gpt-4"),
        models("qwen"),
        chat(
            error("The model `gpt-4` does not exist. Valid aliases: qwen.", code=404),
            404,
            when=lambda b, _: b["model"] != "qwen",
        ),
        chat(),
    ),
    case(
        "ollama-unknown-model",
        "model-name-mismatch",
        PLAIN,
        models("qwen3:8b"),
        chat(error('model "m" not found, try pulling it first'), 404),
    ),
    case(
        "openrouter-unknown-model",
        "model-name-mismatch",
        PLAIN,
        models("a/b"),
        chat(error("m is not a valid model ID", code=400), 400),
    ),
    case(
        "anthropic-unknown-model",
        "model-name-mismatch",
        CLAUDE,
        models("x"),
        messages({"type": "error", "error": {"type": "not_found_error", "message": "model: m"}}, 404),
    ),
    case(
        "chinese-unknown-model",
        "model-name-mismatch",
        PLAIN,
        models("x"),
        chat(error("模型不存在，请检查模型代码"), 400),
    ),
    case(
        "small-model-of-claude",
        "model-name-mismatch",
        Patient("claude-code", "", model="qwen"),
        models("qwen"),
        messages(error("The model does not exist."), 404, when=lambda b, _: "haiku" in b["model"]),
        messages(),
    ),
    case(
        "litellm-needs-provider",
        "litellm-provider-prefix",
        PLAIN,
        models("x"),
        chat(error("litellm.BadRequestError: LLM Provider NOT provided. Pass in the LLM provider"), 400),
    ),
    case(
        "new-api-no-channel",
        "gateway-no-channel",
        PLAIN,
        models("x"),
        chat(error("分组 default 下模型 m 无可用渠道（distributor） (request id: 1)", type="new_api_error"), 503),
    ),
    case(
        "english-no-channel",
        "gateway-no-channel",
        PLAIN,
        models("x"),
        chat(error("No available channel for model m under group default (distributor)", code="model_not_found"), 503),
    ),
    case(
        "openrouter-no-endpoints",
        "gateway-no-channel",
        PLAIN,
        models("x"),
        chat(error("No endpoints found for m.", code=404), 404),
    ),
    case(
        "openai-quota",
        "insufficient-credits",
        PLAIN,
        models(),
        chat(
            error(
                "You exceeded your current quota, please check your plan and billing details.",
                code="insufficient_quota",
            ),
            429,
        ),
    ),
    case(
        "anthropic-credit",
        "insufficient-credits",
        CLAUDE,
        models(),
        messages(error("Your credit balance is too low to access the Anthropic API."), 400),
    ),
    case(
        "one-api-quota",
        "insufficient-credits",
        PLAIN,
        models(),
        chat(error("用户额度不足, 剩余额度: ＄0.00", type="new_api_error"), 403),
    ),
    case("deepseek-balance", "insufficient-credits", PLAIN, models(), chat(error("Insufficient Balance"), 402)),
    case(
        "litellm-budget",
        "insufficient-credits",
        PLAIN,
        models(),
        chat(error("Budget has been exceeded! Current cost: 10, Max budget: 5", type="budget_exceeded"), 400),
    ),
    case(
        "openai-rate",
        "rate-limited",
        PLAIN,
        models(),
        chat(error("Rate limit reached for requests per min (RPM): Limit 3"), 429, headers=(("retry-after", "20"),)),
    ),
    case(
        "gemini-rate",
        "rate-limited",
        PLAIN,
        models(),
        chat(
            [
                {
                    "error": {
                        "code": 429,
                        "message": "You exceeded your current quota. Quota exceeded for "
                        "metric: generate_requests_per_minute",
                        "status": "RESOURCE_EXHAUSTED",
                    }
                }
            ],
            429,
        ),
    ),
    case("plain-429", "rate-limited", PLAIN, models(), chat("Too Many Requests", 429, kind="text/plain")),
    case(
        "upstream-rate",
        "rate-limited-upstream",
        PLAIN,
        models(),
        chat(error("litellm.RateLimitError: RateLimitError: AnthropicException - rate limited"), 429),
    ),
    case(
        "chinese-upstream-rate",
        "rate-limited-upstream",
        PLAIN,
        models(),
        chat(error("当前分组上游负载已饱和，请稍后再试 (request id: 1)"), 429),
    ),
]

REQUEST_CASES = [
    case(
        "no-tools-vllm",
        "tool-choice-not-enabled",
        CLINE,
        models(),
        chat(
            error('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
            400,
            when=sends("tools"),
        ),
        chat(),
    ),
    case(
        "no-tools-codex",
        "tool-choice-not-enabled",
        CODEX,
        models(),
        responses(error('"auto" tool choice requires --enable-auto-tool-choice'), 400, when=sends("tools")),
        responses(),
    ),
    case(
        "no-tools-claude",
        "tool-choice-not-enabled",
        CLAUDE,
        models(),
        messages(error('"auto" tool choice requires --enable-auto-tool-choice'), 400, when=sends("tools")),
        messages(),
    ),
    case(
        "no-tools-ollama",
        "tool-choice-not-enabled",
        CLINE,
        models(),
        chat(error("registry.ollama.ai/library/m does not support tools"), 400, when=sends("tools")),
        chat(),
    ),
    case(
        "no-tools-llama-cpp",
        "tool-choice-not-enabled",
        CLINE,
        models(),
        chat(error("tools param requires --jinja flag"), 500, when=sends("tools")),
        chat(),
    ),
    *(
        case(
            f"call-as-text-{name}",
            "tool-parser-mismatch",
            CLINE,
            models(),
            chat(said(text), when=sends("tools")),
            chat(),
        )
        for name, text in {
            "qwen-coder": "<function=get_weather>\n<parameter=city>Paris</parameter>\n</function>",
            "mistral": '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}]',
            "fenced": 'I will call it.\n```json\n{"name": "lookup", "arguments": {"city": "Paris"}}\n```',
            "bare-json": '{"name": "lookup", "parameters": {"city": "Paris"}}',
            "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather",
        }.items()
    ),
    case(
        "call-as-text-in-messages",
        "tool-parser-mismatch",
        CLAUDE,
        models(),
        messages(
            {**MESSAGE_OK, "content": [{"type": "text", "text": "<tool_call>{}</tool_call>"}]}, when=sends("tools")
        ),
        messages(),
    ),
    case(
        "max-tokens-new-vllm",
        "max-tokens-too-large",
        Patient("opencode"),
        models(),
        chat(
            error("max_tokens=32000 cannot be greater than max_model_len=16384. Please request fewer output tokens."),
            400,
            when=lambda b, _: b.get("max_tokens", 0) > 16384,
        ),
        chat(),
    ),
    case(
        "max-tokens-old-words",
        "max-tokens-too-large",
        PLAIN,
        models(),
        chat(
            error(
                "This model's maximum context length is 4096 tokens. However, you requested 4200 tokens "
                "(200 in the messages, 4000 in the completion)."
            ),
            400,
        ),
    ),
    case(
        "max-tokens-range",
        "max-tokens-too-large",
        PLAIN,
        models(),
        chat(error("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"), 400),
    ),
    case(
        "prompt-over-window",
        "context-length-exceeded",
        PLAIN,
        models(),
        chat(
            error(
                "This model's maximum context length is 2048 tokens. However, your "
                "prompt contains at least 2049 input tokens"
            ),
            400,
        ),
    ),
    case(
        "prompt-over-window-old-words",
        "context-length-exceeded",
        PLAIN,
        models(),
        chat(
            error(
                "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens "
                "(8000 in the messages, 1000 in the completion)."
            ),
            400,
        ),
    ),
    case(
        "llama-cpp-context",
        "context-length-exceeded",
        PLAIN,
        models(),
        chat(
            error(
                "the request exceeds the available context size. try increasing the context size",
                type="exceed_context_size_error",
            ),
            400,
        ),
    ),
    case("window-smaller-than-codex", "context-length-exceeded", CODEX, models(max_model_len=8192), responses()),
    case(
        "window-smaller-than-told",
        "context-length-exceeded",
        Patient(context=131072),
        models(max_model_len=32768),
        chat(),
    ),
    case(
        "alternating-roles",
        "template-role-order",
        CLINE,
        models(),
        chat(error("Conversation roles must alternate user/assistant/user/assistant/..."), 400, when=same_role_twice),
        chat(),
    ),
    case(
        "second-system-message",
        "template-role-order",
        CLINE,
        models(),
        chat(
            error("System message must be at the beginning."),
            400,
            when=lambda b, _: sum(m.get("role") == "system" for m in b["messages"]) > 1,
        ),
        chat(),
    ),
    case(
        "no-system-role",
        "template-no-system-role",
        CLINE,
        models(),
        chat(error("System role not supported"), 400, when=starts_with_system),
        chat(),
    ),
    case(
        "no-system-role-by-order",
        "template-no-system-role",
        CLINE,
        models(),
        chat(
            error("Conversation roles must alternate user/assistant/user/assistant/..."), 400, when=starts_with_system
        ),
        chat(),
    ),
    case(
        "no-template",
        "chat-template-missing",
        PLAIN,
        models(),
        chat(error("Cannot use chat template functions because tokenizer.chat_template is not set"), 400),
    ),
    case(
        "developer-codex",
        "developer-role-rejected",
        CODEX,
        models(),
        responses(error("Unknown role: developer"), 400, when=has_role("developer")),
        responses(),
    ),
    case(
        "developer-deepseek",
        "developer-role-rejected",
        PLAIN,
        models(),
        chat(
            error(
                "messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`"
            ),
            422,
            when=has_role("developer"),
        ),
        chat(),
    ),
    case(
        "namespace-tool",
        "responses-tool-type-unsupported",
        CODEX,
        models(),
        responses(error("tools.1.type: unknown tool type 'namespace'"), 400, when=tool_of("namespace")),
        responses(),
    ),
    case(
        "web-search-tool",
        "responses-tool-type-unsupported",
        CODEX,
        models(),
        responses(
            {"detail": [{"loc": ["body", "tools", 1, "type"], "msg": "Input should be 'function'"}]},
            422,
            when=tool_of("web_search"),
        ),
        responses(),
    ),
    case(
        "namespace-joined",
        "responses-tool-name-flattened",
        CODEX,
        models(),
        responses(
            {
                **RESPONSE_OK,
                "output": [{"type": "function_call", "name": "doctor_space__get_weather", "arguments": "{}"}],
            },
            when=tool_of("namespace"),
        ),
        responses(),
    ),
    case(
        "beta-input-examples",
        "beta-fields-rejected",
        CLAUDE,
        models(),
        messages(
            error("tools.0.custom.input_examples: Extra inputs are not permitted"),
            400,
            when=lambda b, _: "input_examples" in json.dumps(b),
        ),
        messages(),
    ),
    case(
        "beta-cache-scope",
        "beta-fields-rejected",
        CLAUDE,
        models(),
        messages(
            error("system.0.cache_control.ephemeral.scope: Extra inputs are not permitted"),
            400,
            when=lambda b, _: '"scope"' in json.dumps(b),
        ),
        messages(),
    ),
    case(
        "beta-header-by-text",
        "beta-fields-rejected",
        CLAUDE,
        models(),
        messages(
            error("Unexpected value(s) `context-management-2025-06-27` for the `anthropic-beta` header"),
            400,
            when=with_header("anthropic-beta"),
        ),
        messages(),
    ),
    case(
        "parts-refused",
        "content-parts-unsupported",
        CLINE,
        models(),
        chat(error("messages[0].content: invalid type: sequence, expected a string"), 400, when=content_is_list),
        chat(),
    ),
    case(
        "parts-refused-jinja",
        "content-parts-unsupported",
        PLAIN,
        models(),
        chat(error('can only concatenate str (not "list") to str'), 400, when=content_is_list),
        chat(),
    ),
    case(
        "text-only",
        "not-multimodal",
        PLAIN,
        models(),
        sse(SSE_OK),
        chat(error("m is not a multimodal model"), 400, when=lambda b, _: "image_url" in json.dumps(b)),
        chat(),
    ),
    case(
        "parameter-refused",
        "unsupported-params",
        PLAIN,
        models(),
        chat(
            error("litellm.UnsupportedParamsError: openai does not support parameters: ['reasoning_effort']"),
            400,
            when=sends("reasoning_effort"),
        ),
        chat(),
    ),
    case(
        "wants-max-completion-tokens",
        "unsupported-params",
        PLAIN,
        models(),
        chat(
            error(
                "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead."
            ),
            400,
            when=sends("max_tokens"),
        ),
        chat(),
    ),
    case(
        "store-refused",
        "unsupported-params",
        CODEX,
        models(),
        responses(error("Unknown parameter: 'store'."), 400, when=lambda b, _: "store" in b),
        responses(),
    ),
    case("silent-400", "unknown-400-no-body", PLAIN, models(), chat("", 400)),
    case(
        "pydantic-422",
        "schema-422",
        PLAIN,
        models(),
        chat({"detail": [{"loc": ["body", "stream_options"], "msg": "Field required", "type": "missing"}]}, 422),
    ),
    case(
        "null-content-500",
        "server-bug-500",
        PLAIN,
        models(),
        chat(
            error("Internal Server Error"),
            500,
            when=lambda b, _: any("content" in m and m["content"] is None for m in b["messages"]),
        ),
        chat(),
    ),
    case("always-500", "server-bug-500", PLAIN, models(), chat("Internal Server Error", 500, kind="text/plain")),
    case(
        "tools-500",
        "server-bug-500",
        CLINE,
        models(),
        chat(error("Internal Server Error"), 500, when=sends("tools")),
        chat(),
    ),
]

MORE_CASES = [
    case(
        "xml-404",
        "base-url-missing-v1",
        Patient(base=""),
        models(),
        chat(),
        default=Route("*", "<Error><Code>NoSuchKey</Code></Error>", 404, kind="application/xml"),
    ),
    case(
        "ollama-root",
        "base-url-missing-v1",
        Patient(base=""),
        models(),
        chat(),
        default=Route("*", "Ollama is running", 200, kind="text/plain"),
    ),
    case("plain-text-everywhere", "html-instead-of-json", PLAIN, Route("*", "OK", 200, "*", "text/plain")),
    case(
        "redirect-to-https",
        "base-url-redirects",
        PLAIN,
        Route("*", "", 301, "*", headers=(("location", "https://server.test/v1"),)),
    ),
    case("nginx-400", "unknown-400-no-body", PLAIN, Route("*", "<h1>400 Bad Request</h1>", 400, "*", "text/html")),
    case("a-chunk-for-an-answer", "stream-mismatch", PLAIN, models(), chat({"choices": [{"delta": {"content": "x"}}]})),
    case(
        "region",
        "region-not-supported",
        PLAIN,
        models(),
        chat(error("Country, region, or territory not supported", code="unsupported_country_region_territory"), 403),
    ),
    case(
        "litellm-model-access",
        "model-name-mismatch",
        PLAIN,
        models("x"),
        chat(error("key not allowed to access model. This key can only access models=['x']. Tried to access m"), 401),
    ),
    case(
        "litellm-invalid-model-name",
        "model-name-mismatch",
        PLAIN,
        models("x"),
        chat(error("Invalid model name passed in model=m. Call `/v1/models` to view available models"), 400),
    ),
    case(
        "spring-404",
        "endpoint-unsupported-responses",
        CODEX,
        models(),
        chat(),
        responses({"status": 404, "error": "Not Found", "path": "/v1/responses"}, 404),
    ),
    case(
        "parts-are-images-to-it",
        "not-multimodal",
        PLAIN,
        models(),
        sse(SSE_OK),
        chat(error("m is not a multimodal model"), 400, when=content_is_list),
        chat(),
    ),
    case(
        "limit-of-a-gateway-that-tells-no-window",
        "max-tokens-too-large",
        PLAIN,
        models(),
        chat(
            error("max_tokens is too large: 65536. This model supports at most 8192 completion tokens"),
            400,
            when=lambda b, _: b.get("max_tokens", 0) > 8192,
        ),
        sse(SSE_OK),
        chat(),
    ),
    case(
        "two-users-in-messages",
        "template-role-order",
        CLAUDE,
        models(),
        messages(error("Conversation roles must alternate user/assistant/user"), 400, when=same_role_twice),
        messages(),
    ),
    case(
        "two-users-in-responses",
        "template-role-order",
        CODEX,
        models(),
        responses(error("Conversation roles must alternate user/assistant/user"), 400, when=same_role_twice),
        responses(),
    ),
    case(
        "namespace-of-another-name-joined",
        "responses-tool-name-flattened",
        CODEX,
        models(),
        responses(
            {
                **RESPONSE_OK,
                "output": [{"type": "function_call", "name": "multi_agent_v1.spawn", "arguments": "{}"}],
            },
            when=tool_of("namespace"),
        ),
        responses(),
    ),
    case("gateway-prefix-gone", "proxy-prefix-mismatch", Patient(base="/llm/v1"), models(), chat()),
    case(
        "vllm-responses-without-tool-flags",
        "tool-choice-not-enabled",
        CODEX,
        models(),
        responses(),
        chat(error('"auto" tool choice requires --enable-auto-tool-choice'), 400, when=sends("tools")),
        chat(),
    ),
    case(
        "auth-error-inside-detail",
        "key-invalid",
        CLAUDE,
        Route(
            "/v1/*",
            {"detail": {"type": "error", "error": {"type": "authentication_error", "message": "Invalid API key."}}},
            401,
            "*",
        ),
    ),
    case(
        "previous-response-id",
        "unsupported-params",
        CODEX,
        models(),
        responses({"detail": "Unsupported parameter: prompt_cache_key"}, 400, when=sends("prompt_cache_key")),
        responses(),
    ),
    case(
        "old-vllm-stream-options",
        "unsupported-params",
        PLAIN,
        models(),
        chat(
            {
                "object": "error",
                "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs'}]",
                "code": 400,
            },
            400,
            when=sends("stream_options"),
        ),
        sse(SSE_OK + "data: [DONE]\n\n"),
        chat(),
    ),
    case(
        "developer-without-content",
        "developer-role-rejected",
        CODEX,
        models(),
        responses(error('messages[1]: missing field "content"'), 400, when=has_role("developer")),
        responses(),
    ),
    case(
        "defer-loading",
        "beta-fields-rejected",
        CLAUDE,
        models(),
        messages(
            error("tools.0.custom.defer_loading: Extra inputs are not permitted"),
            400,
            when=lambda b, _: "defer_loading" in json.dumps(b),
        ),
        messages(),
    ),
    case("no-model-in-group", "gateway-no-channel", PLAIN, models("x"), chat(error("当前分组没有可用的模型"), 503)),
    case(
        "bedrock-output-limit",
        "max-tokens-too-large",
        PLAIN,
        models(),
        chat(error("BedrockException - The maximum tokens you requested exceeds the model limit of 4096."), 400),
    ),
    case("proxy-wants-a-password", "proxy-unreachable", PLAIN, Route("*", "<h1>407</h1>", 407, "*", "text/html")),
    case(
        "codex-html-for-responses",
        "endpoint-unsupported-responses",
        CODEX,
        models(),
        chat(),
        responses(HTML, 200, kind="text/html"),
    ),
]

ANSWER_CASES = [
    case("error-with-200", "error-in-200-body", PLAIN, models(), chat(error("Internal provider failure", code=502))),
    case(
        "error-with-200-and-null-choices",
        "error-in-200-body",
        PLAIN,
        models(),
        chat({"choices": None, "error": {"message": "boom", "code": 500}}),
    ),
    case("credits-with-200", "error-in-200-body", PLAIN, models(), chat(error("Insufficient credits", code=402), 200)),
    case("rate-limit-with-200", "error-in-200-body", PLAIN, models(), chat(error("Rate limit exceeded", code=429))),
    case(
        "gateway-code-with-200",
        "error-in-200-body",
        PLAIN,
        models(),
        chat({"code": 1001, "msg": "invalid parameter", "success": False}),
    ),
    case(
        "error-body",
        "error-in-error-body",
        PLAIN,
        models(),
        chat(error("Something specific went wrong", type="invalid_request_error"), 400),
    ),
    case(
        "no-choices",
        "unknown-choices-missing",
        PLAIN,
        models(),
        chat({"id": "x", "object": "chat.completion", "response": "hello"}),
    ),
    case("no-choices-empty-list", "unknown-choices-missing", PLAIN, models(), chat({"id": "x", "choices": []})),
    case("cut-json", "broken-response-body", PLAIN, models(), chat('{"choices": [{"index": 0, "mess')),
    case(
        "gzip-that-lies",
        "broken-response-body",
        PLAIN,
        models(),
        chat(b"\x00\x01not gzip", headers=(("content-encoding", "gzip"),)),
    ),
    case("empty-200", "broken-response-body", PLAIN, models(), chat("")),
    case("thinking-only", "reasoning-ate-budget", PLAIN, models(), chat(said(None, "length", 16, reasoning="Hmm"))),
    case(
        "thinking-with-few-tokens",
        "reasoning-ate-budget",
        Patient(max_tokens=64),
        models(),
        chat(said("", "length", 16, reasoning_content="Hmm"), when=lambda b, _: b.get("max_tokens", 9999) < 500),
        sse(SSE_OK),
        chat(),
    ),
    case(
        "answer-in-reasoning",
        "reasoning-field-ignored",
        PLAIN,
        models(),
        chat(said("", "stop", 5, reasoning_content="ready")),
    ),
    case("lost-content", "parser-lost-content", PLAIN, models(), chat(said(None, "stop", 30))),
    case("filtered", "content-filtered", PLAIN, models(), chat(said("", "content_filter", 0))),
    case(
        "stream-unasked",
        "stream-mismatch",
        PLAIN,
        models(),
        chat(SSE_OK + "data: [DONE]\n\n", kind="text/event-stream"),
    ),
    case("json-for-stream", "stream-mismatch", PLAIN, models(), chat()),
    case(
        "first-chunk-empty",
        "empty-choices-first-chunk",
        PLAIN,
        models(),
        sse(chunk(choices=[], prompt_filter_results=[]) + SSE_OK + "data: [DONE]\n\n"),
        chat(),
    ),
    case(
        "usage-chunk",
        "empty-choices-usage-chunk",
        PLAIN,
        models(),
        sse(SSE_OK + chunk(choices=[], usage={"completion_tokens": 1}) + "data: [DONE]\n\n"),
        chat(),
    ),
    case(
        "comments",
        "sse-meta-events",
        PLAIN,
        models(),
        sse(": PROCESSING\n\n" + SSE_OK + chunk(choices=[], usage={"completion_tokens": 1}) + "data: [DONE]\n\n"),
        chat(),
    ),
    case(
        "retry-event", "sse-meta-events", PLAIN, models(), sse("retry: 3000\n\n" + SSE_OK + "data: [DONE]\n\n"), chat()
    ),
    case("stream-cut", "broken-response-body", PLAIN, models(), sse(SSE_OK[:70]), chat()),
    case(
        "error-inside-stream",
        "error-in-200-body",
        PLAIN,
        models(),
        sse(chunk(error={"message": "upstream died"})),
        chat(),
    ),
    case(
        "stream-refused-as-an-event",
        "server-bug-500",
        PLAIN,
        models(),
        chat(chunk(error={"message": "boom"}), 500, kind="text/event-stream", when=streams),
        chat(),
    ),
    case("no-count-tokens", "endpoint-unsupported-count-tokens", CLAUDE, models(), messages()),
    case(
        "truncation-hidden",
        "responses-truncation-hidden",
        CODEX,
        models(),
        responses(
            {"object": "response", "status": "completed", "output": []},
            when=lambda b, _: b.get("max_output_tokens") == 1,
        ),
        responses(),
    ),
]


@pytest.mark.parametrize(
    ("codes", "patient", "routes", "default"),
    [*KEY_CASES, *FRONT_CASES, *WHERE_CASES, *WHAT_CASES, *REQUEST_CASES, *ANSWER_CASES, *MORE_CASES],
)
def test_the_cause_is_named_first(
    examined: Examined, codes: tuple[str, ...], patient: Patient, routes: tuple[Route, ...], default: Route | None
) -> None:
    diagnosis = examined(patient, *routes, default=default)
    crashed = [(r.id, r.detail) for r in diagnosis.results if r.status == "crashed"]
    assert not crashed
    found = [finding.code for finding in diagnosis.findings]
    assert found and found[0] in codes, found


HEALTHY_TOOL = {
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "1", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}],
            },
            "finish_reason": "tool_calls",
        }
    ]
}


@pytest.mark.parametrize(
    "patient",
    [
        pytest.param(Patient(name, "" if name in ("claude-code", "anthropic-sdk") else "/v1"), id=name)
        for name in CLIENTS
    ],
)
def test_a_healthy_server_gets_no_error_for_any_client(examined: Examined, patient: Patient) -> None:
    diagnosis = examined(
        patient,
        Route("/health", "", method="GET"),
        models(max_model_len=65536),
        sse(SSE_OK + "data: [DONE]\n\n"),
        chat(HEALTHY_TOOL, when=sends("tools")),
        chat(),
        responses(),
        messages(),
        Route("/v1/messages/count_tokens", {"input_tokens": 7}),
    )
    assert diagnosis.status in ("ok", "warning"), [f.code for f in diagnosis.findings]


@pytest.mark.parametrize(
    ("expected", "patient", "routes"),
    [
        pytest.param(
            {"base-url-missing-v1", "model-name-mismatch"},
            Patient(base="", model="wrong"),
            (
                models("m"),
                chat(error("The model `wrong` does not exist."), 404, when=lambda b, _: b["model"] != "m"),
                chat(),
            ),
            id="no-v1-and-wrong-model",
        ),
        pytest.param(
            {"base-url-extra-v1", "tool-choice-not-enabled"},
            Patient("claude-code", "/v1"),
            (models(), messages(error("--enable-auto-tool-choice"), 400, when=sends("tools")), messages()),
            id="extra-v1-and-no-tools",
        ),
        pytest.param(
            {"key-whitespace", "model-name-mismatch"},
            Patient(key=" sk-test-123456", model="wrong"),
            (models("m"), chat(error("The model `wrong` does not exist."), 404)),
            id="blank-in-key-and-wrong-model",
        ),
        pytest.param(
            {"base-url-full-endpoint", "key-invalid"},
            Patient(base="/v1/chat/completions"),
            (Route("/v1/chat/completions", UNAUTHORIZED, 401), Route("/v1/models", UNAUTHORIZED, 401, "GET")),
            id="full-endpoint-and-wrong-key",
        ),
        pytest.param(
            {"context-length-exceeded", "tool-choice-not-enabled"},
            CODEX,
            (
                models(max_model_len=4096),
                responses(error("--enable-auto-tool-choice"), 400, when=sends("tools")),
                responses(),
            ),
            id="small-window-and-no-tools",
        ),
    ],
)
def test_two_causes_at_once_are_both_named(
    examined: Examined, expected: set[str], patient: Patient, routes: tuple[Route, ...]
) -> None:
    found = {finding.code for finding in examined(patient, *routes).findings if finding.severity == "error"}
    assert expected <= found


def test_no_key_is_in_anything_that_is_said(examined: Examined) -> None:
    key = "sk-secret-abcdef123456"
    echo = Route("/v1/*", {"error": {"message": f"Incorrect API key provided: {key}"}}, 401, "*")
    from wizard.secret import redact

    diagnosis = examined(Patient(key=key), echo)
    assert key not in redact(json.dumps([finding.as_json() for finding in diagnosis.findings]))


def test_cheap_sends_nothing_that_a_model_would_answer(examined: Examined) -> None:
    diagnosis = examined(PLAIN, models(), chat(CHAT_OK), cheap=True)
    assert all(result.status in ("ok", "skipped", "unknown") for result in diagnosis.results)


@pytest.mark.parametrize(
    ("patient", "routes", "code"),
    [
        pytest.param(PLAIN, (Route("/v1/*", UNAUTHORIZED, 401, "*"),), "key-invalid", id="key"),
        pytest.param(Patient(key=""), (Route("/v1/*", UNAUTHORIZED, 401, "*"),), "key-missing", id="no-key"),
        pytest.param(Patient(base=""), (models(),), "base-url-missing-v1", id="no-v1"),
        pytest.param(Patient(model="Qwen3"), (models("org/qwen3"),), "model-name-mismatch", id="model"),
        pytest.param(PLAIN, (models(),), "", id="fine"),
    ],
)
def test_cheap_still_names_what_a_list_of_models_shows(
    examined: Examined, patient: Patient, routes: tuple[Route, ...], code: str
) -> None:
    found = [finding.code for finding in examined(patient, *routes, cheap=True).findings]
    assert (found[0] if found else "") == code


def test_cheap_is_unknown_where_even_the_list_tells_nothing(examined: Examined) -> None:
    assert examined(PLAIN, cheap=True).status == "unknown"


def test_the_fix_for_tools_names_the_parser_of_a_known_model(examined: Examined) -> None:
    refused = chat(error("requires --enable-auto-tool-choice"), 400, when=sends("tools"))
    diagnosis = examined(Patient("cline", model="Qwen/Qwen3-8B"), models("Qwen/Qwen3-8B"), refused, chat())
    fix = diagnosis.findings[0].fix
    assert fix is not None
    assert "--enable-auto-tool-choice --tool-call-parser hermes" in fix.text


def test_a_stream_that_is_cut_before_its_first_event_is_broken(examined: Examined) -> None:
    cut = chat("", kind="text/event-stream", when=streams, cut="peer closed connection")
    found = examined(PLAIN, models(), cut, chat())
    assert found.findings[0].code == "broken-response-body"


# ---- refusals in words that nobody knows: what passes tells


@pytest.mark.parametrize(
    ("passes", "answer", "code"),
    [
        pytest.param(streams, sse(SSE_OK), "stream-mismatch", id="only-streams"),
        pytest.param(sends("max_completion_tokens"), chat(), "unsupported-params", id="the-newer-limit"),
        pytest.param(content_is_list, chat(), "content-parts-unsupported", id="only-parts"),
        pytest.param(lambda *_: False, chat(), "error-in-error-body", id="nothing"),
    ],
)
def test_the_one_change_that_passes_tells_what_a_refusal_is_about(
    examined: Examined, passes: When, answer: Route, code: str
) -> None:
    refusal = chat({"error": {"message": "E4711"}}, 400)
    diagnosis = examined(PLAIN, models(), replace(answer, when=passes), refusal)
    assert diagnosis.findings[0].code == code


# ---- refusals without words: which request is refused tells


@pytest.mark.parametrize(
    ("patient", "route", "code"),
    [
        pytest.param(CLAUDE, messages("", 422, when=sends("tools")), "tool-choice-not-enabled", id="tools-of-claude"),
        pytest.param(Patient("cline", max_tokens=32000), chat("", 400, when=streams), "stream-mismatch", id="streams"),
        pytest.param(CODEX, responses(error("E4711"), 404), "endpoint-unsupported-responses", id="responses"),
        pytest.param(CLAUDE, messages(error("E4711"), 404), "endpoint-unsupported-messages", id="messages"),
        pytest.param(
            Patient(max_tokens=32000),
            chat(error("E4711"), 500, when=lambda body, _: body.get("max_tokens", 0) > 20000),
            "server-bug-500",
            id="fails-inside-for-a-long-answer",
        ),
    ],
)
def test_what_is_refused_without_a_word_is_told_by_what_is_not(
    examined: Examined, patient: Patient, route: Route, code: str
) -> None:
    diagnosis = examined(patient, models(), route, messages(), responses(), chat())
    assert [finding.code for finding in diagnosis.findings if finding.severity == "error"][:1] == [code]


@pytest.mark.parametrize(
    "nothing",
    [
        pytest.param(Route("*", error("E4711"), 404), id="in-unknown-words"),
        pytest.param(Route("*", "", 302, headers=(("location", "/login"),)), id="by-a-redirect"),
    ],
)
@pytest.mark.parametrize(
    ("patient", "code"), [(CODEX, "endpoint-unsupported-responses"), (CLAUDE, "endpoint-unsupported-messages")]
)
def test_a_server_that_says_everywhere_that_there_is_nothing_lacks_the_protocol(
    examined: Examined, patient: Patient, code: str, nothing: Route
) -> None:
    diagnosis = examined(patient, models(), chat(), default=nothing)
    assert [finding.code for finding in diagnosis.findings if finding.severity == "error"] == [code]
