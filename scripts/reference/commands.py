"""Every command and option, read from the application itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator

import click

from wizard import __version__
from wizard.cli import main as cli

Say = Callable[[str], str]

VARIABLES = (
    ("LLM_SETUP_API_KEY", "The key of an endpoint given by `--base-url`, or of a profile that has none of its own."),
    ("LLM_SETUP_PROFILE", "The profile in place of the active one."),
    ("LLM_SETUP_HOME", "One folder for everything of llm-setup's own: see [files written](files.md)."),
    ("LLM_SETUP_LANG", "Language of messages: en, zh_CN."),
    ("LLM_SETUP_PLAIN", "Set: as `--plain` with every command."),
    ("LLM_SETUP_KEYRING", "`off`: keys go into a file of 0600 instead of the system's keyring."),
    ("NO_COLOR", "Set: no colours."),
)
EXITS = (
    ("0", "Fine."),
    ("1", "A problem was found, or something does not work."),
    ("2", "Wrong usage."),
    ("3", "A bug of llm-setup; a log's path is shown."),
    ("130", "Interrupted."),
)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Path (`clients apply`) and command, in the order of `--help`."""
    context = click.Context(cli.group, info_name="llm-setup")
    for name in cli.COMMANDS:
        command = cli.group.get_command(context, name)
        if command is None:
            raise LookupError(name)
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner.name}", inner) for inner in command.commands.values())


def pages(say: Say) -> dict[str, str]:
    """commands.md, and the manual page ../man/llm-setup.1, which a wheel brings along."""
    return {"commands.md": _page(say), "../man/llm-setup.1": _manual()}


def _page(say: Say) -> str:
    parts = [
        f"# {say('Commands')}",
        say(
            "Every command has `--help` (what fits a screen), `--help-all` (every option), `--json` (one document on "
            "stdout, and nothing else there: see [JSON schemas](schemas.md)), `--plain` and `--lang`. Without a "
            "terminal nothing is asked: the missing flag is named."
        ),
    ]
    for path, command in commands():
        parts += _command(path, command, say)
    parts += [
        f"## {say('Variables')}",
        _table(say, ("variable", "meaning"), [(f"`{n}`", say(x)) for n, x in VARIABLES]),
    ]
    parts += [f"## {say('Exit codes')}", _table(say, ("code", "meaning"), [(n, say(x)) for n, x in EXITS])]
    return "\n\n".join(parts)


def _command(path: str, command: click.Command, say: Say) -> Iterator[str]:
    context = click.Context(command, info_name=f"llm-setup {path}")
    yield f"{'##' if ' ' not in path else '###'} llm-setup {path}"
    yield _prose(say(inspect.cleandoc(command.help or "")))
    yield "```text\n" + " ".join([f"llm-setup {path}", *command.collect_usage_pieces(context)]) + "\n```"
    rows = [_option(parameter, say) for parameter in command.params if isinstance(parameter, click.Option)]
    shown = [row for row in rows if row is not None]
    if shown:
        yield _table(say, ("option", "meaning"), shown)
    if command.epilog:
        yield _prose(say(command.epilog))


# The same with every command, and said once.
_SHARED = ("--json", "--plain", "--lang", "--help-all")


def _option(option: click.Option, say: Say) -> tuple[str, str] | None:
    if option.hidden or option.opts[0] in _SHARED:
        return None
    value = ""
    if not option.is_flag and not option.count:
        value = " " + (option.metavar or option.make_metavar(click.Context(click.Command("x"))))
    meaning = say(option.help or "").replace("  [", " [")
    if option.show_default and not option.is_flag and option.default not in (None, ""):
        meaning += f" [{say('default')}: {option.default}]"
    return f"`{', '.join(option.opts)}{value}`", meaning


def _prose(text: str) -> str:
    """A text of the terminal as Markdown: what stands in angle brackets or pipes is no markup."""
    return re.sub(r"(?<!`)<(\w+)>(?!`)", r"`<\1>`", text)


def _table(say: Say, head: tuple[str, ...], rows: list[tuple[str, str]]) -> str:
    lines = [head_row(say, head), "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def head_row(say: Say, names: tuple[str, ...]) -> str:
    """The first line of a table."""
    return f"| {' | '.join(say(name) for name in names)} |"


def _manual() -> str:
    """The same for `man llm-setup`, as groff_man(7) wants it."""
    lines = [
        f'.TH LLM-SETUP 1 "" "llm-setup {__version__}" "llm-setup"',
        ".SH NAME",
        _roff(f"llm-setup - {cli.group.help}"),
        ".SH SYNOPSIS",
        ".B llm-setup",
        r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH DESCRIPTION",
        _roff(
            "Every command has --help (what fits a screen), --help-all (every option), --json (one document on "
            "standard output), --plain and --lang."
        ),
        ".SH COMMANDS",
    ]
    for path, command in commands():
        context = click.Context(command, info_name=f"llm-setup {path}")
        usage = " ".join([f"llm-setup {path}", *command.collect_usage_pieces(context)])
        lines += [f'.SS "{_roff(usage)}"', _roff(inspect.cleandoc(command.help or "").replace("\n\n", "\n.PP\n"))]
        for parameter in command.params:
            row = _option(parameter, str) if isinstance(parameter, click.Option) else None
            if row is not None:
                lines += [".TP", f".B {_roff(row[0].strip('`'))}", _roff(row[1])]
        if command.epilog:
            lines += [".PP", _roff(command.epilog)]
    lines.append(".SH ENVIRONMENT")
    for name, meaning in VARIABLES:
        lines += [".TP", f".B {_roff(name)}", _roff(_without_links(meaning))]
    lines.append(".SH EXIT STATUS")
    for number, meaning in EXITS:
        lines += [".TP", f".B {number}", _roff(meaning)]
    lines += [".SH FILES", "docs/reference/files.md of the project lists every one."]
    return "\n".join(lines)


def _without_links(text: str) -> str:
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


def _roff(text: str) -> str:
    """Text that no macro is made of: backslashes, hyphens, and marks at the beginning of a line."""
    safe = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return re.sub(r"(?m)^(['.])(?!PP$)", r"\\&\1", safe)
