"""The command and environment of a start, and whether a running server is the one that is wanted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wizard.serving.record import ServerRecord
from wizard.serving.runtime import Runtime
from wizard.serving.start import flag_value, plan_command, plan_environment, server_variables, told_apart, without_flags

RUNTIME = Runtime(
    "own", "/venv/bin/python", "0.32.0", "cpu", "2.13.0+cpu", ("/venv/bin/python", "-m", "v", "serve"), "own", "/venv"
)
RECORD = ServerRecord(
    "default", 1, "b:1", "127.0.0.1", 8000, "/m", "m", "", "0.32.0", ("x",), "/l", 0.0, arguments=("--seed", "1")
)


def test_the_command_is_runtime_model_name_place_and_flags() -> None:
    assert plan_command(RUNTIME.serve_command, "/m", ("--seed", "1"), host="127.0.0.1", port=8001, served_name="m") == (
        *("/venv/bin/python", "-m", "v", "serve", "/m"),
        *("--served-model-name", "m", "--host", "127.0.0.1", "--port", "8001", "--seed", "1"),
    )


def test_a_served_name_that_was_given_is_not_given_twice() -> None:
    command = plan_command(RUNTIME.serve_command, "/m", ("--served_model_name=q",), host="h", port=1, served_name="q")
    assert [word for word in command if "served" in word] == ["--served_model_name=q"]


def test_place_and_key_are_never_taken_from_the_flags() -> None:
    flags = ("--host", "0.0.0.0", "--port=9", "--api-key", "sk-1", "--seed", "1")
    command = plan_command(RUNTIME.serve_command, "/m", flags, host="127.0.0.1", port=8000, served_name="m")
    assert "sk-1" not in command
    assert command.count("--host") == command.count("--port") == 1
    assert command[-2:] == ("--seed", "1")


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (("--max-model-len", "8"), "8"),
        (("--max_model_len=8",), "8"),
        (("--max-model-len", "8", "--max-model-len=9"), "9"),
        (("--enforce-eager",), None),
        (("8", "max-model-len"), None),
    ],
)
def test_a_flags_value_is_found_however_it_is_spelled(arguments: tuple[str, ...], value: str | None) -> None:
    assert flag_value(arguments, "--max-model-len") == value


def test_flags_are_taken_out_with_their_values_and_switches_without() -> None:
    words = ("--a", "1", "--b", "--c=2", "--d", "3")
    assert without_flags(words, ("--a", "--b", "--c")) == ("--d", "3")


def test_the_servers_environment_keeps_the_users_own_and_drops_what_leads_python_astray() -> None:
    env = plan_environment(
        {"PATH": "/usr/bin", "HF_ENDPOINT": "https://mirror", "PYTHONPATH": "/evil", "LLM_SETUP_API_KEY": "sk-x"},
        RUNTIME,
        {"VLLM_CPU_KVCACHE_SPACE": "4"},
        local_model=True,
    )
    assert env["PATH"] == "/venv/bin:/usr/bin"
    assert env["HF_ENDPOINT"] == "https://mirror"
    assert "PYTHONPATH" not in env
    assert "LLM_SETUP_API_KEY" not in env
    assert (env["HF_HUB_OFFLINE"], env["VLLM_CPU_KVCACHE_SPACE"]) == ("1", "4")


def test_below_a_folder_with_a_blank_torch_compiles_nothing() -> None:
    """torch 2.13 gives its own path to the C++ compiler without quotes: the first request would end with HTTP 500."""
    blank = replace(RUNTIME, build="cpu", folder="/home/my user/runtimes/0.32.0-cpu")
    assert plan_environment({}, blank, {}, local_model=True)["TORCH_COMPILE_DISABLE"] == "1"
    assert plan_environment({"TORCH_COMPILE_DISABLE": "0"}, blank, {}, local_model=True)["TORCH_COMPILE_DISABLE"] == "0"
    assert "TORCH_COMPILE_DISABLE" not in plan_environment({}, RUNTIME, {}, local_model=True)


def test_an_image_has_what_every_start_sets_and_nothing_of_this_machine() -> None:
    assert server_variables("cpu", "/home/my user/venv", {"A": "b"}, local_model=True) == {
        **server_variables("cpu", "", {"A": "b"}, local_model=True),
        "TORCH_COMPILE_DISABLE": "1",
    }
    assert server_variables("cuda", "", {}, local_model=False).keys() & {"HF_HUB_OFFLINE", "PATH"} == set()


def test_a_hub_model_may_go_online_and_a_gpu_build_chooses_its_own_cache() -> None:
    env = plan_environment({}, replace(RUNTIME, build="cuda"), {}, local_model=False)
    assert "HF_HUB_OFFLINE" not in env
    assert "VLLM_CPU_KVCACHE_SPACE" not in env


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        pytest.param({}, "", id="the same"),
        pytest.param({"model": "/n"}, "/m", id="model"),
        pytest.param({"host": "0.0.0.0"}, "--host 127.0.0.1", id="host"),
        pytest.param({"port": 9}, "--port 8000", id="port"),
        pytest.param({"arguments": ("--seed", "2")}, "--seed 1", id="a flag's value"),
        pytest.param({"arguments": ("--seed", "1", "--x")}, "- --x", id="a flag more"),
    ],
)
def test_a_running_server_is_told_apart_by_what_differs(wanted: dict, said: str) -> None:
    asked = {"model": "/m", "arguments": ("--seed", "1"), "host": "127.0.0.1", "port": None} | wanted
    assert told_apart(RECORD, asked["model"], asked["arguments"], asked["host"], asked["port"]) == said
