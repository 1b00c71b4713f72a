"""What a URL can mean, before anybody is asked."""

import pytest

from wizard.endpoint.discover import anthropic_roots, has_messages, judge_candidate, url_forms
from wizard.endpoint.exchange import HttpFailure, HttpReply


@pytest.mark.parametrize(
    ("url", "first", "roots"),
    [
        pytest.param("http://h:8000", "http://h:8000/v1", ("http://h:8000",), id="host-and-port"),
        pytest.param("http://h:8000/v1/", "http://h:8000/v1", ("http://h:8000",), id="with-v1"),
        pytest.param("http://h/v1/chat/completions?x=1", "http://h/v1", ("http://h",), id="full-endpoint"),
        pytest.param("http://h/v1/messages", "http://h/v1", ("http://h",), id="messages-endpoint"),
        pytest.param("https://open.example/api/paas/v4", "https://open.example/api/paas/v4", (), id="version-4"),
        pytest.param(
            "https://taotoken.net/api", "https://taotoken.net/api/v1", ("https://taotoken.net/api",), id="sub-path"
        ),
        pytest.param("taotoken.net", "https://taotoken.net/api/v1", ("https://taotoken.net/api",), id="known-host"),
        pytest.param(
            "https://api.deepseek.com/anthropic",
            "https://api.deepseek.com/v1",
            ("https://api.deepseek.com/anthropic",),
            id="anthropic-form-of-a-known-service",
        ),
        pytest.param(
            "https://gw.example/anthropic",
            "https://gw.example/v1",
            ("https://gw.example/anthropic",),
            id="anthropic-form",
        ),
        pytest.param(
            "https://open.bigmodel.cn/api/coding/paas/v4",
            "https://open.bigmodel.cn/api/coding/paas/v4",
            ("https://open.bigmodel.cn/api/anthropic",),
            id="another-form-of-a-known-service",
        ),
        pytest.param(
            "https://dashscope-intl.aliyuncs.com",
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            ("https://dashscope-intl.aliyuncs.com/apps/anthropic",),
            id="another-host-of-a-known-service",
        ),
        pytest.param("https://mine.openai.azure.com", "https://mine.openai.azure.com/openai/v1", (), id="azure-host"),
    ],
)
def test_the_likeliest_form_comes_first(url: str, first: str, roots: tuple[str, ...]) -> None:
    forms = url_forms(url)
    assert forms.openai[0] == first
    assert forms.anthropic[: len(roots)] == roots


def test_an_azure_deployment_names_the_model_and_the_newer_form_is_asked_first() -> None:
    forms = url_forms(
        "https://mine.openai.azure.com/openai/deployments/gpt-5%20mini/chat/completions?api-version=2024-10-21"
    )
    assert forms.openai[0] == "https://mine.openai.azure.com/openai/v1"
    assert forms.model == "gpt-5 mini"
    assert forms.pasted == "/chat/completions?api-version=…"


def test_an_unknown_host_is_also_asked_below_api() -> None:
    assert url_forms("https://gw.example").openai == (
        "https://gw.example/v1",
        "https://gw.example",
        "https://gw.example/api/v1",
    )


def test_the_roots_of_a_form_that_was_not_the_likeliest_are_its_own() -> None:
    forms = url_forms("https://gw.example")
    assert anthropic_roots(forms, "https://gw.example/api/v1") == (
        "https://gw.example/api",
        "https://gw.example/api/anthropic",
    )


def reply(status: int, body: bytes, kind: str = "application/json") -> HttpReply:
    return HttpReply(status, (("content-type", kind),), body, 0.0, 0.0)


def test_a_page_with_status_200_is_no_model_list() -> None:
    assert judge_candidate(reply(200, b"<html>", "text/html")) == "nothing"
    assert judge_candidate(reply(200, b'{"data": [{"id": "m"}]}')) == "models"


def test_a_refused_key_shows_the_path_and_a_login_page_does_not() -> None:
    assert judge_candidate(reply(401, b"{}")) == "key-refused"
    assert judge_candidate(reply(403, b"<html>", "text/html")) == "nothing"


@pytest.mark.parametrize(("status", "there"), [(400, True), (401, True), (500, True), (404, False), (405, False)])
def test_messages_is_there_when_it_refuses_the_body(status: int, there: bool) -> None:
    assert has_messages(reply(status, b"{}")) is there
    assert has_messages(HttpFailure("timeout", "", 1.0)) is None
