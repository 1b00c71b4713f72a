#!/usr/bin/env python3
"""`llm-setup bench` against `vllm bench serve`, on one server, with the same prompts, in turns.

    python3 tests/bench/against_vllm.py --base-url http://127.0.0.1:8000/v1 --model NAME --tokenizer FOLDER
        --vllm-python VENV/bin/python [--turns 5] [--concurrency 4] [--requests 32] [--max-tokens 32]

Start the server with `--no-enable-prefix-caching`: the prompts come again in every turn. A key comes from
OPENAI_API_KEY. Prints both tools' medians of each turn, and whether they agree within 3% or within the spread from turn
to turn (between quartiles), whichever is larger; the first turn, in which the server warms up, counts for neither.
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
from statistics import median, quantiles
from typing import Any

WORDS = "time year people way day thing world life hand part child eye woman place work week case point home".split()  # noqa: SIM905
# Not through the `vllm` command, which asks for metadata that the CPU build's repackaging on PyPI lacks; and imported
# once, for that takes longer than a turn. A line of arguments in, a line out when it is done. The file of prompts is
# read without pandas, which vLLM does not bring.
BENCH_SERVE = """
import argparse, contextlib, importlib.util, json, pathlib, sys
from vllm.benchmarks.serve import add_cli_args, main
from vllm.benchmarks.datasets import datasets
class Row(dict):
    to_dict = dict.copy
class Rows:
    columns = ["prompt"]
    def __init__(self, path_or_buf, lines):
        self.lines = pathlib.Path(path_or_buf).read_text().splitlines()
    def iterrows(self):
        return enumerate(Row(json.loads(line)) for line in self.lines)
if importlib.util.find_spec("pandas") is None:
    datasets.pd = argparse.Namespace(read_json=Rows)
parser = argparse.ArgumentParser()
add_cli_args(parser)
print("ready", flush=True)
for line in sys.stdin:
    with contextlib.redirect_stdout(sys.stderr):
        main(parser.parse_args(json.loads(line)))
    print("done", flush=True)
"""
KEY = "OPENAI_API_KEY"
FIGURES = ("first token ms", "token ms", "tokens/s")


class Ours:
    """llm-setup's command."""

    def __init__(self, options: argparse.Namespace, prompts: Path, home: Path) -> None:
        self.home = home
        self.command = [options.command, "bench", "--base-url", options.base_url, "--model", options.model, "--json"]
        self.command += ["--prompts", str(prompts), "--cache", "warm", "--concurrency", str(options.concurrency)]
        self.command += ["--requests", str(options.requests), "--max-tokens", str(options.max_tokens), "--ignore-eos"]

    def turn(self) -> dict[str, float]:
        """One turn."""
        env = {**os.environ, "LLM_SETUP_HOME": str(self.home), "LLM_SETUP_API_KEY": os.environ.get(KEY, "")}
        done = subprocess.run(self.command, env=env, capture_output=True, text=True, check=False)
        (result,) = json.loads(done.stdout)["results"]
        if result["errors"]:
            sys.exit(f"llm-setup: {result['error_kinds']}")
        return {
            "first token ms": result["time_to_first_token_ms"]["p50"],
            "token ms": result["time_per_output_token_ms"]["p50"],
            "tokens/s": result["output_tokens_per_s"],
        }


class Theirs:
    """vllm bench serve."""

    def __init__(self, options: argparse.Namespace, prompts: Path, home: Path) -> None:
        self.result = home / "theirs.json"
        data = home / "prompts.jsonl"
        data.write_text("".join(json.dumps({"prompt": line}) + "\n" for line in prompts.read_text().splitlines()))
        self.arguments = ["--backend", "openai-chat", "--base-url", options.base_url.removesuffix("/v1")]
        self.arguments += ["--endpoint", "/v1/chat/completions", "--model", options.model]
        self.arguments += ["--tokenizer", options.tokenizer, "--dataset-name", "custom", "--dataset-path", str(data)]
        self.arguments += ["--custom-output-len", str(options.max_tokens), "--ignore-eos", "--disable-shuffle"]
        self.arguments += ["--num-prompts", str(options.requests), "--max-concurrency", str(options.concurrency)]
        self.arguments += ["--skip-chat-template", "--temperature", "0", "--num-warmups", "1", "--save-result"]
        self.arguments += ["--result-dir", str(home), "--result-filename", self.result.name]
        self.process = subprocess.Popen(
            [options.vllm_python, "-c", BENCH_SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(home / "theirs.log").open("w"),
            text=True,
        )
        self.log = home / "theirs.log"
        self.expect("ready")

    def expect(self, word: str) -> None:
        """Wait for a line of it."""
        assert self.process.stdout is not None
        while (line := self.process.stdout.readline()) and line.strip() != word:
            pass
        if not line:
            sys.exit(f"vllm bench serve: {self.log.read_text()[-2000:]}")

    def turn(self) -> dict[str, float]:
        """One turn."""
        assert self.process.stdin is not None
        print(json.dumps(self.arguments), file=self.process.stdin, flush=True)
        self.expect("done")
        result: dict[str, Any] = json.loads(self.result.read_text())
        if result["completed"] != int(self.arguments[self.arguments.index("--num-prompts") + 1]):
            sys.exit(f"vllm bench serve: {self.log.read_text()[-2000:]}")
        return {
            "first token ms": result["median_ttft_ms"],
            "token ms": result["median_tpot_ms"],
            "tokens/s": result["output_throughput"],
        }

    def close(self) -> None:
        """End it."""
        self.process.communicate()


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
    chosen = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        prompts = home / "prompts.txt"
        prompts.write_text("".join(" ".join(chosen.choices(WORDS, k=150)) + "\n" for _ in range(options.requests)))
        theirs = Theirs(options, prompts, home)
        tools = {"llm-setup": Ours(options, prompts, home).turn, "vllm": theirs.turn}
        for turn in range(options.turns + 1):
            for name in list(tools)[:: 1 if turn % 2 else -1]:
                figures = tools[name]()
                if turn:
                    seen[name].append(figures)
                shown = ", ".join(f"{key} {value:.2f}" for key, value in figures.items())
                print(f"turn {turn or 'warm-up'} {name:10} {shown}", flush=True)
        theirs.close()
    agree = True
    for figure in FIGURES:
        us, them = ([run[figure] for run in seen[name]] for name in ("llm-setup", "vllm"))
        ratio = median(us) / median(them)
        # Between the quartiles: one turn that another process disturbed shall not allow everything.
        spread = max((q[2] - q[0]) / q[1] for q in (quantiles(runs, method="inclusive") for runs in (us, them)))
        allowed = max(0.03, spread)
        agree = agree and abs(ratio - 1) <= allowed
        print(
            f"{figure}: llm-setup {median(us):.2f}, vllm {median(them):.2f}, ratio {ratio:.3f}"
            f" (allowed 1 +- {allowed:.3f}; spread from turn to turn {spread:.3f})"
        )
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
