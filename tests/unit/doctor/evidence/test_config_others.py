"""The other clients' files: model names for LiteLLM, ids, full endpoints, and keys taken from variables."""

from typing import Any

import pytest

from wizard.doctor.checks.config_others import CHECKS, lacks_provider

AIDER, CCR = "~/.aider.conf.yml", "~/.claude-code-router/config.json"
OPENCODE, LITELLM = "~/.config/opencode/opencode.json", "./litellm_config.yaml"


@pytest.mark.parametrize(
    ("model", "base", "lacks"),
    [
        pytest.param("openai/qwen3", "http://h/v1", False, id="openai"),
        pytest.param("hosted_vllm/org/model", "http://h/v1", False, id="hosted-vllm"),
        pytest.param("ollama_chat/qwen3", "", False, id="ollama"),
        pytest.param("gpt-4o", "", False, id="a-name-it-knows"),
        pytest.param("sonnet", "", False, id="an-alias"),
        pytest.param("claude-sonnet-4-5", "", False, id="anthropic-s-own"),
        pytest.param("local/qwen3", "", True, id="an-invented-provider"),
        pytest.param("Qwen/Qwen3-8B", "http://h/v1", True, id="a-hub-id"),
        pytest.param("qwen3", "http://h/v1", True, id="a-bare-name-with-an-own-server"),
        pytest.param("qwen3", "", False, id="a-bare-name-and-nothing-else"),
    ],
)
def test_a_model_name_says_its_provider(model: str, base: str, lacks: bool) -> None:
    assert lacks_provider(model, base) is lacks


@pytest.mark.parametrize(
    ("files", "env", "codes"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({AIDER: "model: openai/m\n"}, {}, [], id="aider-right"),
        pytest.param({AIDER: "model: mine/m\n"}, {}, ["litellm-provider-prefix"], id="aider-invented"),
        pytest.param(
            {AIDER: "model: openai/m\nweak-model: m\nopenai-api-base: http://h/v1\n"},
            {},
            ["litellm-provider-prefix"],
            id="aider-weak-model",
        ),
        pytest.param({}, {"AIDER_MODEL": "x/m"}, ["litellm-provider-prefix"], id="aider-variable"),
        pytest.param(
            {LITELLM: "model_list:\n- model_name: m\n  litellm_params: {model: m, api_base: http://h/v1}\n"},
            {},
            ["litellm-provider-prefix"],
            id="litellm-without-provider",
        ),
        pytest.param(
            {LITELLM: "model_list:\n- model_name: m\n  litellm_params: {model: openai/m, api_base: http://h/v1}\n"},
            {},
            [],
            id="litellm-right",
        ),
        pytest.param(
            {CCR: {"Providers": [{"name": "x", "api_base_url": "http://localhost:1234/v1/chat/completions"}]}},
            {},
            [],
            id="the-router-wants-the-whole-endpoint",
        ),
        pytest.param(
            {CCR: {"Providers": [{"name": "x", "api_base_url": "http://localhost:1234/v1"}]}},
            {},
            ["base-url-wrong-path"],
            id="the-router-with-a-base-url",
        ),
        pytest.param(
            {"~/.cline/data/settings/providers.json": {"lastUsedProvider": "openai", "providers": {"openai": {}}}},
            {},
            ["cline-provider-id"],
            id="cline-s-id",
        ),
        pytest.param(
            {"~/.continue/config.json": {"models": []}}, {}, ["client-file-ignored"], id="continue-s-old-file"
        ),
        pytest.param({OPENCODE: '{"a": '}, {}, ["client-file-broken"], id="a-file-that-does-not-parse"),
        pytest.param({OPENCODE: '{"a": 1, // fine here\n}'}, {}, [], id="comments-where-they-are-allowed"),
        pytest.param({OPENCODE: '{"apiKey": "{env:MY_KEY}"}'}, {}, ["key-env-not-visible"], id="an-unset-variable"),
        pytest.param({OPENCODE: '{"apiKey": "{env:MY_KEY}"}'}, {"MY_KEY": "sk-1"}, [], id="a-set-variable"),
        pytest.param(
            {
                "~/.continue/config.yaml": "models:\n- apiKey: ${{ secrets.MY_KEY }}\n",
                "~/.continue/.env": "MY_KEY=sk-1\n",
            },
            {},
            [],
            id="a-variable-in-the-client-s-dotenv",
        ),
        pytest.param(
            {LITELLM: "model_list:\n- litellm_params: {model: openai/m, api_key: os.environ/MY_KEY}\n"},
            {},
            ["key-env-not-visible"],
            id="litellm-s-variable",
        ),
    ],
)
def test_client_files(files: dict[str, Any], env: dict[str, str], codes: list[str], look: Any, problems: Any) -> None:
    assert [problem.code for problem in problems(CHECKS, look(files, env))] == codes


@pytest.mark.parametrize(
    ("client", "url", "codes"),
    [
        pytest.param("opencode", "http://h:8000/v1", [], id="right"),
        pytest.param("opencode", "http://h:8000", ["base-url-missing-v1"], id="no-v1"),
        pytest.param("opencode", "http://h:8000/v1/", ["base-url-trailing-slash"], id="a-slash"),
        pytest.param("opencode", "http://h:8000/v1/chat/completions", ["base-url-full-endpoint"], id="an-endpoint"),
        pytest.param("anthropic-sdk", "http://h:8000", [], id="anthropic-right"),
    ],
)
def test_urls_by_their_form(client: str, url: str, codes: list[str], look: Any, problems: Any) -> None:
    seen = look(base_url=url, client=client, explicit=False)
    assert [problem.code for problem in problems(CHECKS, seen)] == codes
