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
# What keeps vLLM quiet and its output whole, whatever is served.
ALWAYS = {
    # `python -m vllm...` in a folder that holds a `vllm` (a clone of its repository) must not take that one.
    "PYTHONSAFEPATH": "1",
    "PYTHONUNBUFFERED": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_LOGGING_COLOR": "0",
}
# Where models come from; an exported start without them would ask another hub than the one that was set.
HUB_VARIABLES = ("HF_ENDPOINT", "VLLM_USE_MODELSCOPE", "MODELSCOPE_DOMAIN")


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


def server_variables(
    build: str, folder: str, added: Mapping[str, str], *, local_model: bool, own: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What every start sets, here or by an exported file: what keeps vLLM quiet and in its place, `added` last.

    folder: the virtual environment's root; empty where vLLM is in an image. own: the user's variables, which win over
    what is only a default. A model folder needs no hub: the offline switches spare it the attempt, which takes minutes
    where a firewall swallows packets.
    """
    defaults: dict[str, str] = {}
    if local_model:
        defaults |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if build == "cpu":
        # Unset, the CPU build takes nearly all memory for its KV cache, and a wizard's first start takes the machine.
        defaults["VLLM_CPU_KVCACHE_SPACE"] = "1"
        if any(character.isspace() for character in folder):
            # torch gives its own path to the compiler without quotes, and what it compiles at the first request fails
            # with "at::vec has not been declared" (2.13, torch/_inductor/cpp_builder.py).
            defaults["TORCH_COMPILE_DISABLE"] = "1"
    return {**ALWAYS, **{name: (own or {}).get(name, value) for name, value in defaults.items()}, **added}


def plan_environment(
    surroundings: Mapping[str, str], runtime: Runtime, added: Mapping[str, str], *, local_model: bool
) -> dict[str, str]:
    """The server's environment, but for its key: the user's own, and what every start sets.

    The runtime's own programs (ninja for kernels that are compiled late) come first on PATH.
    """
    env = {name: value for name, value in surroundings.items() if name not in _NOT_PASSED_ON}
    if runtime.python:
        first = str(PurePath(runtime.python).parent)
        env["PATH"] = os.pathsep.join(word for word in (first, env.get("PATH", "")) if word)
    if runtime.folder:
        env["VIRTUAL_ENV"] = runtime.folder
    if local_model:
        # With it vLLM imports ModelScope's client, which need not be there.
        env.pop("VLLM_USE_MODELSCOPE", None)
    return env | server_variables(runtime.build, runtime.folder, added, local_model=local_model, own=env)


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
