"""`use NAME`: move every applied client to another profile, all or none."""

from __future__ import annotations

from wizard.effects.edits import Change
from wizard.effects.files import PRIVATE_MODE
from wizard.effects.world import World
from wizard.endpoint.model import Profile
from wizard.flows.clients import Applied, Confirm, applied_targets, apply_plans, edit_store
from wizard.flows.endpoints import answers, find_doubt
from wizard.flows.profiles import active_profile, resolve_key
from wizard.i18n import t
from wizard.problems import usage_error
from wizard.ui.screen import Screen


def choose_profile(world: World, screen: Screen, name: str, fallback: str, *, dry_run: bool = False) -> Profile:
    """The profile that `use` means: a name, `-` for the one before, the fallback where the first does not answer."""
    if not dry_run:
        edit_store(world).settle()  # a switch that was cut in two may have left the wrong one as the active
    known = world.profiles.load()
    if name == "-":
        if not known.previous:
            raise usage_error(
                "profile-missing",
                t("There is no profile to go back to."),
                t("Name one, as `llm-setup use NAME`; the first command lists them, the second adds one."),
                "llm-setup profiles list",
                "llm-setup profiles add NAME --base-url URL --model ID",
            )
        name = known.previous
    profile = active_profile(world, name)
    if profile is None:
        raise usage_error("profile-missing", t("Name a profile."), t("Profiles:"), "llm-setup profiles list")
    if fallback:
        other = active_profile(world, fallback)
        endpoint = profile.endpoint(resolve_key(world, profile))
        if other is not None and not answers(world, endpoint, direct=bool(profile.server)):
            screen.step(
                "warning", t("`{name}` does not answer; `{other}` is used.", name=profile.name, other=other.name)
            )
            return other
    return profile


def use_profile(
    world: World,
    screen: Screen,
    profile: Profile,
    *,
    yes: bool = False,
    dry_run: bool = False,
    confirm: Confirm | None = None,
) -> tuple[tuple[Applied, ...], str]:
    """Move the applied clients and the active profile, in one transaction. What speaks against an answer there, by one
    question that costs nothing, is said and returned (empty: nothing): the switch stands all the same."""

    def activation() -> tuple[Change, ...]:
        before, after = world.profiles.activated(profile.name)
        return (Change(world.profiles.path, before, after, PRIVATE_MODE),) if after != before else ()

    endpoint = profile.endpoint(resolve_key(world, profile))
    results = apply_plans(
        world,
        screen,
        endpoint,
        applied_targets(world),
        yes=yes,
        dry_run=dry_run,
        confirm=confirm,
        diffs=confirm is not None,
        also=activation,
    )
    declined = any(result.status == "would-apply" for result in results)
    doubt = ""
    if not dry_run and not declined:
        doubt = find_doubt(world, endpoint, direct=bool(profile.server))
        if doubt:
            screen.step("warning", doubt)
        screen.step(
            "warning" if doubt else "ok", t("Active profile: {name}", name=profile.name), profile.openai_base_url
        )
        if doubt:
            screen.line(t("What it may be, and what to do: {command}", command="llm-setup doctor"))
    return results, doubt
