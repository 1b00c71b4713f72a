"""Speculative decoding: `--speculative-config`, as far as memory is concerned."""

from __future__ import annotations

import json
from dataclasses import dataclass

from wizard.i18n import t
from wizard.planning.facts import ModelFacts
from wizard.planning.intent import Intent
from wizard.planning.pins import bad_value

_FLAG = "--speculative-config"
# Methods that propose from the text itself; vLLM 0.32 config/speculative.py.
_WITHOUT_MODEL = ("ngram", "ngram_gpu", "suffix")
_MOST_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Draft:
    """What proposes tokens. tokens: at each step. layers: that keep keys and values beside the model's own. own_head:
    the checkpoint's own prediction head (MTP). warnings: what the plan cannot count.
    """

    tokens: int = 0
    layers: int = 0
    own_head: bool = False
    warnings: tuple[str, ...] = ()


NO_DRAFT = Draft()


def wanted_draft(intent: Intent, facts: ModelFacts) -> Draft:
    """The draft that the pins ask for. Raises a usage error for a configuration that is no JSON object."""
    settings = _settings(intent)
    if not settings:
        return NO_DRAFT
    tokens = settings.get("num_speculative_tokens", 0)
    if isinstance(tokens, str) and tokens.isdigit():
        tokens = int(tokens)
    if not isinstance(tokens, int) or isinstance(tokens, bool) or not 0 <= tokens <= _MOST_TOKENS:
        raise bad_value(_FLAG, json.dumps(settings), t("`num_speculative_tokens` from 1 to {most}", most=_MOST_TOKENS))
    method = str(settings.get("method") or "").lower()
    named = str(settings.get("model") or "")
    if not method:
        # config/speculative.py infers it from the draft's name.
        method = next(
            (word for word in ("eagle3", "eagle", "dflash", "medusa") if word in named.lower()), "draft_model"
        )
    tokens = tokens or max(1, facts.mtp_layers)
    if method in _WITHOUT_MODEL:
        return Draft(tokens)
    if "mtp" in method:
        return Draft(tokens, max(1, facts.mtp_layers), own_head=True)
    if method.startswith("eagle"):
        guess = t("The draft's size is computed from the model's shape, not read from its files.")
        return Draft(tokens, 1, warnings=(guess,))
    left_out = t("The memory of the draft model `{name}` is not counted.", name=named[:120] or method)
    return Draft(tokens, warnings=(left_out,))


def _settings(intent: Intent) -> dict[str, object]:
    """The pinned object, with dotted pins (`--speculative-config.method=mtp`) over it."""
    settings: dict[str, object] = {}
    text = intent.pinned(_FLAG)
    if text is not None:
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise bad_value(_FLAG, text, t("a JSON object"))
        settings |= value
    prefix = f"{_FLAG}."
    settings |= {
        pin.flag[len(prefix) :].replace("-", "_"): pin.value for pin in intent.pins if pin.flag.startswith(prefix)
    }
    return settings
