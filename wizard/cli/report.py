"""`llm-setup report`: one file to share with a team."""

from __future__ import annotations

import click

from wizard.cli.app import App, command_options


@click.command("report", epilog="Example: llm-setup report local --measure -o report.html")
@click.argument("name", required=False, default="")
@click.option("--output", "-o", metavar="FILE", help="`-` for stdout.  [default: llm-setup-report.html]")
@click.option("--markdown", is_flag=True, help="Markdown instead of HTML.")
@click.option("--bench", "bench_file", default="", metavar="FILE", help="What `llm-setup bench --json` printed.")
@click.option("--measure", is_flag=True, help="Measure now, briefly.")
@click.option("--offline", is_flag=True, help="Ask no server.")
@command_options(yes=True)
def command(
    app: App, name: str, output: str | None, markdown: bool, bench_file: str, measure: bool, offline: bool
) -> None:
    """One file with machine, server, plan, proof, figures and search, to share with a team.

    NAME is a server or a profile; without one, the running server, else the active profile. The HTML loads nothing
    from anywhere, and keys are left out.
    """
    from wizard.flows.report import ReportOptions, make_report

    make_report(
        app.world, app.screen, ReportOptions(name, output, markdown, bench_file, measure, offline, overwrite=app.yes)
    )
