"""Whose key goes where, and what is said where no profile is active."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from wizard.cli.clients import command as clients_command
from wizard.cli.profiles import command as profiles_command
from wizard.cli.uninstall import command as uninstall_command
from wizard.endpoint.model import Endpoint
from wizard.flows.clients import applied_targets, clients_asking_for
from wizard.flows.doctor import DoctorOptions, observe
from wizard.flows.endpoints import EndpointOptions, resolve_endpoint
from wizard.flows.env import profile_for_env
from wizard.flows.profiles import add_profile, remove_profile
from wizard.flows.use import choose_profile, use_profile
from wizard.problems import ProblemError
from wizard.secret import Secret


@pytest.fixture
def services(home: Any) -> Any:
    """Two profiles, one with a key of its own and one without, while the shell exports a third server's key."""
    endpoint = Endpoint("a", "http://a.test/v1", "http://a.test", "m", Secret("sk-own-key-of-a-0123456789"))
    add_profile(home.world, "a", endpoint, activate=True)
    add_profile(home.world, "b", replace(endpoint, openai_base_url="http://b.test/v1", key=None), activate=False)
    home.env["LLM_SETUP_API_KEY"] = "sk-of-another-server-0123456789"
    return home


def test_the_key_in_the_variable_does_not_go_to_a_profile_with_a_key_of_its_own(services: Any, tmp_path: Path) -> None:
    def key(**options: Any) -> str:
        found = resolve_endpoint(services.world, services.screen, EndpointOptions(**options)).key
        return found.reveal() if found else ""

    assert key() == key(profile="a") == "sk-own-key-of-a-0123456789"
    assert key(profile="b") == "sk-of-another-server-0123456789"
    file = tmp_path / "key"
    file.write_text("sk-from-a-file-0123456789\n")
    assert key(api_key_file=str(file)) == "sk-from-a-file-0123456789"


def test_the_doctor_asks_a_profile_s_server_with_its_own_key(services: Any) -> None:
    targets = observe(services.world, DoctorOptions(offline=True, every=True)).targets
    keys = {target.profile: target.key.reveal() for target in targets if target.key}
    assert keys == {"a": "sk-own-key-of-a-0123456789", "b": "sk-of-another-server-0123456789"}


@pytest.mark.parametrize("asked", ["env", "endpoint"])
def test_where_no_profile_is_active_those_that_exist_are_named(services: Any, asked: str) -> None:
    remove_profile(services.world, "a")
    with pytest.raises(ProblemError) as raised:
        if asked == "env":
            profile_for_env(services.world, "")
        else:
            resolve_endpoint(services.world, services.screen, EndpointOptions())
    assert raised.value.problem.code == "profile-not-active"
    assert "b" in raised.value.problem.what
    assert raised.value.problem.fix is not None
    assert raised.value.problem.fix.commands == ("llm-setup use b",)


def test_removing_the_active_profile_says_that_none_is_active_now(services: Any) -> None:
    said = CliRunner().invoke(profiles_command, ["remove", "a"], env=services.env)
    assert "No profile is active now" in said.output
    said = CliRunner().invoke(profiles_command, ["remove", "b"], env=services.env)
    assert "No profile is active now" not in said.output


@pytest.fixture
def by_command(services: Any) -> Any:
    """Clients that ask a command for the key of `a`."""
    endpoint = services.world.profiles.load().by_name["a"].endpoint(Secret("sk-own-key-of-a-0123456789"))
    services.apply("claude-code", "codex", "pi", "crush", endpoint=endpoint, key_by_command=True)
    return services


def test_clients_that_ask_for_the_key_of_a_profile_are_named(by_command: Any) -> None:
    assert sorted(clients_asking_for(by_command.world, "a")) == ["Claude Code", "Codex CLI", "Crush", "pi"]
    assert clients_asking_for(by_command.world, "b") == ()
    assert clients_asking_for(by_command.world, "") == ()


@pytest.mark.parametrize("name", ["claude-code", "codex", "pi", "crush"])
def test_a_client_with_a_key_of_its_own_again_asks_for_none(by_command: Any, endpoint: Endpoint, name: str) -> None:
    before = set(clients_asking_for(by_command.world, "a"))
    by_command.apply(name, endpoint=endpoint)
    title = {"claude-code": "Claude Code", "codex": "Codex CLI", "pi": "pi", "crush": "Crush"}[name]
    assert before - set(clients_asking_for(by_command.world, "a")) == {title}
    targets = applied_targets(by_command.world)
    assert [target.by_command for target in targets if target.client.spec.name == name] == [False]
    written = b"".join(content for path, content in by_command.tree().items() if name.split("-")[0] in path)
    assert b"profiles key" not in written
    assert b"sk-own-key-of-a" not in written


def test_a_switch_to_a_profile_without_a_key_leaves_no_command_for_another_s(by_command: Any) -> None:
    del by_command.env["LLM_SETUP_API_KEY"]
    use_profile(
        by_command.world, by_command.screen, choose_profile(by_command.world, by_command.screen, "b", ""), yes=True
    )
    assert b"profiles key" not in b"".join(by_command.tree().values())
    use_profile(
        by_command.world, by_command.screen, choose_profile(by_command.world, by_command.screen, "a", ""), yes=True
    )
    assert "Claude Code" in clients_asking_for(by_command.world, "a")


@pytest.mark.parametrize(
    ("helper", "stays"),
    [
        ("/usr/bin/llm-setup profiles key a", False),
        ("'/o p/llm-setup' profiles key a", False),
        ("python -m wizard profiles key a", False),
        ("vault profiles key a", True),
        ("cat ~/key", True),
        ("llm-setup 'profiles", True),
    ],
)
def test_a_command_of_the_user_s_own_for_the_key_stays(home: Any, helper: str, stays: bool) -> None:
    path = home.write(".claude/settings.json", json.dumps({"apiKeyHelper": helper, "theme": "dark"}))
    home.apply("claude-code")
    assert json.loads(path.read_text()).get("apiKeyHelper") == (helper if stays else None)
    path.write_text(json.dumps({**json.loads(path.read_text()), "later": 1}))
    home.restore("claude-code", keep_changes=True)
    assert json.loads(path.read_text()) == {"apiKeyHelper": helper, "theme": "dark", "later": 1}


def test_a_group_alone_lists_what_it_has(services: Any) -> None:
    listed = CliRunner().invoke(profiles_command, [], env=services.env, standalone_mode=False)
    assert listed.return_value == 0
    assert "http://a.test/v1" in listed.output
    listed = CliRunner().invoke(clients_command, [], env={**services.env, "HOME": str(services.path)})
    assert "codex" in listed.output
    assert "Usage" not in listed.output


def test_a_log_that_is_not_there_leads_to_where_a_server_s_log_is(services: Any) -> None:
    with pytest.raises(ProblemError) as raised:
        observe(services.world, DoctorOptions(offline=True, log=str(services.path / "server.log")))
    assert raised.value.problem.fix is not None
    assert raised.value.problem.fix.commands == ("llm-setup logs --path",)


@pytest.fixture
def out_of_reach(services: Any) -> Any:
    """The key of profile `a` went to a keyring that this session cannot ask, and to the file, as one was advised."""
    index = services.world.paths.state / "keyring-names.json"
    index.write_text('["profile:a", "profile:gone"]')
    return services


def test_a_profile_whose_key_a_keyring_holds_back_is_removed_and_the_entry_named(out_of_reach: Any) -> None:
    said = CliRunner().invoke(profiles_command, ["remove", "a", "--json"], env=out_of_reach.env)
    document = json.loads(said.stdout)
    assert (document["status"], document["removed"]) == ("warning", "a")
    assert [problem["code"] for problem in document["problems"]] == ["keyring-unavailable"]
    assert "profile:a" in document["problems"][0]["fix"]["text"]
    world = out_of_reach.world
    assert list(world.profiles.load().by_name) == ["b"]
    assert b"sk-own-key-of-a" not in (world.paths.state / "secrets.json").read_bytes()


def test_uninstall_forgets_the_keys_it_can_and_names_those_it_cannot(out_of_reach: Any) -> None:
    add_profile(
        out_of_reach.world,
        "c",
        Endpoint("c", "http://c.test/v1", None, "m", Secret("sk-key-of-c-0123")),
        activate=False,
    )
    said = CliRunner().invoke(uninstall_command, ["--yes", "--json"], env=out_of_reach.env)
    document = json.loads(said.stdout)
    assert (document["status"], document["given_back"]) == ("warning", True)
    named = [problem["what"] for problem in document["problems"]]
    assert [("profile:a" in what, "profile:gone" in what) for what in named] == [(True, False), (False, True)]
    assert json.loads((out_of_reach.world.paths.state / "secrets.json").read_text()) == {}
