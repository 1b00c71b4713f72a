"""Gateways and servers as rows: URL forms, key page, key prefix, protocols, each with its source."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Literal, get_args
from urllib.parse import urlsplit

from wizard.endpoint.model import CAPABILITIES, Capability

# How its URLs are known: asked for real, read on the day `checked`, or recalled and still to be read.
Evidence = Literal["seen", "read", "recalled"]


@dataclass(frozen=True, slots=True)
class Preset:
    """One service or kind of server.

    openai_base_url / anthropic_base_url: the forms that its own documents give, empty or None where it does not speak
    that protocol. hosts: host names by which a URL is recognised; empty for one's own servers, whose host says nothing.
    key_prefix: how its keys begin, empty where nothing is promised. speaks: what it is documented to answer.
    """

    id: str
    title: str
    openai_base_url: str
    anthropic_base_url: str | None
    hosts: tuple[str, ...]
    key_page: str
    key_prefix: str
    key_needed: bool
    speaks: tuple[Capability, ...]
    note: str
    source: str
    evidence: Evidence
    checked: str


def _preset(name: str, text: str) -> Preset:
    row = tomllib.loads(text)
    unknown = set(row) - set(Preset.__slots__)
    words = tuple(word for word in CAPABILITIES if word in row["speaks"])
    if row["evidence"] not in get_args(Evidence) or (row["evidence"] != "recalled" and "checked" not in row):
        raise ValueError(f"preset {name}: evidence {row['evidence']}")
    if unknown or len(words) != len(row["speaks"]) or row["id"] != name:
        raise ValueError(f"preset {name}: unknown {sorted(unknown) or row['speaks']}")
    return Preset(
        id=row["id"],
        title=row["title"],
        openai_base_url=row.get("openai_base_url", ""),
        anthropic_base_url=row.get("anthropic_base_url"),
        hosts=tuple(row.get("hosts", ())),
        key_page=row.get("key_page", ""),
        key_prefix=row.get("key_prefix", ""),
        key_needed=row.get("key_needed", True),
        speaks=words,
        note=row.get("note", ""),
        source=row["source"],
        evidence=row["evidence"],
        checked=str(row.get("checked", "")),
    )


@functools.cache
def all_presets() -> tuple[Preset, ...]:
    """Every preset, by id."""
    entries = sorted(resources.files(__name__).iterdir(), key=lambda entry: entry.name)
    return tuple(
        _preset(entry.name.removesuffix(".toml"), entry.read_text(encoding="utf-8"))
        for entry in entries
        if entry.name.endswith(".toml")
    )


def find_preset(url: str) -> Preset | None:
    """The preset whose host the URL has, or None."""
    host = (urlsplit(url).hostname or "").lower()
    return next(
        (
            preset
            for preset in all_presets()
            if any(host == known or host.endswith("." + known) for known in preset.hosts)
        ),
        None,
    )
