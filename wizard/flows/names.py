"""Names that are known here, for Tab: only files of our own are read, and nothing is asked."""

from __future__ import annotations

from typing import Literal

from wizard.effects.world import World

Kind = Literal["profiles", "clients", "servers", "models", "presets", "gpus"]


def names_of(world: World, kind: Kind, typed: str) -> list[str]:
    """Names of a kind that what was typed may become."""
    if kind == "gpus":
        from wizard.catalog.gpus import names_beginning

        return list(names_beginning(typed))
    wanted = typed.lower()
    # A model is named by a part of its name: `qwen3-8b`.
    inside = kind == "models"
    return [n for n in _all(world, kind) if n.lower().startswith(wanted) or (inside and wanted in n.lower())]


def _all(world: World, kind: Kind) -> list[str]:
    match kind:
        case "models":
            from wizard.catalog.models import all_models

            return [model.id for model in all_models()]
        case "presets":
            from wizard.endpoint.presets import all_presets

            return [preset.id for preset in all_presets()]
        case "clients":
            from wizard.effects.templates import read_client_folders

            return list(read_client_folders(world.paths.config / "templates"))
        case "servers":
            return list(world.servers.names())
        case _:
            return list(world.profiles.load().by_name)
