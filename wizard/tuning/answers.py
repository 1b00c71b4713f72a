"""Whether a setting changed what the model says: greedy answers to fixed prompts, token by token.

Settings move the order in which numbers are added, and with bfloat16 that tips the scale where two tokens are almost
equally likely. So a first difference counts only where the reference was sure of its token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

# Log-probability by which the reference's token must lead. bfloat16 has 8 bits: near a logit of 20, one step is 0.125.
TIE_NATS = 0.5

QUESTIONS = (
    "List the first ten prime numbers, separated by commas.",
    "Write a Python function that reverses a string. Only code.",
    "Translate to French: The server answers every request.",
    "用一句话说明什么是缓存。",
)
MAX_TOKENS = 48


@dataclass(frozen=True, slots=True)
class Answer:
    """One greedy answer. leads: by how much each token led the next likeliest, in nats; shorter where not told."""

    tokens: tuple[str, ...]
    leads: tuple[float, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For the record's file."""
        return {"tokens": list(self.tokens), "leads": [round(lead, 4) for lead in self.leads]}


def answer_body(model: str, question: str) -> dict[str, Any]:
    """The extra fields and messages of a chat request that asks it."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 2,
    }


def parse_answer(document: Any) -> Answer | None:
    """The answer in a chat completion, in one piece where no log-probabilities are told; None for no answer."""
    try:
        choice = document["choices"][0]
        content = (choice.get("logprobs") or {}).get("content")
        if isinstance(content, list) and content:
            tokens = tuple(str(entry["token"]) for entry in content)
            return Answer(tokens, tuple(_lead(entry) for entry in content))
        message = choice["message"]
        text = message.get("content") or message.get("reasoning") or message.get("reasoning_content")
        return Answer((str(text),)) if text else None
    except (KeyError, IndexError, TypeError, AttributeError):
        return None


def _lead(entry: dict[str, Any]) -> float:
    likeliest = sorted((float(top["logprob"]) for top in entry.get("top_logprobs") or ()), reverse=True)
    return likeliest[0] - likeliest[1] if len(likeliest) > 1 else 99.0


def parse_answers(value: Any) -> tuple[Answer | None, ...] | None:
    """The reference in a record's file; None where there is none."""
    if not isinstance(value, list):
        return None
    return tuple(
        None if row is None else Answer(tuple(row["tokens"]), tuple(float(lead) for lead in row["leads"]))
        for row in value
    )


def render_answers(answers: Sequence[Answer | None]) -> list[dict[str, Any] | None]:
    """For the record's file."""
    return [None if answer is None else answer.as_json() for answer in answers]


Verdict = Literal["same", "tie", "different"]


def compare_answer(reference: Answer, other: Answer) -> Verdict:
    """ "same" token by token; "tie" where they part at a token that the reference itself was not sure of."""
    for at, (ours, theirs) in enumerate(zip(reference.tokens, other.tokens, strict=False)):
        if ours != theirs:
            return "tie" if at < len(reference.leads) and reference.leads[at] < TIE_NATS else "different"
    if len(reference.tokens) == len(other.tokens):
        return "same"
    # One stopped where the other went on: the longer one's next token against the end token.
    at = min(len(reference.tokens), len(other.tokens))
    longer = reference if len(reference.tokens) > at else other
    return "tie" if at < len(longer.leads) and longer.leads[at] < TIE_NATS else "different"


def steady(first: Sequence[Answer | None], again: Sequence[Answer | None]) -> tuple[Answer | None, ...]:
    """The reference: what a server says twice. A prompt that it answers differently itself judges nobody."""
    return tuple(
        one if one is not None and other is not None and compare_answer(one, other) != "different" else None
        for one, other in zip(first, again, strict=True)
    )


def differing(reference: Sequence[Answer | None], others: Sequence[Answer | None]) -> tuple[str, ...] | None:
    """The questions whose answers differ; None where there is nothing to compare."""
    judged = [
        (question, compare_answer(ours, theirs))
        for question, ours, theirs in zip(QUESTIONS, reference, others, strict=True)
        if ours is not None and theirs is not None
    ]
    if not judged:
        return None
    return tuple(question for question, verdict in judged if verdict == "different")
