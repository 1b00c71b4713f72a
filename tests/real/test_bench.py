"""`bench` against a real vLLM: beside vLLM's own tool, and about its prefix cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from .vllm_servers import RealServer, stop_vllm

AGAINST = Path(__file__).parents[1] / "bench" / "against_vllm.py"
TURNS = 6


class Workshop(Protocol):
    """What starts servers; see conftest.py."""

    def start(self, folder: Path, **how: object) -> RealServer: ...


@pytest.fixture(scope="module")
def server_without_cache(workshop: Workshop, tiny_model: Callable[[str], Path]) -> Iterator[RealServer]:
    """A small model with made-up weights and no prefix cache, so that a prompt costs the same each time."""
    arguments = ["--load-format", "dummy", "--max-model-len", "8192", "--no-enable-prefix-caching"]
    server = workshop.start(tiny_model("dense"), arguments=arguments)
    yield server
    stop_vllm(server)


def bench_agent(server: RealServer, home: Path, *more: str) -> Any:
    """The document of `bench --workload agent --json`."""
    command = [sys.executable, "-m", "wizard", "bench", "--base-url", server.base_url, "--model", server.model]
    command += ["--workload", "agent", "--requests", "10", "--max-tokens", "4", "--json", *more]
    env = os.environ | {"LLM_SETUP_HOME": str(home), "LLM_SETUP_API_KEY": server.key}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    return json.loads(done.stdout)


def test_the_medians_are_those_of_vllms_own_tool(
    start_server: Callable[..., RealServer],
    tiny_model: Callable[[str], Path],
    wizard_on_path: Path,
    vllm_runtime: Path,
) -> None:
    # Not the smallest: its token takes 6 ms, of which the client that shares its processor is a twentieth.
    model = tiny_model("dense-135m")
    arguments = ["--load-format", "dummy", "--max-model-len", "2048", "--no-enable-prefix-caching"]
    server = start_server(model, arguments=arguments)
    command = [sys.executable, AGAINST, "--base-url", server.base_url, "--model", server.model]
    command += ["--tokenizer", model, "--vllm-python", vllm_runtime]
    command += ["--command", wizard_on_path / "llm-setup", "--turns", str(TURNS)]
    command += ["--requests", "12", "--concurrency", "4", "--max-tokens", "16"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ratio") == 3


def test_an_agents_beginning_is_found_in_the_prefix_cache_and_a_new_one_is_not(
    scripted_server: RealServer, tmp_path: Path
) -> None:
    document = bench_agent(scripted_server, tmp_path, "--cache", "both", "--concurrency", "2")
    cold, warm = document["results"]
    assert (cold["cache"], warm["cache"], cold["errors"], warm["errors"]) == ("cold", "warm", 0, 0)
    # 12,000 tokens of system prompt and tools, and what the turns add.
    assert 10 * 9_000 < cold["prompt_tokens"] < 10 * 22_000
    assert cold["cold_time_to_first_token_ms"]["p50"] > 2 * cold["warm_time_to_first_token_ms"]["p50"]
    assert cold["cold_time_to_first_token_ms"]["p50"] > 2 * warm["time_to_first_token_ms"]["p50"]
    assert warm["cold_time_to_first_token_ms"] is None
    # It is the server's own word that the beginning is kept, and so nothing is amiss with it.
    assert "no-prefix-hits" not in [cause["code"] for cause in document["explanations"]]
    assert document["network"][0]["empty_request_ms"]["p50"] > 0


def test_a_server_without_prefix_cache_is_found_out_with_the_flag_that_helps(
    server_without_cache: RealServer, tmp_path: Path
) -> None:
    document = bench_agent(server_without_cache, tmp_path, "--concurrency", "1")
    (cause,) = [cause for cause in document["explanations"] if cause["code"] == "no-prefix-hits"]
    assert cause["flags"] == ["--enable-prefix-caching"]
    assert any("enable_prefix_caching is off" in line for line in cause["saw"])
