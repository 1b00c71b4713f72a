"""A change to one file, as a value: what was there, what will be, and how it looks as a diff without keys."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wizard.secret import Secret, redact, written_forms

Change = Literal["create", "change", "remove", "none"]

_SECRET_NAME = re.compile(r"(?i)(key|token|secret|passw|credential|authorization|bearer)")
_NOT_SECRET = re.compile(
    r"(?i)(max|limit|count|tokens$|keyword|keybind|keymap|key_?env|env_?key|key_?name|^key$|^keys$)"
)
# A name that means a key, and the word behind it: quoted, bare, or both joined as shells do.
_SECRET_LINE = re.compile(
    r"""(?i)(?<![\w.-])(bearer[ ]+|--[\w-]{0,40}(?:key|token|secret|password)[ =]+"""
    r"""|set[ ]+-\w+[ ]+\w{0,80}(?:key|token|secret|password)\w{0,80}[ ]+"""
    r"""|[\w.-]{0,80}?(?:api[_-]?key|token|secret|password|bearer)[\w.-]{0,80}["']?\s{0,9}[:=]\s{0,9})"""
    r"""((?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\\.|[^\s"'\\,;}{\[\]$&])+)"""
)
_HINT = re.compile(r"(?:[A-Za-z]{2,4}-)?…\S{0,4}")


@dataclass(frozen=True, slots=True)
class Edit:
    """One file's change for one client. `before` and `after` are None where there is (or will be) no file.

    private: a key is inside, so nobody else may read it. live: the client itself writes the file while it runs.
    format: how restore takes our part out of a live file. project: the folder of a project's file, None for the user's.
    keys: what the file holds or held as keys, for the diff to leave out, however short they are. same_as: the
    path of a file that sets the same values in another syntax, None where there is none. by_command: the client asks a
    command for the key where it can.
    """

    client: str
    path: Path
    before: bytes | None
    after: bytes | None
    private: bool = False
    live: bool = False
    format: str = "text"
    project: Path | None = None
    keys: tuple[Secret, ...] = ()
    same_as: Path | None = None
    by_command: bool = False

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
        return show_difference(self.before, self.after, str(self.path), context_lines, self.keys)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What undoes the changes of one file.

    original: the bytes before the first change, None where there was no file. written: the bytes after the last one.
    base: `original` with what others changed between two changes of ours, so that `written` without `base` is ours
    alone; as `original` where nobody did, or where their part cannot be told from ours.
    original_mode: permission bits before, None where there was no file. clients: whose changes the file holds.
    folders: folders that had to be made, innermost last; restore removes those left empty. edited_between:
    somebody else changed the file between two changes of ours, so `original` is not all that is lost with it.
    by_command: as in the last edit.
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
    base: bytes | None = None
    project: Path | None = None
    first_applied: str = ""
    last_applied: str = ""
    by_command: bool = False


def mask(text: str, keys: Iterable[Secret] = ()) -> str:
    """The text without keys: the given and the registered ones, key-like shapes, and values behind names such as
    `apiKey`. A given key may be too short for redaction everywhere: it is taken out where it stands alone."""
    for key in keys:
        for form in sorted(written_forms(key.reveal().strip()), key=len, reverse=True):
            if form and form in text:
                text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])", key.hint, text)
    return _SECRET_LINE.sub(lambda m: m[0] if _harmless(m[2].strip("\"'")) else m[1] + _masked(m[2]), redact(text))


def _harmless(value: str) -> bool:
    return (
        bool(_HINT.fullmatch(value))
        or value.isdigit()
        or value.lower() in ("", "true", "false", "null", "none", "[redacted]")
    )


def _masked(value: str) -> str:
    quote = value[0] if value[0] in "\"'" else ""
    return f"{quote}[redacted]{quote}"


def show_difference(
    before: bytes | None, after: bytes | None, name: str, context_lines: int = 2, keys: Sequence[Secret] = ()
) -> str:
    """A unified diff of two versions of a file, keys taken out. Very long lines show only what changes in them."""
    if before == after:
        return ""
    old = (before or b"").decode("utf-8", "replace").splitlines()
    new = (after or b"").decode("utf-8", "replace").splitlines()
    lines = [
        f"--- {'/dev/null' if before is None else name}",
        f"+++ {'/dev/null' if after is None else name}",
    ]
    for group in _groups(old, new, context_lines):
        begin, end = group[0], group[-1]
        lines.append(f"@@ -{_range(begin[1], end[2])} +{_range(begin[3], end[4])} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [" " + _shown(line, line, keys) for line in old[i1:i2]]
                continue
            lines += ["-" + _shown(line, new[j1 + n] if j1 + n < j2 else "", keys) for n, line in enumerate(old[i1:i2])]
            lines += ["+" + _shown(line, old[i1 + n] if i1 + n < i2 else "", keys) for n, line in enumerate(new[j1:j2])]
    return "\n".join(lines)


_LONGEST_LINE = 400
# So much around a change in a very long line is searched for keys, of which a few characters are shown.
_SEARCHED = 4_000
# Beyond this many lines that may differ, finding the shortest difference takes minutes.
_COMPARED_LINES = 4_000

_Opcode = tuple[str, int, int, int, int]


def _groups(old: list[str], new: list[str], context_lines: int) -> Iterator[list[_Opcode]]:
    """The hunks. What is equal at both ends is not compared: edits are local, and a history may have megabytes."""
    start = _common(old, new)
    tail = _common(old[start:][::-1], new[start:][::-1])
    offset, end = max(0, start - context_lines), max(0, tail - context_lines)
    a, b = old[offset : len(old) - end], new[offset : len(new) - end]
    if len(a) + len(b) > _COMPARED_LINES:
        middle = (start, len(old) - tail, start, len(new) - tail)
        last = min(len(old), middle[1] + context_lines)
        yield [
            ("equal", offset, start, offset, start),
            ("replace", *middle),
            ("equal", middle[1], last, middle[3], middle[3] + last - middle[1]),
        ]
        return
    for group in difflib.SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(context_lines):
        yield [(tag, i1 + offset, i2 + offset, j1 + offset, j2 + offset) for tag, i1, i2, j1, j2 in group]


def _range(start: int, stop: int) -> str:
    length = stop - start
    return f"{start + 1 if length else start}" + ("" if length == 1 else f",{length}")


def _common(a: Sequence[Any], b: Sequence[Any]) -> int:
    """How many items are equal from the start. Halves compare as wholes, which costs megabytes nothing."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _shown(line: str, other: str, keys: Sequence[Secret]) -> str:
    """A line without keys; a very long one is cut to where it differs from its counterpart, after keys are out."""
    if len(line) <= _SEARCHED:
        line, other = mask(line, keys), mask(other, keys)
        head = foot = ""
    else:
        start = _common(line, other)
        tail = _common(line[start:][::-1], other[start:][::-1])
        first, last = max(0, start - _SEARCHED), max(start, len(line) - tail) + _SEARCHED
        head, foot = "…" if first else "", "…" if last < len(line) else ""
        line, other = mask(line[first:last], keys), mask(other[first : max(start, len(other) - tail) + _SEARCHED], keys)
    if len(line) <= _LONGEST_LINE:
        return head + line + foot
    start = _common(line, other)
    tail = _common(line[start:][::-1], other[start:][::-1])
    first, last = max(0, start - 40), min(len(line), max(start, len(line) - tail) + 40, start + _LONGEST_LINE)
    return (head or ("…" if first else "")) + line[first:last] + (foot or ("…" if last < len(line) else ""))


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
        and _SECRET_NAME.search(name)
        and not _NOT_SECRET.search(name)
        and not document.startswith(("$", "{", "os.environ/", "no-key"))
    ):
        Secret(document)
