"""`doctor --cheap`: key, model and URL from GET requests alone, and never a word more than was seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wizard.doctor.engine import Diagnosis

from .conftest import HTML_PAGE, Patient, Route, chat, models, with_header, without_header

Examined = Callable[..., Diagnosis]
KEY = "sk-test-123456"
LOCKED = Route("/v1/*", {"error": "Unauthorized"}, 401, "*", when=without_header("authorization", f"Bearer {KEY}"))
VLLM = (LOCKED, models("m", owned_by="vllm"), chat())


def statuses(diagnosis: Diagnosis) -> dict[str, str]:
    return {result.id: result.status for result in diagnosis.results if result.id in ("key", "model", "url-form")}


def test_key_model_and_url_are_checked_without_asking_the_model(examined: Examined) -> None:
    diagnosis = examined(Patient(), *VLLM, cheap=True)
    assert statuses(diagnosis) == {"key": "ok", "model": "ok", "url-form": "ok"}
    assert diagnosis.status == "ok"


@pytest.mark.parametrize(
    ("patient", "codes"),
    [
        pytest.param(Patient(key="sk-wrong-999999"), ["key-invalid"], id="wrong-key"),
        pytest.param(Patient(key=""), ["key-missing"], id="no-key"),
        pytest.param(Patient(model="zebra"), ["model-name-mismatch"], id="wrong-model"),
        pytest.param(Patient(base=""), ["base-url-missing-v1"], id="missing-v1"),
        pytest.param(Patient(base="", key="sk-wrong-999999"), ["base-url-missing-v1", "key-invalid"], id="two-faults"),
        pytest.param(Patient(base="/v1/v1"), ["base-url-extra-v1"], id="doubled-v1"),
        pytest.param(Patient(base="/v1/chat/completions"), ["base-url-full-endpoint"], id="pasted-endpoint"),
        pytest.param(Patient("claude-code", "/v1"), ["base-url-extra-v1"], id="claude-code-with-v1"),
    ],
)
def test_a_planted_fault_is_named(examined: Examined, patient: Patient, codes: list[str]) -> None:
    diagnosis = examined(patient, *VLLM, cheap=True)
    assert [finding.code for finding in diagnosis.findings] == codes
    assert diagnosis.status == "error"


@pytest.mark.parametrize(
    ("routes", "unknown"),
    [
        pytest.param((models(), chat()), {"key"}, id="a-list-open-to-everybody"),
        pytest.param((chat(),), {"key", "model", "url-form"}, id="no-list"),
    ],
)
def test_what_a_list_cannot_tell_is_unknown(examined: Examined, routes: Any, unknown: set[str]) -> None:
    diagnosis = examined(Patient(), *routes, cheap=True)
    assert {name for name, status in statuses(diagnosis).items() if status == "unknown"} == unknown
    assert diagnosis.status == "unknown"


def test_a_web_page_in_place_of_the_list_is_named(examined: Examined) -> None:
    page = Route("*", HTML_PAGE, 200, "*", "text/html", when=with_header("authorization"))
    assert [finding.code for finding in examined(Patient(), page, cheap=True).findings] == ["html-instead-of-json"]


def test_where_no_client_is_meant_no_client_is_written(examined: Examined) -> None:
    for cheap in (True, False):
        (finding,) = examined(Patient("", base=""), *VLLM, cheap=cheap).findings[:1]
        assert finding.fix is not None
        assert finding.fix.commands == ()
        assert "http://server.test:8000/v1" in finding.fix.text
