#!/usr/bin/env python3
"""What other clients would add to what `llm-setup bench` measures: the same streams through httpx2 and the openai SDK.

    python3 tests/bench/overhead.py [--at-once 64]

Each client in turn, against a server with known delays in another process: the medians by the client's clock, the
server's truth, and the client's processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from statistics import median

SERVER = Path(__file__).with_name("synthetic_server.py")
FIRST, GAP, TOKENS, ROUNDS = 0.3, 0.0128, 200, 3
MODEL = f"first={FIRST};gap={GAP};tokens={TOKENS};jitter=0.1"
BODY = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 1000}

Times = list[tuple[float, list[float]]]
Client = Callable[[str, int], Awaitable[Times]]


async def by_httpx(url: str, at_once: int) -> Times:
    """httpx2's async client, each line parsed as it comes."""
    import httpx2

    async def one(client: httpx2.AsyncClient) -> Times:
        found: Times = []
        for _ in range(ROUNDS):
            sent, came = time.perf_counter(), []
            async with client.stream("POST", f"{url}/chat/completions", json=BODY) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {") and json.loads(line[6:])["choices"]:
                        came.append(time.perf_counter())
            found.append((sent, came))
        return found

    limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    async with httpx2.AsyncClient(limits=limits, timeout=60) as client:
        return [pair for pairs in await asyncio.gather(*(one(client) for _ in range(at_once))) for pair in pairs]


async def by_sdk(url: str, at_once: int) -> Times:
    """The openai SDK's async client, as programs use it."""
    import openai

    async def one(client: openai.AsyncOpenAI) -> Times:
        found: Times = []
        for _ in range(ROUNDS):
            sent, came = time.perf_counter(), []
            async for chunk in await client.chat.completions.create(**BODY):  # type: ignore[call-overload]
                if chunk.choices:
                    came.append(time.perf_counter())
            found.append((sent, came))
        return found

    async with openai.AsyncOpenAI(base_url=url, api_key="none", timeout=60, max_retries=0) as client:
        return [pair for pairs in await asyncio.gather(*(one(client) for _ in range(at_once))) for pair in pairs]


def by_wizard(url: str, at_once: int) -> Times:
    """What `bench` uses."""
    from wizard.bench.samples import Sample, parse_sample
    from wizard.effects.streams import StreamJob, StreamLoad

    job = StreamJob(f"{url}/chat/completions", (("content-type", "application/json"),), json.dumps(BODY).encode())
    samples: list[Sample] = []
    chains = [[job]] * (at_once * ROUNDS)
    StreamLoad({}).run(chains, at_once, lambda _, record: samples.append(parse_sample(record)))
    return [(0.0, list(sample.token_s)) for sample in samples]


def main() -> None:
    """One line a client."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at-once", type=int, default=64)
    at_once = parser.parse_args().at_once
    server = subprocess.Popen([sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None and server.stdout is not None
    url = server.stdout.readline().strip()
    clients: dict[str, Callable[[], Times]] = {
        "llm-setup": lambda: by_wizard(url, at_once),
        "httpx2": lambda: asyncio.run(by_httpx(url, at_once)),  # type: ignore[arg-type]
        "openai": lambda: asyncio.run(by_sdk(url, at_once)),  # type: ignore[arg-type]
    }
    for name, run in clients.items():
        urllib.request.urlopen(url.removesuffix("/v1") + "/truth").read()
        cpu, begun = time.process_time(), time.perf_counter()
        times = run()
        cores = (time.process_time() - cpu) / (time.perf_counter() - begun)
        truth = json.loads(urllib.request.urlopen(url.removesuffix("/v1") + "/truth").read())
        first = median((came[0] - sent) * 1000 for sent, came in times)
        gap = median((b - a) * 1000 for _, came in times for a, b in pairwise(came))
        rate = sum(len(came) for _, came in times) / (time.perf_counter() - begun)
        print(
            f"{name:9} {rate:6.0f} tokens/s, {cores:.2f} cores: first token {first:7.2f} ms"
            f" (truth {median(truth['first_ms']):7.2f}), between {gap:6.2f} ms (truth {median(truth['gap_ms']):6.2f})",
            flush=True,
        )
    server.stdin.close()
    server.wait()


if __name__ == "__main__":
    main()
