"""Which form of a URL an endpoint has: found by asking, since guides contradict each other about `/v1`."""

from __future__ import annotations

from wizard.endpoint import urls
from wizard.endpoint.exchange import HttpFailure, HttpReply
from wizard.endpoint.replies import judge_models


def openai_candidates(url: str) -> tuple[str, ...]:
    """Base URLs to try for what the user gave, the likeliest first: with `/v1` at its end, then exactly as given."""
    base = urls.without_endpoint(url)
    return tuple(dict.fromkeys((urls.with_version(base), base)))


def anthropic_candidates(openai_base_url: str) -> tuple[str, ...]:
    """Roots below which `/v1/messages` may lie: vLLM and most gateways have it beside `/v1/chat/completions`; a few
    (DeepSeek, Moonshot, Zhipu) below `/anthropic`."""
    root = urls.without_version(openai_base_url)
    return tuple(dict.fromkeys((root, f"{root}/anthropic")))


def choose_base(asked: tuple[tuple[str, HttpReply | HttpFailure], ...]) -> str | None:
    """The candidate whose `GET /models` is best: a list, else a refusal of the key (the path is there), else None.

    asked: (candidate, reply to its models request), in order of likelihood. None also where nothing was answered: then
    no form is better than another, and the failure itself is the news.
    """
    for candidate, reply in asked:
        if judge_models(reply).ok:
            return candidate
    for candidate, reply in asked:
        if isinstance(reply, HttpReply) and reply.status in (401, 403) and "json" in reply.header("content-type"):
            return candidate
    return None


def has_messages(reply: HttpReply | HttpFailure) -> bool:
    """Whether `/v1/messages` is there, whatever it thinks of the request: anything but a 404, a 405 or a page."""
    if isinstance(reply, HttpFailure):
        return False
    return reply.status not in (404, 405, 501) and reply.status < 500 and "json" in reply.header("content-type")
