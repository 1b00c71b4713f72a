"""Compose files: who reaches whom."""

from collections.abc import Callable
from typing import Any

import pytest

from wizard.doctor.checks.config_docker import CHECKS
from wizard.doctor.observations import Observations
from wizard.problems import Problem

Look = Callable[..., Observations]
Problems = Callable[..., list[Problem]]


def compose(**service: Any) -> dict[str, Any]:
    return {"services": {"it": service}}


@pytest.mark.parametrize(
    ("service", "base_url", "codes"),
    [
        pytest.param(
            {"image": "vllm/vllm-openai:latest", "expose": ["8000"]},
            "http://localhost:8000/v1",
            [("container-port-not-published", "error")],
            id="server-without-ports",
        ),
        pytest.param(
            {"image": "vllm/vllm-openai:latest"}, "", [("container-port-not-published", "info")], id="for-services-only"
        ),
        pytest.param(
            {"image": "vllm/vllm-openai:latest", "ports": ["8000:8000"]}, "http://localhost:8000/v1", [], id="published"
        ),
        pytest.param(
            {"image": "ollama/ollama", "network_mode": "host"}, "http://localhost:11434/v1", [], id="host-network"
        ),
        pytest.param(
            {"image": "open-webui", "environment": ["OPENAI_API_BASE_URL=http://localhost:8000/v1"]},
            "",
            [("wrong-host-in-container", "error")],
            id="client-that-asks-itself",
        ),
        pytest.param(
            {"image": "dify-api", "environment": {"OPENAI_API_BASE": "http://vllm:8000/v1"}}, "", [], id="by-service"
        ),
    ],
)
def test_services_that_do_not_find_each_other_are_named(
    look: Look, problems: Problems, service: dict[str, Any], base_url: str, codes: list[tuple[str, str]]
) -> None:
    seen = look({"./docker-compose.yml": compose(**service)}, base_url=base_url)
    assert [(problem.code, problem.severity) for problem in problems(CHECKS, seen)] == codes


def test_a_compose_file_that_does_not_parse_is_docker_s_business(look: Look, problems: Problems) -> None:
    assert problems(CHECKS, look({"./compose.yaml": "services: ["})) == []
