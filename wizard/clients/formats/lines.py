"""Formats that are lines: dotenv files, and a marked block of ours inside a shell's start-up file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wizard.clients.formats.ops import Drop, Op

_ASSIGNMENT = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*([^\n]*)")
_SAFE = re.compile(r"[A-Za-z0-9_./:@%+,=-]*")

BLOCK_START = ">>> llm-setup >>>"
BLOCK_END = "<<< llm-setup <<<"


class BrokenBlock(ValueError):
    """The marks of our block do not pair up."""


def parse_dotenv(text: str) -> dict[str, str]:
    """Variables of a dotenv file; the last assignment counts. Lines that are none are left out."""
    found: dict[str, str] = {}
    for line in _lines(text):
        match = _ASSIGNMENT.match(line.rstrip("\r\n"))
        if match:
            found[match[1]] = _unquote(match[2])
    return found


def _lines(text: str) -> list[str]:
    """Lines with their ends. Only a line feed ends one: `splitlines` would cut values at form feeds and U+2028."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _unquote(value: str) -> str:
    value = value.strip()
    if value.startswith("'"):
        end = value.find("'", 1)
        return value[1:end] if end > 0 else value
    if value.startswith('"'):
        match = re.match(r'"((?:[^"\\]|\\.)*)"', value)
        return re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), match[1]) if match else value
    return re.split(r"\s+#", value, maxsplit=1)[0].strip()


def quote_dotenv(value: str) -> str:
    """Bare where every reader agrees, single quotes where there is none inside, else double quotes."""
    if _SAFE.fullmatch(value):
        return value
    if not re.search(r"['\r\n]", value):
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    escaped = escaped.replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def edit_dotenv(text: str, ops: Sequence[Op], newline: str) -> str:
    """Set or remove variables; every assignment of a variable gets the new value, the rest is untouched."""
    for op in ops:
        name = str(op.path[0])
        lines = _lines(text)
        found = False
        for index, line in enumerate(lines):
            body = line.rstrip("\r\n")
            match = _ASSIGNMENT.fullmatch(body)
            if match is None or match[1] != name:
                continue
            found = True
            if isinstance(op, Drop):
                lines[index] = ""
            else:
                lines[index] = body[: match.start(2)] + quote_dotenv(str(op.value)) + line[len(body) :]
        text = "".join(lines)
        if not found and not isinstance(op, Drop):
            head = text + ("" if not text or text.endswith("\n") else newline)
            text = f"{head}{name}={quote_dotenv(str(op.value))}{newline}"
    return text


def put_block(text: str, block: str, newline: str, comment: str = "#") -> str:
    """Our block replaced where it is, else added at the end. Raises BrokenBlock where its marks do not pair up."""
    lines = [f"{comment} {BLOCK_START}", *block.strip("\n").split("\n"), f"{comment} {BLOCK_END}"]
    piece = newline.join(lines) + newline
    span = find_block(text)
    if span is not None:
        return text[: span[0]] + piece + text[span[1] :]
    head = text + ("" if not text or text.endswith("\n") else newline)
    return head + (newline if head.strip() else "") + piece


def find_block(text: str) -> tuple[int, int] | None:
    """Start and end of our block, whole lines; None where there is none. Raises BrokenBlock."""
    starts = [match.start() for match in re.finditer(rf"(?m)^.*{re.escape(BLOCK_START)}", text)]
    ends = [match.end() for match in re.finditer(rf"(?m)^.*{re.escape(BLOCK_END)}[^\n]*\n?", text)]
    if not starts and not ends:
        return None
    if len(starts) != 1 or len(ends) != 1 or ends[0] < starts[0]:
        raise BrokenBlock(f"{len(starts)} start marks, {len(ends)} end marks")
    return starts[0], ends[0]


def take_block(text: str) -> str:
    """The text without our block and the empty line that was put before it."""
    span = find_block(text)
    if span is None:
        return text
    head = text[: span[0]]
    head = re.sub(r"(?<=\n)\r?\n$", "", head)
    return head + text[span[1] :]
