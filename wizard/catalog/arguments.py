"""Words of a vLLM command line as flags with values: the one reader of `--flag value`, `--flag=value`, `--flag`."""

from __future__ import annotations

from collections.abc import Iterable


def argument_pairs(words: Iterable[str]) -> tuple[tuple[str, str | None], ...]:
    """(flag, value) in order; value None for a bare flag. A recipe's `--flag value` in one word is two.

    Of several values after a flag the first is told.
    """
    pairs: list[tuple[str, str | None]] = []
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if " " in name:
                name, equals, value = word.partition(" ")
            pairs.append((name, value if equals else None))
        elif pairs and pairs[-1][1] is None:
            pairs[-1] = (pairs[-1][0], word)
    return tuple(pairs)


def spelled(flag: str) -> str:
    """A flag's name with `-` between its words; vLLM takes `_` as well."""
    return flag.replace("_", "-")


def flag_value(words: Iterable[str], flag: str) -> str | None:
    """The last value given for a flag; None where it is not given, or given bare."""
    wanted = spelled(flag)
    return next((value for name, value in reversed(argument_pairs(words)) if spelled(name) == wanted), None)
