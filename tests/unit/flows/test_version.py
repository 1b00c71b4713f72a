"""What a package index's reply means for the llm-setup that is installed."""

import json
import sys

import pytest

from wizard.endpoint.exchange import HttpFailure, HttpReply
from wizard.flows import version
from wizard.flows.version import check_upgrade, judge_reply, removal_command, upgrade_command


def reply(status: int, document: object = None) -> HttpReply:
    return HttpReply(status, (), json.dumps(document).encode(), 0.0, 0.0)


@pytest.mark.parametrize(
    ("versions", "state", "newest"),
    [
        pytest.param(["0.1.0", "0.10.0", "0.9.0"], "older", "0.10.0", id="newer-by-number-not-by-letter"),
        pytest.param(["0.1.0", "0.2.0"], "newest", "0.2.0", id="the-newest"),
        pytest.param(["0.1.0", "0.3.0rc1"], "newest", "0.1.0", id="a-candidate-is-no-release"),
        pytest.param([], "unknown", "", id="an-empty-list"),
    ],
)
def test_the_newest_final_release_counts(versions: list[str], state: str, newest: str) -> None:
    found = judge_reply("https://index", reply(200, {"versions": versions}), "0.2.0")
    assert (found.state, found.newest) == (state, newest)
    assert bool(found.command) == (state == "older")


def test_an_index_without_llm_setup_says_so_and_is_no_failure() -> None:
    found = judge_reply("https://index", reply(404), "0.1.0")
    assert found.state == "not-there"
    assert "https://index" in found.text


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(reply(503), id="server-error"),
        pytest.param(reply(200, ["no", "object"]), id="another-document"),
        pytest.param(HttpFailure("dns", "Name or service not known", 0.1), id="no-network"),
    ],
)
def test_an_index_that_cannot_say_leaves_it_unknown(answer: HttpReply | HttpFailure) -> None:
    assert judge_reply("https://index", answer, "0.1.0").state == "unknown"


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        pytest.param("/home/u/.local/share/pipx/venvs/llm-setup", "pipx upgrade llm-setup", id="pipx"),
        pytest.param("/home/u/.local/share/uv/tools/llm-setup", "uv tool upgrade llm-setup", id="uv"),
        pytest.param(r"C:\Users\u\pipx\venvs\llm-setup", "pipx upgrade llm-setup", id="pipx-on-windows"),
    ],
)
def test_the_command_is_that_of_the_tool_which_installed_it(
    monkeypatch: pytest.MonkeyPatch, prefix: str, command: str
) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    assert upgrade_command() == command
    assert removal_command() == command.replace("upgrade", "uninstall")


def test_a_plain_installation_is_upgraded_by_its_own_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/venv")
    monkeypatch.setattr(version, "_is_editable", lambda: False)
    assert upgrade_command() == f"{sys.executable} -m pip install --upgrade llm-setup"
    assert removal_command() == f"{sys.executable} -m pip uninstall llm-setup"


def test_the_index_that_pip_asks_is_asked_and_its_password_not_shown(world, tiny_endpoint) -> None:  # type: ignore[no-untyped-def]
    tiny_endpoint.routes["GET /simple/llm-setup/"] = lambda headers, body: (404, {"accept": headers["accept"]})
    host = tiny_endpoint.url.removeprefix("http://")
    world.env["PIP_INDEX_URL"] = f"http://user:hunter2hunter2@{host}/simple/"
    found = check_upgrade(world)
    assert found.state == "not-there"
    assert "hunter2" not in found.text
    assert tiny_endpoint.seen == ["GET /simple/llm-setup/"]
