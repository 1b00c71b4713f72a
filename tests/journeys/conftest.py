"""What journeys share: an endpoint on loopback that answers as vLLM does, and a home of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.flows.conftest import TinyEndpoint, vllm_like

KEY = "sk-journey-00000000000000"


@pytest.fixture
def endpoint() -> Iterator[TinyEndpoint]:
    """It asks for `KEY` and serves `tiny`."""
    server = TinyEndpoint()
    vllm_like(server, key=KEY, model="tiny", context=65536)
    yield server
    server.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a blank and letters beyond ASCII in its name."""
    folder = tmp_path / "Zoë 家"
    folder.mkdir()
    return folder
