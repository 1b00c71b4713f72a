"""What an error text means that a client showed: candidates, the likeliest first, and the probe that would decide.

The texts are rows of `error_texts.toml`. Several misled people for hours: Claude Code blames the model for a wrong URL,
Codex speaks of high demand for any 500, and SDKs say `Connection error` for a key with a line end.
"""

from __future__ import annotations

import html
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from wizard.doctor.causes import found
from wizard.doctor.observations import Context
from wizard.doctor.symptoms import CODES, family_of_words
from wizard.i18n import t
from wizard.problems import Fix, Problem
from wizard.secret import redact

# A longer text is a whole log or page; what matters stands at its beginning or its end.
_MAX_CHARACTERS = 20_000
_SAW_CHARACTERS = 240


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cause that the text may have. when: a condition without which it does not count."""

    code: str
    what: str
    probe: str
    ask: tuple[str, ...]
    when: str


@dataclass(frozen=True, slots=True)
class ErrorText:
    """A kind of message. says: what it hides. source: who prints it. harmless: nothing is wrong.

    generic: no more than a status, or that it failed.
    """

    pattern: re.Pattern[str]
    says: str
    candidates: tuple[Candidate, ...]
    source: str
    harmless: bool = False
    generic: bool = False


@cache
def all_error_texts() -> tuple[ErrorText, ...]:
    """The table, strictest first."""
    text = resources.files("wizard.doctor").joinpath("error_texts.toml").read_text("utf-8")
    return tuple(
        ErrorText(
            re.compile(row["pattern"], re.IGNORECASE | re.MULTILINE),
            row.get("says", ""),
            tuple(
                Candidate(c["code"], c["what"], c.get("probe", ""), tuple(c.get("ask", ())), c.get("when", ""))
                for c in row["causes"]
            ),
            row["source"],
            row.get("harmless", False),
            row.get("generic", False),
        )
        for row in tomllib.loads(text)["text"]
    )


def explain_error(text: str, context: Context | None = None, url: str = "") -> tuple[Problem, ...]:
    """What the text means: the likeliest cause with severity error, other candidates as warnings; empty: unknown.

    context: where the client ran, which decides what `localhost` meant. url: where the client was pointed, for a text
    that names no host. A text out of a server's log is judged as one.
    """
    text = _readable(text)
    usual: tuple[Problem, ...] = ()
    for whole in dict.fromkeys((text, " ".join(text.split()), re.sub(r"\n\s*", "", text))):
        known = next(((row, match) for row in all_error_texts() if (match := row.pattern.search(whole))), None)
        if known is not None and not known[0].generic:
            return _explain(*known, whole, context, url)
        if known is not None and whole == text:
            usual = _explain(*known, text, context, url)
    from wizard.serving.deaths import judge_log

    # That something failed at a server's start is no explanation of a client's text.
    told = tuple(problem for problem in judge_log(text.splitlines()) if problem.code != "startup-failed")
    if any(problem.severity == "error" for problem in told):
        return told
    said = _said_by_server(text)
    if said is None:
        return usual or told
    others = (problem for problem in usual if problem.code != said.code)
    return (said, *(replace(problem, severity="warning") for problem in others))


_STATUS = re.compile(
    r"(?:status|code|error|HTTP(?:/[\d.]+)?|^)\W{0,4}(?:code\W{0,3})?([45]\d\d)\b", re.IGNORECASE | re.MULTILINE
)
# Rows for certain statuses are not meant for prose that names none.
_NO_STATUS = 0
# What a text out of context does not tell: these are many things, and rows of the table that say so know more.
_UNTOLD = ("waf", "not-ready", "gateway-timeout", "auth", "server-error", "other")


def _said_by_server(text: str) -> Problem | None:
    """What a server's own words in the text say, by the table that its replies are judged with."""
    status = _STATUS.search(text)
    family = family_of_words(text, int(status[1]) if status else _NO_STATUS)
    if family is None or family in _UNTOLD or family not in CODES:
        return None
    return found(CODES[family], t("The server says so: {text}", text=redact(" ".join(text.split()))[:160]))


def _explain(row: ErrorText, match: re.Match[str], text: str, context: Context | None, url: str) -> tuple[Problem, ...]:
    values = {name: value for name, value in match.groupdict().items() if value is not None}
    holds = _conditions(text, context, url)
    candidates = [c for c in row.candidates if not c.when or c.when in holds]
    # A condition that holds is knowledge of this very case: it goes before what is merely usual.
    candidates.sort(key=lambda c: not c.when or c.when.startswith("maybe-"))
    saw = _excerpt(text, match)
    problems = []
    for place, candidate in enumerate(candidates):
        problem = found(
            candidate.code,
            _fill(candidate.what, values),
            saw if place == 0 else "",
            severity="info" if row.harmless else "error" if place == 0 else "warning",
            why=t(row.says) if row.says and place == 0 else "",
            commands=candidate.ask,
        )
        problems.append(_with_probe(problem, candidate))
    return tuple(problems)


def _with_probe(problem: Problem, candidate: Candidate) -> Problem:
    if not candidate.probe or problem.fix is None:
        return problem
    text = t("{fix} To be sure: {probe}", fix=problem.fix.text, probe=t(candidate.probe)).strip()
    return replace(problem, fix=Fix(text, problem.fix.commands, problem.fix.automatic))


def _fill(template: str, values: Mapping[str, str]) -> str:
    try:
        return t(template).format(**values)
    except (KeyError, IndexError, ValueError):
        return t(template)


_LOOPBACK = re.compile(r"\blocalhost\b|\b127(?:\.\d+){3}\b|\[?::1\]?|\b0\.0\.0\.0\b", re.IGNORECASE)
_IPV6_LOOPBACK = re.compile(r"(?<![\w:])\[?::1\]?(?=$|[^\w:]|:\d)")
_IPV4_LOOPBACK = re.compile(r"(?:ECONNREFUSED|connect(?:ion)?|dial tcp|address).{0,40}127\.0\.0\.1", re.IGNORECASE)


_NAMES_A_HOST = re.compile(r"https?://|\b\d+\.\d+\.\d+\.\d+\b|\blocalhost\b|::1|host\.docker\.internal", re.IGNORECASE)
_PLACE = re.compile(
    r"(?:https?://)?\[?([\w.-]+|::1)\]?:(\d{2,5})\b|host='([\w.-]+)', port=(\d+)|to ([\w.-]+) port (\d+)"
)
# Addresses that a container or a virtual machine has for its host.
_HOST_OF_CONTAINERS = re.compile(
    r"host\.docker\.internal|172\.(?:1[7-9]|2\d|3[01])\.\d+\.1|192\.168\.65\.\d+|10\.0\.2\.2"
)
# Ports of servers that listen on loopback only, unless told otherwise: Ollama, LM Studio, llama.cpp, Jan.
_LOOPBACK_BY_DEFAULT = frozenset({"11434", "1234", "8080", "1337"})


def _conditions(text: str, context: Context | None, url: str) -> frozenset[str]:
    names_no_host = not _NAMES_A_HOST.search(text)
    told_of = f"{text} {url}" if names_no_host else text
    loopback = bool(_LOOPBACK.search(told_of))
    holds = {"loopback"} if loopback else set()
    if "host.docker.internal" in text:
        holds.add("docker-name")
    bound = re.search(r"running on https?://(?:127\.0\.0\.1|localhost)", text, re.IGNORECASE)
    if (bound and not _LOOPBACK.search(url or "localhost")) or (not loopback and _at_an_address_of_the_host(told_of)):
        holds.add("other-address")
    # Where 127.0.0.1 was refused as well, the address family is not what is wrong.
    ipv6 = bool(_IPV6_LOOPBACK.search(text)) and not _IPV4_LOOPBACK.search(text)
    in_wsl = bool(re.search(r"\bWSL ?2?\b", text))
    if context is not None:
        in_wsl = in_wsl or context.in_wsl
        if context.assumed == "container" and (loopback or names_no_host):
            holds.add("container")
        elif context.in_container and loopback and not ipv6:
            # The text may be from elsewhere than the doctor, and the server in the same container.
            holds.add("maybe-container")
    if in_wsl and loopback and "container" not in holds and (not ipv6 or (context and context.assumed == "wsl")):
        holds.add("wsl")
    if ipv6 and not holds & {"container", "wsl"}:
        holds.add("ipv6")
    return frozenset(holds)


def _at_an_address_of_the_host(text: str) -> bool:
    """Whether the refused place is a machine that serves itself, as far as its address or its port tells."""
    for match in _PLACE.finditer(text):
        host, port = match[1] or match[3] or match[5], match[2] or match[4] or match[6]
        if _HOST_OF_CONTAINERS.fullmatch(host):
            return True
        if port in _LOOPBACK_BY_DEFAULT and re.fullmatch(r"(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.[\d.]+", host):
            return True
    return False


_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_ESCAPED = re.compile(r"\\u(?!d[89a-f])([0-9a-f]{4})", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:lt|gt|quot|amp|#\d{2,5});")


def _readable(text: str) -> str:
    """Without colours, and with what JSON and HTML escaped as it was written."""
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), _ANSI.sub("", text))
    if _ENTITY.search(text):
        text = html.unescape(text)
    if len(text) > _MAX_CHARACTERS:
        text = text[: _MAX_CHARACTERS // 2] + "\n" + text[-_MAX_CHARACTERS // 2 :]
    return text.replace('\\"', '"')


def _excerpt(text: str, match: re.Match[str]) -> str:
    """The line of the match, without keys, cut around it: a key that is cut first is no longer known as one."""
    begin = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    before = redact(text[begin : match.start()].lstrip())
    line = redact(text[begin : end if end >= 0 else len(text)].strip())
    if len(line) > _SAW_CHARACTERS:
        at = max(0, len(before) - _SAW_CHARACTERS // 3)
        line = ("…" if at else "") + line[at : at + _SAW_CHARACTERS] + "…"
    return line
