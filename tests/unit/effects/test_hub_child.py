"""Large files of a hub: who is shown the token, and what is taken for the file."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from wizard.effects import hub_child

CONTENT = b"weights " * 100
ETAG = hashlib.sha256(CONTENT).hexdigest()
TOKEN = "Bearer hf_secret"


class Site(ThreadingHTTPServer):
    """Answers every GET with `sends`, or leads to `leads_to`; notes who showed a token."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sends = CONTENT
        self.leads_to = ""
        self.tokens: list[str | None] = []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file"


class _Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.tokens.append(self.headers["authorization"])
        start = int(self.headers["range"].removeprefix("bytes=").removesuffix("-"))
        body = b"" if self.server.leads_to else self.server.sends[start:]
        self.send_response(302 if self.server.leads_to else 206)
        if self.server.leads_to:
            self.send_header("location", self.server.leads_to)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Callable[[], Site]]:
    made: list[Site] = []

    def make() -> Site:
        made.append(Site())
        return made[-1]

    yield make
    for each in made:
        each.shutdown()
        each.server_close()


def fetch(site: Site, blobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_child, "time", SimpleNamespace(sleep=lambda _: None))
    asked = iter(range(20))  # and no further

    def metadata(url: str) -> SimpleNamespace:
        next(asked)
        return SimpleNamespace(etag=f'"{ETAG}"', size=len(CONTENT), location=url)

    hub = SimpleNamespace(
        hf_hub_url=lambda model, name, revision: site.url,
        get_hf_file_metadata=metadata,
        utils=SimpleNamespace(build_hf_headers=lambda: {"authorization": TOKEN}),
    )
    hub_child._fetch(hub, "someone/model", "model.safetensors", "1", blobs)


def test_the_token_stays_with_the_hub_wherever_a_file_is_led_to(
    site: Callable[[], Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = site(), site()
    own.leads_to = other.url
    fetch(own, tmp_path, monkeypatch)
    assert own.tokens == [TOKEN]
    assert other.tokens == [None]
    assert (tmp_path / ETAG).read_bytes() == CONTENT


def test_a_wrong_beginning_of_an_earlier_run_is_thrown_away(
    site: Callable[[], Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{ETAG}.incomplete").write_bytes(b"another ")
    fetch(site(), tmp_path, monkeypatch)
    assert (tmp_path / ETAG).read_bytes() == CONTENT


@pytest.mark.parametrize("sends", [b"x" * len(CONTENT), CONTENT + b"x"], ids=["wrong bytes", "too many"])
def test_a_file_that_is_not_what_the_hub_says_is_refused(
    site: Callable[[], Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sends: bytes
) -> None:
    mirror = site()
    mirror.sends = sends
    with pytest.raises(SystemExit, match=r"model\.safetensors: what came is not"):
        fetch(mirror, tmp_path, monkeypatch)
    assert list(tmp_path.iterdir()) == []
    assert len(mirror.tokens) == 2
