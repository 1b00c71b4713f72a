"""Proxy variables: names that nobody reads, exceptions that match nothing, local servers behind a proxy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch

from wizard.doctor.causes import found
from wizard.doctor.checks.way import is_local, is_loopback
from wizard.doctor.client_files import host_of, shown
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.observations import Observations
from wizard.endpoint.proxies import is_malformed, no_proxy_entries, route
from wizard.i18n import t
from wizard.problems import Problem

_PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CLIENT_NAMES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
)
# Names that other programs do read and that differ by a letter from one of ours.
_REAL_NAMES = frozenset({"OPENAI_MODEL", "FTP_PROXY", "RSYNC_PROXY", "SOCKS_PROXY", "OPENAI_API_KEYS", "GO_PROXY"})
_SCHEMES = ("http", "https", "socks4", "socks5", "socks5h", "socks4a")


def edit_distance(one: str, other: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours between two words (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        older, before, row = before, row, [i] + [0] * len(other)
        for j, b in enumerate(other, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                row[j] = min(row[j], older[j - 2] + 1)
    return row[-1]


def _looks_like_proxies(name: str, value: str) -> bool:
    """Whether a proxy's address, or for a name with NO a list of exceptions, is what the variable holds."""
    if name.startswith("NO"):
        return bool(re.search(r"\blocalhost\b|\b127\.|::1|^[*.]|[\w*]\.[\w.*/-]+\s*,|,\s*[\w*]*\.\w", value))
    return bool(re.fullmatch(rf"(?:(?:{'|'.join(_SCHEMES)})://)?[^/\s]+:\d{{2,5}}/?", value.strip(), re.IGNORECASE))


def _meant_name(name: str, known: tuple[str, ...], value: str = "") -> str:
    upper = name.upper()
    if upper in _REAL_NAMES or upper in _PROXY_NAMES or upper in _CLIENT_NAMES:
        return ""
    # Two slips are still the same word where the rest says that it is about proxies: HTTP_PROTO is another.
    word = re.match(r"(?:HTTPS?|ALL|NO)_?(P(?:RO|OR|RX).*)", upper)
    most = 2 if word and (re.search("[XY]", word[1]) or _looks_like_proxies(upper, value)) else 1
    near = ((edit_distance(upper, meant), meant) for meant in known if abs(len(upper) - len(meant)) <= most)
    return min((row for row in near if row[0] <= most), default=(0, ""))[1]


def misspelt_names(seen: Observations) -> Verdict:
    """Whether a variable's name is one letter away from a name that programs read."""
    problems = []
    set_names = {name.upper() for name, value in seen.environment if value}
    for name, value in seen.environment:
        if not value:
            continue
        meant = _meant_name(name, _PROXY_NAMES, value)
        if meant:
            fix = t("Set `{meant}`, and unset `{name}`.", meant=meant, name=name)
            commands = (f'export {meant}="${name}"', f"unset {name}")
            what = t("`{name}` is set; nobody reads it. `{meant}` is probably meant.", name=name, meant=meant)
            problems.append(found("proxy-env-typo", what, name, fix=fix, commands=commands))
        elif name.upper() in _PROXY_NAMES and name not in (name.upper(), name.lower()):
            what = t("`{name}` is set; programs read it in capitals or small letters only.", name=name)
            problems.append(found("proxy-env-typo", what, name))
        else:
            meant = _meant_name(name, _CLIENT_NAMES)
            if meant and meant not in set_names:
                what = t("`{name}` is set; no client reads it. `{meant}` is probably meant.", name=name, meant=meant)
                commands = (f'export {meant}="${name}"', f"unset {name}")
                problems.append(found("client-env-typo", what, name, severity="warning", commands=commands))
    return tuple(problems)


def _urls(seen: Observations) -> Iterator[tuple[str, str]]:
    """The base URLs in play, with where they are from."""
    for target in (seen.target, *seen.targets):
        if target and target.base_url:
            yield target.base_url.strip(), target.source
    if not seen.explicit:
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"):
            value = seen.variable(name)
            if value and "://" in value:
                yield value.strip(), f"${name}"


def no_proxy_form(seen: Observations) -> Verdict:
    """Whether every entry of NO_PROXY can match a host, where a proxy makes it matter."""
    environment = dict(seen.environment)
    entries = no_proxy_entries(environment)
    if not entries:
        return Unseen(t("NO_PROXY is not set"))
    wrong = [entry for entry in entries if is_malformed(entry)]
    if not wrong:
        return None
    proxy = any(environment.get(name) or environment.get(name.lower()) for name in _PROXY_NAMES[:3])
    caught = [
        (url, where)
        for url, where in _urls(seen)
        if any(_is_meant(entry, host_of(url)) for entry in wrong) and route(url, environment).proxy
    ]
    hosts = list(dict.fromkeys(host_of(url) for url, _ in caught))
    plain = ",".join(dict.fromkeys(["localhost", "127.0.0.1", "::1", *hosts, *(e for e in entries if e not in wrong)]))
    plain = shown(plain)
    exports = (f"export NO_PROXY={plain}", f"export no_proxy={plain}")
    return found(
        "no-proxy-malformed",
        t(
            "NO_PROXY has entries that match nothing: {entries}.",
            entries=shown(", ".join(f"`{entry}`" for entry in wrong)),
        ),
        t("NO_PROXY entries: {entries}", entries=shown(", ".join(entries))),
        *(t("{url} goes to the proxy", url=shown(url)) for url, _ in caught[:2]),
        severity="error" if caught and not seen.probed else "warning" if proxy else "info",
        commands=exports,
    )


def plain_no_proxy(value: str) -> str:
    """The list as every client understands it: hosts and networks between commas; what means nothing is left out."""
    plain = []
    for entry in re.split(r"[,;\s]+", value.strip().strip("[]\"'")):
        host = entry if not is_malformed(entry) else _host_meant(entry)
        if host and not is_malformed(host):
            plain.append(host)
    return ",".join(dict.fromkeys(plain))


def _host_meant(entry: str) -> str:
    bare = (entry.partition("://")[2] or entry).partition("/")[0].strip("[]\"'")
    octets = re.fullmatch(r"((?:\d+\.){1,3})\*", bare)
    if octets:
        given = octets[1].rstrip(".").split(".")
        return ".".join([*given, *["0"] * (4 - len(given))]) + f"/{8 * len(given)}"
    return re.sub(r":\d+$", "", bare).strip("*")


def _is_meant(entry: str, host: str) -> bool:
    """Whether a broken entry was meant for the host: it holds the name, its domain, or a pattern that fits."""
    entry, host = entry.lower(), host.lower()
    if not host:
        return False
    if is_loopback(host):
        return bool(re.search(r"localhost|127\.|::1", entry))
    bare = entry.partition("://")[2] or entry
    domain = ".".join(host.split(".")[-2:]) if not host.replace(".", "").isdigit() else host
    return host in entry or domain in entry or any(fnmatch(host, part) for part in re.split(r"[\s;]+", bare) if part)


def local_past_proxy(seen: Observations) -> Verdict:
    """Whether requests to a local server would go to a proxy. Where the endpoint was asked, its answers say more."""
    environment = dict(seen.environment)
    if seen.probed:
        return Unseen(t("the endpoints were asked"))
    problems: dict[str, Problem] = {}
    for url, where in _urls(seen):
        host = host_of(url)
        way = route(url, environment)
        if not host or not is_local(host) or way.proxy is None or host in problems:
            continue
        if any(is_malformed(entry) and _is_meant(entry, host) for entry in way.unmatched):
            continue  # Told by `no_proxy_form`, which knows more.
        proxy = shown(way.proxy)
        problems[host] = found(
            "proxy-env-captures-local",
            t("Requests to {host} go to the proxy of ${variable}.", host=host, variable=way.variable),
            t(
                "{variable}={proxy} applies to {url} ({where})",
                variable=way.variable,
                proxy=proxy,
                url=shown(url),
                where=where,
            ),
            commands=(
                f"export NO_PROXY=localhost,127.0.0.1,::1,{host}",
                f"export no_proxy=localhost,127.0.0.1,::1,{host}",
            ),
        )
    return tuple(problems.values())


def proxy_form(seen: Observations) -> Verdict:
    """Whether the proxies' own URLs have a scheme that clients understand."""
    problems = []
    for name, value in seen.environment:
        if name.upper() not in _PROXY_NAMES[:3] or not value.strip():
            continue
        scheme, separator, _ = value.strip().partition("://")
        text = shown(value.strip())
        if not separator or scheme.lower() not in _SCHEMES:
            what = t("`{name}` has no scheme that clients know: `{value}`.", name=name, value=text)
        elif value != value.strip() or re.search(r"[\"'\s]", value):
            what = t("`{name}` has blanks or quotes in it.", name=name)
        else:
            continue
        problems.append(found("proxy-env-malformed", what, f"{name}={text}", severity="warning"))
    return tuple(problems)


CHECKS = (
    Check("names", "Variables' names are right", misspelt_names),
    Check("no-proxy", "NO_PROXY's entries can match", no_proxy_form),
    Check("local-proxy", "Local servers are asked without a proxy", local_past_proxy),
    Check("proxy-form", "Proxies' addresses have a known form", proxy_form),
)
