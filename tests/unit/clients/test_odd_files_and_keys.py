"""Files that are none, keys that cannot be sent, URLs that hold a password: one clear problem each."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from wizard.clients.formats.lines import edit_dotenv, parse_dotenv, quote_dotenv
from wizard.clients.formats.ops import Put
from wizard.endpoint.model import Endpoint, Profile
from wizard.flows.clients import Target, apply_clients, apply_plans, list_clients, load_clients
from wizard.flows.endpoints import EndpointOptions, given_key, observe_endpoint
from wizard.flows.profiles import resolve_key
from wizard.problems import ProblemError
from wizard.ui.screen import Screen


@pytest.mark.timeout(10)
@pytest.mark.parametrize("read", ["apply", "show"])
def test_a_named_pipe_is_no_file_and_nobody_waits_for_it(home: Any, read: str) -> None:
    home.write(".codex/auth.json", "{}")
    os.mkfifo(home.path / ".codex/config.toml")
    if read == "show":
        from wizard.flows.clients import show_clients

        show_clients(home.world, home.screen, ("codex",))
        return
    with pytest.raises(ProblemError) as caught:
        home.apply("codex")
    assert caught.value.problem.code == "client-file-unreadable"
    assert "is not a regular file" in caught.value.problem.saw[0]


def test_a_file_in_the_place_of_a_folder_is_called_so(home: Any) -> None:
    home.write(".codex", "not a folder")
    with pytest.raises(ProblemError) as caught:
        home.apply("codex")
    assert caught.value.problem.code == "client-file-unreadable"
    assert f"{home.path / '.codex'} is not a folder" in caught.value.problem.saw[0]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        pytest.param(b"", "key-file-empty", id="empty"),
        pytest.param(b" \n\n", "key-file-empty", id="blank"),
        pytest.param(b"sk-\xff\xfe0123456789", "key-characters", id="not UTF-8"),
        pytest.param(b"sk-01234\x0056789", "key-characters", id="NUL"),
        pytest.param("sk-ключ-0123456789".encode(), "key-characters", id="not ASCII"),
    ],
)
def test_a_key_file_without_a_usable_key_is_one_clear_problem(
    home: Any, tmp_path: Path, content: bytes, code: str
) -> None:
    file = tmp_path / "kf"
    file.write_bytes(content)
    with pytest.raises(ProblemError) as caught:
        given_key(home.world, home.screen, EndpointOptions(api_key_file=str(file)))
    assert (caught.value.problem.code, caught.value.exit_code) == (code, 2)
    assert "0123456789" not in str(caught.value.problem)


def test_devices_and_folders_in_place_of_a_key_file(home: Any, tmp_path: Path) -> None:
    for given, code in ((os.devnull, "key-file-empty"), (str(tmp_path), "key-file-unreadable")):
        with pytest.raises(ProblemError) as caught:
            given_key(home.world, home.screen, EndpointOptions(api_key_file=given))
        assert (caught.value.problem.code, caught.value.exit_code) == (code, 2)


def test_a_key_variable_of_bytes_that_are_no_text_is_refused(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path, env={"LLM_SETUP_API_KEY": "sk-\udcff-0123456789"})
    with pytest.raises(ProblemError) as caught:
        given_key(home.world, home.screen, EndpointOptions())
    assert (caught.value.problem.code, caught.value.exit_code) == ("key-characters", 2)


def test_a_profile_s_variable_is_cleaned_and_looked_at_too(home: Any) -> None:
    profile = Profile("p", "http://h/v1", None, "m", key_reference="env:MY_KEY")
    home.env["MY_KEY"] = "sk-0123456789abcdef\n"
    key = resolve_key(home.world, profile)
    assert key is not None and key.reveal() == "sk-0123456789abcdef"
    home.env["MY_KEY"] = "sk-\udcff0123456789"
    with pytest.raises(ProblemError) as caught:
        resolve_key(home.world, profile)
    assert (caught.value.problem.code, caught.value.exit_code) == ("key-characters", 2)


@pytest.mark.parametrize(
    "url", ["http://user:hunter2pass@h/v1", "http://[::1/v1", "http://h:99999", "ftp://h", "http://"]
)
def test_a_base_url_that_cannot_be_used_is_refused_without_being_shown_in_full(home: Any, url: str) -> None:
    with pytest.raises(ProblemError) as caught:
        observe_endpoint(home.world, home.screen, EndpointOptions(base_url=url, model="m", offline=True), None)
    assert (caught.value.problem.code, caught.value.exit_code) == ("base-url-invalid", 2)
    assert "hunter2pass" not in str(caught.value.problem)


def bomb(levels: int) -> str:
    return "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, levels)
    )


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "content",
    [
        pytest.param("a: &a [*a]\n", id="an alias inside its own anchor"),
        pytest.param("&a\nme: *a\n", id="the document inside itself"),
        pytest.param(bomb(8), id="aliases that multiply"),
        pytest.param("a: " + "[" * 3000 + "]" * 3000 + "\n", id="brackets"),
        pytest.param("a:\n " + "- " * 3000 + "1\n", id="dashes"),
        pytest.param("".join(" " * n + "a:\n" for n in range(300)), id="indentation"),
    ],
)
def test_yaml_that_takes_for_ever_is_refused_at_once(home: Any, content: str) -> None:
    path = home.write(".continue/config.yaml", "name: mine\n" * (not content.startswith("&")) + content)
    before = path.read_bytes()
    with pytest.raises(ProblemError) as caught:
        home.apply("continue")
    assert caught.value.problem.code == "client-file-unusual"
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("name: mine\nx: &x {k: 1}\ny: *x\n" + bomb(3), id="aliases"),
        pytest.param("name: mine\nnote: |\n" + "  [{ a * b\n" * 300, id="brackets in a text"),
        pytest.param("name: mine\nmodels:\n", id="models is null"),
        pytest.param("name: mine\nmodels:  # none yet\nversion: 1.0.0\n", id="models is null with a comment"),
    ],
)
def test_yaml_that_only_looks_so_is_filled(home: Any, content: str) -> None:
    path = home.write(".continue/config.yaml", content)
    home.apply("continue")
    assert "apiBase" in path.read_text()
    home.restore()
    assert path.read_text() == content


@pytest.mark.timeout(20)
def test_five_megabytes_of_json_on_one_line_are_edited_at_once(home: Any) -> None:
    content = '{"history": [' + ", ".join(['{"k": "v v v", "n": 1}'] * 110_000) + '], "pad": "' + "x" * 2_500_000 + '"}'
    path = home.write(".claude.json", content)
    begun = time.process_time()
    (result,) = home.apply("claude-code")
    assert len(str(result.as_json())) < 20_000
    assert time.process_time() - begun < 8
    home.restore()
    assert path.read_text() == content


ROW = {
    "path": "/nowhere",
    "original": None,
    "original_mode": None,
    "written": None,
    "clients": ["codex"],
    "live": False,
    "format": "toml",
    "folders": [],
    "edited_between": False,
    "project": None,
    "first_applied": "",
    "last_applied": "",
}


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"files": [{}], "pending": []}, id="an empty receipt"),
        pytest.param({"files": [], "pending": [{}]}, id="an empty step"),
        pytest.param({"files": [], "pending": [7]}, id="a number for a step"),
        pytest.param({"files": [{**ROW, "clients": None}]}, id="no list of clients"),
        pytest.param({"files": [{**ROW, "clients": [1]}]}, id="a client that is a number"),
        pytest.param({"files": [{**ROW, "written": "../../profiles.json"}]}, id="a content elsewhere"),
        pytest.param({"files": 5}, id="no rows"),
        pytest.param([], id="a list"),
    ],
)
def test_damaged_receipts_are_one_clear_problem(home: Any, document: Any) -> None:
    folder = home.world.paths.originals
    folder.mkdir(parents=True)
    (folder / "receipts.json").write_text(json.dumps(document))
    for command in (lambda: home.apply("codex"), home.restore, lambda: list_clients(home.world)):
        with pytest.raises(ProblemError) as caught:
            command()
        assert caught.value.problem.code == "state-file-broken"
    assert not (home.path / ".codex").exists()


def test_a_hard_linked_file_is_written_with_a_warning(home: Any) -> None:
    path = home.write(".codex/config.toml", "model = 'old'\n")
    os.link(path, home.path / "dotfiles.toml")
    (result,) = home.apply("codex")
    assert "client-file-hard-linked" in [problem.code for problem in result.problems]
    (again,) = home.apply("codex")
    assert "client-file-hard-linked" not in [problem.code for problem in again.problems]


def test_a_start_up_file_with_foreign_bytes_gets_its_block_and_keeps_them(home: Any) -> None:
    content = b"# caf\xe9\nalias ll='ls -l'\n"
    path = home.write(".bashrc", content)
    home.apply("shell")
    assert path.read_bytes().startswith(content) and b">>> llm-setup >>>" in path.read_bytes()
    home.restore()
    assert path.read_bytes() == content


def test_a_start_up_file_in_utf_16_is_left_alone(home: Any) -> None:
    path = home.write(".bashrc", "alias ll='ls -l'\n".encode("utf-16"))
    before = path.read_bytes()
    with pytest.raises(ProblemError) as caught:
        home.apply("shell")
    assert caught.value.problem.code == "client-file-broken"
    assert path.read_bytes() == before


def test_dotenv_values_with_odd_line_ends_read_back_whole() -> None:
    for value in ("a\u2028b", "a\rb", "a\r\nb", "a\x0cb\x1cc", "it's\u2029\u0085"):
        assert parse_dotenv(f"A={quote_dotenv(value)}\nB=1\n") == {"A": value, "B": "1"}
        assert parse_dotenv(edit_dotenv("A=1\n", [Put(("A",), value)], "\n")) == {"A": value}
    assert parse_dotenv("A='x y'\r\nB=2\r\n") == {"A": "x y", "B": "2"}


def test_a_switch_is_silent_about_clients_in_which_nothing_changes(home: Any) -> None:
    small = home_endpoint(context_tokens=2048)
    home.apply("claude-code", endpoint=small)
    assert "warning" in home.said
    home.out.truncate(0)
    target = Target(load_clients(home.world)["claude-code"], "user")
    apply_plans(home.world, home.screen, small, [target], yes=True, offline=True, diffs=False)
    assert "warning" not in home.said


def test_with_json_no_diff_is_said_beside_the_document(home: Any) -> None:
    err = io.StringIO()
    screen = Screen(as_json=True, plain=True, out=io.StringIO(), err=err, env={})
    (result,) = apply_clients(home.world, screen, home_endpoint(), ["codex"], yes=True, offline=True)
    assert "+model" in str(result.as_json())
    assert "+model" not in err.getvalue()


def test_files_for_shells_that_are_not_here_are_not_written(make_home: Any, tmp_path: Path) -> None:
    home = make_home(tmp_path)
    home.apply("shell")
    config = home.state / "config"
    assert sorted(path.name for path in config.iterdir()) == ["env.fish", "env.sh", "llm.env"]
    home.restore()
    pwsh = tmp_path / "bin" / "pwsh"
    pwsh.parent.mkdir()
    pwsh.touch(0o755)
    home.env["PATH"] = str(pwsh.parent)
    home.apply("shell")
    assert (config / "env.ps1").exists() and not (config / "env.cmd").exists()


@pytest.mark.parametrize(
    ("program", "profiles"),
    [
        pytest.param("", [], id="neither"),
        pytest.param("powershell", ["WindowsPowerShell"], id="what comes with Windows"),
        pytest.param("pwsh", ["PowerShell"], id="PowerShell 7"),
    ],
)
def test_on_windows_the_profile_of_each_powershell_that_is_there_reads_our_file(
    program: str, profiles: list[str], home: Any
) -> None:
    if program:
        executable = home.path.parent / "bin" / program
        executable.parent.mkdir()
        executable.touch(0o755)
        home.env["PATH"] = str(executable.parent)
    world = dataclasses.replace(home.world, platform="windows")
    apply_clients(world, home.screen, home_endpoint(), ["shell"], yes=True, offline=True)
    written = {path.parent.name for path in (home.path / "Documents").rglob("*.ps1")}
    assert written == set(profiles)
    assert (home.state / "config/env.ps1").exists() is bool(profiles)


def test_files_that_say_the_same_for_other_shells_are_shown_once(home: Any) -> None:
    (result,) = home.apply("shell")
    assert home.said.count("OPENAI_MODEL") == 1
    assert f"{home.state / 'config/env.fish'}: the same values" in home.said
    assert str(result.as_json()).count("OPENAI_MODEL") == 3


def home_endpoint(context_tokens: int = 65536) -> Endpoint:
    return Endpoint("local", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000", "Qwen/Qwen3-8B", None, context_tokens)


def test_an_old_client_from_pip_is_told_apart(home: Any) -> None:
    venv = home.path / "venv"
    info = venv / "lib/python3.11/site-packages/aider_chat-0.40.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[console_scripts]\naider = aider.main:main\n")
    program = venv / "bin/aider"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    home.env["PATH"] = str(program.parent)
    (applied,) = home.apply("aider")
    codes = {problem.code: problem.what for problem in applied.problems}
    assert "aider 0.40.0 is too old" in codes["client-version-unknown-to-template"]
