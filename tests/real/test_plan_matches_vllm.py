"""What the plan says of the KV cache is what a real vLLM on this CPU then prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from wizard.effects.world import real_world
from wizard.flows.plan import plan_for
from wizard.planning.intent import Intent

from .vllm_servers import RealServer

# The cache that the servers of these tests get (CPU_ENVIRONMENT), GiB.
KV_SPACE_GIB = 1


def _printed_tokens(log: str) -> int:
    found = re.search(r"KV cache size: ([\d,]+) tokens", log)
    assert found, log[-3000:]
    return int(found[1].replace(",", ""))


def _version(log: str) -> str:
    found = re.search(r"(?:version |V1 LLM engine \(v)(\d+\.\d+\.\d+)", log)
    assert found, log[:3000]
    return found[1]


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["dense", "sliding", "moe", "mla", "recurrent", "mamba"])
def test_the_printed_cache_size_is_the_planned_one_within_a_block(
    kind: str, tiny_model: Callable[[str], Path], start_server: Callable[..., RealServer]
) -> None:
    folder = tiny_model(kind)
    draft = plan_for(real_world(), str(folder), intent=Intent(kv_space_gib=KV_SPACE_GIB))
    length = draft.max_model_len
    server = start_server(folder, arguments=["--load-format", "dummy", "--max-model-len", str(length)])
    version = _version(server.printed)
    intent = Intent(kv_space_gib=KV_SPACE_GIB, vllm_version=version, context_tokens=length)
    plan = plan_for(real_world(), str(folder), intent=intent)
    assert plan.fits
    assert plan.env["VLLM_CPU_KVCACHE_SPACE"] == str(KV_SPACE_GIB)
    assert plan.max_model_len == length
    assert abs(_printed_tokens(server.printed) - plan.memory.kv_tokens) <= 128
