"""Which form of a URL an endpoint has: candidates to ask, and what the answers mean.

Guides contradict each other about `/v1`, so the form is found by asking; where nobody can be asked, the first candidate
is the likeliest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

from wizard.endpoint import urls
from wizard.endpoint.exchange import HttpFailure, HttpReply
from wizard.endpoint.presets import Preset, find_preset
from wizard.endpoint.replies import judge_models

# The older form of Azure, which LiteLLM has, too; the newer one is `/openai/v1` with the deployment's name as model.
_DEPLOYMENT = re.compile(r"(?P<root>.*)/openai/deployments/(?P<model>[^/]+)$")
_ANTHROPIC_END = re.compile(r"/anthropic$")
Answer = Literal["models", "key-refused", "nothing"]


@dataclass(frozen=True, slots=True)
class UrlForms:
    """What a given URL can mean, each list the likeliest first.

    openai: base URLs below which `/models` and `/chat/completions` may lie. anthropic: roots of `/v1/messages`.
    pasted: what was taken off, such as `/chat/completions` or `?api-version=…`. model: the one that the URL names (an
    Azure deployment), else empty.
    """

    openai: tuple[str, ...]
    anthropic: tuple[str, ...]
    pasted: str = ""
    model: str = ""
    preset: Preset | None = None


def url_forms(url: str) -> UrlForms:
    """The forms of a URL as people give it: with or without `/v1`, a full endpoint, a gateway's path, only a host.

    Raises a usage problem (`base-url-invalid`) for what is no URL.
    """
    url, given = urls.check_base_url(url), url
    query = "&".join(name if name == "…" else f"{name}=…" for name in urls.query_names(given))
    base = urls.without_endpoint(url)
    preset = find_preset(base)
    pasted = (urls.pasted_endpoint(url) or "") + (f"?{query}" if query else "")
    bare = not urlsplit(base).path
    if found := _DEPLOYMENT.match(base):
        root = found["root"]
        newer = f"{root}/openai/v1"
        asked = (newer, f"{root}/v1", urls.with_version(base))
        return UrlForms(asked, _anthropic(newer), pasted, unquote(found["model"]), preset)
    first: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    if preset:
        # A service may have several OpenAI forms (a plan for coding beside the usual one) and one for Anthropic's.
        known = (_at_host(preset.anthropic_base_url, base),) if preset.anthropic_base_url else ()
        usual = _at_host(preset.openai_base_url, base)
        first = (usual,) if bare or base in (usual, *known) else ()
    openai: tuple[str, ...] = (*first, urls.with_version(base), base)
    root = urls.without_version(base)
    above = _ANTHROPIC_END.sub("", root)
    if above != root:
        # An Anthropic form was given; its OpenAI form mostly lies beside it.
        openai, known = (*first, f"{above}/v1", *openai), (*known, root)
    if bare:
        openai = (*openai, f"{base}/api/v1")
    return UrlForms(
        tuple(dict.fromkeys(openai)), tuple(dict.fromkeys((*known, *_anthropic(openai[0])))), pasted, "", preset
    )


def anthropic_roots(forms: UrlForms, openai_base_url: str) -> tuple[str, ...]:
    """Roots to ask for `/v1/messages`, once the OpenAI form is known."""
    kept = forms.anthropic if openai_base_url == forms.openai[0] else ()
    return tuple(dict.fromkeys((*kept, *_anthropic(openai_base_url))))


def _anthropic(openai_base_url: str) -> tuple[str, ...]:
    """vLLM and most gateways have `/v1/messages` beside `/v1/chat/completions`; a few (DeepSeek, Moonshot, Zhipu) have
    it below `/anthropic`."""
    root = urls.without_version(openai_base_url)
    return root, f"{root}/anthropic"


def _at_host(known: str, given: str) -> str:
    """A preset's URL at the host that was given, which may be below the preset's (`RESOURCE.openai.azure.com`)."""
    wanted, here = urlsplit(known), urlsplit(given)
    return known if wanted.hostname == here.hostname else f"{here.scheme}://{here.netloc}{wanted.path}"


def judge_candidate(reply: HttpReply | HttpFailure) -> Answer:
    """What an answer to `GET /models` says of the form. A refused key shows that the path is there."""
    if judge_models(reply).ok:
        return "models"
    if isinstance(reply, HttpReply) and reply.status in (401, 403) and "json" in reply.header("content-type"):
        return "key-refused"
    return "nothing"


def has_messages(reply: HttpReply | HttpFailure) -> bool | None:
    """Whether `/v1/messages` is there, whatever it thinks of the request: anything but a 404, a 405 or a page. None: no
    answer came, so nobody knows."""
    if isinstance(reply, HttpFailure):
        return None
    return reply.status not in (404, 405, 501) and "json" in reply.header("content-type")
