"""A call that the model itself wrote wrongly is not the parser's fault."""

import pytest

from wizard.doctor.checks.request import is_broken_call, is_call_as_text


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


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("[get_weather(city='Paris')]", True),
        ("I look. [get_weather(city='Paris')]", True),
        ("```python\nget_weather(city='Paris')\n```", True),
        ("```tool_code\nprint(get_weather(city='Paris'))\n```", True),
        # What a model of 135 million parameters really wrote, in part.
        ("**Available:** fill/get_weather ```python def get_weather(city='Paris'): return 1```", False),
        ("You could use the function get_weather(city) for that.", False),
    ],
)
def test_a_call_in_pythons_words_is_one_where_the_text_begins_with_it(text: str, call: bool) -> None:
    assert is_call_as_text(text) is call
