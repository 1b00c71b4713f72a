"""Where a step fails, its cause is shown in place, and there are ways on."""

import json
from pathlib import Path
from typing import Any

import pytest

HERE = ("--client", "codex", "--here", "--model", "embedded")
SMALL = '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, \
"num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128, "vocab_size": 1000, \
"max_position_embeddings": 2048, "torch_dtype": "bfloat16"}'


def choose(terminal: Any, way: str) -> None:
    """Go down to a way on, and take it."""
    if "Leave; the answers are kept" not in terminal.text.rpartition("What now?")[2]:
        terminal.sees("What now?", "Leave; the answers are kept")
    shown = terminal.text.rpartition("What now?")[2]
    rows = [line.strip(" »") for line in shown.splitlines() if line.strip()][1:]
    terminal.down(next(at for at, row in enumerate(rows) if row.startswith(way))).enter()


def test_a_server_that_dies_is_explained_and_started_again(on_terminal: Any, machine: Any, home: Path) -> None:
    machine.behave("die")
    terminal = on_terminal("init", "--vllm", str(machine.vllm), *HERE)
    terminal.sees("Go on?", "Take another model").enter()
    terminal.sees("OutOfMemoryError", "Start again with --gpu-memory").types("n").enter()
    terminal.sees("[cuda-oom]", "fix:")
    machine.behave("ok")
    choose(terminal, "Try again")
    # What was agreed to stands; the plan is the same.
    terminal.sees("Write these files?").types("y").enter()
    terminal.sees("What now").ends()
    assert (home / ".codex/config.toml").exists()


def test_a_server_that_dies_gets_a_smaller_context(on_terminal: Any, machine: Any) -> None:
    machine.behave("die")
    terminal = on_terminal("init", "--vllm", str(machine.vllm), *HERE)
    terminal.sees("Go on?", "Take another model").enter()
    terminal.sees("Start again with").types("n").enter()
    machine.behave("ok")
    choose(terminal, "Take a smaller context")
    terminal.sees("Tokens of context", "4096").enter()
    terminal.sees("--max-model-len 4096", "Go on?", "Take another model").enter()
    terminal.sees("Write these files?").types("n").enter()
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
    terminal.sees("Write these files?").types("y").enter()
    terminal.sees("What now").ends()


def test_leaving_keeps_the_answers_and_ends_with_1(on_terminal: Any, machine: Any) -> None:
    machine.behave("die")
    terminal = on_terminal("init", "--vllm", str(machine.vllm), *HERE)
    terminal.sees("Go on?", "Take another model").enter()
    terminal.sees("Start again with").types("n").enter()
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
    terminal.sees("Which one?").types("Another, by").enter()
    terminal.sees("Base URL").types(endpoint.url).enter()
    terminal.sees("Key (not shown").types("sk-journey-00000000000000").enter()
    terminal.sees("Write these files?").types("y").enter()
    terminal.sees("What now").ends()
    assert endpoint.url in (home / ".codex/config.toml").read_text()


def test_an_install_that_fails_leads_to_a_vllm_that_is_here(on_terminal: Any, machine: Any, home: Path) -> None:
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "UV_INDEX_URL": "http://127.0.0.1:9"}
    terminal = on_terminal("init", *HERE, **nowhere)
    terminal.sees("Go on?", "Install vLLM and start").enter()
    terminal.sees("error:", "fix:")
    choose(terminal, "Use a vLLM that is here")
    terminal.sees("Its environment, command or Python").types("nowhere").enter()
    terminal.sees("There is no vLLM at").types("\x15venv").enter()
    terminal.sees("Write these files?").types("n").enter()
    terminal.sees("What now").ends()
    assert machine.record["model"].endswith("SmolLM2-135M-Instruct")


@pytest.mark.parametrize("way", ["Try again", "Choose other clients"])
def test_a_clients_file_that_does_not_parse_is_mended_or_left_out(
    on_terminal: Any, endpoint: Any, home: Path, way: str
) -> None:
    broken = home / ".codex/config.toml"
    broken.parent.mkdir()
    broken.write_text("model = ")
    terminal = on_terminal("init", "--base-url", endpoint.url, "--client", "codex")
    terminal.sees("[client-file-broken]")
    if way == "Try again":
        broken.write_text('model = "mine"\n')
    choose(terminal, way)
    if way == "Choose other clients":
        # It stands first and is chosen, as the only one that is here.
        terminal.sees("Which coding clients do you want to set up?", "Codex CLI (its settings are here)", "when done)")
        terminal.types(" ").enter()
    else:
        terminal.sees("Write these files?").types("y").enter()
    terminal.sees("What now").ends()
    assert broken.read_text().startswith('model = "tiny"' if way == "Try again" else "model = ")


def test_a_model_for_which_the_disk_has_no_room_leads_on(on_terminal: Any, hub: Any, machine: Any) -> None:
    machine.behave("full")
    argv = ("--vllm", str(machine.vllm), *HERE[:-1], "org/open")
    terminal = on_terminal("init", *argv, HF_ENDPOINT=hub("org/open"))
    terminal.sees("Go on?", "Take another model").enter()
    terminal.sees("[disk-space]", "What now?")
    machine.behave("ok")
    choose(terminal, "Try again")
    terminal.sees("org/open is here", "Write these files?")


@pytest.fixture
def hub(endpoint: Any) -> Any:
    """`hub(model, token, refusal)`: a hub on loopback with this model; without the token it answers the refusal."""

    def carry(model: str, token: str = "", refusal: int = 401) -> str:
        table = json.dumps({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})
        files: dict[str, Any] = {
            "config.json": json.loads(SMALL),
            # As text, which it is but for its first bytes.
            "model.safetensors": chr(len(table)) + "\0" * 7 + table + "\0" * 4,
        }

        def guarded(content: Any) -> Any:
            def answer(headers: dict[str, str], body: Any) -> tuple[int, Any]:
                if token and headers.get("authorization") != f"Bearer {token}":
                    return refusal, {"error": f"Access to model {model} is restricted."}
                return 200, content

            return answer

        for name, content in files.items():
            endpoint.routes[f"GET /{model}/resolve/main/{name}"] = guarded(content)
        return str(endpoint.url)

    return carry


@pytest.mark.parametrize("refusal", [401, 403])
def test_a_gated_model_is_served_with_a_token_that_is_asked_for_once(
    on_terminal: Any, hub: Any, machine: Any, home: Path, refusal: int
) -> None:
    token = "hf_0123456789abcdef0123"
    url = hub("org/gated", token, refusal)
    argv = ("--vllm", str(machine.vllm), "--client", "codex", "--here")
    terminal = on_terminal("init", *argv, "--model", "org/gated", HF_ENDPOINT=url)
    terminal.sees("[hub-denied]")
    choose(terminal, "Enter a token")
    terminal.sees("Token of the hub", "Esc to go back").escape()
    choose(terminal, "Enter a token")
    terminal.sees("Token of the hub").types(token).enter()
    terminal.sees("org/gated on", "Go on?", "Take another model")
    kept = machine.own / "state/secrets.json"
    assert json.loads(kept.read_text()) == {"init-hub-token": token}
    terminal.enter()
    terminal.sees("org/gated is here", "ready: http://127.0.0.1:", "Write these files?").types("y").enter()
    terminal.sees("What now").ends()
    assert token not in terminal.shown
    assert terminal.text.count("Token of the hub") == 2  # once taken back
    assert json.loads(kept.read_text())["hub-token"] == token
    assert "init-hub-token" not in kept.read_text()
    assert 'model = "gated"' in (home / ".codex/config.toml").read_text()
    # Nor is it asked for another model.
    hub("org/too", token, refusal)
    again = on_terminal("init", *argv, "--model", "org/too", HF_ENDPOINT=url)
    again.sees("org/too on", "Go on?", "Take another model")


def test_a_gated_model_of_the_catalogue_asks_for_its_token_at_the_download(
    on_terminal: Any, hub: Any, machine: Any
) -> None:
    token, model = "hf_0123456789abcdef0123", "meta-llama/Llama-3.2-1B-Instruct"
    argv = ("--vllm", str(machine.vllm), *HERE[:-1], model)
    terminal = on_terminal("init", *argv, HF_ENDPOINT=hub(model, token))
    terminal.sees("Go on?", "Take another model").enter()
    terminal.sees(f"{model} is gated: a token", "(not shown)").types(token).enter()
    terminal.sees(f"{model} is here", "Write these files?").types("n").enter()
    terminal.sees("What now").ends()
    assert token not in terminal.shown
    assert json.loads((machine.own / "state/secrets.json").read_text())["hub-token"] == token


def test_a_token_that_may_not_read_the_model_is_not_kept(on_terminal: Any, hub: Any, machine: Any) -> None:
    url = hub("org/gated", "hf_0123456789abcdef0123")
    terminal = on_terminal("init", "--vllm", str(machine.vllm), *HERE[:-1], "org/gated", HF_ENDPOINT=url)
    choose(terminal, "Enter a token")
    terminal.sees("Token of the hub").types("hf_ofanother0123456789").enter()
    terminal.sees("[hub-denied]")
    choose(terminal, "Leave")
    terminal.ends(1)
    assert "hub-token" not in json.loads((machine.own / "state/secrets.json").read_text())


NO_NETWORK = {"HF_ENDPOINT": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}


def test_where_no_hub_answers_what_needs_none_comes_first(on_terminal: Any, machine: Any, home: Path) -> None:
    folder = home / "a model"
    folder.mkdir()
    (folder / "config.json").write_text(SMALL)
    argv = ("--vllm", str(machine.vllm), *HERE[:-1], "org/some-model")
    terminal = on_terminal("init", *argv, **NO_NETWORK)
    terminal.sees("127.0.0.1:9", "no answer", "No hub answers from here", "Where should models be fetched from?")
    terminal.sees("A folder here that holds a model", "Another mirror", "Take another model", "Take a gateway")
    terminal.sees("Measure again", "no answer", "hf-mirror.com no answer").enter()
    terminal.sees("Folder of the model").types("nowhere").enter()
    terminal.sees("no config.json in that folder").types("\x15a model").enter()
    terminal.sees("a model on", "Go on?", "Take another model")


def test_a_mirror_counts_for_later_from_its_download_on(on_terminal: Any, hub: Any, machine: Any) -> None:
    url, chosen = hub("org/open"), machine.own / "config/hub.env"
    argv = ("--vllm", str(machine.vllm), *HERE[:-1], "org/open")
    terminal = on_terminal("init", *argv, **NO_NETWORK)
    terminal.sees("Where should models be fetched from?", "Measure again").down().enter()
    terminal.sees("URL of the mirror").types(url).enter()
    terminal.sees("Go on?", "Take another model").escape()
    # Taken back, it is measured anew.
    terminal.sees("Where should models be fetched from?", "Measure again").down().enter()
    terminal.sees("URL of the mirror").types(url).enter()
    terminal.sees("Go on?", "Take another model")
    assert not chosen.exists()
    terminal.enter()
    terminal.sees("remembered for later downloads", "org/open is here", "Write these files?")
    assert chosen.read_text() == f"HF_ENDPOINT={url}\n"


def test_of_a_plan_that_does_not_fit_no_flags_are_shown(on_terminal: Any, machine: Any) -> None:
    terminal = on_terminal("init", "--vllm", str(machine.vllm), *HERE, "--context", "100000")
    terminal.sees("does not fit", "[max-model-len-above-model]", "What now?", "Leave; the answers are kept")
    assert "Flags" not in terminal.text
    choose(terminal, "Less context")
    terminal.sees("fits", "--max-model-len 8192", "Go on?")


def test_a_refused_key_is_asked_for_again(
    on_terminal: Any, endpoint: Any, environment: dict[str, str], home: Path
) -> None:
    key = environment.pop("LLM_SETUP_API_KEY")
    terminal = on_terminal("init", "--client", "codex", "--base-url", endpoint.url, "--model", "tiny")
    terminal.sees("Key (not shown").types("sk-wrong-00000000000000").enter()
    terminal.sees("[key-invalid]")
    choose(terminal, "Enter another key")
    terminal.sees("Key (not shown").types(key).enter()
    terminal.sees("Write these files?").types("y").enter()
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
    terminal.sees("Write these files?").types("n").enter()
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
