"""From a URL and a key to client files that were proved."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.flows.conftest import TinyEndpoint, vllm_like

KEY = "sk-journey-00000000000000"


@pytest.fixture
def another() -> Iterator[TinyEndpoint]:
    """A second endpoint on the same host."""
    server = TinyEndpoint()
    vllm_like(server, key=KEY, model="tiny", context=65536)
    yield server
    server.close()


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and modification time of every file, our own log apart."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "logs" not in path.parts
    }


def test_a_url_and_a_key_end_in_proved_client_files(llm_setup: Any, endpoint: Any, home: Path) -> None:
    argv = ["init", "--yes", "--base-url", endpoint.url, "--client", "codex", "--client", "claude-code"]
    done = llm_setup(*argv)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f'base_url = "{endpoint.url}/v1"' in (home / ".codex/config.toml").read_text()
    settings = json.loads((home / ".claude/settings.json").read_text())
    assert settings["env"]["ANTHROPIC_BASE_URL"] == endpoint.url
    assert settings["env"]["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "65536"
    assert (home / ".codex/config.toml").stat().st_mode & 0o077 == 0
    assert KEY not in done.stdout + done.stderr


def test_twice_is_once(llm_setup: Any, endpoint: Any, home: Path) -> None:
    argv = ["init", "--yes", "--base-url", f"{endpoint.url}/v1", "--client", "codex"]
    assert llm_setup(*argv).returncode == 0
    before = snapshot(home)
    again = llm_setup(*argv, LLM_SETUP_API_KEY="")
    assert again.returncode == 0, again.stdout + again.stderr
    assert snapshot(home) == before


def test_with_json_stdout_is_one_document(llm_setup: Any, endpoint: Any) -> None:
    done = llm_setup("init", "--yes", "--json", "--base-url", endpoint.url, "--client", "codex")
    document = json.loads(done.stdout)
    assert document["status"] == "ok"
    assert {step["status"] for step in document["proof"]} <= {"ok", "warning"}
    assert document["endpoint"]["key"] == "sk-…0000"
    assert KEY not in done.stdout + done.stderr


def test_a_wrong_key_is_said_and_nothing_is_written(llm_setup: Any, endpoint: Any, home: Path) -> None:
    argv = ["init", "--yes", "--base-url", endpoint.url, "--model", "tiny", "--client", "codex"]
    done = llm_setup(*argv, LLM_SETUP_API_KEY="sk-wrong-00000000000000")
    assert done.returncode == 1
    assert "[key-invalid]" in done.stderr
    assert not (home / ".codex").exists()
    assert not (home / "own/state/profiles.json").exists()


def test_a_server_that_is_not_there_is_said(llm_setup: Any, endpoint: Any, home: Path) -> None:
    endpoint.close()
    done = llm_setup("init", "--yes", "--base-url", endpoint.url, "--model", "tiny", "--client", "codex")
    assert done.returncode == 1
    # In a container the loopback address is the likelier mistake.
    assert "[server-not-ready]" in done.stderr or "[wrong-host-in-container]" in done.stderr
    assert list(home.iterdir()) in ([], [home / "own"])


def test_a_dry_run_shows_and_writes_nothing(llm_setup: Any, endpoint: Any, home: Path) -> None:
    done = llm_setup("init", "--yes", "--dry-run", "--base-url", endpoint.url, "--client", "codex")
    assert done.returncode == 0, done.stderr
    assert "+model_provider" in done.stdout
    assert list(home.iterdir()) == []


def test_without_a_terminal_the_missing_flag_is_named(llm_setup: Any, home: Path) -> None:
    done = llm_setup("init", "--client", "codex")
    assert done.returncode == 2
    assert "`--base-url URL`" in done.stderr
    assert "`--yes`" in done.stderr
    assert list(home.iterdir()) == []


def test_a_read_only_home_is_one_clear_error(llm_setup: Any, endpoint: Any, home: Path) -> None:
    # A file where the folder should be stops root, too, which a mode does not.
    (home / "own").write_text("in the way")
    done = llm_setup("init", "--yes", "--base-url", endpoint.url, "--client", "codex")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "internal-error" not in done.stderr
    assert done.stderr.count("error:") == 1
    assert not (home / ".codex").exists()


def test_a_client_file_that_does_not_parse_is_left_alone(llm_setup: Any, endpoint: Any, home: Path) -> None:
    broken = home / ".codex" / "config.toml"
    broken.parent.mkdir()
    broken.write_bytes(b'model = "mine\n')
    done = llm_setup("init", "--yes", "--base-url", endpoint.url, "--client", "codex", "--client", "claude-code")
    assert done.returncode == 1
    assert str(broken) in done.stderr
    assert broken.read_bytes() == b'model = "mine\n'
    assert not (home / ".claude").exists()


def test_a_dry_run_of_serving_here_installs_and_starts_nothing(llm_setup: Any, home: Path) -> None:
    done = llm_setup("init", "--yes", "--dry-run", "--client", "codex", LLM_SETUP_API_KEY="")
    assert done.returncode == 0, done.stderr
    assert "Would install vLLM" in done.stdout
    assert "--served-model-name smollm2-135m-instruct" in done.stdout
    assert "+model_context_window = 8192" in done.stdout
    assert list(home.iterdir()) == []


def test_a_proxy_that_catches_the_local_server_is_the_named_cause(llm_setup: Any, endpoint: Any) -> None:
    argv = ["init", "--yes", "--base-url", endpoint.url, "--model", "tiny", "--client", "codex"]
    done = llm_setup(*argv, HTTP_PROXY="http://127.0.0.1:9", http_proxy="http://127.0.0.1:9")
    assert done.returncode == 1
    assert "[proxy-env-captures-local]" in done.stderr


def test_an_empty_url_is_wrong_usage_and_serves_nothing(llm_setup: Any, home: Path) -> None:
    done = llm_setup("init", "--yes", "--base-url", "", "--client", "codex")
    assert done.returncode == 2
    assert "[base-url-invalid]" in done.stderr
    assert list(home.iterdir()) == []


def test_a_gateway_that_wants_ones_own_name_in_its_url_is_asked_for(llm_setup: Any, home: Path) -> None:
    done = llm_setup("init", "--yes", "--gateway", "azure", "--client", "codex")
    assert done.returncode == 2
    assert "`--base-url URL`" in done.stderr
    misspelt = llm_setup("init", "--yes", "--gateway", "opnrouter", "--client", "codex")
    assert misspelt.returncode == 2
    assert "[unknown-preset]" in misspelt.stderr
    assert list(home.iterdir()) == []


def test_without_a_name_no_gateway_is_taken_and_nothing_is_sent(llm_setup: Any, home: Path) -> None:
    (home / "mine.toml").write_text('source = "gateway"\n')
    done = llm_setup("init", "--yes", "--answers", "mine.toml", "--client", "codex")
    assert done.returncode == 2
    assert "`--gateway NAME`" in done.stderr


def test_a_name_that_no_profile_can_have_is_refused_before_anything_is_done(llm_setup: Any, home: Path) -> None:
    done = llm_setup("init", "--yes", "--base-url", "http://127.0.0.1:9", "--profile", "../mine")
    assert done.returncode == 2
    assert "[profile-name-invalid]" in done.stderr
    assert "This machine" not in done.stdout


def test_two_endpoints_of_one_host_are_two_profiles(llm_setup: Any, endpoint: Any, another: Any, home: Path) -> None:
    for url in (endpoint.url, another.url, endpoint.url):
        done = llm_setup("init", "--yes", "--base-url", url, "--client", "codex")
        assert done.returncode == 0, done.stdout + done.stderr
    known = json.loads((home / "own/state/profiles.json").read_text())
    port = another.url.rpartition(":")[2]
    assert {name: one["openai_base_url"] for name, one in known["profiles"].items()} == {
        "127.0.0.1": f"{endpoint.url}/v1",
        f"127.0.0.1-{port}": f"{another.url}/v1",
    }
    assert known["active"] == "127.0.0.1"


def test_a_name_that_is_another_endpoints_is_asked_about(
    llm_setup: Any, on_terminal: Any, endpoint: Any, another: Any, home: Path
) -> None:
    profiles = home / "own/state/profiles.json"
    assert (
        llm_setup("init", "--yes", "--base-url", endpoint.url, "--client", "none", "--profile", "mine").returncode == 0
    )
    terminal = on_terminal("init", "--base-url", another.url, "--client", "none", "--profile", "mine")
    terminal.sees(f"The profile `mine` is {endpoint.url}/v1", "Remember this one as `127.0.0.1`", "Replace it").enter()
    terminal.sees("What now").ends()
    assert json.loads(profiles.read_text())["profiles"]["mine"]["openai_base_url"] == f"{endpoint.url}/v1"
    done = llm_setup("init", "--yes", "--base-url", another.url, "--client", "none", "--profile", "mine")
    assert f"profile `mine` is replaced; it was {endpoint.url}/v1" in done.stdout
    assert json.loads(profiles.read_text())["profiles"]["mine"]["openai_base_url"] == f"{another.url}/v1"


def test_a_server_here_takes_no_name_of_another_endpoint_unasked(
    llm_setup: Any, on_terminal: Any, endpoint: Any, machine: Any, home: Path
) -> None:
    profiles = home / "own/state/profiles.json"
    given = ("--base-url", endpoint.url, "--client", "none", "--profile", "mine")
    assert llm_setup("init", "--yes", *given, LLM_SETUP_API_KEY=KEY).returncode == 0
    argv = ("--vllm", str(machine.vllm), "--client", "none", "--here", "--model", "embedded", "--profile", "mine")
    terminal = on_terminal("init", *argv)
    terminal.sees("Go on?", "Take another model").enter()
    terminal.sees(f"The profile `mine` is {endpoint.url}/v1", "Replace it").down().enter()
    terminal.sees("What now").ends()
    assert json.loads(profiles.read_text())["profiles"]["mine"]["server"] == "local"
    # Its own name is asked about no second time.
    again = llm_setup("init", "--yes", *argv)
    assert again.returncode == 0, again.stderr
    assert "is replaced" not in again.stdout


def test_what_a_client_lacks_on_this_server_is_the_last_word_on_its_files(llm_setup: Any, another: Any) -> None:
    vllm_like(another, key=KEY, model="tiny", context=8192)
    argv = ("init", "--yes", "--base-url", another.url, "--client", "codex", "--client", "shell")
    # No agent is left that answers; with one it is a warning.
    assert llm_setup(*argv).returncode == 1
    done = llm_setup(*argv, "--client", "cline")
    assert done.returncode == 0, done.stderr
    _, _, after = done.stdout.partition("Cline: written")
    told, _, last = after.partition("What now")
    # It was named, so that its files are written all the same.
    assert re.search(r"Codex CLI: .*files are written, but no answer comes here", told), told
    assert re.search(r"Cline: .*too small for real work", told), told
    assert "$ llm-setup models --for codex --for cline\n" in told
    assert " Shell\n" in told.partition("Which clients answer here")[2]
    assert "llm-setup doctor" in last
