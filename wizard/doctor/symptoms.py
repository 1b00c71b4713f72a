"""What an error reply is about: families of words that servers and gateways use (symptoms.toml).

A family is a cause by itself only where its words are unmistakable; for the others (`auth`, `path`, `model`, ...) the
checks compare several probes before they name one.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, cast

from wizard.doctor.bodies import Body
from wizard.endpoint.exchange import HttpReply

Family = Literal[
    "waf",
    "no-channel",
    "credits",
    "key-format",
    "upstream-auth",
    "auth",
    "rate",
    "rate-upstream",
    "overloaded",
    "provider-prefix",
    "tools-off",
    "tool-type",
    "max-tokens",
    "context",
    "no-template",
    "developer-role",
    "no-system-role",
    "role-order",
    "content-parts",
    "not-multimodal",
    "beta-fields",
    "parameter",
    "schema",
    "azure",
    "model",
    "path",
    "not-ready",
    "gateway-timeout",
    "proxy-auth",
    "region",
    "client-gave-up",
    "server-error",
    "other",
]


@dataclass(frozen=True, slots=True)
class Row:
    """Words of one family. statuses: where given, only with these."""

    family: Family
    words: re.Pattern[str]
    statuses: frozenset[int]


@dataclass(frozen=True, slots=True)
class Words:
    """symptoms.toml, compiled."""

    rows: tuple[Row, ...]
    path: re.Pattern[str]
    waf_page: re.Pattern[str]
    waf_server: re.Pattern[str]
    gateway_timeout: re.Pattern[str]


def _compile(words: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(words), re.IGNORECASE | re.DOTALL)


@cache
def _words() -> Words:
    table = tomllib.loads(files("wizard.doctor").joinpath("symptoms.toml").read_text(encoding="utf-8"))
    rows = tuple(
        Row(cast(Family, row["family"]), _compile(row["words"]), frozenset(row.get("statuses", ())))
        for row in table["row"]
    )
    named = {name: _compile(table[name]["words"]) for name in ("path", "waf_page", "waf_server", "gateway_timeout")}
    return Words(rows, **named)


_MAX_WORDS_CHARACTERS = 4_000


def family_of(reply: HttpReply, body: Body) -> Family:
    """What the error reply is about. Call it for replies that are no usable answer."""
    words, status = _words(), reply.status
    text = _said(body)
    if status == 407:
        return "proxy-auth"
    if is_waf(reply, body):
        return "waf"
    if status in (504, 524, 522, 408, 598) or (status >= 500 and words.gateway_timeout.search(text)):
        return "gateway-timeout"
    if is_path_error(reply, body):
        return "path"
    if body.form == "html":
        by_status: dict[int, Family] = {401: "auth", 403: "auth", 429: "rate", 402: "credits"}
        if status in by_status:
            return by_status[status]
    else:
        for row in words.rows:
            if (not row.statuses or status in row.statuses) and row.words.search(text):
                return row.family
    if status == 422 or _is_schema(body):
        return "schema"
    if status in (502, 503, 521, 523, 530):
        return "not-ready"
    return "server-error" if status >= 500 else "other"


# What any refusal is called, whatever it is about: its `invalid` says nothing.
_ANY_REFUSAL = re.compile(r"invalid_request_error|BadRequestError|INVALID_ARGUMENT")
_BLOCKED = re.compile(r"request (?:was|has been) (?:blocked|rejected)|you have been blocked|blocked by", re.IGNORECASE)


def _said(body: Body) -> str:
    text = body.error.text if body.error and body.error.text else body.text
    return _ANY_REFUSAL.sub("", text[:_MAX_WORDS_CHARACTERS])


def _is_schema(body: Body) -> bool:
    """FastAPI's list of `loc` and `msg`."""
    detail = body.value.get("detail") if isinstance(body.value, dict) else None
    return isinstance(detail, list) and bool(detail) and isinstance(detail[0], dict) and "loc" in detail[0]


def is_path_error(reply: HttpReply, body: Body) -> bool:
    """Whether the reply says that nothing is served at this path (as opposed to: no such model)."""
    if reply.status in (405, 501):
        return True
    if reply.status == 404 and body.error is None and body.form != "answer":
        return not _names_model(body.text[:_MAX_WORDS_CHARACTERS]) or body.form in ("html", "empty")
    if body.form == "answer":
        return False
    said = _said(body)
    if any(row.family == "azure" and row.words.search(said) for row in _words().rows):
        return False
    message = (body.error.message if body.error else body.text)[:_MAX_WORDS_CHARACTERS]
    code = body.error.code if body.error else ""
    if _names_model(message) or not (_words().path.search(message) or _words().path.search(code)):
        return False
    return reply.status == 404 or (body.form == "error" and reply.status in (200, 400, 403, 500))


def _names_model(message: str) -> bool:
    return bool(re.search(r"\bmodels?\b(?!/)|模型|deployment", message, re.IGNORECASE)) and not re.search(
        r"/models\b", message
    )


def is_waf(reply: HttpReply, body: Body) -> bool:
    """Whether a firewall in front answered instead of the API."""
    words, page = _words(), body.text[:_MAX_WORDS_CHARACTERS]
    if reply.header("x-amzn-waf-action") or reply.header("cf-mitigated"):
        return True
    if body.form == "error" and reply.status == 403 and _BLOCKED.search(page):
        return True
    if body.form not in ("html", "text"):
        return False
    if reply.status == 403 and body.form == "html":
        return True  # An API refuses a key in JSON; a page with 403 comes from something in front of it.
    if reply.status in (403, 405, 406, 418, 493):
        named = words.waf_server.search(reply.header("server")) or reply.header("cf-ray")
        return bool(words.waf_page.search(page) or (named and reply.status == 403))
    if reply.status in (429, 503) or (reply.status == 200 and reply.header("cf-ray")):
        not_ready = any(row.family == "not-ready" and row.words.search(page) for row in words.rows)
        return bool(words.waf_page.search(page)) and not not_ready
    return False
