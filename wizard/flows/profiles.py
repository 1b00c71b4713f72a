"""Profiles: named endpoints with their keys by reference."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wizard.clients.keys import check_key, clean_key
from wizard.effects.profiles import Profiles
from wizard.effects.world import World
from wizard.endpoint.model import Endpoint, Profile
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, usage_error
from wizard.secret import Secret

PROFILE_VARIABLE = "LLM_SETUP_PROFILE"


def resolve_key(world: World, profile: Profile) -> Secret | None:
    """The key of a profile, or None where it has none. A reference to a key that is gone is a problem."""
    if not profile.key_reference:
        return None
    key = world.secrets.get(profile.key_reference)
    kind, _, name = profile.key_reference.partition(":")
    if key is not None and kind == "env":  # somebody else's variable: nobody looked at it yet
        key = clean_key(key.reveal()).key
        if key is not None:
            check_key(key, f"${name}")
    if key is None:
        unavailable = world.secrets.why_not(profile.key_reference)
        if unavailable is not None:
            raise ProblemError(unavailable)
        raise ProblemError(
            Problem(
                "key-missing",
                t("The key of profile `{name}` is gone.", name=profile.name),
                saw=(profile.key_reference,),
                fix=Fix(
                    t("Enter it again."),
                    (f"llm-setup profiles add {profile.name} --base-url {profile.openai_base_url}",),
                ),
            )
        )
    return key


def free_name(names: Sequence[str], known: Mapping[str, Profile], is_ours: Callable[[Profile], bool]) -> str:
    """The first of the names, then of the first one with a number, that no profile of another endpoint has."""
    candidates = itertools.chain(names, (f"{names[0]}-{number}" for number in itertools.count(2)))
    return next(name for name in candidates if name not in known or is_ours(known[name]))


def active_profile(world: World, name: str = "") -> Profile | None:
    """The named profile, else that of `LLM_SETUP_PROFILE`, else the active one; None where there is none at all."""
    profiles = world.profiles.load()
    wanted = name or world.env.get(PROFILE_VARIABLE, "")
    if wanted and wanted not in profiles.by_name:
        known = ", ".join(profiles.by_name) or t("none")
        raise usage_error(
            "unknown-profile",
            t("There is no profile `{name}`.", name=wanted),
            t("Profiles: {known}.", known=known),
            "llm-setup profiles list",
        )
    return profiles.by_name.get(wanted or profiles.active)


def no_endpoint(world: World) -> ProblemError:
    """The usage error of a command that needs an endpoint and got none: nothing is known, or nothing is active."""
    names = tuple(world.profiles.load().by_name)
    if names:
        return usage_error(
            "profile-not-active",
            t("No profile is active; there are: {names}.", names=", ".join(names)),
            t("Make one active, or name it to the command."),
            f"llm-setup use {shlex.quote(names[0]) if len(names) == 1 else 'NAME'}",
        )
    return usage_error(
        "endpoint-missing",
        t("No endpoint is known: give `--base-url` and `--model`, or set one up first."),
        t("One of:"),
        "llm-setup init",
        "llm-setup profiles add NAME --base-url http://127.0.0.1:8000/v1 --model ID",
    )


def key_name(profile: str) -> str:
    """Under which a profile's key is stored."""
    return f"profile:{profile}"


def check_profile_name(name: str) -> None:
    """Raise a usage problem for what cannot name a profile."""
    if not name or name in (".", "..", "-") or any(c.isspace() or c in "/\\:" for c in name):
        raise usage_error(
            "profile-name-invalid", t("`{name}` cannot name a profile.", name=name), t("Use letters and digits.")
        )


def add_profile(world: World, name: str, endpoint: Endpoint, *, key_variable: str = "", activate: bool) -> Profile:
    """Remember an endpoint. Its key goes to the keyring or the 0600 file, or is only named by a variable."""
    check_profile_name(name)
    reference = ""
    if key_variable:
        reference = f"env:{key_variable}"
    elif endpoint.key:
        reference = world.secrets.put(key_name(name), endpoint.key)
    profile = Profile(
        name=name,
        openai_base_url=endpoint.openai_base_url,
        anthropic_base_url=endpoint.anthropic_base_url,
        model=endpoint.model,
        key_reference=reference,
        max_model_len=endpoint.max_model_len,
        speaks=tuple(sorted(endpoint.speaks)),
        kind=endpoint.kind,
    )
    world.profiles.put(profile, activate=activate, activate_first=True)
    return profile


def remove_profile(world: World, name: str) -> tuple[Profile, Problem | None]:
    """Forget a profile and its key; also what is left of the key, where a keyring does not let go of it. Files of
    clients stay as they are."""
    profile = active_profile(world, name)
    if profile is None:
        raise no_endpoint(world)
    left = None
    # The key first: with its profile gone, one whose removal was cut off would be found by nobody.
    if profile.key_reference.startswith("store:"):
        left = world.secrets.forget(profile.key_reference.removeprefix("store:"))
    world.profiles.remove(profile.name)
    return profile, left


def profile_row(world: World, profile: Profile, profiles: Profiles) -> dict[str, Any]:
    """For `profiles list --json` and `show`: everything but the key itself."""
    key = world.secrets.get(profile.key_reference) if profile.key_reference else None
    lacking = "unavailable" if world.secrets.why_not(profile.key_reference) else "none"
    return {
        **profile.as_json(),
        "active": profile.name == profiles.active,
        "key": key.hint if key else lacking,
        "key_place": world.secrets.place_of(profile.key_reference),
    }
