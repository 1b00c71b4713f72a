"""`--help` that fits a screen: options that pages use and the first ones in full, the rest by name; `--help-all` shows
everything."""

from __future__ import annotations

from collections.abc import Iterable

import click

from wizard.i18n import t

# A terminal of 24 lines, less the one for the next prompt.
SCREEN_LINES = 23
# What every command of ours has in common: by name only where nothing else makes room for what pages use.
_COMMON = ("--json", "--yes", "--dry-run", "--help")
# What README, tutorial and how-to pages use, where it is not among a command's first options. A test holds that all is
# shown in full that they use.
_USED: dict[str, tuple[str, ...]] = {
    "bench": ("--cache", "--price"),
    "clients apply": ("--profile", "--context", "--offline"),
    "doctor": (
        *(
            "--base-url",
            "--model",
            "--client-type",
            "--log",
            "--error",
            "--assume",
            "--offline",
            "--cheap",
            "--fix",
            "--watch",
        ),
        *("--trace", "--report"),
    ),
    "export": (
        *("--model", "--gpu", "--gpus", "--output", "--public-name", "--nodes", "--master", "--tensor-parallel"),
        "--install",
    ),
    "init": ("--profile",),
    "plan": ("--for",),
    "profiles add": ("--offline",),
    "serve": ("--name", "--host", "--port", "--detach", "--vllm"),
    "tune": ("--target", "--budget", "--stop-running"),
}

Rows = list[tuple[str, str]]


class FittedFormatter(click.HelpFormatter):
    """Shortens the list of options, from its end, until the whole help fits; never leaves a name out.

    used: options that are shortened last.
    """

    used: tuple[str, ...] = ()
    # Where the options begin and end in the buffer, their rows, and the indent that they have.
    _options: tuple[int, int, Rows, int] | None = None

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """As click's; remembers where options stand."""
        listed = list(rows)
        begin = len(self.buffer)
        super().write_dl(listed, col_max, col_spacing)
        if any(first.startswith("-") for first, _ in listed):
            self._options = (begin, len(self.buffer), listed, self.current_indent)

    def getvalue(self) -> str:
        """The help, of `SCREEN_LINES` lines or fewer where that is possible."""
        full = super().getvalue()
        if self._options is None or full.rstrip("\n").count("\n") < SCREEN_LINES:
            return full
        begin, end, rows, indent = self._options
        before, after = "".join(self.buffer[:begin]), "".join(self.buffer[end:])
        common = [row for row in rows if _name(row).startswith(_COMMON)]
        others = [row for row in rows if row not in common and _name(row) not in self.used]
        shortened = full
        # By name only: more and more of the others from their end, then what all commands have in common.
        hidden = [others[kept:] for kept in range(len(others), -1, -1)]
        for named in (*hidden, *(others + common[: n + 1] for n in range(len(common)))):
            shortened = before + self._short([row for row in rows if row not in named], named, indent) + after
            if shortened.rstrip("\n").count("\n") < SCREEN_LINES:
                break
        return shortened

    def _short(self, shown: Rows, named: Rows, indent: int) -> str:
        inner = click.HelpFormatter(width=self.width)
        inner.current_indent = indent
        inner.write_dl(shown)
        names = ", ".join(_name(row) for row in named)
        # Not write_text(): it breaks a line within `--prompt-tokens`.
        # Only here: the commonest help of all, of no command, needs neither it nor the tables of Unicode.
        from wizard.text import wrap

        lines = wrap(t("More (see `--help-all`): {names}", names=names), self.width, " " * indent, " " * indent)
        return inner.getvalue() + "\n".join(lines) + "\n"


def _name(row: tuple[str, str]) -> str:
    """The long name of an option, without its value: `-f, --follow` is `--follow`."""
    words = row[0].replace(",", " ").split()
    return next((word for word in words if word.startswith("--")), words[0])


class FittedContext(click.Context):
    """Writes help with `FittedFormatter`."""

    formatter_class = FittedFormatter

    def make_formatter(self) -> click.HelpFormatter:
        """One that knows what pages use of this command."""
        formatter = super().make_formatter()
        if isinstance(formatter, FittedFormatter):
            formatter.used = _USED.get(self.command_path.partition(" ")[2], ())
        return formatter


def fit_help(command: click.Command) -> None:
    """Let this command, and those within, show help that fits a screen, and all of it with `--help-all`."""
    command.context_class = FittedContext
    if not any("--help-all" in parameter.opts for parameter in command.params):
        option = click.Option(
            ["--help-all"], is_flag=True, is_eager=True, expose_value=False, hidden=True, callback=_show_all
        )
        command.params.append(option)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            fit_help(inner)


def _show_all(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked:
        return
    formatter = click.HelpFormatter(width=context.terminal_width, max_width=context.max_content_width)
    context.command.format_help(context, formatter)
    click.echo(formatter.getvalue().rstrip("\n"))
    context.exit()
