"""A client's data is checked where it comes in, and what is wrong is named."""

from __future__ import annotations

import pytest

from wizard.clients.render import output_tokens
from wizard.clients.spec import ClientSpec, parse_spec
from wizard.clients.versions import in_range, judge_version
from wizard.problems import ProblemError

GOOD = """
name = "x"
title = "X"
docs = "https://example.org"
needs = ["chat"]
protocol = "chat"
minimum_context_tokens = 1
first_request_tokens = 1
[[file]]
template = "x.j2"
target = "~/.x"
format = "toml"
write = "merge"
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(("protocol", "protocoll"), "`protocol` is missing", id="missing"),
        pytest.param(('write = "merge"', 'write = "merge"\nformatt = 1'), "`formatt` is no key of it", id="misspelt"),
        pytest.param(('"toml"', '"tml"'), "`format` is `tml`, not one of: toml", id="no such format"),
        pytest.param(('["chat"]', '["chatt"]'), "`needs` is `chatt`", id="no such capability"),
        pytest.param(("minimum_context_tokens = 1", "minimum_context_tokens = true"), "wrong type", id="type"),
        pytest.param(('name = "x"', 'name = "y"'), "`name` is `y` but the folder is `x`", id="name"),
        pytest.param(("[[file]]", "[[file]"), "Expected", id="no TOML"),
    ],
)
def test_what_is_wrong_is_named(change: tuple[str, str], said: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_spec("x", GOOD.replace(*change, 1))
    assert caught.value.problem.code == "client-template-broken"
    assert said in caught.value.problem.what


def test_the_nearest_key_is_offered() -> None:
    with pytest.raises(ProblemError) as caught:
        parse_spec("x", GOOD + "secrett = true\n")
    assert caught.value.problem.fix is not None
    assert "`secret`" in caught.value.problem.fix.text


@pytest.mark.parametrize(
    ("context", "tokens"),
    [(None, 32_000), (8192, 2048), (32_768, 8192), (65_536, 16_384), (262_144, 32_000), (2048, 1024), (512, 512)],
)
def test_a_reply_takes_a_quarter_of_the_context_at_most(context: int | None, tokens: int) -> None:
    assert output_tokens(context) == tokens


@pytest.mark.parametrize(
    ("version", "versions", "inside"),
    [
        ("0.171.0", ">=0.140", True),
        ("0.99.0", ">=0.140", False),
        ("2", ">=1.5,<2", False),
        ("1.9.9-beta", ">=1.5,<2", True),
        ("3.0", "", True),
    ],
)
def test_versions_compare_by_number(version: str, versions: str, inside: bool) -> None:
    assert in_range(version, versions) is inside


def test_a_client_too_old_for_its_template_is_told_so() -> None:
    spec: ClientSpec = parse_spec("x", 'versions = ">=2.1"\n' + GOOD)
    (problem,) = judge_version(spec, "1.9")
    assert "1.9 is too old" in problem.what
    assert judge_version(spec, "2.10.1") == ()


def test_a_client_too_new_for_its_template_is_told_so_and_not_to_update() -> None:
    spec: ClientSpec = parse_spec("x", 'versions = ">=2.1,<4"\ninstall = "npm install -g x"\n' + GOOD)
    (problem,) = judge_version(spec, "4.0.0")
    assert "4.0.0 is newer" in problem.what
    assert problem.fix is not None
    assert not any(command.startswith("npm") for command in problem.fix.commands)
    assert judge_version(spec, "3.99") == ()
    assert judge_version(spec, "a build of mine") == ()
