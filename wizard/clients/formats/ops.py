"""What to change in a document, apart from how its format is written.

A path is a tuple of keys (and, inside lists, indexes). Plans are made on parsed values; each format's engine carries
them out on the text, and the result is parsed again and compared with `overlay`, so that no engine is trusted.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
_ABSENT: Any = object()


class Conflict(Exception):
    """Something else stands where our value has to go: `where` is its dotted path."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where


@dataclass(frozen=True, slots=True)
class Put:
    """Set the value at a path; all of the path but its last step exists. An index equal to the length appends.

    front: insert before the first item of the list instead; the path's last step is 0.
    """

    path: Path
    value: Any
    front: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove the key at a path."""

    path: Path


Op = Put | Drop


def dotted(path: Sequence[str | int]) -> str:
    """For people."""
    return ".".join(str(step) for step in path)


def pointer(text: str) -> tuple[str, ...]:
    """A pointer of a client's spec as keys; the whole document is the empty text."""
    return tuple(text.split(".")) if text else ()


def plan_merge(
    document: Any,
    fragment: Any,
    own: Sequence[str] = (),
    list_keys: Sequence[tuple[str, str]] = (),
    *,
    defaults: Sequence[str] = (),
    list_first: bool = False,
) -> tuple[Op, ...]:
    """The changes that put every leaf of `fragment` into `document` and keep all else.

    At and below a pointer of `own`, what the fragment lacks is removed (`*` in it stands for any item of a list). A
    list named in `list_keys` is merged item by item, identified by the given field; any other list is replaced. What
    stands at a pointer of `defaults` already is kept. list_first: new items come first in their list. Raises Conflict.
    """
    rules = _Rules(
        frozenset(pointer(item) for item in own),
        {pointer(where): field for where, field in list_keys},
        frozenset(pointer(item) for item in defaults),
        list_first,
    )
    return tuple(_merge(document, fragment, (), rules, False))


@dataclass(frozen=True, slots=True)
class _Rules:
    owned: frozenset[tuple[str, ...]]
    lists: Mapping[Path, str]
    defaults: frozenset[Path]
    list_first: bool


def _merge(old: Any, new: Any, at: Path, rules: _Rules, ours: bool) -> Iterator[Op]:
    place = tuple("*" if isinstance(step, int) else step for step in at)
    ours = ours or place in rules.owned
    if isinstance(new, Mapping):
        if not isinstance(old, Mapping):
            raise Conflict(dotted(at))
        for key in old:
            if key not in new and (ours or (*place, key) in rules.owned):
                yield Drop((*at, key))
        for key, value in new.items():
            step = (*at, key)
            if key not in old or (old[key] is None and isinstance(value, Mapping | list)):
                yield Put(step, value)
            elif _same(old[key], value) or step in rules.defaults:
                continue
            elif isinstance(value, Mapping) or (isinstance(value, list) and step in rules.lists):
                yield from _merge(old[key], value, step, rules, ours)
            elif isinstance(old[key], Mapping) and not ours:
                raise Conflict(dotted(step))
            else:
                yield Put(step, value)
        return
    field = rules.lists[at]
    if not isinstance(old, list):
        raise Conflict(dotted(at))
    appended = 0
    for item in new:
        index = next(
            (n for n, there in enumerate(old) if isinstance(there, Mapping) and there.get(field) == item[field]), None
        )
        if index is None and rules.list_first and old:
            yield Put((*at, 0), item, front=True)
        elif index is None:
            yield Put((*at, len(old) + appended), item)
            appended += 1
        elif not _same(old[index], item):
            yield from _merge(old[index], item, (*at, index), rules, False)


def plan_undo(current: Any, original: Any, written: Any) -> tuple[Op, ...]:
    """The changes that take out of `current` what `written` put into `original`, where nobody changed it since."""
    return tuple(_undo(current, original, written, ()))


def _undo(current: Any, original: Any, written: Any, at: Path) -> Iterator[Op]:
    if isinstance(current, list) and isinstance(written, list):
        yield from _undo_list(current, original, written, at)
    if not (isinstance(current, Mapping) and isinstance(written, Mapping)):
        return
    before = original if isinstance(original, Mapping) else {}
    for key, value in written.items():
        if key not in current:
            continue
        was = before.get(key, _ABSENT)
        if was is not _ABSENT and _same(was, value):
            continue
        step = (*at, key)
        if _same(current[key], value):
            yield Drop(step) if was is _ABSENT else Put(step, was)
        elif isinstance(value, Mapping) and isinstance(current[key], Mapping):
            yield from _undo(current[key], None if was is _ABSENT else was, value, step)
        elif isinstance(value, list) and isinstance(current[key], list):
            yield from _undo_list(current[key], was, value, step)
    # What our write removed comes back.
    yield from (Put((*at, key), was) for key, was in before.items() if key not in written and key not in current)


def _undo_list(current: list[Any], was: Any, written: list[Any], at: Path) -> Iterator[Op]:
    """Take out the items that `written` added and nobody changed, and bring back those that it took the place of.

    Items are changed where they stand, then dropped from the last to the first, so that indexes stay right.
    """
    before = was if isinstance(was, list) else []
    ours = [item for item in written if not _holds(before, item)]
    found = [n for n, item in enumerate(current) if _holds(ours, item)]
    if at and found and len(found) == len(current):
        yield Drop(at) if was is _ABSENT else Put(at, was)
        return
    lost = [n for n, item in enumerate(before) if not _holds(written, item) and not _holds(current, item)]
    # A table of ours in the place of a table of theirs is theirs with our values in it: only these are taken out.
    merged = {n: written[n] for n in lost if _replaced_in_place(before, written, n)}
    for n, item in merged.items():
        for index in found:
            if _same(current[index], item):
                yield from _undo(current[index], before[n], item, (*at, index))
    found = [n for n in found if not _holds(list(merged.values()), current[n])]
    lost = [n for n in lost if n not in merged]
    if not lost:
        yield from (Drop((*at, n)) for n in reversed(found))
    elif at and not merged:
        yield Put(at, _brought_back([item for n, item in enumerate(current) if n not in found], before, lost))
    else:
        for place, n in zip(found, lost, strict=False):
            yield Put((*at, place), before[n])
        yield from (Drop((*at, n)) for n in reversed(found[len(lost) :]))
        more = lost[len(found) :]
        yield from (Put((*at, len(current) + k), before[n]) for k, n in enumerate(more))


def _replaced_in_place(before: list[Any], written: list[Any], index: int) -> bool:
    """Whether a list's table gave way to a table of ours that has all its keys."""
    if index >= len(written) or _holds(before, written[index]):
        return False
    old, new = before[index], written[index]
    return isinstance(old, Mapping) and isinstance(new, Mapping) and old.keys() <= new.keys()


def _brought_back(rest: list[Any], before: list[Any], lost: Sequence[int]) -> list[Any]:
    """The list with the lost items in it, each behind the one that it was behind."""
    result = list(rest)
    for n in lost:
        ahead = [k for k, item in enumerate(result) if n and _same(item, before[n - 1])]
        result.insert(ahead[0] + 1 if ahead else 0, before[n])
    return result


def _holds(items: Sequence[Any], item: Any) -> bool:
    return any(_same(item, other) for other in items)


def overlay(document: Any, ops: Sequence[Op]) -> Any:
    """The value that carrying out the changes has to give."""
    result = copy.deepcopy(document)
    for op in ops:
        target = result
        for step in op.path[:-1]:
            target = target[step]
        last = op.path[-1]
        if isinstance(op, Drop):
            del target[last]
        elif isinstance(target, list) and op.front:
            target.insert(0, copy.deepcopy(op.value))
        elif isinstance(target, list) and last == len(target):
            target.append(copy.deepcopy(op.value))
        else:
            target[last] = copy.deepcopy(op.value)
    return result


def _same(a: Any, b: Any) -> bool:
    """Equality that tells True from 1 and 1 from 1.0, as files do."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b)
    return type(a) is type(b) and bool(a == b)


same = _same
