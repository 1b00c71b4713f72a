"""Who is shown the hub's token, and where the hub's client keeps models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wizard.effects.hub import Hub, hugging_face_home, hugging_face_models
from wizard.endpoint.exchange import HttpReply, HttpRequest
from wizard.secret import Secret


class Web:
    """Leads from one address to another; notes which requests showed a token."""

    def __init__(self, home: str, leads_to: str) -> None:
        self.home, self.leads_to = home, leads_to
        self.shown: dict[str, bool] = {}

    def send(self, request: HttpRequest) -> HttpReply:
        self.shown[request.url] = any(name == "authorization" for name, _ in request.headers)
        led = request.url == self.home
        return HttpReply(302 if led else 200, (("location", self.leads_to),) if led else (), b"", 0.0, 0.0)


@pytest.mark.parametrize(
    ("home", "leads_to", "shown"),
    [
        pytest.param("https://hub/a", "https://hub/b", True, id="same-host"),
        pytest.param("http://hub/a", "https://hub/b", True, id="to-TLS"),
        pytest.param("https://hub/a", "http://hub/b", False, id="from-TLS-to-none"),
        pytest.param("https://hub/a", "https://cdn/b", False, id="another-host"),
        pytest.param("https://hub/a", "https://hub:8443/b", False, id="another-port"),
    ],
)
def test_the_token_goes_to_the_hub_alone(home: str, leads_to: str, shown: bool) -> None:
    web: Any = Web(home, leads_to)
    Hub(web, Secret("hf_token_0000")).get(home, timeout_s=1, max_bytes=10)
    assert web.shown == {home: True, leads_to: shown}


@pytest.mark.parametrize(
    ("env", "own", "models"),
    [
        pytest.param({}, "/u/.cache/huggingface", "/u/.cache/huggingface/hub", id="default"),
        pytest.param({"XDG_CACHE_HOME": "/x"}, "/x/huggingface", "/x/huggingface/hub", id="cache-elsewhere"),
        pytest.param({"HF_HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/h", "/h/hub", id="HF_HOME"),
        pytest.param({"HF_HUB_CACHE": "/m"}, "/u/.cache/huggingface", "/m", id="HF_HUB_CACHE"),
    ],
)
def test_the_folders_of_the_hubs_client_are_where_it_would_look(env: dict[str, str], own: str, models: str) -> None:
    assert (str(hugging_face_home(env, Path("/u"))), str(hugging_face_models(env, Path("/u")))) == (own, models)
