"""Back at any question leads to the one before, and the road goes on from there."""

from pathlib import Path
from typing import Any


def test_back_at_every_question_of_the_road_here(on_terminal: Any, machine: Any, home: Path) -> None:
    terminal = on_terminal("init", "--vllm", str(machine.vllm))
    terminal.sees("Which coding clients do you want to set up?", "when done)").enter()
    terminal.sees("Where should the model run?", "At a gateway", "Back").escape()
    terminal.sees("Which coding clients do you want to set up?", "when done)").enter()
    terminal.sees("Where should the model run?", "At a gateway", "Back").enter()
    # The row `Back` is the last, one up from the first.
    terminal.sees("Which model?", "Another:", "Back").up().enter()
    terminal.sees("Where should the model run?", "At a gateway", "Back").enter()
    terminal.sees("Which model?", "Another:", "Back").enter()
    terminal.sees("Go on?", "Take another model", "Back").escape()
    terminal.sees("Which model?", "Another:", "Back").enter()
    terminal.sees("Go on?", "Take another model", "Back").enter()
    terminal.sees("all the same?", "Esc to go back").escape()
    terminal.sees("Go on?", "Take another model", "Back").enter()
    terminal.sees("all the same?", "Esc to go back").enter()
    terminal.sees("Write these files?", "Esc to go back").escape()
    terminal.sees("all the same?", "Esc to go back").escape()
    started = machine.record["pid"]
    assert not (home / ".claude").exists()
    terminal.sees("Go on?", "Take another model", "Back").enter()
    # Claude Code, the first, is ticked, knowing that this model is too small for it.
    terminal.sees("all the same?", "Esc to go back").types(" ").enter()
    terminal.sees("Write these files?", "Esc to go back").types("y").enter()
    terminal.sees("What now").ends()
    # The server that ran already was taken as it was.
    assert machine.record["pid"] == started
    assert (home / ".claude/settings.json").exists()
    assert not (home / ".codex").exists()


def test_back_at_every_question_of_the_road_elsewhere(
    on_terminal: Any, endpoint: Any, environment: dict[str, str], home: Path
) -> None:
    key = environment.pop("LLM_SETUP_API_KEY")
    two = {"data": [{"id": "tiny", "max_model_len": 65536}, {"id": "other"}]}
    endpoint.routes["GET /v1/models"] = lambda headers, body: (200, two)
    terminal = on_terminal("init", "--client", "codex")
    terminal.sees("Where should the model run?", "gateway or service, by name").down().enter()
    terminal.sees("Base URL").escape()
    terminal.sees("Where should the model run?", "gateway or service, by name").down().enter()
    terminal.sees("Base URL").types("ftp://nothing").enter()
    terminal.sees("is no URL").types("\x15" + endpoint.url).enter()
    terminal.sees("Key (not shown").escape()
    terminal.sees("Base URL").types(endpoint.url).enter()
    terminal.sees("Key (not shown").types(key).enter()
    terminal.sees("Which model?", "other", "Back").escape()
    terminal.sees("Key (not shown").types(key).enter()
    terminal.sees("Which model?", "other", "Back").enter()
    terminal.sees("Write these files?").types("y").enter()
    terminal.sees("What now").ends()
    assert key not in terminal.shown
    assert 'model = "tiny"' in (home / ".codex/config.toml").read_text()


def test_a_key_that_is_entered_again_is_the_one_that_counts(
    on_terminal: Any, endpoint: Any, environment: dict[str, str], home: Path
) -> None:
    key = environment.pop("LLM_SETUP_API_KEY")
    terminal = on_terminal("init", "--client", "codex", "--base-url", endpoint.url)
    terminal.sees("Key (not shown").types("sk-wrong-00000000000000").enter()
    terminal.sees("Enter another key").enter()
    terminal.sees("Key (not shown").types(key).enter()
    # The only model is known now, since the endpoint was asked again.
    terminal.sees("Write these files?").types("y").enter()
    terminal.sees("What now").ends()
    assert key in (home / ".codex/config.toml").read_text()


def test_of_a_gateways_many_models_a_part_of_the_name_finds_one(on_terminal: Any, endpoint: Any, home: Path) -> None:
    listed = [{"id": f"vendor/model-{n}"} for n in range(60)] + [{"id": "tiny"}]
    endpoint.routes["GET /v1/models"] = lambda headers, body: (200, {"data": listed})
    terminal = on_terminal("init", "--client", "codex", "--base-url", endpoint.url)
    terminal.sees("Which model?", "a part of the name").types("tiny")
    terminal.sees("tiny").enter()
    terminal.sees("Write these files?").types("y").enter()
    terminal.sees("What now").ends()
    assert 'model = "tiny"' in (home / ".codex/config.toml").read_text()


def test_a_flag_is_changed_and_changed_back(on_terminal: Any, machine: Any) -> None:
    terminal = on_terminal("init", "--vllm", str(machine.vllm), "--client", "codex", "--here", "--model", "embedded")
    terminal.sees("Go on?", "Take another model").down().enter()
    terminal.sees("Which flag?", "--max-model-len 8192", "Another flag").down().enter()
    terminal.sees("Value of --max-model-len", "8192").types("\x154096").enter()
    terminal.sees("--max-model-len 4096", "Go on?", "Back").escape()
    terminal.sees("--max-model-len 8192", "Go on?").down().enter()
    terminal.sees("Which flag?", "Another flag").up(2).enter()
    terminal.sees("Flag, and its value").types("max-model-lenn=1").enter()
    terminal.sees("max-model-lenn").types("\x15max-num-seqs=3").enter()
    terminal.sees("--max-num-seqs 3", "Go on?", "Take another model").enter()
    terminal.sees("Write these files?").types("n").enter()
    terminal.sees("What now").ends()
    assert "--max-num-seqs" in machine.record["command"]
