"""Many streamed requests at once, each read timed as it comes off the wire.

Not through httpx2 or the openai SDK, whose work for each chunk shows in the figures: measured with 64 streams of a
server with known delays on two busy cores, 2,800 tokens/s cost 0.11 cores on asyncio alone, 0.31 with httpx2, and the
SDK (0.32 at 1,950 tokens/s) doubled the time to first token.

Where the kernel tells when a packet came (SO_TIMESTAMPNS, Linux), that is a chunk's time: it stands even when this
process is late in reading it, and how late it was is known for each read. Nothing is parsed before the run is over.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import re
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from urllib.parse import unquote, urlsplit

from wizard.bench.figures import ClientLoad, percentile
from wizard.bench.network import Reach
from wizard.bench.samples import NO_CONNECTION, StreamRecord
from wizard.endpoint.proxies import route

_TICK_S = 0.02
_MOST_HEAD_BYTES = 256 * 1024
_STATUS, _LENGTH = re.compile(r"[0-9]{3}"), re.compile(r"[0-9]{1,18}")
# Connections that an open loop has ready before its first request.
_READY = 16
_CONNECT_ERRORS = (OSError, ssl.SSLError, TimeoutError)
# include/uapi/asm-generic/socket.h; the socket module does not name it.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("ll")
# A stamp further back than this was a step of the clock.
_MOST_LATE_S = 60.0
# Answers are handed over when a run ends, for what is done with them would hold chunks up; a long run's earlier, when
# they would fill the memory: an hour at 5,000 tokens/s is 5 GB.
_MOST_KEPT_BYTES = 64 << 20
_CHUNK_BYTES = 150  # of a chunk's objects, beside its text


@dataclass(frozen=True, slots=True)
class StreamJob:
    """One POST. headers are sent as they are, besides host and content length."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The time from the first request to the last byte; this client's own load."""

    wall_s: float
    client: ClientLoad


class StreamLoad:
    """Runs chains of jobs: those of a chain one after another, chains side by side; connections are kept."""

    def __init__(self, env: Mapping[str, str], *, timeout_s: float = 300.0, connect_timeout_s: float = 10.0) -> None:
        self._env = env
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._tls: ssl.SSLContext | None = None

    def run(
        self,
        chains: Sequence[Sequence[StreamJob]],
        concurrency: int,
        take: Callable[[int, StreamRecord], None],
        *,
        starts_s: Sequence[float] = (),
        done: Callable[[], None] | None = None,
    ) -> LoadResult:
        """Send all jobs, `concurrency` chains at a time; connections are opened before.

        take: gets each job's record once, with the job's number in the order of the chains; at the end, or before that
        what has ended when it is too much to keep. starts_s: when each chain is due, in seconds from the start and
        ascending; then every chain is sent at its time, however many are under way. `done` is called after each job.
        Nothing that a server does raises.
        """
        # A collection of this program's objects takes several milliseconds, in the middle of a chunk's arrival.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return asyncio.run(self._run(chains, concurrency, take, starts_s, done))
        finally:
            if collecting:
                gc.enable()

    def reach(self, job: StreamJob, times: int) -> tuple[Reach, ...]:
        """What the way to the server takes: fresh connections, and the answer's first byte on each, one by one."""
        return asyncio.run(self._reach(job, times))

    async def _run(
        self,
        chains: Sequence[Sequence[StreamJob]],
        concurrency: int,
        take: Callable[[int, StreamRecord], None],
        starts_s: Sequence[float],
        done: Callable[[], None] | None,
    ) -> LoadResult:
        ready = min(_READY if starts_s else concurrency, len(chains))
        kept = _Kept(take)
        run = _Run(self, [_Place(self) for _ in range(ready)], chains, kept, done)
        await asyncio.gather(*(place.open(chains[0][0].url) for place in run.places))
        ticks: list[float] = []
        ticker = asyncio.create_task(_tick(ticks))
        cpu, begun = time.process_time(), time.perf_counter()
        try:
            if starts_s:
                await run.by_time([begun + start for start in starts_s], self._timeout_s)
            else:
                await run.by_place(self._timeout_s)
        finally:
            cpu, ended = time.process_time() - cpu, time.perf_counter()
            ticker.cancel()
            for place in run.places:
                place.close()
            with contextlib.suppress(asyncio.CancelledError):
                await ticker
        kept.hand_over()
        lags = [late for place in run.places for late in place.lags]
        load = ClientLoad(
            cpu / (ended - begun),
            percentile(sorted(lags or ticks), 90) * 1000 if lags or ticks else 0.0,
            bool(lags),
        )
        return LoadResult(kept.wall_s, load)

    async def _reach(self, job: StreamJob, times: int) -> tuple[Reach, ...]:
        found: list[Reach] = []
        for _ in range(times):
            steps: dict[str, float] = {}
            try:
                wire = await self.connect(job.url, steps)
            except _CONNECT_ERRORS as error:
                found.append(Reach(failure=type(error).__name__))
                continue
            finished = wire.begin(job)
            try:
                async with asyncio.timeout(self._connect_timeout_s):
                    failure = await finished
            except TimeoutError:
                failure = f"no end within {self._connect_timeout_s:g} s"
            first = wire.first_byte_s - wire.sent_s if wire.first_byte_s else None
            wire.abort()
            found.append(
                Reach(
                    steps.get("resolve"),
                    steps.get("connect"),
                    steps.get("tls"),
                    first,
                    wire.status,
                    "" if first is not None else failure,
                )
            )
        return tuple(found)

    async def connect(self, url: str, steps: dict[str, float] | None = None) -> _Wire:
        """A connection for the URL, through the environment's proxy where one applies. Raises OSError or ssl's.

        steps: gets the seconds of `resolve`, `connect` and `tls`; through a proxy the first two are those to it, and
        `tls` holds its CONNECT, too.
        """
        took = {} if steps is None else steps
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        host = parts.hostname or ""
        loop = asyncio.get_running_loop()
        proxy = route(url, self._env).proxy
        async with asyncio.timeout(self._connect_timeout_s):
            via = urlsplit(proxy or "")
            sock = await _dial(
                via.hostname or "" if proxy else host,
                (via.port or 80) if proxy else port,
                took,
                self._connect_timeout_s,
            )
            begun = time.perf_counter()
            wire = _Wire(sock)
            try:
                if proxy is not None and secure:
                    await _open_tunnel(sock, host, port, proxy)
                elif proxy is not None:
                    wire.absolute, wire.proxy_header = True, _proxy_header(proxy)
                tls = self._context() if secure else None
                await loop.create_connection(lambda: wire, sock=sock, ssl=tls, server_hostname=host if secure else None)
            except BaseException:
                sock.close()
                raise
            if secure:
                took["tls"] = time.perf_counter() - begun
            return wire

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            import httpcore2

            self._tls = httpcore2.default_ssl_context()  # the trust store of effects.http
        return self._tls


class _Stamped(socket.socket):
    """A socket that knows when what was read last had come, by the kernel's word; asyncio reads through it.

    came_s: on perf_counter's clock. late_s: how long ago that was when it was read; None where the kernel is silent.
    """

    came_s = 0.0
    late_s: float | None = None

    def stamp(self) -> None:
        """Ask the kernel for times; where it has none, the time of reading stands in."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """As socket.recv."""
        if sys.platform == "win32":
            return super().recv(bufsize, flags)
        data, ancillary, _, _ = self.recvmsg(bufsize, 64, flags)
        self._note(ancillary)
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """As socket.recv_into; TLS reads so."""
        if sys.platform == "win32":
            return super().recv_into(buffer, nbytes, flags)
        size, ancillary, _, _ = self.recvmsg_into([memoryview(buffer)[: nbytes or None]], 64, flags)
        self._note(ancillary)
        return size

    def _note(self, ancillary: Sequence[tuple[int, int, bytes]]) -> None:
        now, wall = time.perf_counter(), time.time()
        self.came_s, self.late_s = now, None
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(value) == _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack(value)
                late = wall - (seconds + nanoseconds / 1e9)
                if 0 <= late < _MOST_LATE_S:
                    self.came_s, self.late_s = now - late, late


async def _dial(host: str, port: int, took: dict[str, float], timeout_s: float) -> _Stamped:
    """A TCP connection to the first address that accepts, each within its share of the time. Raises the first OSError
    (TimeoutError among them)."""
    loop = asyncio.get_running_loop()
    begun = time.perf_counter()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    took["resolve"] = time.perf_counter() - begun
    errors: list[OSError] = []
    for family, kind, protocol, _, address in addresses:
        begun = time.perf_counter()
        sock = _Stamped(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.stamp()
            async with asyncio.timeout(timeout_s / len(addresses)):
                await loop.sock_connect(sock, address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            sock.close()
            errors.append(error)
        except BaseException:
            sock.close()
            raise
        else:
            took["connect"] = time.perf_counter() - begun
            return sock
    raise errors[0] if errors else OSError("no address")


async def _open_tunnel(sock: _Stamped, host: str, port: int, proxy: str) -> None:
    """Ask a proxy for a way to the server. Raises ConnectionError where it has none."""
    loop = asyncio.get_running_loop()
    order = f"CONNECT {host}:{port} HTTP/1.1\r\nhost: {host}:{port}\r\n{_proxy_header(proxy)}\r\n"
    await loop.sock_sendall(sock, order.encode())
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MOST_HEAD_BYTES:
        more = await loop.sock_recv(sock, 4096)
        if not more:
            break
        head += more
    answer = head.decode("latin-1").split("\r\n", 1)[0]
    if " 200" not in answer:
        raise ConnectionError(f"proxy: {answer}")


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


class _Kept:
    """Records on their way to who asked for them."""

    def __init__(self, take: Callable[[int, StreamRecord], None]) -> None:
        self._take = take
        self._records: list[tuple[int, StreamRecord]] = []
        self._bytes = 0
        self._first_sent_s = float("inf")
        self._last_ended_s = 0.0

    @property
    def wall_s(self) -> float:
        """From the first request to the last byte."""
        return max(0.0, self._last_ended_s - self._first_sent_s)

    def add(self, number: int, record: StreamRecord) -> None:
        """One more."""
        self._records.append((number, record))
        self._first_sent_s = min(self._first_sent_s, record.sent_s)
        self._last_ended_s = max(self._last_ended_s, record.ended_s)
        self._bytes += sum(len(payload) + _CHUNK_BYTES for _, payload in record.arrivals)
        if self._bytes > _MOST_KEPT_BYTES:
            self.hand_over()

    def hand_over(self) -> None:
        """All that is here."""
        for number, record in self._records:
            self._take(number, record)
        self._records.clear()
        self._bytes = 0


class _Run:
    """One run of chains over places."""

    def __init__(
        self,
        load: StreamLoad,
        places: list[_Place],
        chains: Sequence[Sequence[StreamJob]],
        kept: _Kept,
        done: Callable[[], None] | None,
    ) -> None:
        self._load = load
        self.places = places
        self._chains = chains
        self._kept = kept
        self._done = done
        # The number of each chain's first job.
        self._first = list(accumulate((len(chain) for chain in chains), initial=0))

    async def by_place(self, timeout_s: float) -> None:
        """Closed loop: each place takes the next chain when it is through with one."""
        waiting = iter(range(len(self._chains)))

        async def work(place: _Place) -> None:
            for number in waiting:
                await self._chain(place, number, None, timeout_s)

        await asyncio.gather(*(work(place) for place in self.places))

    async def by_time(self, due_s: Sequence[float], timeout_s: float) -> None:
        """Open loop: each chain at its time, on a connection of its own where none is free."""
        free = list(self.places)

        async def work(number: int) -> None:
            if free:
                place = free.pop()
            else:
                place = _Place(self._load)
                self.places.append(place)
            await self._chain(place, number, due_s[number], timeout_s)
            free.append(place)

        tasks: list[asyncio.Task[None]] = []
        for number in range(len(self._chains)):
            wait_s = due_s[number] - time.perf_counter()
            await asyncio.sleep(max(0.0, wait_s))
            tasks.append(asyncio.create_task(work(number)))
        await asyncio.gather(*tasks)

    async def _chain(self, place: _Place, number: int, due_s: float | None, timeout_s: float) -> None:
        for job_number, job in enumerate(self._chains[number], self._first[number]):
            self._kept.add(job_number, await place.send(job, timeout_s, due_s))
            due_s = None  # a later request of a chain waits for the answer before it, not for the clock
            if self._done:
                self._done()


class _Place:
    """One of the requests in flight, with its connection. lags: how late each read was, where the kernel tells."""

    def __init__(self, load: StreamLoad) -> None:
        self._load = load
        self._wire: _Wire | None = None
        self._url = ""
        self.lags: list[float] = []

    async def open(self, url: str) -> None:
        """Connect ahead of the first request; a failure shows when that is sent."""
        self._url = url
        with contextlib.suppress(*_CONNECT_ERRORS):
            self._wire = await self._load.connect(url)

    def close(self) -> None:
        """Let the connection go."""
        if self._wire:
            self._wire.abort()

    async def send(self, job: StreamJob, timeout_s: float, due_s: float | None = None) -> StreamRecord:
        """One exchange, on the open connection where the server kept it."""
        connect_s: float | None = None
        if self._wire is None or not self._wire.usable or urlsplit(self._url)[:2] != urlsplit(job.url)[:2]:
            self.close()
            begun = time.perf_counter()
            try:
                self._wire = await self._load.connect(job.url)
            except _CONNECT_ERRORS as error:
                self._wire = None
                now = time.perf_counter()
                failure = f"{NO_CONNECTION}: {type(error).__name__}"
                return StreamRecord(begun, now, due_s, failure=failure, connect_s=now - begun)
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
        self.lags += wire.lags
        return StreamRecord(
            sent_s=wire.sent_s,
            due_s=due_s,
            ended_s=wire.arrivals[-1][0] if wire.arrivals and not failure else time.perf_counter(),
            status=wire.status,
            headers=tuple(wire.headers),
            arrivals=tuple(wire.arrivals),
            connect_s=connect_s,
            failure=failure,
        )


class _Wire(asyncio.Protocol):
    """One HTTP/1.1 connection. A chunk's time is the kernel's, else that at which the loop hands its bytes over."""

    def __init__(self, sock: _Stamped) -> None:
        self._sock = sock
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
        self.first_byte_s = 0.0
        self.lags: list[float] = []
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
        self.status, self.headers, self.arrivals, self.lags, self.first_byte_s = 0, [], [], [], 0.0
        request = f"{head}content-length: {len(job.body)}\r\n\r\n".encode() + job.body
        self.sent_s = time.perf_counter()
        if self._transport is None or self._transport.is_closing():
            self._end("the connection was closed")
        else:
            self._transport.write(request)
        return self._finished

    def data_received(self, data: bytes) -> None:
        """As the loop calls it."""
        now = self._sock.came_s or time.perf_counter()
        if self._sock.late_s is not None:
            self.lags.append(self._sock.late_s)
        self.first_byte_s = self.first_byte_s or now
        if self._finished is None or self._finished.done():
            self.abort()  # bytes that nobody asked for: the connection is out of step
            return
        self._buffer += data
        while self._in_head:
            if not self._read_head():
                return
        payload = self._read_chunks() if self._chunked else self._read_plain()
        if payload:
            self.arrivals.append((now, payload))
        if self._left == 0:
            self._end("")

    def _read_head(self) -> bool:
        """Whether a head was taken from the buffer, which need not be the answer's."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MOST_HEAD_BYTES:
                self._broken("headers without an end")
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        words = first.split(" ", 2)
        if not first.startswith("HTTP/1.") or len(words) < 2 or not _STATUS.fullmatch(words[1]):
            self._broken("an answer that is no HTTP/1.1")
            return False
        self.status = int(words[1])
        if self.status < 200:  # 100 Continue and the like come before the answer
            return True
        self.headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        fields = {name.lower(): value.lower() for name, value in self.headers}
        self._in_head = False
        self._chunked = "chunked" in fields.get("transfer-encoding", "")
        length = fields.get("content-length", "")
        self._left = None if self._chunked or not _LENGTH.fullmatch(length) else int(length)
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
