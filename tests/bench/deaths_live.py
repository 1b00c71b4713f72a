"""How long after a server's death `serve` names it on the screen, and ends; with a stand-in for vLLM that dies.

    python tests/bench/deaths_live.py [--command .venv/bin/llm-setup] [--runs 5]

While it starts, the stand-in prints the log of each recorded death and ends; once ready, it crashes beside an attached
`serve`, also behind 200 MiB of log. The death is when the process ends, as the system tells. Exits 1 when one is named
later than 2 s after it, or not at all.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

MAX_SECONDS = 2.0
TESTS = Path(__file__).resolve().parents[1]
STANDIN = TESTS / "journeys" / "serve" / "standin_vllm.py"
RECORDED = TESTS / "recorded" / "vllm" / "deaths"
CRASH = "torch.OutOfMemoryError: CUDA out of memory."
# One argument or variable may be as long as this (MAX_ARG_STRLEN).
LONGEST = 120_000


class Bench:
    """A home with a stand-in vLLM and a model folder."""

    def __init__(self, root: Path, command: str) -> None:
        self._command = command
        self._pid_file = root / "own" / "state" / "servers" / "local.pid"
        python = root / "venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\nexport STANDIN_PYTHON=\"$0\"\nexec '{sys.executable}' -I '{STANDIN}' \"$@\"\n")
        python.chmod(0o755)
        self._model = root / "model"
        self._model.mkdir()
        shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 100, **shape}
        (self._model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 8192}))
        head = json.dumps({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        (self._model / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
        self._python = python
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "LLM_SETUP_HOME": str(root / "own"),
            "LLM_SETUP_PLAIN": "1",
            "LANG": "C.UTF-8",
        }

    def die(self, standin: str, *arguments: str) -> tuple[float, float, str]:
        """Seconds from the death to the line that names it, to the end of `serve`, and the code that it named."""
        self._pid_file.unlink(missing_ok=True)
        died: list[float] = []
        command = [self._command, "serve", str(self._model), "--vllm", str(self._python), *arguments]
        with subprocess.Popen(
            command, env=self._env | {"STANDIN": standin}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as serving:
            watch = threading.Thread(target=self._watch, args=(died, serving))
            watch.start()
            assert serving.stderr is not None
            said, named = b"", 0.0
            while piece := os.read(serving.stderr.fileno(), 65536):
                said += piece
                if not named and b"error:" in said:
                    named = time.monotonic()
            serving.wait()
            ended = time.monotonic()
            watch.join()
        code = re.search(rb"\[([a-z0-9-]+)\]", said)
        if not died or not named or code is None:
            sys.exit(f"{standin[:60]}: no death was named: {said.decode(errors='replace')[-500:]}")
        return named - died[0], ended - died[0], code[1].decode()

    def _watch(self, died: list[float], serving: subprocess.Popen[bytes]) -> None:
        while serving.poll() is None:
            try:
                server = os.pidfd_open(int(self._pid_file.read_text()))
            except (OSError, ValueError):
                time.sleep(0.005)
                continue
            select.select([server], [], [])
            died.append(time.monotonic())
            os.close(server)
            return

    def close(self) -> None:
        """End what a failed run left."""
        subprocess.run([self._command, "stop", "--all"], env=self._env, capture_output=True, check=False)


def main() -> int:
    """Measure each way to die; a line a way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=str(Path(sys.executable).parent / "llm-setup"))
    parser.add_argument("--runs", type=int, default=5, help="of each way that is no recorded log")
    options = parser.parse_args()
    logs = [log.read_text(errors="replace") for log in sorted(RECORDED.glob("*.log"))]
    starting = [f"die={text.replace(';', ',')}" for text in logs if len(text.encode()) < LONGEST]
    ways = {
        "while it starts, recorded logs": (starting, ("--detach",)),
        "once ready, attached": ([f"crash-after=1;last={CRASH}"] * options.runs, ()),
        "behind 200 MiB of log": ([f"chatty=200;crash-after=1;last={CRASH}"] * options.runs, ()),
    }
    late = False
    root = Path(tempfile.mkdtemp(prefix="deaths-live-"))
    bench = Bench(root, options.command)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        for name, (standins, arguments) in ways.items():
            seen = [bench.die(standin, *arguments) for standin in standins]
            named, ended = [each[0] for each in seen], [each[1] for each in seen]
            print(
                f"{name:32} {len(seen):3} deaths  named after {statistics.median(named):.2f} s, slowest "
                f"{max(named):.2f} s; ended after {statistics.median(ended):.2f} s, slowest {max(ended):.2f} s; "
                f"{len({each[2] for each in seen})} codes"
            )
            late = late or max(named) > MAX_SECONDS
    finally:
        bench.close()
        shutil.rmtree(root, ignore_errors=True)
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
