"""What to serve here: the machine and the clients' needs in, a ranking out."""

from __future__ import annotations

from collections.abc import Sequence

from wizard.effects.world import World
from wizard.flows.clients import choose_clients, load_clients
from wizard.hardware.machine import Machine
from wizard.i18n import t
from wizard.planning.intent import Intent
from wizard.planning.rank import AGENT_CONTEXT_TOKENS, Need, Ranked, machine_json, rank_models
from wizard.planning.recommend import serving_gpus
from wizard.planning.versions import TESTED_VERSION
from wizard.problems import Fix, Problem
from wizard.text import display_width
from wizard.ui.screen import Screen

# How many models people are shown; a program gets all that fit.
SHOWN = 10
_UNKNOWN_SHOWN = 5


def client_needs(world: World, clients: Sequence[str]) -> tuple[Need, ...]:
    """What the named clients need of a model. Raises a usage error for a name that is no client."""
    if not clients:
        return ()
    chosen = choose_clients(load_clients(world), clients)
    return tuple(
        Need(c.spec.name, c.spec.title, "tools" in c.spec.needs, c.spec.minimum_context_tokens) for c in chosen
    )


def say_whose_needs(screen: Screen, needs: Sequence[Need], least_tokens: int) -> None:
    """By what the models below are ordered."""
    names = ", ".join(need.title for need in needs) or t("a coding agent")
    screen.say(t("For {names}: at least {tokens} tokens of context.", names=names, tokens=f"{least_tokens:,}"))


def show_models(
    world: World,
    screen: Screen,
    machine: Machine,
    *,
    clients: Sequence[str] = (),
    intent: Intent | None = None,
    everything: bool = False,
    limit: int | None = None,
) -> bool:
    """Rank and show; whether any model suits. everything: also those that do not fit. limit: how many to show."""
    needs = client_needs(world, clients)
    wishes = intent or Intent()
    ranked = rank_models(machine, needs, wishes)
    fitting = tuple(row for row in ranked if everything or row.fits != "no")
    suits = any(row.suits for row in ranked)
    problems = () if suits else (nothing_suits(ranked),)
    least = max([*(need.minimum_context_tokens for need in needs), wishes.context_tokens or 0])
    if screen.as_json:
        shown = fitting if limit is None else fitting[:limit]
        screen.document(
            {
                "machine": machine_json(machine),
                "for": [need.client for need in needs],
                "minimum_context_tokens": least or AGENT_CONTEXT_TOKENS,
                "vllm_version": wishes.vllm_version or str(TESTED_VERSION),
                "total": len(ranked),
                "models": [{"rank": at, **row.as_json()} for at, row in enumerate(shown, 1)],
                "problems": [problem.as_json() for problem in problems],
            }
        )
    else:
        _show(screen, machine, needs, least or AGENT_CONTEXT_TOKENS, fitting, everything, limit or SHOWN)
    for problem in problems:
        screen.problem(problem)
    return suits


def _show(
    screen: Screen,
    machine: Machine,
    needs: Sequence[Need],
    least: int,
    rows: Sequence[Ranked],
    everything: bool,
    limit: int,
) -> None:
    screen.title(t("Models for {machine}", machine=_machine_line(machine)))
    say_whose_needs(screen, needs, least)
    best = [row for row in rows if row.suits]
    rest = [row for row in rows if not row.suits and (everything or row.fits == "yes")]
    listed = (best + rest if everything else best or rest)[:limit]
    for at, row in enumerate(listed, 1):
        screen.line()
        screen.line(f"{at:3}. {screen.paint(row.variant.model, '1')}")
        for line in _row_lines(row, " · " if screen.symbols else ", "):
            screen.line(f"     {line}")
    unknown = [row.variant.model for row in rows if row.fits == "unknown" and not row.lacking]
    if unknown and not everything:
        screen.line()
        screen.say(t("Weights fit; how much context, `llm-setup plan` learns from the hub:"))
        for model in unknown[:_UNKNOWN_SHOWN]:
            screen.line(f"     {model}")
    screen.line()
    screen.say(t("~ estimated: speed from memory bandwidth, context by vLLM's arithmetic."))
    if not serving_gpus(machine):
        told = t(
            "Without a GPU the wait decides: to read a first request of {n} tokens and answer.", n=f"{least // 2:,}"
        )
        screen.say(told)
    screen.say(t("Order, by rule of thumb: the model's size and age, its room, and the wait."))
    hidden = len(best) - min(len(best), len(listed))
    if hidden > 0:
        screen.say(t("{n} more suit as well: `--limit {all}`.", n=hidden, all=len(best)))
    if listed:
        screen.line(t("Next: {command}", command=f"llm-setup plan {listed[0].variant.model}"))


def _row_lines(row: Ranked, between: str) -> list[str]:
    """What there is to say of a model, in lines of at most 74 characters."""
    parts = []
    if row.context_tokens is not None:
        parts.append(t("~{n} tokens of context", n=f"{row.context_tokens:,}"))
    if row.tokens_per_s is not None:
        parts.append(t("~{n:.0f} tokens/s", n=row.tokens_per_s))
    if row.first_answer_s is not None:
        parts.append(t("first answer after ~{time}", time=_time(row.first_answer_s)))
    if row.gpus > 1:
        parts.append(t("{n} GPUs", n=row.gpus))
    parts.append(t("tools") if row.calls_tools else t("no tools"))
    mark = "" if row.download_seen else "~"
    parts.append(t("{mark}{n:.1f} GiB", mark=mark, n=row.download_gib))
    parts.append(row.entry.licence or t("licence: see its page"))
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}{between}{part}" if lines[-1] else part
        if display_width(longer) <= 74:
            lines[-1] = longer
        else:
            lines.append(part)
    return [*lines, *row.lacking]


def _time(seconds: float) -> str:
    return t("{n:.0f} s", n=seconds) if seconds < 100 else t("{n:.0f} min", n=seconds / 60)


def _machine_line(machine: Machine) -> str:
    gpus = serving_gpus(machine)
    if not gpus:
        ram = machine.ram_available_gib
        return t("this machine's processor, {n:.0f} GiB free", n=ram) if ram else t("this machine's processor")
    free = [gpu.memory_free_gib for gpu in gpus if gpu.memory_free_gib is not None]
    text = f"{len(gpus)} x {gpus[0].name}" if len(gpus) > 1 else gpus[0].name
    return f"{text}, {t('{n:.1f} GiB free', n=min(free))}" if free else text


def nothing_suits(ranked: Sequence[Ranked]) -> Problem:
    """Why the ranking has nothing to offer, with those that come closest."""
    close = [row for row in ranked if row.fits == "yes"] or sorted(ranked, key=lambda row: row.download_gib)
    return Problem(
        "no-model-suits",
        t("No model of the catalogue has all that was asked for on this machine."),
        t("A coding agent needs a model that calls tools, and room for its own long instructions."),
        tuple(f"{row.variant.model}: {' '.join(row.lacking)}" for row in close[:3]),
        Fix(
            t("Free GPU memory, take a client that needs less room, or use a server elsewhere or a gateway."),
            ("llm-setup hardware", "llm-setup init --base-url URL"),
        ),
        severity="warning",
    )
