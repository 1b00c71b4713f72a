"""The form of a URL is found by asking."""

import time
from typing import Any

import pytest

from wizard.endpoint.model import Endpoint, Profile
from wizard.flows import endpoints
from wizard.flows.endpoints import EndpointOptions, find_doubt, find_lacking, observe_endpoint, observe_url
from wizard.flows.use import choose_profile
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
        pytest.param("{root}/v1/messages", id="messages-endpoint"),
    ],
)
def test_every_form_leads_to_the_same_endpoint(world: Any, screen: Any, root: str, form: str) -> None:
    found = observe_endpoint(world, screen, EndpointOptions(base_url=form.format(root=root)), KEY)
    assert found.openai_base_url == f"{root}/v1"
    assert found.anthropic_base_url == root
    assert found.model == "m"
    assert found.max_model_len == 4096
    assert found.kind == "vllm"


def test_looking_generates_nothing(world: Any, tiny_endpoint: Any, root: str) -> None:
    bodies: list[Any] = []
    tiny_endpoint.routes["POST /v1/messages"] = lambda headers, body: (bodies.append(body), (400, {}))[1]
    observe_url(world, root, KEY)
    assert bodies == [{}]


def test_a_gateway_below_a_path_without_v1_is_found(world: Any, screen: Any, tiny_endpoint: Any) -> None:
    tiny_endpoint.routes["GET /api/models"] = lambda headers, body: (200, {"data": [{"id": "a"}, {"id": "b"}]})
    found = observe_endpoint(world, screen, EndpointOptions(base_url=f"{tiny_endpoint.url}/api", model="b"), None)
    assert found.openai_base_url == f"{tiny_endpoint.url}/api"
    assert found.anthropic_base_url is None


def test_a_gateway_given_as_a_host_is_found_below_api(world: Any, tiny_endpoint: Any) -> None:
    tiny_endpoint.routes["GET /api/v1/models"] = lambda headers, body: (200, {"data": [{"id": "a"}]})
    tiny_endpoint.routes["POST /api/v1/messages"] = lambda headers, body: (400, {"error": "no model"})
    found = observe_url(world, tiny_endpoint.url, None)
    assert found.openai_base_url == f"{tiny_endpoint.url}/api/v1"
    assert found.anthropic_base_url == f"{tiny_endpoint.url}/api"


def test_messages_below_anthropic_is_found(world: Any, tiny_endpoint: Any) -> None:
    tiny_endpoint.routes["GET /v1/models"] = lambda headers, body: (200, {"data": [{"id": "a"}]})
    tiny_endpoint.routes["POST /anthropic/v1/messages"] = lambda headers, body: (401, {"error": "key"})
    found = observe_url(world, f"{tiny_endpoint.url}/anthropic", None)
    assert found.openai_base_url == f"{tiny_endpoint.url}/v1"
    assert found.anthropic_base_url == f"{tiny_endpoint.url}/anthropic"


def test_a_deployment_in_the_url_is_the_model(world: Any, screen: Any, tiny_endpoint: Any) -> None:
    tiny_endpoint.routes["GET /openai/v1/models"] = lambda headers, body: (200, {"data": [{"id": "a"}, {"id": "b"}]})
    url = f"{tiny_endpoint.url}/openai/deployments/mine/chat/completions?api-version=2024-10-21"
    found = observe_endpoint(world, screen, EndpointOptions(base_url=url), None)
    assert (found.openai_base_url, found.model) == (f"{tiny_endpoint.url}/openai/v1", "mine")


def test_several_models_and_no_name_is_one_clear_problem(world: Any, screen: Any, tiny_endpoint: Any) -> None:
    tiny_endpoint.routes["GET /v1/models"] = lambda headers, body: (200, {"data": [{"id": "a"}, {"id": "b"}]})
    with pytest.raises(ProblemError) as raised:
        observe_endpoint(world, screen, EndpointOptions(base_url=tiny_endpoint.url), None)
    assert raised.value.problem.code == "model-missing"
    assert raised.value.problem.fix is not None and "a, b" in raised.value.problem.fix.text


def test_a_model_that_is_listed_twice_is_one(world: Any, screen: Any, tiny_endpoint: Any) -> None:
    tiny_endpoint.routes["GET /v1/models"] = lambda *_: (200, {"data": [{"id": "m"}, {"id": "m"}]})
    assert observe_endpoint(world, screen, EndpointOptions(base_url=tiny_endpoint.url), KEY).model == "m"


def test_a_closed_port_is_asked_once_and_said(world: Any, tiny_endpoint: Any) -> None:
    tiny_endpoint.close()
    found = observe_url(world, tiny_endpoint.url, KEY)
    assert found.failure is not None and found.failure.kind == "refused"
    assert found.openai_base_url == f"{tiny_endpoint.url}/v1"


def test_a_refused_key_still_gives_the_endpoint(world: Any, root: str) -> None:
    found = observe_url(world, root, Secret("sk-wrong-0000000000"))
    assert found.openai_base_url == f"{root}/v1"
    assert found.anthropic_base_url == root
    assert found.models is None


def test_offline_nobody_is_asked(world: Any, tiny_endpoint: Any, root: str) -> None:
    found = observe_url(world, root, KEY, offline=True)
    assert tiny_endpoint.seen == []
    assert found.openai_base_url == f"{root}/v1"


def test_messages_that_are_not_there_are_lacking(world: Any, tiny_endpoint: Any) -> None:
    tiny_endpoint.routes["GET /v1/models"] = lambda headers, body: (200, {"data": [{"id": "a"}]})
    endpoint = observe_url(world, tiny_endpoint.url, None).endpoint("a", None)
    assert find_lacking(world, endpoint, {"messages", "responses"}) == {"messages", "responses"}


@pytest.mark.parametrize("url", ["ftp://host/v1", "http://", "http://a b/v1"])
def test_what_is_no_url_is_wrong_usage(world: Any, url: str) -> None:
    with pytest.raises(ProblemError) as raised:
        observe_url(world, url, None)
    assert raised.value.problem.code == "base-url-invalid"
    assert raised.value.exit_code == 2


def test_a_slow_root_is_not_given_up_for_a_pass_through_that_refuses_the_key(
    world: Any, tiny_endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As LiteLLM 1.108 answers the first request for messages after its start."""
    monkeypatch.setattr(endpoints, "_PROBE_TIMEOUT_S", 2.0)
    tiny_endpoint.routes["GET /v1/models"] = lambda headers, body: (200, {"data": [{"id": "m"}]})
    tiny_endpoint.routes["POST /v1/messages"] = lambda headers, body: time.sleep(3) or (400, {"error": "late"})
    tiny_endpoint.routes["POST /anthropic/v1/messages"] = lambda headers, body: (401, {"error": "key"})
    assert observe_url(world, tiny_endpoint.url, None).anthropic_base_url == tiny_endpoint.url


@pytest.mark.parametrize("word", ["max_model_len", "context_length", "context_window"])
def test_the_context_is_found_under_each_name(word: str, world: Any, tiny_endpoint: Any) -> None:
    tiny_endpoint.routes["GET /v1/models"] = lambda headers, body: (200, {"data": [{"id": "m", word: 131072}]})
    assert observe_url(world, tiny_endpoint.url, None).endpoint("m", None).max_model_len == 131072


def test_a_query_is_taken_off_and_said_without_its_values(world: Any, screen: Any, shown: Any, root: str) -> None:
    found = observe_endpoint(world, screen, EndpointOptions(base_url=f"{root}/v1?api_key=sk-in-the-query-1"), KEY)
    assert found.openai_base_url == f"{root}/v1"
    assert "?api_key=…" in shown()
    assert "sk-in" not in shown()


@pytest.mark.parametrize(
    ("answer", "said", "why"),
    [
        pytest.param((404, {"detail": "Not Found"}), "not proved", "404", id="nothing-there"),
        pytest.param((503, {"error": "busy"}), "not proved", "503", id="busy"),
        pytest.param((401, {"error": "Unauthorized"}), "refuses the key", "401", id="key-refused"),
        pytest.param((200, "<html>Log in</html>"), "not proved", "web page", id="a-page"),
    ],
)
def test_an_endpoint_that_was_not_proved_is_said(
    answer: tuple[int, Any], said: str, why: str, world: Any, screen: Any, shown: Any, tiny_endpoint: Any
) -> None:
    tiny_endpoint.routes["GET /v1/models"] = lambda headers, body: answer
    options = EndpointOptions(base_url=f"{tiny_endpoint.url}/v1", model="m")
    assert observe_endpoint(world, screen, options, KEY).model == "m"
    assert said in shown()
    assert why in shown()
    with pytest.raises(ProblemError) as raised:
        observe_endpoint(world, screen, EndpointOptions(base_url=f"{tiny_endpoint.url}/v1"), KEY)
    assert raised.value.problem.fix is not None and why in raised.value.problem.fix.text


def test_nothing_is_said_where_the_form_was_proved_or_nobody_was_asked(
    world: Any, screen: Any, shown: Any, root: str
) -> None:
    observe_endpoint(world, screen, EndpointOptions(base_url=root), KEY)
    observe_endpoint(world, screen, EndpointOptions(base_url="http://127.0.0.1:9", model="m", offline=True), KEY)
    assert shown() == ""


def test_a_server_of_its_own_is_asked_past_the_proxy_before_a_fallback_is_taken(
    world: Any, screen: Any, tiny_endpoint: Any, make_vllm_like: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_vllm_like(tiny_endpoint, key="")
    tiny_endpoint.routes["GET /v1/models"] = lambda headers, body: (200, {"data": [{"id": "m"}]})
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, url, server in (("good", f"{tiny_endpoint.url}/v1", "good"), ("other", "http://other.test/v1", "")):
        world.profiles.put(Profile(name, url, None, "m", server=server), activate=False)
    assert choose_profile(world, screen, "good", "other").name == "good"


@pytest.mark.parametrize(("status", "doubted"), [(404, False), (405, False), (500, True), (401, True)])
def test_a_gateway_that_has_no_list_of_models_is_not_doubted(
    world: Any, tiny_endpoint: Any, status: int, doubted: bool
) -> None:
    tiny_endpoint.routes["GET /v1/models"] = lambda headers, body: (status, {"error": "none"})
    doubt = find_doubt(world, Endpoint("x", f"{tiny_endpoint.url}/v1", None, "m", KEY))
    assert bool(doubt) == doubted


def test_a_service_documented_to_list_no_models_is_not_doubted(
    world: Any, tiny_endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_endpoint.routes["GET /v1/models"] = lambda headers, body: (400, {"error": "none"})
    silent = next(preset for preset in endpoints.all_presets() if "models" not in preset.speaks)
    monkeypatch.setattr(endpoints, "find_preset", lambda url: silent)
    assert not find_doubt(world, Endpoint("x", f"{tiny_endpoint.url}/v1", None, "m", KEY))
