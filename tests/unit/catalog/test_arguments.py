"""One reader of a command line's flags."""

import pytest

from wizard.catalog.arguments import argument_pairs, flag_value


@pytest.mark.parametrize(
    ("words", "pairs"),
    [
        (("--a", "1", "--b"), (("--a", "1"), ("--b", None))),
        (("--a=1", "--b=x=y"), (("--a", "1"), ("--b", "x=y"))),
        (("--a", "-1"), (("--a", "-1"),)),
        (("--a", "one", "two", "--b"), (("--a", "one"), ("--b", None))),
        (("--a 1",), (("--a", "1"),)),
        (('--a {"k": "x=y"}',), (("--a", '{"k": "x=y"}'),)),
        (('--a={"k": 1}',), (("--a", '{"k": 1}'),)),
        (("--a=",), (("--a", ""),)),
        (("stray", "--a"), (("--a", None),)),
        ((), ()),
    ],
)
def test_words_become_flags_with_values(words: tuple[str, ...], pairs: tuple[tuple[str, str | None], ...]) -> None:
    assert argument_pairs(words) == pairs


def test_the_last_value_of_a_flag_counts_in_either_spelling() -> None:
    words = ("--max-model-len", "1", "--max_model_len=2", "--tail")
    assert flag_value(words, "--max-model-len") == "2"
    assert flag_value(words, "--max_model_len") == "2"
    assert flag_value(words, "--tail") is None
    assert flag_value(words, "--model") is None
