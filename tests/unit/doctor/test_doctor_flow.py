"""The doctor's journey: what it gathers from files, and the last line that people read."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from wizard.doctor.error_texts import explain_error
from wizard.doctor.judging import evidence
from wizard.doctor.observations import (
    AddressResult,
    Context,
    Exchange,
    NetworkFacts,
    Observations,
    RequestSummary,
    Target,
)
from wizard.effects.clock import Clock
from wizard.effects.files import Files
from wizard.effects.http import Http
from wizard.effects.paths import state_paths
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpFailure, HttpReply, HttpRequest
from wizard.endpoint.model import Profile
from wizard.flows.clients import load_clients
from wizard.flows.doctor import DoctorOptions, Report, observe, run_doctor, show_report
from wizard.flows.probe import Limits, Prober
from wizard.problems import ProblemError
from wizard.secret import Secret
from wizard.ui.screen import Screen

from .conftest import HOST, FakeHttp, FakeNetwork, Route, chat, fake_world, messages, models, without_header

KEY = "sk-test-123456"
LOCKED = Route("/v1/*", {"error": "Unauthorized"}, 401, "*", when=without_header("authorization", f"Bearer {KEY}"))
VLLM = (LOCKED, models("m", owned_by="vllm"), chat())
Doctor = Callable[..., tuple[Report, str]]


class Silent:
    """Accepts and says nothing."""

    def send(self, request: HttpRequest) -> HttpReply | HttpFailure:
        return HttpFailure("timeout", "TimeoutError: timed out", 1.0)


class Hanging:
    """Accepts and hangs up."""

    def send(self, request: HttpRequest) -> HttpReply | HttpFailure:
        return HttpFailure("protocol", "RemoteProtocolError: Server disconnected without sending a response.", 0.0)


class Closed(FakeNetwork):
    """Every port is refused."""

    def look(self, scheme: str, host: str, port: int, **_: object) -> NetworkFacts:
        return NetworkFacts(scheme, host, port, (host,), tcp=(AddressResult(host, port, "refused", 0.0),))


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    def run(
        options: DoctorOptions, http: object = None, env: Mapping[str, str] | None = None, network: object = None
    ) -> tuple[Report, str]:
        monkeypatch.setattr(
            "wizard.flows.doctor.Prober",
            lambda world, limits: Prober(world, limits, network or FakeNetwork()),  # type: ignore[arg-type]
        )
        world = fake_world(tmp_path, http or FakeHttp(VLLM), {"LLM_SETUP_API_KEY": KEY, **(env or {})})
        out = io.StringIO()
        screen = Screen(plain=True, out=out, err=io.StringIO(), env={})
        report = run_doctor(world, screen, options)
        show_report(screen, report)
        return report, out.getvalue().rstrip().rsplit("\n", 1)[-1]

    return run


def test_all_is_well_only_where_all_was_asked(doctor: Doctor) -> None:
    options = DoctorOptions(base_url=f"{HOST}/v1", model="m")
    report, last = doctor(options)
    statuses = {result.id: result.status for result in report.diagnosis.results}
    assert (statuses["key"], statuses["url-form"]) == ("ok", "ok")
    assert (last == "All is well.") == (report.diagnosis.status == "ok")
    cheap, said = doctor(DoctorOptions(base_url=f"{HOST}/v1", model="m", cheap=True))
    assert cheap.diagnosis.status == "ok"
    assert "Key, model and URL are right" in said
    assert "--cheap" in said
    assert "All is well" not in said


def test_what_was_not_checked_is_named_and_the_whole_is_unknown(doctor: Doctor) -> None:
    report, last = doctor(DoctorOptions(base_url=f"{HOST}/v1", model="", cheap=True))
    assert report.as_json()["status"] == "unknown"
    assert "Not checked: The server serves the model" in last


def test_offline_is_well_only_as_far_as_files_and_variables_tell(doctor: Doctor) -> None:
    report, last = doctor(DoctorOptions(base_url=f"{HOST}/v1", model="m", offline=True))
    statuses = {result.id: result.status for result in report.diagnosis.results}
    assert (report.as_json()["status"], statuses["key"], statuses["model"]) == ("ok", "skipped", "skipped")
    assert "no endpoint was asked (`--offline`)" in last


@pytest.mark.parametrize("cheap", [True, False])
@pytest.mark.parametrize(("http", "code"), [(Silent(), "upstream-hangs"), (Hanging(), "broken-response-body")])
def test_a_port_that_says_nothing_is_not_well(doctor: Doctor, http: object, code: str, cheap: bool) -> None:
    report, last = doctor(DoctorOptions(base_url=f"{HOST}/v1", model="m", cheap=cheap, timeout_s=1), http)
    assert report.diagnosis.findings[0].code == code
    assert "All is well" not in last


def test_with_nothing_configured_nothing_was_examined(doctor: Doctor) -> None:
    report, last = doctor(DoctorOptions(), env={"LLM_SETUP_API_KEY": ""})
    assert report.as_json()["status"] == "unknown"
    assert last == "Nothing was examined."


@pytest.mark.parametrize("options", [DoctorOptions(log="-"), DoctorOptions(error="-")])
def test_a_stdin_that_is_closed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: DoctorOptions
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ProblemError) as raised:
        observe(fake_world(tmp_path, FakeHttp(()), {}), options)
    assert raised.value.problem.code == "stdin-closed"


LOG = "ERROR 11-30 10:00:00 [core.py:1] torch.OutOfMemoryError: CUDA out of memory.\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(LOG.encode(), id="plain"),
        pytest.param(LOG.encode("utf-16"), id="written-by-powershell"),
        pytest.param(b"\xef\xbb\xbf" + LOG.encode(), id="with-a-byte-order-mark"),
        pytest.param(gzip.compress(b"INFO: up\n") + gzip.compress(LOG.encode()), id="rotated-away"),
        pytest.param(LOG.encode("latin-1").replace(b"memory.", b"memory. \xb5\xff"), id="no-utf-8"),
    ],
)
def test_a_log_is_read_as_it_was_written(doctor: Doctor, tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "server.log").write_bytes(raw)
    report, _ = doctor(DoctorOptions(log=str(tmp_path / "server.log")), env={"LLM_SETUP_API_KEY": ""})
    assert [finding.code for finding in report.diagnosis.findings] == ["cuda-oom"]


PACKED = gzip.compress(LOG.encode())


@pytest.mark.parametrize("by", ["path", "stdin"])
@pytest.mark.parametrize(
    ("raw", "code"),
    [
        pytest.param(b"", "log-empty", id="empty"),
        pytest.param(PACKED[:30], "log-missing", id="packed-and-cut"),
        pytest.param(PACKED[:12] + b"\xff" * 20 + PACKED[32:], "log-missing", id="packed-and-damaged"),
    ],
)
def test_a_log_that_says_nothing_is_not_well(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: bytes, code: str, by: str
) -> None:
    (tmp_path / "server.log").write_bytes(raw)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(raw))))  # type: ignore[arg-type]
    with pytest.raises(ProblemError) as raised:
        doctor(DoctorOptions(log=str(tmp_path / "server.log") if by == "path" else "-"))
    assert raised.value.problem.code == code


def test_a_check_that_is_none_is_no_success(doctor: Doctor) -> None:
    with pytest.raises(ProblemError) as raised:
        doctor(DoctorOptions(base_url=f"{HOST}/v1", model="m", only=("keys",)))
    assert raised.value.problem.code == "unknown-check"


def test_an_error_text_of_several_causes_names_them_as_guesses(doctor: Doctor) -> None:
    _, last = doctor(DoctorOptions(error="404 page not found"), env={"LLM_SETUP_API_KEY": ""})
    assert last.startswith("Most likely: ")
    assert "[base-url-missing-v1]; or: " in last
    assert "[model-name-mismatch]" in last


def test_a_stopped_server_is_known_from_its_profile(tmp_path: Path, doctor: Doctor) -> None:
    url = "http://127.0.0.1:8123/v1"
    world = fake_world(tmp_path, FakeHttp(()), {})
    world.profiles.put(Profile("local", url, None, "m", server="local"), activate=True)
    (server,) = observe(world, DoctorOptions()).servers
    assert (server.name, server.port, server.alive) == ("local", 8123, False)

    class Refusing:
        def send(self, request: HttpRequest) -> HttpReply | HttpFailure:
            return HttpFailure("refused", "ConnectionRefusedError", 0.0)

    report, _ = doctor(DoctorOptions(assume="container"), Refusing(), network=Closed())
    finding = report.diagnosis.findings[0]
    assert (finding.code, finding.fix.commands if finding.fix else ()) == (
        "server-not-ready",
        ("llm-setup init --yes",),
    )


CLAUDE_ENV = {
    "ANTHROPIC_BASE_URL": HOST,
    "ANTHROPIC_AUTH_TOKEN": KEY,
    "ANTHROPIC_MODEL": "m",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": "m-small",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "2048",
    "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "30000",
}


def test_limits_of_claude_code_come_from_its_settings(tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"env": CLAUDE_ENV}))
    (target,) = observe(fake_world(tmp_path, FakeHttp(()), {}), DoctorOptions(client="claude-code")).targets
    assert (target.max_tokens, target.small_model, target.context_tokens) == (2048, "m-small", 30000)


def test_limits_given_as_options_come_before_the_settings(tmp_path: Path) -> None:
    options = DoctorOptions(client="claude-code", max_tokens=100, context_tokens=200)
    (target,) = observe(fake_world(tmp_path, FakeHttp(()), CLAUDE_ENV), options).targets
    assert (target.max_tokens, target.small_model, target.context_tokens) == (100, "m-small", 200)


def test_of_a_triple_from_options_only_the_environment_sets_limits(tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"env": {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "1"}}))
    world = fake_world(tmp_path, FakeHttp(()), {"ANTHROPIC_DEFAULT_HAIKU_MODEL": "m-small"})
    (target,) = observe(world, DoctorOptions(base_url=HOST, model="m", client_type="claude-code")).targets
    assert (target.max_tokens, target.small_model) == (None, "m-small")


def test_what_claude_code_was_told_is_what_the_doctor_asks_for(tmp_path: Path, doctor: Doctor) -> None:
    http = FakeHttp((models("m", max_model_len=65536), messages()))
    doctor(DoctorOptions(client="claude-code"), http, env=CLAUDE_ENV)
    bodies = [request.json_body for request in http.sent if isinstance(request.json_body, dict)]
    assert {"m", "m-small"} == {body["model"] for body in bodies}
    assert 2048 in {body.get("max_tokens") for body in bodies}
    assert 32_000 not in {body.get("max_tokens") for body in bodies}


def test_a_client_s_first_request_is_as_large_for_the_doctor_as_for_init(tmp_path: Path) -> None:
    world = fake_world(tmp_path, FakeHttp(()), {})
    for name, client in load_clients(world).items():
        (target,) = observe(world, DoctorOptions(base_url=HOST, model="m", client_type=name)).targets
        assert target.prompt_tokens == client.spec.first_request_tokens


def test_what_two_clients_ask_alike_is_sent_once(tmp_path: Path) -> None:
    class Counting(FakeNetwork):
        looks = 0

        def look(self, scheme: str, host: str, port: int, **rest: object) -> NetworkFacts:
            self.looks += 1
            return super().look(scheme, host, port, **rest)

    http, network = FakeHttp(VLLM), Counting()
    world = fake_world(tmp_path, http, {})
    prober = Prober(world, Limits(), network)  # type: ignore[arg-type]
    targets = [Target(name, f"{HOST}/v1", "m", Secret(KEY), name) for name in ("opencode", "kilo", "cline")]
    shared = Observations(Context("linux"), targets=tuple(targets))
    first = prober.examine(shared, targets[0])
    alone = len(http.sent)
    others = [prober.examine(shared, target) for target in targets[1:]]
    # Each client's own question, and its list of models where its program's name differs; the rest is known.
    assert len(http.sent) - alone <= 2 * len(others)
    assert network.looks == 1
    assert {len(seen.exchanges) for seen in (first, *others)} == {len(first.exchanges)}


def test_two_keys_are_never_taken_for_one(tmp_path: Path) -> None:
    prober = Prober(fake_world(tmp_path, FakeHttp(VLLM), {}), Limits(cheap=True), FakeNetwork())  # type: ignore[arg-type]
    shared = Observations(Context("linux"))
    statuses = []
    for key in (KEY, "sk-wrong-999999"):
        seen = prober.examine(shared, Target("", f"{HOST}/v1", "m", Secret(key), "--base-url"))
        reply = seen.reply("models")
        statuses.append(reply.status if reply else 0)
    assert statuses == [200, 401]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("as_json", "told"), [(False, True), (True, False)])
def test_a_terminal_shows_which_endpoint_is_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool, told: bool
) -> None:
    monkeypatch.setattr(
        "wizard.flows.doctor.Prober",
        lambda world, limits: Prober(world, limits, FakeNetwork()),  # type: ignore[arg-type]
    )
    out, err = Terminal(), Terminal()
    screen = Screen(as_json=as_json, plain=True, out=out, err=err, env={})
    world = fake_world(tmp_path, FakeHttp(VLLM), {"LLM_SETUP_API_KEY": KEY})
    run_doctor(world, screen, DoctorOptions(base_url=f"{HOST}/v1", model="m", client_type="qwen"))
    assert (f"Asking {HOST}/v1 as Qwen Code does" in out.getvalue() + err.getvalue()) is told


def test_evidence_of_a_pretty_printed_error_is_one_line() -> None:
    body = json.dumps({"error": {"message": "max_tokens is too large", "code": 400}}, indent=2).encode()
    reply = HttpReply(400, (("content-type", "application/json"),), body, 0.1, 0.1)
    line = evidence(Exchange("main", RequestSummary("POST", f"{HOST}/v1/chat/completions"), reply))
    assert line.endswith('-> 400 { "error": { "message": "max_tokens is too large", "code": 400 } }')


def test_why_a_large_output_is_refused_is_shown_whole(doctor: Doctor) -> None:
    refusal = json.dumps({"error": {"message": "max_tokens: at most 8192 for this model"}}, indent=2)
    large = Route("/v1/chat/completions", refusal, 400, when=lambda body, _: body.get("max_tokens", 0) > 8192)
    report, _ = doctor(
        DoctorOptions(base_url=f"{HOST}/v1", model="m", client_type="qwen"), FakeHttp((large, models(), chat()))
    )
    (finding,) = [one for one in report.diagnosis.findings if one.code == "max-tokens-too-large"]
    assert "at most 8192 for this model" in finding.saw[0]


def test_evidence_of_a_pretty_printed_error_text_is_more_than_its_brace() -> None:
    text = '400 {\n  "error": {\n    "message": "max_tokens is too large: 32000",\n    "code": 400\n  }\n}'
    first = explain_error(text)[0]
    assert "max_tokens is too large" in first.saw[0]
    assert "\n" not in first.saw[0]


@pytest.mark.parametrize("url", ["http://[::1", "http://[zz]:1"])
def test_a_url_that_does_not_parse_is_one_finding_and_no_crash(tmp_path: Path, url: str) -> None:
    report = run_doctor(fake_world(tmp_path, FakeHttp(()), {}), Screen(), DoctorOptions(base_url=url, model="m"))
    assert [finding.code for finding in report.diagnosis.findings] == ["base-url-invalid"]
    assert "crashed" not in {result.status for result in report.diagnosis.results}


def test_a_dead_url_of_the_settings_over_one_of_the_shell_is_named_first(tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    env = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_MODEL": "m"}
    settings.write_text(json.dumps({"env": env}))
    world = real_world_at(tmp_path, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:10"})
    report = run_doctor(
        world, Screen(as_json=True, out=io.StringIO(), err=io.StringIO()), DoctorOptions(client="claude-code")
    )
    assert report.diagnosis.findings[0].code == "settings-override-env"
    assert report.diagnosis.findings[0].severity == "error"


def real_world_at(home: Path, env: Mapping[str, str]) -> World:
    """Real HTTP from an own home: nothing listens on the ports that are asked."""
    return World(
        dict(env), home, home, "linux", state_paths({"LLM_SETUP_HOME": str(home / "own")}), Files(), Http(), Clock()
    )
