"""TOML: edit only the spans that change.

A root key goes above the first table (below it would belong to that table); a key of an existing table goes to the end
of that table; a new table goes to the end of the file. Values are parsed by the standard library; this module only
knows where statements begin and end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wizard.clients.formats.ops import Conflict, Drop, Op, Path, Put, dotted

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_KEY_PART = re.compile(r'[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_BLANK = re.compile(r"[ \t]*")
_INNER_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SCALAR = re.compile(r"[^,\]}#\r\n]+")
_STRINGS = (
    ('"""', re.compile(r'"""(?:[^\\]|\\[\s\S])*?"{3,5}(?!")')),
    ("'''", re.compile(r"'''[\s\S]*?'{3,5}(?!')")),
    ('"', re.compile(r'"(?:[^"\\\n]|\\.)*"')),
    ("'", re.compile(r"'[^'\n]*'")),
)


@dataclass(frozen=True, slots=True)
class _Statement:
    """A header or a key with its value. table: path of the table it stands in (a header: its own path)."""

    kind: str  # "table", "array" or "key"
    table: Path
    key: Path
    start: int
    value: int
    end: int  # after the value or the closing bracket
    line_end: int  # after the line end

    @property
    def path(self) -> Path:
        return (*self.table, *self.key)


def parse_key_part(part: str) -> str:
    """A bare or quoted key as text."""
    if part.startswith('"'):
        import tomllib

        return next(iter(tomllib.loads(f"{part} = 0")))
    return part[1:-1] if part.startswith("'") else part


def _key(text: str, at: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while True:
        at = _end(_BLANK, text, at)
        match = _KEY_PART.match(text, at)
        if match is None:
            raise ValueError(f"a key was expected at {at}")
        parts.append(parse_key_part(match[0]))
        at = _end(_BLANK, text, match.end())
        if text[at : at + 1] != ".":
            return tuple(parts), at
        at += 1


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _value_end(text: str, at: int) -> int:
    for quote, pattern in _STRINGS:
        if text.startswith(quote, at):
            match = pattern.match(text, at)
            if match is None:
                raise ValueError("unfinished string")
            return match.end()
    if text[at] == "[":
        at = _end(_INNER_GAP, text, at + 1)
        while text[at] != "]":
            at = _end(_INNER_GAP, text, _value_end(text, at))
            if text[at] == ",":
                at = _end(_INNER_GAP, text, at + 1)
        return at + 1
    if text[at] == "{":
        at = _end(_INNER_GAP, text, at + 1)
        while text[at] != "}":
            _, at = _key(text, at)
            at = _end(_INNER_GAP, text, _value_end(text, _end(_INNER_GAP, text, at + 1)))
            if text[at] == ",":
                at = _end(_INNER_GAP, text, at + 1)
        return at + 1
    match = _SCALAR.match(text, at)
    if match is None:
        raise ValueError("a value was expected")
    return at + len(match[0].rstrip())


def _statements(text: str) -> list[_Statement]:
    found: list[_Statement] = []
    table: Path = ()
    counts: dict[Path, int] = {}
    own: Path
    at = 0
    while at < len(text):
        start = _end(_BLANK, text, at)
        char = text[start : start + 1]
        if char in ("#", "\n", "\r", ""):
            newline = text.find("\n", start)
            at = len(text) if newline < 0 else newline + 1
            continue
        if char == "[":
            double = text.startswith("[[", start)
            key, end = _key(text, start + (2 if double else 1))
            end += 2 if double else 1
            table = _indexed(key, counts)
            if double:
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            kind, value = ("array" if double else "table"), end
            own = ()
        else:
            key, end = _key(text, start)
            value = _end(_BLANK, text, end + 1)
            end = _value_end(text, value)
            kind, own = "key", key
        newline = text.find("\n", end)
        line_end = len(text) if newline < 0 else newline + 1
        found.append(_Statement(kind, table, own, start, value, end, line_end))
        at = line_end
    return found


def _indexed(key: tuple[str, ...], counts: dict[Path, int]) -> Path:
    """The path of a header, with the current index behind each array of tables that it goes through."""
    path: Path = ()
    for position, part in enumerate(key):
        path = (*path, part)
        if path in counts and position < len(key) - 1:
            path = (*path, counts[path])
    return path


def render_key(key: str) -> str:
    """Bare where TOML allows it, else quoted."""
    return key if _BARE.fullmatch(key) else render_string(key)


def render_string(value: str) -> str:
    """A basic string. JSON's escapes are TOML's too; DEL alone is allowed raw in JSON and not here."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def render_value(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return render_string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(render_value(item) for item in value) + "]"
    if isinstance(value, dict):
        inner = ", ".join(f"{render_key(key)} = {render_value(item)}" for key, item in value.items())
        return "{ " + inner + " }" if inner else "{}"
    return str(value)  # dates and times print as TOML writes them


def edit_toml(text: str, ops: Sequence[Op], newline: str) -> str:
    """Carry out the changes, touching nothing else. Raises Conflict where the text has no place for one."""
    for op in ops:
        text = _drop(text, op.path) if isinstance(op, Drop) else _put(text, op, newline)
    return text


def _put(text: str, op: Put, newline: str) -> str:
    path = op.path
    statements = _statements(text)
    exact = next((s for s in statements if s.kind == "key" and s.path == path), None)
    if exact is not None:
        return text[: exact.value] + render_value(op.value) + text[exact.end :]
    inline = next((s for s in statements if s.kind == "key" and path[: len(s.path)] == s.path), None)
    if inline is not None:
        return _put_inline(text, inline.value, path[len(inline.path) :], op.value)
    if any(s.path[: len(path)] == path for s in statements):
        # Something is there as a table, and a plain value is to take its place.
        text = _drop(text, path)
        return _put(text, op, newline)
    if isinstance(op.value, dict) and op.value:
        return _put_table(text, path, op.value, newline)
    return _put_key(text, path, op.value, newline)


def _put_table(text: str, path: Path, value: dict[str, Any], newline: str) -> str:
    """A whole new table: its plain values below one header, its tables below headers of their own."""
    lines: list[str] = []
    _table_lines(path, value, lines)
    head = text
    if head and not head.endswith("\n"):
        head += newline
    if head.strip():
        head += newline
    return head + newline.join(lines) + newline


def _table_lines(path: Path, value: dict[str, Any], lines: list[str]) -> None:
    if any(isinstance(step, int) for step in path):
        raise Conflict(dotted(path))
    plain = {key: item for key, item in value.items() if not (isinstance(item, dict) and item)}
    if plain or not value:
        if lines:
            lines.append("")
        lines.append("[" + ".".join(render_key(str(step)) for step in path) + "]")
        lines += [f"{render_key(key)} = {render_value(item)}" for key, item in plain.items()]
    for key, item in value.items():
        if isinstance(item, dict) and item:
            _table_lines((*path, key), item, lines)


def _put_key(text: str, path: Path, value: Any, newline: str) -> str:
    statements = _statements(text)
    parent, key = path[:-1], path[-1]
    if isinstance(key, int):
        raise Conflict(dotted(path))
    header = next((s for s in reversed(statements) if s.kind in ("table", "array") and s.path == parent), None)
    if header is None and parent:
        sibling = next(
            (
                s
                for s in reversed(statements)
                if s.kind == "key" and len(s.table) < len(parent) < len(s.path) and s.path[: len(parent)] == parent
            ),
            None,
        )
        if sibling is not None:
            # The table exists by dotted keys, so it can have no header; ours is another dotted key beside it.
            relative = path[len(sibling.table) :]
            return _after(
                text,
                sibling,
                f"{'.'.join(render_key(str(step)) for step in relative)} = {render_value(value)}",
                newline,
            )
        return _put_table(text, parent, {key: value}, newline)
    line = f"{render_key(key)} = {render_value(value)}"
    mine = [s for s in statements if s.kind == "key" and s.table == parent]
    if mine:
        return _after(text, mine[-1], line, newline)
    if header is not None:
        return _after(text, header, line, newline)
    first = next((s for s in statements if s.kind != "key"), None)
    if first is None:
        head = text if not text or text.endswith("\n") else text + newline
        return head + line + newline
    # Above the first table, and above the comment that stands directly over it.
    spot = text.rfind("\n", 0, first.start) + 1
    while spot:
        previous = text.rfind("\n", 0, spot - 1) + 1
        if not text[previous:spot].lstrip().startswith("#"):
            break
        spot = previous
    gap = newline if text[spot:].strip() else ""
    return text[:spot] + line + newline + gap + text[spot:]


def _after(text: str, statement: _Statement, line: str, newline: str) -> str:
    line_start = text.rfind("\n", 0, statement.start) + 1
    indent = text[line_start : statement.start] if not text[line_start : statement.start].strip() else ""
    head = text[: statement.line_end]
    if not head.endswith("\n"):
        head += newline
    return head + indent + line + newline + text[statement.line_end :]


def _put_inline(text: str, at: int, path: Path, value: Any) -> str:
    """Set a key inside an inline table (or an element of a list) that starts at `at`."""
    if text[at] != "{" or isinstance(path[0], int):
        raise Conflict(dotted(path))
    spot = _end(_INNER_GAP, text, at + 1)
    last_end = None
    while text[spot] != "}":
        key, spot = _key(text, spot)
        start = _end(_INNER_GAP, text, spot + 1)
        end = _value_end(text, start)
        if key == path:
            return text[:start] + render_value(value) + text[end:]
        if path[: len(key)] == key:
            return _put_inline(text, start, path[len(key) :], value)
        last_end = end
        spot = _end(_INNER_GAP, text, end)
        if text[spot] == ",":
            spot = _end(_INNER_GAP, text, spot + 1)
    line = f"{'.'.join(render_key(str(step)) for step in path)} = {render_value(value)}"
    if last_end is None:
        return text[: at + 1] + " " + line + " " + text[spot:]
    return text[:last_end] + ", " + line + text[last_end:]


def _drop(text: str, path: Path) -> str:
    """Remove every statement at or below a path; with a header go the comments directly behind it on its line."""
    statements = _statements(text)
    for statement in statements:
        if (
            statement.kind == "key"
            and len(statement.path) < len(path)
            and path[: len(statement.path)] == statement.path
        ):
            return _drop_inline(text, statement.value, path[len(statement.path) :])
    for statement in reversed(statements):
        if statement.path[: len(path)] == path:
            line_start = text.rfind("\n", 0, statement.start) + 1
            text = text[:line_start] + text[statement.line_end :]
    return text


def _drop_inline(text: str, at: int, path: Path) -> str:
    if text[at] != "{":
        raise Conflict(dotted(path))
    spot = _end(_INNER_GAP, text, at + 1)
    previous_end = None
    while text[spot] != "}":
        key_start = spot
        key, spot = _key(text, spot)
        start = _end(_INNER_GAP, text, spot + 1)
        end = _value_end(text, start)
        after = _end(_INNER_GAP, text, end)
        comma = text[after] == ","
        if key[: len(path)] == path:
            if comma:
                # Dotted keys can spell one table several times; drop until none is left.
                return _drop_inline(text[:key_start] + text[_end(_INNER_GAP, text, after + 1) :], at, path)
            return text[: previous_end if previous_end is not None else key_start] + text[end:]
        if path[: len(key)] == key:
            return _drop_inline(text, start, path[len(key) :])
        previous_end = end
        spot = _end(_INNER_GAP, text, after + 1) if comma else after
    return text
