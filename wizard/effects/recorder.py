"""A loopback server that passes a client's requests on to the endpoint, and notes what went through."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from wizard.doctor.observations import AuthStyle, Exchange, RequestSummary
from wizard.endpoint.exchange import HttpFailure, HttpReply

_KEPT_BODY_BYTES = 2**18
_HOP_BY_HOP = ("host", "connection", "transfer-encoding", "keep-alive", "proxy-connection", "accept-encoding")
# Headers whose value is a key are noted by their style only; of the others those that causes hang on are kept.
_KEPT_HEADERS = ("anthropic-beta", "anthropic-version", "openai-beta", "user-agent", "content-type")


class Recorder:
    """`root` is where the client should send to; `exchanges` fills up while it does. Times out after `timeout_s`."""

    def __init__(self, upstream_root: str, timeout_s: float = 600.0) -> None:
        self.exchanges: list[Exchange] = []
        parts = urlsplit(upstream_root)
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Nothing is printed while the client has the screen."""

            def pass_on(self) -> None:
                self.close_connection = True
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                begun = time.monotonic()
                with closing(_connection(parts.scheme, parts.netloc, timeout_s)) as upstream:
                    headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
                    try:
                        upstream.request(self.command, self.path, body, headers)
                        reply = upstream.getresponse()
                    except (OSError, http.client.HTTPException) as error:
                        failure = HttpFailure(
                            _kind(error), f"{type(error).__name__}: {error}", time.monotonic() - begun
                        )
                        recorder.note(self, upstream_root, body, failure)
                        with suppress(OSError):
                            self.send_error(502, "no answer from the endpoint")
                        return
                    self.relay(reply, body, begun)

            def relay(self, reply: http.client.HTTPResponse, body: bytes, begun: float) -> None:
                first = time.monotonic() - begun
                kept, cut = b"", ""
                try:
                    self.send_response(reply.status)
                    for name, value in reply.getheaders():
                        if name.lower() not in (*_HOP_BY_HOP, "content-length", "date", "server"):
                            self.send_header(name, value)
                    self.send_header("connection", "close")
                    self.end_headers()
                    while piece := reply.read1(65536):
                        kept += piece[: max(0, _KEPT_BODY_BYTES - len(kept))]
                        self.wfile.write(piece)
                        self.wfile.flush()
                except (OSError, http.client.HTTPException) as error:
                    cut = f"{type(error).__name__}: {error}"
                headers = tuple(reply.getheaders())
                outcome = HttpReply(reply.status, headers, kept, first, time.monotonic() - begun, cut)
                recorder.note(self, upstream_root, body, outcome)

            do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = pass_on

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.root = f"http://127.0.0.1:{self._server.server_address[1]}"

    def note(
        self, handler: BaseHTTPRequestHandler, upstream_root: str, body: bytes, outcome: HttpReply | HttpFailure
    ) -> None:
        """Keep one exchange, without its key."""
        try:
            value = json.loads(body) if body else None
        except (ValueError, RecursionError):
            value = f"{len(body)} bytes that are not JSON"
        bearer, x_key = handler.headers.get("authorization"), handler.headers.get("x-api-key")
        auth: AuthStyle = "both" if bearer and x_key else "bearer" if bearer else "x-api-key" if x_key else "none"
        kept = tuple((k, v) for k, v in handler.headers.items() if k.lower() in _KEPT_HEADERS)
        url = f"{upstream_root}{handler.path}"
        request = RequestSummary(handler.command, url, auth, value, headers=kept)
        self.exchanges.append(Exchange(f"trace.{len(self.exchanges) + 1}", request, outcome))

    @contextmanager
    def listening(self) -> Iterator[Recorder]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def _connection(scheme: str, netloc: str, timeout_s: float) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(netloc, timeout=timeout_s, context=ssl.create_default_context())
    return http.client.HTTPConnection(netloc, timeout=timeout_s)


def _kind(error: Exception) -> Any:
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, TimeoutError):
        return "timeout"
    return "tls" if isinstance(error, ssl.SSLError) else "unreachable" if isinstance(error, OSError) else "protocol"
