"""Ask an endpoint which form of URL it has, and which models."""

from __future__ import annotations

from urllib.parse import urlsplit

from wizard.effects.world import World
from wizard.endpoint import discover, requests, urls
from wizard.endpoint.exchange import HttpFailure, HttpRequest
from wizard.endpoint.model import Endpoint, EndpointKind
from wizard.endpoint.replies import judge_models
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError
from wizard.secret import Secret


def discover_endpoint(world: World, url: str, model: str | None, key: Secret | None) -> Endpoint:
    """The endpoint behind a URL in whatever form it was given; `model` None takes the only one that is served.

    Raises ProblemError when nothing answers, or when several models are served and none was named. A refused key is
    no error here: the proof that follows says so with its evidence.
    """
    url = urls.check_base_url(url)
    candidates = discover.openai_candidates(url)
    asked = []
    for candidate in candidates:
        trial = Endpoint("", candidate, None, model or "", key)
        asked.append((candidate, world.http.send(requests.models_request(trial))))
    base = discover.choose_base(tuple(asked)) or candidates[0]
    reply = next(reply for candidate, reply in asked if candidate == base)
    if isinstance(reply, HttpFailure):
        raise ProblemError(_no_answer(base, reply))
    listed = judge_models(reply).value or {}
    if model is None:
        if len(listed) != 1:
            raise ProblemError(_which_model(base, tuple(listed)))
        model = next(iter(listed))
    endpoint = Endpoint("", base, None, model, key, listed.get(model), kind=_kind(world, base))
    for root in discover.anthropic_candidates(base):
        trial = Endpoint("", base, root, model, key)
        if discover.has_messages(world.http.send(requests.messages_request(trial, max_tokens=1, timeout_s=30))):
            return Endpoint("", base, root, model, key, listed.get(model), kind=endpoint.kind)
    return endpoint


def _kind(world: World, base: str) -> EndpointKind:
    """vLLM says its version at its root; gateways do not."""
    root = urls.without_version(base)
    reply = world.http.send(HttpRequest("GET", f"{root}/version", timeout_s=5))
    said = None if isinstance(reply, HttpFailure) else reply.json()
    local = (urlsplit(base).hostname or "") in ("127.0.0.1", "localhost", "::1")
    if isinstance(said, dict) and isinstance(said.get("version"), str):
        return "vllm"
    return "unknown" if local else "gateway"


def _no_answer(base: str, failure: HttpFailure) -> Problem:
    codes = {"refused": "server-unreachable", "dns": "server-unreachable", "tls": "tls-untrusted-ca"}
    return Problem(
        codes.get(failure.kind, "server-unreachable"),
        t("Nothing answers at {url}.", url=base),
        t("The connection itself failed, so neither the key nor the model was looked at."),
        (f"GET {base}/models: {failure.kind}: {failure.text}",),
        Fix(
            t("Check the address and that the server runs; the doctor looks closer."),
            (f"llm-setup doctor --base-url {base}",),
        ),
    )


def _which_model(base: str, listed: tuple[str, ...]) -> Problem:
    if not listed:
        return Problem(
            "model-unknown",
            t("The endpoint lists no models, so the model has to be named."),
            saw=(f"GET {base}/models",),
            fix=Fix(t("Name it with `--model`.")),
        )
    return Problem(
        "model-unknown",
        t("The endpoint serves {count} models; which one is meant?", count=len(listed)),
        saw=(", ".join(listed[:12]),),
        fix=Fix(t("Name one with `--model`."), (f"llm-setup init --base-url {base} --model {listed[0]}",)),
    )
