"""Prompts: words by a seed, fixed questions, and files of the user's own."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TEXT = """
time year people way day thing man woman life child world school state family student group country problem hand part
place case week company system program question work government number night point home water room mother area money
story fact month lot right study book eye job word business issue side kind head house service friend father power hour
game line end member law car city community name president team minute idea body information back parent face others
level office door health person art war history party result change morning reason research girl guy moment air teacher
"""
_WORDS = _TEXT.split()
# English text in current vocabularies: about four tokens in three words; common words alone are nearer to one.
_TOKENS_A_WORD = 1.05

# Ten rounds of these are the "is it fast" that people run by hand.
FIXED = (
    "Explain in a few paragraphs how a compiler turns source code into a program.",
    "Write a Python function that merges two sorted lists, and explain its cost.",
    "What are the advantages and drawbacks of microservices? Give an example of each.",
    "Describe step by step what happens when a browser opens a web page.",
    "Write a short story about a lighthouse keeper who learns to program.",
    "Compare breadth-first and depth-first search, with code for both.",
    "用几段话解释什么是垃圾回收，以及它的代价。",
    "写一个 Python 函数，读取一个 CSV 文件并按某一列求和，然后解释它。",
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of the user's own. max_tokens None: as the run has it."""

    messages: tuple[Mapping[str, Any], ...]
    max_tokens: int | None = None
    tools: tuple[Mapping[str, Any], ...] = ()


def random_text(chosen: random.Random, tokens: int) -> str:
    """About `tokens` tokens of common words, at least one word."""
    return " ".join(chosen.choice(_WORDS) for _ in range(max(1, round(tokens / _TOKENS_A_WORD))))


def parse_prompts(text: str, *, lines_of_json: bool) -> tuple[Prompt, ...]:
    """A file of prompts: one a line, or JSON lines; empty lines are left out.

    A JSON line is a string, or an object with `prompt` (as `vllm bench serve` reads it) or `messages`, and optionally
    `max_tokens` or `output_tokens`, and `tools`. Raises ValueError with the line's number where it is neither.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines_of_json:
        return tuple(Prompt(_user(line)) for _, line in lines)
    return tuple(_json_prompt(number, line) for number, line in lines)


def _user(text: str) -> tuple[Mapping[str, Any], ...]:
    return ({"role": "user", "content": text},)


def _json_prompt(number: int, line: str) -> Prompt:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"{number}") from None
    if isinstance(value, str) and value:
        return Prompt(_user(value))
    if not isinstance(value, dict):
        raise ValueError(f"{number}")
    most = value.get("max_tokens", value.get("output_tokens"))
    tools = value.get("tools")
    messages = value.get("messages")
    if isinstance(value.get("prompt"), str) and value["prompt"]:
        messages = list(_user(value["prompt"]))
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise ValueError(f"{number}")
    return Prompt(
        tuple(messages),
        most if isinstance(most, int) and most > 0 else None,
        tuple(tools) if isinstance(tools, list) else (),
    )
