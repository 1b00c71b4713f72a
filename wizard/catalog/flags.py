"""vLLM's flags: which release has which, their defaults, what they are for, and what to write instead of old ones.

vllm_flags.toml holds the names of 32 releases, read from their sources; flags.toml what we know of some of them. A flag
may be written with or without the dashes, with underscores, with `no-`, with a `.key` of a JSON flag, or short (`-tp`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from wizard.catalog.index import read_index
from wizard.i18n import t
from wizard.problems import Fix, Problem

NEWEST = "nightly"
# vLLM's human_readable_int: "65536", "64k" (1000), "64K" (1024), "1.5M".
_COUNT = re.compile(r"\d+([kKmMgGtT])?|\d+\.\d+[kmgt]")
_PLUGINS = {"--tool-parser-plugin": "--tool-call-parser", "--reasoning-parser-plugin": "--reasoning-parser"}


@dataclass(frozen=True, slots=True)
class FlagEntry:
    """What we know of a flag. what, cost, instead: English texts, translated when shown. since and gone: the first
    release with it, and the first without (None: not known to be later, or still there). defaults: (since, default)
    pairs, oldest first. environment: the variable that said the same in releases before `environment_gone`.
    """

    name: str
    kind: str
    what: str
    cost: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    defaults: tuple[tuple[str, str], ...] = ()
    since: str | None = None
    gone: str | None = None
    instead: str = ""
    renamed_to: str = ""
    environment: str = ""
    environment_gone: str = ""
    values_since: tuple[tuple[str, str], ...] = ()

    def default(self, version: str) -> str | None:
        """The default in a release, as text; None where it is not recorded."""
        found = None
        for since, value in self.defaults:
            if not since or version_key(since) <= version_key(version):
                found = value
        return found


def version_key(version: str) -> tuple[int, ...]:
    """A release as numbers to compare: "v0.10.1.1" -> (0, 10, 1, 1). `nightly` and `main` come after every release."""
    if version.lower() in ("nightly", "main", "latest", "dev"):
        return (9999,)
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0].split("rc")[0].split("post")[0])[:4])


@cache
def all_flags() -> tuple[FlagEntry, ...]:
    """The flags that we know something of, with the releases that have them."""
    spans = _names()
    rows = []
    for row in read_index("flags")["flag"]:
        span = spans.get(row["name"], [])
        rows.append(
            FlagEntry(
                name=row["name"],
                kind=row["kind"],
                what=row["what"],
                cost=row.get("cost", ""),
                minimum=row.get("minimum"),
                maximum=row.get("maximum"),
                choices=tuple(row.get("choices", ())),
                defaults=tuple((since, value) for since, value in row.get("defaults", ())),
                since=_since(span),
                gone=span[1] if len(span) > 1 else row.get("gone"),
                instead=row.get("instead", ""),
                renamed_to=row.get("renamed_to", ""),
                environment=row.get("environment", ""),
                environment_gone=row.get("environment_gone", ""),
                values_since=tuple((value, since) for value, since in row.get("values_since", ())),
            )
        )
    return tuple(rows)


def find_flag(name: str) -> FlagEntry | None:
    """What we know of a flag, however it is written; None for one without a row."""
    wanted = canonical(name)
    return next((entry for entry in all_flags() if entry.name == wanted), None)


def canonical(name: str) -> str:
    """The one spelling of a flag: "max_model_len" -> "--max-model-len", "-tp" -> "--tensor-parallel-size".

    `no-` of a switch and the `.key` of a JSON flag are taken away, where the flag itself is known.
    """
    text = name.strip()
    aliases: dict[str, str] = read_index_flags()["aliases"]
    if text in aliases:
        return aliases[text]
    head, _, _ = text.partition(".")
    flag = "--" + head.lstrip("-").replace("_", "-")
    known = _names()
    if flag in aliases:
        return aliases[flag]
    if flag not in known and flag.startswith("--no-") and "--" + flag.removeprefix("--no-") in known:
        return "--" + flag.removeprefix("--no-")
    return flag


def has_flag(name: str, version: str) -> bool | None:
    """Whether a release has a flag. None: the release is older than our records and they do not tell."""
    flag = canonical(name)
    span = _names().get(flag)
    if span is None:
        entry = find_flag(flag)
        return None if entry is not None and entry.gone and version_key(version) < version_key(entry.gone) else False
    return _within(span, version)


def flag_names(version: str) -> tuple[str, ...]:
    """Every flag of a release, sorted; those of the newest recorded one for releases after it."""
    return tuple(sorted(name for name, span in _names().items() if _within(span, version) is not False))


def recorded_versions() -> tuple[str, ...]:
    """The releases whose flags were read, oldest first."""
    return tuple(read_index_flags()["versions"])


def flag_values(name: str, version: str) -> tuple[str, ...]:
    """The values that a release takes for a flag (parsers, number formats); empty where they are not recorded."""
    known: dict[str, list[str]] = read_index_flags()["values"].get(canonical(name), {})
    return tuple(sorted(value for value, span in known.items() if _within(span, version) is not False))


def value_since(name: str, value: str) -> str | None:
    """The first release that takes a value for a flag; None where it is not recorded, or as old as the records."""
    return _since(read_index_flags()["values"].get(canonical(name), {}).get(value, []))


def nearest_flags(name: str, version: str, count: int = 3) -> tuple[str, ...]:
    """Flags of a release that a name may have meant, likeliest first."""
    wanted = canonical(name)
    return tuple(difflib.get_close_matches(wanted, flag_names(version), n=count, cutoff=0.6))


def check_flags(flags: Iterable[tuple[str, str | None]], version: str) -> tuple[Problem, ...]:
    """What a release would refuse of (flag, value) pairs; a switch has the value None.

    Codes: bad-cli-argument (no such flag), flag-gone, flag-not-yet, flag-value. A release newer than our records may
    have flags that we do not know: there an unknown flag is a warning.
    """
    problems = []
    given = list(flags)
    # A plugin brings a parser of its own, under a name that no record can hold.
    open_ended = {_PLUGINS[flag] for flag in (canonical(name) for name, _ in given) if flag in _PLUGINS}
    for name, value in given:
        problem = _check_name(name, version)
        if problem is None and value is not None and canonical(name) not in open_ended:
            problem = _check_value(name, value, version)
        if problem is not None:
            problems.append(problem)
    return tuple(problems)


def _check_name(name: str, version: str) -> Problem | None:
    flag = canonical(name)
    if has_flag(flag, version) is not False:
        return None
    span = _names().get(flag)
    entry = find_flag(flag)
    saw = (t("vLLM {version} has no flag {flag}", version=version, flag=flag),)
    if span is not None and version_key(version) < version_key(span[0]):
        variable = entry.environment if entry else ""
        return Problem(
            "flag-not-yet",
            t("vLLM {version} does not have `{flag}` yet.", version=version, flag=flag),
            t("It came with vLLM {since}; an older one stops at a flag it does not know.", since=span[0]),
            saw,
            Fix(t("Set the variable `{name}` instead, or take a newer vLLM.", name=variable))
            if variable
            else Fix(t("Leave it out, or take vLLM {since} or newer.", since=span[0])),
        )
    if span is not None or (entry is not None and entry.gone):
        gone = span[1] if span is not None else entry.gone if entry else ""
        return Problem(
            "flag-gone",
            t("vLLM {version} no longer has `{flag}`.", version=version, flag=flag),
            t("It went away with vLLM {gone}; a newer one stops at a flag it does not know.", gone=gone),
            saw,
            Fix(_replacement(entry)),
        )
    near = nearest_flags(flag, version)
    unsure = version_key(version) > version_key(recorded_versions()[-1])
    return Problem(
        "bad-cli-argument",
        t("vLLM has no flag `{flag}`.", flag=flag)
        if not unsure
        else t("`{flag}` is no flag of vLLM {newest}, the newest we know.", flag=flag, newest=recorded_versions()[-1]),
        t("vLLM stops at a flag that it does not know, after half a minute of loading its own code."),
        saw,
        Fix(
            t("Did you mean {names}?", names=t(" or ").join(f"`{n}`" for n in near))
            if near
            else t("See `vllm serve --help=all`.")
        ),
        severity="warning" if unsure else "error",
    )


def _check_value(name: str, value: str, version: str) -> Problem | None:
    if "." in name.strip("-"):
        return None  # one key of a JSON flag; only vLLM itself knows its keys
    flag = canonical(name)
    entry = find_flag(flag)
    choices = flag_values(flag, version) or (entry.choices if entry else ())
    if choices and value not in choices:
        near = difflib.get_close_matches(value, choices, n=3, cutoff=0.5)
        since = value_since(flag, value)
        return _bad_value(
            flag,
            value,
            t("`{value}` came with vLLM {since}", value=value, since=since)
            if since and version_key(version) < version_key(since)
            else t("vLLM {version} takes: {names}", version=version, names=", ".join(choices)),
            t("Did you mean {names}?", names=t(" or ").join(f"`{n}`" for n in near)) if near else "",
        )
    if entry is None:
        return None
    for special, since in entry.values_since:
        if value == special:
            if version_key(version) < version_key(since):
                return _bad_value(flag, value, t("`{value}` came with vLLM {since}", value=value, since=since), "")
            return None
    return _check_number(entry, value)


def _check_number(entry: FlagEntry, value: str) -> Problem | None:
    if entry.kind in ("length", "count", "size"):
        # max_model_len also takes -1 (the same as auto), hence the sign.
        if _COUNT.fullmatch(value.lstrip("-") if entry.kind == "length" else value):
            return None
        return _bad_value(entry.name, value, t("it takes a whole number, also as 64k (64000) or 64K (65536)"), "")
    if entry.kind not in ("int", "float"):
        return None
    try:
        number = int(value) if entry.kind == "int" else float(value)
    except ValueError:
        return _bad_value(
            entry.name, value, t("it takes a whole number") if entry.kind == "int" else t("it takes a number"), ""
        )
    below = entry.minimum is not None and number < entry.minimum
    above = entry.maximum is not None and number > entry.maximum
    if below or above or number != number:
        least = "" if entry.minimum is None else f"{entry.minimum:g}"
        most = "" if entry.maximum is None else f"{entry.maximum:g}"
        return _bad_value(entry.name, value, t("it takes {least} to {most}", least=least, most=most or "…"), "")
    return None


def _bad_value(flag: str, value: str, saw: str, fix: str) -> Problem:
    return Problem(
        "flag-value",
        t("`{flag}` does not take `{value}`.", flag=flag, value=value),
        t("vLLM checks each value before it loads, and stops at one that it cannot use."),
        (saw,),
        Fix(fix or t("Choose another value, or leave the flag out for vLLM's own choice.")),
    )


def _replacement(entry: FlagEntry | None) -> str:
    if entry is not None and entry.renamed_to:
        return t("Write `{flag}` instead, with the same value.", flag=entry.renamed_to)
    if entry is not None and entry.instead:
        return t(entry.instead)
    return t("Leave it out.")


@cache
def read_index_flags() -> dict[str, Any]:
    """The recorded names, aliases and values of vLLM's releases."""
    table: dict[str, Any] = read_index("vllm_flags")
    return table


def _names() -> dict[str, list[str]]:
    names: dict[str, list[str]] = read_index_flags()["flags"]
    return names


def _since(span: list[str]) -> str | None:
    """The first release that has it, unless that is merely the oldest that was read."""
    return span[0] if span and span[0] != recorded_versions()[0] else None


def _within(span: list[str], version: str) -> bool | None:
    key = version_key(version)
    oldest = version_key(recorded_versions()[0])
    if key < oldest:
        # Older than the records: what came later is not there; of the rest we cannot tell.
        return None if version_key(span[0]) == oldest else False
    return version_key(span[0]) <= key and (len(span) == 1 or key < version_key(span[1]))
