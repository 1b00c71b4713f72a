"""`llm-setup init --yes` on a machine without a GPU ends with a proved server and working client files."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from .first_light import FirstLight

pytestmark = [pytest.mark.real, pytest.mark.timeout(3000)]


def snapshot(home: Path) -> dict[str, tuple[bytes, int]]:
    """Every file that a user may care for: content and modification time. vLLM's caches and our log come and go."""
    own = home / ".local/share/llm-setup"
    files = [path for path in home.rglob("*") if path.is_file() and own not in path.parents]
    kept = [path for path in files if not {".cache", "log", "logs", "servers", ".config/vllm"} & set(path.parts)]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in kept}


def wait_until_refused(url: str) -> None:
    """The kernel closes a killed process's socket a moment after the signal."""
    parts = urlsplit(url)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            socket.create_connection((parts.hostname or "", parts.port or 0), timeout=2).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.1)
    raise AssertionError(f"something still listens at {url}")


def test_the_readmes_first_line_ends_with_a_proved_server_and_client_files(first_light: FirstLight) -> None:
    assert first_light.ended.code == 0, first_light.ended.text
    shown = first_light.ended.stdout
    for proved in ("models, with the key", "refused (401)", "stream, with usage", "/v1/responses", "/v1/messages"):
        assert proved in shown
    assert "too small" in shown
    for name in (".cline/data/settings/providers.json", ".bashrc"):
        assert (first_light.home / name).is_file(), name
    # Their first request is longer than this model's context: they would get no answer.
    for name in (".codex/config.toml", ".claude/settings.json"):
        assert not (first_light.home / name).exists(), name
    assert "Codex CLI, Claude Code: no answer here" in shown.partition("Which clients answer here")[2]


def test_status_says_ready(first_light: FirstLight) -> None:
    ended = first_light.llm_setup("status", "--json")
    server = json.loads(ended.stdout)["servers"][0]
    assert server["state"] == "ready", ended.text


def test_twice_is_once(first_light: FirstLight) -> None:
    before = snapshot(first_light.home)
    pid = json.loads(first_light.llm_setup("status", "--json").stdout)["servers"][0]["pid"]
    ended = first_light.llm_setup("init", "--yes")
    assert ended.code == 0, ended.text
    assert json.loads(first_light.llm_setup("status", "--json").stdout)["servers"][0]["pid"] == pid
    assert snapshot(first_light.home) == before


def test_the_doctor_finds_no_error(first_light: FirstLight) -> None:
    ended = first_light.llm_setup("doctor", "--client", "shell", "--json")
    errors = [f for f in json.loads(ended.stdout)["findings"] if f["severity"] == "error"]
    assert errors == [], ended.text


def test_a_wrong_key_is_said_by_init(first_light: FirstLight) -> None:
    url = json.loads(first_light.llm_setup("status", "--json").stdout)["servers"][0]["url"]
    argv = ["init", "--yes", "--base-url", url, "--model", "smollm2-135m-instruct", "--client", "none"]
    ended = first_light.llm_setup(*argv, LLM_SETUP_API_KEY="sk-wrong-0000000000000000")
    assert ended.code == 1, ended.text
    assert "[key-invalid]" in ended.stderr


def test_a_killed_server_is_said_by_doctor_and_started_again_by_init(first_light: FirstLight) -> None:
    server = json.loads(first_light.llm_setup("status", "--json").stdout)["servers"][0]
    pid, url = server["pid"], server["url"]
    os.killpg(pid, signal.SIGKILL)
    wait_until_refused(url)
    ended = first_light.llm_setup("doctor", "--json")
    assert ended.code == 1, ended.text
    assert json.loads(ended.stdout)["findings"][0]["code"] in ("server-unreachable", "server-not-ready"), ended.text
    again = first_light.llm_setup("init", "--yes")
    assert again.code == 0, again.text
    assert "is not there any more" in again.stdout


def test_restore_and_stop_leave_the_home_as_it_was(first_light: FirstLight) -> None:
    assert first_light.llm_setup("clients", "restore", "--all", "--yes").code == 0
    for name in (".codex/config.toml", ".claude/settings.json", ".cline/data/settings/providers.json", ".bashrc"):
        assert not (first_light.home / name).exists()
    ended = first_light.llm_setup("stop")
    assert ended.code == 0, ended.text
    assert "is free" in ended.stdout
