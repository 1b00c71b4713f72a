"""A change to one file, as a value: what was there, what will be, and how it looks as a diff without keys."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wizard.secret import Secret, redact

Change = Literal["create", "change", "remove", "none"]

_SECRET_NAME = re.compile(r"(?i)(key|token|secret|passw|credential|authorization|bearer)")
_NOT_SECRET = re.compile(
    r"(?i)(max|limit|count|tokens$|keyword|keybind|keymap|key_?env|env_?key|key_?name|^key$|^keys$)"
)
_SECRET_LINE = re.compile(
    r"""(?i)(?<![\w.-])((?:[\w.-]*?(?:api[_-]?key|token|secret|password|bearer)[\w.-]*)["']?\s*[:=]\s*["']?)([^\s"',;}{\[$]{6,})"""
)


@dataclass(frozen=True, slots=True)
class Edit:
    """One file's change for one client. `before` and `after` are None where there is (or will be) no file.

    private: a key is inside, so nobody else may read it. live: the client itself writes the file while it runs.
    format: how restore takes our part out of a live file. project: the folder of a project's file, None for the user's.
    """

    client: str
    path: Path
    before: bytes | None
    after: bytes | None
    private: bool = False
    live: bool = False
    format: str = "text"
    project: Path | None = None

    @property
    def change(self) -> Change:
        """What happens to the file."""
        if self.before == self.after:
            return "none"
        if self.before is None:
            return "create"
        return "remove" if self.after is None else "change"

    def diff(self, context_lines: int = 2) -> str:
        """A unified diff with every key redacted; empty where nothing changes."""
        return show_difference(self.before, self.after, str(self.path), context_lines)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What undoes the changes of one file.

    original: the bytes before the first change, None where there was no file. written: the bytes after the last one.
    original_mode: permission bits before, None where there was no file. clients: whose changes the file holds.
    folders: folders that had to be made, innermost last; restore removes those left empty. edited_between:
    somebody else changed the file between two changes of ours, so `original` is not all that is lost with it.
    """

    path: Path
    original: bytes | None
    original_mode: int | None
    written: bytes | None
    clients: tuple[str, ...]
    live: bool = False
    format: str = "text"
    folders: tuple[Path, ...] = ()
    edited_between: bool = False
    project: Path | None = None
    first_applied: str = ""
    last_applied: str = ""


def mask(text: str) -> str:
    """The text without keys: registered ones, key-like shapes, and values behind names such as `apiKey`."""
    return _SECRET_LINE.sub(lambda m: m[0] if _harmless(m[2]) else m[1] + "[redacted]", redact(text))


def _harmless(value: str) -> bool:
    return "…" in value or value.isdigit() or value.lower() in ("true", "false", "null", "[redacted]")


def show_difference(before: bytes | None, after: bytes | None, name: str, context_lines: int = 2) -> str:
    """A unified diff of two versions of a file, keys redacted. Very long lines show only what changes in them."""
    if before == after:
        return ""
    old = (before or b"").decode("utf-8", "replace").splitlines()
    new = (after or b"").decode("utf-8", "replace").splitlines()
    # Edits are local: what is equal at both ends need not be compared, and a history of megabytes costs nothing.
    start = _common(old, new)
    tail = _common(old[start:][::-1], new[start:][::-1])
    offset = max(0, start - context_lines)
    end = tail - context_lines if tail > context_lines else 0
    lines = list(
        difflib.unified_diff(
            _shortened(old[offset : len(old) - end], new[offset : len(new) - end]),
            _shortened(new[offset : len(new) - end], old[offset : len(old) - end]),
            fromfile="/dev/null" if before is None else name,
            tofile="/dev/null" if after is None else name,
            lineterm="",
            n=context_lines,
        )
    )
    return "\n".join(mask(_HUNK.sub(lambda m: _moved(m, offset), line)) for line in lines)


_HUNK = re.compile(r"^@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@")
_LONGEST_LINE = 400


def _moved(hunk: re.Match[str], offset: int) -> str:
    return f"@@ -{int(hunk[1]) + offset}{hunk[2]} +{int(hunk[3]) + offset}{hunk[4]} @@"


def _common(a: Sequence[Any], b: Sequence[Any]) -> int:
    """How many items are equal from the start."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _shortened(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """Lines that can be shown: a longer one is cut to where it differs from its counterpart."""
    found: list[str] = []
    for number, line in enumerate(lines):
        if len(line) <= _LONGEST_LINE:
            found.append(line)
            continue
        other = others[number] if number < len(others) else ""
        start = _common(line, other)
        tail = _common(line[start:][::-1], other[start:][::-1])
        begin, end = max(0, start - 40), min(len(line), max(start, len(line) - tail) + 40, start + _LONGEST_LINE)
        found.append(("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else ""))
    return found


def register_secrets(document: Any, name: str = "") -> None:
    """Make every string behind a key-like name in a parsed file known to redaction, so that no diff shows it."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            register_secrets(value, str(key))
    elif isinstance(document, list | tuple):
        for item in document:
            register_secrets(item, name)
    elif (
        isinstance(document, str)
        and len(document) >= 6
        and _SECRET_NAME.search(name)
        and not _NOT_SECRET.search(name)
        and not document.startswith(("$", "{", "os.environ/", "no-key"))
    ):
        Secret(document)
