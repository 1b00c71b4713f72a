"""One exchange is bounded in time and size, whatever the other side does, and never raises."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from wizard.effects.http import Http, HttpFailure, HttpReply, HttpRequest

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """A server that does one thing with its first connection; gives its URL."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(talk: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def once() -> None:
            with contextlib.suppress(OSError):
                sock, _ = listener.accept()
                with sock:
                    sock.recv(65536)
                    talk(sock)

        thread = threading.Thread(target=once, daemon=True)
        thread.start()
        threads.append(thread)
        return f"http://127.0.0.1:{listener.getsockname()[1]}/"

    yield start
    for listener in listeners:
        listener.close()
    for thread in threads:
        thread.join(5)


def timed(request: HttpRequest) -> tuple[HttpReply | HttpFailure, float]:
    begun = time.monotonic()
    outcome = Http({}).send(request)
    return outcome, time.monotonic() - begun


def test_a_slow_drip_ends_at_the_deadline_with_what_came(serve: Callable[..., str]) -> None:
    def drip(sock: socket.socket) -> None:
        sock.sendall(HEAD + b"content-length: 1000\r\n\r\n")
        for _ in range(300):
            sock.sendall(b"x")
            time.sleep(0.05)

    # Fifteen seconds of drops, each well within any time limit for a single read.
    outcome, seconds = timed(HttpRequest("GET", serve(drip), timeout_s=2))
    assert isinstance(outcome, HttpReply)
    assert outcome.cut == "longer than 2 s"
    assert 0 < len(outcome.body) < 1000
    assert seconds < 10


def test_headers_that_drip_end_at_the_deadline(serve: Callable[..., str]) -> None:
    def drip(sock: socket.socket) -> None:
        for byte in HEAD * 3:
            sock.sendall(bytes([byte]))
            time.sleep(0.05)

    outcome, seconds = timed(HttpRequest("GET", serve(drip), timeout_s=0.5))
    assert isinstance(outcome, HttpFailure)
    assert outcome.kind == "timeout"
    assert seconds < 1.5


def test_a_body_without_end_is_cut_at_the_limit(serve: Callable[..., str]) -> None:
    def flood(sock: socket.socket) -> None:
        sock.sendall(HEAD + b"\r\n")
        while True:
            sock.sendall(b"x" * 65536)

    outcome, _ = timed(HttpRequest("GET", serve(flood), max_body_bytes=100_000))
    assert isinstance(outcome, HttpReply)
    assert len(outcome.body) == 100_000
    assert outcome.cut.startswith("more than")


@pytest.mark.parametrize(
    ("status", "body"), [pytest.param(b"200", b"a", id="success"), pytest.param(b"400", b"abc", id="error")]
)
def test_where_the_first_byte_is_enough_an_error_is_read_whole(
    serve: Callable[..., str], status: bytes, body: bytes
) -> None:
    answer = HEAD.replace(b"200", status) + b"content-length: 3\r\n\r\nabc"
    url = serve(lambda sock: sock.sendall(answer))
    outcome, _ = timed(HttpRequest("GET", url, first_byte_is_enough=True))
    assert isinstance(outcome, HttpReply)
    assert outcome.body == body


def test_a_body_that_stops_short_keeps_what_came(serve: Callable[..., str]) -> None:
    outcome, _ = timed(HttpRequest("GET", serve(lambda sock: sock.sendall(HEAD + b"content-length: 9\r\n\r\nabc"))))
    assert isinstance(outcome, HttpReply)
    assert (outcome.body, bool(outcome.cut)) == (b"abc", True)


def test_the_body_comes_as_it_was_sent_though_the_headers_claim_gzip(serve: Callable[..., str]) -> None:
    lie = HEAD + b"content-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc"
    outcome, _ = timed(HttpRequest("GET", serve(lambda sock: sock.sendall(lie))))
    assert isinstance(outcome, HttpReply)
    assert (outcome.body, outcome.cut) == (b"abc", "")


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        pytest.param("http://127.0.0.1:1/", "refused", id="closed-port"),
        pytest.param("http://does-not-exist.invalid/", "dns", id="unknown-name"),
        pytest.param("ftp://a.test/", "invalid-request", id="another-scheme"),
        pytest.param("http://[::1/", "invalid-request", id="no-url"),
    ],
)
def test_a_failure_is_a_value_of_its_kind(url: str, kind: str) -> None:
    outcome, _ = timed(HttpRequest("GET", url, timeout_s=5))
    assert isinstance(outcome, HttpFailure)
    assert outcome.kind == kind


def test_a_key_that_no_header_can_hold_is_an_invalid_request() -> None:
    outcome, _ = timed(HttpRequest("GET", "http://127.0.0.1:1/", (("authorization", "Bearer a\nb"),)))
    assert isinstance(outcome, HttpFailure)


def test_something_that_is_no_http_is_a_protocol_failure(serve: Callable[..., str]) -> None:
    outcome, _ = timed(HttpRequest("GET", serve(lambda sock: sock.sendall(b"SSH-2.0-OpenSSH\r\n")), timeout_s=3))
    assert isinstance(outcome, HttpFailure)
    assert outcome.kind in ("protocol", "reset")


def test_a_proxy_of_the_environment_is_used_only_when_it_is_trusted(serve: Callable[..., str]) -> None:
    url = serve(lambda sock: sock.sendall(HEAD + b"content-length: 2\r\n\r\nok"))
    dead = Http({"HTTP_PROXY": "http://127.0.0.1:1"})
    assert isinstance(dead.send(HttpRequest("GET", url)), HttpFailure)
    outcome = dead.send(HttpRequest("GET", url, trust_env=False))
    assert isinstance(outcome, HttpReply)
    assert outcome.text == "ok"


def _garbled(dice: random.Random) -> bytes:
    """Bytes that look like HTTP for a while: wrong lengths, broken chunks, odd headers, plain noise."""
    status = dice.choice((b"HTTP/1.1 200 OK", b"HTTP/1.0 200", b"HTTP/9.9 abc", b"ICY 200 OK", b"", b"HTTP/1.1 099 x"))
    headers = [
        dice.choice(
            (
                b"content-length: 5",
                b"content-length: -1",
                b"content-length: 99999999999999999999",
                b"transfer-encoding: chunked",
                b"transfer-encoding: gzip, chunked",
                b"content-type: \xff\xfe",
                b"no colon here",
                b": empty name",
                b"x: " + b"y" * dice.choice((10, 70_000)),
                b"set-cookie: a=b\r\n continued",
            )
        )
        for _ in range(dice.randrange(4))
    ]
    body = dice.choice(
        (b"", b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\nhello", b"fffffffffffffffff\r\n", dice.randbytes(99))
    )
    raw = b"\r\n".join([status, *headers, b"", body])
    return raw[: dice.randrange(len(raw) + 1)] if dice.random() < 0.3 else raw


@pytest.mark.parametrize("seed", range(40))
def test_garbled_replies_end_as_values_within_their_time(serve: Callable[..., str], seed: int) -> None:
    raw = _garbled(random.Random(seed))
    outcome, seconds = timed(HttpRequest("GET", serve(lambda sock: sock.sendall(raw)), timeout_s=2))
    assert isinstance(outcome, HttpReply | HttpFailure)
    assert seconds < 4
