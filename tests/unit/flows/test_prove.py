"""The proof is real: what a client could not use fails it."""

from dataclasses import replace
from typing import Any

import pytest

from wizard.endpoint.model import Endpoint
from wizard.flows.prove import prove_endpoint
from wizard.secret import Secret

KEY = "sk-proof-000000000000"


@pytest.fixture
def endpoint(tiny_endpoint: Any, make_vllm_like: Any) -> Endpoint:
    make_vllm_like(tiny_endpoint, key=KEY)
    root = tiny_endpoint.url
    return Endpoint("t", f"{root}/v1", root, "m", Secret(KEY), kind="vllm")


def statuses(proof: Any) -> dict[str, str]:
    return {step.id: step.status for step in proof.steps}


def test_a_server_that_does_it_all_is_proved_in_every_protocol(world, screen, endpoint, shown) -> None:  # type: ignore[no-untyped-def]
    proof = prove_endpoint(world, screen, endpoint, ours=True)
    assert proof.ok
    assert proof.speaks == {"models", "chat", "stream", "tools", "responses", "messages", "count_tokens"}
    assert proof.models == {"m": 4096}
    assert KEY not in shown()
    assert len(shown().splitlines()) == len(proof.steps) == 9


def test_without_a_key_no_line_speaks_of_one(world, screen, endpoint, shown) -> None:  # type: ignore[no-untyped-def]
    prove_endpoint(world, screen, endpoint.with_key(None), ours=False)
    assert "models" in shown()
    assert "with the key" not in shown()


def test_a_wrong_key_fails_the_proof(world, screen, endpoint) -> None:  # type: ignore[no-untyped-def]
    proof = prove_endpoint(world, screen, endpoint.with_key(Secret("sk-wrong-00000000")), ours=True)
    assert not proof.ok
    assert "401 Unauthorized" in proof.steps[0].detail


def test_a_killed_server_fails_the_proof_after_one_request(world, screen, endpoint, tiny_endpoint) -> None:  # type: ignore[no-untyped-def]
    tiny_endpoint.close()
    proof = prove_endpoint(world, screen, endpoint, ours=True)
    assert not proof.ok
    assert [step.id for step in proof.steps] == ["models"]
    assert proof.steps[0].detail.startswith("refused")


def test_a_model_that_is_not_served_is_named_with_what_is(world, screen, endpoint) -> None:  # type: ignore[no-untyped-def]
    proof = prove_endpoint(world, screen, replace(endpoint, model="other"), ours=True)
    assert not proof.ok
    assert proof.steps[0].detail == "`other` is not served; served: m"


def test_a_server_that_asks_for_no_key_is_an_error_for_ours_only(world, screen, endpoint, tiny_endpoint) -> None:  # type: ignore[no-untyped-def]
    tiny_endpoint.routes["GET /v1/models"] = lambda headers, body: (200, {"data": [{"id": "m"}]})
    assert statuses(prove_endpoint(world, screen, endpoint, ours=True))["models-without-key"] == "error"
    assert statuses(prove_endpoint(world, screen, endpoint, ours=False))["models-without-key"] == "warning"


def test_a_tool_call_left_as_text_is_no_tool_call(world, screen, endpoint, tiny_endpoint) -> None:  # type: ignore[no-untyped-def]
    said = {"role": "assistant", "content": '<tool_call>{"name": "get_weather"}</tool_call>'}
    tiny_endpoint.routes["POST /v1/chat/completions"] = lambda headers, body: (200, {"choices": [{"message": said}]})
    proof = prove_endpoint(world, screen, endpoint, ours=True)
    assert statuses(proof)["tools"] == "error"
    assert "tools" not in proof.speaks


def test_a_gateway_without_messages_is_proved_without_them(world, screen, endpoint, tiny_endpoint) -> None:  # type: ignore[no-untyped-def]
    for path in ("POST /v1/messages", "POST /v1/messages/count_tokens", "POST /v1/responses"):
        del tiny_endpoint.routes[path]
    proof = prove_endpoint(world, screen, endpoint, ours=False)
    assert proof.ok
    assert proof.speaks == {"models", "chat", "stream", "tools"}
    assert not prove_endpoint(world, screen, endpoint, ours=True).ok


def test_a_body_that_breaks_programs_fails_in_the_sdk_too(world, screen, endpoint, tiny_endpoint) -> None:  # type: ignore[no-untyped-def]
    tiny_endpoint.routes["POST /v1/chat/completions"] = lambda headers, body: (500, {"error": {"message": "boom"}})
    proof = prove_endpoint(world, screen, endpoint, ours=False)
    sdk = next(step for step in proof.steps if step.id == "openai-sdk")
    assert sdk.status == "error"
    assert "boom" in sdk.detail
    assert KEY not in sdk.detail
