"""The questions, answered on a pseudo-terminal."""

from pathlib import Path
from typing import Any

import pytest


def test_questions_lead_to_written_files(on_terminal: Any, endpoint: Any, home: Path) -> None:
    terminal = on_terminal("init", "--base-url", endpoint.url, "--model", "tiny")
    terminal.sees("Which coding clients do you want to set up").enter()
    terminal.sees("Write these files").types("y").enter()
    terminal.sees("What now").ends()
    assert (home / ".codex/config.toml").exists()


def test_no_leaves_every_file_as_it_was(on_terminal: Any, endpoint: Any, home: Path) -> None:
    terminal = on_terminal("init", "--base-url", endpoint.url, "--model", "tiny", "--client", "codex")
    terminal.sees("Write these files").types("n").enter()
    terminal.sees("What now").ends()
    assert not (home / ".codex").exists()


def test_the_road_to_a_url_with_several_models_asks_six_questions(
    on_terminal: Any, endpoint: Any, environment: dict[str, str], home: Path
) -> None:
    key = environment.pop("LLM_SETUP_API_KEY")
    two = {"data": [{"id": "tiny", "max_model_len": 65536}, {"id": "other"}]}
    endpoint.routes["GET /v1/models"] = lambda headers, body: (200, two)
    terminal = on_terminal("init")
    terminal.sees("Which coding clients do you want to set up?").enter()
    terminal.sees("Where should the model run?").down().enter()
    terminal.sees("Base URL").types(endpoint.url).enter()
    terminal.sees("Key (not shown").types(key).enter()
    terminal.sees("Which model?").enter()
    terminal.sees("Write these files?").enter()
    terminal.sees("What now").ends()
    assert terminal.text.count("\n? ") == 6, terminal.text
    assert (home / ".codex/config.toml").exists()


@pytest.mark.parametrize("key", ["c", "d"])
def test_ctrl_c_and_ctrl_d_at_a_question_leave_nothing(on_terminal: Any, home: Path, key: str) -> None:
    terminal = on_terminal("init")
    terminal.sees("Which coding clients do you want to set up", "when done)")
    terminal.child.sendcontrol(key)
    terminal.ends(130)
    assert list(home.iterdir()) == []


def test_the_common_road_asks_six_questions_and_enter_answers_each(on_terminal: Any, machine: Any, home: Path) -> None:
    terminal = on_terminal("init", "--vllm", str(machine.vllm))
    # The fifth only where the model holds less than the first request of a client.
    asked = (
        "Which coding clients do you want to set up?",
        "Where should the model run?",
        "Which model?",
        "Go on?",
        "Write the files of any of these all the same?",
        "Write these files?",
    )
    for question in asked:
        terminal.sees(question).enter()
    terminal.sees("What now").ends()
    # Each question is said once more with its answer.
    assert terminal.text.count("\n? ") == len(asked), terminal.text
    assert machine.record["model"].endswith("SmolLM2-135M-Instruct")
    assert (home / ".cline/data/settings/providers.json").exists()
    # Codex would get no answer from this model.
    assert not (home / ".codex").exists()
    assert not machine.kept.exists()
