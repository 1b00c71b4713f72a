"""`--set FLAG=VALUE`: flags that the user fixes, read the way vLLM reads them."""

from __future__ import annotations

import re

from wizard.i18n import t
from wizard.planning.intent import Intent, Pin
from wizard.problems import ProblemError, usage_error

_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
AUTO_LENGTH = 0


def parse_pin(text: str) -> Pin:
    """`max-model-len=8192`, `--enforce-eager`, `kv_cache_dtype=fp8` as a Pin; a usage error for others."""
    name, equals, value = text.strip().partition("=")
    flag = name.strip().lstrip("-").replace("_", "-").lower()
    if not re.fullmatch(r"[a-z][a-z0-9.-]*", flag):
        raise usage_error(
            "bad-pin",
            t("`--set {text}` names no flag.", text=text[:80]),
            t("Write `--set FLAG=VALUE`, such as `--set max-model-len=32768`."),
        )
    value = value.strip()
    if equals and not value:
        raise usage_error("bad-pin", t("`--set {text}` has no value after `=`.", text=text[:80]))
    return Pin(f"--{flag}", value if equals else None)


def parse_integer(text: str, flag: str) -> int:
    """`8192`, `32k` (1000s), `32K` (1024s), `0.5M`: as vLLM 0.32 utils/argparse_utils.py `human_readable_int` does."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)", text.strip())
    if match:
        number, unit = match.groups()
        factor = _DECIMAL.get(unit) or _BINARY.get(unit) or 1
        if unit or "." not in number:
            whole = float(number) * factor
            if whole.is_integer() and whole < 2**53:
                return int(whole)
    raise bad_value(flag, text, t("a whole number, such as 8192 or 32k"))


def bad_value(flag: str, value: str, wanted: str) -> ProblemError:
    """The error for a pinned value that vLLM would refuse."""
    return usage_error(
        "bad-flag-value",
        t("`{flag} {value}` is not possible.", flag=flag, value=value[:60]),
        t("vLLM wants {wanted}.", wanted=wanted),
    )


def pinned_integer(intent: Intent, flag: str, *, least: int = 1, most: int = 2**40) -> int | None:
    """A pinned whole number, None where the flag is not pinned."""
    text = intent.pinned(flag)
    if text is None:
        return None
    value = parse_integer(text, flag)
    if not least <= value <= most:
        raise bad_value(flag, text, t("a number from {least} to {most}", least=least, most=most))
    return value


def pinned_length(intent: Intent) -> int | None:
    """`--max-model-len`: tokens, AUTO_LENGTH for `auto` or -1, None where it is not pinned."""
    text = intent.pinned("--max-model-len")
    if text is None:
        return None
    if text.lower() in ("auto", "-1"):
        return AUTO_LENGTH
    value = parse_integer(text, "--max-model-len")
    if value < 1:
        raise bad_value("--max-model-len", text, t("at least one token, or `auto`"))
    return value


def pinned_fraction(intent: Intent, flag: str) -> float | None:
    """A pinned share above 0 and at most 1."""
    text = intent.pinned(flag)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise bad_value(flag, text, t("a share above 0 and at most 1, such as 0.9"))
    return value


def pinned_switch(intent: Intent, flag: str) -> bool | None:
    """Whether a switch is on (`--x`), off (`--no-x`), or not pinned."""
    off = intent.pinned(f"--no-{flag[2:]}")
    on = intent.pinned(flag)
    if off is not None:
        return False
    if on is None:
        return None
    return on.lower() not in ("false", "0")


_KV_DTYPES = (
    "auto", "float16", "bfloat16", "float32", "half", "float", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla",
    "fp8_per_token_head", "int8_per_token_head", "int4_per_token_head", "nvfp4", "nvfp4_ds_mla",
)  # fmt: skip
_DTYPES = ("auto", "bfloat16", "float16", "half", "float32", "float")


def pinned_choice(intent: Intent, flag: str) -> str | None:
    """A pinned dtype, checked against vLLM's choices."""
    text = intent.pinned(flag)
    if text is None:
        return None
    choices = _KV_DTYPES if flag == "--kv-cache-dtype" else _DTYPES
    known = text in choices or (flag == "--kv-cache-dtype" and text.startswith(("turboquant_", "ultraquant_")))
    if not known:
        raise bad_value(flag, text, t("one of {choices}", choices=", ".join(choices)))
    return text
