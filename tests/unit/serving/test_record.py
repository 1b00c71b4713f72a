"""A server's record: written, read back, and refused when it is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wizard.problems import ProblemError
from wizard.serving.record import ServerRecord, check_name, parse_record

RECORD = ServerRecord(
    name="default",
    pid=4711,
    pid_started="boot:99",
    host="127.0.0.1",
    port=8000,
    model="/models/q",
    served_name="q",
    key_reference="store:server-default",
    vllm_version="0.32.0",
    command=("python", "-m", "vllm", "serve", "/models/q"),
    log="/logs/default.log",
    started_at=1.5,
    max_model_len=8192,
    ready_at=2.5,
    python="/venv/bin/python",
    arguments=("--seed", "1"),
    environment=(("A", "1"),),
)


def test_what_is_written_is_read_back() -> None:
    assert parse_record(RECORD.as_json()) == RECORD
    assert parse_record(replace(RECORD, max_model_len=None, ready_at=None).as_json()).ready_at is None


@pytest.mark.parametrize(
    "broken",
    [
        *({}, [], None, "x", {"name": "a", "pid": "x"}),
        *(RECORD.as_json() | odd for odd in ({"command": 5}, {"container": "podman"}, {"container": ["podman"]})),
    ],
)
def test_what_is_no_record_is_a_value_error(broken: object) -> None:
    with pytest.raises(ValueError):
        parse_record(broken)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("fe80::1", "http://[fe80::1]:8000"),
        ("box.lan", "http://box.lan:8000"),
    ],
)
def test_a_server_is_asked_where_this_machine_reaches_it(host: str, url: str) -> None:
    assert replace(RECORD, host=host).url == url


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b", "x" * 65, "ä"])
def test_names_that_would_be_no_file_names_are_refused(name: str) -> None:
    with pytest.raises(ProblemError) as caught:
        check_name(name)
    assert caught.value.problem.code == "bad-server-name"


@pytest.mark.parametrize("name", ["default", "a", "Qwen3.5-9B_x"])
def test_usual_names_pass(name: str) -> None:
    assert check_name(name) == name
