"""Prompts that are the same in every run with the same seed."""

from __future__ import annotations

import random

_TEXT = """
time year people way day man thing woman life child world school state family student group country problem hand part
place case week company system program question work government number night point home water room mother area money
story fact month lot right study book eye job word business issue side kind head house service friend father power hour
game line end member law car city community name president team minute idea body information back parent face others
level office door health person art war history party result change morning reason research girl guy moment air teacher
"""
_WORDS = _TEXT.split()
# English text in current vocabularies: about four tokens in three words; common words alone are nearer to one.
_TOKENS_A_WORD = 1.05


def random_prompt(seed: str, tokens: int) -> str:
    """About `tokens` tokens of common words that ask for a long answer; another seed differs from the first word on,
    so that no prefix cache helps."""
    chosen = random.Random(seed)
    words = " ".join(chosen.choice(_WORDS) for _ in range(max(1, round(tokens / _TOKENS_A_WORD))))
    return f"{words}. Tell a long story with these words."


def cut_prompts(text: str) -> tuple[str, ...]:
    """A file of prompts, one a line; empty lines are left out."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())
