"""Who is shown the hub's token."""

from __future__ import annotations

from typing import Any

import pytest

from wizard.effects.hub import Hub
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
