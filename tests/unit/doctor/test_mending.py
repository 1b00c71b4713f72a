"""What `--fix` would write, and what a report shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wizard.doctor.engine import all_checks, examine
from wizard.doctor.manners import wire_of
from wizard.doctor.mending import plan_mend
from wizard.doctor.observations import Context, Observations, RequestSummary, Target
from wizard.doctor.report import curl_command, render_html, render_markdown
from wizard.doctor.tracing import describe, explain_first_failure
from wizard.flows.probe import Limits, Prober
from wizard.secret import Secret

from .conftest import HOST, FakeHttp, FakeNetwork, Route, chat, error, fake_world, messages, models, responses

KEY = "sk-mend-0123456789abcdef"


def seen_at(tmp_path: Path, client: str, base: str, model: str, *routes: Route) -> tuple[Observations, Observations]:
    source = "~/.config: base_url"
    target = Target(client, HOST + base, model, Secret(KEY), source, source, wire=wire_of(client))
    shared = Observations(Context("linux"), targets=(target,), probed=True)
    prober = Prober(fake_world(tmp_path, FakeHttp(routes), {}), Limits(), FakeNetwork())  # type: ignore[arg-type]
    return shared, prober.examine(shared, target)


@pytest.mark.parametrize(
    ("client", "base", "model", "routes", "openai", "anthropic", "mended"),
    [
        pytest.param("codex", "", "m", (models(), responses()), "/v1", "", "m", id="missing-v1"),
        pytest.param("claude-code", "/v1", "m", (messages(), models()), "/v1", "", "m", id="extra-v1"),
        pytest.param("cline", "/v1/chat/completions", "m", (models(), chat()), "/v1", "", "m", id="full-endpoint"),
        pytest.param(
            "cline",
            "/v1",
            "qwen3",
            (models("org/Qwen3"), chat(error("The model `qwen3` does not exist."), 404)),
            "/v1",
            "",
            "org/Qwen3",
            id="near-model",
        ),
    ],
)
def test_the_triple_that_answered_is_written(
    tmp_path: Path,
    client: str,
    base: str,
    model: str,
    routes: tuple[Route, ...],
    openai: str,
    anthropic: str,
    mended: str,
) -> None:
    shared, seen = seen_at(tmp_path, client, base, model, *routes)
    plan = plan_mend(seen, examine(shared, (seen,)).findings)
    assert plan is not None
    assert (plan.endpoint.openai_base_url, plan.endpoint.anthropic_base_url) == (HOST + openai, HOST + anthropic)
    assert (plan.client, plan.endpoint.model) == (client, mended)


def test_nothing_is_mended_that_was_given_by_flags_or_works(tmp_path: Path) -> None:
    shared, seen = seen_at(tmp_path, "codex", "", "m", models(), responses())
    findings = examine(shared, (seen,)).findings
    assert seen.target is not None
    assert plan_mend(replace(seen, target=replace(seen.target, source="--base-url")), findings) is None
    shared, seen = seen_at(tmp_path, "codex", "/v1", "m", models(), responses())
    assert plan_mend(seen, examine(shared, (seen,)).findings) is None


def test_a_report_names_the_cause_and_a_command_without_the_key(tmp_path: Path) -> None:
    shared, seen = seen_at(tmp_path, "cline", "/v1", "x", models(), chat(error(f"no {KEY}: model x not found"), 404))
    diagnosis = examine(shared, (seen,), [check for check in all_checks() if check.scope == "target"])
    text = render_markdown(diagnosis, shared, (seen,), (("llm-setup", "1"),))
    assert "model-name-mismatch" in text
    assert "curl -sS -i -X POST" in text
    assert KEY not in text
    assert "&lt;" in render_html("<script>") and "<script>" not in render_html("<script>")


def test_a_curl_command_takes_the_key_from_a_variable_and_quotes_the_body() -> None:
    request = RequestSummary("POST", "http://h/v1/x", "bearer", {"a": "it's"}, True)
    command = curl_command(request)
    assert '-H "authorization: Bearer $KEY"' in command
    assert "--noproxy '*'" in command
    assert """'{"a": "it'"'"'s"}'""" in command


@pytest.mark.parametrize(
    ("routes", "base", "code"),
    [
        pytest.param((chat(error("The model `m` does not exist."), 404),), "/v1", "model-name-mismatch", id="model"),
        pytest.param((chat({"error": "Unauthorized"}, 401),), "/v1", "key-invalid", id="key"),
        pytest.param((), "", "base-url-missing-v1", id="path"),
        pytest.param((chat("<html></html>", kind="text/html"),), "/v1", "html-instead-of-json", id="page"),
        pytest.param((chat(),), "/v1", "", id="fine"),
    ],
)
def test_a_trace_explains_the_first_exchange_that_failed(
    tmp_path: Path, routes: tuple[Route, ...], base: str, code: str
) -> None:
    _, seen = seen_at(tmp_path, "cline", base, "m", *routes)
    main = next(exchange for exchange in seen.exchanges if exchange.probe == "main")
    cause = explain_first_failure([main])
    assert (cause.code if cause else "") == code
    assert "model m" in describe(main)
