"""The active endpoint as shell variables. Stands in start-up files, so it imports and asks as little as it can."""

from __future__ import annotations

from wizard.clients.shells import Shell, render_shell, shell_variables
from wizard.effects.world import World
from wizard.endpoint.model import Endpoint, Profile
from wizard.flows.profiles import active_profile, no_endpoint, resolve_key
from wizard.i18n import t
from wizard.problems import usage_error


def profile_for_env(world: World, name: str) -> tuple[Profile, Endpoint]:
    """The named, else the active profile, and its endpoint with its key; the server is asked nothing."""
    profile = active_profile(world, name)
    if profile is None:
        if world.profiles.load().by_name:
            raise no_endpoint(world)
        raise usage_error(
            "profile-missing",
            t("There is no profile yet, so there is nothing to set."),
            t("One of:"),
            "llm-setup init",
            "llm-setup profiles add NAME --base-url http://127.0.0.1:8000/v1 --model ID",
        )
    return profile, profile.endpoint(resolve_key(world, profile))


def env_text(endpoint: Endpoint, shell: Shell, *, masked: bool = False) -> str:
    """The lines for the shell. masked: for looking at, with the key's hint in place of the key."""
    return render_shell(shell, shell_variables(endpoint, masked=masked))
