"""Many streamed requests at once, each read timed as it comes off the socket.

Not through httpx2 or the openai SDK, whose work for each chunk shows in the figures: measured with 64 streams of a
server with known delays on two busy cores, 2,800 tokens/s cost 0.11 cores on asyncio alone, 0.31 with httpx2, and the
SDK (0.32 at 1,950 tokens/s) doubled the time to first token.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from wizard.bench.figures import ClientLoad, percentile
from wizard.bench.samples import StreamRecord
from wizard.endpoint.proxies import route

_TICK_S = 0.02
_MOST_HEAD_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class StreamJob:
    """One POST. headers are sent as they are, besides host and content length."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Records in the order of the jobs; the time from the first request to the last byte; this client's own load."""

    records: tuple[StreamRecord, ...]
    wall_s: float
    client: ClientLoad


class StreamLoad:
    """Runs jobs with a fixed number in flight; connections are opened before and kept."""

    def __init__(self, env: Mapping[str, str], *, timeout_s: float = 300.0, connect_timeout_s: float = 10.0) -> None:
        self._env = env
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._tls: ssl.SSLContext | None = None

    def run(self, jobs: Sequence[StreamJob], concurrency: int, done: Callable[[], None] | None = None) -> LoadResult:
        """Send all jobs, `concurrency` at a time. `done` is called after each. Nothing that a server does raises."""
        return asyncio.run(self._run(jobs, concurrency, done))

    async def _run(self, jobs: Sequence[StreamJob], concurrency: int, done: Callable[[], None] | None) -> LoadResult:
        records: list[StreamRecord | None] = [None] * len(jobs)
        waiting = iter(enumerate(jobs))
        places = [_Place(self) for _ in range(min(concurrency, len(jobs)))]
        await asyncio.gather(*(place.open(jobs[0].url) for place in places))
        lags: list[float] = []
        ticker = asyncio.create_task(_tick(lags))
        cpu, begun = time.process_time(), time.perf_counter()
        try:
            await asyncio.gather(*(self._work(place, waiting, records, done) for place in places))
        finally:
            cpu, ended = time.process_time() - cpu, time.perf_counter()
            ticker.cancel()
            for place in places:
                place.close()
            with contextlib.suppress(asyncio.CancelledError):
                await ticker
        wall_s = ended - begun
        late = percentile(sorted(lags), 90) * 1000 if lags else 0.0
        return LoadResult(tuple(r for r in records if r), wall_s, ClientLoad(cpu / wall_s if wall_s else 0.0, late))

    async def _work(
        self,
        place: _Place,
        waiting: Iterator[tuple[int, StreamJob]],
        records: list[StreamRecord | None],
        done: Callable[[], None] | None,
    ) -> None:
        for number, job in waiting:
            records[number] = await place.send(job, self._timeout_s)
            if done:
                done()

    async def connect(self, url: str) -> _Wire:
        """A connection for the URL, through the environment's proxy where one applies. Raises OSError or ssl's."""
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        host = parts.hostname or ""
        loop = asyncio.get_running_loop()
        tls = self._context() if secure else None
        proxy = route(url, self._env).proxy
        async with asyncio.timeout(self._connect_timeout_s):
            if proxy is None:
                _, wire = await loop.create_connection(_Wire, host, port, ssl=tls)
                return wire
            via = urlsplit(proxy)
            if not secure:
                _, wire = await loop.create_connection(_Wire, via.hostname or "", via.port or 80)
                wire.absolute, wire.proxy_header = True, _proxy_header(proxy)
                return wire
            reader, writer = await asyncio.open_connection(via.hostname, via.port or 80)
            writer.write(
                f"CONNECT {host}:{port} HTTP/1.1\r\nhost: {host}:{port}\r\n{_proxy_header(proxy)}\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            answer = head.decode("latin-1").split("\r\n", 1)[0]
            if " 200" not in answer:
                writer.close()
                raise ConnectionError(f"proxy: {answer}")
            wire = _Wire()
            transport = await loop.start_tls(writer.transport, wire, tls or self._context(), server_hostname=host)
            if transport is None:
                raise ConnectionError("proxy: the connection went away")
            wire.connection_made(transport)
            return wire

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


def _proxy_header(proxy: str) -> str:
    parts = urlsplit(proxy)
    if not parts.username:
        return ""
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return f"proxy-authorization: Basic {base64.b64encode(login).decode()}\r\n"


async def _tick(lags: list[float]) -> None:
    """How late this loop wakes: what a chunk's time may be late by."""
    while True:
        due = time.perf_counter() + _TICK_S
        await asyncio.sleep(_TICK_S)
        lags.append(max(0.0, time.perf_counter() - due))


class _Place:
    """One of the requests in flight, with its connection."""

    def __init__(self, load: StreamLoad) -> None:
        self._load = load
        self._wire: _Wire | None = None
        self._url = ""

    async def open(self, url: str) -> None:
        """Connect ahead of the first request; a failure shows when that is sent."""
        self._url = url
        with contextlib.suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError, TimeoutError):
            self._wire = await self._load.connect(url)

    def close(self) -> None:
        """Let the connection go."""
        if self._wire:
            self._wire.abort()

    async def send(self, job: StreamJob, timeout_s: float) -> StreamRecord:
        """One exchange, on the open connection where the server kept it."""
        connect_s: float | None = None
        if self._wire is None or not self._wire.usable or urlsplit(self._url)[:2] != urlsplit(job.url)[:2]:
            self.close()
            begun = time.perf_counter()
            try:
                self._wire = await self._load.connect(job.url)
            except (OSError, ssl.SSLError, asyncio.IncompleteReadError, TimeoutError) as error:
                self._wire = None
                now = time.perf_counter()
                return StreamRecord(begun, now, failure=f"no connection: {type(error).__name__}", connect_s=now - begun)
            connect_s = time.perf_counter() - begun
            self._url = job.url
        wire = self._wire
        finished = wire.begin(job)
        try:
            async with asyncio.timeout(timeout_s):
                failure = await finished
        except TimeoutError:
            failure = f"no end within {timeout_s:g} s"
            wire.abort()
        return StreamRecord(
            sent_s=wire.sent_s,
            ended_s=wire.arrivals[-1][0] if wire.arrivals and not failure else time.perf_counter(),
            status=wire.status,
            headers=tuple(wire.headers),
            arrivals=tuple(wire.arrivals),
            connect_s=connect_s,
            failure=failure,
        )


class _Wire(asyncio.Protocol):
    """One HTTP/1.1 connection. The time of a chunk is taken where the loop hands its bytes over."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._finished: asyncio.Future[str] | None = None
        self._buffer = bytearray()
        self._in_head = True
        self._left: int | None = None  # bytes of the body, or of the chunk, that are still to come
        self._chunked = False
        self._after_chunk = 0
        self._in_trailers = False
        self.usable = True
        self.absolute = False
        self.proxy_header = ""
        self.sent_s = 0.0
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.arrivals: list[tuple[float, bytes]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As the loop calls it."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def begin(self, job: StreamJob) -> asyncio.Future[str]:
        """Send a request; the future gives "" at the end of the answer, or why there was none."""
        parts = urlsplit(job.url)
        target = job.url if self.absolute else parts.path + (f"?{parts.query}" if parts.query else "")
        lines = "".join(f"{name}: {value}\r\n" for name, value in job.headers)
        head = f"POST {target or '/'} HTTP/1.1\r\nhost: {parts.netloc.rpartition('@')[2]}\r\n{lines}{self.proxy_header}"
        self._finished = asyncio.get_running_loop().create_future()
        self._buffer.clear()
        self._in_head, self._left, self._chunked, self._after_chunk, self._in_trailers = True, None, False, 0, False
        self.status, self.headers, self.arrivals = 0, [], []
        self.sent_s = time.perf_counter()
        if self._transport is None or self._transport.is_closing():
            self._end("the connection was closed")
        else:
            self._transport.write(f"{head}content-length: {len(job.body)}\r\n\r\n".encode() + job.body)
        return self._finished

    def data_received(self, data: bytes) -> None:
        """As the loop calls it."""
        now = time.perf_counter()
        if self._finished is None or self._finished.done():
            self.abort()  # bytes that nobody asked for: the connection is out of step
            return
        self._buffer += data
        if self._in_head and not self._read_head():
            return
        payload = self._read_chunks() if self._chunked else self._read_plain()
        if payload:
            self.arrivals.append((now, payload))
        if self._left == 0:
            self._end("")

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MOST_HEAD_BYTES:
                self._broken("headers without an end")
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        words = first.split(" ", 2)
        if not first.startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
            self._broken("an answer that is no HTTP/1.1")
            return False
        self.status = int(words[1])
        if self.status < 200:  # 100 Continue and the like come before the answer
            return self._read_head()
        self.headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        fields = {name.lower(): value.lower() for name, value in self.headers}
        self._in_head = False
        self._chunked = "chunked" in fields.get("transfer-encoding", "")
        length = fields.get("content-length", "")
        self._left = None if self._chunked or not length.isdigit() else int(length)
        if "close" in fields.get("connection", "") or (self._left is None and not self._chunked):
            self.usable = False
        return True

    def _read_plain(self) -> bytes:
        payload = bytes(self._buffer)
        self._buffer.clear()
        if self._left is not None:
            self._left = max(0, self._left - len(payload))
        return payload

    def _read_chunks(self) -> bytes:
        """What the buffer holds of chunk contents; `_left` is 0 only after the last chunk and its trailers."""
        payload = bytearray()
        buffer = self._buffer
        while buffer:
            if self._in_trailers:
                end = 0 if buffer.startswith(b"\r\n") else buffer.find(b"\r\n\r\n")
                if end >= 0:
                    buffer.clear()
                    self._left = 0
                break
            if self._after_chunk:
                dropped = min(self._after_chunk, len(buffer))
                del buffer[:dropped]
                self._after_chunk -= dropped
                continue
            if self._left is None:
                end = buffer.find(b"\r\n")
                if end < 0:
                    break
                try:
                    size = int(bytes(buffer[:end]).split(b";")[0], 16)
                except ValueError:
                    self._broken("a chunk without a size")
                    break
                del buffer[: end + 2]
                self._left, self._in_trailers = size or None, size == 0
                continue
            taken = min(self._left, len(buffer))
            payload += buffer[:taken]
            del buffer[:taken]
            self._left -= taken
            if not self._left:
                self._left, self._after_chunk = None, 2
        return bytes(payload)

    def connection_lost(self, error: Exception | None) -> None:
        """As the loop calls it. Without a length the end of the connection is the end of the answer."""
        self.usable = False
        plain = not self._in_head and not self._chunked and self._left is None
        self._end("" if plain and error is None else f"cut off{f': {type(error).__name__}' if error else ''}")

    def _broken(self, why: str) -> None:
        self._end(why)
        self.abort()

    def _end(self, failure: str) -> None:
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(failure)

    def abort(self) -> None:
        """Drop the connection."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()
