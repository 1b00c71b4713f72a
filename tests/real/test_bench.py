"""`bench` against a real vLLM, beside vLLM's own tool."""

from __future__ import annotations

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
