"""`llm-setup doctor`: find why it does not work."""

from __future__ import annotations

import click

from wizard.cli.app import App, command_options
from wizard.problems import ExitCode


@click.command(
    name="doctor",
    short_help="Find why it does not work, and say what to type.",
    epilog="Example: llm-setup doctor --base-url http://127.0.0.1:8000/v1 --model qwen --client-type codex",
)
@click.option("--base-url", default="", metavar="URL", help="An endpoint, exactly as the client has it.")
@click.option("--model", default="", metavar="ID", help="The model's name that the client sends.")
@click.option(
    "--client-type", default="", metavar="NAME", help="Ask as this client asks: codex, claude-code, cline, ..."
)
@click.option("--api-key-file", default="", metavar="FILE", help="File with the key; else LLM_SETUP_API_KEY.")
@click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="The client's own output limit.")
@click.option("--context", type=click.IntRange(min=1), metavar="N", help="The window that the client believes in.")
@click.option("--client", default="", metavar="NAME", help="Examine this installed client only.")
@click.option("--all", "every", is_flag=True, help="Examine every endpoint that is configured.")
@click.option("--log", default="", metavar="FILE", help="Read a server's log too (`-`: stdin).")
@click.option("--error", default="", metavar="TEXT", help="Explain an error that a client showed (`-`: stdin).")
@click.option("--assume", type=click.Choice(["container", "wsl", "host"]), help="Where the evidence was taken.")
@click.option("--offline", is_flag=True, help="Send nothing; judge files, environment and texts.")
@click.option("--cheap", is_flag=True, help="Send nothing that a model would have to answer.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=1),
    default=20.0,
    metavar="S",
    show_default=True,
    help="Patience with a model's answer.",
)
@click.option("--check", "only", multiple=True, metavar="ID", help="Run only this check; repeatable.")
@click.option("--verbose", "-v", is_flag=True, help="Show every check.")
@click.option("--fix", "mend_it", is_flag=True, help="Mend client files where that is safe: diff, ask, prove, or undo.")
@click.option("--report", "report_file", default="", metavar="FILE", help="Write a report (.md or .html) for an issue.")
@command_options(yes=True, dry_run=True)
def command(
    app: App,
    *,
    verbose: bool,
    context: int | None,
    assume: str | None,
    mend_it: bool,
    report_file: str,
    **values: object,
) -> int:
    """Find why it does not work, from client files, environment, network, endpoint and log together."""
    from typing import Any, cast

    from wizard.flows.doctor import DoctorOptions, run_doctor, show_report, write_report

    options = DoctorOptions(context_tokens=context, assume=cast(Any, assume), **cast(Any, values))
    report = run_doctor(app.world, app.screen, options)
    if report_file:
        write_report(app.world, app.screen, report, report_file)
    document = report.as_json()
    status = report.diagnosis.status
    if not app.screen.as_json:
        show_report(app.screen, report, verbose=verbose)
    if mend_it and status == "error" and not options.offline:
        from wizard.flows.mend import mend

        confirm = (lambda text: click.confirm(text, default=True)) if app.may_ask else None
        mended = mend(app.world, app.screen, report, options, yes=app.yes, dry_run=app.dry_run, confirm=confirm)
        document["mended"] = [{"client": m.client, "outcome": m.outcome, "codes": list(m.codes)} for m in mended]
        if mended and all(m.outcome == "mended" for m in mended):
            after = run_doctor(app.world, app.screen, options)
            document, status = {**after.as_json(), "mended": document["mended"]}, after.diagnosis.status
    if app.screen.as_json:
        app.screen.document(document)
    return ExitCode.PROBLEM if status == "error" else ExitCode.FINE
