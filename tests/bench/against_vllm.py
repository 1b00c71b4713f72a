#!/usr/bin/env python3
"""`llm-setup bench` against `vllm bench serve`, on one server, with the same prompts, in turns.

    python3 tests/bench/against_vllm.py --base-url http://127.0.0.1:8000/v1 --model NAME --tokenizer FOLDER
        --vllm-python VENV/bin/python [--turns 5] [--concurrency 4] [--requests 32] [--max-tokens 32]

Start the server with `--no-enable-prefix-caching`: the prompts come again in every turn. vLLM's tool needs pandas.
Prints both tools' medians of each turn, and whether they agree within 3% or within the spread from turn to turn,
whichever is larger.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

WORDS = "time year people way day thing world life hand part child eye woman place work week case point home".split()  # noqa: SIM905
BENCH_SERVE = """
import argparse
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
FIGURES = ("first token ms", "token ms", "tokens/s")


def ours(options: argparse.Namespace, prompts: Path, home: str) -> dict[str, float]:
    """One turn of llm-setup."""
    command = [options.command, "bench", "--base-url", options.base_url, "--model", options.model, "--json"]
    command += ["--prompts", str(prompts), "--concurrency", str(options.concurrency)]
    command += ["--requests", str(options.requests), "--max-tokens", str(options.max_tokens), "--ignore-eos"]
    env = {**os.environ, "LLM_SETUP_HOME": home}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    (result,) = json.loads(done.stdout)["results"]
    if result["errors"]:
        sys.exit(f"llm-setup: {result['error_kinds']}")
    return {
        "first token ms": result["time_to_first_token_ms"]["p50"],
        "token ms": result["time_per_output_token_ms"]["p50"],
        "tokens/s": result["output_tokens_per_s"],
    }


def theirs(options: argparse.Namespace, prompts: Path, home: str) -> dict[str, float]:
    """One turn of vllm bench serve."""
    data = Path(home) / "prompts.jsonl"
    data.write_text("".join(json.dumps({"prompt": line}) + "\n" for line in prompts.read_text().splitlines()))
    # Not through the `vllm` command, which asks for metadata that the CPU build's repackaging on PyPI lacks.
    command = [options.vllm_python, "-c", BENCH_SERVE, "--backend", "openai-chat"]
    command += ["--base-url", options.base_url.removesuffix("/v1"), "--endpoint", "/v1/chat/completions"]
    command += ["--model", options.model, "--tokenizer", options.tokenizer, "--dataset-name", "custom"]
    command += ["--dataset-path", str(data), "--custom-output-len", str(options.max_tokens), "--ignore-eos"]
    command += ["--num-prompts", str(options.requests), "--max-concurrency", str(options.concurrency)]
    command += ["--disable-shuffle", "--skip-chat-template", "--temperature", "0", "--num-warmups", "1"]
    command += ["--save-result", "--result-dir", home, "--result-filename", "theirs.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"vllm bench serve: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads((Path(home) / "theirs.json").read_text())
    return {
        "first token ms": result["median_ttft_ms"],
        "token ms": result["median_tpot_ms"],
        "tokens/s": result["output_throughput"],
    }


def main() -> None:
    """In turns, ours first in one and last in the next."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("base-url", "model", "tokenizer", "vllm-python"):
        parser.add_argument(f"--{name}", required=True)
    for name, default in (("turns", 5), ("concurrency", 4), ("requests", 32), ("max-tokens", 32)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--command", default=str(Path(sys.executable).parent / "llm-setup"))
    options = parser.parse_args()
    seen: dict[str, list[dict[str, float]]] = {"llm-setup": [], "vllm": []}
    tools = {"llm-setup": ours, "vllm": theirs}
    chosen = random.Random(0)
    with tempfile.TemporaryDirectory() as home:
        prompts = Path(home) / "prompts.txt"
        prompts.write_text("".join(" ".join(chosen.choices(WORDS, k=150)) + "\n" for _ in range(options.requests)))
        for turn in range(options.turns):
            for name in list(tools)[:: 1 if turn % 2 else -1]:
                seen[name].append(tools[name](options, prompts, home))
                figures = ", ".join(f"{key} {value:.2f}" for key, value in seen[name][-1].items())
                print(f"turn {turn} {name:10} {figures}", flush=True)
    agree = True
    for figure in FIGURES:
        us, them = ([run[figure] for run in seen[name]] for name in ("llm-setup", "vllm"))
        ratio = median(us) / median(them)
        spread = max(max(runs) / median(runs) - 1 for runs in (us, them))
        spread = max(spread, *(1 - min(runs) / median(runs) for runs in (us, them)))
        allowed = max(0.03, spread)
        agree = agree and abs(ratio - 1) <= allowed
        print(
            f"{figure}: llm-setup {median(us):.2f}, vllm {median(them):.2f}, ratio {ratio:.3f}"
            f" (allowed 1 +- {allowed:.3f}; spread from turn to turn {spread:.3f})"
        )
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
