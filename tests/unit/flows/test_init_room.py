"""Clients whose first request is longer than the context: left out, unless they were wanted all the same."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from wizard.flows.init import InitFlow, Manner
from wizard.secret import Secret
from wizard.ui.questions import Choice, Questions

KEY = "sk-room-0123456789"
# Codex's own first request is longer than that, Cline's is not.
ROOM = 8192


class Ticking(Questions):
    """Asks somebody who ticks these in the list of what does not fit, and says yes to everything else."""

    def __init__(self, screen: Any, *ticked: str) -> None:
        super().__init__(screen, yes=False, may_ask=True)
        self.ticked = ticked
        self.offered: tuple[str, ...] = ()

    def several(
        self, flag: str, question: str, choices: Sequence[Choice], recommended: Sequence[str], **more: Any
    ) -> tuple[str, ...]:
        if "all the same" not in question:
            return ("codex", "cline")
        assert not recommended
        self.offered = tuple(choice.value for choice in choices)
        return self.ticked

    def confirm(self, flag: str, question: str, **more: Any) -> bool:
        return True


@pytest.fixture
def init(world: Any, screen: Any, tiny_endpoint: Any, make_vllm_like: Any) -> Callable[..., Any]:
    """Run it to an endpoint that holds so many tokens: the journey, and the home."""
    make_vllm_like(tiny_endpoint, key=KEY, model="m", context=ROOM)

    def run(questions: Questions | None = None, *, installed: Sequence[str] = (), **given: Any) -> Any:
        for folder in installed:
            (world.home / folder).mkdir(parents=True)
            (world.home / folder / "something").touch()
        questions = questions or Questions(screen, yes=True, may_ask=False)
        flow = InitFlow(
            world,
            screen,
            questions,
            {"base_url": tiny_endpoint.url, "model": "m", **given},
            key=Secret(KEY),
            manner=Manner(yes=not questions.may_ask),
        )
        return flow.run()

    return run


def codex(world: Any) -> Path:
    found: Path = world.home / ".codex/config.toml"
    return found


def test_a_preselected_client_without_an_answer_is_left_out_and_said(init: Any, world: Any, shown: Any) -> None:
    codex(world).parent.mkdir()
    codex(world).write_text('model = "as it was"\n')
    journey = init(installed=(".cline/data",))
    assert codex(world).read_text() == 'model = "as it was"\n'
    assert journey.problems == []
    assert journey.document["left_out"] == ["codex"]
    assert [one["client"] for one in journey.document["verified"]] == ["cline"]
    end = shown().partition("Which clients answer here")[2]
    assert "Cline" in end
    assert "Codex CLI: no answer here; the files are as they were" in end
    assert "llm-setup models --for codex" in end


def test_where_no_client_would_answer_the_run_has_a_problem(init: Any, world: Any) -> None:
    journey = init(installed=(".codex",))
    assert not codex(world).exists()
    assert [problem.code for problem in journey.problems] == ["no-client-answers"]


def test_a_named_client_is_written_and_marked_in_the_proof_and_at_the_end(init: Any, world: Any, shown: Any) -> None:
    journey = init(clients=("codex",))
    assert codex(world).exists()
    assert [one["status"] for one in journey.document["verified"]] == ["context"]
    assert (
        "Codex CLI: the files are written, but the context of this server is too small"
        in shown().partition("Which clients answer here")[2]
    )


def test_who_was_told_may_tick_a_client_all_the_same(init: Any, world: Any, screen: Any) -> None:
    asked = Ticking(screen, "codex")
    init(asked)
    assert asked.offered == ("codex",)
    assert codex(world).exists()


def test_who_was_told_and_ticks_nothing_keeps_the_file(init: Any, world: Any, screen: Any) -> None:
    journey = init(Ticking(screen))
    assert not codex(world).exists()
    assert json.dumps(journey.document["left_out"]) == '["codex"]'
    assert (world.home / ".cline/data/settings/providers.json").exists()
