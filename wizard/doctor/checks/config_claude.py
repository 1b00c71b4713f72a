"""Claude Code's own files and variables: which of them wins, and which key goes where.

Facts as seen with Claude Code 2.1.332: the `env` block of the settings wins over the shell's environment; a project's
personal settings win over its shared ones, those over the user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wizard.doctor.causes import found
from wizard.doctor.client_files import Parsed, endpoint_in, host_of, path_of, read_parsed, shown, weigh
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.observations import Observations
from wizard.i18n import t
from wizard.problems import Problem
from wizard.secret import Secret

_KEYS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
_WATCHED = ("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", *_KEYS)
_OWN_HOSTS = re.compile(r"(?:^|\.)(?:anthropic\.com|claude\.ai)$")


@dataclass(frozen=True, slots=True)
class _Value:
    value: str
    where: str
    from_file: bool


def _layers(seen: Observations) -> tuple[Parsed, ...]:
    """The settings files, the strongest first."""
    return (
        read_parsed(seen, "claude-code", "settings.local.json", "json", "project"),
        read_parsed(seen, "claude-code", ".claude/settings.json", "json", "project"),
        read_parsed(seen, "claude-code", ".claude/settings.local.json", "json"),
        read_parsed(seen, "claude-code", ".claude/settings.json", "json"),
        read_parsed(seen, "claude-code", ".claude.json", "json"),
    )


def _all_values(seen: Observations, name: str) -> list[_Value]:
    """Every place that sets a variable, the winning one first."""
    values = []
    for layer in _layers(seen):
        value = layer.table("env").get(name)
        if isinstance(value, str | int | float) and str(value):
            values.append(_Value(str(value), f"{layer.path}: env.{name}", True))
    shell = seen.variable(name)
    if shell:
        values.append(_Value(shell, f"${name}", False))
    return values


def _value(seen: Observations, name: str) -> _Value | None:
    return next(iter(_all_values(seen, name)), None)


def _login(seen: Observations) -> str:
    """Where a claude.ai login is stored, or empty."""
    credentials = read_parsed(seen, "claude-code", ".credentials.json", "json")
    if credentials.table("claudeAiOauth").get("accessToken"):
        return credentials.path
    return ""


def _used(seen: Observations) -> bool:
    files = any(file.client == "claude-code" for file in seen.files)
    return files or any(seen.variable(name) for name in _WATCHED)


def claude_files(seen: Observations) -> Verdict:
    """Whether Claude Code reads its files at all: it drops a whole file for one comment."""
    layers = [layer for layer in _layers(seen) if layer.there]
    if not layers:
        return Unseen(t("Claude Code has no settings here"))
    return weigh(seen, "claude-code", *(layer.problem for layer in layers if layer.problem))


def claude_auth(seen: Observations) -> Verdict:
    """Whether Claude Code has one key, and the right one, for its base URL."""
    if not _used(seen):
        return Unseen(t("Claude Code is not set up here"))
    return weigh(seen, "claude-code", *_auth(seen))


def _auth(seen: Observations) -> Iterator[Problem]:
    token, key = (_value(seen, name) for name in _KEYS)
    login = _login(seen)
    base = _value(seen, "ANTHROPIC_BASE_URL")
    host = host_of(base.value) if base else ""
    helper = any(layer.text("apiKeyHelper") for layer in _layers(seen))
    if token and key:
        same = token.value.strip() == key.value.strip()
        yield found(
            "auth-conflict-env",
            t("Claude Code has both ANTHROPIC_AUTH_TOKEN and ANTHROPIC_API_KEY, and sends both."),
            t("{where} = {hint}", where=token.where, hint=Secret(token.value).hint),
            t("{where} = {hint}", where=key.where, hint=Secret(key.value).hint),
            severity="warning" if same or seen.probed else "error",
            fix=t("Keep ANTHROPIC_AUTH_TOKEN (sent as `Bearer`), and remove ANTHROPIC_API_KEY where it is set."),
            commands=("unset ANTHROPIC_API_KEY",) if not key.from_file else (),
        )
    elif (token or key) and login:
        given = token or key
        assert given is not None
        yield found(
            "auth-conflict-env",
            t("Claude Code has a key and a stored claude.ai login."),
            t("{where} = {hint}", where=given.where, hint=Secret(given.value).hint),
            t("login in {path}", path=login),
            severity="warning",
            fix=t("Both may stay: the key wins. To end the conflict line, log out: `/logout` in Claude Code."),
        )
    if not base or _OWN_HOSTS.search(host) or token or key or helper:
        return
    if login:
        yield found(
            "oauth-login-sent-to-server",
            t("Claude Code sends the claude.ai login to {host}: a base URL is set, and no key.", host=host),
            base.where,
            t("login in {path}", path=login),
        )
    else:
        yield found(
            "key-missing",
            t("Claude Code has a base URL and no key: it says `Not logged in` and sends nothing."),
            base.where,
            fix=t("Set ANTHROPIC_AUTH_TOKEN beside it; for a server without keys, to any word."),
        )


def claude_overrides(seen: Observations) -> Verdict:
    """Whether the settings say otherwise than the shell, which then has no effect."""
    if not _used(seen):
        return Unseen(t("Claude Code is not set up here"))
    problems = []
    for name in _WATCHED:
        values = _all_values(seen, name)
        if len(values) < 2 or not values[0].from_file:
            continue
        winner = values[0]
        for other in values[1:]:
            if _plain(other.value) == _plain(winner.value):
                continue
            secret = name in _KEYS
            problems.append(
                found(
                    "settings-override-env",
                    t("{name} of {file} wins over {other}.", name=name, file=winner.where, other=other.where),
                    f"{winner.where} = {Secret(winner.value).hint if secret else shown(winner.value)}",
                    f"{other.where} = {Secret(other.value).hint if secret else shown(other.value)}",
                    severity="warning" if seen.probed or other.from_file else "error",
                )
            )
            break
    return weigh(seen, "claude-code", *problems)


def claude_dead_override(seen: Observations) -> Verdict:
    """Whether a URL of the settings that leads nowhere won over one of the shell, which was meant to be used."""
    if seen.target is None or seen.target.client != "claude-code" or not _used(seen):
        return None
    values = _all_values(seen, "ANTHROPIC_BASE_URL")
    if len(values) < 2 or not values[0].from_file or seen.network is None or seen.network.reachable is not False:
        return None
    winner, other = values[0], next((v for v in values[1:] if _plain(v.value) != _plain(values[0].value)), None)
    if other is None or other.from_file:
        return None
    return found(
        "settings-override-env",
        t(
            "{name} of {file} wins over {other}, and nothing answers there.",
            name="ANTHROPIC_BASE_URL",
            file=winner.where,
            other=other.where,
        ),
        f"{winner.where} = {shown(winner.value)}",
        f"{other.where} = {shown(other.value)}",
    )


def _plain(value: str) -> str:
    return value.strip().rstrip("/")


def claude_url(seen: Observations) -> Verdict:
    """Whether the base URL has the form that Claude Code needs, as far as its text tells."""
    base = _value(seen, "ANTHROPIC_BASE_URL")
    if base is None:
        return Unseen(t("no base URL is set for Claude Code"))
    if seen.probed:
        return Unseen(t("the endpoint was asked"))
    path = path_of(base.value).rstrip("/")
    suffix = endpoint_in(base.value)
    if suffix:
        what = t("Claude Code's base URL ends in `{suffix}`, which it adds itself.", suffix=suffix)
        return weigh(seen, "claude-code", found("base-url-full-endpoint", what, f"{base.where} = {shown(base.value)}"))
    if path.endswith("/v1"):
        what = t("Claude Code's base URL ends in /v1, and it adds /v1/messages itself.")
        return weigh(seen, "claude-code", found("base-url-extra-v1", what, f"{base.where} = {shown(base.value)}"))
    return None


def claude_shared_key(seen: Observations) -> Verdict:
    """Whether a key stands in the project's shared settings, which are usually committed."""
    shared = read_parsed(seen, "claude-code", ".claude/settings.json", "json", "project")
    env: Mapping[str, object] = shared.table("env")
    names = [name for name in _KEYS if env.get(name)]
    if not names:
        return None
    return found(
        "key-in-shared-file",
        t("{name} stands in the project's shared settings.", name=names[0]),
        shared.path,
        severity="warning",
    )


CHECKS = (
    Check("claude-files", "Claude Code's settings are read", claude_files),
    Check("claude-auth", "Claude Code has one key for its server", claude_auth),
    Check("claude-overrides", "Claude Code's settings agree with the environment", claude_overrides),
    Check("claude-dead-override", "Claude Code's settings lead to a server", claude_dead_override, "target"),
    Check("claude-url", "Claude Code's base URL has its form", claude_url),
    Check("claude-shared-key", "No key is in a shared file", claude_shared_key),
)
