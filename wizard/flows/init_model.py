"""Which model to serve: the ranking as rows of a question, and a search in the catalogue. Touches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wizard.flows.init_road import EMBEDDED, Answer
from wizard.flows.serve_model import pins_of
from wizard.i18n import t
from wizard.planning.model import ServePlan
from wizard.planning.rank import Ranked
from wizard.serving.embedded import MODEL_ID
from wizard.text import display_width, pad, pad_left, shorten
from wizard.ui.questions import Choice

OFFERED = 8
FOUND_SHOWN = 12
# The row by which another model than the offered ones is named.
OTHER = "another"
# Rows by which a machine on which nothing suits is left alone.
GATEWAY = "\0gateway"
# Below so many columns a row has room for a name and one figure.
NARROW = 70


@dataclass(frozen=True, slots=True)
class Offer:
    """The rows of the question, the recommended one, and whether anything suits."""

    rows: tuple[Choice, ...]
    recommended: str
    suits: bool


def offer_models(ranked: Sequence[Ranked], *, has_gpu: bool, columns: int) -> Offer:
    """What to offer on this machine, best first.

    Without a GPU the small model that proves the road is recommended. Where nothing suits, those that come closest are
    offered all the same, after a gateway.
    """
    best = [row for row in ranked if row.suits][:OFFERED]
    close = [row for row in ranked if row.fits == "yes"][:3] if not best else []
    table = model_rows(best or close, columns)
    rows: list[Choice] = []
    if not has_gpu:
        name = MODEL_ID.partition("/")[2].removesuffix("-Instruct")
        rows.append(Choice(EMBEDDED, t("{model}: a small smoke test", model=name)))
    elif not best:
        rows.append(Choice(GATEWAY, t("None: a gateway or service")))
    rows += table
    rows.append(Choice(OTHER, t("Another: search, hub id, folder")))
    return Offer(tuple(rows), rows[0].value, bool(best))


def model_rows(ranked: Sequence[Ranked], columns: int) -> tuple[Choice, ...]:
    """A table: name, context, speed, size to fetch. On a narrow terminal only name and context."""
    cells = [
        (
            row.variant.model,
            "" if row.context_tokens is None else t("~{n}k context", n=row.context_tokens // 1024),
            "" if row.tokens_per_s is None else t("~{n:.0f} tokens/s", n=row.tokens_per_s),
            f"{row.download_gib:.1f} GiB",
        )
        for row in ranked
    ]
    if columns < NARROW:
        room = columns - 8
        return tuple(
            Choice(name, f"{shorten(name.rpartition('/')[2], room - display_width(context) - 2)}  {context}".rstrip())
            for name, context, _, _ in cells
        )
    widths = [max((display_width(line[at]) for line in cells), default=0) for at in range(4)]
    room = columns - 8 - sum(widths[1:]) - 6
    name_width = max(12, min(widths[0], room))
    found = []
    for row, line in zip(ranked, cells, strict=True):
        name = pad(shorten(line[0], name_width), name_width)
        title = "  ".join([name, *(pad_left(line[at], widths[at]) for at in (1, 2, 3))]).rstrip()
        found.append(Choice(line[0], title, "; ".join(row.lacking) if row.fits == "no" else ""))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class OtherWay:
    """Another way to serve that starts here: what it is, and the answers that it means."""

    title: str
    answers: tuple[tuple[str, Answer], ...]


def other_ways(plan: ServePlan, pins: tuple[str, ...], gpus: int) -> tuple[OtherWay, ...]:
    """The plan's alternatives that start here: a variant of the model, or other flags. pins: those so far."""
    found = []
    now = {pin.flag: pin.value for pin in pins_of(plan.arguments)}
    for other in plan.alternatives:
        wanted = {pin.flag: pin.value for pin in pins_of(other.command[3:])}
        if not other.fits or int(wanted.get("--tensor-parallel-size") or 1) > max(1, gpus):
            continue
        title = f"{other.change} {t('{tokens} tokens in the cache', tokens=f'{other.kv_tokens:,}')}"
        if other.command[2] != plan.serve_as:
            found.append(OtherWay(title, (("model", other.command[2]),)))
            continue
        changed = {flag: value for flag, value in wanted.items() if flag not in now or now[flag] != value}
        if changed:
            words = tuple(flag[2:] + (f"={value}" if value is not None else "") for flag, value in changed.items())
            kept = tuple(pin for pin in pins if f"--{pin.partition('=')[0].removeprefix('--')}" not in changed)
            found.append(OtherWay(title, (("set", (*kept, *words)),)))
    return tuple(found)


def search_models(ranked: Sequence[Ranked], words: str) -> tuple[Ranked, ...]:
    """Models of the ranking whose names have all the words, in any case; an exact name alone."""
    wanted = words.lower().split()
    exact = [row for row in ranked if words in (row.variant.model, row.entry.id)]
    if exact:
        return tuple(exact)
    return tuple(row for row in ranked if all(word in row.variant.model.lower() for word in wanted))
