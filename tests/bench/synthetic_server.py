#!/usr/bin/env python3
"""A chat endpoint with known delays: what a benchmark measures against it has a known truth.

    python3 tests/bench/synthetic_server.py [--port 0]

Prints its URL. The model's name says how it behaves, as `key=value` joined by `;`:

    first=0.05     seconds to the first token          tokens=20    tokens of an answer (at most max_tokens)
    gap=0.01       seconds between tokens              jitter=0.2   each delay times 1 +- this, uniformly
    each=1         tokens in one chunk                 role=0       seconds to a first chunk without a token
    status=429     refuse with this status             retry=2      its Retry-After
    refuse=3       refuse only every n-th request      cut=5        close the connection after so many tokens
    stall=5        stop for `pause` seconds there      pause=0.5
    lie=7          usage says this many tokens         usage=0      no usage at all
    error=5        an error event after so many tokens reasoning=1  the first half is reasoning

`GET /truth` gives what it really did since the last call, by its own clock: milliseconds from the request's last byte
to the first token, and between tokens. A busy machine delays the server, too; that is not the client's error. So a
request begins when the kernel got it (on Linux), not when this program read it, and a token's time is taken right
before it is written.

An empty request (`{}`) gets 400 at once, as from a real server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import struct
import sys
import time
from typing import Any

DEFAULTS = {"first": 0.05, "gap": 0.01, "tokens": 20.0, "jitter": 0.0, "each": 1.0, "usage": 1.0, "pause": 0.5}


SO_TIMESTAMPNS = 35  # Linux: the kernel's time of arrival beside what is read


class Stamped(socket.socket):
    """A connection that knows when its last bytes came."""

    came_s = 0.0

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """As socket.recv."""
        data, ancillary, _, _ = self.recvmsg(bufsize, 64, flags)
        now, wall = time.perf_counter(), time.time()
        self.came_s = now
        for _, kind, value in ancillary:
            if kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = struct.unpack("ll", value)
                self.came_s = now - max(0.0, wall - seconds - nanoseconds / 1e9)
        return data


class Listener(socket.socket):
    """Accepts connections that know."""

    def accept(self) -> tuple[socket.socket, Any]:
        """As socket.accept."""
        taken, address = super().accept()
        stamped = Stamped(fileno=taken.detach())
        stamped.setblocking(False)
        return stamped, address


def listener(port: int) -> socket.socket:
    """Listens on loopback."""
    sock: socket.socket = Listener() if sys.platform == "linux" else socket.socket()
    if sys.platform == "linux":
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # connections inherit it
    sock.bind(("127.0.0.1", port))
    sock.listen(1024)
    return sock


class Server:
    """State of one server: what it did, and its random numbers (seeded: the same delays every time)."""

    def __init__(self) -> None:
        self.first_ms: list[float] = []
        self.gap_ms: list[float] = []
        self.served = 0
        self.random = random.Random(0)
        self.events: dict[str, bytes] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, any number of requests."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self.one(reader, writer):
                pass
        writer.close()

    async def one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; returns whether the connection may go on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, path, _ = head.split(" ", 2)
        length = next((int(x.split(":")[1]) for x in head.split("\r\n") if x.lower().startswith("content-length:")), 0)
        body = json.loads(await reader.readexactly(length) or b"{}") if length else {}
        inner = getattr(writer.get_extra_info("socket"), "_sock", None)  # behind asyncio's wrapper
        begun = inner.came_s if isinstance(inner, Stamped) else time.perf_counter()
        if path.endswith("/models"):
            self.reply(writer, 200, {"data": [{"id": "synthetic", "max_model_len": 8192}]})
        elif path == "/truth":
            self.reply(writer, 200, {"first_ms": self.first_ms, "gap_ms": self.gap_ms, "requests": self.served})
            self.first_ms, self.gap_ms, self.served = [], [], 0
        elif method == "POST" and path.endswith("/chat/completions") and not body:
            self.reply(writer, 400, {"error": {"message": "messages: Field required", "code": 400}})
        elif method == "POST" and path.endswith("/chat/completions"):
            return await self.chat(writer, body, begun)
        else:
            self.reply(writer, 404, {"detail": "Not Found"})
        await writer.drain()
        return True

    def reply(self, writer: asyncio.StreamWriter, status: int, body: Any, headers: str = "") -> None:
        """A whole answer at once."""
        out = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: {len(out)}"
        writer.write(f"{head}\r\n\r\n".encode() + out)

    async def chat(self, writer: asyncio.StreamWriter, body: dict[str, Any], begun: float) -> bool:
        """A streamed answer as the model's name orders it."""
        self.served += 1
        orders = dict(DEFAULTS)
        for item in str(body.get("model", "")).split(";"):
            key, equals, value = item.partition("=")
            if equals:
                orders[key.strip()] = float(value)
        if "status" in orders and self.served % int(orders.get("refuse", 1)) == 0:
            retry = f"retry-after: {orders['retry']:g}\r\n" if "retry" in orders else ""
            self.reply(writer, int(orders["status"]), {"error": {"message": "Slow down", "code": "rate"}}, retry)
            await writer.drain()
            return True
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        if "role" in orders:
            await asyncio.sleep(orders["role"])
            self.event(writer, {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        count = min(int(orders["tokens"]), int(body.get("max_tokens") or 10**9))
        due = begun + orders["first"] * self.shake(orders)
        last = begun
        sent = 0
        while sent < count:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if sent >= orders.get("stall", 10**9):
                await asyncio.sleep(orders["pause"])
                orders["stall"] = 10**9
            if sent >= orders.get("cut", 10**9):
                writer.transport.abort()
                return False
            if sent >= orders.get("error", 10**9):
                self.event(writer, {"error": {"message": "out of memory", "code": 500}})
                break
            each = min(int(orders["each"]), count - sent)
            key = "reasoning_content" if orders.get("reasoning") and sent < count / 2 else "content"
            data = self.token(key, each)
            now = time.perf_counter()
            writer.write(data)
            (self.gap_ms if sent else self.first_ms).append((now - last) * 1000)
            last = now
            sent += each
            due = max(due + orders["gap"] * self.shake(orders), now)
        if orders["usage"]:
            said = int(orders.get("lie", sent))
            self.event(writer, {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": said}})
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()
        return True

    def shake(self, orders: dict[str, float]) -> float:
        """A factor of jitter."""
        return 1 + orders["jitter"] * self.random.uniform(-1, 1)

    def token(self, key: str, words: int) -> bytes:
        """A chunk with that many words, made once."""
        name = f"{key}{words}"
        if name not in self.events:
            self.events[name] = chunk({"choices": [{"index": 0, "delta": {key: " word" * words}}]})
        return self.events[name]

    def event(self, writer: asyncio.StreamWriter, value: Any) -> None:
        """One event as one chunk."""
        writer.write(chunk(value))


def chunk(value: Any) -> bytes:
    """An event in a chunk of HTTP."""
    data = b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def main() -> None:
    """Serve until the parent goes away (stdin ends) or a signal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    server = await asyncio.start_server(Server().serve, sock=listener(options.port), limit=2**22)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    if not sys.stdin.isatty():
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.read()
        os._exit(0)  # open connections are nobody's concern any more
    else:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
