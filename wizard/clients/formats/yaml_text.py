"""YAML: edit only the spans that change.

ruamel's composer says where nodes begin and end; the text is cut and joined there. Anchors, comments, quoting and
layout of the rest stay as they are, byte for byte. Values of ours are written in block style with strings quoted
wherever YAML 1.1 or 1.2 could read them as something else.
"""

from __future__ import annotations

import datetime
import json
import re
import warnings
from collections.abc import Sequence
from typing import Any

from wizard.clients.formats.ops import Conflict, Drop, Op, Path, dotted

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*")
_RESERVED = re.compile(r"(?i)(y|n|yes|no|on|off|true|false|null|none|nan|inf)")


def parse_yaml(text: str) -> Any:
    """The value of the only document; an empty one is an empty mapping. Raises ValueError."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    _check_shape(text)
    reader = YAML(typ="safe", pure=True)
    reader.allow_duplicate_keys = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a reused anchor is the user's business, not news on the screen
            documents = list(reader.load_all(text))
    except (YAMLError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if len(documents) > 1:
        raise ValueError("several documents in one file")
    return {} if not documents or documents[0] is None else documents[0]


class Pathological(ValueError):
    """It is YAML, and reading it takes minutes, gigabytes or for ever."""


_DEEPEST = 100
_MOST_NODES = 200_000
_NEEDS_A_LOOK = re.compile(r"\*|(?m:^ {100})|(?:[-?] ){50}|(?s:(?:[\[{].*?){100})")


def _check_shape(text: str) -> None:
    """Raise Pathological for nesting that no person writes, an alias inside its own anchor, and aliases that multiply.

    Looks at the stream of events, which is as long as the text, so that nothing is ever built of it.
    """
    if not _NEEDS_A_LOOK.search(text):
        return
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, ScalarEvent

    sizes: dict[str, int] = {}  # of what each anchor stands for, in nodes with aliases followed
    open_nodes: list[tuple[str | None, int]] = []
    total = 0
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            if isinstance(event, AliasEvent):
                if any(anchor == event.anchor for anchor, _ in open_nodes):
                    raise Pathological("an alias stands inside what it stands for")
                total += sizes.get(event.anchor, 1)
            elif isinstance(event, ScalarEvent):
                total += 1
                if event.anchor:
                    sizes[event.anchor] = 1
            elif isinstance(event, CollectionStartEvent):
                open_nodes.append((event.anchor, total))
                total += 1
            elif isinstance(event, CollectionEndEvent):
                anchor, before = open_nodes.pop()
                if anchor:
                    sizes[anchor] = total - before
            if len(open_nodes) > _DEEPEST:
                raise Pathological(f"more than {_DEEPEST} levels")
            if total > _MOST_NODES:
                raise Pathological(f"more than {_MOST_NODES} values")
    except YAMLError:
        return  # the reader says it better


def _compose(text: str) -> Any:
    from ruamel.yaml import YAML

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return YAML(typ="rt", pure=True).compose(text)


def render_scalar(value: Any) -> str:
    """A scalar, or anything else in flow style."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and not _RESERVED.fullmatch(value):
        return value
    return render_flow(value)


def render_flow(value: Any) -> str:
    """A value in flow style, which is JSON but for dates."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{render_flow(str(key))}: {render_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(render_flow, value)) + "]"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\x7f").replace("\u0085", "\\N")
    return json.dumps(value)


def _block(value: Any, indent: str) -> list[str]:
    """Lines of a value in block style, each with its indentation; scalars give one line."""
    if isinstance(value, dict) and value:
        lines: list[str] = []
        for key, item in value.items():
            lines += _entry(f"{indent}{render_scalar(str(key))}:", item, indent)
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            inner = _block(item, indent + "  ")
            lines += [f"{indent}- {inner[0].lstrip()}", *inner[1:]]
        return lines
    return [indent + render_scalar(value)]


def _entry(head: str, value: Any, indent: str) -> list[str]:
    if isinstance(value, dict | list) and value:
        return [head, *_block(value, indent + "  ")]
    return [f"{head} {render_scalar(value)}"]


def edit_yaml(text: str, ops: Sequence[Op], newline: str) -> str:
    """Carry out the changes, touching nothing else. Raises Conflict where the text has no place for one."""
    for op in ops:
        root = _compose(text)
        if root is None or (_is_scalar(root) and root.value in ("", "~", "null") and not op.path[:-1]):
            text = _append_to_empty(text, op, newline)
            continue
        if isinstance(op, Drop):
            text = _drop(text, root, op.path)
        elif op.front:
            text = _put_first(text, root, op.path, op.value, newline)
        else:
            text = _put(text, root, op.path, op.value, newline)
    return text


def _append_to_empty(text: str, op: Op, newline: str) -> str:
    if isinstance(op, Drop):
        raise Conflict(dotted(op.path))
    lines = (
        _entry(f"{render_scalar(op.path[0])}:", op.value, "") if isinstance(op.path[0], str) else _block([op.value], "")
    )
    head = text + ("" if not text or text.endswith("\n") else newline)
    return head + newline.join(lines) + newline


def _is_mapping(node: Any) -> bool:
    return hasattr(node, "value") and node.id == "mapping"


def _is_list(node: Any) -> bool:
    return hasattr(node, "value") and node.id == "sequence"


def _is_scalar(node: Any) -> bool:
    return node.id == "scalar"  # type: ignore[no-any-return]


def _child(node: Any, step: str | int) -> Any:
    """(key node or None, value node) of a step, or None."""
    if _is_mapping(node):
        return next(((key, value) for key, value in node.value if key.value == str(step)), None)
    if _is_list(node) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    return None


def _is_nothing(node: Any) -> bool:
    """Whether no text at all stands for the null; such a node's marks are those of whatever comes next."""
    return _is_scalar(node) and node.value == "" and not node.style and not node.anchor


def _behind_colon(text: str, key: Any) -> int:
    return text.index(":", key.end_mark.index) + 1


def _end_of(text: str, node: Any) -> int:
    """Where the node's own text ends: block collections end with their last member, not with the gap behind it."""
    if not _is_scalar(node) and not node.flow_style and node.value:
        last = node.value[-1]
        if isinstance(last, tuple):
            return _behind_colon(text, last[0]) if _is_nothing(last[1]) else _end_of(text, last[1])
        return _end_of(text, last)
    start, end = node.start_mark.index, node.end_mark.index
    while end > start and text[end - 1] in " \t\r\n":
        end -= 1
    return int(end)


def _line_end(text: str, at: int) -> int:
    """Behind the rest of the line: blanks and a comment."""
    newline = text.find("\n", at)
    if newline < 0:
        return len(text)
    return newline - 1 if text[newline - 1] == "\r" and newline > at else newline


def _put(text: str, root: Any, path: Path, value: Any, newline: str) -> str:
    node = root
    for step in path[:-1]:
        found = _child(node, step)
        if found is None:
            raise Conflict(dotted(path))
        node = found[1]
    last = path[-1]
    found = _child(node, last)
    if found is not None:
        return _replace(text, node, found[0], found[1], value, newline)
    if node.flow_style:
        return _insert_flow(text, node, last, value)
    if not node.value:
        raise Conflict(dotted(path))
    indent = " " * int(node.start_mark.column)
    if _is_mapping(node):
        lines = _entry(f"{indent}{render_scalar(str(last))}:", value, indent)
    else:
        lines = _block([value], indent)
    block_end = _block_scalar_end(node)
    if block_end is not None and text[block_end - 1] == "\n":
        return text[:block_end] + newline.join(lines) + newline + text[block_end:]
    spot = _line_end(text, _end_of(text, node))
    return text[:spot] + newline + newline.join(lines) + text[spot:]


def _block_scalar_end(node: Any) -> int | None:
    """Where the block scalar ends that the node ends with, None where it ends otherwise. `|+` owns the empty lines
    behind it, so that nothing may go before them."""
    while not _is_scalar(node):
        if node.flow_style or not node.value:
            return None
        node = node.value[-1][1] if _is_mapping(node) else node.value[-1]
    return int(node.end_mark.index) if node.style in ("|", ">") else None


def _put_first(text: str, root: Any, path: Path, value: Any, newline: str) -> str:
    """A new item before the first of a list."""
    node = root
    for step in path[:-1]:
        found = _child(node, step)
        if found is None:
            raise Conflict(dotted(path))
        node = found[1]
    if node.flow_style:
        start = int(node.start_mark.index) + 1
        return text[:start] + render_flow(value) + ", " + text[start:]
    dash = int(node.start_mark.index)
    if text[dash] != "-":
        raise Conflict(dotted(path))
    indent = " " * int(node.start_mark.column)
    spot = text.rfind("\n", 0, dash) + 1
    if text[spot:dash].strip():
        raise Conflict(dotted(path))
    # A comment directly above the first item is about that item, and stays with it.
    while spot and path[:-1]:
        previous = text.rfind("\n", 0, spot - 1) + 1
        if not text[previous:spot].lstrip().startswith("#"):
            break
        spot = previous
    return text[:spot] + newline.join(_block([value], indent)) + newline + text[spot:]


def _insert_flow(text: str, node: Any, step: str | int, value: Any) -> str:
    piece = render_flow(value)
    if _is_mapping(node):
        piece = f"{render_flow(str(step))}: {piece}"
    close = node.end_mark.index - 1
    if not node.value:
        return text[: node.start_mark.index + 1] + piece + text[close:]
    last = node.value[-1]
    end = _end_of(text, last[1] if isinstance(last, tuple) else last)
    return text[:end] + ", " + piece + text[end:]


def _replace(text: str, parent: Any, key: Any, node: Any, value: Any, newline: str) -> str:
    start, end = node.start_mark.index, _end_of(text, node)
    if key is not None and _is_nothing(node):
        start = end = _behind_colon(text, key)
    if parent.flow_style or not isinstance(value, dict | list) or not value:
        if not _is_scalar(node) and not node.flow_style:
            # A block collection gives way to one line behind its key.
            return text[: _after_key(text, key, node)] + " " + render_scalar(value) + text[end:]
        gap = "" if end > start or text[start - 1 : start] in (" ", "\t") else " "
        plain = render_scalar(value) if not parent.flow_style else render_flow(value)
        return text[:start] + gap + plain + text[end:]
    if key is None:
        column = node.start_mark.column
        lines = _block(value, " " * column)
        return text[:start] + lines[0].lstrip() + "".join(newline + line for line in lines[1:]) + text[end:]
    indent = " " * key.start_mark.column
    lines = _block(value, indent + "  ")
    if _is_scalar(node) and end == start:
        spot = _line_end(text, start)
        return text[:spot] + newline + newline.join(lines) + text[spot:]
    return text[: _after_key(text, key, node)] + newline + newline.join(lines) + text[end:]


def _after_key(text: str, key: Any, node: Any) -> int:
    """Behind the colon of a key."""
    if key is None:
        raise Conflict("list item")
    return text.index(":", key.end_mark.index, node.start_mark.index + 1) + 1


def _drop(text: str, root: Any, path: Path) -> str:
    node = root
    for step in path[:-1]:
        found = _child(node, step)
        if found is None:
            return text
        node = found[1]
    found = _child(node, path[-1])
    if found is None:
        return text
    key, value = found
    first = key if key is not None else value
    firsts = [child[0] if isinstance(child, tuple) else child for child in node.value]
    position = next(n for n, child in enumerate(firsts) if child.start_mark.index == first.start_mark.index)
    following = firsts[position + 1].start_mark.index if position + 1 < len(firsts) else None
    begin, finish = (
        first.start_mark.index,
        (_behind_colon(text, key) if key is not None and _is_nothing(value) else _end_of(text, value)),
    )
    if node.flow_style:
        if following is not None:
            return text[:begin] + text[following:]
        if position:
            before = node.value[position - 1]
            begin = _end_of(text, before[1] if isinstance(before, tuple) else before)
        return text[:begin] + text[finish:]
    start = text.rfind("\n", 0, begin) + 1
    if len(node.value) == 1:
        # An empty block collection has no text of its own.
        behind = text[_line_end(text, finish) :]
        if _is_mapping(node):
            return text[:begin] + "{}" + behind
        dash = int(node.start_mark.index)
        # Below a key, a list may begin in the key's own column, and `[]` may not.
        return text[:dash] + (" " if path[:-1] and not text[start:dash].strip() else "") + "[]" + behind
    if _is_mapping(node) and text[start:begin].strip():
        # The first key behind a dash: the second takes its place on the line.
        return text[:begin] + text[following:]
    block_end = _block_scalar_end(value)
    if block_end is not None:
        return text[:start] + text[block_end:]
    end = _line_end(text, finish)
    end = min(len(text), end + (2 if text.startswith("\r\n", end) else 1))
    return text[:start] + text[end:]
