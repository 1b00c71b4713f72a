"""A key as it was typed or pasted, and as it has to be sent."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wizard.i18n import t
from wizard.problems import usage_error
from wizard.secret import Secret

_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff\u00a0]")


@dataclass(frozen=True, slots=True)
class CleanKey:
    """The key, and what was taken off it, for people."""

    key: Secret | None
    removed: tuple[str, ...]


def clean_key(text: str) -> CleanKey:
    """Without blanks, line ends, quotes, a `Bearer` in front and `NAME=`; each makes servers answer 401."""
    removed: list[str] = []
    value = text
    for what, pattern, replacement in (
        (t("invisible characters"), _INVISIBLE, ""),
        (t("blanks or line ends around it"), re.compile(r"\A\s+|\s+\Z"), ""),
        (t("a variable name in front"), re.compile(r"\A(?:export\s+|set\s+|\$env:)?[A-Z][A-Z0-9_]*\s*=\s*"), ""),
        (t("quotes"), re.compile(r"\A([\"'`“”‘’]+)(.*?)[\"'`“”‘’]+\Z", re.DOTALL), r"\2"),
        (t("`Bearer` in front"), re.compile(r"(?i)\A(?:authorization\s*:\s*)?bearer\s+"), ""),
        (t("line ends inside"), re.compile(r"[\r\n\t]+"), ""),
        (t("blanks or line ends around it"), re.compile(r"\A\s+|\s+\Z"), ""),
    ):
        cleaned = pattern.sub(replacement, value)
        if cleaned != value and what not in removed:
            removed.append(what)
        value = cleaned
    return CleanKey(Secret(value) if value else None, tuple(removed))


def check_key(key: Secret, source: str) -> None:
    """Refuse a key that no header can hold (exit code 2): only ASCII characters pass through every server."""
    if not all(" " <= character <= "~" for character in key.reveal()):
        raise usage_error(
            "key-characters",
            t("The key in `{source}` has characters that no header can hold.", source=source),
            t("Copy it again from where it was made; a key is letters, digits and signs of one line."),
        )
