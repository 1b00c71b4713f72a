"""Settings that `tune` found, for `serve` to use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wizard.effects.world import World
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, move_away
from wizard.tuning.settings import Settings, parse_settings

if TYPE_CHECKING:
    from wizard.flows.serve_model import ServeAnswers


def settings_path(world: World, name: str) -> Path:
    """Where the settings of a server's name are; the user may edit them."""
    return world.paths.config / "serve" / f"{name}.toml"


def read_settings(world: World, name: str) -> Settings | None:
    """The settings of a name, or None. Raises ProblemError for a file that is not right; it is left as it is."""
    path = settings_path(world, name)
    raw = world.files.read_bytes(path)
    if raw is None:
        return None
    try:
        return parse_settings(raw)
    except ValueError as error:
        raise ProblemError(
            Problem(
                "settings-file-broken",
                t("The settings of server `{name}` are not right; they were left as they are.", name=name),
                saw=(f"{path}: {error}",),
                fix=Fix(t("Mend the file, or move it away."), (move_away(path),)),
            )
        ) from error


def with_settings(world: World, answers: ServeAnswers) -> tuple[ServeAnswers, Path | None]:
    """The answers with the settings of their name and model, and the file they are from; None where there are none.

    What the user fixed with `--set` or gave after `--` counts more.
    """
    if not answers.use_settings:
        return answers, None
    settings = read_settings(world, answers.name)
    if settings is None or settings.model not in _names_of(world, answers.model):
        return answers, None
    given = {_bare(pin.flag) for pin in answers.pins} | {
        _bare(word.partition("=")[0]) for word in answers.extra if word.startswith("--")
    }
    more = tuple(pin for pin in settings.pins if _bare(pin.flag) not in given)
    if not more:
        return answers, None
    return replace(answers, pins=(*more, *answers.pins)), settings_path(world, answers.name)


def _names_of(world: World, model: str | None) -> frozenset[str]:
    """What a model may be called: as it was given, and a folder by its whole path."""
    if model is None:
        from wizard.serving.embedded import FOLDER_NAME

        return frozenset({str(world.paths.models / FOLDER_NAME)})
    return frozenset({model, str((world.cwd / Path(model).expanduser()).absolute())})


def _bare(flag: str) -> str:
    """A flag and its `--no-` form are one."""
    return flag.lstrip("-").replace("_", "-").removeprefix("no-")
