"""A key that does not show itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

# What redaction has to find in free text (a log line, an error body that echoes the key, a diff of a file that escapes
# it): each form of each key, with the hint that stands for it.
_known: dict[str, str] = {}
# No quoting rule writes these differently.
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]*")

# Shapes of keys that were never registered: provider prefixes, bearer headers, and KEY=value lines.
_SHAPES = (
    re.compile(r"(?i)(\bbearer\s+)[^\s\"',;}…]{6,}"),
    re.compile(r"(?i)(\bx-api-key\s*[:=]\s*[\"']?)[^\s\"',;}…]{6,}"),
    re.compile(r"()\b(?:sk|gsk|hf|pk|xai|tvly|ghp|gho|AIza)[-_][A-Za-z0-9][A-Za-z0-9_\-]{9,}"),
    re.compile(r"(://[^/\s:@]+:)[^/\s@]+(?=@)"),
    re.compile(r"()\bAIza[0-9A-Za-z_\-]{20,}"),
    re.compile(r"()\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"),
    re.compile(
        r"(?i)((?:api[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token|id[_-]?token|secret|password)"
        r"[\"']?\s*[:=]\s*[\"']?)(?:\\.|[^\s\"',;}{\[…\\]){6,}"
    ),
)
_MIN_KNOWN_LENGTH = 6


class Secret:
    """A key. `str()` and `repr()` are masked; `reveal()` is the only way to the value.

    Registering on construction lets `redact` remove the value from any text, whatever its shape.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        if len(value.strip()) >= _MIN_KNOWN_LENGTH:
            _known.update(dict.fromkeys(written_forms(value.strip()), self.hint))

    def reveal(self) -> str:
        """The key itself. Only for a header, a client's file or the keyring; never for output."""
        return self._value

    @property
    def hint(self) -> str:
        """Enough to recognise a key, too little to use it: `sk-…a1b2`. Short keys show nothing of themselves."""
        value = self._value.strip()
        if not value:
            return "none"
        if len(value) < 12:
            return "…"
        prefix = re.match(r"[A-Za-z]{2,4}-", value)
        return f"{prefix[0] if prefix else ''}…{value[-4:]}"

    def __repr__(self) -> str:
        return f"Secret({self.hint})"

    def __str__(self) -> str:
        return self.hint

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


def written_forms(value: str) -> tuple[str, ...]:
    """The value as files and programs may write it: as it is, and escaped by JSON, TOML, YAML, shells, URLs."""
    if _PLAIN.fullmatch(value):
        return (value,)
    import json
    from urllib.parse import quote

    slashes = value.replace("\\", "\\\\")
    doubled = slashes.replace('"', '\\"')
    expanded = slashes.replace("$", "\\$").replace("`", "\\`")
    return tuple(
        dict.fromkeys(
            (
                value,
                json.dumps(value, ensure_ascii=False)[1:-1],
                json.dumps(value)[1:-1],
                repr(value)[1:-1],
                doubled,
                doubled.replace("$", "\\$"),
                doubled.replace("$", "\\$").replace("`", "\\`"),
                doubled.replace("$", "$$").replace("%", "%%"),
                expanded,
                expanded.replace("'", "'\\''"),
                slashes,
                slashes.replace("'", "\\'"),
                value.replace("'", "'\\''"),
                value.replace("'", "'\"'\"'"),
                value.replace("'", "''"),
                re.sub("(['\u2018\u2019\u201a\u201b])", r"\1\1", value),
                value.replace("%", "%%"),
                quote(value, safe="", errors="surrogatepass"),
                quote(value, errors="surrogatepass"),
            )
        )
    )


def redact(text: str, extra: Iterable[str] = ()) -> str:
    """`text` without any known key, however it is escaped, and without anything that looks like one."""
    known = {form: Secret(value).hint for value in extra for form in written_forms(value)} | _known
    for form in sorted(known, key=len, reverse=True):
        if len(form) >= _MIN_KNOWN_LENGTH and form in text:
            text = text.replace(form, known[form])
    for shape in _SHAPES:
        text = shape.sub(lambda m: m[1] + "[redacted]", text)
    return text
