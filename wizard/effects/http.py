"""HTTP as an effect: one request in, one reply or one failure out, bounded in time and size."""

from __future__ import annotations

import json
import socket
import ssl
import time

from wizard.endpoint.exchange import FailureKind, HttpFailure, HttpReply, HttpRequest


class Http:
    """Sends requests; safe to use from several threads."""

    def send(self, request: HttpRequest) -> HttpReply | HttpFailure:
        """One exchange. Never raises for anything that the other side or the network does."""
        import httpx2

        begun = time.monotonic()
        headers = [("accept-encoding", "identity"), *request.headers]
        content = request.body
        if request.json_body is not None:
            content = json.dumps(request.json_body, ensure_ascii=False, separators=(",", ":")).encode()
            headers = [*headers, ("content-type", "application/json")]
        timeout = httpx2.Timeout(request.timeout_s, connect=min(request.connect_timeout_s, request.timeout_s))
        chunks: list[bytes] = []
        arrivals: list[tuple[float, int]] = []
        size = 0
        try:
            with (
                httpx2.Client(
                    trust_env=request.trust_env,
                    verify=request.verify_tls,
                    timeout=timeout,
                    follow_redirects=request.follow_redirects,
                ) as client,
                client.stream(request.method, request.url, headers=headers, content=content) as response,
            ):
                first_byte_s = time.monotonic() - begun
                cut = ""
                try:
                    for chunk in response.iter_raw():
                        size += len(chunk)
                        arrivals.append((time.monotonic() - begun, size))
                        chunks.append(chunk)
                        if size > request.max_body_bytes:
                            cut = f"more than {request.max_body_bytes} bytes"
                            break
                        if time.monotonic() - begun > request.timeout_s:
                            cut = f"longer than {request.timeout_s:g} s"
                            break
                except httpx2.HTTPError as error:
                    cut = f"{type(error).__name__}: {error}"
                return HttpReply(
                    status=response.status_code,
                    headers=tuple(response.headers.multi_items()),
                    body=b"".join(chunks),
                    first_byte_s=first_byte_s,
                    elapsed_s=time.monotonic() - begun,
                    cut=cut,
                    arrivals=tuple(arrivals),
                )
        except Exception as error:
            # httpx2 lets a few foreign errors through (idna, h11, ValueError of a header): all are one failure here.
            return HttpFailure(_kind(error), f"{type(error).__name__}: {error}", time.monotonic() - begun)


def _kind(error: BaseException) -> FailureKind:
    import httpx2

    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        seen.append(at)
        at = at.__cause__ or at.__context__
    if any(isinstance(e, ssl.SSLError) for e in seen):
        return "tls"
    if any(isinstance(e, socket.gaierror) for e in seen):
        return "dns"
    if any(isinstance(e, ConnectionRefusedError) for e in seen):
        return "refused"
    if any(isinstance(e, httpx2.TimeoutException | TimeoutError) for e in seen):
        return "timeout"
    if any(isinstance(e, httpx2.ProxyError) for e in seen):
        return "proxy"
    if any(isinstance(e, ConnectionResetError | BrokenPipeError | httpx2.ReadError | httpx2.WriteError) for e in seen):
        return "reset"
    if any(isinstance(e, httpx2.ConnectError | OSError) for e in seen):
        text = str(error).lower()
        if "certificate" in text or "ssl" in text:
            return "tls"
        if "name or service" in text or "getaddrinfo" in text or "name resolution" in text:
            return "dns"
        if "refused" in text or "all connection attempts failed" in text:
            return "refused"
        return "unreachable"
    if any(isinstance(e, httpx2.RemoteProtocolError) for e in seen):
        return "protocol"
    return "invalid-request"
