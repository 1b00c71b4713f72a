"""The tiny models that other tests plan for are served by a real vLLM, which prints their KV cache size."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from .vllm_servers import RealServer


@pytest.mark.parametrize("kind", ["dense", "sliding", "moe", "mla"])
def test_a_tiny_model_is_served_and_its_kv_size_is_printed(
    kind: str, tiny_model: Callable[[str], Path], start_server: Callable[..., RealServer]
) -> None:
    server = start_server(tiny_model(kind), arguments=["--load-format", "dummy"])
    assert re.search(r"KV cache size: [\d,]+ tokens", server.printed), server.printed[-3000:]
