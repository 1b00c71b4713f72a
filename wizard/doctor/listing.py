"""What GET requests alone tell about key, model and URL, when nothing that a model answers may be sent (`--cheap`)."""

from __future__ import annotations

import difflib
import re

from wizard.doctor.bodies import read_body
from wizard.doctor.causes import found
from wizard.doctor.engine import Unseen, Verdict
from wizard.doctor.judging import advise, evidence, give_key, target_of
from wizard.doctor.manners import model_on_the_wire
from wizard.doctor.observations import Exchange, Observations
from wizard.doctor.probes import candidates
from wizard.doctor.reach import judge_models
from wizard.doctor.symptoms import family_of
from wizard.endpoint.urls import pasted_endpoint
from wizard.i18n import t

_KEY_FAMILIES = ("auth", "key-format", "upstream-auth")


def only_listed(seen: Observations) -> bool:
    """Whether the list of models was asked for and the model itself was not."""
    return seen.exchange("main") is None and seen.exchange("models") is not None


def nearest(model: str, ids: tuple[str, ...]) -> str:
    """The id that is probably meant: the same without its provider or folder, or nearly the same spelling."""
    last = model.rsplit("/", 1)[-1].lower()
    for name in ids:
        if name.rsplit("/", 1)[-1].lower() == last or name.strip("/").lower() == model.strip("/").lower():
            return name
    close = difflib.get_close_matches(model.lower(), [name.lower() for name in ids], 1, 0.75)
    return next((name for name in ids if close and name.lower() == close[0]), "")


def lists_as_vllm(exchange: Exchange | None) -> bool:
    """Whether a list of models is vLLM's own, which names all that it serves."""
    return bool(exchange and exchange.reply and re.search(r'"owned_by"\s*:\s*"vllm"', exchange.reply.text))


def _lists(seen: Observations) -> list[tuple[str, str, Exchange]]:
    """(base, kind, exchange) of every list of models that was asked for: the configured place first."""
    target = target_of(seen)
    configured = target.base_url.strip()
    kinds = {candidate.base: candidate.kind for candidate in candidates(configured, target.wire)}
    tidy = configured.removesuffix("/")
    places = {"models": (configured, "configured"), "models.v1": (tidy + "/v1", "add-v1")}
    found_lists = []
    for exchange in seen.exchanges:
        name = exchange.probe
        if name.startswith("models@"):
            found_lists.append((name[7:], kinds.get(name[7:], "vendor"), exchange))
        elif name in places:
            found_lists.append((*places[name], exchange))
    return found_lists


def _refuses_key(exchange: Exchange | None) -> bool:
    reply = exchange.reply if exchange is not None else None
    return reply is not None and reply.status >= 400 and family_of(reply, read_body(reply)) in _KEY_FAMILIES


def key_by_list(seen: Observations) -> Verdict:
    """Whether the list of models takes this key and no other."""
    target = target_of(seen)
    lists = _lists(seen)
    listed = any(judge_models(exchange) is not None for _, _, exchange in lists)
    refused = next((exchange for _, _, exchange in lists if _refuses_key(exchange)), None)
    if refused is not None and not listed:
        code = "key-invalid" if target.key else "key-missing"
        what = (
            t("The list of models is refused with the key {hint}.", hint=target.key_hint)
            if target.key
            else t("The server wants a key, and {client} has none.", client=target.client or t("the client"))
        )
        return found(code, what, evidence(refused), commands=give_key(target))
    if listed and target.key and _refuses_key(seen.exchange("models.nokey")):
        return None
    if listed and judge_models(seen.exchange("models")) is None:
        return Unseen(t("the key was not tried where the list of models is"), unknown=True)
    if listed:
        return Unseen(t("the list of models is open to everybody, so it says nothing about the key"), unknown=True)
    return Unseen(t("no list of models came"), unknown=True)


def model_by_list(seen: Observations) -> Verdict:
    """Whether the list of models has the name that is sent."""
    target = target_of(seen)
    for _, _, exchange in _lists(seen):
        listed = judge_models(exchange)
        if listed is None:
            continue
        ids = tuple(name for name, _ in listed)
        model = model_on_the_wire(target.client, target.model)
        if model in ids:
            return None
        if not model:
            return Unseen(t("no model is named"), unknown=True)
        near = nearest(model, ids)
        own = lists_as_vllm(exchange)
        name = near or (ids[0] if ids else "")
        text, commands = advise(target, target.base_url, name) if name else ("", ())
        return found(
            "model-name-mismatch",
            t("The list of models has no `{model}`.", model=model),
            evidence(exchange),
            t("The list of models has: {models}", models=", ".join(ids[:8])),
            # A gateway may serve more than it lists; vLLM lists all that it serves.
            severity="error" if near or own else "warning",
            fix=text,
            commands=commands,
        )
    return Unseen(t("no list of models came"), unknown=True)


def url_by_list(seen: Observations) -> Verdict:
    """Whether the list of models lies where the base URL says, and if not, where it does."""
    target = target_of(seen)
    lists = _lists(seen)
    own = next(exchange for _, kind, exchange in lists if kind == "configured")
    if judge_models(own) is not None:
        return None
    if own.reply is None:
        return Unseen(t("nothing answered at {url}", url=target.base_url), unknown=True)
    if _refuses_key(own):
        return Unseen(t("the key is refused before the path is looked at"), unknown=True)
    elsewhere = [row for row in lists if row[1] != "configured"]
    there = next((row for row in elsewhere if judge_models(row[2]) is not None), None)
    there = there or next((row for row in elsewhere if _refuses_key(row[2])), None)
    if there is None:
        if read_body(own.reply).form == "html" and own.reply.status < 400:
            what = t("`{url}` answers with a web page, not with the API's JSON.", url=own.request.url)
            return found("html-instead-of-json", what, evidence(own))
        return Unseen(t("no list of models is served at `{url}`, nor nearby", url=own.request.url), unknown=True)
    base, kind, exchange = there
    configured = target.base_url.strip().rstrip("/")
    code = "base-url-wrong-path"
    if pasted_endpoint(configured):
        code = "base-url-full-endpoint"
    elif base == configured + "/v1":
        code = "base-url-missing-v1"
    elif re.fullmatch(re.escape(base) + r"(?:/v1)+", configured):
        code = "base-url-extra-v1"
    elif kind in ("double-prefix", "no-prefix", "short-prefix"):
        code = "proxy-prefix-mismatch"
    text, commands = advise(target, base, target.model)
    return found(
        code,
        t("The API lies at `{base}`, not at `{configured}`.", base=base, configured=configured),
        evidence(own),
        evidence(exchange),
        fix=text,
        commands=commands,
        automatic=code.startswith("base-url") and bool(target.client),
    )
