"""`llm-setup profiles`: named endpoints."""

from __future__ import annotations

from typing import Any

import click

from wizard.cli.app import App, command_options, run_list
from wizard.cli.clients import endpoint_options, options_of
from wizard.i18n import t
from wizard.problems import ExitCode
from wizard.text import pad


@click.group(
    invoke_without_command=True,
    epilog="Example: llm-setup profiles add taotoken --preset taotoken --model claude-sonnet-4-5",
)
@click.pass_context
def command(context: click.Context) -> int:
    """Named endpoints: list, show, add, remove, presets."""
    return run_list(context, list_command)


@command.command("list", epilog="Example: llm-setup profiles list --json")
@command_options()
def list_command(app: App) -> int:
    """Every profile; the active one is marked."""
    from wizard.flows.profiles import profile_row

    known = app.world.profiles.load()
    rows = [profile_row(app.world, profile, known) for profile in known.by_name.values()]
    if app.screen.as_json:
        app.screen.document({"status": "ok", "active": known.active, "profiles": rows})
        return ExitCode.FINE
    for row in rows:
        app.screen.step(
            "ok" if row["active"] else "info",
            f"{pad(row['name'], 16)} {row['openai_base_url']}  {row['model']}",
            t(row["key"]),
        )
    if not rows:
        told = t("No profile yet: llm-setup init, or llm-setup profiles add NAME --base-url URL --model ID")
        app.screen.say(told)
    return ExitCode.FINE


@command.command("show", epilog="Example: llm-setup profiles show local")
@click.argument("name", default="")
@command_options()
def show_command(app: App, name: str) -> int:
    """One profile: the active one without a name."""
    from wizard.flows.profiles import active_profile, no_endpoint, profile_row

    profile = active_profile(app.world, name)
    if profile is None:
        raise no_endpoint(app.world)
    row = profile_row(app.world, profile, app.world.profiles.load())
    if app.screen.as_json:
        app.screen.document({"status": "ok", "profile": row})
    else:
        for key, value in row.items():
            app.screen.line(f"  {key:<20} {value}")
    return ExitCode.FINE


@command.command("key", epilog="Example: llm-setup profiles key local | wc -c")
@click.argument("name", default="")
@command_options()
def key_command(app: App, name: str) -> int:
    """Print a profile's key, for a client that asks a command for it; never on a terminal."""
    import sys

    from wizard.flows.profiles import active_profile, no_endpoint, resolve_key
    from wizard.problems import usage_error

    profile = active_profile(app.world, name)
    if profile is None:
        raise no_endpoint(app.world)
    if sys.stdout.isatty() or app.screen.as_json:
        raise usage_error(
            "key-on-terminal", t("A key is not shown on a terminal or in JSON."), t("Send it through a pipe.")
        )
    key = resolve_key(app.world, profile)
    sys.stdout.write(f"{key.reveal()}\n" if key else "")
    return ExitCode.FINE


@command.command("add", epilog="Example: llm-setup profiles add taotoken --preset taotoken --model claude-sonnet-4-5")
@click.argument("name")
@click.option("--preset", default="", metavar="ID", help="A known service instead of a URL: see `profiles presets`.")
@click.option("--key-env", default="", metavar="VARIABLE", help="Remember the variable's name instead of the key.")
@click.option("--use", "activate", is_flag=True, help="Make it the active one.")
@endpoint_options
@command_options(yes=True)
def add_command(app: App, name: str, preset: str, key_env: str, activate: bool, **values: Any) -> int:
    """Add or replace a profile. The key comes from LLM_SETUP_API_KEY, a file, or a hidden question."""
    from dataclasses import replace

    from wizard.flows.endpoints import ask_key, given_key, observe_and_doubt, preset_url
    from wizard.flows.profiles import add_profile, profile_row
    from wizard.problems import usage_error

    options = options_of(values)
    if preset:
        options = replace(options, base_url=options.base_url or preset_url(preset))
    if not options.base_url:
        raise usage_error(
            "base-url-missing",
            t("`--base-url` or `--preset` is missing."),
            t("See `{command}`.", command="llm-setup profiles presets"),
        )
    key = given_key(app.world, app.screen, options)
    if key is None and not key_env:
        key = ask_key(app.screen, may_ask=app.may_ask)
    endpoint, doubt = observe_and_doubt(app.world, app.screen, options, key)
    profile = add_profile(app.world, name, endpoint, key_variable=key_env, activate=activate)
    row = profile_row(app.world, profile, app.world.profiles.load())
    if app.screen.as_json:
        app.screen.document({"status": "warning" if doubt else "ok", "profile": row})
    else:
        title = t("{name}: saved all the same", name=name) if doubt else name
        app.screen.step(
            "warning" if doubt else "ok",
            f"{title}: {endpoint.openai_base_url}  {endpoint.model}",
            t("key {key} in {place}", key=t(row["key"]), place=row["key_place"] or "-"),
        )
    return ExitCode.FINE


@command.command("remove", epilog="Example: llm-setup profiles remove old")
@click.argument("name")
@command_options(yes=True)
def remove_command(app: App, name: str) -> int:
    """Forget a profile and its key; client files stay as they are."""
    from wizard.flows.clients import clients_asking_for
    from wizard.flows.profiles import remove_profile

    profile, left = remove_profile(app.world, name)
    for title in clients_asking_for(app.world, name):
        app.screen.step("warning", t("{title} asks for the key of this profile, and gets none now.", title=title))
    if app.screen.as_json:
        problems = [left.as_json()] if left else []
        app.screen.document({"status": "warning" if left else "ok", "removed": profile.name, "problems": problems})
    else:
        app.screen.step("ok", t("{name} removed", name=profile.name))
        if left:
            app.screen.problem(left)
        others = app.world.profiles.load()
        if others.by_name and not others.active:
            app.screen.step("info", t("No profile is active now; `llm-setup use NAME` makes one active."))
    return ExitCode.FINE


@command.command("presets", epilog="Example: llm-setup profiles presets")
@command_options()
def presets_command(app: App) -> int:
    """Known services and servers: their URLs, where keys come from, what they speak."""
    from wizard.endpoint.presets import all_presets

    rows = [
        {
            "id": preset.id,
            "title": preset.title,
            "openai_base_url": preset.openai_base_url,
            "anthropic_base_url": preset.anthropic_base_url,
            "key_page": preset.key_page,
            "key_prefix": preset.key_prefix,
            "speaks": list(preset.speaks),
            "note": t(preset.note),
            "source": preset.source,
        }
        for preset in all_presets()
    ]
    if app.screen.as_json:
        app.screen.document({"status": "ok", "presets": rows})
        return ExitCode.FINE
    for row in rows:
        app.screen.step("info", f"{row['id']:<12} {row['openai_base_url']}", str(row["key_page"]))
    return ExitCode.FINE
