"""Claude Code's settings: which value wins, which key is sent where, and files that it drops."""

from typing import Any

import pytest

from wizard.doctor.checks.config_claude import CHECKS

USER, LOCAL, PROJECT = "~/.claude/settings.json", "./.claude/settings.local.json", "./.claude/settings.json"
LOGIN = {"~/.claude/.credentials.json": {"claudeAiOauth": {"accessToken": "t"}}}
URL = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8000"}
TOKEN = {"ANTHROPIC_AUTH_TOKEN": "sk-0123456789abcdef"}


@pytest.mark.parametrize(
    ("files", "env", "codes"),
    [
        pytest.param({}, {}, [], id="no-claude"),
        pytest.param({USER: {"env": {**URL, **TOKEN}}}, {}, [], id="settings-alone"),
        pytest.param({}, {**URL, **TOKEN}, [], id="variables-alone"),
        pytest.param({USER: {"env": {**URL, **TOKEN}}}, {**URL, **TOKEN}, [], id="both-alike"),
        pytest.param(
            {USER: {"env": {**URL, **TOKEN}}},
            {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8000/"},
            [],
            id="alike-but-a-slash",
        ),
        pytest.param(
            {USER: {"env": {**URL, **TOKEN}}},
            {"ANTHROPIC_BASE_URL": "http://10.0.0.5:8000"},
            ["settings-override-env"],
            id="settings-win-over-the-shell",
        ),
        pytest.param(
            {USER: {"env": {**URL, **TOKEN}}, LOCAL: {"env": {"ANTHROPIC_MODEL": "b"}}},
            {"ANTHROPIC_MODEL": "a"},
            ["settings-override-env"],
            id="a-project-wins-over-the-shell",
        ),
        pytest.param(
            {}, {**URL, **TOKEN, "ANTHROPIC_API_KEY": "sk-ant-0123456789"}, ["auth-conflict-env"], id="two-variables"
        ),
        pytest.param(
            {USER: {"env": {**URL, **TOKEN}}},
            {"ANTHROPIC_API_KEY": "sk-ant-0123456789"},
            ["auth-conflict-env"],
            id="two-places",
        ),
        pytest.param({**LOGIN}, {**URL, **TOKEN}, ["auth-conflict-env"], id="a-key-beside-a-login"),
        pytest.param({**LOGIN}, {}, [], id="a-login-alone"),
        pytest.param({**LOGIN}, {**URL}, ["oauth-login-sent-to-server"], id="a-url-without-key-sends-the-login"),
        pytest.param({USER: {"env": URL}}, {}, ["key-missing"], id="a-url-without-key"),
        pytest.param({USER: {"env": URL, "apiKeyHelper": "pass llm"}}, {}, [], id="a-helper-gives-the-key"),
        pytest.param(
            {USER: '{"env": {"ANTHROPIC_MODEL": "m"}, // mine\n}'},
            {},
            ["client-file-ignored"],
            id="a-comment-drops-the-file",
        ),
        pytest.param({USER: '{"env": '}, {}, ["client-file-broken"], id="broken-json"),
        pytest.param(
            {}, {**TOKEN, "ANTHROPIC_BASE_URL": "http://h:8000/v1"}, ["base-url-extra-v1"], id="v1-at-the-end"
        ),
        pytest.param(
            {}, {**TOKEN, "ANTHROPIC_BASE_URL": "http://h:8000/v1/"}, ["base-url-extra-v1"], id="v1-and-a-slash"
        ),
        pytest.param(
            {},
            {**TOKEN, "ANTHROPIC_BASE_URL": "http://h:8000/v1/messages"},
            ["base-url-full-endpoint"],
            id="a-full-endpoint",
        ),
        pytest.param({PROJECT: {"env": {**URL, **TOKEN}}}, {}, ["key-in-shared-file"], id="a-key-in-the-shared-file"),
    ],
)
def test_claude_code(files: dict[str, Any], env: dict[str, str], codes: list[str], look: Any, problems: Any) -> None:
    assert [problem.code for problem in problems(CHECKS, look(files, env))] == codes


def test_the_winning_and_the_losing_value_are_shown_without_keys(look: Any, problems: Any) -> None:
    seen = look({USER: {"env": TOKEN}}, {"ANTHROPIC_AUTH_TOKEN": "sk-fedcba9876543210"})
    (problem,) = problems(CHECKS, seen)
    assert problem.code == "settings-override-env"
    assert "0123456789abcdef" not in str(problem)
    assert "fedcba9876543210" not in str(problem)
    assert len(problem.saw) == 2


def test_where_the_endpoint_was_asked_its_answers_weigh_more(look: Any, problems: Any) -> None:
    seen = look({}, {**URL, **TOKEN, "ANTHROPIC_API_KEY": "sk-ant-0123456789"}, probed=True)
    assert [problem.severity for problem in problems(CHECKS, seen)] == ["warning"]
