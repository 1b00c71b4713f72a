"""`llm-setup doctor`: find why it does not work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wizard.cli.app import App, command_options
from wizard.i18n import t
from wizard.problems import ExitCode

if TYPE_CHECKING:
    from wizard.flows.doctor import DoctorOptions


@click.command(
    name="doctor",
    short_help="Find why it does not work, and say what to type.",
    epilog="Example: llm-setup doctor --base-url http://127.0.0.1:8000/v1 --model qwen",
)
@click.option("--base-url", default="", metavar="URL", help="The endpoint, exactly as the client has it.")
@click.option("--model", default="", metavar="ID", help="The model's name that the client sends.")
@click.option("--client-type", default="", metavar="NAME", help="Ask as codex, claude-code, cline, ... does.")
@click.option("--api-key-file", default="", metavar="FILE", help="Its key; else from LLM_SETUP_API_KEY.")
@click.option(
    "--max-tokens", type=click.IntRange(min=1), metavar="N", show_default=False, help="The client's own output limit."
)
@click.option("--context", type=click.IntRange(min=1), metavar="N", help="The window the client believes in.")
@click.option("--client", default="", metavar="NAME", help="Examine this client's files only.")
@click.option("--all", "every", is_flag=True, help="Examine all configured endpoints.")
@click.option("--log", default="", metavar="FILE", help="Read a server's log (`-`: stdin).")
@click.option("--error", default="", metavar="TEXT", help="Explain a client's error (`-`: stdin).")
@click.option("--assume", type=click.Choice(["container", "wsl", "host"]), help="Where it happened.")
@click.option("--offline", is_flag=True, help="Send nothing at all.")
@click.option("--cheap", is_flag=True, help="Send nothing that costs tokens.")
@click.option("--full", is_flag=True, help="Send a prompt of the client's size to any server.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=1),
    default=20.0,
    metavar="S",
    show_default=True,
    help="Patience with a model.",
)
@click.option("--check", "only", multiple=True, metavar="ID", help="Only this check; repeatable.")
@click.option("--verbose", "-v", is_flag=True, help="Show every check.")
@click.option("--fix", "mend_it", is_flag=True, help="Mend what can be; prove it, or undo it.")
@click.option("--watch", "watching", is_flag=True, help="Stay and ring when it works.")
@click.option("--trace", "tracing", is_flag=True, help="Run COMMAND and explain what it met.")
@click.option("--report", "report_file", default="", metavar="FILE", help="Write a report: .md or .html.")
@click.argument("traced", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND]")
@command_options(yes=True, dry_run=True)
def command(
    app: App,
    *,
    watching: bool,
    tracing: bool,
    traced: tuple[str, ...],
    verbose: bool,
    context: int | None,
    assume: str | None,
    mend_it: bool,
    report_file: str,
    **values: object,
) -> int:
    """Find why it does not work: client files, network, endpoint and log together."""
    from typing import Any, cast

    from wizard.flows.doctor import DoctorOptions, run_doctor, show_report, write_report

    options = DoctorOptions(context_tokens=context, assume=cast(Any, assume), **cast(Any, values))
    if tracing or traced:
        return _trace(app, options, traced, tracing)
    if watching:
        from wizard.flows.watch_doctor import watch

        report = watch(app.world, app.screen, options)
        if app.screen.as_json:
            app.screen.document(report.as_json())
        return ExitCode.PROBLEM if report.diagnosis.status == "error" else ExitCode.FINE
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
        document["mended"] = [{m.kind: m.name, "outcome": m.outcome, "codes": list(m.codes)} for m in mended]
        if mended and all(m.outcome == "mended" for m in mended):
            after = run_doctor(app.world, app.screen, options)
            document, status = {**after.as_json(), "mended": document["mended"]}, after.diagnosis.status
    if app.screen.as_json:
        app.screen.document(document)
    return ExitCode.PROBLEM if status == "error" else ExitCode.FINE


def _trace(app: App, options: DoctorOptions, command_line: tuple[str, ...], asked: bool) -> int:
    from wizard.doctor.tracing import describe
    from wizard.flows.trace import show_trace, trace_client
    from wizard.problems import usage_error

    if not asked:
        raise usage_error(
            "wrong-usage",
            t("A command is run only with `--trace`."),
            t("Example:"),
            "llm-setup doctor --trace -- codex",
        )
    exchanges, cause, code = trace_client(app.world, app.screen, options, command_line)
    if app.screen.as_json:
        findings = [cause.as_json()] if cause else []
        rows = [describe(exchange) for exchange in exchanges]
        app.screen.document(
            {"status": "error" if cause else "ok", "exchanges": rows, "exit_code": code, "findings": findings}
        )
    else:
        show_trace(app.screen, exchanges, cause, code)
    return ExitCode.PROBLEM if cause else ExitCode.FINE
