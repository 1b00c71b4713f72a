"""Files that are none, keys that cannot be sent, URLs that hold a password: one clear problem each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from wizard.flows.endpoints import EndpointOptions, given_key, observe_endpoint
from wizard.problems import ProblemError


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


@pytest.mark.parametrize(
    "url", ["http://user:hunter2pass@h/v1", "http://[::1/v1", "http://h:99999", "ftp://h", "http://"]
)
def test_a_base_url_that_cannot_be_used_is_refused_without_being_shown_in_full(home: Any, url: str) -> None:
    with pytest.raises(ProblemError) as caught:
        observe_endpoint(home.world, home.screen, EndpointOptions(base_url=url, model="m", offline=True), None)
    assert (caught.value.problem.code, caught.value.exit_code) == ("base-url-invalid", 2)
    assert "hunter2pass" not in str(caught.value.problem)
