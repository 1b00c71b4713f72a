"""What is asked: the same for every target and seed, and unlike anything before where the cache is to be cold."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from wizard.bench.prompts import FIXED, Prompt, parse_prompts
from wizard.bench.workloads import (
    Ask,
    Conversation,
    WorkloadOptions,
    plan_arrivals,
    plan_conversations,
    plan_warm_up,
    shared_tokens,
)


def text(ask: Ask) -> str:
    """All that a server reads of it."""
    return json.dumps([ask.tools, ask.messages], ensure_ascii=False)


def asks(conversations: tuple[Conversation, ...]) -> list[Ask]:
    return [ask for conversation in conversations for ask in conversation]


def shared(one: str, other: str) -> int:
    """Characters that both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


def user_text(ask: Ask) -> str:
    return str(ask.messages[0]["content"])


@pytest.mark.parametrize("kind", ["random", "fixed", "agent"])
def test_the_same_seed_and_nonce_ask_the_same(kind: Any) -> None:
    options = WorkloadOptions(kind=kind, seed=3, nonce="a")
    assert plan_conversations(options, 7, part="4") == plan_conversations(options, 7, part="4")


@pytest.mark.parametrize("kind", ["random", "fixed"])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(WorkloadOptions(nonce="a"), WorkloadOptions(nonce="b"), id="another-run"),
        pytest.param(WorkloadOptions(seed=1), WorkloadOptions(seed=2), id="another-seed"),
    ],
)
def test_cold_prompts_differ_from_the_first_words(kind: Any, one: WorkloadOptions, other: WorkloadOptions) -> None:
    first, second = (asks(plan_conversations(replace(options, kind=kind), 10)) for options in (one, other))
    beginnings = {user_text(ask)[:24] for ask in (*first, *second)}
    assert len(beginnings) == 20
    assert not any(ask.seen for ask in first)


@pytest.mark.parametrize("kind", ["random", "agent"])
def test_another_nonce_asks_the_same_behind_a_mark_of_the_same_length(kind: Any) -> None:
    options = WorkloadOptions(kind=kind, prompt_tokens=(50, 500), max_tokens=(5, 50), seed=1)
    one, other = (asks(plan_conversations(replace(options, nonce=nonce), 10)) for nonce in ("aa0", "aa1"))
    assert [ask.max_tokens for ask in one] == [ask.max_tokens for ask in other]
    for first, second in zip(one, other, strict=True):
        assert len(text(first)) == len(text(second))
        assert str(first.messages[0]["content"]).split()[1:] == str(second.messages[0]["content"]).split()[1:]
        assert shared(str(first.messages[0]["content"]), str(second.messages[0]["content"])) < 10


def test_a_part_of_a_run_has_prompts_of_its_own() -> None:
    options = WorkloadOptions(nonce="a")
    one, other = (user_text(plan_conversations(options, 1, part=part)[0][0]) for part in ("1", "4"))
    assert one != other


def test_warm_random_prompts_are_one_prompt_which_the_warm_up_sends() -> None:
    options = WorkloadOptions(cache="warm", nonce="a")
    planned = asks(plan_conversations(options, 5, part="16"))
    assert {text(ask) for ask in planned} == {text(asks(plan_warm_up(options, 1))[0])}
    assert all(ask.seen for ask in planned)


def test_lengths_are_drawn_between_their_bounds() -> None:
    planned = asks(plan_conversations(WorkloadOptions(prompt_tokens=(20, 400), max_tokens=(5, 50)), 200))
    words = sorted(len(user_text(ask).split()) for ask in planned)
    assert words[0] < 60
    assert 350 < words[-1] < 420
    assert {min(ask.max_tokens for ask in planned), max(ask.max_tokens for ask in planned)} == {5, 50}


def test_fixed_questions_come_in_turn_and_warm_ones_as_they_are() -> None:
    planned = asks(plan_conversations(WorkloadOptions(kind="fixed", cache="warm"), len(FIXED) + 1))
    assert [user_text(ask) for ask in planned] == [*FIXED, FIXED[0]]


def test_the_warm_up_of_a_warm_list_sends_what_comes_again() -> None:
    options = WorkloadOptions(kind="file", cache="warm", prompts=parse_prompts("a\nb\nc", lines_of_json=False))
    assert [user_text(ask) for ask in asks(plan_warm_up(options, 1, used=100))] == ["a", "b", "c"]
    assert [user_text(ask) for ask in asks(plan_warm_up(options, 1, used=2))] == ["a", "b"]
    assert plan_warm_up(options, 0, used=100) == ()


def test_how_much_was_sent_before_is_known_for_each_kind() -> None:
    assert shared_tokens(WorkloadOptions(kind="agent", prefix_tokens=9000)) == 9000
    assert shared_tokens(WorkloadOptions(prompt_tokens=(300, 800), cache="warm")) == 300
    assert shared_tokens(WorkloadOptions(prompt_tokens=(300, 800))) == 0
    prompts = parse_prompts("a" * 4000 + "\n" + "b" * 8000, lines_of_json=False)
    assert shared_tokens(WorkloadOptions(kind="file", prompts=prompts, cache="warm")) == 1000


def test_a_conversation_of_an_agent_grows_and_keeps_its_beginning() -> None:
    options = WorkloadOptions(kind="agent", nonce="a")
    (conversation, rest) = plan_conversations(options, 8)
    assert [ask.seen for ask in conversation] == [False, True, True, True, True]
    assert len(rest) == 3
    for before, after in pairwise(conversation):
        assert after.messages[: len(before.messages)] == before.messages
        assert after.tools == before.tools
        assert [message["role"] for message in after.messages[len(before.messages) :]] == ["assistant", "tool"]
    words = len(text(conversation[0]).split())
    assert 10_000 < words < 20_000


def test_cold_conversations_of_an_agent_share_no_beginning_in_tools_or_system_prompt() -> None:
    first, second = (
        conversation[0] for conversation in plan_conversations(WorkloadOptions(kind="agent", nonce="a"), 10)
    )
    assert shared(str(first.messages[0]["content"]), str(second.messages[0]["content"])) < 20
    assert first.tools[0]["function"]["name"] != second.tools[0]["function"]["name"]


def test_warm_conversations_of_an_agent_share_tools_and_system_prompt_but_not_the_question() -> None:
    options = WorkloadOptions(kind="agent", cache="warm", nonce="a")
    first, second = (conversation[0] for conversation in plan_conversations(options, 10, part="4"))
    (sent_before,) = plan_warm_up(options, 1)
    assert first.messages[0] == second.messages[0] == sent_before[0].messages[0]
    assert first.tools == second.tools == sent_before[0].tools
    assert first.messages[1] != second.messages[1]
    assert first.seen


@pytest.mark.parametrize(("context", "most"), [(8192, 5000), (16384, 9900), (131072, 12000), (None, 12000)])
def test_the_prefix_of_an_agent_leaves_room_in_the_context(context: int | None, most: int) -> None:
    fitted = WorkloadOptions(kind="agent").fitted(context)
    assert 256 <= fitted.prefix_tokens <= most
    longest = asks(plan_conversations(fitted, 5))[-1]
    if context:
        assert len(text(longest).split()) < context


def test_tools_are_in_the_prompt_and_the_answer_is_text() -> None:
    body = json.loads(plan_conversations(WorkloadOptions(kind="agent"), 1)[0][0].body("m", ignore_eos=True))
    assert body["tools"]
    assert body["tool_choice"] == "none"
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert body["ignore_eos"] is True
    plain = json.loads(plan_conversations(WorkloadOptions(), 1)[0][0].body("m"))
    assert not {"tools", "tool_choice", "ignore_eos"} & set(plain)


def test_arrivals_keep_the_rate_on_average_and_the_same_times_for_a_seed() -> None:
    due = plan_arrivals(2000, 50.0, 1)
    assert due[0] == 0.0
    assert list(due) == sorted(due)
    assert due[-1] == pytest.approx(40.0, rel=0.1)
    assert due == plan_arrivals(2000, 50.0, 1)
    assert due != plan_arrivals(2000, 50.0, 2)


def test_prompts_of_a_text_file_are_its_lines() -> None:
    prompts = parse_prompts("one\n\n  two \n", lines_of_json=False)
    assert [prompt.messages[0]["content"] for prompt in prompts] == ["one", "two"]


@pytest.mark.parametrize(
    ("line", "prompt"),
    [
        pytest.param('"hi"', Prompt(({"role": "user", "content": "hi"},)), id="text"),
        pytest.param(
            '{"prompt": "hi", "output_tokens": 9}', Prompt(({"role": "user", "content": "hi"},), 9), id="vllm"
        ),
        pytest.param(
            '{"messages": [{"role": "system", "content": "s"}], "max_tokens": 3, "tools": [{"type": "function"}]}',
            Prompt(({"role": "system", "content": "s"},), 3, ({"type": "function"},)),
            id="messages",
        ),
    ],
)
def test_prompts_of_json_lines(line: str, prompt: Prompt) -> None:
    assert parse_prompts(f"{line}\n", lines_of_json=True) == (prompt,)


@pytest.mark.parametrize("line", ["{", "5", "{}", '{"messages": []}', '{"messages": ["hi"]}', '""'])
def test_a_json_line_that_is_no_prompt_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=r"^2$"):
        parse_prompts(f'"fine"\n{line}\n', lines_of_json=True)


def test_the_ids_of_tool_calls_are_letters_and_digits_also_at_a_rate() -> None:
    options = WorkloadOptions(kind="agent", prefix_tokens=300, seed=-1)
    (conversation,) = plan_conversations(options, 3, part="0.5x1")
    ids = [message["tool_call_id"] for message in conversation[-1].messages if message["role"] == "tool"]
    assert len(set(ids)) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9_]+", one) for one in ids)
