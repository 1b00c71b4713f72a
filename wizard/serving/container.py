"""vLLM in a container as the runtime: which command starts it, and what of this machine it sees.

Sources: docs.vllm.ai/en/stable/deployment/docker.html (shared memory, cache mount), docker-run(1), podman-run(1), and
NVIDIA's container toolkit for CDI names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from wizard.hardware.usable import Build

Engine = Literal["docker", "podman"]

# Where the images of vLLM keep what hubs' clients fetch.
CACHE_INSIDE = "/root/.cache/huggingface"

# Of our environment, what the server inside needs; all else stays out. The key goes by name, never in the command.
_PASSED = (
    "VLLM_API_KEY",
    "HF_TOKEN",
    "HF_ENDPOINT",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "VLLM_USE_MODELSCOPE",
    "VLLM_NO_USAGE_STATS",
    "DO_NOT_TRACK",
    "VLLM_LOGGING_COLOR",
    "VLLM_CPU_KVCACHE_SPACE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)


@dataclass(frozen=True, slots=True)
class Container:
    """A container engine and the image to run. image: with its tag; its entry point is `vllm serve`."""

    engine: Engine
    image: str


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of this machine, at `target` inside."""

    source: str
    target: str
    read_only: bool = True


def container_name(server: str) -> str:
    """The container of a server of that name."""
    return f"llm-setup-{server}"


def plan_container_run(
    container: Container,
    build: Build,
    *,
    server: str,
    environment: Mapping[str, str],
    added: Sequence[str],
    mounts: Sequence[Mount],
    shm_gib: int,
) -> tuple[str, ...]:
    """The command up to the image; the model and vLLM's flags follow.

    The container shares this machine's network, so that `--host 127.0.0.1` means what it says. environment: of the
    process that runs the command; added: names in it that were set for this server. shm_gib: for NCCL and for what
    vLLM's processes hand one another; 64 MiB, the engines' default, end in a bus error.
    """
    command = [container.engine, "run", "--rm", "--name", container_name(server), "--network", "host"]
    command += ["--shm-size", f"{shm_gib}g"]
    if container.engine == "podman":
        command += ["--replace"]
    if build == "cuda":
        command += ["--gpus", "all"] if container.engine == "docker" else ["--device", "nvidia.com/gpu=all"]
    elif build == "rocm":
        command += ["--device", "/dev/kfd", "--device", "/dev/dri", "--group-add", "video"]
    for name in dict.fromkeys((*_PASSED, *added)):
        if name == "VLLM_API_KEY" or name in environment:
            command += ["--env", name]
    for mount in mounts:
        words = f"type=bind,source={mount.source},target={mount.target}"
        command += ["--mount", words + (",readonly" if mount.read_only else "")]
    return (*command, container.image)
