"""Where a model's files are on a hub, and what a hub's answer means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, urlsplit

from wizard.endpoint.exchange import HttpFailure, HttpReply
from wizard.i18n import t
from wizard.problems import Fix, Problem

HUGGING_FACE = "https://huggingface.co"
MODEL_SCOPE = "https://www.modelscope.cn"
MIRROR = "https://hf-mirror.com"

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")


@dataclass(frozen=True, slots=True)
class HubSource:
    """A hub. endpoint: without a slash at the end. revision: branch or commit."""

    kind: Literal["huggingface", "modelscope"]
    endpoint: str
    revision: str = "main"

    def file_url(self, model: str, file: str) -> str:
        """Where a file of a model is."""
        middle = "" if self.kind == "huggingface" else "/models"
        return f"{self.endpoint}{middle}/{quote(model)}/resolve/{quote(self.revision, safe='')}/{quote(file)}"

    @property
    def host(self) -> str:
        """The endpoint's host, for people."""
        return urlsplit(self.endpoint).netloc or self.endpoint


def hub_source(env: Mapping[str, str], revision: str | None = None) -> HubSource:
    """The hub that the environment names, the way vLLM and the hub's own client read it.

    `VLLM_USE_MODELSCOPE` (with `MODELSCOPE_DOMAIN`), else `HF_ENDPOINT`, else Hugging Face.
    """
    if env.get("VLLM_USE_MODELSCOPE", "").lower() in ("1", "true", "yes", "on"):
        domain = env.get("MODELSCOPE_DOMAIN", "").strip().rstrip("/")
        endpoint = domain if domain.startswith("http") else f"https://{domain}" if domain else MODEL_SCOPE
        return HubSource("modelscope", endpoint, revision or "master")
    endpoint = env.get("HF_ENDPOINT", "").strip().rstrip("/") or HUGGING_FACE
    return HubSource("huggingface", endpoint, revision or "main")


def is_hub_id(model: str) -> bool:
    """Whether a text can be a model's name on a hub: `org/name` or `name`."""
    return bool(_ID.fullmatch(model)) and ".." not in model and "--" not in model


def offline(env: Mapping[str, str]) -> bool:
    """Whether the user forbids asking a hub (`HF_HUB_OFFLINE`, `TRANSFORMERS_OFFLINE`)."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(env.get(name, "").lower() in ("1", "true", "yes", "on") for name in names)


def judge_reply(source: HubSource, model: str, reply: HttpReply | HttpFailure, *, has_token: bool) -> Problem | None:
    """What is wrong with a hub's answer to a request for a JSON file; None when it is one."""
    if isinstance(reply, HttpFailure):
        return Problem(
            "hub-unreachable",
            t("{host} does not answer.", host=source.host),
            t("The model's own numbers come from there when neither a folder nor the catalogue has them."),
            (reply.text[:200],),
            Fix(
                t("Check the network; where the hub is blocked, use a mirror or ModelScope; or give a config.json."),
                (
                    f"export HF_ENDPOINT={MIRROR}",
                    "export VLLM_USE_MODELSCOPE=1",
                    f"llm-setup plan {model} --model-config DIR",
                ),
            ),
        )
    saw = (t("GET {url}: {status}", url=source.file_url(model, "config.json"), status=reply.status),)
    if reply.status in (401, 403):
        return Problem(
            "hub-denied",
            t("{host} does not show `{model}` without permission.", host=source.host, model=model),
            t("It is private, its licence must be accepted first, or the token is wrong.")
            if has_token
            else t(
                "It is private, its licence must be accepted first, or it does not exist: the hub does not say which."
            ),
            saw,
            Fix(
                t("Accept the licence on the model's page, then give a token that may read it."),
                ("export HF_TOKEN=...",),
            ),
        )
    if reply.status == 404:
        return Problem(
            "model-not-found",
            t("{host} has no model `{model}`, or it has no config.json.", host=source.host, model=model),
            t("A model is named `organisation/name`, with the hub's own capital letters."),
            saw,
            Fix(t("Look for its name; `llm-setup models` lists those of the catalogue."), ("llm-setup models",)),
        )
    if reply.status == 429:
        wait = reply.header("retry-after")
        return Problem(
            "hub-rate-limited",
            t("{host} has had too many requests from here.", host=source.host),
            t("A hub counts requests by address; without a token the limit is low."),
            (*saw, *((t("it asks to wait {wait} s", wait=wait[:20]),) if wait else ())),
            Fix(t("Wait, or give a token."), ("export HF_TOKEN=...",)),
        )
    if reply.status != 200:
        return Problem(
            "hub-error",
            t("{host} answered {status}.", host=source.host, status=reply.status),
            t("The fault is on its side, or of something in between."),
            saw,
            Fix(t("Try again later, or use a mirror."), (f"export HF_ENDPOINT={MIRROR}",)),
        )
    head = reply.body.lstrip()[:1]
    if head not in (b"{", b"["):
        kind = reply.header("content-type").split(";")[0] or t("no type")
        return Problem(
            "hub-answer-not-json",
            t("{host} answered with {kind} instead of the model's config.json.", host=source.host, kind=kind),
            t("A page to log in to a network, a proxy's page, or a mirror that does not carry this model."),
            (*saw, reply.text.strip()[:80] or t("an empty answer")),
            Fix(t("Open the address in a browser; check `HF_ENDPOINT` and the proxy.")),
        )
    return None
