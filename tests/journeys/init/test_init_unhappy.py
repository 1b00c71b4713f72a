"""Where a step fails, its cause is shown in place, and there are ways on."""

import json
from pathlib import Path
from typing import Any

HERE = ("--client", "codex", "--here", "--model", "embedded")
SMALL = '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, \
"num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128, "vocab_size": 1000, \
"max_position_embeddings": 2048, "torch_dtype": "bfloat16"}'


def choose(terminal: Any, way: str) -> None:
    """Go down to a way on, and take it."""
    terminal.sees("What now?", "Leave; the answers are kept")
    shown = terminal.text.rpartition("What now?")[2]
    rows = [line.strip(" »") for line in shown.splitlines() if line.strip()][1:]
    terminal.down(next(at for at, row in enumerate(rows) if row.startswith(way))).enter()


def test_a_server_that_dies_is_explained_and_started_again(on_terminal: Any, machine: Any, home: Path) -> None:
    machine.behave("die")
    terminal = on_terminal("init", "--vllm", str(machine.vllm), *HERE)
    terminal.sees("Go on?", "Take another model").enter()
    terminal.sees("OutOfMemoryError", "Start again with --gpu-memory").types("n")
    terminal.sees("[cuda-oom]", "fix:")
    machine.behave("ok")
    choose(terminal, "Try again")
    # What was agreed to stands; the plan is the same.
    terminal.sees("Write these files?").types("y")
    terminal.sees("What now").ends()
    assert (home / ".codex/config.toml").exists()


def test_a_server_that_dies_gets_a_smaller_context(on_terminal: Any, machine: Any) -> None:
    machine.behave("die")
    terminal = on_terminal("init", "--vllm", str(machine.vllm), *HERE)
    terminal.sees("Go on?", "Take another model").enter()
    terminal.sees("Start again with").types("n")
    machine.behave("ok")
    choose(terminal, "Take a smaller context")
    terminal.sees("Tokens of context", "4096").enter()
    terminal.sees("--max-model-len 4096", "Go on?", "Take another model").enter()
    terminal.sees("Write these files?").types("n")
    terminal.sees("What now").ends()
    assert "4096" in machine.record["command"]


def test_a_proof_that_fails_shows_the_doctors_finding_and_goes_on(on_terminal: Any, machine: Any, home: Path) -> None:
    machine.behave("chatless")
    terminal = on_terminal("init", "--vllm", str(machine.vllm), *HERE)
    terminal.sees("Go on?", "Take another model").enter()
    terminal.sees("the doctor looks for the cause", "error:", "saw:", "it broke")
    assert not (home / ".codex").exists()
    machine.behave("ok")
    choose(terminal, "Try again")
    terminal.sees("Write these files?").types("y")
    terminal.sees("What now").ends()


def test_leaving_keeps_the_answers_and_ends_with_1(on_terminal: Any, machine: Any) -> None:
    machine.behave("die")
    terminal = on_terminal("init", "--vllm", str(machine.vllm), *HERE)
    terminal.sees("Go on?", "Take another model").enter()
    terminal.sees("Start again with").types("n")
    choose(terminal, "Leave")
    terminal.ends(1)
    assert terminal.text.count("[cuda-oom]") == 1
    assert machine.kept.exists()


def test_an_install_that_fails_leads_to_an_endpoint_elsewhere(
    on_terminal: Any, endpoint: Any, machine: Any, home: Path
) -> None:
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "UV_INDEX_URL": "http://127.0.0.1:9"}
    terminal = on_terminal("init", *HERE, **nowhere)
    terminal.sees("Go on?", "Install vLLM and start").enter()
    terminal.sees("error:", "fix:")
    choose(terminal, "Take a gateway")
    terminal.sees("Which one?").escape()
    terminal.sees("Where should the model run?", "gateway or service, by name").down().enter()
    terminal.sees("Base URL").types(endpoint.url).enter()
    terminal.sees("Key (not shown").types("sk-journey-00000000000000").enter()
    terminal.sees("Write these files?").types("y")
    terminal.sees("What now").ends()
    assert endpoint.url in (home / ".codex/config.toml").read_text()


def test_a_gated_model_asks_for_a_token_once(on_terminal: Any, endpoint: Any, machine: Any) -> None:
    token = "hf_0123456789abcdef0123"

    def config(headers: dict[str, str], body: Any) -> tuple[int, Any]:
        if headers.get("authorization") != f"Bearer {token}":
            return 401, {"error": "Access to model org/gated is restricted."}
        return 200, json.loads(SMALL)

    endpoint.routes["GET /org/gated/resolve/main/config.json"] = config
    argv = ("--vllm", str(machine.vllm), "--client", "codex", "--here", "--model", "org/gated")
    terminal = on_terminal("init", *argv, HF_ENDPOINT=endpoint.url)
    terminal.sees("[hub-denied]")
    choose(terminal, "Enter a token")
    terminal.sees("Token of the hub").types(token).enter()
    terminal.sees("org/gated on", "Go on?")
    terminal.child.sendcontrol("c")
    terminal.ends(130)
    assert token not in terminal.shown
    kept = {path.name: path.read_text() for path in (machine.own / "state").iterdir() if path.is_file()}
    assert [name for name, text in kept.items() if token in text] == ["secrets.json"]


def test_a_hub_that_does_not_answer_is_measured_and_others_are_offered(on_terminal: Any, machine: Any) -> None:
    argv = ("--vllm", str(machine.vllm), "--client", "codex", "--here", "--model", "org/some-model")
    terminal = on_terminal("init", *argv, HF_ENDPOINT="http://127.0.0.1:9")
    terminal.sees("Where models come from", "127.0.0.1:9", "no answer (refused)")
    terminal.sees("Where should models be fetched from?", "hf-mirror.com", "www.modelscope.cn", "Another mirror")
    terminal.child.sendcontrol("c")
    terminal.ends(130)


def test_a_refused_key_is_asked_for_again(
    on_terminal: Any, endpoint: Any, environment: dict[str, str], home: Path
) -> None:
    key = environment.pop("LLM_SETUP_API_KEY")
    terminal = on_terminal("init", "--client", "codex", "--base-url", endpoint.url, "--model", "tiny")
    terminal.sees("Key (not shown").types("sk-wrong-00000000000000").enter()
    terminal.sees("[key-invalid]")
    choose(terminal, "Enter another key")
    terminal.sees("Key (not shown").types(key).enter()
    terminal.sees("Write these files?").types("y")
    terminal.sees("What now").ends()
    assert key in (home / ".codex/config.toml").read_text()


def test_a_key_that_gets_no_list_of_models_is_asked_for_again_before_a_model_is(
    on_terminal: Any, endpoint: Any, environment: dict[str, str]
) -> None:
    key = environment.pop("LLM_SETUP_API_KEY")
    terminal = on_terminal("init", "--client", "codex", "--base-url", endpoint.url)
    terminal.sees("Key (not shown").types("sk-wrong-00000000000000").enter()
    terminal.sees("[key-invalid]")
    choose(terminal, "Enter another key")
    terminal.sees("Key (not shown").types(key).enter()
    terminal.sees("Write these files?").types("n")
    terminal.sees("What now").ends()
    assert "Model ID" not in terminal.text


def test_a_key_goes_to_no_other_address_that_is_typed_later(on_terminal: Any, endpoint: Any) -> None:
    terminal = on_terminal("init", "--client", "codex", "--base-url", "http://127.0.0.1:9", "--model", "tiny")
    choose(terminal, "Enter another URL")
    terminal.sees("Base URL").types(endpoint.url).enter()
    terminal.sees("Key (not shown")
    terminal.child.sendcontrol("c")
    terminal.ends(130)
    assert endpoint.seen == []
