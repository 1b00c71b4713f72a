"""Which proxy the environment sends a URL through, by the rules that curl, Python's and Rust's clients share.

Lower case wins over upper case. `NO_PROXY` holds host names (a suffix of whole labels matches too), addresses, networks
(`10.0.0.0/8`), `host:port`, or `*`. An entry with a scheme, a path or a `*` inside matches nothing.
"""

from __future__ import annotations

import ipaddress
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


def entry_matches(entry: str, host: str, port: int | None) -> bool:
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
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit() and ":" not in name.strip("[]"):
        if port is not None and int(number) != port:
            return False
        entry = name
    entry = entry.strip("[]").removeprefix("*.").lstrip(".")
    return bool(entry) and "*" not in entry and (host == entry or host.endswith("." + entry))


def route(url: str, env: Mapping[str, str]) -> Route:
    """The way to the URL. A URL or a port that does not parse goes straight."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
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
        if entry_matches(entry, parts.hostname, port):
            return Route(variable=name, bypass=entry)
    value = env[name].strip()
    return Route(value if "://" in value else f"http://{value}", name, unmatched=entries)
