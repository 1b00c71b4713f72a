"""What the first two rounds of probes show: where the API is, which key it takes, which models it has."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from wizard.doctor.bodies import Body, read_body
from wizard.doctor.manners import model_on_the_wire
from wizard.doctor.observations import AuthStyle, Exchange, Observations, Target, Wire
from wizard.doctor.probes import candidates
from wizard.doctor.symptoms import Family, family_of
from wizard.endpoint.exchange import HttpFailure, HttpReply

# works: a usable answer. answers: the API itself said something (an error about key, model, request).
# absent: nothing is served at this path. page: a web page or another body that is no API's. none: no reply.
# blocked: something in front of the API answered.
Grade = Literal["works", "answers", "absent", "page", "blocked", "none"]


@dataclass(frozen=True, slots=True)
class Seen:
    """One exchange, judged: its grade, the family of its error, and the body."""

    exchange: Exchange
    grade: Grade
    family: Family | None = None
    body: Body | None = None

    @property
    def status(self) -> int:
        """The HTTP status; 0 where nothing came."""
        return self.exchange.reply.status if self.exchange.reply else 0

    @property
    def reply(self) -> HttpReply | None:
        """The reply."""
        return self.exchange.reply

    @property
    def failure(self) -> HttpFailure | None:
        """The failure."""
        return self.exchange.failure

    @property
    def text(self) -> str:
        """What the error says, or the beginning of the body, or the failure's words."""
        if self.failure:
            return self.failure.text
        if self.body is None:
            return ""
        return self.body.error.message if self.body.error else self.body.text

    @property
    def usable(self) -> bool:
        """Whether a client can use the reply."""
        return self.grade == "works"


def judge_exchange(exchange: Exchange, wire: Wire) -> Seen:
    """Grade one POST to a protocol's endpoint."""
    if exchange.failure is not None:
        return Seen(exchange, "none")
    reply = exchange.reply
    assert reply is not None
    body = read_body(reply, wire)
    if reply.status < 300 and body.form in ("answer", "stream") and (body.error is None or body.form == "answer"):
        return Seen(exchange, "works", None, body)
    if 300 <= reply.status < 400:
        return Seen(exchange, "absent", "path", body)
    family = family_of(reply, body)
    if family == "path":
        return Seen(exchange, "absent", family, body)
    if family in ("waf", "not-ready", "gateway-timeout", "proxy-auth"):
        return Seen(exchange, "blocked", family, body)
    if body.form in ("html", "json-string", "models", "text", "empty") and reply.status < 400:
        return Seen(exchange, "page", "path", body)
    if body.form == "html" and family not in ("auth", "rate", "credits"):
        return Seen(exchange, "blocked" if reply.status >= 500 else "page", family, body)
    return Seen(exchange, "answers", family, body)


def judged(seen: Observations, exchange: Exchange, wire: Wire) -> Seen:
    """As judge_exchange, read once. The exchange is kept beside the result, so that its identity stays its own."""
    key = (id(exchange), wire)
    if key not in seen.memo:
        seen.memo[key] = (exchange, judge_exchange(exchange, wire))
    found: Seen = seen.memo[key][1]
    return found


def judge_models(exchange: Exchange | None) -> tuple[tuple[str, int | None], ...] | None:
    """The list of models in a reply, or None where none came."""
    if exchange is None or exchange.reply is None or exchange.reply.status >= 300:
        return None
    return read_body(exchange.reply).models


@dataclass(frozen=True, slots=True)
class Reach:
    """base: where the client's protocol is served (None: nowhere found). kind: how that differs from `configured`.

    main: the client's own question as configured; best: the most telling reply to it, wherever it was sent.
    listed_at: the base whose list of models answered. direct: the proxy of the environment has to be passed by.
    """

    wire: Wire
    main: Seen | None
    best: Seen | None
    base: str | None
    kind: str
    auth: AuthStyle
    models: tuple[tuple[str, int | None], ...] | None
    listed_at: str | None
    direct: bool = False
    tried: dict[str, Seen] = field(default_factory=dict)

    @property
    def model_ids(self) -> tuple[str, ...]:
        """The ids in the list of models; empty where none is known."""
        return tuple(name for name, _ in self.models or ())

    def window(self, model: str) -> int | None:
        """Tokens that the model's context holds, as the list says."""
        return dict(self.models or ()).get(model)


_GRADES: dict[Grade, int] = {"works": 0, "answers": 1, "blocked": 2, "page": 3, "absent": 4, "none": 5}


def judge_reach(seen: Observations) -> Reach:
    """Put the probes of one endpoint together."""
    key = ("reach", id(seen.exchanges), id(seen.target))
    if key not in seen.memo:
        seen.memo[key] = (seen.exchanges, seen.target, _judge_reach(seen))
    found: Reach = seen.memo[key][2]
    return found


def _judge_reach(seen: Observations) -> Reach:
    target = seen.target
    assert target is not None
    wire = target.wire
    main_exchange = seen.exchange("main")
    main = judged(seen, main_exchange, wire) if main_exchange else None
    direct = _needs_direct(seen, main, wire)
    if direct and (past := seen.exchange("main.direct")) is not None:
        main = judged(seen, past, wire)
    if main is not None and _nothing_there(seen, main):
        main = replace(main, grade="absent", family="path")
    tried: dict[str, Seen] = {}
    for exchange in seen.exchanges:
        if exchange.probe.startswith("main@"):
            reply = judged(seen, exchange, wire)
            same = main is not None and main.grade == "absent" and reply.status == main.status == 404
            # A server that says at one path that there is nothing says the same in the same words at another.
            tried[exchange.probe[5:]] = (
                replace(reply, grade="absent", family="path") if same and reply.family == "other" else reply
            )
    base, kind, best = _choose(target, main, tried)
    auth, better = _auth(seen, target, wire, best)
    models, listed_at = _models(seen, target, base, direct)
    return Reach(wire, main, better or best, base, kind, auth, models, listed_at, direct, tried)


def _nothing_there(seen: Observations, main: Seen) -> bool:
    """Whether a 404 in words that nobody knows means the path: no list of models is served beside it either, or one
    that has the model, which then cannot be what was not found."""
    if main.status != 404 or main.family != "other" or seen.target is None:
        return False
    listed = judge_models(seen.exchange("models"))
    return listed is None or model_on_the_wire(seen.target.client, seen.target.model) in dict(listed)


def _needs_direct(seen: Observations, main: Seen | None, wire: Wire) -> bool:
    """Whether the way past the proxy gets a better answer than the way through it."""
    straight = seen.exchange("main.direct")
    listed = judge_models(seen.exchange("models.direct"))
    if main is not None and main.grade in ("works", "answers"):
        return False
    if listed is not None and judge_models(seen.exchange("models")) is None:
        return True
    if straight is None or straight.reply is None:
        return False
    # Through the proxy there was no reply at all: any reply past it, a refusal too, shows the better way.
    through = seen.exchange("main")
    nothing_through = through is not None and through.failure is not None
    return nothing_through or judged(seen, straight, wire).grade in ("works", "answers")


def _choose(target: Target, main: Seen | None, tried: dict[str, Seen]) -> tuple[str | None, str, Seen | None]:
    base = target.base_url.strip()
    if main is not None and main.grade in ("works", "answers", "blocked"):
        return base, "configured", main
    kinds = {candidate.base: candidate.kind for candidate in candidates(base, target.wire)}
    order = {name: index for index, name in enumerate(kinds)}
    ranked = sorted(tried.items(), key=lambda item: (_GRADES[item[1].grade], order.get(item[0], 99)))
    if ranked and ranked[0][1].grade in ("works", "answers"):
        found, seen = ranked[0]
        return found, kinds.get(found, "vendor"), seen
    return None, "", main


def _auth(seen: Observations, target: Target, wire: Wire, best: Seen | None) -> tuple[AuthStyle, Seen | None]:
    """The style that works, where the configured one does not; and the reply to it."""
    configured: AuthStyle = target.auth if target.key else "none"
    if best is None or best.grade == "works" or best.family not in ("auth", "key-format", "upstream-auth"):
        return configured, None
    styles: tuple[tuple[str, AuthStyle], ...] = (
        ("main.bearer", "bearer"),
        ("main.x-api-key", "x-api-key"),
        ("main.api-key", "api-key"),
        ("main.nokey", "none"),
    )
    for probe, style in styles:
        exchange = seen.exchange(probe)
        if style != configured and exchange is not None:
            reply = judged(seen, exchange, wire)
            if reply.grade == "works" or (reply.grade == "answers" and reply.family not in _KEY_FAMILIES):
                return style, reply
    return configured, None


_KEY_FAMILIES = ("auth", "key-format", "upstream-auth", "path", "credits", "rate", None)


def _models(
    seen: Observations, target: Target, base: str | None, direct: bool
) -> tuple[tuple[tuple[str, int | None], ...] | None, str | None]:
    configured = target.base_url.strip()
    own = judge_models(seen.exchange("models.direct" if direct else "models"))
    if own is not None:
        return own, configured
    if base is not None and (found := judge_models(seen.exchange(f"models@{base}"))) is not None:
        return found, base
    for exchange in seen.exchanges:
        if exchange.probe.startswith("models@") and (found := judge_models(exchange)) is not None:
            return found, exchange.probe[7:]
    for probe in ("models.v1", "models.wrong", "models.nokey"):
        if (found := judge_models(seen.exchange(probe))) is not None:
            return found, configured.removesuffix("/") + "/v1" if probe == "models.v1" else configured
    return None, None
