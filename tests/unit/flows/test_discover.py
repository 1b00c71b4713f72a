"""The form of a URL is found by asking."""

from typing import Any

import pytest

from wizard.flows.discover import discover_endpoint
from wizard.problems import ProblemError
from wizard.secret import Secret

KEY = Secret("sk-discover-0000000000")


@pytest.fixture
def root(tiny_endpoint: Any, make_vllm_like: Any) -> str:
    make_vllm_like(tiny_endpoint, key=KEY.reveal())
    return str(tiny_endpoint.url)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param("{root}", id="root"),
        pytest.param("{root}/v1", id="with-v1"),
        pytest.param("{root}/v1/", id="with-a-slash"),
        pytest.param(" {root}/v1/chat/completions ", id="full-endpoint"),
    ],
)
def test_every_form_leads_to_the_same_endpoint(world: Any, root: str, form: str) -> None:
    found = discover_endpoint(world, form.format(root=root), None, KEY)
    assert found.openai_base_url == f"{root}/v1"
    assert found.anthropic_base_url == root
    assert found.model == "m"
    assert found.max_model_len == 4096
    assert found.kind == "vllm"


def test_a_gateway_below_a_path_without_v1_is_found(world: Any, tiny_endpoint: Any) -> None:
    tiny_endpoint.routes["GET /api/models"] = lambda headers, body: (200, {"data": [{"id": "a"}, {"id": "b"}]})
    found = discover_endpoint(world, f"{tiny_endpoint.url}/api", "b", None)
    assert found.openai_base_url == f"{tiny_endpoint.url}/api"
    assert found.anthropic_base_url is None


def test_several_models_and_no_name_is_one_clear_problem(world: Any, tiny_endpoint: Any) -> None:
    tiny_endpoint.routes["GET /v1/models"] = lambda headers, body: (200, {"data": [{"id": "a"}, {"id": "b"}]})
    with pytest.raises(ProblemError) as raised:
        discover_endpoint(world, tiny_endpoint.url, None, None)
    assert raised.value.problem.code == "model-unknown"
    assert raised.value.problem.saw == ("a, b",)


def test_a_closed_port_is_one_clear_problem(world: Any, tiny_endpoint: Any) -> None:
    tiny_endpoint.close()
    with pytest.raises(ProblemError) as raised:
        discover_endpoint(world, tiny_endpoint.url, "m", KEY)
    assert raised.value.problem.code == "server-unreachable"
    assert KEY.reveal() not in str(raised.value.problem.as_json())


def test_a_refused_key_still_gives_the_endpoint(world: Any, root: str) -> None:
    found = discover_endpoint(world, root, "m", Secret("sk-wrong-0000000000"))
    assert found.openai_base_url == f"{root}/v1"
    assert found.anthropic_base_url == root


@pytest.mark.parametrize("url", ["ftp://host/v1", "http://", "http://a b/v1"])
def test_what_is_no_url_is_wrong_usage(world: Any, url: str) -> None:
    with pytest.raises(ProblemError) as raised:
        discover_endpoint(world, url, "m", None)
    assert raised.value.problem.code == "base-url-invalid"
    assert raised.value.exit_code == 2
