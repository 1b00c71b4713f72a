"""`llm-setup clients`: list, show, diff, apply, restore, verify."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from wizard.cli.app import App, command_options, run_list
from wizard.i18n import t
from wizard.problems import ExitCode

F = TypeVar("F", bound=Callable[..., Any])


def endpoint_options(function: F) -> F:
    """`--base-url`, `--model` and what goes with them; collected into `EndpointOptions` by `options_of`."""
    decorated: Any = function
    for option in (
        click.option("--offline", is_flag=True, help="Ask the server nothing (its context is not known then)."),
        click.option("--context", type=click.IntRange(min=1), metavar="TOKENS", help="The server's context length."),
        click.option("--profile", default="", metavar="NAME", help="A named endpoint instead of a URL."),
        click.option(
            "--api-key-file",
            default="",
            metavar="FILE",
            help="File with the key; else the profile's, else LLM_SETUP_API_KEY.",
        ),
        click.option("--model", default="", metavar="ID", help="Model ID as the server lists it."),
        click.option("--base-url", default="", metavar="URL", help="With or without /v1."),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def options_of(values: dict[str, Any]) -> Any:
    """`EndpointOptions` out of a command's options, which are taken from `values`."""
    from wizard.flows.endpoints import EndpointOptions

    return EndpointOptions(
        base_url=values.pop("base_url"),
        model=values.pop("model"),
        api_key_file=values.pop("api_key_file"),
        profile=values.pop("profile"),
        context_tokens=values.pop("context"),
        offline=values.pop("offline"),
    )


# The states of a file, as `clients diff` shows them.
_STATES = {"same": "as written", "changed": "changed", "missing": "missing", "not-applied": "not written yet"}


def confirm_of(app: App) -> Callable[[str], bool] | None:
    """A question on the terminal, or None where nobody can be asked."""
    return (lambda text: click.confirm(text, default=True)) if app.may_ask else None


def _names(names: tuple[str, ...], every: bool, known: list[str], what: str) -> list[str]:
    from wizard.problems import usage_error

    if every and names:
        raise usage_error("wrong-usage", t("Give client names or `--all`, not both."))
    if not every and not names:
        raise usage_error(
            "client-missing",
            t("Name the clients, or give `--all`: {names}.", names=", ".join(known)),
            t("Example:"),
            f"llm-setup clients {what} codex",
        )
    return known if every else list(names)


@click.group(
    invoke_without_command=True,
    epilog="Example: llm-setup clients apply codex claude-code --base-url http://127.0.0.1:8000/v1 --model qwen",
)
@click.pass_context
def command(context: click.Context) -> int:
    """List, show, diff, apply, restore and verify client files."""
    return run_list(context, list_command)


@command.command("list", epilog="Example: llm-setup clients list")
@command_options()
def list_command(app: App) -> int:
    """Every client: installed or not, applied or not, what it needs."""
    from wizard.flows.clients import list_clients

    rows = list_clients(app.world)
    if app.screen.as_json:
        app.screen.document({"status": "ok", "clients": [row.as_json() for row in rows]})
        return ExitCode.FINE
    for row in rows:
        app.screen.row("ok" if row.applied else "info" if row.installed else "skipped", *row.row())
    for problem in (problem for row in rows for problem in row.problems):
        app.screen.problem(problem)
    return ExitCode.FINE


@command.command("show", epilog="Example: llm-setup clients show codex")
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every client that has files.")
@command_options()
def show_command(app: App, names: tuple[str, ...], every: bool) -> int:
    """What each client would use now: URL, model, key (masked), and from where."""
    from wizard.flows.clients import show_clients

    document = show_clients(app.world, app.screen, names)
    if app.screen.as_json:
        app.screen.document(document)
    return ExitCode.FINE


@command.command("diff", epilog="Example: llm-setup clients diff --all")
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every applied client.")
@endpoint_options
@command_options()
def diff_command(app: App, names: tuple[str, ...], every: bool, **values: Any) -> int:
    """What changed since llm-setup wrote; with an endpoint, what applying would change."""
    from wizard.flows.clients import diff_clients
    from wizard.flows.endpoints import resolve_endpoint

    options = options_of(values)
    endpoint = resolve_endpoint(app.world, app.screen, options) if options.base_url or options.profile else None
    rows = diff_clients(app.world, endpoint, list(names))
    if app.screen.as_json:
        app.screen.document({"status": "ok", "files": rows})
    for row in rows:
        app.screen.step("ok" if row["state"] == "same" else "warning", f"{row['path']}: {t(_STATES[row['state']])}")
        if row["diff"]:
            app.screen.line(row["diff"])
    return ExitCode.PROBLEM if any(row["state"] != "same" for row in rows) else ExitCode.FINE


@command.command(
    "apply", epilog="Example: llm-setup clients apply codex --base-url http://127.0.0.1:8000/v1 --model qwen --yes"
)
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every client.")
@click.option("--installed", is_flag=True, help="Every client that is installed here.")
@click.option("--scope", type=click.Choice(["user", "project"]), default="user", help="Home folder or this project.")
@click.option("--key-by-command", is_flag=True, help="Where a client can, let it ask llm-setup for the key.")
@endpoint_options
@command_options(yes=True, dry_run=True)
def apply_command(
    app: App,
    names: tuple[str, ...],
    every: bool,
    installed: bool,
    scope: Any,
    key_by_command: bool,
    **values: Any,
) -> int:
    """Write an endpoint into client files: all of them or none."""
    from wizard.flows.clients import apply_clients, installed_clients, load_clients
    from wizard.flows.endpoints import resolve_endpoint

    clients = load_clients(app.world)
    if installed:
        chosen = [spec.name for spec in installed_clients(app.world) if spec.has_scope(scope)]
    else:
        chosen = _names(names, every, [name for name, c in clients.items() if c.spec.has_scope(scope)], "apply")
    options = options_of(values)
    endpoint = resolve_endpoint(app.world, app.screen, options)
    results = apply_clients(
        app.world,
        app.screen,
        endpoint,
        chosen,
        scope=scope,
        yes=app.yes,
        dry_run=app.dry_run,
        confirm=confirm_of(app),
        offline=options.offline,
        key_by_command=key_by_command,
    )
    if app.screen.as_json:
        app.screen.document(
            {
                "status": "warning" if any(result.problems for result in results) else "ok",
                "scope": scope,
                "endpoint": {
                    "base_url": endpoint.openai_base_url,
                    "anthropic_base_url": endpoint.anthropic_base_url,
                    "model": endpoint.model,
                    "key": endpoint.key_hint,
                    "context_tokens": endpoint.max_model_len,
                },
                "clients": [result.as_json() for result in results],
            }
        )
    return ExitCode.FINE


@command.command("restore", epilog="Example: llm-setup clients restore --all --yes")
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Everything that llm-setup ever changed.")
@click.option("--keep-changes", is_flag=True, help="Where others changed a file since, take only our part out.")
@command_options(yes=True, dry_run=True)
def restore_command(app: App, names: tuple[str, ...], every: bool, keep_changes: bool) -> int:
    """Give back the exact bytes from before; say what changed since."""
    from wizard.flows.clients import load_clients, restore_clients

    chosen = _names(names, every, list(load_clients(app.world)), "restore")
    results = restore_clients(
        app.world,
        app.screen,
        chosen,
        every=every,
        yes=app.yes,
        dry_run=app.dry_run,
        confirm=confirm_of(app),
        keep_changes=keep_changes,
    )
    if app.screen.as_json:
        app.screen.document({"status": "ok", "files": [result.as_json() for result in results]})
    return ExitCode.FINE


@command.command("verify", epilog="Example: llm-setup clients verify codex --run")
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every applied client (also without names).")
@click.option("--run", "run", is_flag=True, help="Start the installed client, too, headless, in a scratch folder.")
@command_options()
def verify_command(app: App, names: tuple[str, ...], every: bool, run: bool) -> int:
    """Send each client's own kind of request from its files as they are."""
    from wizard.flows.verify import verify_clients

    results = verify_clients(app.world, app.screen, () if every else names, run=run)
    failed = any(result.status in ("failed", "context") for result in results)
    # Who names clients wants to know that they work, and nothing showed it.
    lacking = [result.client for result in results if not result.ours]
    unproved = bool(names) and bool(lacking) and all(result.status == "skipped" for result in results)
    if app.screen.as_json:
        app.screen.document(
            {
                "status": "error" if failed else "unknown" if unproved else "ok",
                "clients": [result.as_json() for result in results],
            }
        )
    elif not results:
        app.screen.line(t("Nothing is applied: llm-setup clients apply NAME"))
    if unproved:
        command = "llm-setup clients apply " + " ".join(lacking)
        app.screen.step("warning", t("Nothing was proved. First: {command}", command=command))
    return ExitCode.PROBLEM if failed or unproved else ExitCode.FINE
