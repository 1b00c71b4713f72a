"""`--help` of every command fits a screen of 80 by 24, in each language, and has an example."""

import functools
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from wizard.cli import main as cli
from wizard.cli.helping import SCREEN_LINES
from wizard.i18n import t
from wizard.text import display_width

# Run in a process of its own: another language changes click's own words for good.
SCRIPT = """
import json, click, sys
from wizard.cli import main as cli
cli._speak(["--lang", sys.argv[1]])
def shown(path, command):
    context = command.context_class(command, info_name=path, terminal_width=80, help_option_names=["-h", "--help"])
    options = [p.opts for p in command.params if isinstance(p, click.Option) and not p.hidden]
    found = [{"path": path, "help": command.get_help(context), "options": options}]
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        found += shown(f"{path} {inner.name}", inner)
    return found
context = click.Context(cli.group)
rows = shown("llm-setup", cli.group)
for name in cli.COMMANDS:
    rows += shown(f"llm-setup {name}", cli.group.get_command(context, name))
print(json.dumps(rows))
"""


@functools.cache
def every_help(language: str) -> list[dict[str, Any]]:
    """Path, help on 80 columns, and names of options of each command, the group itself first."""
    argv = [sys.executable, "-c", SCRIPT, language]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, env={**os.environ, "COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(rows) > len(cli.COMMANDS)
    return rows


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_help_fits_a_screen_and_ends_with_an_example(language: str) -> None:
    for row in every_help(language):
        lines = row["help"].splitlines()
        assert len(lines) <= SCREEN_LINES, f"{row['path']}: {len(lines)} lines"
        assert max(map(display_width, lines)) <= 80, row["path"]
        assert "llm-setup" in "\n".join(lines[-4:]), f"{row['path']}: no example at the end"


def test_short_help_names_every_option() -> None:
    for row in every_help("en"):
        for names in row["options"]:
            assert any(name in row["help"] for name in names), f"{row['path']}: {names} is nowhere"


def test_an_option_that_help_only_names_is_explained_by_help_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["doctor", "--help-all"])
    assert end.value.code == 0
    whole = capsys.readouterr().out
    assert "Show every check." in whole
    with pytest.raises(SystemExit):
        cli.main(["doctor", "--help"])
    short = capsys.readouterr().out
    assert "Show every check." not in short
    assert "--help-all" in short


def test_every_command_belongs_to_one_family_of_the_first_screen() -> None:
    named = [name for names in cli.FAMILIES for name in names]
    assert len(named) == len(set(named))
    assert set(cli.COMMANDS) <= set(named)


def test_the_whole_list_of_commands_is_in_help_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help-all"])
    shown = " ".join(capsys.readouterr().out.split())
    for name, (_, text) in cli.COMMANDS.items():
        assert f"{name} {t(text)}" in shown
