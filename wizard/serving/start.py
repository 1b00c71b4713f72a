"""How a server is started: its command, its environment, and whether a running one is already what is wanted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from wizard.catalog.arguments import flag_value, spelled
from wizard.serving.record import ServerRecord
from wizard.serving.runtime import Runtime

DEFAULT_PORT = 8000
PORTS_TRIED = 100

# They belong to the interpreter or the shell that runs the wizard, and would lead the server's Python astray.
_NOT_PASSED_ON = ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "__PYVENV_LAUNCHER__", "LLM_SETUP_API_KEY")


def plan_command(
    serve: Sequence[str], model: str, arguments: Sequence[str], *, host: str, port: int, served_name: str
) -> tuple[str, ...]:
    """The whole argv. serve: what the model is added to. Host, port and served name are put in unless `arguments` hold
    them; the key never is."""
    command = [*serve, model]
    if flag_value(arguments, "--served-model-name") is None:
        command += ["--served-model-name", served_name]
    return (*command, "--host", host, "--port", str(port), *without_flags(arguments, ("--host", "--port", "--api-key")))


def without_flags(arguments: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """The arguments without these flags and their values."""
    unwanted = {spelled(flag) for flag in flags}
    kept: list[str] = []
    skip_value = False
    for word in arguments:
        if skip_value:
            skip_value = False
            if not word.startswith("--"):
                continue
        name, equals, _ = word.partition("=")
        if word.startswith("--") and spelled(name) in unwanted:
            skip_value = not equals
            continue
        kept.append(word)
    return tuple(kept)


def plan_environment(
    surroundings: Mapping[str, str], runtime: Runtime, added: Mapping[str, str], *, local_model: bool
) -> dict[str, str]:
    """The server's environment, but for its key: the user's own, what keeps vLLM quiet and in its place, `added` last.

    A model folder needs no hub: the offline switches spare it the attempt, which takes minutes where a firewall
    swallows packets. The runtime's own programs (ninja for kernels that are compiled late) come first on PATH.
    """
    env = {name: value for name, value in surroundings.items() if name not in _NOT_PASSED_ON}
    if runtime.python:
        first = str(PurePath(runtime.python).parent)
        env["PATH"] = os.pathsep.join(word for word in (first, env.get("PATH", "")) if word)
    if runtime.folder:
        env["VIRTUAL_ENV"] = runtime.folder
    # `python -m vllm...` in a folder that holds a `vllm` (a clone of its repository) must not take that one.
    env["PYTHONSAFEPATH"] = "1"
    env["PYTHONUNBUFFERED"] = "1"
    env["VLLM_NO_USAGE_STATS"] = "1"
    env["DO_NOT_TRACK"] = "1"
    env["VLLM_LOGGING_COLOR"] = "0"
    if local_model:
        # With it vLLM imports ModelScope's client, which need not be there.
        env.pop("VLLM_USE_MODELSCOPE", None)
        env.setdefault("HF_HUB_OFFLINE", "1")
        env.setdefault("TRANSFORMERS_OFFLINE", "1")
    if runtime.build == "cpu":
        # Unset, the CPU build takes nearly all memory for its KV cache, and a wizard's first start takes the machine.
        env.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
        if any(character.isspace() for character in runtime.folder):
            # torch gives its own path to the compiler without quotes, and what it compiles at the first request fails
            # with "at::vec has not been declared" (2.13, torch/_inductor/cpp_builder.py).
            env.setdefault("TORCH_COMPILE_DISABLE", "1")
    env.update(added)
    return env


def told_apart(record: ServerRecord, model: str, arguments: Sequence[str], host: str, port: int | None) -> str:
    """Why a running server is not the one that is wanted; empty when it is. `port` None: any will do."""
    if record.model != model:
        return record.model
    if record.host != host:
        return f"--host {record.host}"
    if port is not None and record.port != port:
        return f"--port {record.port}"
    if record.arguments != tuple(arguments):
        ours, theirs = _pairs(arguments), _pairs(record.arguments)
        different = [f"{flag} {value}".strip() for flag, value in theirs.items() if ours.get(flag) != value]
        different += [f"- {flag}" for flag in ours if flag not in theirs]
        return ", ".join(different) or " ".join(record.arguments)
    return ""


def _pairs(arguments: Sequence[str]) -> dict[str, str]:
    """Flags with their values, as far as words tell them apart."""
    found: dict[str, str] = {}
    flag = ""
    for word in arguments:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            flag = spelled(name)
            found[flag] = value
        elif flag:
            found[flag] = f"{found[flag]} {word}".strip()
    return found
