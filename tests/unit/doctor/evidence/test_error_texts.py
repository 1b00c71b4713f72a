"""What clients print for each cause, and what the doctor makes of it. Texts as seen with the clients themselves."""

import json
from pathlib import Path
from typing import Any

import pytest

from wizard.doctor.causes import find_cause
from wizard.doctor.error_texts import all_error_texts, explain_error
from wizard.doctor.observations import Context

CONTAINER = Context("linux", assumed="container")
SEEN_CONTAINER = Context("linux", container="docker")
WSL = Context("linux", wsl=True)
ROUTE = "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # 401
        pytest.param(
            f'unexpected status 401 Unauthorized: {{"error": "Unauthorized"}}, url: {ROUTE}/v1/responses',
            "key-invalid",
            id="codex-401",
        ),
        pytest.param('Failed to authenticate. API Error: 401 {"error":"Unauthorized"}', "key-invalid", id="claude-401"),
        pytest.param("error: Unauthorized", "key-invalid", id="cline-401"),
        pytest.param('401 "Unauthorized"', "key-invalid", id="continue-401"),
        pytest.param(
            "litellm.AuthenticationError: AuthenticationError: OpenAIException - Error code: 401",
            "key-invalid",
            id="aider-401",
        ),
        pytest.param("openai.AuthenticationError: Error code: 401", "key-invalid", id="sdk-401"),
        # no key at all
        pytest.param("httpx.LocalProtocolError: Illegal header value b'Bearer '", "key-missing", id="empty-key"),
        pytest.param("Not logged in · Please run /login", "key-missing", id="claude-no-key"),
        pytest.param("No auth type is selected. Please configure an auth type", "key-missing", id="qwen-no-key"),
        pytest.param(
            "openai.OpenAIError: The api_key client option must be set either by passing api_key to the client",
            "key-missing",
            id="sdk-no-key",
        ),
        pytest.param("Illegal header value b'Bearer sk-abc\\n'", "key-whitespace", id="a-line-end-in-the-key"),
        pytest.param(
            'TypeError: Invalid character in header content ["authorization"]', "key-whitespace", id="node-header"
        ),
        pytest.param("ERROR: Missing environment variable: `MY_KEY`.", "key-env-not-visible", id="codex-variable"),
        pytest.param(
            "LiteLLM Virtual Key expected. Received=abc, expected to start with 'sk-'.",
            "key-format-rejected",
            id="litellm-form",
        ),
        pytest.param(
            "Auth conflict: Both a token (ANTHROPIC_AUTH_TOKEN) and an API key (ANTHROPIC_API_KEY) are set.",
            "auth-conflict-env",
            id="claude-two-keys",
        ),
        pytest.param("OAuth token has expired. Please run /login", "oauth-token-expired", id="claude-login-expired"),
        pytest.param(
            "Unable to connect to Anthropic services / Failed to connect to api.anthropic.com: ENOTFOUND",
            "claude-first-start",
            id="claude-first-start",
        ),
        pytest.param(
            "Ignored unsupported project-local config keys: model_provider",
            "codex-project-config-ignored",
            id="codex-project",
        ),
        # Codex's own
        pytest.param(
            'Error loading config.toml: `wire_api = "chat"` is no longer supported.',
            "wire-api-chat-removed",
            id="codex-chat",
        ),
        pytest.param(
            "ERROR: plan type is required for chatgpt authentication", "codex-auth-json-shape", id="codex-plan-type"
        ),
        pytest.param("ERROR: Reconnecting... waiting for network", "server-not-ready", id="codex-never-ends"),
        pytest.param(
            "We’re currently experiencing high demand, which may cause temporary errors.",
            "server-bug-500",
            id="codex-500",
        ),
        pytest.param(
            f'unexpected status 404 Not Found: {{"detail": "Not Found"}}, url: {ROUTE}/responses',
            "base-url-missing-v1",
            id="codex-without-v1",
        ),
        pytest.param(
            f'unexpected status 404 Not Found: {{"detail": "Not Found"}}, url: {ROUTE}/v1/responses',
            "endpoint-unsupported-responses",
            id="codex-no-responses",
        ),
        pytest.param(
            f"unexpected status 404 Not Found: The model `m` does not exist., url: {ROUTE}/v1/responses",
            "model-name-mismatch",
            id="codex-model",
        ),
        # models and paths
        pytest.param(
            "There's an issue with the selected model (m). It may not exist or you may not have access to it.",
            "model-name-mismatch",
            id="claude-any-404",
        ),
        pytest.param("error: The model `m` does not exist.", "model-name-mismatch", id="cline-model"),
        pytest.param("404 status code (no body)", "base-url-missing-v1", id="continue-404"),
        pytest.param('Error: Not Found: {"detail": "Not Found"}', "base-url-missing-v1", id="opencode-404"),
        pytest.param("Invalid URL (POST /v1/messages)", "endpoint-unsupported-messages", id="openai-messages"),
        pytest.param(f"404 from {ROUTE}/v1/v1/messages", "base-url-extra-v1", id="v1-twice"),
        pytest.param(
            "litellm.BadRequestError: LLM Provider NOT provided. You passed model=qwen",
            "litellm-provider-prefix",
            id="litellm",
        ),
        # the way
        pytest.param("API Error: Connection refused (ECONNREFUSED)", "server-not-ready", id="claude-refused"),
        pytest.param(
            "error: Cannot connect to API: Unable to connect. Is the computer able to ... (ConnectionRefused)",
            "server-not-ready",
            id="cline-refused",
        ),
        pytest.param("openai.APIConnectionError: Connection error.", "server-unreachable", id="sdk-refused"),
        pytest.param("TypeError: fetch failed", "server-unreachable", id="node-fetch-failed"),
        pytest.param("connect ECONNREFUSED ::1:11434", "localhost-ipv6", id="node-ipv6"),
        pytest.param(
            "connect ECONNREFUSED ::1:8000; connect ECONNREFUSED 127.0.0.1:8000",
            "server-not-ready",
            id="both-families",
        ),
        pytest.param("Can't reach the API server — check your DNS (ENOTFOUND)", "name-not-resolved", id="claude-name"),
        pytest.param("getaddrinfo ENOTFOUND host.docker.internal", "wrong-host-in-container", id="docker-s-name"),
        pytest.param("Error: self signed certificate in certificate chain", "tls-untrusted-ca", id="node-certificate"),
        pytest.param("SELF_SIGNED_CERT_IN_CHAIN", "tls-untrusted-ca", id="undici-certificate"),
        pytest.param("write EPROTO: SSL routines: wrong version number", "tls-on-plain-http-port", id="https-on-http"),
        pytest.param("local proxy failed", "server-not-ready", id="a-switch-program"),
        pytest.param("Unknown scheme for proxy URL URL('socks://127.0.0.1:1080')", "proxy-env-malformed", id="socks"),
        pytest.param(
            "Request timed out. ... set API_TIMEOUT_MS above 4000.", "client-timeout-too-short", id="claude-timeout"
        ),
        pytest.param("<html><h1>504 Gateway Time-out</h1></html>", "proxy-read-timeout", id="nginx-timeout"),
        pytest.param("upstream connect error or disconnect/reset before headers", "server-not-ready", id="envoy"),
        # bodies
        pytest.param(
            "Cannot read properties of undefined (reading 'choices')", "error-in-200-body", id="reading-choices"
        ),
        pytest.param("KeyError: 'choices'", "error-in-200-body", id="key-error"),
        pytest.param("TypeError: 'NoneType' object is not subscriptable", "error-in-200-body", id="none-type"),
        pytest.param("AttributeError: 'str' object has no attribute 'choices'", "html-instead-of-json", id="sdk-html"),
        pytest.param(
            "SyntaxError: Unexpected token '<', \"<!DOCTYPE \"...", "html-instead-of-json", id="json-parse-html"
        ),
        pytest.param(
            "stream disconnected before completion: stream closed before response.completed",
            "error-in-200-body",
            id="codex-body",
        ),
        pytest.param("error: Response stream ended without a finish reason.", "error-in-200-body", id="cline-body"),
        pytest.param(
            "Empty response received from LLM. Check your provider account?", "error-in-200-body", id="aider-body"
        ),
        pytest.param("Premature close", "broken-response-body", id="continue-cut"),
        pytest.param("terminated (cause: UND_ERR_SOCKET: other side closed)", "broken-response-body", id="qwen-cut"),
        pytest.param("IndexError: list index out of range", "empty-choices-usage-chunk", id="an-empty-list"),
        # requests
        pytest.param(
            '{"error": {"message": "\\"auto\\" tool choice requires --enable-auto-tool-choice"}}',
            "tool-choice-not-enabled",
            id="tools",
        ),
        pytest.param(
            "Prompt is too long · the provider said: This model's maximum context length is 4096",
            "context-length-exceeded",
            id="claude-context",
        ),
        pytest.param("Model openai/m has hit a token limit!", "context-length-exceeded", id="aider-context"),
        pytest.param(
            "max_tokens=32000 cannot be greater than max_model_len=16384.", "max-tokens-too-large", id="output-limit"
        ),
        pytest.param("Conversation roles must alternate user/assistant", "template-role-order", id="role-order"),
        pytest.param("System role not supported", "template-no-system-role", id="no-system-role"),
        pytest.param("context_management: Extra inputs are not permitted", "beta-fields-rejected", id="beta-fields"),
        pytest.param("m is not a multimodal model", "not-multimodal", id="image"),
        # gateways
        pytest.param("当前分组 default 下对于模型 m 无可用渠道", "gateway-no-channel", id="one-api"),
        pytest.param("You exceeded your current quota (insufficient_quota)", "insufficient-credits", id="no-credit"),
        pytest.param("429 Too Many Requests", "rate-limited", id="too-many"),
        pytest.param("Attention Required! | Cloudflare", "waf-block", id="cloudflare"),
        # a server's own words
        pytest.param("torch.OutOfMemoryError: CUDA out of memory.", "cuda-oom", id="a-server-s-log"),
    ],
)
def test_a_text_is_explained_by_its_likeliest_cause(text: str, code: str) -> None:
    problems = explain_error(text)
    assert (problems[0].code, problems[0].severity) == (code, "error")
    assert all(problem.severity == "warning" for problem in problems[1:])


@pytest.mark.parametrize(
    ("text", "context", "code"),
    [
        pytest.param(
            'Post "http://localhost:11434/api/chat": dial tcp [::1]:11434: connect: connection refused',
            CONTAINER,
            "wrong-host-in-container",
            id="said-to-be-a-container",
        ),
        pytest.param("Connection error.", CONTAINER, "wrong-host-in-container", id="no-host-named-in-a-container"),
        pytest.param(
            "connect ECONNREFUSED ::1:11434", SEEN_CONTAINER, "localhost-ipv6", id="ipv6-weighs-more-than-a-guess"
        ),
        pytest.param(
            "connect ECONNREFUSED 127.0.0.1:80", SEEN_CONTAINER, "server-not-ready", id="a-container-only-noticed"
        ),
        pytest.param("connect ECONNREFUSED 10.0.0.5:80", SEEN_CONTAINER, "server-not-ready", id="another-host"),
        pytest.param("connect ECONNREFUSED 127.0.0.1:80", WSL, "wsl-network", id="wsl"),
    ],
)
def test_the_place_decides_what_localhost_meant(text: str, context: Context, code: str) -> None:
    assert explain_error(text, context)[0].code == code


def test_a_text_that_nobody_knows_brings_nothing() -> None:
    assert explain_error("Everything is fine.") == ()


def test_a_misleading_text_is_called_so_and_the_deciding_probe_named() -> None:
    problem = explain_error("There's an issue with the selected model (m).")[0]
    assert "every 404" in problem.why
    assert problem.fix is not None
    assert "/v1/messages" in problem.fix.text
    assert "base-url-extra-v1" in [p.code for p in explain_error("There's an issue with the selected model (m).")]


def test_evidence_holds_no_key() -> None:
    problem = explain_error("401 Unauthorized: Incorrect API key provided: sk-0123456789abcdef0123")[0]
    assert "0123456789abcdef" not in str(problem)


def test_a_long_text_is_cut() -> None:
    problem = explain_error("x" * 100_000 + " KeyError: 'choices' " + "y" * 5_000)[0]
    assert problem.code == "error-in-200-body"
    assert len(problem.saw[0]) < 300


def test_every_candidate_is_a_cause_with_texts() -> None:
    assert [c.code for row in all_error_texts() for c in row.candidates if not find_cause(c.code).title] == []


TEXTS = [
    json.loads(line)
    for line in Path(__file__).with_name("client_texts.jsonl").read_text(encoding="utf-8").splitlines()
    if line
]


@pytest.mark.parametrize("row", TEXTS, ids=[f"{row['codes'][0]}-{number}" for number, row in enumerate(TEXTS)])
def test_texts_of_other_programs_lead_to_the_same_causes(row: dict[str, Any]) -> None:
    """client_texts.jsonl: what SDKs, editors, chat interfaces and proxies print; codes: any of which may come first."""
    context = CONTAINER if row.get("container") else Context("linux")
    assert explain_error(row["text"], context)[0].code in row["codes"]


@pytest.mark.parametrize(
    "text",
    [
        "Model metadata for `my-model` not found. Defaulting to fallback metadata",
        "failed to refresh available models: failed to decode models response: missing field `models`",
    ],
)
def test_what_clients_say_without_need_is_no_fault(text: str) -> None:
    assert {problem.severity for problem in explain_error(text)} == {"info"}


@pytest.mark.parametrize("column", [40, 60, 140, 150, 155, 159, 220, 230, 239])
@pytest.mark.parametrize("said", ["status 400: unknown name `foo`", "ECONNRESET"])
def test_no_part_of_a_key_is_left_by_a_cut(said: str, column: int) -> None:
    key = "sk-proj-S3cr3tS3cr3tS3cr3tS3cr3tS3cr3t"
    for text in (
        said + " " + "x" * (column - len(said) - 2) + " " + key + " y" * 200,
        "x " * column + key + " " + said,
    ):
        found = explain_error(text)
        assert found
        assert "sk-" not in str(found)


@pytest.mark.parametrize(
    "text",
    [
        "bash: -c: line 2: syntax error: unexpected end of file",
        "bash: -c: line 1: unexpected EOF while looking for matching `\"'",
        "SyntaxError: unterminated string literal (detected at line 1)",
        "SyntaxError: unexpected EOF while parsing",
    ],
)
def test_an_error_of_a_shell_or_of_python_is_no_broken_answer(text: str) -> None:
    assert "broken-response-body" not in [problem.code for problem in explain_error(text)]


@pytest.mark.parametrize("text", ["zlib: unexpected end of file", "unexpected EOF", "Unterminated string in JSON at 5"])
def test_an_answer_that_was_cut_off_is_one(text: str) -> None:
    assert explain_error(text)[0].code == "broken-response-body"


@pytest.mark.parametrize(
    "text",
    [
        "The stop sign should not be ignored: top_p must go, said the metadata of the store, which can not be.",
        "I wrote a class whose argument is not allowed to be None",
    ],
)
def test_prose_without_a_status_is_no_refusal(text: str) -> None:
    assert explain_error(text) == ()
