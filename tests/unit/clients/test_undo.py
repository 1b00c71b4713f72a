"""Taking our part out of a document, apart from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wizard.clients.formats import take_out
from wizard.clients.formats.ops import Drop, overlay, plan_undo
from wizard.clients.formats.yaml_text import edit_yaml, parse_yaml


@pytest.mark.parametrize(
    ("current", "original", "written", "left"),
    [
        pytest.param({"l": ["c", "d"]}, {"l": ["a", "b"]}, {"l": ["c"]}, {"l": ["a", "b", "d"]}, id="replaced"),
        pytest.param({"l": ["b", "c", "d"]}, {"l": ["b", "a"]}, {"l": ["b", "c"]}, {"l": ["b", "a", "d"]}, id="order"),
        pytest.param({"l": ["c", "d"]}, {"l": ["a"]}, {"l": ["a", "b", "c"]}, {"l": ["d"]}, id="taken-away"),
        pytest.param({"l": ["a", "d"]}, {"l": ["a"]}, {"l": ["a", "c"]}, {"l": ["a", "d"]}, id="ours-is-gone-already"),
        pytest.param({"l": ["a", "c"]}, {"l": ["a"]}, {"l": ["a", "c"]}, {"l": ["a"]}, id="added"),
        pytest.param({"a": {"n": 2}}, {"a": {"k": 1}}, {"a": {"n": 2}}, {"a": {"k": 1}}, id="removed-by-us"),
        pytest.param({"n": 2, "x": 0}, {"k": 1}, {"n": 2}, {"x": 0, "k": 1}, id="removed-by-us-at-the-top"),
        pytest.param(["x", "c"], ["a"], ["c"], ["x", "a"], id="the-document-is-a-list"),
        pytest.param(["x", "c"], None, ["c"], ["x"], id="the-document-was-not-there"),
        pytest.param([], ["a", "b"], ["c"], ["a", "b"], id="all-is-gone"),
        pytest.param(
            {"l": [{"id": 1, "url": "ours", "k": 2}, {"id": 3}]},
            {"l": [{"id": 1, "url": "theirs"}]},
            {"l": [{"id": 1, "url": "ours", "k": 2}]},
            {"l": [{"id": 1, "url": "theirs"}, {"id": 3}]},
            id="a-table-with-our-values",
        ),
    ],
)
def test_undoing_in_lists_brings_back_what_gave_way(current: Any, original: Any, written: Any, left: Any) -> None:
    assert overlay(current, plan_undo(current, original, written)) == left


def test_a_yaml_file_that_is_a_list_loses_our_item_alone() -> None:
    theirs = b"# mine\n- model_id: a\n  model_name: x\n"
    ours = b"- model_id: llm-setup\n  model_name: y\n"
    later = b"- model_id: b  # later\n  model_name: z\n"
    left = take_out(theirs + ours + later, theirs, theirs + ours, "yaml", Path("models.yaml"))
    assert left == theirs + later
    assert take_out(ours + later, None, ours, "yaml", Path("models.yaml")) == later
    assert take_out(b"# a note\n" + ours, None, ours, "yaml", Path("models.yaml")) == b"# a note\n[]\n"


@pytest.mark.parametrize("text", ["l:\n- a\n", "l:\n  - a\n", "k:\n  l:\n  - a\n", "- - a\n", "- a\n", "- k: 1\n"])
def test_the_last_item_of_a_yaml_list_leaves_an_empty_list(text: str) -> None:
    document: Any = parse_yaml(text)
    path: list[str | int] = []
    while isinstance(document, dict | list) and (not path or document != {"k": 1}):
        step: Any = 0 if isinstance(document, list) else next(iter(document))
        path.append(step)
        document = document[step]
    ops = (Drop(tuple(path)),)
    assert parse_yaml(edit_yaml(text, ops, "\n")) == overlay(parse_yaml(text), ops)
