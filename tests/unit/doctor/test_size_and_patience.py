"""What shows only at the client's own size and pace: windows, proxies' limits, buffers, time-outs; what it costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wizard.doctor.checks.stream import stream_flows
from wizard.doctor.checks.way import client_patience
from wizard.doctor.engine import Diagnosis, Unseen
from wizard.doctor.manners import wire_of
from wizard.doctor.observations import Context, Exchange, Observations, RequestSummary, Target
from wizard.doctor.probes import LONG_STREAM, ROOMY_TOKENS, plan_long_stream, spot_of
from wizard.doctor.report import curl_command
from wizard.endpoint.exchange import FailureKind, HttpFailure, HttpReply, HttpRequest
from wizard.flows.doctor import DoctorOptions, run_doctor
from wizard.flows.probe import Limits, Prober, estimate_cost
from wizard.problems import Problem
from wizard.secret import Secret
from wizard.ui.screen import Screen

from .conftest import (
    HTML_PAGE,
    FakeHttp,
    FakeNetwork,
    Headers,
    Patient,
    Route,
    chat,
    error,
    fake_world,
    messages,
    models,
    responses,
    with_header,
    without_header,
)

Examined = Callable[..., Diagnosis]
VLLM = models("m", owned_by="vllm", max_model_len=131072)
OWN = "http://127.0.0.1:8000/v1"


def longer_than(characters: int) -> Callable[[dict[str, Any], Headers], bool]:
    return lambda body, _: len(json.dumps(body)) > characters


@pytest.mark.parametrize(
    ("client", "refusal", "status", "code"),
    [
        pytest.param("cline", error("the request exceeds the available context size"), 400, "context-length-exceeded"),
        pytest.param("codex", error("This model's maximum context length is 8192"), 400, "context-length-exceeded"),
        pytest.param("claude-code", error("prompt is too long"), 400, "context-length-exceeded"),
        pytest.param("cline", HTML_PAGE, 413, "proxy-body-limit"),
        pytest.param("codex", {"message": "Request size limit exceeded"}, 413, "proxy-body-limit"),
        pytest.param("cline", "upstream request timeout", 504, "proxy-read-timeout"),
        pytest.param("cline", error("CUDA error: an illegal memory access"), 500, "server-bug-500"),
    ],
)
def test_a_prompt_of_the_client_s_size_is_sent_to_an_own_vllm(
    examined: Examined, client: str, refusal: Any, status: int, code: str
) -> None:
    make = {"codex": responses, "claude-code": messages}.get(client, chat)
    kind = "text/html" if refusal == HTML_PAGE else "application/json"
    base = OWN.removesuffix("/v1") if client == "claude-code" else OWN
    routes = (make(refusal, status, when=longer_than(20_000), kind=kind), make(), VLLM)
    diagnosis = examined(Patient(client, base), *routes)
    assert [f.code for f in diagnosis.findings if f.severity == "error"] == [code]
    assert all(len(line) < 500 for finding in diagnosis.findings for line in finding.saw)


@pytest.mark.parametrize("base", [OWN, "https://gateway.example/v1", "http://10.0.0.5:8000/v1"])
def test_others_are_sent_no_long_prompt_unless_it_was_asked_for(tmp_path: Path, base: str) -> None:
    for full in (False, True):
        own = base == OWN
        http = FakeHttp((VLLM if own else models(), chat()))
        target = Target("cline", base.replace("https", "http"), "m", None, "--base-url", prompt_tokens=5600)
        shared = Observations(Context("linux"), targets=(target,), probed=True)
        Prober(fake_world(tmp_path, http, {}), Limits(full=full), FakeNetwork()).examine(shared, target)  # type: ignore[arg-type]
        longest = max(len(json.dumps(request.json_body)) for request in http.sent)
        assert (longest > 20_000) == (own or full)


def test_what_it_may_cost_is_told_before_for_gateways_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def target(base: str) -> Target:
        return Target("claude-code", base, "m", None, "x", wire="messages", prompt_tokens=13400)

    requests, tokens = estimate_cost(target("https://gateway.example"), Limits())
    assert requests > 10
    assert 1_000 < tokens < 5_000
    assert estimate_cost(target("https://gateway.example"), Limits(full=True))[1] > 13_400
    assert estimate_cost(target("https://gateway.example"), Limits(cheap=True)) == (0, 0)
    assert estimate_cost(target("http://127.0.0.1:8000"), Limits()) == (0, 0)
    world = fake_world(tmp_path, FakeHttp((models(), chat())), {})
    options = DoctorOptions(base_url="https://gateway.invalid/v1", model="m", client_type="cline", timeout_s=1)
    run_doctor(world, Screen(plain=True, env={}), options)
    assert "short requests, about" in capsys.readouterr().out


def test_of_a_model_that_thinks_no_more_is_asked_than_was_told(tmp_path: Path) -> None:
    silent = {"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "length"}]}
    http = FakeHttp((models(), chat(silent)))
    target = Target("openai-sdk", "http://gateway.example/v1", "m", None, "--base-url")
    shared = Observations(Context("linux"), targets=(target,), probed=True)
    Prober(fake_world(tmp_path, http, {}), Limits(), FakeNetwork()).examine(shared, target)  # type: ignore[arg-type]
    asked = [request.json_body for request in http.sent if request.json_body is not None]
    requests, tokens = estimate_cost(target, Limits())
    assert len(asked) <= requests
    assert tokens > ROOMY_TOKENS


# ---- a stream that is held back ----------------------------------------------------------------------------------


EVENT = 'data: {"choices": [{"index": 0, "delta": {"content": "1"}}]}\n\n'


def streamed(*arrivals: tuple[float, int], cut: bool = False, quick: float = 0.2) -> Observations:
    """A short answer after `quick` seconds, and a stream that came so: (seconds, events so far)."""
    raw = (EVENT * (arrivals[-1][1] if arrivals else 0)).encode()
    pieces = tuple((seconds, events * len(EVENT)) for seconds, events in arrivals)
    headers = (("content-type", "text/event-stream"), ("server", "nginx"))
    ended = pieces[-1][0] if pieces and not cut else 6.0
    stream = HttpReply(200, headers, raw, 0.1, ended, "longer than 6 s" if cut else "", pieces)
    short = HttpReply(200, (), b"{}", quick, quick)
    target = Target("cline", OWN, "m", None, "--base-url")
    exchanges = (
        Exchange("main", RequestSummary("POST", f"{OWN}/chat/completions", body={}), short),
        Exchange(LONG_STREAM, RequestSummary("POST", f"{OWN}/chat/completions", body={"stream": True}), stream),
    )
    return Observations(Context("linux"), targets=(target,)).at(target, exchanges)


GULPS = tuple((0.2 + 0.4 * n, 20 * (n + 1)) for n in range(8))
FLOW = tuple((0.05 + 0.02 * n, n + 1) for n in range(100))
JOINED = tuple((0.05 + 0.16 * n, 8 * (n + 1)) for n in range(12))


@pytest.mark.parametrize(
    ("seen", "held"),
    [
        pytest.param(streamed((2.0, 100)), True, id="all-at-the-end"),
        pytest.param(streamed(cut=True), True, id="nothing-as-long-as-was-waited"),
        pytest.param(streamed(*GULPS), True, id="a-buffer-at-a-time"),
        pytest.param(streamed(*FLOW), False, id="as-it-is-made"),
        pytest.param(streamed(*JOINED), False, id="a-busy-machine-joins-some"),
        pytest.param(streamed((2.0, 100), quick=1.5), False, id="a-slow-server"),
        pytest.param(streamed(*((1.5 + 0.02 * n, n + 1) for n in range(100))), False, id="a-busy-machine-begins-late"),
        pytest.param(streamed((0.3, 100), quick=0.1), False, id="too-fast-to-tell"),
    ],
)
def test_a_stream_in_buffers_is_told_from_one_that_flows(seen: Observations, held: bool) -> None:
    verdict = stream_flows(seen)
    assert isinstance(verdict, Problem) == held
    assert not isinstance(verdict, Problem) or verdict.code == "proxy-buffering"


@pytest.mark.parametrize(
    ("kind", "quick", "held"),
    [
        pytest.param("timeout", 0.2, True, id="not-even-its-head"),
        pytest.param("timeout", 5.0, False, id="a-slow-server"),
        pytest.param("reset", 0.2, False, id="broken"),
    ],
)
def test_a_stream_of_which_nothing_comes_is_held_back(kind: FailureKind, quick: float, held: bool) -> None:
    seen = streamed(cut=True, quick=quick)
    main, stream = seen.exchanges
    seen = replace(seen, exchanges=(main, replace(stream, outcome=HttpFailure(kind, "", 6.0))))
    assert isinstance(stream_flows(seen), Problem) == held


def test_a_long_stream_may_be_packed_as_for_a_client() -> None:
    target = Target("cline", OWN, "m", None, "--base-url")
    (probe,) = plan_long_stream(spot_of(target, 20), vllm=True)
    assert ("accept-encoding", "gzip") in probe.request.headers


@pytest.mark.parametrize(("server", "asked"), [("uvicorn", False), ("nginx/1.26", True)])
def test_a_long_stream_is_asked_for_only_where_something_stands_between(
    tmp_path: Path, server: str, asked: bool
) -> None:
    http = FakeHttp((VLLM, chat(headers=(("server", server),))))
    target = Target("openai-sdk", OWN, "m", None, "--base-url")
    shared = Observations(Context("linux"), targets=(target,), probed=True)
    seen = Prober(fake_world(tmp_path, http, {}), Limits(), FakeNetwork()).examine(shared, target)  # type: ignore[arg-type]
    assert (seen.exchange(LONG_STREAM) is not None) == asked


# ---- the client's own patience -----------------------------------------------------------------------------------


def waited(outcome: HttpReply | HttpFailure, env: tuple[tuple[str, str], ...]) -> object:
    target = Target("claude-code", "http://127.0.0.1:8000", "m", None, "x", wire=wire_of("claude-code"))
    exchange = Exchange("main", RequestSummary("POST", "http://127.0.0.1:8000/v1/messages"), outcome)
    return client_patience(Observations(Context("linux"), environment=env).at(target, (exchange,)))


def test_a_client_that_waits_shorter_than_the_server_needs_is_named() -> None:
    slow = HttpReply(200, (), b"{}", 6.0, 6.1)
    never = HttpFailure("timeout", "timed out", 20.0)
    refused = HttpFailure("refused", "refused", 20.0)
    patience = (("API_TIMEOUT_MS", "4000"),)
    for outcome in (slow, never):
        verdict = waited(outcome, patience)
        assert isinstance(verdict, Problem)
        assert verdict.code == "client-timeout-too-short"
    assert waited(refused, patience) is None
    assert waited(slow, (("API_TIMEOUT_MS", "600000"),)) is None
    assert isinstance(waited(slow, ()), Unseen)


# ---- headers that only some read ---------------------------------------------------------------------------------


def test_a_gateway_that_reads_the_key_from_azure_s_header_is_named(examined: Examined) -> None:
    refused = Route("/v1/*", error("Access denied due to missing subscription key."), 401, "*")
    diagnosis = examined(Patient(), chat(when=with_header("api-key")), refused)
    (first, *_) = diagnosis.findings
    assert first.code == "gateway-auth-header-style"
    assert "`api-key`" in first.what
    assert "api-key: $KEY" in curl_command(RequestSummary("POST", OWN, "api-key"))


def test_a_refusal_by_the_program_s_name_is_a_firewall_s_also_in_json(examined: Examined) -> None:
    blocked = chat(error("Forbidden"), 403, when=without_header("user-agent", "curl/8.5.0"))
    diagnosis = examined(Patient(), blocked, models(), chat())
    assert [f.code for f in diagnosis.findings if f.severity == "error"] == ["waf-block"]


def test_a_key_in_a_header_is_never_in_the_evidence(examined: Examined) -> None:
    key = "sk-evidence-0123456789"
    diagnosis = examined(Patient(key=key), Route("/v1/*", {"error": "Unauthorized"}, 401, "*"))
    assert Secret(key).reveal() not in json.dumps([finding.as_json() for finding in diagnosis.findings])


class Overrun(FakeHttp):
    """Hangs up on the first request for each probe of a kind, as a server whose queue of connections is full."""

    def send(self, request: HttpRequest) -> HttpReply | HttpFailure:
        first = not any(sent.json_body == request.json_body for sent in self.sent)
        reply = super().send(request)
        streams = isinstance(request.json_body, dict) and request.json_body.get("stream")
        return HttpFailure("reset", "ConnectionResetError", 0.01) if first and streams else reply


def test_a_connection_that_is_lost_once_is_no_fault(tmp_path: Path) -> None:
    target = Target("openai-sdk", OWN, "m", None, "--base-url")
    shared = Observations(Context("linux"), targets=(target,), probed=True)
    prober = Prober(fake_world(tmp_path, Overrun((models(), chat())), {}), Limits(), FakeNetwork())  # type: ignore[arg-type]
    seen = prober.examine(shared, target)
    assert [exchange.probe for exchange in seen.exchanges if exchange.failure is not None] == []


def test_behind_a_wrong_path_the_header_that_is_let_in_is_named_too(examined: Examined) -> None:
    """vLLM looks at the key before the path: 401 to x-api-key, 404 to Bearer."""
    gate = Route("/v1/*", {"error": "Unauthorized"}, 401, "*", when=lambda _, headers: "authorization" not in headers)
    patient = Patient("claude-code", "/v1", env=(("ANTHROPIC_API_KEY", "sk-test-123456"),))
    diagnosis = examined(patient, gate, models(), messages(), auth="x-api-key")
    codes = {finding.code for finding in diagnosis.findings if finding.severity == "error"}
    assert codes == {"base-url-extra-v1", "gateway-auth-header-style"}
