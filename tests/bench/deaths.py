"""How long the death in a log of 1 GiB takes to find, and in how much memory.

    python tests/bench/deaths.py [--mib 1024]

Exits 1 when a log takes more than 5 s of processor time a GiB, or the process more than 100 MiB.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from wizard.serving.deaths import Death, find_deaths, find_deaths_in_bytes

MAX_SECONDS_A_GIB = 5.0
MAX_MEMORY_MIB = 100
PIECE_BYTES = 1 << 20

_HEALTHY = (
    b"(APIServer pid=1) INFO 11-30 13:40:23 [loggers.py:257] Engine 000: Avg prompt throughput: 1234.5 tokens/s, Avg "
    b"generation throughput: 567.8 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 12.3%\n"
    b'(APIServer pid=1) INFO:     10.0.0.7:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
)
_CRASH = (Path(__file__).parents[1] / "recorded/vllm/deaths/bad-safetensors.log").read_bytes()
_DEATH = b"(EngineCore pid=9) ERROR 11-30 13:40:23 [core.py:1510] torch.OutOfMemoryError: CUDA out of memory.\n"


def _healthy() -> Iterator[bytes]:
    while True:
        yield _HEALTHY * 3000


def _crash_loop() -> Iterator[bytes]:
    second = 0
    while True:
        second += 1
        yield _CRASH.replace(b"13:39:00", b"%02d:%02d:%02d" % (second // 3600 % 24, second // 60 % 60, second % 60))


def _all_errors() -> Iterator[bytes]:
    number = 0
    while True:
        rows = range(number, number + 8000)
        yield b"".join(
            b"ERROR 11-30 13:40:23 [x.py:1] ValueError: request %d failed, error %d\n" % (n, n * 7) for n in rows
        )
        number += 8000


def _noise() -> Iterator[bytes]:
    while True:
        yield os.urandom(PIECE_BYTES)


def _no_line_end() -> Iterator[bytes]:
    while True:
        yield b"x" * PIECE_BYTES


_LOGS = {
    "healthy, then a death": (_healthy, "cuda-oom"),
    "restarts for ever": (_crash_loop, "cuda-oom"),
    "errors, all different": (_all_errors, "cuda-oom"),
    "binary noise": (_noise, "cuda-oom"),
    "one line without end": (_no_line_end, ""),
}


def _write(path: Path, pieces: Iterator[bytes], size: int) -> None:
    with path.open("wb") as file:
        written = 0
        while written < size:
            written += file.write(next(pieces))
        file.write(
            b"\n(APIServer pid=1) INFO 11-30 13:40:22 [api_utils.py:286] non-default args: {'port': 8000}\n" + _DEATH
        )


def _read(path: Path, by_lines: bool) -> tuple[Death, ...]:
    if by_lines:
        with path.open(errors="replace") as file:
            return find_deaths(file)
    with path.open("rb") as binary:
        return find_deaths_in_bytes(iter(lambda: binary.read(PIECE_BYTES), b""))


def main() -> int:
    """Measure each kind of log; a figure a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    size = parser.parse_args().mib << 20
    slow = False
    for name, (pieces, code) in _LOGS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "server.log")
            _write(path, pieces(), size)
            for by_lines in (False, True) if pieces is _healthy else (False,):
                begun, begun_cpu = time.perf_counter(), time.process_time()
                deaths = _read(path, by_lines)
                wall, took = time.perf_counter() - begun, time.process_time() - begun_cpu
                found = deaths[0].problem.code if deaths else ""
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
                way = "lines" if by_lines else "bytes"
                rate = took * (1 << 30) / size
                print(f"{name:24} {way}  {rate:5.2f} s/GiB (wall {wall:5.2f} s)  {memory:4} MiB  {found or '-'}")
                slow = slow or rate > MAX_SECONDS_A_GIB or memory > MAX_MEMORY_MIB
                if code and found != code:
                    print(f"  expected {code}")
                    slow = True
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
