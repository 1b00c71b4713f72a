"""Names that are known here, for Tab: only files of our own are read, and nothing is asked."""

from __future__ import annotations

from typing import Literal

from wizard.effects.world import World

Kind = Literal["profiles", "clients", "servers", "models", "presets", "gpus"]


def names_of(world: World, kind: Kind) -> list[str]:
    """All names of a kind."""
    match kind:
        case "models":
            from wizard.catalog.models import all_models

            return [model.id for model in all_models()]
        case "presets":
            from wizard.endpoint.presets import all_presets

            return [preset.id for preset in all_presets()]
        case "gpus":
            from wizard.catalog.gpus import all_gpus

            return list(dict.fromkeys(gpu.name for gpu in all_gpus()))
        case "clients":
            from wizard.effects.templates import read_client_folders

            return list(read_client_folders(world.paths.config / "templates"))
        case "servers":
            return list(world.servers.names())
        case "profiles":
            return list(world.profiles.load().by_name)
