"""Codex's files: which shapes are found to do harm, and which are left in peace."""

from typing import Any

import pytest

from wizard.doctor.checks.config_codex import CHECKS


def config(provider: str = "", url: str = "https://llm.example.com/v1", top: str = 'model_provider = "mine"\n') -> str:
    return f'{top}model = "m"\n[model_providers.mine]\nname = "mine"\nbase_url = "{url}"\n{provider}\n'


TOML, AUTH = "~/.codex/config.toml", "~/.codex/auth.json"
KEY = {"auth_mode": "apikey", "OPENAI_API_KEY": "sk-0123456789abcdef"}
LOGIN = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": {"access_token": "t", "id_token": "i"}}
GUIDE_FLAT = {"base_url": "https://x/v1", "api_key": "sk-0123456789abcdef", "model": "m"}
GUIDE_NESTED = {"openai": {"baseURL": "https://x/v1", "apiKey": "sk-0123456789abcdef"}}


@pytest.mark.parametrize(
    ("files", "env", "codes"),
    [
        pytest.param({}, {}, [], id="no-codex"),
        pytest.param({TOML: config('env_key = "K"')}, {"K": "sk-1"}, [], id="a-key-in-a-variable"),
        pytest.param({TOML: config('experimental_bearer_token = "sk-1"')}, {}, [], id="a-token-in-the-file"),
        pytest.param({TOML: config('http_headers = { Authorization = "Bearer sk-1" }')}, {}, [], id="a-header"),
        pytest.param({TOML: config('env_http_headers = { "api-key" = "K" }')}, {}, [], id="a-header-of-azure"),
        pytest.param({TOML: config('[model_providers.mine.auth]\ncommand = "pass"')}, {}, [], id="a-command"),
        pytest.param({TOML: config(url="http://127.0.0.1:8000/v1")}, {}, [], id="a-local-server-without-keys"),
        pytest.param({TOML: config("requires_openai_auth = true"), AUTH: KEY}, {}, [], id="the-key-of-auth-json"),
        pytest.param({TOML: config()}, {}, ["codex-key-not-bound"], id="no-key-named"),
        pytest.param(
            {TOML: config(url="http://127.0.0.1:8000/v1"), AUTH: KEY},
            {},
            ["codex-key-not-bound"],
            id="a-key-in-auth-json-that-is-not-used",
        ),
        pytest.param(
            {TOML: config()}, {"OPENAI_API_KEY": "sk-1"}, ["codex-key-not-bound"], id="a-variable-that-is-not-used"
        ),
        pytest.param({TOML: config('env_key = "K"')}, {}, ["key-env-not-visible"], id="the-variable-is-unset"),
        pytest.param({TOML: config('env_key = "K"')}, {"K": ""}, ["key-missing"], id="the-variable-is-empty"),
        pytest.param(
            {TOML: config('env_key = "K"'), "~/.codex/.env": "K=sk-1\n"}, {}, [], id="the-variable-is-in-dotenv"
        ),
        pytest.param(
            {TOML: config('env_key = "sk-0123-456"')}, {}, ["key-env-not-visible"], id="the-key-itself-as-a-name"
        ),
        pytest.param({TOML: config('env_key = "K"\nwire_api = "responses"')}, {"K": "sk-1"}, [], id="wire-responses"),
        pytest.param(
            {TOML: config('env_key = "K"\nwire_api = "chat"')}, {"K": "sk-1"}, ["wire-api-chat-removed"], id="wire-chat"
        ),
        pytest.param(
            {TOML: config('env_key = "K"') + '[model_providers.old]\nwire_api = "chat"\n'},
            {"K": "sk-1"},
            ["wire-api-chat-removed"],
            id="wire-chat-in-a-provider-that-is-not-used",
        ),
        pytest.param(
            {TOML: config('env_key = "K"') + '[profiles.fast]\nmodel = "x"\n'},
            {"K": "sk-1"},
            ["codex-profile-old-format"],
            id="old-profiles",
        ),
        pytest.param(
            {TOML: 'model_provider = "mine"\n[model_providers.openai]\nbase_url = "https://x/v1"\n'},
            {},
            ["codex-provider-reserved", "codex-provider-undefined"],
            id="a-reserved-name",
        ),
        pytest.param(
            {TOML: config('env_key = "K"', top="")}, {"K": "sk-1"}, ["codex-provider-undefined"], id="nothing-chosen"
        ),
        pytest.param(
            {TOML: config('env_key = "K"', "https://llm.example.com/v1/chat/completions")},
            {"K": "sk-1"},
            ["base-url-full-endpoint"],
            id="a-full-endpoint",
        ),
        pytest.param(
            {TOML: config('env_key = "K"', "https://llm.example.com")},
            {"K": "sk-1"},
            ["base-url-missing-v1"],
            id="no-v1",
        ),
        pytest.param({TOML: "model = 'x"}, {}, ["client-file-broken"], id="broken-toml"),
        pytest.param({AUTH: KEY}, {}, [], id="a-plain-key"),
        pytest.param({AUTH: {"OPENAI_API_KEY": "sk-1"}}, {}, [], id="a-key-without-mode"),
        pytest.param({AUTH: LOGIN}, {}, [], id="a-login-alone"),
        pytest.param({AUTH: GUIDE_FLAT}, {}, ["codex-auth-json-shape"], id="flat-shape-of-guides"),
        pytest.param({AUTH: GUIDE_NESTED}, {}, ["codex-auth-json-shape"], id="nested-shape-of-guides"),
        pytest.param({AUTH: {**KEY, "auth_mode": "api_key"}}, {}, ["codex-auth-json-shape"], id="unknown-mode"),
        pytest.param({AUTH: '{"OPENAI_API_KEY": "sk-1",}'}, {}, ["codex-auth-json-shape"], id="no-json"),
        pytest.param(
            {TOML: config("requires_openai_auth = true"), AUTH: LOGIN},
            {},
            ["codex-login-sent-to-server"],
            id="a-login-sent",
        ),
        pytest.param({TOML: config("requires_openai_auth = true")}, {}, ["key-missing"], id="no-auth-json"),
        pytest.param(
            {TOML: config('env_key = "K"'), "./.codex/config.toml": config()},
            {"K": "sk-1"},
            ["codex-project-config-ignored"],
            id="a-project-s-provider",
        ),
        pytest.param(
            {AUTH: KEY}, {"OPENAI_BASE_URL": "http://x/v1"}, ["codex-base-url-not-read"], id="a-url-in-a-variable"
        ),
    ],
)
def test_codex(files: dict[str, Any], env: dict[str, str], codes: list[str], look: Any, problems: Any) -> None:
    assert [problem.code for problem in problems(CHECKS, look(files, env))] == codes


def test_a_shape_that_is_not_used_is_a_warning(look: Any, problems: Any) -> None:
    files = {TOML: config('experimental_bearer_token = "sk-1"'), AUTH: GUIDE_FLAT}
    assert [problem.severity for problem in problems(CHECKS, look(files))] == ["warning"]


def test_the_line_that_sets_the_variable_is_shown(look: Any, problems: Any) -> None:
    files = {TOML: config('env_key = "MY_KEY"'), "~/.bashrc": "# mine\nexport MY_KEY=sk-0123456789abcdef\n"}
    (problem,) = problems(CHECKS, look(files))
    assert any("/home/ann/.bashrc line 2" in line for line in problem.saw)
    assert "0123456789abcdef" not in str(problem)


def test_files_of_another_client_are_warnings(look: Any, problems: Any) -> None:
    seen = look({TOML: config('env_key = "K"')}, client_type="cline")
    assert [problem.severity for problem in problems(CHECKS, seen)] == ["warning"]
