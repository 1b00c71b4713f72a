"""Whether the key is there, whole, in the right header, of this provider, and accepted."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from wizard.doctor.bodies import read_body
from wizard.doctor.causes import found
from wizard.doctor.engine import Check, Verdict
from wizard.doctor.judging import evidence, give_key, manner, target_of, unseen
from wizard.doctor.key_owners import owner_of
from wizard.doctor.listing import key_by_list, only_listed
from wizard.doctor.observations import AuthStyle, Observations, Target
from wizard.doctor.reach import Reach, Seen, judge_models, judge_reach, judged
from wizard.i18n import t
from wizard.problems import Problem

# Words by which a gateway speaks of its own keys; `Invalid API key` may be anybody's.
_OWN_KEY_TEXT = re.compile(
    r"令牌|token_not_found|valid_token|verificationtoken|proxy server token|virtual key|token_invalid|this token|"
    r"user not found",
    re.I,
)
# Providers whose list of models is open to everybody: it says nothing about the key.
_OPEN_LISTS = re.compile(r"openrouter\.ai$|huggingface\.co$|together\.(?:ai|xyz)$|api\.kilo\.ai$")


def key_bytes(seen: Observations) -> Verdict:
    """Whether the key's own characters let it through a header."""
    target = target_of(seen)
    if target.key is None or not target.key:
        return None
    value = target.key.reveal()
    troubles = []
    if value != value.strip():
        troubles.append(t("blanks or line ends around it"))
    elif re.search(r"\s", value):
        troubles.append(t("a blank or line end inside it"))
    bare = value.strip()
    if len(bare) > 1 and bare[0] in "\"'`“‘" and bare[-1] in "\"'`”’":
        troubles.append(t("quotes around it"))
    if bare.lower().startswith(("bearer ", "bearer%20")):
        troubles.append(t("the word `Bearer` in front of it, which clients add themselves"))
    if any(not 0x20 < ord(character) < 0x7F for character in bare if not character.isspace()):
        troubles.append(t("characters that no header can hold"))
    if not troubles:
        return None
    return found(
        "key-whitespace",
        t("The key has {what}.", what=", ".join(troubles)),
        t("key {hint} from {source}", hint=target.key_hint, source=target.key_source or target.source),
    )


def key_accepted(seen: Observations) -> Verdict:
    """Whether the server takes the key, and if not, why."""
    target = target_of(seen)
    if only_listed(seen):
        return key_by_list(seen)
    skipped = unseen(seen)
    if skipped is not None:
        return skipped
    reach = judge_reach(seen)
    refused = _refused(reach)
    if refused is None:
        return _other_style(seen, reach, target)
    saw = (evidence(refused), *_around(seen))
    let_through = _let_through(seen, refused)
    if let_through is not None:
        return found(
            "waf-block",
            t("The same request with the same key is answered under another program's name."),
            evidence(refused),
            evidence(let_through),
            fix=t(
                "It blocks the client by its name (User-Agent): ask the operator to let `{agent}` through.",
                agent=manner(seen).user_agent,
            ),
        )
    text = refused.body.error.text if refused.body and refused.body.error else refused.text
    past = _past_the_gate(seen, target, refused)
    if past is not None:
        return _style(target, past[0], saw, evidence(past[1]))
    if (
        reach.best is not None
        and reach.best is not refused
        and reach.best.grade in ("works", "answers")
        and reach.auth != target.auth
        and target.key
    ):
        if reach.auth == "none":
            return found(
                "key-invalid",
                t("The server answers without a key and refuses this one."),
                *saw,
                evidence(reach.best),
            )
        return _style(target, reach.auth, saw, evidence(reach.best))
    if refused.family == "upstream-auth":
        return found("upstream-auth-failed", t("The gateway's provider refuses the gateway's own key."), *saw)
    if not target.key:
        return found(
            "key-missing",
            t("The server wants a key, and {client} has none.", client=target.client or t("the client")),
            *saw,
            commands=give_key(target),
        )
    if refused.family == "key-format":
        return found(
            "key-format-rejected",
            t("The key has not the form that the gateway expects: {text}", text=_short(refused.text)),
            *saw,
        )
    foreign = _foreign(target)
    if foreign:
        return found(
            "key-wrong-provider",
            t("The key is one of {provider}, and the host is {host}.", provider=foreign, host=_host(target)),
            *saw,
        )
    other_path = _accepted_on_another_path(seen, target)
    if other_path is not None:
        return found(
            "gateway-auth-header-style",
            t(
                "The key is accepted on the chat path and refused on `{path}`, in either header.",
                path=urlsplit(refused.exchange.request.url).path,
            ),
            *saw,
            evidence(other_path),
            fix=t(
                "The key is good. Ask the gateway which header and which kind of key its `{path}` takes.",
                path=urlsplit(refused.exchange.request.url).path,
            ),
        )
    if _known_to_gateway(seen, target, text):
        return found(
            "upstream-auth-failed",
            t("The gateway takes the key, and the model's request still fails: {text}", text=_short(refused.text)),
            *saw,
            evidence(seen.exchange("models")),
        )
    return found(
        "key-invalid",
        t("The server refuses the key {hint}: {text}", hint=target.key_hint, text=_short(refused.text)),
        *saw,
        commands=give_key(target),
    )


def _refused(reach: Reach) -> Seen | None:
    """The reply that refuses the key, at the place where the API is."""
    candidates = [reach.main, *reach.tried.values()]
    if reach.base is not None and reach.base in reach.tried:
        candidates.insert(0, reach.tried[reach.base])
    for reply in candidates:
        if reply is not None and reply.family in ("auth", "key-format", "upstream-auth") and reply.grade == "answers":
            return reply
    return None


def _let_through(seen: Observations, refused: Seen) -> Seen | None:
    """The answer to the same request under curl's name, where only the program's name had it refused."""
    exchange = seen.exchange("main.browser")
    if exchange is None or refused.status != 403 or exchange.request.url != refused.exchange.request.url:
        return None
    reply = judged(seen, exchange, target_of(seen).wire)
    return reply if reply.grade == "works" else None


def _around(seen: Observations) -> tuple[str, ...]:
    return tuple(
        evidence(exchange) for name in ("main.nokey", "models") if (exchange := seen.exchange(name)) is not None
    )


def _past_the_gate(seen: Observations, target: Target, refused: Seen) -> tuple[AuthStyle, Seen] | None:
    """The header in which the key is let in, where the path behind does not exist: 404 in place of 401."""
    styles: tuple[tuple[str, AuthStyle], ...] = (("main.bearer", "bearer"), ("main.x-api-key", "x-api-key"))
    for probe, style in styles:
        exchange = seen.exchange(probe)
        if exchange is None or style == target.auth or exchange.request.url != refused.exchange.request.url:
            continue
        reply = judged(seen, exchange, target.wire)
        if refused.status == 401 and reply.grade == "absent":
            return style, reply
    return None


def _style(target: Target, good: AuthStyle, saw: tuple[str, ...], works: str) -> Problem:
    names = {
        "bearer": "Authorization: Bearer",
        "x-api-key": "x-api-key",
        "api-key": "api-key",
        "both": t("both headers"),
        "none": t("no header"),
    }
    fix = ""
    if target.client == "claude-code":
        fix = (
            t("Put the key into `ANTHROPIC_AUTH_TOKEN` (sent as Bearer), and unset `ANTHROPIC_API_KEY`.")
            if good == "bearer"
            else t("Put the key into `ANTHROPIC_API_KEY` (sent as x-api-key), and unset `ANTHROPIC_AUTH_TOKEN`.")
        )
    return found(
        "gateway-auth-header-style",
        t(
            "The server reads the key from `{good}`, the client sends `{bad}`.",
            good=names[good],
            bad=names[target.auth],
        ),
        *saw,
        works,
        fix=fix,
    )


def _other_style(seen: Observations, reach: Reach, target: Target) -> Verdict:
    """The configured header works; where the header is not known for sure, say that the other would not."""
    if not target.key or target.key_source not in ("", "LLM_SETUP_API_KEY"):
        return None
    for style in ("x-api-key", "bearer"):
        exchange = seen.exchange(f"auth.{style}")
        if exchange is not None:
            reply = judged(seen, exchange, target.wire)
            if reply.family == "auth" and reply.grade == "answers":
                good = "ANTHROPIC_AUTH_TOKEN" if style == "x-api-key" else "ANTHROPIC_API_KEY"
                return found(
                    "gateway-auth-header-style",
                    t("The server takes the key as {good} sends it, and not in the other header.", good=f"`{good}`"),
                    evidence(exchange),
                    severity="info",
                    fix=t("Keep the key in `{good}` alone.", good=good),
                )
    return None


def _accepted_on_another_path(seen: Observations, target: Target) -> Seen | None:
    if target.wire == "chat":
        return None
    for name in ("other.chat", "other.chat.root"):
        exchange = seen.exchange(name)
        if exchange is not None:
            reply = judged(seen, exchange, "chat")
            if reply.grade == "works":
                return reply
    return None


def _known_to_gateway(seen: Observations, target: Target, text: str) -> bool:
    usage = seen.reply("usage.token")
    if usage is not None and usage.status == 200:
        value = read_body(usage).value
        if isinstance(value, dict) and value.get("code") is True and isinstance(value.get("data"), dict):
            return True
    if _OWN_KEY_TEXT.search(text) or _OPEN_LISTS.search(_host(target)):
        return False
    return judge_models(seen.exchange("models")) is not None


def _foreign(target: Target) -> str:
    owner = owner_of(target.key.reveal()) if target.key else None
    return "" if owner is None or owner.hosts.search(_host(target)) else owner.provider


def _host(target: Target) -> str:
    try:
        return (urlsplit(target.base_url.strip()).hostname or "").lower()
    except ValueError:
        return ""


def _short(text: str) -> str:
    from wizard.doctor.bodies import excerpt

    return excerpt(text, 140)


CHECKS = (
    Check("key-bytes", "The key's characters are fine", key_bytes, "target"),
    Check("key", "The server takes the key", key_accepted, "target", vital=True),
)
