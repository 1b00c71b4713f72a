"""Clients whose first request is longer than the context: left out, unless they were wanted all the same."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from wizard.endpoint.model import Profile
from wizard.flows.init import InitFlow, Manner, read_answers
from wizard.flows.init_room import look_out, say_outlook
from wizard.problems import ProblemError
from wizard.secret import Secret
from wizard.ui.questions import BackRequested, Choice, Questions

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

    def run(
        questions: Questions | None = None,
        *,
        installed: Sequence[str] = (),
        save_to: Path | None = None,
        dry_run: bool = False,
        **given: Any,
    ) -> Any:
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
            manner=Manner(yes=not questions.may_ask, save_to=save_to, dry_run=dry_run),
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
    journey = init(clients=("codex",), clients_anyway=("codex",))
    assert codex(world).exists()
    assert [one["status"] for one in journey.document["verified"]] == ["context"]
    end = shown().partition("Which clients answer here")[2]
    assert "Codex CLI: the files are written, but no answer comes here" in end
    assert "too small for real work" not in end


def test_where_no_named_agent_answers_the_run_has_the_problem_of_those_left_out(init: Any, shown: Any) -> None:
    journey = init(clients=("codex", "shell"), clients_anyway=("codex", "shell"))
    assert [(problem.code, problem.severity) for problem in journey.problems] == [("no-client-answers", "error")]
    assert "`--client` writes" not in shown()
    assert "about 12,400 tokens, and the context holds 8,192" in shown()


def test_where_another_agent_answers_the_one_without_is_a_warning(init: Any) -> None:
    journey = init(clients=("codex", "cline"), clients_anyway=("codex", "cline"))
    found = [(problem.code, problem.severity) for problem in journey.problems]
    assert found == [("context-too-small-for-client", "warning")]


def test_little_room_and_none_at_all_are_told_apart(world: Any, screen: Any, shown: Any) -> None:
    say_outlook(screen, look_out(world, ("codex", "cline"), (), 13_000))
    assert "Codex CLI, Cline: the files are written, but the context of this server is too small" in shown()
    assert "no answer comes here" not in shown()


def test_clients_of_an_answers_file_are_not_those_that_were_named(init: Any, world: Any) -> None:
    assert [problem.code for problem in init(clients=("codex",)).problems] == ["no-client-answers"]
    assert not codex(world).exists()


def test_saved_answers_give_the_same_files_again(init: Any, world: Any) -> None:
    codex(world).parent.mkdir()
    codex(world).write_text('model = "as it was"\n')
    init(installed=(".cline/data",), save_to=world.home / "mine.toml")
    saved = read_answers(world, world.home / "mine.toml")
    assert saved["clients"] == ("cline",)
    assert "clients_anyway" not in saved
    again = init(**saved)
    assert codex(world).read_text() == 'model = "as it was"\n'
    assert [one["client"] for one in again.document["verified"]] == ["cline"]


def test_who_was_ticked_all_the_same_is_written_by_a_replay_too(init: Any, world: Any, screen: Any) -> None:
    init(Ticking(screen, "codex"), save_to=world.home / "mine.toml")
    codex(world).unlink()
    init(**read_answers(world, world.home / "mine.toml"))
    assert codex(world).exists()


def test_the_way_on_is_told_once(init: Any, screen: Any, shown: Any) -> None:
    init(installed=(".codex",))
    assert (shown() + screen._err.getvalue()).count("llm-setup models --for codex") == 1


def test_who_was_told_may_tick_a_client_all_the_same(init: Any, world: Any, screen: Any) -> None:
    asked = Ticking(screen, "codex")
    journey = init(asked)
    assert [problem.severity for problem in journey.problems] == ["warning"]
    assert asked.offered == ("codex",)
    assert codex(world).exists()


def test_who_was_told_and_ticks_nothing_keeps_the_file(init: Any, world: Any, screen: Any) -> None:
    journey = init(Ticking(screen))
    assert not codex(world).exists()
    assert json.dumps(journey.document["left_out"]) == '["codex"]'
    assert (world.home / ".cline/data/settings/providers.json").exists()


def test_back_at_the_files_asks_again_who_is_wanted_all_the_same(init: Any, world: Any, screen: Any) -> None:
    class Returning(Ticking):
        times = 0

        def several(self, *asked: Any, **more: Any) -> tuple[str, ...]:
            if "all the same" in asked[1]:
                self.times += 1
                self.ticked = ("codex",) if self.times == 1 else ()
            return super().several(*asked, **more)

        def confirm(self, flag: str, question: str, **more: Any) -> bool:
            if self.times == 1:
                raise BackRequested
            return True

    asked = Returning(screen)
    init(asked)
    assert asked.times == 2
    assert not codex(world).exists()


def test_left_at_the_files_it_says_what_stays(init: Any, world: Any, screen: Any, shown: Any) -> None:
    class Leaving(Questions):
        def confirm(self, flag: str, question: str, **more: Any) -> bool:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        init(Leaving(screen, yes=False, may_ask=True), clients=("cline",), profile="mine")
    assert "the profile `mine`, which is the active one now" in shown()
    assert "Nothing was changed" not in shown()
    assert "Left. `llm-setup init` goes on from here." in shown()
    assert (world.paths.state / "init-answers.toml").exists()


@pytest.fixture
def mine(world: Any) -> None:
    """A profile of that name, of another endpoint."""
    world.profiles.put(Profile("mine", "http://other:1/v1", None, "m", kind="unknown"), activate=False)


def test_a_profile_is_replaced_when_that_is_said_and_not_before(init: Any, mine: None, shown: Any) -> None:
    init(clients=(), profile="mine")
    before, _, after = shown().partition("profile `mine` is replaced; it was http://other:1/v1")
    assert "Proof: requests as clients send them" in before
    assert after


def test_a_failed_proof_replaces_no_profile_and_says_so_of_none(
    init: Any, mine: None, tiny_endpoint: Any, shown: Any
) -> None:
    tiny_endpoint.routes["POST /v1/chat/completions"] = lambda headers, body: (500, {"detail": "broken"})
    with pytest.raises(ProblemError):
        init(clients=(), profile="mine")
    assert "is replaced" not in shown()


def test_a_dry_run_says_what_would_be_replaced(init: Any, mine: None, world: Any, shown: Any) -> None:
    init(clients=(), profile="mine", dry_run=True)
    assert "profile `mine` would be replaced; it is http://other:1/v1" in shown()
    assert world.profiles.load().by_name["mine"].openai_base_url == "http://other:1/v1"


def test_the_program_that_is_found_is_the_one_to_start(init: Any, world: Any, shown: Any) -> None:
    program = world.home / "bin/zeditor"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    world.env["PATH"] = str(program.parent)
    init(clients=("zed",), clients_anyway=("zed",))
    assert "zeditor" in shown().partition("What now")[2]
