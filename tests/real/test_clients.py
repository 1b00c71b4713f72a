"""Real clients, from files that the wizard wrote, finish a turn at a real vLLM; and the files can be taken back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Workshop
from .homes import Home
from .installing import Client, clients
from .processes import Ended, free_port
from .scripted_model import ANSWER, CALL_WORD, PROVED
from .vllm_servers import RealServer

EVERY = [pytest.param(client, id=name) for name, client in clients().items()]
FROM_FILES = [pytest.param(client, id=name) for name, client in clients().items() if client.from_files]
AGENTS = [pytest.param(client, id=name) for name, client in clients().items() if client.agent]
RUNNABLE = [pytest.param(client, id=name) for name, client in clients().items() if client.from_files]

QUESTION = "say hi"
TASK = f"{CALL_WORD} the folder"


def apply(home: Home, name: str, server: RealServer, *, key: str | None = None, base_url: str = "") -> Ended:
    """`clients apply` with the key in the environment, as documented."""
    url = base_url or server.base_url
    arguments = ["clients", "apply", name, "--base-url", url, "--model", server.model, "--yes"]
    return home.wizard(*arguments, LLM_SETUP_API_KEY=server.key if key is None else key)


def ask(home: Home, client: Client, program: Path, model: str, prompt: str, **env: str) -> Ended:
    """One turn of the client: from its files, or for what has none from a new interactive shell."""
    if client.from_files:
        return home.ask(client, program, model, prompt, **env)
    return home.ask_from_shell(client, program, model, prompt)


def completed(ended: Ended, answer: str) -> bool:
    """Whether the turn ended well, with that answer as the model gave it."""
    return ended.code == 0 and answer in ended.stdout


@pytest.mark.parametrize("client", EVERY)
def test_it_answers_from_what_was_written(
    client: Client, home: Home, workshop: Workshop, scripted_server: RealServer
) -> None:
    applied = apply(home, client.applied_as, scripted_server)
    assert applied.code == 0, applied.text
    ended = ask(home, client, workshop.program(client), scripted_server.model, QUESTION)
    assert completed(ended, ANSWER), ended.text


@pytest.mark.parametrize("home_kind", ["empty"])
@pytest.mark.parametrize("client", AGENTS)
def test_an_agent_calls_its_own_tool_and_reads_the_result(
    client: Client, home: Home, workshop: Workshop, scripted_server: RealServer
) -> None:
    assert apply(home, client.applied_as, scripted_server).code == 0
    ended = home.ask(client, workshop.program(client), scripted_server.model, TASK)
    assert completed(ended, PROVED), ended.text


@pytest.mark.parametrize("client", FROM_FILES)
def test_restore_gives_every_byte_back(client: Client, home: Home, scripted_server: RealServer) -> None:
    before = home.files()
    assert apply(home, client.applied_as, scripted_server).code == 0
    assert home.files() != before
    restored = home.wizard("clients", "restore", client.applied_as, "--yes")
    assert restored.code == 0, restored.text
    assert home.files() == before


@pytest.mark.parametrize("home_kind", ["lived-in"])
@pytest.mark.parametrize("client", FROM_FILES)
def test_applying_twice_writes_once(client: Client, home: Home, scripted_server: RealServer) -> None:
    assert apply(home, client.applied_as, scripted_server).code == 0
    once = home.files()
    again = apply(home, client.applied_as, scripted_server)
    assert again.code == 0, again.text
    assert home.files() == once


@pytest.mark.parametrize("client", RUNNABLE)
def test_run_starts_it_with_nothing_of_its_own_changed(
    client: Client, home: Home, workshop: Workshop, scripted_server: RealServer
) -> None:
    program = workshop.program(client)
    before = home.files()
    ended = home.wizard(
        *("run", client.applied_as, "--base-url", scripted_server.base_url, "--model", scripted_server.model, "--"),
        *client.arguments(QUESTION, scripted_server.model),
        within_s=client.within_s,
        LLM_SETUP_API_KEY=scripted_server.key,
    )
    assert program.exists()
    assert completed(ended, ANSWER), ended.text
    changed = {path for path, content in before.items() if home.files().get(path) != content}
    assert not changed


@pytest.mark.parametrize("home_kind", ["empty"])
@pytest.mark.parametrize("client", [p for p in EVERY if p.values[0].wrong_key])
def test_a_wrong_key_fails_in_the_known_way_and_the_doctor_names_it(
    client: Client, home: Home, workshop: Workshop, scripted_server: RealServer
) -> None:
    assert apply(home, client.applied_as, scripted_server, key="sk-wrong").code == 0
    ended = ask(home, client, workshop.program(client), scripted_server.model, QUESTION)
    assert client.wrong_key in ended.stdout + ended.stderr, ended.text
    assert ANSWER not in ended.stdout
    assert first_code(home.wizard("doctor", "--json")) == "key-invalid"


@pytest.mark.parametrize("home_kind", ["empty"])
@pytest.mark.parametrize("client", [p for p in EVERY if p.values[0].refused])
def test_a_dead_server_fails_in_the_known_way_and_the_doctor_names_it(
    client: Client, home: Home, workshop: Workshop, scripted_server: RealServer
) -> None:
    nothing = f"http://127.0.0.1:{free_port()}/v1"
    assert apply(home, client.applied_as, scripted_server, base_url=nothing).code == 0
    ended = ask(home, client, workshop.program(client), scripted_server.model, QUESTION)
    assert client.refused in ended.stdout + ended.stderr, ended.text
    assert first_code(home.wizard("doctor", "--json")) == "server-not-ready"


def first_code(doctor: Ended) -> str:
    """The first error that the doctor found, which is to be the root cause."""
    try:
        findings = json.loads(doctor.stdout)["findings"]
    except ValueError:
        pytest.fail(doctor.text)
    errors = [finding["code"] for finding in findings if finding["severity"] == "error"]
    return errors[0] if errors else "ok"
