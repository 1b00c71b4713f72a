"""JSON and JSON with comments: parse, and edit only the spans that change.

Comments, indentation, trailing commas, spacing and duplicate keys of the rest stay as they are, byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from wizard.clients.formats.ops import Conflict, Drop, Op, Path, Put, dotted

_STRING = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
_COMMENT = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/"
# Atomic: what is inside a comment must not be tried as something else when the rest does not match.
_ANY_GAP = rf"(?>(?:\s+|{_COMMENT})*)"
_GAP = re.compile(_ANY_GAP)
_SKIP = re.compile(rf"{_STRING}|{_COMMENT}|[{{}}\[\]]")
_LITERAL = re.compile(r'[^\s,\]}/"]+')
_STRING_RE = re.compile(_STRING)
_TRAILING = re.compile(rf"{_STRING}|{_COMMENT}|,(?={_ANY_GAP}[\]}}])")
# The usual member of an object, up to the next one: no comment, no escape in its name, a value without members.
_PLAIN_MEMBER = re.compile(rf'"([^"\\\n]*)"\s*:\s*({_STRING}|[\w.+-]+)\s*,(?>\s*)(?!/)')
_REST_OF_LINE = re.compile(r"(?>(?:[ \t]|//[^\r\n]*|/\*(?:[^*\n]|\*(?!/))*\*/)*)")


@dataclass(frozen=True, slots=True)
class Loose:
    """What strict JSON does not allow: the position of the first comment or trailing comma."""

    position: int
    kind: str


def first_loose(text: str, *, comments: bool = True) -> Loose | None:
    """The first comment (where `comments` count) or trailing comma of a text, or None when there is none."""
    for match in _TRAILING.finditer(text):
        if match[0].startswith("/") and comments:
            return Loose(match.start(), "comment")
        if match[0] == ",":
            return Loose(match.start(), "trailing comma")
    return None


def parse_json(text: str, *, comments: bool, trailing_commas: bool | None = None) -> Any:
    """The value of a text; an empty text is an empty object. Raises ValueError.

    comments: allow `//` and `/* */`; trailing_commas: as comments unless given. Positions in errors are the text's.
    """
    if not text.strip():
        return {}
    if comments:
        kept = '"' if trailing_commas in (None, True) else '",'
        text = _TRAILING.sub(lambda m: m[0] if m[0][0] in kept else re.sub(r"[^\n]", " ", m[0]), text)
        if not text.strip():
            return {}
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class _Member(NamedTuple):  # many are made; a frozen dataclass takes three times as long
    key: str | int
    start: int  # of the key, or of the value inside a list
    value: int
    end: int


def _gap(text: str, at: int) -> int:
    match = _GAP.match(text, at)
    return match.end() if match else at


def _value_end(text: str, at: int) -> int:
    char = text[at]
    if char == '"':
        match = _STRING_RE.match(text, at)
        if match is None:
            raise ValueError("unfinished string")
        return match.end()
    if char not in "{[":
        match = _LITERAL.match(text, at)
        if match is None:
            raise ValueError("a value was expected")
        return match.end()
    depth = 0
    for match in _SKIP.finditer(text, at):
        token = match[0]
        if token in "{[":
            depth += 1
        elif token in "}]":
            depth -= 1
            if depth == 0:
                return match.end()
    raise ValueError("unfinished object")


def _members(text: str, at: int) -> Iterator[_Member]:
    """The members of the object or list whose bracket opens at `at`."""
    is_object = text[at] == "{"
    position = _gap(text, at + 1)
    index = 0
    while text[position] not in "}]":
        if is_object and (plain := _PLAIN_MEMBER.match(text, position)):
            yield _Member(plain[1], position, plain.start(2), plain.end(2))
            position = plain.end()
            continue
        start = position
        key: str | int = index
        if is_object:
            position = _value_end(text, position)
            raw = text[start:position]
            key = json.loads(raw) if "\\" in raw else raw[1:-1]
            position = _gap(text, _gap(text, position) + 1)  # past the colon
        value = position
        position = _value_end(text, position)
        yield _Member(key, start, value, position)
        index += 1
        position = _gap(text, position)
        if text[position] == ",":
            position = _gap(text, position + 1)


def _find(text: str, path: Path) -> int:
    """Where the value at a path starts."""
    at = _gap(text, 0)
    for step in path:
        found = [member for member in _members(text, at) if member.key == step]
        if not found:
            raise KeyError(step)
        at = found[-1].value  # a duplicate key: the last one counts
    return at


def _line_indent(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    match = re.match(r"[ \t]*", text[start:at])
    return match[0] if match else ""


def _unit(text: str) -> str:
    """One step of indentation, as the file's first indented line has it."""
    match = re.search(r"[{\[][^\n{\[]*\n([ \t]+)\S", text)
    if match is None:
        return "  "
    outer = _line_indent(text, match.start())
    inner = match[1]
    return inner[len(outer) :] if inner.startswith(outer) and len(inner) > len(outer) else inner or "  "


def render_value(value: Any, unit: str, indent: str, newline: str) -> str:
    """A value over several lines, the first of which goes on after a key."""
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return (newline + indent).join(lines)


def edit_json(text: str, ops: Sequence[Op], newline: str) -> str:
    """Carry out the changes, touching nothing else."""
    if _gap(text, 0) == len(text):
        text = text + ("" if not text or text.endswith("\n") else newline) + "{}" + newline
    unit = _unit(text)
    for op in ops:
        holder = _find(text, op.path[:-1])
        members = list(_members(text, holder))
        there = [] if isinstance(op, Put) and op.front else [m for m in members if m.key == op.path[-1]]
        if isinstance(op, Drop):
            for member in reversed(there):
                text = _drop(text, holder, member)
        elif there:
            member = there[-1]
            multiline = "\n" in text[member.value : member.end] or "\n" in text[holder : member.start]
            indent = _line_indent(text, member.start)
            value = (
                render_value(op.value, unit, indent, newline) if multiline else json.dumps(op.value, ensure_ascii=False)
            )
            text = text[: member.value] + value + text[member.end :]
        elif op.front:
            raise Conflict(dotted(op.path))
        else:
            text = _insert(text, holder, members, op.path[-1], op.value, unit, newline)
    return text


def _insert(text: str, holder: int, members: list[_Member], key: str | int, value: Any, unit: str, newline: str) -> str:
    name = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(key, str) else ""
    if not members:
        base = _line_indent(text, holder)
        close = _value_end(text, holder) - 1
        inner = text[holder + 1 : close]
        indent = base + unit
        piece = newline + indent + name + render_value(value, unit, indent, newline)
        if not inner.strip():
            return text[: holder + 1] + piece + newline + base + text[close:]
        return text[: holder + 1] + piece + (newline + base if "\n" not in inner else "") + text[holder + 1 :]
    last = members[-1]
    after = _gap(text, last.end)
    trailing = text[after] == ","
    if "\n" not in text[holder : members[0].start]:
        flat = name + json.dumps(value, ensure_ascii=False)
        if trailing:
            return text[: after + 1] + " " + flat + "," + text[after + 1 :]
        return text[: last.end] + ", " + flat + text[last.end :]
    indent = _line_indent(text, last.start)
    member = name + render_value(value, unit, indent, newline) + ("," if trailing else "")
    spot = after + 1 if trailing else last.end
    match = _REST_OF_LINE.match(text, spot)
    end_of_line = match.end() if match else spot
    head = text[:spot] if trailing else text[: last.end] + ","
    line_end = re.compile(r"\r?\n").match(text, end_of_line)
    if line_end:
        return head + text[spot : line_end.end()] + indent + member + newline + text[line_end.end() :]
    return head + newline + indent + member + text[spot:]


def _drop(text: str, holder: int, member: _Member) -> str:
    members = list(_members(text, holder))
    position = next(n for n, other in enumerate(members) if other.start == member.start)
    after = _gap(text, member.end)
    if text[after] == ",":
        start, end = member.start, after + 1
    elif position:
        comma = _gap(text, members[position - 1].end)
        text = text[:comma] + text[comma + 1 :]
        start, end = member.start - 1, member.end - 1
    else:
        start, end = member.start, member.end
    line_start = text.rfind("\n", 0, start) + 1
    rest = re.compile(r"[ \t]*(?:\r?\n|$)").match(text, end)
    if rest and rest.end() > end and not text[line_start:start].strip():
        return text[:line_start] + text[rest.end() :]
    if text[end : end + 1] == " ":
        end += 1
    return text[:start].rstrip(" \t") + text[end:] if text[end : end + 1] in "}]" else text[:start] + text[end:]
