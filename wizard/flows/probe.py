"""Sends the doctor's probes: rounds of parallel requests, each planned from what the rounds before showed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from wizard.doctor import probes
from wizard.doctor.checks.way import is_local
from wizard.doctor.observations import AddressResult, Exchange, NetworkFacts, Observations, ProxyRoute, Target
from wizard.doctor.probes import Probe, Spot, candidates, spot_of
from wizard.doctor.reach import Reach, judge_models, judge_reach
from wizard.doctor.symptoms import REQUEST_CODES
from wizard.effects.network import Network
from wizard.effects.world import World
from wizard.endpoint.proxies import route

_WORKERS = 24
_MODEL_TIMEOUT_S = 20.0
_SEARCH_TIMEOUT_S = 10.0
_CA_VARIABLES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_MAX_BASES = 8
_KNOCK_S = 0.8
_PASSING_FAILURES = ("reset", "protocol")


@dataclass(frozen=True, slots=True)
class Limits:
    """timeout_s: for an answer of the model. cheap: send nothing that a model would have to answer.

    full: send a prompt of the client's own size also where each token may be paid for.
    """

    timeout_s: float = _MODEL_TIMEOUT_S
    cheap: bool = False
    full: bool = False


T = TypeVar("T")


class _Once:
    """Values by key, each worked out by whoever asks first; the others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[object, Future[Any]] = {}

    def get(self, key: object, work: Callable[[], T]) -> T:
        """The key's value; `work` runs once, in the first caller's thread."""
        with self._lock:
            known = self._known.get(key)
            mine: Future[T] = known or Future()
            if known is None:
                self._known[key] = mine
        if known is None:
            try:
                mine.set_result(work())
            except BaseException as error:
                mine.set_exception(error)
                raise
        return mine.result()


def _same_question(probe: Probe) -> object:
    """What makes a probe of one client the same as one of another: all of it but the program's name, which matters only
    where it is found out whether that name is let through."""
    request = probe.request
    named = probe.id == "models" or probe.id.startswith("main")
    headers = tuple(row for row in request.headers if named or row[0] != "user-agent")
    body = json.dumps(request.json_body, sort_keys=True)
    return (probe.id, request.method, request.url, headers, body, request.trust_env, request.timeout_s)


class Prober:
    """Probes endpoints. What several of them ask alike (one server, several clients) is sent once for all."""

    def __init__(self, world: World, limits: Limits, network: Network | None = None) -> None:
        self._world = world
        self._limits = limits
        self._network = network or Network()
        self._asked = _Once()
        self._looked = _Once()

    def examine(self, shared: Observations, target: Target) -> Observations:
        """The shared evidence with everything that this endpoint's probes and its network showed."""
        try:
            parts = urlsplit(target.base_url.strip())
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            return shared.at(target)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return shared.at(target)
        way = route(target.base_url.strip(), self._world.env)
        spot = spot_of(target, self._limits.timeout_s)
        with ThreadPoolExecutor(_WORKERS) as pool:
            looking = pool.submit(self._look, parts.scheme, parts.hostname, port)
            first = self._send(pool, probes.plan_first(spot, proxied=way.proxy is not None))
            network = replace(
                looking.result(), proxy=ProxyRoute(_without_password(way.proxy), way.variable, way.bypass)
            )
            seen = shared.at(target, first, network)
            if self._nothing_answers(seen):
                return self._look_elsewhere(pool, seen, spot)
            seen = self._search(pool, seen, spot)
            return self._behaviour(pool, seen, target, spot)

    def _send(self, pool: ThreadPoolExecutor, planned: Iterable[Probe]) -> tuple[Exchange, ...]:
        wanted = [probe for probe in planned if not (self._limits.cheap and probe.generates)]
        asked = list(pool.map(self._ask, wanted))
        if any(exchange.reply is not None for exchange in asked):
            # A small server's queue of connections overflows when all ask at once; what is really broken is so again.
            for place, exchange in enumerate(asked):
                if exchange.failure is not None and exchange.failure.kind in _PASSING_FAILURES:
                    asked[place] = replace(exchange, outcome=self._world.http.send(wanted[place].request))
        return tuple(asked)

    def _ask(self, probe: Probe) -> Exchange:
        outcome = self._asked.get(_same_question(probe), lambda: self._world.http.send(probe.request))
        return Exchange(probe.id, probe.summary, outcome)

    def _look(self, scheme: str, host: str, port: int) -> NetworkFacts:
        return self._looked.get(
            (scheme, host, port),
            lambda: self._network.look(scheme, host, port, ca_file=self._ca_file(), timeout_s=probes.CONNECT_TIMEOUT_S),
        )

    def _more(self, pool: ThreadPoolExecutor, seen: Observations, planned: Iterable[Probe]) -> Observations:
        return replace(seen, exchanges=(*seen.exchanges, *self._send(pool, planned)))

    def _ca_file(self) -> str:
        return next((self._world.env[name] for name in _CA_VARIABLES if self._world.env.get(name)), "")

    @staticmethod
    def _nothing_answers(seen: Observations) -> bool:
        return bool(seen.exchanges) and all(exchange.failure is not None for exchange in seen.exchanges)

    def _look_elsewhere(self, pool: ThreadPoolExecutor, seen: Observations, spot: Spot) -> Observations:
        """Nothing answered: is it the scheme, or does the same port answer on another host that may be meant?"""
        network = seen.network
        assert network is not None
        if network.reachable:
            return self._more(pool, seen, probes.plan_scheme(spot))
        if network.resolve_error and network.host not in ("host.docker.internal",):
            return seen
        hosts = [host for host in self._other_hosts(network) if host != network.host]
        knocks: list[AddressResult] = list(
            pool.map(lambda host: self._network.knock(host, network.port, _KNOCK_S), hosts)
        )
        return replace(seen, network=replace(network, elsewhere=tuple(zip(hosts, knocks, strict=True))))

    def _other_hosts(self, network: NetworkFacts) -> tuple[str, ...]:
        own = self._network.own_addresses()
        gateways = tuple(f"{address.rsplit('.', 1)[0]}.1" for address in own)
        return tuple(dict.fromkeys(("127.0.0.1", "::1", "host.docker.internal", *own, *gateways)))

    def _search(self, pool: ThreadPoolExecutor, seen: Observations, spot: Spot) -> Observations:
        """The rounds between: find the place, the key's style, the program's name that is let through."""
        reach = judge_reach(seen)
        if self._limits.cheap:
            # The model is not asked, so the list of models has to tell where the API is.
            own = seen.reply("models")
            if own is not None and judge_models(seen.exchange("models")) is None and own.status not in (401, 403):
                seen = self._more(pool, seen, probes.plan_models_search(spot))
            return seen
        spot = replace(spot, direct=reach.direct, timeout_s=min(spot.timeout_s, _SEARCH_TIMEOUT_S))
        if reach.main is not None and reach.main.grade in ("absent", "page"):
            seen = self._more(pool, seen, (*probes.plan_models_search(spot), *probes.plan_other_wires(spot, spot.base)))
            seen = self._search_main(pool, seen, spot)
            reach = judge_reach(seen)
        best = reach.best
        if best is not None and best.family == "waf":
            seen = self._more(pool, seen, probes.plan_user_agent(spot))
        elif best is not None and best.family in ("auth", "key-format", "upstream-auth"):
            spot = replace(spot, base=reach.base or spot.base)
            planned = [*probes.plan_auth(spot)]
            if spot.wire != "chat" and seen.exchange("other.chat") is None:
                planned += probes.plan_other_wires(spot, spot.base)
            seen = self._more(pool, seen, planned)
        return seen

    def _search_main(self, pool: ThreadPoolExecutor, seen: Observations, spot: Spot) -> Observations:
        listed = [
            candidate.base
            for candidate in candidates(spot.base, spot.wire)
            if judge_models(seen.exchange(f"models@{candidate.base}")) is not None
        ]
        near = [candidate.base for candidate in candidates(spot.base, spot.wire) if candidate.kind != "vendor"]
        first = tuple(dict.fromkeys([*listed, *near]))[:_MAX_BASES]
        seen = self._more(pool, seen, probes.plan_main_search(spot, first))
        if judge_reach(seen).base is None and not listed:
            rest = tuple(c.base for c in candidates(spot.base, spot.wire) if c.base not in first)
            seen = self._more(pool, seen, probes.plan_main_search(spot, rest))
        return seen

    def _behaviour(self, pool: ThreadPoolExecutor, seen: Observations, target: Target, spot: Spot) -> Observations:
        reach = judge_reach(seen)
        place = behaviour_spot(reach, spot)
        if place is None:
            return seen
        planned = [*probes.plan_behaviour(target, place)]
        spoken = reach.best.body.spoken if reach.best and reach.best.body else None
        if spoken is not None and not spoken.content.strip() and not spoken.tool_calls:
            planned += probes.plan_roomy(place)
        seen = self._more(pool, seen, planned)
        if not (self._limits.full or is_own_vllm(seen, target)):
            return seen
        # Each alone: a long prompt keeps the others waiting, and they make the stream wait.
        seen = self._more(pool, seen, probes.plan_own_size(target, place))
        if something_between(seen):
            seen = self._more(pool, seen, probes.plan_long_stream(place, vllm=is_own_vllm(seen, target)))
        return seen


def is_own_vllm(seen: Observations, target: Target) -> bool:
    """Whether the server is a vLLM in this machine or network, whose tokens cost nothing."""
    host = urlsplit(target.base_url.strip()).hostname or ""
    listed, metrics = seen.reply("models"), seen.reply("metrics")
    says = (listed is not None and '"owned_by":"vllm"' in listed.text.replace(" ", "")) or (
        metrics is not None and "vllm:" in metrics.text
    )
    return is_local(host) and says


def something_between(seen: Observations) -> bool:
    """Whether another program than the server itself answered: vLLM's own calls itself uvicorn."""
    reply = seen.reply("main")
    return reply is not None and (reply.header("server").lower() not in ("", "uvicorn") or bool(reply.header("via")))


def estimate_cost(target: Target, limits: Limits) -> tuple[int, int]:
    """(requests, tokens) that a healthy endpoint is asked for at most, in and out; none for a server of one's own."""
    host = urlsplit(target.base_url.strip()).hostname or ""
    if limits.cheap or is_local(host):
        return 0, 0
    spot = spot_of(target, limits.timeout_s)
    planned = [*probes.plan_first(spot, proxied=False), *probes.plan_behaviour(target, spot)]
    # Of a model that thinks the short answer is empty, and it is asked once more.
    planned += probes.plan_roomy(spot)
    if limits.full:
        planned += [*probes.plan_own_size(target, spot), *probes.plan_long_stream(spot, vllm=False)]
    answered = [probe for probe in planned if probe.generates]
    return len(answered), sum(probe.tokens for probe in answered)


# Replies after which variations of the request can tell something.
_TELLING = (*REQUEST_CODES, "model", "server-error", "other")


def behaviour_spot(reach: Reach, spot: Spot) -> Spot | None:
    """Where variations are worth sending: the place, style and model that work, as configured or not; None: nowhere."""
    best = reach.best
    if best is None or reach.base is None or best.grade not in ("works", "answers"):
        return None
    if best.grade == "answers" and best.family not in _TELLING:
        return None
    model = spot.model
    if best.family == "model" and reach.model_ids and model not in reach.model_ids:
        model = reach.model_ids[0]
    return replace(spot, base=reach.base, auth=reach.auth, model=model, direct=reach.direct)


def _without_password(proxy: str | None) -> str | None:
    if proxy is None:
        return None
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
