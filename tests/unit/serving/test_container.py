"""The command that runs vLLM in a container."""

from __future__ import annotations

from itertools import pairwise

import pytest

from wizard.serving.container import Container, Mount, plan_container_run

IMAGE = "vllm/vllm-openai:v0.32.0"
KEY = "sk-key-of-this-test-0000"


def _words(engine: str, build: str, **environment: str) -> list[str]:
    return list(
        plan_container_run(
            Container(engine, IMAGE),  # type: ignore[arg-type]
            build,  # type: ignore[arg-type]
            server="local",
            environment={"VLLM_API_KEY": KEY, **environment},
            added=("VLLM_CPU_KVCACHE_SPACE",),
            mounts=(
                Mount("/home/x/.cache/huggingface", "/root/.cache/huggingface", read_only=False),
                Mount("/m", "/m"),
            ),
            shm_gib=8,
        )
    )


@pytest.mark.parametrize(
    ("engine", "build", "flags"),
    [
        pytest.param("docker", "cuda", "--gpus all", id="docker-nvidia"),
        pytest.param("podman", "cuda", "--device nvidia.com/gpu=all", id="podman-nvidia"),
        pytest.param("docker", "rocm", "--device /dev/kfd --device /dev/dri --group-add video", id="amd"),
    ],
)
def test_the_gpu_is_given_as_the_engine_takes_it(engine: str, build: str, flags: str) -> None:
    assert flags in " ".join(_words(engine, build))


def test_the_cpu_build_asks_for_no_gpu() -> None:
    assert not {"--gpus", "--device"} & set(_words("docker", "cpu"))


def test_the_key_and_the_settings_go_by_name_and_nothing_else_goes_in() -> None:
    words = _words("docker", "cpu", HF_HUB_OFFLINE="1", AWS_SECRET="x", VLLM_CPU_KVCACHE_SPACE="4")
    passed = {after for word, after in pairwise(words) if word == "--env"}
    assert passed == {"VLLM_API_KEY", "HF_HUB_OFFLINE", "VLLM_CPU_KVCACHE_SPACE"}
    assert KEY not in " ".join(words)


def test_models_are_read_and_the_hubs_cache_is_shared() -> None:
    words = _words("podman", "cuda")
    assert "type=bind,source=/m,target=/m,readonly" in words
    assert "type=bind,source=/home/x/.cache/huggingface,target=/root/.cache/huggingface" in words
    assert words[-1] == IMAGE
    assert {("--network", "host"), ("--shm-size", "8g")} <= set(pairwise(words))
