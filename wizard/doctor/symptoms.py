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


# Families of refusals of a request's form, and their causes.
REQUEST_CODES: dict[Family, str] = {
    "tools-off": "tool-choice-not-enabled",
    "tool-type": "responses-tool-type-unsupported",
    "max-tokens": "max-tokens-too-large",
    "context": "context-length-exceeded",
    "no-template": "chat-template-missing",
    "developer-role": "developer-role-rejected",
    "no-system-role": "template-no-system-role",
    "role-order": "template-role-order",
    "content-parts": "content-parts-unsupported",
    "not-multimodal": "not-multimodal",
    "beta-fields": "beta-fields-rejected",
    "parameter": "unsupported-params",
    "schema": "schema-422",
}

# Families of refusals that are causes by themselves, wherever the plain request met them.
FRONT_CODES: dict[Family, str] = {
    "waf": "waf-block",
    "credits": "insufficient-credits",
    "rate": "rate-limited",
    "rate-upstream": "rate-limited-upstream",
    "overloaded": "server-overloaded",
    "provider-prefix": "litellm-provider-prefix",
    "azure": "azure-deployment-path",
    "not-ready": "server-not-ready",
    "gateway-timeout": "proxy-read-timeout",
    "client-gave-up": "client-timeout-too-short",
    "proxy-auth": "proxy-unreachable",
    "region": "region-not-supported",
}

# Every family that is a cause where one reply is all that is known; where more was asked, the checks compare.
CODES: dict[Family, str] = {
    **REQUEST_CODES,
    **FRONT_CODES,
    "auth": "key-invalid",
    "key-format": "key-format-rejected",
    "upstream-auth": "upstream-auth-failed",
    "model": "model-name-mismatch",
    "no-channel": "gateway-no-channel",
    "server-error": "server-bug-500",
    "other": "error-in-error-body",
}


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
        named = family_of_words(text, status)
        if named is not None:
            return named
    if (status == 422 and body.form != "empty") or _is_schema(body):
        return "schema"
    if status in (502, 503, 521, 523, 530):
        return "not-ready"
    if status < 500 and body.error is not None and (field := _FIELD.match(body.error.param)):
        return _BY_FIELD.get(field[0], "other")
    return "server-error" if status >= 500 else "other"


# OpenAI's errors name the field at fault, whatever their words are. What is wrong with `messages` may be anything.
_FIELD = re.compile(r"\w+")
_SETTINGS = (
    "temperature top_p top_k n seed user store metadata stop stream stream_options parallel_tool_calls response_format "
    "reasoning reasoning_effort presence_penalty frequency_penalty logprobs logit_bias include prompt_cache_key"
)
_BY_FIELD: dict[str, Family] = {
    **dict.fromkeys(_SETTINGS.split(), "parameter"),
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), "parameter"),
    "model": "model",
}


def family_of_words(text: str, status: int) -> Family | None:
    """The family of the first row whose words are in the text; None where none are."""
    rows = _words().rows
    return next((r.family for r in rows if (not r.statuses or status in r.statuses) and r.words.search(text)), None)


# What any refusal is called, whatever it is about: its `invalid` says nothing.
_ANY_REFUSAL = re.compile(r"invalid_request_error|BadRequestError|INVALID_ARGUMENT")
_BLOCKED = re.compile(r"request (?:was|has been) (?:blocked|rejected)|you have been blocked|blocked by", re.IGNORECASE)


def _said(body: Body) -> str:
    text = body.error.text if body.error and body.error.text else body.text
    return _ANY_REFUSAL.sub("", text[:_MAX_WORDS_CHARACTERS])


_MISSING = re.compile(r"'loc': \(|\b(?:field required|missing required (?:field|parameter))", re.IGNORECASE)


def _is_schema(body: Body) -> bool:
    """FastAPI's list of `loc` and `msg`, or the same in words."""
    detail = body.value.get("detail") if isinstance(body.value, dict) else None
    if isinstance(detail, list) and bool(detail) and isinstance(detail[0], dict) and "loc" in detail[0]:
        return True
    return body.error is not None and bool(_MISSING.search(body.error.message))


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
