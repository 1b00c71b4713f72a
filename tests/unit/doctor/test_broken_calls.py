"""A call that the model itself wrote wrongly is not the parser's fault."""

import pytest

from wizard.doctor.checks.request import is_broken_call


@pytest.mark.parametrize(
    ("content", "broken"),
    [
        pytest.param('<tool_call>\n{"name": "ls", "arguments": {"path": "."}}\n</tool_call>', False, id="sound"),
        pytest.param('<tool_call> {"name": "Paris", "arguments": {"lat": 18; "long": 5', True, id="semicolon"),
        pytest.param('<tool_call>{"name": ls}</tool_call>', True, id="bare-word"),
        pytest.param('<tool_call>{"name": "ls", "argum', False, id="cut-in-a-string"),
        pytest.param('<tool_call>{"name": "ls", "arguments": {"a"', False, id="cut-after-a-key"),
        pytest.param('{"name": "ls", "arguments": {}}', False, id="not-marked"),
    ],
)
def test_json_that_does_not_parse_is_the_models_fault(content: str, broken: bool) -> None:
    assert is_broken_call(content) is broken
