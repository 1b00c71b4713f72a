"""`llm-setup use NAME`: move every applied client to another profile."""

from __future__ import annotations

import click

from wizard.cli.app import App, command_options
from wizard.i18n import t
from wizard.problems import ExitCode


@click.command("use", epilog="Example: llm-setup use taotoken; and back: llm-setup use -")
@click.argument("name", required=False, default="")
@click.option("--fallback", default="", metavar="NAME", help="Taken where the first does not answer.")
@command_options(yes=True, dry_run=True)
def command(app: App, name: str, fallback: str) -> int:
    """Move every applied client to a profile, all or none; `-` is the one before. Without a name: a menu."""
    from wizard.flows.use import choose_profile, use_profile

    if not name:
        from wizard.flows.profiles import no_endpoint
        from wizard.ui.questions import Choice, Questions

        known = app.world.profiles.load()
        if not known.by_name:
            raise no_endpoint(app.world)
        questions = Questions(app.screen, yes=False, may_ask=app.may_ask)
        choices = [Choice(p.name, f"{p.name}  {p.openai_base_url}  {p.model}") for p in known.by_name.values()]
        recommended = known.active or choices[0].value
        name = questions.choose("NAME", t("Which endpoint shall the clients use?"), choices, recommended)
    profile = choose_profile(app.world, app.screen, name, fallback, dry_run=app.dry_run)
    # Moving back and forth is what the command is for, and every step can be undone: the name is the answer.
    results, doubt = use_profile(app.world, app.screen, profile, yes=True, dry_run=app.dry_run)
    if app.screen.as_json:
        app.screen.document(
            {
                "status": "warning" if doubt else "ok",
                "active": profile.name,
                "base_url": profile.openai_base_url,
                "model": profile.model,
                "clients": [result.as_json() for result in results],
            }
        )
    return ExitCode.FINE
