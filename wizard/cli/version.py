"""`llm-setup version`."""

from __future__ import annotations

import click

from wizard.cli.app import App, command_options
from wizard.i18n import t
from wizard.problems import ExitCode


@click.command("version", epilog="Example: llm-setup version --check")
@click.option("--check", is_flag=True, help="Ask the package index, once, whether there is a newer one.")
@command_options()
def command(app: App, check: bool) -> int:
    """Say which llm-setup this is, and where it runs. Nobody is asked without --check.

    With --check: ends with 1 when the index could not say.
    """
    import platform
    import sys

    from wizard import __version__
    from wizard.flows.version import Upgrade, check_upgrade

    upgrade = check_upgrade(app.world) if check else Upgrade("not-asked")
    if app.screen.as_json:
        app.screen.document(
            {
                "status": "unknown" if upgrade.state == "unknown" else "ok",
                "version": __version__,
                "python": platform.python_version(),
                "environment": sys.prefix,
                "upgrade": upgrade.state,
                "newest": upgrade.newest or None,
                "command": upgrade.command or None,
            }
        )
        return ExitCode.PROBLEM if upgrade.state == "unknown" else ExitCode.FINE
    app.screen.line(f"llm-setup {__version__}")
    app.screen.line(t("Python {version}, {environment}", version=platform.python_version(), environment=sys.prefix))
    if upgrade.text:
        app.screen.step("warning" if upgrade.state == "unknown" else "info", upgrade.text)
    if upgrade.command:
        app.screen.line(f"    $ {upgrade.command}")
    return ExitCode.PROBLEM if upgrade.state == "unknown" else ExitCode.FINE
