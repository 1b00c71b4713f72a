"""Homes that break other tools: each was seen somewhere, each has to survive."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wizard.problems import ProblemError


def codes(results: Any) -> list[str]:
    return [problem.code for result in results for problem in result.problems]


def test_claude_settings_with_a_comment_are_refused_and_the_line_is_named(home: Any) -> None:
    path = home.write(".claude/settings.json", '{\n  "theme": "dark", // mine\n  "env": {"A": "1"}\n}\n')
    before = home.tree()
    with pytest.raises(ProblemError) as caught:
        home.apply("claude-code")
    problem = caught.value.problem
    assert problem.code == "client-file-ignored"
    assert problem.saw == (f"{path}: line 2: comment",)
    assert home.tree() == before


def test_claude_settings_with_a_trailing_comma_are_refused_too(home: Any) -> None:
    home.write(".claude/settings.json", '{\n  "theme": "dark",\n}\n')
    with pytest.raises(ProblemError) as caught:
        home.apply("claude-code")
    assert caught.value.problem.code == "client-file-ignored"
    assert "line 2: trailing comma" in caught.value.problem.saw[0]


def test_a_root_key_goes_above_the_tables_that_would_swallow_it(home: Any) -> None:
    path = home.write(
        ".codex/config.toml", '# Codex\napproval_policy = "never"\n\n# servers\n[mcp_servers.a]\ncommand = "x"\n'
    )
    home.apply("codex")
    text = path.read_text()
    document = tomllib.loads(text)
    assert document["model"] == "Qwen/Qwen3-8B"
    assert document["mcp_servers"] == {"a": {"command": "x"}}
    assert text.index("model =") < text.index("# servers\n[mcp_servers.a]")


def test_a_codex_file_with_tables_only_gets_its_root_keys_first(home: Any) -> None:
    path = home.write(".codex/config.toml", "[mcp_servers.a]\ncommand = 'x'\n")
    home.apply("codex")
    assert tomllib.loads(path.read_text())["model_provider"] == "llm-setup"
    assert path.read_text().startswith("model = ")


def test_an_old_codex_profile_is_explained_and_kept(home: Any) -> None:
    path = home.write(".codex/config.toml", 'model = "gpt"\n[profiles.work]\nmodel = "gpt-5"\n')
    assert "codex-profile-old-format" in codes(home.apply("codex"))
    assert tomllib.loads(path.read_text())["profiles"] == {"work": {"model": "gpt-5"}}


def test_a_provider_with_the_chat_protocol_is_an_error_that_is_said(home: Any) -> None:
    home.write(".codex/config.toml", '[model_providers.old]\nbase_url = "http://x/v1"\nwire_api = "chat"\n')
    (applied,) = home.apply("codex")
    (problem,) = [p for p in applied.problems if p.code == "wire-api-chat-removed"]
    assert problem.severity == "error"
    assert problem.saw == ("~/.codex/config.toml: model_providers.old.wire_api",)


@pytest.mark.parametrize(
    "shape",
    [
        {"base_url": "http://x/v1", "api_key": "sk-abc", "model": "m"},
        {"openai": {"baseURL": "http://x/v1", "apiKey": "sk-abc"}},
    ],
    ids=["flat", "nested"],
)
def test_the_auth_json_of_wrong_guides_is_recognised_and_left_alone(shape: dict[str, Any], home: Any) -> None:
    path = home.write(".codex/auth.json", json.dumps(shape))
    assert "codex-auth-json-shape" in codes(home.apply("codex"))
    assert json.loads(path.read_text()) == shape


def test_oauth_tokens_beside_a_key_are_kept_and_said(home: Any) -> None:
    tokens = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": {"access_token": "eyJhbGciOi.eyJzdWIi.c2ln"}}
    auth = home.write(".codex/auth.json", json.dumps(tokens), mode=0o600)
    login = home.write(".claude/.credentials.json", json.dumps({"claudeAiOauth": {"accessToken": "sk-ant-oat-123456"}}))
    assert codes(home.apply("codex", "claude-code")).count("oauth-login-beside-key") == 2
    assert json.loads(auth.read_text()) == tokens
    assert "sk-ant-oat-123456" in login.read_text()
    assert "eyJhbGciOi" not in home.said
    assert "sk-ant-oat" not in home.said


def test_codex_never_gets_the_shape_that_sends_its_login_away(home: Any) -> None:
    home.apply("codex")
    assert "requires_openai_auth" not in (home.path / ".codex/config.toml").read_text()
    assert not (home.path / ".codex/auth.json").exists()


def test_claude_gets_a_bearer_token_and_never_an_api_key(home: Any) -> None:
    home.apply("claude-code")
    env = json.loads((home.path / ".claude/settings.json").read_text())["env"]
    assert "ANTHROPIC_API_KEY" not in env
    assert env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:8000"
    assert env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "65536"
    assert env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "16384"
    assert {env[f"ANTHROPIC_DEFAULT_{size}_MODEL"] for size in ("HAIKU", "SONNET", "OPUS")} == {"Qwen/Qwen3-8B"}
    assert json.loads((home.path / ".claude.json").read_text()) == {"hasCompletedOnboarding": True}


def test_a_cloud_that_claude_goes_to_instead_is_said(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path, {"CLAUDE_CODE_USE_BEDROCK": "1"})
    assert codes(home.apply("claude-code")) == ["settings-override-env"]
    home.env["CLAUDE_CODE_USE_BEDROCK"] = "0"
    assert codes(home.apply("claude-code")) == []


def test_project_settings_that_win_over_the_users_are_said(home: Any) -> None:
    settings = home.project / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://elsewhere"}}))
    assert "settings-override-env" in codes(home.apply("claude-code"))


def test_a_history_of_five_megabytes_is_no_burden(home: Any) -> None:
    history = {"projects": {f"/p/{n}": {"history": [{"display": "x" * 900}] * 5} for n in range(1100)}}
    path = home.write(".claude.json", json.dumps(history))
    assert path.stat().st_size > 5_000_000
    begun = time.process_time()
    home.apply("claude-code")
    assert time.process_time() - begun < 1.5
    assert json.loads(path.read_text()) == {**history, "hasCompletedOnboarding": True}
    home.restore()
    assert json.loads(path.read_text()) == history


def test_a_home_with_blanks_and_other_letters(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path / "Nutzer (Ä) 用户", user="Zoë O'Neil 王")
    home.write(".bashrc", "alias ll='ls -l'\n")
    before = home.tree()
    home.apply("codex", "claude-code", "shell", "roo", "llm")
    script = '. "$1"; printf %s "$OPENAI_BASE_URL"'
    said = subprocess.run(
        ["bash", "-c", script, "bash", home.path / ".bashrc"], env={}, capture_output=True, check=True
    )
    assert said.stdout == b"http://127.0.0.1:8000/v1"
    home.restore()
    assert home.tree() == before


def test_dotfiles_behind_two_symlinks_keep_both(home: Any) -> None:
    real = home.write("repo/settings.json", '{"theme": "dark"}')
    middle = home.path / "dotfiles"
    middle.symlink_to(real.parent)
    (home.path / ".claude").mkdir()
    link = home.path / ".claude/settings.json"
    link.symlink_to(middle / "settings.json")
    home.apply("claude-code")
    assert link.is_symlink()
    assert middle.is_symlink()
    assert json.loads(real.read_text())["theme"] == "dark"
    assert "env" in json.loads(real.read_text())
    home.restore()
    assert real.read_text() == '{"theme": "dark"}'


def test_an_empty_file_counts_as_none_and_comes_back_empty(home: Any) -> None:
    path = home.write(".claude/settings.json", "")
    home.apply("claude-code")
    assert json.loads(path.read_text())
    home.restore()
    assert path.read_bytes() == b""


def test_a_folder_in_the_place_of_a_file_is_one_clear_problem(home: Any) -> None:
    (home.path / ".codex/config.toml").mkdir(parents=True)
    with pytest.raises(ProblemError) as caught:
        home.apply("codex")
    assert caught.value.problem.code == "client-file-unreadable"


def test_something_else_where_our_table_goes_is_not_overwritten(home: Any) -> None:
    home.write(".claude/settings.json", '{"env": "none"}')
    with pytest.raises(ProblemError) as caught:
        home.apply("claude-code")
    assert caught.value.problem.code == "client-file-conflict"
    assert "`env`" in caught.value.problem.what


def test_opencode_takes_the_jsonc_that_is_there(home: Any) -> None:
    path = home.write(".config/opencode/opencode.jsonc", '{\n  // theme\n  "theme": "x",\n}\n')
    home.apply("opencode")
    assert "// theme" in path.read_text()
    assert "llm-setup/Qwen/Qwen3-8B" in path.read_text()
    assert not (home.path / ".config/opencode/opencode.json").exists()


def test_variables_that_move_a_clients_folder_are_followed(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path, {"CODEX_HOME": str(tmp_path / "codex"), "XDG_CONFIG_HOME": str(tmp_path / "xdg")})
    home.apply("codex", "opencode")
    assert (tmp_path / "codex/config.toml").exists()
    assert (tmp_path / "xdg/opencode/opencode.json").exists()
    assert not (home.path / ".codex").exists()


def test_qwen_s_moved_folder_is_followed(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path, {"QWEN_HOME": str(tmp_path / "qwen")})
    home.apply("qwen")
    assert sorted(path.name for path in (tmp_path / "qwen").iterdir()) == [".env", "settings.json"]
    assert not (home.path / ".qwen").exists()


@pytest.mark.parametrize(("name", "variable"), [("opencode", "OPENCODE_CONFIG"), ("kilo", "KILO_CONFIG")])
def test_a_file_that_a_variable_names_before_ours_is_said(
    name: str, variable: str, make_home: Any, tmp_path: Path
) -> None:
    named = tmp_path / "named.json"
    home = make_home(tmp_path, {variable: str(named)})
    named.write_text('{"theme": "dark"}')
    assert codes(home.apply(name)) == []
    named.write_text('{"model": "a/b", "provider": {"a": {"options": {"baseURL": "http://elsewhere/v1"}}}}')
    problems = home.apply(name)[0].problems
    assert [problem.code for problem in problems] == 2 * ["settings-override-env"]
    assert str(named) in problems[0].what


def test_continue_takes_ours_first_and_keeps_the_rest(home: Any) -> None:
    path = home.write(
        ".continue/config.yaml",
        "name: My assistant\nversion: 2.0.0\nschema: v1\nmodels:\n  # local\n"
        "  - name: mine\n    provider: ollama\n    model: x\n",
    )
    home.apply("continue")
    text = path.read_text()
    assert text.startswith("name: My assistant\nversion: 2.0.0\n")
    assert text.index("name: llm-setup") < text.index("name: mine")
    assert "# local" in text


def test_a_window_of_the_last_server_does_not_stay(home: Any, endpoint: Any) -> None:
    from dataclasses import replace

    home.apply("codex", "claude-code", "qwen", "continue")
    home.apply("codex", "claude-code", "qwen", "continue", endpoint=replace(endpoint, max_model_len=None))
    for content in home.tree().values():
        assert b"65536" not in content


def test_a_context_too_small_for_the_client_is_said_before(home: Any, endpoint: Any) -> None:
    from dataclasses import replace

    small = replace(endpoint, max_model_len=8192)
    assert codes(home.apply("codex", endpoint=small, dry_run=True)) == ["context-too-small-for-client"]
    assert codes(home.apply("aider", endpoint=small)) == []


def test_a_protocol_that_is_missing_is_said_with_the_proxy_that_translates(home: Any, endpoint: Any) -> None:
    home.network.replies = {
        f"{endpoint.openai_base_url}/responses": (404, {"detail": "Not Found"}),
        f"{endpoint.anthropic_base_url}/v1/messages": (400, {"error": {"message": "model: field required"}}),
    }
    codex, claude = home.apply("codex", "claude-code", offline=False)
    assert [p.code for p in codex.problems] == ["endpoint-unsupported-responses"]
    assert "litellm" in codex.problems[0].fix.commands[0]
    assert claude.problems == ()


def test_a_key_in_a_git_work_tree_is_said_until_it_is_ignored(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path, {"PATH": os.environ["PATH"]})
    subprocess.run(["git", "init", "-q", home.project], check=True)
    assert codes(home.apply("shell", scope="project")) == ["key-in-git-work-tree"]
    (home.project / ".gitignore").write_text("/.env\n")
    assert codes(home.apply("shell", scope="project")) == []


def test_each_file_with_a_key_in_a_git_work_tree_gets_its_own_line_to_ignore_it(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path, {"PATH": os.environ["PATH"]})
    subprocess.run(["git", "init", "-q", home.path], check=True)
    home.apply("codex", "claude-code", "continue")
    for path in (".codex/config.toml", ".claude/settings.json", ".continue/config.yaml"):
        assert f"echo /{path} >> " in home.said
    lines = re.findall(r"(?m)^.*(echo /\S+ >> \S+)$", home.said)
    assert len(lines) == len(set(lines))


def test_what_stands_in_the_way_of_several_clients_is_explained_once_and_each_way_out_is_told(
    home: Any, endpoint: Any
) -> None:
    home.apply("codex", "claude-code", endpoint=replace(endpoint, max_model_len=2048))
    assert home.said.count("System prompt and tool descriptions") == 1
    for name in ("codex", "claude-code"):
        assert f"llm-setup models --for {name}" in home.said


def test_permissions_alone_are_counted_beside_the_question(home: Any) -> None:
    home.apply("codex")
    (home.path / ".codex/config.toml").chmod(0o644)
    home.apply("codex", yes=False, confirm=lambda _: True)
    assert "Files in all: 1 (1 made private, nothing else)." in home.said
    assert (home.path / ".codex/config.toml").stat().st_mode & 0o777 == 0o600


def test_a_key_behind_a_link_into_a_git_work_tree_is_said(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path, {"PATH": os.environ["PATH"]})
    dotfiles = home.path / "dot files"
    subprocess.run(["git", "init", "-q", dotfiles], check=True)
    (dotfiles / "codex [1].toml").write_text("a = 1\n")
    (home.path / ".codex").mkdir()
    (home.path / ".codex/config.toml").symlink_to(dotfiles / "codex [1].toml")
    (problem,) = home.apply("codex")[0].problems
    assert problem.code == "key-in-git-work-tree"
    assert str(dotfiles / "codex [1].toml") in problem.saw[0]
    subprocess.run(["sh", "-c", problem.fix.commands[-1]], check=True)
    assert codes(home.apply("codex")) == []


def test_a_committed_file_is_not_safe_because_it_is_ignored(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path, {"PATH": os.environ["PATH"]})
    subprocess.run(["git", "init", "-q", home.project], check=True)
    (home.project / ".env").write_text("A=1\n")
    (home.project / ".gitignore").write_text("/.env\n")
    subprocess.run(["git", "-C", home.project, "add", "--force", ".env"], check=True)
    (problem,) = home.apply("shell", scope="project")[0].problems
    assert problem.code == "key-in-git-work-tree"
    for command in problem.fix.commands:
        subprocess.run(["sh", "-c", command], check=True)
    assert codes(home.apply("shell", scope="project")) == []


def test_a_scope_that_the_client_ignores_is_refused(home: Any) -> None:
    with pytest.raises(ProblemError) as caught:
        home.apply("codex", scope="project")
    assert caught.value.exit_code == 2
    assert caught.value.problem.code == "scope-not-supported"


def test_start_up_files_get_no_key(home: Any, planted_key: str) -> None:
    path = home.write(".bashrc", "alias ll='ls -l'\n")
    home.apply("shell")
    assert planted_key not in path.read_text()
    assert "env.sh" in path.read_text()


def test_a_users_own_client_folder_is_found_and_overrides(home: Any) -> None:
    own = home.world.paths.config / "templates"
    (own / "mine").mkdir(parents=True)
    (own / "mine/client.toml").write_text(
        'name = "mine"\ntitle = "Mine"\ndocs = "https://example.org"\nneeds = ["chat"]\nprotocol = "chat"\n'
        "minimum_context_tokens = 1\nfirst_request_tokens = 1\n"
        '[[file]]\ntemplate = "a.j2"\ntarget = "~/.mine"\nformat = "dotenv"\nwrite = "merge"\nsecret = true\n'
    )
    (own / "mine/a.j2").write_text("URL={{ endpoint.openai_base_url | dotenv }}\n")
    (own / "codex").mkdir()
    (own / "codex/config.toml.j2").write_text("model = {{ endpoint.model | toml }}\n")
    home.apply("mine", "codex")
    assert (home.path / ".mine").read_text() == "URL=http://127.0.0.1:8000/v1\n"
    assert (home.path / ".codex/config.toml").read_text() == 'model = "Qwen/Qwen3-8B"\n'


def test_qwen_reads_comments_but_no_trailing_comma(home: Any) -> None:
    path = home.write(".qwen/settings.json", '{\n  // mine\n  "ui": {"theme": "x"}\n}\n')
    home.apply("qwen")
    assert "// mine" in path.read_text()
    path.write_text('{\n  // mine\n  "ui": {"theme": "x"},\n}\n')
    with pytest.raises(ProblemError) as caught:
        home.apply("qwen")
    assert "line 3: trailing comma" in caught.value.problem.saw[0]


def test_a_running_client_that_writes_its_file_back_is_noticed(home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from wizard.flows import clients

    monkeypatch.setattr(clients, "running_programs", lambda home: frozenset({"code", "bash"}))
    assert codes(home.apply("cline", "codex")) == ["client-running"]
    assert codes(home.apply("cline")) == []


def test_running_programs_are_named_with_the_scripts_of_interpreters(tmp_path: Path) -> None:
    from wizard.effects.running import running_programs

    for pid, words in (("1", b"node\0/usr/lib/claude\0-p"), ("2", b"/usr/bin/code\0--type=gpu"), ("self", b"x")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes(words)
        (tmp_path / pid / "environ").write_bytes(b"A=1\0HOME=/home/me\0")
    (tmp_path / "3").mkdir()
    (tmp_path / "3/cmdline").write_bytes(b"cursor")
    (tmp_path / "3/environ").write_bytes(b"HOME=/home/other\0")
    assert running_programs(Path("/home/me"), tmp_path) == {"node", "claude", "code"}


def test_of_a_key_that_stands_twice_the_last_is_changed(home: Any) -> None:
    path = home.write(".claude/settings.json", '{"env": {"ANTHROPIC_MODEL": "a"}, "env": {"ANTHROPIC_MODEL": "b"}}')
    home.apply("claude-code")
    assert json.loads(path.read_text())["env"]["ANTHROPIC_MODEL"] == "Qwen/Qwen3-8B"
    assert path.read_text().startswith('{"env": {"ANTHROPIC_MODEL": "a"},')
