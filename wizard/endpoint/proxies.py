"""Which proxy the environment sends a URL through, by the rules that curl, Python's and Rust's clients share.

Lower case wins over upper case. `NO_PROXY` holds host names (a suffix of whole labels matches too), addresses,
networks (`10.0.0.0/8`) or `*`. An entry with a scheme, a path, blanks or a `*` inside matches nothing; one with a port
matches in Go and in Python's requests, and not in curl or Rust's reqwest, so it counts as no match.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Route:
    """proxy: its URL, with user and password where given; None: straight. variable: which named it.

    bypass: the NO_PROXY entry that keeps the URL from it. unmatched: the entries that were no match.
    """

    proxy: str | None = None
    variable: str = ""
    bypass: str = ""
    unmatched: tuple[str, ...] = ()


def no_proxy_entries(env: Mapping[str, str]) -> tuple[str, ...]:
    """The entries of NO_PROXY, as they stand between the commas, without blanks around them."""
    value = env.get("no_proxy") or env.get("NO_PROXY") or ""
    return tuple(entry.strip() for entry in value.split(",") if entry.strip())


_NAME_ENTRY = re.compile(r"(?:\*\.|\.)?[\w.-]+")


def is_malformed(entry: str) -> bool:
    """Whether the entry has a form that not every client matches: a scheme, path, port, blanks, or a `*` inside."""
    if entry in ("*", "<local>") or _NAME_ENTRY.fullmatch(entry):
        return False
    try:
        ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return True
    return False


def entry_matches(entry: str, host: str) -> bool:
    """Whether one NO_PROXY entry covers the host."""
    host = host.strip("[]").lower()
    entry = entry.lower()
    if entry == "*":
        return True
    if "://" in entry:
        return False
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass  # a name on one of the two sides
    entry = entry.strip("[]").removeprefix("*.").lstrip(".")
    return bool(entry) and "*" not in entry and (host == entry or host.endswith("." + entry))


def route(url: str, env: Mapping[str, str]) -> Route:
    """The way to the URL. A URL or a port that does not parse goes straight."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return Route()
    name = next(
        (
            name
            for base in (f"{parts.scheme}_proxy", "all_proxy")
            for name in (base, base.upper())
            if env.get(name, "").strip()
        ),
        "",
    )
    if not name or not parts.hostname:
        return Route()
    entries = no_proxy_entries(env)
    for entry in entries:
        if entry_matches(entry, parts.hostname):
            return Route(variable=name, bypass=entry)
    value = env[name].strip()
    return Route(value if "://" in value else f"http://{value}", name, unmatched=entries)
