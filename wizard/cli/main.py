"""The command line: finds the command's module only when it is called, and turns every end into an exit code."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from wizard import __version__
from wizard.cli.helping import FittedFormatter, fit_help
from wizard.i18n import t, translated
from wizard.problems import ExitCode, Fix, Problem, ProblemError, ReaderGoneError
from wizard.ui.language import ASKED, languages, use_language

# Command -> (module in wizard.cli, one line for --help). A row, so that `--help` imports no command.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("init", "From this machine, or a URL and a key, to a coding agent that answers."),
    "doctor": ("doctor", "Find why it does not work, and say what to type."),
    "hardware": ("hardware", "What is in this machine, and who holds its GPU memory."),
    "plan": ("plan", "The recommended vLLM command line, a reason for each flag, the memory budget."),
    "models": ("models", "Models ranked for this machine and for the intended clients."),
    "serve": ("serve", "Start a vLLM server, attached or detached."),
    "stop": ("stop", "Stop a server that llm-setup started."),
    "status": ("status", "Servers: state, model, load."),
    "logs": ("logs", "Show or follow a server's log."),
    "runtime": ("runtime", "Installed vLLM versions: list, install, use, remove."),
    "clients": ("clients", "List, show, diff, apply, restore and verify client files."),
    "run": ("run", "Start a client on the endpoint with nothing written to disk."),
    "profiles": ("profiles", "Named endpoints."),
    "use": ("use", "Move every applied client to another profile."),
    "env": ("env", "The triple for a shell: bash, zsh, fish, PowerShell, cmd, dotenv."),
    "export": ("export", "Units, compose, Kubernetes, proxies, dashboards, several machines."),
    "uninstall": ("uninstall", "List all that was ever written here; give the client files back."),
    "version": ("version", "Which llm-setup this is, and, only when asked, whether there is a newer one."),
    "completion": ("completion", "What makes Tab complete commands, options and names in your shell."),
    "bench": ("bench", "Time to first token, between tokens, throughput: one endpoint, or several side by side."),
    "tune": ("tune", "A measured search for faster flags: each trial a server of its own."),
    "report": ("report", "One file of machine, server, plan, proof and figures, to share with a team."),
    "watch": ("watch", "Live metrics of servers: load, KV cache, prefix hits, latencies, tokens/s, GPU."),
}

# What `llm-setup --help` shows, so that it fits a screen; `--help-all` shows each command by itself.
FAMILIES: dict[tuple[str, ...], str] = {
    ("init",): "From nothing to an agent, guided.",
    ("doctor",): "Why it does not work; what to type.",
    ("hardware", "models", "plan"): "What is here, and what suits it.",
    ("serve", "stop", "status", "logs", "runtime"): "A vLLM server on this machine.",
    ("clients", "run"): "Client files; a client for once.",
    ("profiles", "use", "env"): "Named endpoints; move all clients.",
    ("bench", "tune", "watch", "report"): "Speed: measure, improve, look at it.",
    ("export", "completion"): "Files to run elsewhere; Tab completion.",
    ("version", "uninstall"): "Is there a newer one; take it all away.",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of a first use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"wizard.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        fit_help(command)
        if ctx.resilient_parsing:  # Tab was pressed
            from wizard.cli.completion import complete_names

            complete_names(command, cmd_name)
        if translated():
            from wizard.cli.words import translate_help

            translate_help(command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As click's, with the nearest names in the error."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from wizard.problems import usage_error

            raise usage_error(
                "unknown-command", t("There is no command `{name}`.", name=args[0]), _nearest(args[0])
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The families of commands, or with `--help-all` each command, from the rows above."""
        rows = [(name, t(text)) for name, (_, text) in COMMANDS.items()]
        if isinstance(formatter, FittedFormatter):
            families = [([name for name in names if name in COMMANDS], text) for names, text in FAMILIES.items()]
            rows = [(", ".join(names), t(text)) for names, text in families if names]
        with formatter.section(t("Commands")):
            formatter.write_dl(rows, col_max=36)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """From the rows above: click's own would import every command at each Tab."""
        from click.shell_completion import CompletionItem

        rows = [CompletionItem(name, help=t(text)) for name, (_, text) in COMMANDS.items()]
        return [row for row in rows if row.value.startswith(incomplete)] + click.Command.shell_complete(
            self, ctx, incomplete
        )


def _nearest(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=2)
    if not near:
        return t("See `{command}`.", command="llm-setup --help")
    return t("Did you mean {names}?", names=t(" or ").join(f"`{each}`" for each in near))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: llm-setup init. And when something does not work: llm-setup doctor.",
)
@click.version_option(__version__, prog_name="llm-setup")
@click.option(
    "--lang",
    metavar="LANG",
    expose_value=False,
    callback=lambda context, _, value: context.meta.__setitem__(ASKED, value),
    help="Language: en, zh_CN (简体中文).  [default: the locale]",
)
def group() -> None:
    """From a bare GPU, or only a URL and a key, to a coding agent that answers."""


fit_help(group)


def main(argv: list[str] | None = None) -> NoReturn:
    """Run a command and exit: 0 fine, 1 a problem, 2 wrong usage, 3 our bug, 130 interrupted."""
    arguments = sys.argv[1:] if argv is None else argv
    as_json = "--json" in arguments
    _prepare_streams()
    _speak(arguments)
    try:
        _check_text(arguments)
        _interrupt_on_termination()
        code = group.main(arguments, prog_name="llm-setup", standalone_mode=False)
    except ProblemError as error:
        _show(error.problem, as_json)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.exceptions.NoArgsIsHelpError as end:
        end.show()
        # Named alone, llm-setup is asked what it can do; a group of commands lacks one.
        sys.exit(ExitCode.USAGE if end.ctx is not None and end.ctx.parent is not None else ExitCode.FINE)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "llm-setup"
        fix = Fix(t("See `{command}`.", command=f"{where} --help"))
        _show(Problem("wrong-usage", error.format_message(), fix=fix), as_json)
        sys.exit(ExitCode.USAGE)
    except (KeyboardInterrupt, click.Abort):
        with contextlib.suppress(OSError):
            sys.stderr.write("\n")
        sys.exit(ExitCode.INTERRUPTED)
    except (ReaderGoneError, BrokenPipeError):
        # The reader (`| head`) has gone; what it wanted it has. Python's own flush at exit must not complain either.
        _give_up_stdout()
        sys.exit(ExitCode.FINE)
    except Exception as error:
        problem = _refused_by_the_system(error) if isinstance(error, OSError) else None
        if problem is not None:
            if isinstance(error, OSError) and not error.filename:
                _give_up_stdout()  # what is full or broken may be where our own output goes
            _show(problem, as_json)
            sys.exit(ExitCode.PROBLEM)
        _bug(error, as_json)
        sys.exit(ExitCode.BUG)
    sys.exit(code or ExitCode.FINE)


def _prepare_streams() -> None:
    """Output that was closed (`>&-`) goes nowhere; what a terminal's encoding has not is shown as `?`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 (as long as the process)
        elif isinstance(stream, io.TextIOWrapper):
            utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
            stream.reconfigure(errors="backslashreplace" if utf8 else "replace")


def _give_up_stdout() -> None:
    """What is still in stdout's buffer goes nowhere, so that Python's flush at exit has nothing to complain of."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_text(arguments: Sequence[str]) -> None:
    """Arguments are text. Bytes that are none in this locale would break whatever they are written into."""
    for word in arguments:
        try:
            word.encode()
        except UnicodeEncodeError:
            shown = word.encode("utf-8", "backslashreplace").decode()
            raise ProblemError(
                Problem("not-text", t("`{word}` has bytes that are no text in UTF-8.", word=shown)), ExitCode.USAGE
            ) from None


def _interrupt_on_termination() -> None:
    """TERM and a closed terminal end a command as Ctrl-C does: what was begun is ended, and nothing is left half."""
    import signal

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # `nohup` asks to be left alone; a handler of somebody else stays.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, interrupt)


def _speak(arguments: Sequence[str]) -> None:
    """Choose the language before anything is said: `--help` and errors of usage come before an option is read."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    given = [word.removeprefix("--lang=") for word in own if word.startswith("--lang=")]
    given += own[own.index("--lang") + 1 :][:1] if "--lang" in own else []
    unknown = use_language(given[0] if given else None, os.environ)
    if unknown:
        known = ", ".join(["en", *languages()])
        sys.stderr.write(f"llm-setup: there are no messages in `{unknown}`; English is used (known: {known})\n")
    if translated():
        from wizard.cli.words import translate_click, translate_help

        translate_click()
        translate_help(group)


def _show(problem: Problem, as_json: bool) -> None:
    from wizard.ui.screen import Screen

    screen = Screen(as_json=as_json)
    if as_json:
        with contextlib.suppress(OSError):
            screen.document({"status": "error", "problems": [problem.as_json()]})
    with contextlib.suppress(OSError):
        screen.problem(problem)


def _refused_by_the_system(error: OSError) -> Problem | None:
    """A full disk or a folder that may not be written: no bug of ours. Flows say it better where they can."""
    import errno

    where = str(error.filename or "")
    saw = (f"{where}: {error.strerror}" if where else str(error),)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Problem(
            "disk-space", t("The disk is full."), saw=saw, fix=Fix(t("Make room, then run the same command again."))
        )
    refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR)
    if where and (refused or _holds_our_folders(where)):
        fix = Fix(t("Give yourself the right to write there, or set LLM_SETUP_HOME to a folder where you may."))
        return Problem("not-writable", t("`{path}` cannot be used.", path=where), saw=saw, fix=fix)
    return None


def _holds_our_folders(path: str) -> bool:
    """Whether it is one of our own folders, or one above them: where such a one cannot be made, the reason is the
    place that was chosen for it (as below /proc), whatever the error's number is."""
    from dataclasses import astuple
    from pathlib import Path

    from wizard.effects.paths import state_paths

    own: list[Path] = list(astuple(state_paths(os.environ)))
    return any(Path(path) in (folder, *folder.parents) for folder in own)


def _bug(error: Exception, as_json: bool) -> None:
    import logging

    from wizard.effects.log import LOGGER_NAME, close_log, open_log
    from wizard.effects.paths import state_paths

    path = open_log(state_paths(dict(os.environ)).logs)
    logging.getLogger(LOGGER_NAME).error("internal error", exc_info=error)
    close_log()
    _show(
        Problem(
            "internal-error",
            t("llm-setup has a bug: {error}", error=f"{type(error).__name__}: {error}"),
            t("This is not your fault, and nothing that was asked for is half done without being said above."),
            fix=Fix(t("Report it with the log {path}; keys are removed from it.", path=path)),
        ),
        as_json,
    )
