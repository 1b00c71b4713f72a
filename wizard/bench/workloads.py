"""What is asked, in which order: values that are the same for every target and, with the same seed, in every run."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from wizard.bench.prompts import FIXED, Prompt, random_text

WorkloadKind = Literal["random", "fixed", "file", "agent"]
Cache = Literal["cold", "warm"]

# A conversation of the agent workload: its first request and the tool results after it.
AGENT_TURNS = 5
# Codex, Claude Code and their like send 10 to 20 thousand tokens before the user's first word.
AGENT_PREFIX_TOKENS = 12_000
# Of the prefix, tools' schemas; the rest is the system prompt.
_TOOLS_SHARE = 0.4
_TOOLS = 16
_TURN_TOKENS = (150, 900)
# A prefix takes at most this much of the context, so that turns and answers have room.
_MOST_OF_CONTEXT = 0.6


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: the part of a chat-completions body that the workload decides.

    seen: all but the last turn of its prompt was sent before, so a prefix cache can hold it.
    """

    messages: tuple[Mapping[str, Any], ...]
    max_tokens: int
    tools: tuple[Mapping[str, Any], ...] = ()
    seen: bool = False

    def body(self, model: str, *, ignore_eos: bool = False) -> bytes:
        """The whole body, streaming and with usage in the last chunk, as UTF-8 JSON.

        `tool_choice: none`: the tools are in the prompt, the answer is text, whatever parser the server has.
        """
        value: dict[str, Any] = {
            "model": model,
            "messages": list(self.messages),
            "max_tokens": self.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            **({"tools": list(self.tools), "tool_choice": "none"} if self.tools else {}),
            **({"ignore_eos": True} if ignore_eos else {}),
        }
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


Conversation = tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """What to ask. Token counts are (least, most), drawn evenly; about right, as no tokenizer is at hand.

    kind: "random" words; "fixed" questions; the user's own prompts ("file"); "agent": a long stable prefix with tools
    and turns that grow, as coding clients send. cache: "cold" gives every conversation a beginning of its own, "warm"
    sends what was sent before. nonce: a few letters before a prompt, which keep this run's (and target's) apart from
    all that a server may have cached; behind them a seed's words and lengths are always the same.
    """

    kind: WorkloadKind = "random"
    prompt_tokens: tuple[int, int] = (256, 256)
    max_tokens: tuple[int, int] = (128, 128)
    prefix_tokens: int = AGENT_PREFIX_TOKENS
    turns: int = AGENT_TURNS
    prompts: tuple[Prompt, ...] = ()
    cache: Cache = "cold"
    seed: int = 0
    nonce: str = ""
    ignore_eos: bool = False

    def fitted(self, max_model_len: int | None) -> WorkloadOptions:
        """The same with an agent's prefix that leaves room in a context of that many tokens."""
        if self.kind != "agent" or not max_model_len:
            return self
        turns = (self.turns - 1) * (_TURN_TOKENS[1] + 60) + self.max_tokens[1]
        room = max(256, min(round(max_model_len * _MOST_OF_CONTEXT), max_model_len - turns))
        return self if room >= self.prefix_tokens else replace(self, prefix_tokens=room)


def plan_conversations(options: WorkloadOptions, requests: int, *, part: str = "") -> tuple[Conversation, ...]:
    """Conversations with `requests` requests together; only the agent's have more than one.

    part: names a share of a run (a concurrency, the warm-up); another one has other prompts.
    """
    if options.kind == "agent":
        return tuple(_agent_conversations(options, requests, part))
    return tuple(_single(options, number, part) for number in range(requests))


def plan_warm_up(options: WorkloadOptions, requests: int, *, used: int = 0) -> tuple[Conversation, ...]:
    """What is sent before measuring: of a warm run the very beginnings that come again, of a cold one others.

    used: how many requests follow at a load; of a list of prompts, each that they will use is sent.
    """
    if requests < 1:
        return ()
    if options.cache == "cold":
        return plan_conversations(options, requests, part="warm-up")
    return plan_conversations(options, max(requests, min(used, len(_choices(options)))))


def shared_tokens(options: WorkloadOptions) -> int:
    """How many prompt tokens of a request with `seen` had been sent before, about and at least."""
    if options.kind == "agent":
        return options.prefix_tokens
    if options.cache == "cold":
        return 0
    if options.kind == "random":
        return min(options.prompt_tokens)
    # Four characters make a token of English text, one or two of Chinese: this is the least.
    sizes = [sum(len(str(message.get("content", ""))) for message in one.messages) // 4 for one in _choices(options)]
    return min(sizes, default=0)


def plan_arrivals(count: int, rate_per_s: float, seed: int) -> tuple[float, ...]:
    """When each is due, in seconds from the start: a Poisson process of that mean rate, the first at once."""
    chosen = random.Random(f"arrivals-{seed}")
    at, due = 0.0, []
    for _ in range(count):
        due.append(at)
        at += chosen.expovariate(rate_per_s)
    return tuple(due)


def _choices(options: WorkloadOptions) -> Sequence[Prompt]:
    if options.kind == "file":
        return options.prompts
    return tuple(Prompt(({"role": "user", "content": text},)) for text in FIXED) if options.kind == "fixed" else ()


def _drawn(bounds: tuple[int, int], chosen: random.Random) -> int:
    return chosen.randint(min(bounds), max(bounds))


def _single(options: WorkloadOptions, number: int, part: str) -> Conversation:
    warm = options.cache == "warm"
    # A warm run of random words asks one thing again and again; a list of prompts is cached after its first round.
    source = f"{options.seed}" if warm and options.kind == "random" else f"{options.seed}-{part}-{number}"
    chosen = random.Random(source)
    given = _choices(options)
    if given:
        prompt = given[number % len(given)]
        messages = prompt.messages if warm else _marked(prompt.messages, f"{options.nonce}-{source}")
        return (Ask(messages, prompt.max_tokens or _drawn(options.max_tokens, chosen), prompt.tools, seen=warm),)
    words = random_text(chosen, _drawn(options.prompt_tokens, chosen))
    text = f"[{options.nonce}-{source}] {words}. Tell a long story with these words."
    return (Ask(({"role": "user", "content": text},), _drawn(options.max_tokens, chosen), seen=warm),)


def _marked(messages: tuple[Mapping[str, Any], ...], mark: str) -> tuple[Mapping[str, Any], ...]:
    """The messages with a beginning that no cache has seen."""
    first = messages[0]
    if not isinstance(first.get("content"), str):
        return ({"role": "system", "content": f"[{mark}]"}, *messages)
    return ({**first, "content": f"[{mark}] {first['content']}"}, *messages[1:])


def _agent_conversations(options: WorkloadOptions, requests: int, part: str) -> Iterator[Conversation]:
    left, number = requests, 0
    shared = _prefix(options, f"{options.seed}") if options.cache == "warm" else None
    while left > 0:
        turns = min(options.turns, left)
        source = f"{options.seed}-{part}-{number}"
        system, tools = shared or _prefix(options, source)
        yield _agent_turns(options, system, tools, turns, source, seen=shared is not None)
        left -= turns
        number += 1


def _agent_turns(
    options: WorkloadOptions, system: str, tools: tuple[Mapping[str, Any], ...], turns: int, source: str, *, seen: bool
) -> Conversation:
    chosen = random.Random(f"turns-{source}")
    messages: list[Mapping[str, Any]] = [
        {"role": "system", "content": system},
        {"role": "user", "content": f"{random_text(chosen, 60)}. Change the program so, and say what you did."},
    ]
    asks: list[Ask] = []
    for turn in range(turns):
        if turn:
            # The model's own answer would differ between targets; a fixed one keeps prompts, and so the work, the same.
            # Some providers take letters, digits and `_` alone; a rate has a point.
            call = re.sub(r"[^A-Za-z0-9]", "_", f"call_{source}_{turn}")
            name = tools[chosen.randrange(len(tools))]["function"]["name"]
            arguments = json.dumps({"path": f"src/{chosen.randrange(1000)}.py"})
            function = {"name": name, "arguments": arguments}
            messages.append(
                {
                    "role": "assistant",
                    "content": random_text(chosen, 30),
                    "tool_calls": [{"id": call, "type": "function", "function": function}],
                }
            )
            result = random_text(chosen, _drawn(_TURN_TOKENS, chosen))
            messages.append({"role": "tool", "tool_call_id": call, "content": result})
        asks.append(Ask(tuple(messages), _drawn(options.max_tokens, chosen), tools, seen or turn > 0))
    return tuple(asks)


def _prefix(options: WorkloadOptions, source: str) -> tuple[str, tuple[Mapping[str, Any], ...]]:
    """System prompt and tools of about `prefix_tokens` together, unlike those of any other nonce or source from the
    start.

    Templates put either first, so both begin with what only they have.
    """
    chosen = random.Random(f"prefix-{source}")
    mark = f"{random.Random(f'{options.nonce}-{source}').getrandbits(48):012x}"
    in_tools = round(options.prefix_tokens * _TOOLS_SHARE)
    # A schema's JSON costs about 90 tokens besides its description.
    count = max(1, min(_TOOLS, in_tools // 120))
    each = max(8, in_tools // count - 90)
    tools = tuple(
        {
            "type": "function",
            "function": {
                "name": f"{_word(chosen)}_{number}" if number else f"t{mark}",
                "description": random_text(chosen, each),
                "parameters": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string", "description": "Path of the file, from the project's root"},
                        "limit": {"type": "integer", "description": "At most this many lines"},
                    },
                    "required": ["path"],
                },
            },
        }
        for number in range(count)
    )
    system = f"You are a coding agent. {random_text(chosen, max(16, options.prefix_tokens - in_tools))}."
    return f"[{mark}] {system}", tools


def _word(chosen: random.Random) -> str:
    return random_text(chosen, 1)
