"""`bench` against a real vLLM, beside vLLM's own tool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from .vllm_servers import RealServer

AGAINST = Path(__file__).parents[1] / "bench" / "against_vllm.py"
TURNS = 6


def test_the_medians_are_those_of_vllms_own_tool(
    tiny_model: Callable[[str], Path],
    start_server: Callable[..., RealServer],
    wizard_on_path: Path,
    vllm_runtime: Path,
) -> None:
    folder = tiny_model("dense")
    server = start_server(folder, arguments=["--load-format", "dummy", "--max-model-len", "2048", "--seed", "1",
                                             "--no-enable-prefix-caching"])  # fmt: skip
    command = [sys.executable, AGAINST, "--base-url", server.base_url, "--model", server.model]
    command += ["--tokenizer", folder, "--vllm-python", vllm_runtime, "--command", wizard_on_path / "llm-setup"]
    command += ["--turns", str(TURNS), "--requests", "24", "--concurrency", "4", "--max-tokens", "24"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ}, timeout=250)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ratio") == 3


def test_an_agents_beginning_is_found_in_the_prefix_cache_and_a_new_one_is_not(
    scripted_server: RealServer, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "wizard", "bench", "--base-url", scripted_server.base_url, "--json"]
    command += ["--model", scripted_server.model, "--workload", "agent", "--cache", "both"]
    command += ["--concurrency", "2", "--requests", "10", "--max-tokens", "4"]
    home = {"LLM_SETUP_HOME": str(tmp_path), "LLM_SETUP_API_KEY": scripted_server.key}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | home, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    cold, warm = document["results"]
    print(json.dumps(document, indent=1))
    assert (cold["cache"], warm["cache"], cold["errors"], warm["errors"]) == ("cold", "warm", 0, 0)
    # 12,000 tokens of system prompt and tools, and what the turns add.
    assert 10 * 9_000 < cold["prompt_tokens"] < 10 * 22_000
    assert cold["cold_time_to_first_token_ms"]["p50"] > 2 * cold["warm_time_to_first_token_ms"]["p50"]
    assert cold["cold_time_to_first_token_ms"]["p50"] > 2 * warm["time_to_first_token_ms"]["p50"]
    assert warm["cold_time_to_first_token_ms"] is None
    # It is the server's own word that the beginning is kept, and so nothing is amiss with it.
    assert "no-prefix-hits" not in [cause["code"] for cause in document["explanations"]]
    assert document["network"][0]["empty_request_ms"]["p50"] > 0
