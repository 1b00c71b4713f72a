"""Clients whose own first request is longer than what the endpoint's model holds: told, and no file is written for them
unless somebody wants it all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wizard.clients.fit import holds_first_request, models_command
from wizard.clients.spec import ClientSpec
from wizard.effects.world import World
from wizard.flows.clients import choose_clients, load_clients
from wizard.i18n import t
from wizard.problems import Fix, Problem
from wizard.ui.screen import Screen


def without_answer(world: World, names: Sequence[str], room: int | None) -> tuple[ClientSpec, ...]:
    """Those of the named clients that cannot get one answer in a context of `room` tokens; None: it is not known."""
    specs = (client.spec for client in choose_clients(load_clients(world), names))
    return tuple(spec for spec in specs if not holds_first_request(spec, room))


def titles(specs: Sequence[ClientSpec]) -> str:
    """Their names, for a sentence."""
    return ", ".join(spec.title for spec in specs)


def say_left_out(screen: Screen, specs: Sequence[ClientSpec], room: int) -> None:
    """Which clients cannot start here, each with how long its first request is."""
    screen.step(
        "warning", t("Their first request is longer than the {room} tokens that this model holds:", room=f"{room:,}")
    )
    for spec in specs:
        screen.line(
            f"      {t('{title}: about {first} tokens', title=spec.title, first=f'{spec.first_request_tokens:,}')}"
        )


def nobody_answers(specs: Sequence[ClientSpec], room: int, *, written: bool = False) -> Problem:
    """That none of the clients that were to be set up can get an answer. written: their files are, all the same."""
    problem = Problem(
        "no-client-answers",
        t("None of the clients gets an answer in this context: {clients}.", clients=titles(specs)),
        t("System prompt and tool descriptions of the client take their room before the first word of yours."),
        (f"max_model_len {room}",),
        Fix(
            t("Take a model with a larger context, or a gateway; `--client` writes a client's files all the same."),
            more_room(specs),
        ),
    )
    if not written:
        return problem
    advice = t("Take a model with a larger context, or a gateway; then run `llm-setup init` again.")
    return replace(problem, fix=Fix(advice, more_room(specs)))


def way_on() -> str:
    """What would help."""
    return t("Serve a model with a larger context, or take a gateway; then run `llm-setup init` again.")


def more_room(specs: Sequence[ClientSpec]) -> tuple[str, ...]:
    """The commands to it."""
    return (models_command(spec.name for spec in specs), "llm-setup profiles presets")


@dataclass(frozen=True, slots=True)
class Outlook:
    """Which clients answer in the end. answering: with room to work; narrow: with too little of it; silent: their files
    are written, and they get no answer; left_out: their files are as they were."""

    answering: tuple[ClientSpec, ...] = ()
    narrow: tuple[ClientSpec, ...] = ()
    silent: tuple[ClientSpec, ...] = ()
    left_out: tuple[ClientSpec, ...] = ()


def look_out(world: World, written: Sequence[str], left_out: Sequence[ClientSpec], room: int | None) -> Outlook:
    """The outlook of the clients whose files were written, and of those that were left out."""
    specs = [client.spec for client in choose_clients(load_clients(world), written)]
    small = [spec for spec in specs if room is not None and room < spec.minimum_context_tokens]
    silent = tuple(spec for spec in specs if not holds_first_request(spec, room))
    narrow = tuple(spec for spec in small if spec not in silent)
    answering = tuple(spec for spec in specs if spec not in silent and spec not in narrow)
    return Outlook(answering, narrow, silent, tuple(left_out))


def say_outlook(screen: Screen, outlook: Outlook, *, told: bool = False) -> None:
    """Last of all, since it stands against the good news above. told: the way on was shown already."""
    if not outlook.narrow and not outlook.silent and not outlook.left_out:
        return
    screen.title(t("Which clients answer here"))
    if outlook.answering:
        screen.step("ok", titles(outlook.answering))
    if outlook.narrow:
        said = t(
            "{clients}: the files are written, but the context of this server is too small for real work with them. "
            "Nothing more is to be done to the files: serve a model with more room, and run `llm-setup init` again.",
            clients=titles(outlook.narrow),
        )
        screen.step("warning", said)
    if outlook.silent:
        said = t(
            "{clients}: the files are written, but no answer comes here: the first request is longer than what this "
            "model holds. Nothing more is to be done to the files: serve a model with more room, and run "
            "`llm-setup init` again.",
            clients=titles(outlook.silent),
        )
        screen.step("warning", said)
    if outlook.left_out:
        said = t("{clients}: no answer here; the files are as they were", clients=titles(outlook.left_out))
        screen.step("warning", said)
    if told:
        return
    if outlook.left_out:
        screen.say(way_on(), "    ", "    ")
    for command in more_room((*outlook.left_out, *outlook.silent, *outlook.narrow)):
        for line in screen.command(command, "    $ "):
            screen.line(line)
