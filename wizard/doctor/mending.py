"""What the doctor can mend by itself, and how: a client's triple, a profile, a server's flags, a shell's lines.

Only what the probes proved to work is written into clients and profiles. What cannot be proved beforehand (a server's
other flag) is tried by the flow, and taken back where it did not help.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from wizard.catalog.arguments import flag_value
from wizard.catalog.models import find_model
from wizard.doctor.checks.env_proxy import plain_no_proxy
from wizard.doctor.checks.way import is_loopback
from wizard.doctor.client_files import host_of, is_for_one_command
from wizard.doctor.listing import nearest
from wizard.doctor.manners import model_on_the_wire
from wizard.doctor.observations import ClientFile, Observations, ServerSeen
from wizard.doctor.reach import Reach, judge_reach
from wizard.endpoint.model import Endpoint, Profile
from wizard.endpoint.urls import without_version
from wizard.problems import Problem
from wizard.serving.deaths import FlagChange, Remedy

# Room to work in beside the prompt, and the step in which windows are usually given.
_ROOM_TOKENS = 4_096
_WINDOW_STEP_TOKENS = 8_192
_KEY_CODES = frozenset({"key-invalid", "key-missing", "key-wrong-provider", "key-placeholder"})


@dataclass(frozen=True, slots=True)
class Mend:
    """A better triple for one client. codes: the findings that it mends."""

    client: str
    endpoint: Endpoint
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfileMend:
    """A profile as it should be."""

    before: Profile
    after: Profile
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerMend:
    """Flags for a server of our own. remedy: the change; empty: the server is only to be started again."""

    server: str
    remedy: Remedy
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileMend:
    """A shell's start-up file with better lines."""

    path: str
    before: str
    after: str
    codes: tuple[str, ...]


def plan_mend(seen: Observations, findings: Iterable[Problem]) -> Mend | None:
    """The triple that the probes proved, or None where no finding of this endpoint can be mended so.

    Only what was seen to answer is written: the base at which the protocol is served, the nearest served model. Where
    the server is our own and the key is what is wrong, its own key is written.
    """
    target = seen.target
    if target is None or not target.client or target.profile or target.source.startswith("--"):
        return None
    findings = tuple(findings)
    codes = tuple(finding.code for finding in findings if finding.fix and finding.fix.automatic)
    reach = judge_reach(seen)
    own = own_server(seen)
    wrong_key = tuple(f.code for f in findings if f.code in _KEY_CODES and f.severity == "error")
    key = own.key if own is not None and own.alive and own.key and wrong_key and reach.base is not None else None
    better = _better(seen, reach)
    if key is None and (not codes or better is None):
        return None
    base, model = better or ((reach.base or target.base_url).rstrip("/"), target.model)
    if key is not None and own is not None:
        model = own.served_name or model
    messages = target.wire == "messages"
    endpoint = Endpoint(
        name=target.client,
        openai_base_url=f"{base}/v1" if messages else base,
        anthropic_base_url=base if messages else without_version(base),
        model=model,
        key=key or target.key,
        max_model_len=reach.window(model),
    )
    return Mend(target.client, endpoint, (*codes, *(wrong_key if key else ())))


def _better(seen: Observations, reach: Reach) -> tuple[str, str] | None:
    """(base, model) that answer, where they are others than the target's."""
    target = seen.target
    assert target is not None
    if reach.base is None or reach.best is None or reach.best.grade not in ("works", "answers"):
        return None
    sent = model_on_the_wire(target.client, target.model)
    model = target.model
    if reach.model_ids and sent not in reach.model_ids:
        model = nearest(sent, reach.model_ids) or target.model
    base = reach.base.rstrip("/")
    return None if base == target.base_url and model == target.model else (base, model)


def plan_profile_mend(
    seen: Observations, findings: Iterable[Problem], profiles: Mapping[str, Profile]
) -> ProfileMend | None:
    """The profile from which this endpoint was read, with the base and the model that answered."""
    target = seen.target
    codes = tuple(finding.code for finding in findings if finding.fix and finding.fix.automatic)
    if target is None or not codes or target.profile not in profiles:
        return None
    reach = judge_reach(seen)
    better = _better(seen, reach)
    if better is None:
        return None
    before = profiles[target.profile]
    base, model = better
    bare = base if target.wire == "messages" else without_version(base)
    openai = f"{base}/v1" if target.wire == "messages" else base
    after = replace(
        before,
        openai_base_url=openai,
        anthropic_base_url=bare if before.anthropic_base_url else before.anthropic_base_url,
        model=model,
        max_model_len=reach.window(model) or before.max_model_len,
    )
    return ProfileMend(before, after, codes) if after != before else None


# ---- servers of our own ------------------------------------------------------------------------------------------


def own_server(seen: Observations) -> ServerSeen | None:
    """The server of our own at the target's address, alive or not, of which the record is still there."""
    target = seen.target
    if target is None or seen.network is None or not is_loopback(host_of(target.base_url)):
        return None
    return next((s for s in seen.servers if s.port == seen.network.port and s.log), None)


def plan_server_mend(seen: Observations, findings: Iterable[Problem]) -> ServerMend | None:
    """What our own server should be started with, so that this client's requests are taken."""
    server = own_server(seen)
    errors = {finding.code for finding in findings if finding.severity == "error"}
    if server is None or not errors:
        return None
    if not server.alive:
        # Its log says what to change; the flow reads the remedies from there.
        told = errors & {"server-not-ready", *(finding.code for finding in server.log_findings)}
        return ServerMend(server.name, Remedy(), tuple(sorted(told))) if told else None
    changes = [*_tool_flags(server, errors), *_window_flags(seen, errors)]
    codes = tuple(code for code in _MENDED_BY_FLAGS if code in errors)
    return ServerMend(server.name, Remedy(tuple(changes)), codes) if changes else None


_MENDED_BY_FLAGS = (
    "tool-choice-not-enabled",
    "tool-parser-mismatch",
    "context-length-exceeded",
    "max-tokens-too-large",
)


def _tool_flags(server: ServerSeen, errors: set[str]) -> Iterator[FlagChange]:
    entry = find_model(server.model) or find_model(server.served_name)
    parser = entry.tool_parser if entry is not None else None
    if not errors & {"tool-choice-not-enabled", "tool-parser-mismatch"} or not parser:
        return
    if flag_value(server.arguments, "--tool-call-parser") == parser and "tool-choice-not-enabled" not in errors:
        return
    yield FlagChange("--enable-auto-tool-choice", "")
    yield FlagChange("--tool-call-parser", parser)


def _window_flags(seen: Observations, errors: set[str]) -> Iterator[FlagChange]:
    target = seen.target
    assert target is not None
    if not errors & {"context-length-exceeded", "max-tokens-too-large"}:
        return
    wanted = max(target.context_tokens or 0, (target.prompt_tokens or 0) + (target.max_tokens or 0) + _ROOM_TOKENS)
    wanted = -(-wanted // _WINDOW_STEP_TOKENS) * _WINDOW_STEP_TOKENS
    now = judge_reach(seen).window(model_on_the_wire(target.client, target.model)) or 0
    if wanted > now:
        yield FlagChange("--max-model-len", str(wanted))


# ---- start-up files of shells ------------------------------------------------------------------------------------

_NAME = r"(?:\w*(?:API_KEY|AUTH_TOKEN|BASE_URL|API_BASE)|ANTHROPIC_MODEL|OPENAI_MODEL)"
_SPACED = re.compile(rf"^(\s*(?:export\s+)?{_NAME})\s*=[ \t]+(\S.*)$|^(\s*(?:export\s+)?{_NAME})\s+=\s*(\S.*)$")
_NOT_EXPORTED = re.compile(rf"^(\s*)({_NAME}=.*)$")
_NO_PROXY_LINE = re.compile(r"^(\s*(?:export\s+)?(?:NO_PROXY|no_proxy)=)([\"']?)(.*?)\2\s*$")


def plan_shell_mends(seen: Observations, findings: Iterable[Problem]) -> tuple[FileMend, ...]:
    """Lines of start-up files that cannot work as they stand, written so that they do; values stay as they are."""
    codes = {finding.code for finding in findings}
    mends = []
    for file in seen.files:
        if file.client != "shell" or file.text is None or not _is_posix(file):
            continue
        lines = file.text.splitlines(keepends=True)
        exported = {name for line in lines for name in re.findall(r"^\s*export\s+((?:\w+\s*)+)$", line)}
        mended = [_mended_line(line, codes, exported) for line in lines]
        done = tuple(dict.fromkeys(code for _, code in mended if code))
        if done:
            mends.append(FileMend(file.path, file.text, "".join(line for line, _ in mended), done))
    return tuple(mends)


def _is_posix(file: ClientFile) -> bool:
    return not file.path.endswith((".fish", ".ps1", ".conf", ".pam_environment"))


def _mended_line(line: str, codes: set[str], exported: set[str]) -> tuple[str, str]:
    """(the line as it should be, the code of what was wrong; empty: nothing)."""
    bare, end = line.rstrip("\r\n"), line[len(line.rstrip("\r\n")) :]
    if is_for_one_command(bare):
        return line, ""
    if "key-whitespace" in codes:
        spaced = _SPACED.match(bare)
        if spaced:
            return f"{spaced[1] or spaced[3]}={spaced[2] or spaced[4]}{end.replace(chr(13), '')}", "key-whitespace"
        if end.startswith("\r") and re.match(rf"\s*export\s+{_NAME}=", bare):
            return bare + "\n", "key-whitespace"
    if "key-env-not-visible" in codes:
        plain = _NOT_EXPORTED.match(bare)
        if plain and not any(plain[2].partition("=")[0] in names.split() for names in exported):
            return f"{plain[1]}export {plain[2]}{end}", "key-env-not-visible"
    if "no-proxy-malformed" in codes:
        listed = _NO_PROXY_LINE.match(bare)
        if listed and "$" not in listed[3]:
            better = plain_no_proxy(listed[3])
            if better != listed[3]:
                return f"{listed[1]}{listed[2]}{better}{listed[2]}{end}", "no-proxy-malformed"
    return line, ""
