"""Real clients, from files that the wizard wrote, finish a turn at a real vLLM; and the files can be taken back."""

from __future__ import annotations

import json

import pytest

from .conftest import Workshop
from .homes import Home
from .installing import Client, clients
from .processes import Ended, free_port
from .scripted_model import ANSWER, CALL_WORD, PROVED
from .vllm_servers import RealServer

EVERY = [pytest.param(client, id=name) for name, client in clients().items()]
AGENTS = [pytest.param(client, id=name) for name, client in clients().items() if client.agent]

# On the host: whether this machine is a container is not what is asked here.
DOCTOR = ("doctor", "--json", "--assume", "host")
QUESTION = "say hi"
TASK = f"{CALL_WORD} the folder"


def apply(home: Home, name: str, server: RealServer, *, key: str | None = None, base_url: str = "") -> Ended:
    """`clients apply` with the key in the environment, as documented."""
    url = base_url or server.base_url
    arguments = ["clients", "apply", name, "--base-url", url, "--model", server.model, "--yes"]
    return home.wizard(*arguments, LLM_SETUP_API_KEY=server.key if key is None else key)


def completed(ended: Ended, answer: str) -> bool:
    """Whether the turn ended well, with that answer as the model gave it."""
    return ended.code == 0 and answer in ended.stdout


@pytest.mark.parametrize("client", EVERY)
def test_it_answers_from_what_was_written(
    client: Client, home: Home, workshop: Workshop, scripted_server: RealServer
) -> None:
    applied = apply(home, client.name, scripted_server)
    assert applied.code == 0, applied.text
    ended = home.ask(client, workshop.program(client), scripted_server.model, QUESTION)
    assert completed(ended, ANSWER), ended.text


@pytest.mark.parametrize("home_kind", ["empty"])
@pytest.mark.parametrize("client", [p for p in EVERY if p.values[0].origin != "system"])
def test_its_version_is_told_and_fits_what_is_written(client: Client, home: Home, workshop: Workshop) -> None:
    workshop.program(client)
    rows = json.loads(home.wizard("clients", "list", "--json").stdout)["clients"]
    (row,) = [row for row in rows if row["client"] == client.name]
    assert (row["version"], row["problems"]) == (client.version, [])


@pytest.mark.parametrize("home_kind", ["empty"])
@pytest.mark.parametrize("client", AGENTS)
def test_an_agent_calls_its_own_tool_and_reads_the_result(
    client: Client, home: Home, workshop: Workshop, scripted_server: RealServer
) -> None:
    assert apply(home, client.name, scripted_server).code == 0
    ended = home.ask(client, workshop.program(client), scripted_server.model, TASK)
    assert completed(ended, PROVED), ended.text


@pytest.mark.parametrize("client", EVERY)
def test_restore_gives_every_byte_back(client: Client, home: Home, scripted_server: RealServer) -> None:
    before = home.files()
    assert apply(home, client.name, scripted_server).code == 0
    assert home.files() != before
    restored = home.wizard("clients", "restore", client.name, "--yes")
    assert restored.code == 0, restored.text
    assert home.files() == before


@pytest.mark.parametrize("home_kind", ["lived-in"])
@pytest.mark.parametrize("client", EVERY)
def test_applying_twice_writes_once(client: Client, home: Home, scripted_server: RealServer) -> None:
    assert apply(home, client.name, scripted_server).code == 0
    once = home.files()
    again = apply(home, client.name, scripted_server)
    assert again.code == 0, again.text
    assert home.files() == once


@pytest.mark.parametrize("home_kind", ["lived-in"])
@pytest.mark.parametrize("client", EVERY)
def test_run_starts_it_with_nothing_of_its_own_changed(
    client: Client, home: Home, workshop: Workshop, scripted_server: RealServer
) -> None:
    command = home.command(client, workshop.program(client), scripted_server.model, QUESTION)
    # A library's program is named; a client's own is found on the PATH. For curl the wizard names the file.
    arguments = command if client.sourced else [] if client.origin == "system" else command[1:]
    before = home.files()
    ended = home.wizard(
        *("run", client.name, "--base-url", scripted_server.base_url, "--model", scripted_server.model, "--"),
        *arguments,
        within_s=client.within_s,
        LLM_SETUP_API_KEY=scripted_server.key,
    )
    assert completed(ended, ANSWER), ended.text
    after = home.files()
    assert {path for path, content in before.items() if after.get(path) != content} == set()


@pytest.mark.parametrize("home_kind", ["empty"])
@pytest.mark.parametrize("client", [p for p in EVERY if p.values[0].wrong_key])
def test_a_wrong_key_fails_in_the_known_way_and_the_doctor_names_it(
    client: Client, home: Home, workshop: Workshop, scripted_server: RealServer
) -> None:
    assert apply(home, client.name, scripted_server, key="sk-wrong").code == 0
    ended = home.ask(client, workshop.program(client), scripted_server.model, QUESTION)
    assert client.wrong_key in ended.stdout + ended.stderr, ended.text
    assert ANSWER not in ended.stdout
    assert first_code(home.wizard(*DOCTOR)) == "key-invalid"


@pytest.mark.parametrize("home_kind", ["empty"])
@pytest.mark.parametrize("client", [p for p in EVERY if p.values[0].refused])
def test_a_dead_server_fails_in_the_known_way_and_the_doctor_names_it(
    client: Client, home: Home, workshop: Workshop, scripted_server: RealServer
) -> None:
    nothing = f"http://127.0.0.1:{free_port()}/v1"
    assert apply(home, client.name, scripted_server, base_url=nothing).code == 0
    ended = home.ask(client, workshop.program(client), scripted_server.model, QUESTION)
    assert client.refused in ended.stdout + ended.stderr, ended.text
    assert first_code(home.wizard(*DOCTOR)) == "server-not-ready"


def first_code(doctor: Ended) -> str:
    """The first error that the doctor found, which is to be the root cause."""
    try:
        findings = json.loads(doctor.stdout)["findings"]
    except ValueError:
        pytest.fail(doctor.text)
    errors = [finding["code"] for finding in findings if finding["severity"] == "error"]
    return errors[0] if errors else "ok"
