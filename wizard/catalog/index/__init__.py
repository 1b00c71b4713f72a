"""The catalogue's tables as they are read: JSON, made from the TOML by scripts/generate_catalogue_index.py."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def read_index(name: str) -> Any:
    """One table: "gpus", "models", "flags" or "vllm_flags". Reading all models takes 2 ms."""
    return json.loads(resources.files(__package__).joinpath(f"{name}.json").read_bytes())
