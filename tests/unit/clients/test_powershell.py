"""What is written for PowerShell is read by its grammar: each value is one string, whatever is in it."""

from collections.abc import Iterator

import pytest
import tree_sitter_powershell
from hypothesis import given
from hypothesis import strategies as st
from tree_sitter import Language, Node, Parser

from wizard.clients.shells import render_shell

PARSER = Parser(Language(tree_sitter_powershell.language()))


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for inner in node.children:
        yield from nodes(inner)


def strings(text: str) -> list[str]:
    """The values of the verbatim strings of a script without an error in it, which are all that it has."""
    root = PARSER.parse(text.encode()).root_node
    assert not root.has_error, text
    found = [node.text.decode() for node in nodes(root) if node.type == "verbatim_string_characters" and node.text]
    assert len([node for node in nodes(root) if node.type == "assignment_expression"]) == len(found)
    return [value.strip()[1:-1].replace("''", "'") for value in found]


@pytest.mark.parametrize(
    "value", ["plain", "two words", "a'b", "'; exit; '", "$(exit)", "`n", '"', "$env:HOME", "中 文"]
)
def test_a_value_is_one_string(value: str) -> None:
    assert strings(render_shell("powershell", [("OPENAI_API_KEY", value), ("OPENAI_MODEL", "m")])) == [value, "m"]


# PowerShell takes typographic quotes for quotes, which the grammar does not know; test_quoting.py has those.
@given(st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters="‘’‚‛"), min_size=1))
def test_any_value_is_one_string(value: str) -> None:
    assert strings(render_shell("powershell", [("OPENAI_API_KEY", value)])) == [value]
