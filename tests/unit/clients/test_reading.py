"""Reading a client's triple back, as the client itself would."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wizard.clients.edit import show_difference
from wizard.clients.keys import clean_key
from wizard.endpoint.presets import all_presets, find_preset
from wizard.flows.clients import installed_clients, list_clients, load_clients, read_triples
from wizard.flows.verify import request_as_client, verify_clients


def triple(home: Any, name: str) -> Any:
    found = read_triples(home.world, [name])
    return found[0] if found else None


def test_claude_settings_win_over_the_shell(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path, {"ANTHROPIC_BASE_URL": "http://shell", "ANTHROPIC_AUTH_TOKEN": "sk-from-shell-1"})
    home.write(".claude/settings.json", json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://settings"}}))
    found = triple(home, "claude-code")
    assert found.base_url == "http://settings"
    assert [f.source for f in found.base_urls] == [
        "~/.claude/settings.json: env.ANTHROPIC_BASE_URL",
        "$ANTHROPIC_BASE_URL",
    ]
    assert found.key.reveal() == "sk-from-shell-1"
    assert found.key_source == "$ANTHROPIC_AUTH_TOKEN"


def test_claude_takes_the_projects_local_settings_first(home: Any) -> None:
    home.write(".claude/settings.json", json.dumps({"env": {"ANTHROPIC_MODEL": "user"}}))
    for name, model in (("settings.json", "project"), ("settings.local.json", "local")):
        path = home.project / ".claude" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"env": {"ANTHROPIC_MODEL": model}}))
    assert [found.value for found in triple(home, "claude-code").models] == ["local", "project", "user"]


def test_codex_takes_the_variable_before_the_token_before_auth_json(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path, {"MY_KEY": "sk-variable-12345"})
    home.write(
        ".codex/config.toml",
        'model = "m"\nmodel_provider = "p"\n[model_providers.p]\nbase_url = "http://x/v1"\n'
        'env_key = "MY_KEY"\nexperimental_bearer_token = "sk-token-1234567"\n',
    )
    home.write(".codex/auth.json", '{"OPENAI_API_KEY": "sk-auth-12345678"}')
    found = triple(home, "codex")
    assert found.base_url == "http://x/v1"
    assert [key.reveal() for key in found.keys] == ["sk-variable-12345", "sk-token-1234567", "sk-auth-12345678"]
    assert "MY_KEY" in found.key_source


def test_a_named_variable_that_is_missing_is_no_key_and_is_named(home: Any) -> None:
    home.write(
        ".codex/config.toml",
        'model_provider = "p"\n[model_providers.p]\nbase_url = "http://x/v1"\nenv_key = "MY_KEY"\n',
    )
    found = triple(home, "codex")
    assert found.key is None
    assert found.key_sources[0].missing == "MY_KEY"


def test_opencode_splits_provider_and_model_at_the_first_slash(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path, {"WORK_KEY": "sk-work-12345678"})
    options = {"baseURL": "http://x/v1", "apiKey": "{env:WORK_KEY}"}
    home.write(
        ".config/opencode/opencode.json",
        json.dumps({"model": "work/Qwen/Qwen3", "provider": {"work": {"options": options}}}),
    )
    found = triple(home, "opencode")
    assert (found.base_url, found.model) == ("http://x/v1", "Qwen/Qwen3")
    assert found.key.reveal() == "sk-work-12345678"


def test_a_file_that_does_not_parse_is_said_and_the_rest_read(home: Any) -> None:
    home.write(".codex/config.toml", "model = \n")
    home.write(".codex/auth.json", '{"OPENAI_API_KEY": "sk-auth-12345678"}')
    found = triple(home, "codex")
    assert [problem.code for problem in found.problems] == ["client-file-broken"]
    assert found.key.reveal() == "sk-auth-12345678"


def test_nothing_configured_is_nothing_read(home: Any) -> None:
    assert read_triples(home.world) == ()


def test_a_client_is_installed_by_its_program_or_its_folder(make_home: Any, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "codex").write_text("#!/bin/sh\n")
    (programs / "codex").chmod(0o755)
    home = make_home(tmp_path, {"PATH": str(programs)})
    (home.path / ".qwen").mkdir()
    assert {spec.name for spec in installed_clients(home.world)} == {"codex", "qwen"}


def test_files_of_our_own_do_not_make_a_client_installed(home: Any, endpoint: Any) -> None:
    names = [name for name, client in load_clients(home.world).items() if client.spec.has_scope("user")]
    before = installed_clients(home.world)
    home.apply(*names)
    home.apply(*names, endpoint=replace(endpoint, model="another"))
    assert installed_clients(home.world) == before
    home.write(".codex/history.jsonl", "{}\n")
    assert [spec.name for spec in installed_clients(home.world) if spec not in before] == ["codex"]


@pytest.mark.parametrize("name", ["codex", "claude-code", "opencode", "aider", "openai-sdk", "anthropic-sdk"])
def test_verify_asks_for_a_stream_where_the_client_does(name: str, home: Any) -> None:
    home.apply(name)
    request, _ = request_as_client(load_clients(home.world)[name].spec, triple(home, name))
    assert bool(request.json_body.get("stream")) == (name not in ("openai-sdk", "anthropic-sdk"))


def listing(home: Any, room: int) -> None:
    """The endpoint answers Codex, and says how many tokens it holds."""
    stream = 'data: {"type": "response.output_text.delta", "delta": "hi"}\n\ndata: {"type": "response.completed"}\n\n'
    home.network.replies["http://127.0.0.1:8000/v1/responses"] = (200, stream)
    listed = {"data": [{"id": "Qwen/Qwen3-8B", "max_model_len": room}]}
    home.network.replies["http://127.0.0.1:8000/v1/models"] = (200, listed)


@pytest.mark.parametrize(("room", "status"), [(8192, "context"), (12400, "context"), (32768, "ok")])
def test_a_client_whose_first_request_is_longer_than_the_context_is_not_verified(
    room: int, status: str, home: Any
) -> None:
    home.apply("codex")
    listing(home, room)
    (verified,) = verify_clients(home.world, home.screen, ())
    assert verified.status == status
    assert (f"about 12,400 tokens, and the context holds {room:,}" in verified.detail) == (status == "context")
    assert ("[ok] Codex CLI: its own request" in home.said) == (status == "ok")


def test_a_client_that_streams_is_not_verified_by_an_endpoint_that_answers_whole_requests_only(home: Any) -> None:
    home.apply("codex")
    home.network.replies["http://127.0.0.1:8000/v1/responses"] = (200, {"status": "completed", "output": [{}]})
    (verified,) = verify_clients(home.world, home.screen, ())
    assert verified.status == "failed"
    assert "asked for a stream" in verified.detail


@pytest.mark.parametrize(
    ("name", "path", "header"),
    [
        ("codex", "/v1/responses", "authorization"),
        ("claude-code", "/v1/messages", "anthropic-beta"),
        ("aider", "/v1/chat/completions", "authorization"),
    ],
)
def test_verify_asks_as_the_client_asks(name: str, path: str, header: str, home: Any) -> None:
    from wizard.flows.clients import load_clients

    home.apply(name)
    request, _ = request_as_client(load_clients(home.world)[name].spec, triple(home, name))
    assert request.url == f"http://127.0.0.1:8000{path}"
    assert header in dict(request.headers)
    assert request.json_body["model"] == "Qwen/Qwen3-8B"
    assert ("tools" in request.json_body) == (name != "aider")


@pytest.mark.parametrize(
    ("typed", "key", "removed"),
    [
        ("sk-1234567890", "sk-1234567890", 0),
        ("  sk-1234567890\r\n", "sk-1234567890", 1),
        ('"sk-1234567890"', "sk-1234567890", 1),
        ("“sk-1234567890”", "sk-1234567890", 1),
        ("Bearer sk-1234567890", "sk-1234567890", 1),
        ("Authorization: Bearer sk-1234567890", "sk-1234567890", 1),
        ("export OPENAI_API_KEY='sk-1234567890'", "sk-1234567890", 2),
        ("$env:KEY = sk-1234567890", "sk-1234567890", 1),
        ("sk-12345\n67890", "sk-1234567890", 1),
        ("sk-123\u200b4567890", "sk-1234567890", 1),
        ("key=with=signs", "key=with=signs", 0),
    ],
)
def test_a_key_is_cleaned_of_what_was_pasted_with_it(typed: str, key: str, removed: int) -> None:
    found = clean_key(typed)
    assert found.key is not None
    assert found.key.reveal() == key
    assert len(found.removed) == removed


def test_an_empty_key_is_none() -> None:
    assert clean_key(' "" ').key is None


def test_presets_have_all_that_is_promised() -> None:
    presets = {preset.id: preset for preset in all_presets()}
    assert presets.keys() >= {
        *("vllm", "taotoken", "openrouter", "litellm", "one-api", "new-api", "ollama", "lmstudio", "sglang"),
        *("llama-cpp", "azure", "openai", "anthropic", "dashscope", "siliconflow", "deepseek", "zhipu", "moonshot"),
    }
    for preset in presets.values():
        assert preset.source.startswith("https://")
        assert preset.openai_base_url
        assert ("messages" in preset.speaks) == (preset.anthropic_base_url is not None)
        assert not (preset.anthropic_base_url or "").endswith("/v1")
    assert presets["taotoken"].anthropic_base_url == "https://taotoken.net/api"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://taotoken.net/api/v1", "taotoken"),
        ("https://RES.openai.azure.com/openai/v1", "azure"),
        ("http://127.0.0.1:8000/v1", None),
        ("https://nottaotoken.net", None),
    ],
)
def test_a_preset_is_known_by_its_host(url: str, found: str | None) -> None:
    preset = find_preset(url)
    assert (preset.id if preset else None) == found


def test_a_diff_hides_keys_of_every_shape() -> None:
    before = '{\n  "apiKey": "plainoldsecret",\n  "access_token": "abcdef123456",\n  "max_tokens": 32000000\n}\n'
    after = before.replace("}", ' "experimental_bearer_token": "another-one-9"\n}')
    shown = show_difference(before.encode(), after.encode(), "f", 9)
    for secret in ("plainoldsecret", "abcdef123456", "another-one-9"):
        assert secret not in shown
    assert "32000000" in shown


def test_a_diff_of_a_very_long_line_shows_where_it_changes() -> None:
    before = '{"history": "' + "x" * 5000 + '", "a": 1}'
    shown = show_difference(before.encode(), before.replace('"a": 1', '"a": 2').encode(), "f")
    assert '"a": 2' in shown
    assert len(shown) < 1000


def test_llm_reads_the_entry_that_its_default_model_names(home: Any) -> None:
    home.write(
        ".config/io.datasette.llm/extra-openai-models.yaml",
        "- model_id: work\n  model_name: w\n  api_base: http://work/v1\n  api_key_name: k\n",
    )
    assert triple(home, "llm") is None
    (applied,) = home.apply("llm")
    assert applied.problems == ()
    assert triple(home, "llm").model == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("client", "path", "text", "limits"),
    [
        (
            "codex",
            ".codex/config.toml",
            'model = "m"\nmodel_context_window = 9000\n',
            (None, None, 9000),
        ),
        (
            "opencode",
            ".config/opencode/opencode.json",
            '{"model": "p/a/m.1", "small_model": "p/s", "provider": {"p": {"models": '
            '{"a/m.1": {"limit": {"context": 9000, "output": 700}}}}}}',
            ("s", 700, 9000),
        ),
        (
            "kilo",
            ".config/kilo/kilo.json",
            '{"model": "p/m", "provider": {"p": {"models": {"m": {"limit": {"context": 9000, "output": 700}}}}}}',
            (None, 700, 9000),
        ),
        (
            "qwen",
            ".qwen/settings.json",
            '{"model": {"name": "m", "generationConfig": '
            '{"contextWindowSize": 9000, "samplingParams": {"max_tokens": 700}}}}',
            (None, 700, 9000),
        ),
        (
            "continue",
            ".continue/config.yaml",
            "models:\n  - model: m\n    defaultCompletionOptions: {contextLength: 9000, maxTokens: 700}\n",
            (None, 700, 9000),
        ),
        (
            "cline",
            ".cline/data/globalState.json",
            '{"actModeOpenAiModelId": "m", "actModeOpenAiModelInfo": {"maxTokens": -1, "contextWindow": 9000}}',
            (None, None, 9000),
        ),
    ],
)
def test_what_a_client_was_told_beside_its_triple(
    home: Any, client: str, path: str, text: str, limits: tuple[str | None, int | None, int | None]
) -> None:
    home.write(path, text)
    found = triple(home, client).limits
    assert (found.small_model, found.max_tokens, found.context_tokens) == limits


def test_pi_takes_the_limits_of_its_own_model(home: Any) -> None:
    home.write(".pi/agent/settings.json", '{"defaultProvider": "p", "defaultModel": "m"}')
    home.write(
        ".pi/agent/models.json",
        '{"providers": {"p": {"models": [{"id": "other", "maxTokens": 1}, {"id": "m", "maxTokens": 700}]}}}',
    )
    assert triple(home, "pi").limits.max_tokens == 700


def test_qwen_takes_the_output_limit_of_the_shell_last(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path, {"QWEN_CODE_MAX_OUTPUT_TOKENS": "800", "OPENAI_MODEL": "m"})
    assert triple(home, "qwen").limits.max_tokens == 800


def test_a_client_whose_files_are_not_read_back_is_said_to_be_unchecked_not_unwritten(home: Any) -> None:
    home.apply("curl")
    (verified,) = verify_clients(home.world, home.screen, ())
    assert verified.status == "skipped"
    assert verified.detail.startswith("not checked")


def test_a_client_whose_title_is_its_name_is_named_once_in_the_list(home: Any) -> None:
    rows = {row.spec.name: row.row()[0].split() for row in list_clients(home.world)}
    assert rows["aider"] == ["aider", "not", "installed"]
    assert rows["codex"] == ["codex", "Codex", "CLI", "not", "installed"]


def test_what_stands_in_the_way_of_several_clients_is_explained_once(home: Any, endpoint: Any) -> None:
    texts_only = replace(endpoint, speaks=frozenset({"chat", "stream", "responses"}), kind="gateway")
    home.apply("codex", "opencode", "qwen", endpoint=texts_only)
    assert home.said.count("No tool call came when the endpoint was asked for one") == 1
    assert home.said.count("needs `tools`, which this endpoint does not have") == 3
    assert "refused when the endpoint was asked" not in home.said
    assert "Start vLLM" not in home.said


def test_a_file_that_the_client_writes_itself_is_not_said_to_be_what_it_was(home: Any) -> None:
    state = home.write(".claude.json", '{"numStartups": 1}')
    home.apply("claude-code")
    state.write_text('{"numStartups": 2, "hasCompletedOnboarding": true}')
    home.restore("claude-code")
    assert json.loads(state.read_text()) == {"numStartups": 2}
    assert f"{state}: llm-setup's part is out; the rest is as it was a moment ago" in home.said
    assert f"{state}: restored" not in home.said
    assert f"{state}: gets back" not in home.said
