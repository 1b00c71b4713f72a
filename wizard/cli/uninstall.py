"""`llm-setup uninstall`."""

from __future__ import annotations

import click

from wizard.cli.app import App, command_options
from wizard.i18n import t
from wizard.problems import ExitCode


@click.command(epilog="Example: llm-setup uninstall --dry-run       (only the list)")
@click.option("--keep-changes", is_flag=True, help="Where others changed a file since, take only our part out.")
@command_options(yes=True, dry_run=True)
def command(app: App, keep_changes: bool) -> int:
    """List all that was ever written, give every client file back, forget the keys.

    What is left are folders of llm-setup's own; the commands that remove them are shown, not run.
    """
    from wizard.flows.uninstall import give_back, observe_traces, removal_commands, show_traces

    traces = observe_traces(app.world)
    show_traces(app.screen, traces)
    commands = removal_commands(traces)
    done, left = False, None
    if not app.dry_run:
        from wizard.cli.clients import confirm_of

        left = give_back(app.world, app.screen, traces, yes=app.yes, confirm=confirm_of(app), keep_changes=keep_changes)
        done = left is not None
        # A restore may have kept a version of yours. Without one, the originals are needed where they are.
        commands = removal_commands(observe_traces(app.world)) if done else ()
    if commands:
        app.screen.title(t("The rest"))
    for line in commands:
        app.screen.line(f"  $ {line}")
    if app.screen.as_json:
        app.screen.document(
            {
                "status": "warning" if left else "ok",
                "given_back": done,
                "traces": traces.as_json(),
                "commands": list(commands),
                "problems": [problem.as_json() for problem in left or ()],
            }
        )
    return ExitCode.FINE
