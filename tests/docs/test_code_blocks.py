"""Every code block of README, tutorial, how-to and explanation runs as it stands.

What a block needs that a test has not is said on the page, in a comment above it:

    <!-- test: parse -->        its `llm-setup` lines are checked as the command line checks them, the rest by bash
    <!-- test: real -->         tests/real runs it, or it is the test suite
    <!-- test: ends with 1 -->  it is there to show a failure
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from wizard.cli import main as cli

from .conftest import Desk

ROOT = Path(__file__).parents[2]
SHELLS = ("sh", "bash")
FENCED = re.compile(
    r"^(?:<!-- test: (?P<told>[^\n]*?) -->\n+)?"
    r"(?:```(?P<kind>[\w-]*)\n(?P<code>.*?)^```$|(?P<indented>(?:^    [^\n]*\n)+))",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A piece of code. told: what the page says about testing it; line: where it stands."""

    kind: str
    code: str
    told: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page; in README.md the indented ones, too, which are commands there."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCED.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["code"] is not None:
            found.append(Block(match["kind"], match["code"], match["told"] or "", line))
        elif page.name == "README.md" and page.parent == ROOT:
            found.append(Block("sh", re.sub(r"(?m)^    ", "", match["indented"]), match["told"] or "", line))
    return found


PAGES = sorted(
    page
    for page in [
        ROOT / "README.md",
        *(ROOT / "docs" / "tutorial").glob("*.md"),
        *(ROOT / "docs" / "how-to").glob("*.md"),
        *(ROOT / "docs" / "explanation").glob("*.md"),
    ]
    if not page.stem.endswith(".zh") and blocks(page)
)


def names(page: Path) -> str:
    return page.stem if page.parent != ROOT else "README"


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_the_shell_blocks_of_a_page_run_one_after_the_other(page: Path, request: pytest.FixtureRequest) -> None:
    shell = [block for block in blocks(page) if block.kind in SHELLS]
    told = {block.told for block in shell}
    assert told <= {"", "parse", "real", "ends with 1"}, told
    for block in shell:
        parse(block, page)
    if not told & {"", "ends with 1"}:
        return
    desk: Desk = request.getfixturevalue("desk")
    if page.parent.name == "tutorial":
        request.getfixturevalue("server")
    for block in shell:
        if block.told in ("", "ends with 1"):
            done = desk.type(block.code)
            wanted = 1 if block.told else 0
            assert done.returncode == wanted, f"{page.name}:{block.line}\n{block.code}{done.stdout}{done.stderr}"


def parse(block: Block, page: Path) -> None:
    """The syntax by bash, and the options and arguments of each `llm-setup` by the application, which runs nothing."""
    where = f"{page.name}:{block.line}"
    read = subprocess.run(["bash", "-n", "-c", block.code], capture_output=True, text=True, timeout=20)
    assert read.returncode == 0, f"{where}: {read.stderr}"
    for words in commands(block.code):
        try:
            check(words)
        except click.UsageError as error:
            pytest.fail(f"{where}: `{shlex.join(words)}`: {error.format_message()}", pytrace=False)


def commands(code: str) -> list[list[str]]:
    """The words after each `llm-setup` of a block."""
    found = []
    for line in code.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(
            re.sub(r"\$\(([^)]*)\)", r" ; \1 ; ", line.replace('"$(', "$(").replace(')"', ")")),
            posix=True,
            punctuation_chars=";&|<>",
        )
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set(";&|<>"):
                start = next((n for n, each in enumerate(words) if each.split("/")[-1] == "llm-setup"), None)
                if start is not None and not {"install", "upgrade", "uninstall", "download", "rm"} & set(words[:start]):
                    found.append(words[start + 1 :])
                words = []
            else:
                words.append(word)
    return found


def found(words: list[str]) -> tuple[str, click.Command, list[str]]:
    """The command that the words name, with its name, and the words that are left for it.

    Raises click.UsageError where there is no such command.
    """
    command: click.Command = cli.group
    path = []
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(click.Context(command, info_name="llm-setup"), words[0])
        if inner is None:
            raise click.UsageError(f"there is no `{words[0]}`")
        path.append(words[0])
        command, words = inner, words[1:]
    return " ".join(path), command, words


def check(words: list[str]) -> None:
    """Raise click.UsageError where the application would not take the words."""
    _, command, left = found(words)
    if isinstance(command, click.Group):
        assert left in ([], ["--version"], ["--help"]), words
        return
    try:
        context = command.make_context("llm-setup", list(left))
    except click.exceptions.Exit:
        return
    context.close()


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_the_other_blocks_of_a_page_are_what_they_say(page: Path) -> None:
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.kind == "json":
            json.loads(block.code)
        elif block.kind == "toml":
            tomllib.loads(block.code)
        elif block.kind == "powershell":
            for words in commands(block.code):
                check(words)
        else:
            assert block.kind in (*SHELLS, "text", "ini", "yaml", "nginx"), f"{where}: what is `{block.kind}`?"


# Of every command; where there is no room for them, they are named.
COMMON = {"--yes", "--dry-run", "--json", "--help", "--plain", "--lang"}


def test_help_explains_every_option_that_a_page_uses() -> None:
    """If this fails: add the option to `_USED` of wizard/cli/helping.py; `--help` has to fit a screen all the same."""
    used: dict[str, dict[str, str]] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        named = re.findall(r"`(llm-setup [^`\n'\"]*)`", text)
        for code in [*(block.code for block in blocks(page) if block.kind in (*SHELLS, "powershell")), *named]:
            for words in commands(code):
                path, command, left = found(words)
                own = left[: left.index("--")] if "--" in left else left
                long = {name: option.opts[-1] for option in command.params for name in option.opts}
                for word in own:
                    if (name := word.partition("=")[0]) in long and long[name].startswith("--"):
                        used.setdefault(path, {})[long[name]] = names(page)
    hidden = []
    for path, options in used.items():
        command = found(path.split())[1]
        context = command.context_class(command, info_name=f"llm-setup {path}", terminal_width=80)
        explained = re.findall(r"(?m)^  (?:-\w, )?(--[\w-]+)", command.get_help(context))
        hidden += [f"{path} {name} ({options[name]})" for name in sorted({*options} - {*explained} - COMMON)]
    assert hidden == []
    assert len(used) > 15


def test_what_is_left_to_the_real_tests_is_run_by_them() -> None:
    real = {block.code.strip() for page in PAGES for block in blocks(page) if block.told == "real"}
    first = (ROOT / "tests" / "real" / "first_light.py").read_text(encoding="utf-8")
    start = re.search(r'readme_command\("([^"]+)"\)', first)
    assert start is not None
    others = {code for code in real if not code.startswith(start[1])}
    assert others == {"python3 scripts/check"}
    assert len(real) == 2, "the tutorial's first line is the README's"
