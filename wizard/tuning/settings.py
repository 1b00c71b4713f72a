"""What a search found, as a file that `serve` reads: vLLM's flags for one server's name and model."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

from wizard.planning.intent import Pin


@dataclass(frozen=True, slots=True)
class Settings:
    """Flags for one model, as if given by `--set`. model: the folder or hub id that they were measured with."""

    model: str
    vllm_version: str
    pins: tuple[Pin, ...]
    note: str = ""


def render_settings(settings: Settings) -> bytes:
    """The TOML file, for people to read and change."""
    # A TOML basic string is written as JSON writes one.
    lines = [f"# {line}".rstrip() for line in settings.note.splitlines()]
    lines += [
        f"model = {json.dumps(settings.model, ensure_ascii=False)}",
        f"vllm = {json.dumps(settings.vllm_version)}",
        "",
        "# As if each were given to `llm-setup serve` by --set; what you give there yourself counts more.",
        "[set]",
    ]
    for pin in settings.pins:
        value = "true" if pin.value is None else json.dumps(pin.value, ensure_ascii=False)
        lines.append(f"{json.dumps(pin.flag.removeprefix('--'))} = {value}")
    return "\n".join(lines).encode() + b"\n"


def parse_settings(raw: bytes) -> Settings:
    """The settings in a file. Raises ValueError that names what is wrong."""
    table = tomllib.loads(raw.decode("utf-8"))
    unknown = set(table) - {"model", "vllm", "set"}
    if unknown:
        raise ValueError(f"unknown keys: {', '.join(sorted(unknown))}")
    flags = table.get("set", {})
    if not isinstance(table.get("model"), str) or not isinstance(flags, dict):
        raise ValueError("`model` and the table [set] are needed")
    pins: list[Pin] = []
    for name, value in flags.items():
        if value is False:
            continue
        if isinstance(value, bool):
            pins.append(Pin(f"--{name}"))
        elif isinstance(value, str | int | float):
            pins.append(Pin(f"--{name}", str(value)))
        else:
            raise ValueError(f"`{name}` has a value that no flag takes")
    return Settings(table["model"], str(table.get("vllm") or ""), tuple(pins))


def words_of(pin: Pin) -> tuple[str, ...]:
    """A flag as it stands in a command."""
    return (pin.flag,) if pin.value is None else (pin.flag, pin.value)


def pins_beside(arguments: Sequence[Pin], planned: Sequence[Pin]) -> tuple[Pin, ...]:
    """The flags of a command that the plan does not have by itself, in their order."""
    known = {(pin.flag, pin.value) for pin in planned}
    return tuple(pin for pin in arguments if (pin.flag, pin.value) not in known)
