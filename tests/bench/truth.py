#!/usr/bin/env python3
"""What `llm-setup bench` measures against what a server with known delays really did.

    python3 tests/bench/truth.py [--command .venv/bin/llm-setup]

Targets: medians within 1 ms or 1% of the truth at 64 and 256 at once; the client below one core at 5,000 tokens/s. The
truth is by the server's own clock. Where the client cannot keep up (the last case asks for 20,000 tokens/s of two
processes), it has to say so instead. Ends with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from statistics import median

SERVER = Path(__file__).with_name("synthetic_server.py")
CASES = (
    # at once, seconds to the first token, between tokens, tokens, requests
    (1, 0.1, 0.02, 50, 8),
    (64, 0.3, 0.03, 100, 192),
    (64, 0.3, 0.0113, 300, 192),  # 5,000 tokens/s
    (256, 0.5, 0.0455, 120, 768),
    (256, 0.3, 0.0128, 200, 768),
)


def main() -> None:
    """One line a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=str(Path(sys.executable).parent / "llm-setup"))
    options = parser.parse_args()
    server = subprocess.Popen([sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None and server.stdout is not None
    url = server.stdout.readline().strip()
    missed = 0
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "LLM_SETUP_HOME": f"{home}/own"}
        for at_once, first, gap, tokens, requests in CASES:
            model = f"first={first};gap={gap};tokens={tokens};jitter=0.1"
            urllib.request.urlopen(url.removesuffix("/v1") + "/truth").read()
            command = [options.command, "bench", "--base-url", url, "--model", model, "--json", "--warmup", "0"]
            command += ["--concurrency", str(at_once), "--requests", str(requests), "--max-tokens", "1000"]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            (result,) = json.loads(done.stdout)["results"]
            truth = json.loads(urllib.request.urlopen(url.removesuffix("/v1") + "/truth").read())
            ttft, itl = result["time_to_first_token_ms"]["p50"], result["inter_token_latency_ms"]["p50"]
            pairs = ((ttft, median(truth["first_ms"])), (itl, median(truth["gap_ms"])))
            good = all(abs(seen - true) <= max(1.0, 0.01 * true) for seen, true in pairs)
            good = good and result["client"]["cpu_cores"] < 1 and not result["errors"]
            said = result["client"]["limited"]
            missed += not good and not said
            print(
                f"{at_once:4} at once, {result['output_tokens_per_s']:6.0f} tokens/s:"
                f" first token {ttft:7.2f} ms (truth {median(truth['first_ms']):7.2f}),"
                f" between {itl:6.2f} ms (truth {median(truth['gap_ms']):6.2f}),"
                f" client {result['client']['cpu_cores']:.2f} cores, {result['client']['lag_ms']:.1f} ms late,"
                f" {result['errors']} errors{'' if good else ', and says that it is late' if said else ': MISSED'}",
                flush=True,
            )
    server.stdin.close()
    server.wait()
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
