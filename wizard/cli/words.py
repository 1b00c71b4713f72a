"""The texts of `--help` and of click's own errors in the user's language; not loaded for English."""

from __future__ import annotations

import inspect
import re
from types import ModuleType

import click
import click.core
import click.decorators
import click.exceptions
import click.formatting
import click.parser
import click.types

from wizard.i18n import t
from wizard.text import wrap

# Texts of click that our commands can show; the others stay English.
CLICK = (
    "Usage:",
    "Options",
    "Positional arguments",
    "Commands",
    "Show this message and exit.",
    "Show the version and exit.",
    "%(prog)s, version %(version)s",
    "default: {default}",
    "required",
    "Missing command.",
    "Missing argument",
    "Missing option",
    "Missing parameter",
    "Invalid value: {message}",
    "Invalid value for {param_hint}: {message}",
    "No such option {name!r}.",
    "Option {name!r} does not take a value.",
    "Option {name!r} requires an argument.",
    "Choose from:\n\t{choices}",
    "{value!r} is not {choice}.",
    "{value!r} is not one of {choices}.",
    "{value!r} is not a valid {number_type}.",
    "{value} is not in the range {range}.",
    "{name} {filename!r} does not exist.",
    "{name} {filename!r} is a file.",
    "{name} {filename!r} is a directory.",
    "{name} {filename!r} is not readable.",
    "{name} {filename!r} is not writable.",
    "Got unexpected extra argument ({args})",
    "Got unexpected extra arguments ({args})",
    "Did you mean {possibility}?",
    "(Did you mean one of: {possibilities}?)",
    "file",
    "directory",
    "path",
)
_MODULES: tuple[ModuleType, ...] = (
    click.core,
    click.decorators,
    click.exceptions,
    click.formatting,
    click.parser,
    click.types,
)


def translate_click() -> None:
    """Let click look its words up in our catalogue.

    It asks gettext's global domain, which follows the environment alone: `--lang` could not reach it, and neither could
    a catalogue of ours without being installed into the system.
    """
    for module in _MODULES:
        if hasattr(module, "_"):
            setattr(module, "_", t)  # noqa: B010
        if hasattr(module, "ngettext"):
            setattr(module, "ngettext", _plural)  # noqa: B010
    setattr(click.formatting, "wrap_text", wrap_text)  # noqa: B010


def _plural(one: str, many: str, count: int) -> str:
    return t(one) if count == 1 else t(many)


def wrap_text(
    text: str,
    width: int = 78,
    initial_indent: str = "",
    subsequent_indent: str = "",
    preserve_paragraphs: bool = False,
) -> str:
    """As click's, by display width and with breaks between Chinese characters."""
    paragraphs = re.split(r"\n\s*\n", text.expandtabs()) if preserve_paragraphs else [text]
    # A line end between two Chinese characters is no blank.
    joined = [re.sub(r"(?<=[^\x00-\xff])\s*\n\s*(?=[^\x00-\xff])", "", paragraph) for paragraph in paragraphs]
    return "\n\n".join("\n".join(wrap(text, width, initial_indent, subsequent_indent)) for text in joined)


def translate_help(command: click.Command) -> None:
    """The command's own texts, and those of its options and commands, translated in place."""
    command.help = t(inspect.cleandoc(command.help)) if command.help else command.help
    command.epilog = t(command.epilog) if command.epilog else command.epilog
    if command.short_help:
        command.short_help = t(command.short_help)
    elif command.help:
        # click shortens by English sentences; a Chinese one would be cut to nothing.
        command.short_help = re.split(r"\n|(?<=。)", command.help)[0].rstrip("。")
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.help:
            parameter.help = t(parameter.help)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            translate_help(inner)
