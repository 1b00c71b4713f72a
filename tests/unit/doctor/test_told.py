"""An error text beside the base URL with which it came: the URL's form decides between the text's candidates."""

from __future__ import annotations

import pytest

from wizard.doctor.engine import examine
from wizard.doctor.manners import wire_of
from wizard.doctor.observations import Context, Observations, Target

NOT_FOUND = "Error code: 404 - {'detail': 'Not Found'}"
CLAUDE = "There's an issue with the selected model (m). It may not exist or you may not have access to it."


@pytest.mark.parametrize(
    ("client", "url", "text", "code"),
    [
        pytest.param("openai-sdk", "http://h:8000", NOT_FOUND, "base-url-missing-v1", id="no-version"),
        pytest.param("openai-sdk", "http://h:8000/v1", NOT_FOUND, "model-name-mismatch", id="with-version"),
        pytest.param("openai-sdk", "http://h/v1/v1", NOT_FOUND, "base-url-extra-v1", id="twice"),
        pytest.param("claude-code", "http://h:8000/v1", CLAUDE, "base-url-extra-v1", id="claude-with-version"),
        pytest.param("claude-code", "http://h:8000", CLAUDE, "model-name-mismatch", id="claude-without"),
        pytest.param("claude-code", "http://h:8000/v1", "", "base-url-extra-v1", id="by-the-form-alone"),
        pytest.param("cline", "http://h/v1/chat/completions", NOT_FOUND, "base-url-full-endpoint", id="full"),
        pytest.param("cline", "http://h/v1/", "404 //chat/completions", "base-url-trailing-slash", id="two-slashes"),
    ],
)
def test_the_form_of_the_url_decides(client: str, url: str, text: str, code: str) -> None:
    target = Target(client, url, "m", None, "--base-url", wire=wire_of(client))
    shared = Observations(
        Context("linux"), targets=(target,), error_text=text or None, offline=True, explicit=True, client_type=client
    )
    findings = examine(shared, (shared.at(target),)).findings
    assert (findings[0].code, findings[0].severity) == (code, "error")
