"""The active endpoint as shell variables. Stands in start-up files, so it imports and asks as little as it can."""

from __future__ import annotations

from wizard.clients.shells import Shell, render_shell, shell_variables
from wizard.effects.world import World
from wizard.endpoint.model import Endpoint
from wizard.flows.profiles import active_profile, no_endpoint, resolve_key


def endpoint_of_profile(world: World, name: str) -> Endpoint:
    """The named, else the active profile's endpoint with its key; the server is asked nothing."""
    profile = active_profile(world, name)
    if profile is None:
        raise no_endpoint()
    return profile.endpoint(resolve_key(world, profile))


def env_text(endpoint: Endpoint, shell: Shell) -> str:
    """The lines for the shell."""
    return render_shell(shell, shell_variables(endpoint))
