"""Hubs: addresses, and what their answers mean."""

from __future__ import annotations

import pytest

from wizard.endpoint.exchange import HttpFailure, HttpReply
from wizard.planning.hub import hub_source, is_hub_id, judge_reply, offline


def reply(status: int, body: bytes = b"{}", *headers: tuple[str, str]) -> HttpReply:
    return HttpReply(status, headers, body, 0.0, 0.0)


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ({}, "https://huggingface.co/acme/m/resolve/main/config.json"),
        ({"HF_ENDPOINT": "https://hf-mirror.com/"}, "https://hf-mirror.com/acme/m/resolve/main/config.json"),
        ({"VLLM_USE_MODELSCOPE": "True"}, "https://www.modelscope.cn/models/acme/m/resolve/master/config.json"),
        (
            {"VLLM_USE_MODELSCOPE": "1", "MODELSCOPE_DOMAIN": "modelscope.ai", "HF_ENDPOINT": "https://x.y"},
            "https://modelscope.ai/models/acme/m/resolve/master/config.json",
        ),
    ],
)
def test_the_environment_names_the_hub(env: dict[str, str], url: str) -> None:
    assert hub_source(env).file_url("acme/m", "config.json") == url


def test_a_revision_is_a_part_of_the_address() -> None:
    assert "/resolve/refs%2Fpr%2F1/" in hub_source({}, "refs/pr/1").file_url("acme/m", "config.json")


@pytest.mark.parametrize(
    ("model", "yes"),
    [
        ("acme/m", True),
        ("gpt2", True),
        ("a/b/c", False),
        ("../x", False),
        ("a b", False),
        ("a/..b", False),
        ("", False),
    ],
)
def test_what_can_be_a_name_on_a_hub(model: str, yes: bool) -> None:
    assert is_hub_id(model) is yes


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(reply(401), "hub-denied", id="401"),
        pytest.param(reply(403), "hub-denied", id="403"),
        pytest.param(reply(404), "model-not-found", id="404"),
        pytest.param(reply(429, b"", ("retry-after", "30")), "hub-rate-limited", id="429"),
        pytest.param(reply(502, b"<html>"), "hub-error", id="502"),
        pytest.param(reply(200, b"<!doctype html><title>Log in"), "hub-answer-not-json", id="html"),
        pytest.param(reply(200, b""), "hub-answer-not-json", id="empty"),
        pytest.param(HttpFailure("refused", "ConnectError", 0.1), "hub-unreachable", id="refused"),
        pytest.param(HttpFailure("timeout", "ReadTimeout", 9.0), "hub-unreachable", id="nothing"),
    ],
)
def test_each_answer_that_is_no_configuration_gives_one_problem_with_a_fix(
    answer: HttpReply | HttpFailure, code: str
) -> None:
    problem = judge_reply(hub_source({}), "acme/m", answer, has_token=False)
    assert problem is not None
    assert problem.code == code
    assert problem.why
    assert problem.fix is not None


def test_a_configuration_is_no_problem() -> None:
    assert judge_reply(hub_source({}), "acme/m", reply(200, b' {"a": 1}'), has_token=False) is None


def test_a_wish_to_stay_offline_is_seen() -> None:
    assert offline({"HF_HUB_OFFLINE": "1"})
    assert not offline({"HF_HUB_OFFLINE": "0"})
