"""HTTP as an effect: one request in, one reply or one failure out, bounded in time and size.

It stands on httpcore2, the transport below httpx2, because the doctor needs what httpx2 hides: a deadline for the whole
exchange (a server that drips one byte a second must not outlive it), each address of a name tried within it, and the
body as it came, before anything was decoded.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from wizard import __version__
from wizard.endpoint.exchange import FailureKind, HttpFailure, HttpReply, HttpRequest
from wizard.endpoint.proxies import route

_MAX_REDIRECTS = 5


class Http:
    """Sends requests; safe to use from several threads. `env` names proxies; the process's own by default."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env = env

    def send(self, request: HttpRequest) -> HttpReply | HttpFailure:
        """One exchange. Never raises for anything that the other side or the network does."""
        begun = time.monotonic()
        deadline = begun + request.timeout_s
        url = request.url
        for _ in range(_MAX_REDIRECTS if request.follow_redirects else 1):
            outcome = self._once(request, url, begun, deadline)
            if not (request.follow_redirects and isinstance(outcome, HttpReply) and 300 <= outcome.status < 400):
                break
            location = outcome.header("location")
            if not location:
                break
            # Only for GET: a POST that is redirected is a finding, not something to repeat elsewhere.
            url = urljoin(url, location)
        return outcome

    def _once(self, request: HttpRequest, url: str, begun: float, deadline: float) -> HttpReply | HttpFailure:
        try:
            return self._exchange(request, url, begun, deadline)
        except Exception as error:
            # Foreign errors get through (idna, h11, a header's ValueError): all are one failure here.
            return HttpFailure(_kind(error), _words(error), time.monotonic() - begun)

    def _exchange(self, request: HttpRequest, url: str, begun: float, deadline: float) -> HttpReply:
        import httpcore2

        headers = {"accept": "*/*", "accept-encoding": "identity", "user-agent": f"llm-setup/{__version__}"}
        content = request.body
        if request.json_body is not None:
            content = json.dumps(request.json_body, ensure_ascii=False, separators=(",", ":")).encode()
            headers["content-type"] = "application/json"
        headers.update({name.lower(): value for name, value in request.headers})
        chunks: list[bytes] = []
        arrivals: list[tuple[float, int]] = []
        size = 0
        cut = ""
        with (
            self._pool(request, url, deadline) as pool,
            pool.stream(request.method, url, headers=list(headers.items()), content=content) as response,
        ):
            most = request.most_bytes(response.status)
            first_byte_s = time.monotonic() - begun
            try:
                for chunk in response.iter_stream():
                    size += len(chunk)
                    arrivals.append((time.monotonic() - begun, size))
                    chunks.append(chunk)
                    if size > most:
                        cut = f"more than {most} bytes"
                        break
                    if time.monotonic() > deadline:
                        cut = f"longer than {request.timeout_s:g} s"
                        break
            except httpcore2.TimeoutException:
                cut = f"longer than {request.timeout_s:g} s"
            except (httpcore2.NetworkError, httpcore2.RemoteProtocolError) as error:
                cut = _words(error)
            return HttpReply(
                status=response.status,
                headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers),
                body=b"".join(chunks)[:most],
                first_byte_s=first_byte_s,
                elapsed_s=time.monotonic() - begun,
                cut=cut,
                arrivals=tuple(arrivals),
            )

    def _pool(self, request: HttpRequest, url: str, deadline: float) -> Any:
        import httpcore2

        backend = _backend(deadline, time.monotonic() + request.connect_timeout_s)
        context = _tls_context(request.verify_tls) if url.lower().startswith("https:") else _tls_context(False)
        proxy = route(url, os.environ if self._env is None else self._env).proxy if request.trust_env else None
        if proxy is None:
            return httpcore2.ConnectionPool(ssl_context=context, network_backend=backend)
        parts = urlsplit(proxy)
        if parts.scheme not in ("http", "https"):
            raise httpcore2.ProxyError(f"{parts.scheme} proxies are not supported here")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return httpcore2.HTTPProxy(
            f"{parts.scheme}://{parts.hostname}:{port}",
            proxy_auth=(unquote(parts.username), unquote(parts.password or "")) if parts.username else None,
            ssl_context=context,
            network_backend=backend,
        )


@cache
def _tls_context(verify: bool) -> ssl.SSLContext:
    """Loading the trust store takes as long as a request to loopback does, so it is done once."""
    import httpcore2

    if verify:
        return httpcore2.default_ssl_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def resolve(host: str, port: int, timeout_s: float) -> list[tuple[Any, ...]]:
    """As `socket.getaddrinfo` for TCP, within a time: the resolver itself may hang for half a minute.

    Raises OSError (gaierror) as the resolver does, TimeoutError when it does not answer in time.
    """
    answer: list[list[tuple[Any, ...]]] = []
    failure: list[OSError | UnicodeError] = []

    def ask() -> None:
        try:
            answer.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            failure.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(max(timeout_s, 0.0))
    if answer:
        return answer[0]
    if failure:
        raise failure[0] if isinstance(failure[0], OSError) else socket.gaierror(f"not a host name: {host!r}")
    raise TimeoutError(f"no answer from the resolver for {host!r}")


def connect(host: str, port: int, connect_by: float) -> socket.socket:
    """A TCP connection to the first address that accepts, before the monotonic time `connect_by`.

    Addresses are tried in the resolver's order, each for its share of the time that is left. Raises the first OSError.
    """
    addresses = resolve(host, port, connect_by - time.monotonic())
    errors: list[OSError] = []
    for index, (family, kind, protocol, _, address) in enumerate(addresses):
        left = connect_by - time.monotonic()
        if left <= 0:
            break
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(left / (len(addresses) - index))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            errors.append(error)
    raise errors[0] if errors else TimeoutError(f"no time left to connect to {host}:{port}")


def _backend(deadline: float, connect_by: float) -> Any:
    """httpcore2's network with one deadline over all of it, in place of a time-out for each read."""
    import httpcore2

    class Stream(httpcore2.NetworkStream):
        def __init__(self, sock: socket.socket) -> None:
            self._sock = sock

        def _hurry(self, error: type[Exception]) -> None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise error("the time for the whole exchange is up")
            self._sock.settimeout(left)

        def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            self._hurry(httpcore2.ReadTimeout)
            try:
                return self._sock.recv(max_bytes)
            except TimeoutError as error:
                raise httpcore2.ReadTimeout(str(error)) from error
            except OSError as error:
                raise httpcore2.ReadError(str(error)) from error

        def write(self, buffer: bytes, timeout: float | None = None) -> None:
            self._hurry(httpcore2.WriteTimeout)
            try:
                self._sock.sendall(buffer)
            except TimeoutError as error:
                raise httpcore2.WriteTimeout(str(error)) from error
            except OSError as error:
                raise httpcore2.WriteError(str(error)) from error

        def close(self) -> None:
            self._sock.close()

        def start_tls(
            self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
        ) -> Any:
            self._hurry(httpcore2.ConnectTimeout)
            try:
                return Stream(ssl_context.wrap_socket(self._sock, server_hostname=server_hostname))
            except TimeoutError as error:
                self.close()
                raise httpcore2.ConnectTimeout(str(error)) from error
            except (OSError, ValueError) as error:
                self.close()
                raise httpcore2.ConnectError(str(error)) from error

        def get_extra_info(self, info: str) -> Any:
            if info == "ssl_object":
                return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
            # A connection serves one exchange: it is never found readable while idle.
            return False if info == "is_readable" else None

    class Backend(httpcore2.NetworkBackend):
        def connect_tcp(self, host: str, port: int, *args: Any, **options: Any) -> Any:
            try:
                return Stream(connect(host, port, min(connect_by, deadline)))
            except TimeoutError as error:
                raise httpcore2.ConnectTimeout(str(error)) from error
            except OSError as error:
                raise httpcore2.ConnectError(str(error)) from error

    return Backend()


def _chain(error: BaseException) -> list[BaseException]:
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        seen.append(at)
        at = at.__cause__ or at.__context__
    return seen


def _words(error: BaseException) -> str:
    """The deepest error that says something."""
    said = [f"{type(e).__name__}: {e}" for e in _chain(error) if str(e)]
    return said[-1] if said else type(error).__name__


def _kind(error: BaseException) -> FailureKind:
    import httpcore2

    seen = _chain(error)
    kinds: tuple[tuple[FailureKind, tuple[type[BaseException], ...]], ...] = (
        ("proxy", (httpcore2.ProxyError,)),
        ("tls", (ssl.SSLError,)),
        ("dns", (socket.gaierror,)),
        ("refused", (ConnectionRefusedError,)),
        ("timeout", (httpcore2.TimeoutException, TimeoutError)),
        ("reset", (ConnectionResetError, BrokenPipeError, httpcore2.ReadError, httpcore2.WriteError)),
        ("unreachable", (httpcore2.ConnectError, OSError)),
        ("protocol", (httpcore2.RemoteProtocolError,)),
    )
    return next((kind for kind, types in kinds if any(isinstance(e, types) for e in seen)), "invalid-request")
