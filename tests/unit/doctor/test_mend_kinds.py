"""`doctor --fix` beyond client files: profiles, servers of our own, shells' lines. What did not help is taken back."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wizard.doctor.checks.env_proxy import plain_no_proxy
from wizard.effects.world import World
from wizard.endpoint.model import Profile
from wizard.flows.doctor import DoctorOptions, run_doctor
from wizard.flows.mend import Mended, mend
from wizard.problems import Problem, ProblemError
from wizard.secret import Secret
from wizard.serving.record import ServerRecord
from wizard.ui.screen import Screen

from .conftest import (
    CHAT_OK,
    FakeHttp,
    FakeNetwork,
    Headers,
    Route,
    chat,
    error,
    fake_world,
    models,
    sends,
    without_header,
)

ROOT = "http://127.0.0.1:8000"
TOOLS_OFF = error('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
PI = """{"providers": {"own": {"baseUrl": "http://127.0.0.1:8000/v1", "api": "openai-completions",
 "apiKey": "sk-mend-0123456789abcdef", "models": [{"id": "Qwen3-8B", "maxTokens": 2048}]}}}"""
PI_CHOICE = '{"defaultProvider": "own", "defaultModel": "Qwen3-8B"}'


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    from wizard.flows.probe import Limits, Prober

    def prober(world: World, limits: Limits) -> Prober:
        return Prober(world, limits, FakeNetwork())  # type: ignore[arg-type]

    monkeypatch.setattr("wizard.flows.doctor.Prober", prober)


def screen() -> Screen:
    return Screen(plain=True, out=io.StringIO(), err=io.StringIO(), env={})


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return file


def mended(
    world: World, options: DoctorOptions, start: Callable[..., object] | None = None, **how: object
) -> tuple[Mended, ...]:
    report = run_doctor(world, screen(), options)
    return mend(world, screen(), report, options, yes=True, start=start, **how)  # type: ignore[arg-type]


# ---- profiles ----------------------------------------------------------------------------------------------------


def with_profile(tmp_path: Path, *routes: Route) -> World:
    world = fake_world(tmp_path, FakeHttp(routes), {})
    world.profiles.put(Profile("own", ROOT, None, "m"), activate=True)
    return world


def sends_model(model: str) -> Callable[[dict[str, Any], Headers], bool]:
    return lambda body, _: body.get("model") == model


def test_a_profile_without_v1_gets_it(tmp_path: Path) -> None:
    world = with_profile(tmp_path, models(), chat())
    (outcome,) = mended(world, DoctorOptions())
    assert (outcome.kind, outcome.name, outcome.outcome) == ("profile", "own", "mended")
    assert world.profiles.load().by_name["own"].openai_base_url == f"{ROOT}/v1"


def test_a_profile_with_another_model_gets_its_window(tmp_path: Path) -> None:
    refused = chat(error("The model `m` does not exist."), 404, when=sends_model("m"))
    world = with_profile(tmp_path, models("org/M", max_model_len=40960), refused, chat())
    world.profiles.put(Profile("own", f"{ROOT}/v1", None, "m", max_model_len=131072), activate=True)
    (outcome,) = mended(world, DoctorOptions())
    assert outcome.outcome == "mended"
    after = world.profiles.load().by_name["own"]
    assert (after.model, after.max_model_len) == ("org/M", 40960)


def test_a_profile_is_put_back_where_it_did_not_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_profile(tmp_path, models(), chat())
    report = run_doctor(world, screen(), DoctorOptions())
    monkeypatch.setattr("wizard.flows.mend.run_doctor", lambda *_: report)
    (outcome,) = mend(world, screen(), report, DoctorOptions(), yes=True)
    assert outcome.outcome == "undone"
    assert world.profiles.load().by_name["own"].openai_base_url == ROOT


def test_a_dry_run_changes_no_profile(tmp_path: Path) -> None:
    world = with_profile(tmp_path, models(), chat())
    (outcome,) = mended(world, DoctorOptions(), dry_run=True)
    assert outcome.outcome == "declined"
    assert world.profiles.load().by_name["own"].openai_base_url == ROOT


# ---- servers of our own ------------------------------------------------------------------------------------------


class Serving:
    """A server of our own whose answers follow from the flags that it was last started with."""

    def __init__(self, tmp_path: Path, *, arguments: tuple[str, ...] = (), alive: bool = True, log: str = "") -> None:
        write(tmp_path, ".pi/agent/models.json", PI)
        write(tmp_path, ".pi/agent/settings.json", PI_CHOICE)
        self.world = fake_world(tmp_path, FakeHttp(()), {})
        pid = os.getpid() if alive else 0
        self.record = ServerRecord(
            name="own",
            pid=pid,
            pid_started=self.world.processes.identity(pid) if alive else "",
            host="127.0.0.1",
            port=8000,
            model="Qwen/Qwen3-8B",
            served_name="Qwen3-8B",
            key_reference="",
            vllm_version="0.32.0",
            command=("vllm",),
            log=str(write(tmp_path, "own.log", log)),
            started_at=0.0,
            ready_at=1.0,
            python="/x/python",
            arguments=arguments,
        )
        self.world.servers.save(self.record)
        self.started: list[tuple[str, ...]] = []
        self.helps = True
        self.answer(arguments)

    def answer(self, arguments: tuple[str, ...]) -> None:
        tools = "--tool-call-parser" in arguments and self.helps
        refusal = () if tools else (chat(TOOLS_OFF, 400, when=sends("tools")),)
        http = self.world.http
        assert isinstance(http, FakeHttp)
        http.routes = (*refusal, models("Qwen3-8B", max_model_len=40960), chat(CHAT_OK))

    def start(self, world: World, screen: Screen, record: ServerRecord) -> None:
        self.started.append(record.arguments)
        self.answer(record.arguments)


def test_a_server_without_tool_calls_is_started_again_with_its_model_s_parser(tmp_path: Path) -> None:
    serving = Serving(tmp_path, arguments=("--max-model-len", "40960"))
    (outcome,) = mended(serving.world, DoctorOptions(client="pi"), serving.start)
    assert (outcome.kind, outcome.name, outcome.outcome) == ("server", "own", "mended")
    assert serving.started == [
        ("--max-model-len", "40960", "--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    ]


def test_a_server_is_started_as_it_was_where_other_flags_did_not_help(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    serving.helps = False
    (outcome,) = mended(serving.world, DoctorOptions(client="pi"), serving.start)
    assert outcome.outcome == "undone"
    assert serving.started[-1] == ()
    assert len(serving.started) == 2


def test_a_server_that_does_not_start_with_other_flags_is_started_as_it_was(tmp_path: Path) -> None:
    serving = Serving(tmp_path)

    def start(world: World, screen: Screen, record: ServerRecord) -> None:
        serving.start(world, screen, record)
        if record.arguments:
            raise ProblemError(Problem("cuda-oom", "no room"))

    (outcome,) = mended(serving.world, DoctorOptions(client="pi"), start)
    assert outcome.outcome == "undone"
    assert serving.started[-1] == ()


def test_of_a_dead_server_that_cannot_be_started_the_old_flags_are_remembered(tmp_path: Path) -> None:
    log = (
        "ValueError: To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (3.00 GiB). Based on the available memory, the "
        "estimated maximum model length is 21840.\n"
    )
    serving = Serving(tmp_path, arguments=("--max-model-len", "40960"), alive=False, log=log)
    http = serving.world.http
    assert isinstance(http, FakeHttp)
    http.routes = ()

    def start(world: World, screen: Screen, record: ServerRecord) -> None:
        serving.started.append(record.arguments)
        world.servers.save(record)
        raise ProblemError(Problem("cuda-oom", "no room"))

    outcomes = mended(serving.world, DoctorOptions(client="pi"), start)
    assert [one.outcome for one in outcomes] == ["undone"]
    assert serving.started[0] != serving.record.arguments
    assert serving.world.servers.load("own") == serving.record


def test_without_consent_no_server_is_touched(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    report = run_doctor(serving.world, screen(), DoctorOptions(client="pi"))
    options = DoctorOptions(client="pi")
    asked: list[str] = []

    def refuse(question: str) -> bool:
        asked.append(question)
        return False

    (outcome,) = mend(serving.world, screen(), report, options, yes=False, confirm=refuse, start=serving.start)
    assert (outcome.outcome, serving.started) == ("declined", [])
    assert "own" in asked[0]
    with pytest.raises(ProblemError) as raised:
        mend(serving.world, screen(), report, options, yes=False, start=serving.start)
    assert raised.value.problem.code == "confirmation-missing"


def test_a_client_gets_the_key_of_our_own_server(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    world = serving.world
    reference = world.secrets.put("server-own", Secret("sk-own-right-00000000"))
    world.servers.save(replace(serving.record, key_reference=reference))
    right = without_header("authorization", "Bearer sk-own-right-00000000")
    refused = Route("/v1/*", {"error": "Unauthorized"}, 401, "*", when=right)
    http = world.http
    assert isinstance(http, FakeHttp)
    http.routes = (refused, models("Qwen3-8B"), chat())
    outcomes = mended(world, DoctorOptions(client="pi"), serving.start)
    assert [(one.kind, one.name, one.outcome) for one in outcomes] == [("client", "pi", "mended")]
    assert "sk-own-right-00000000" in (tmp_path / ".pi/agent/models.json").read_text()


# ---- shells' lines -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("export OPENAI_API_KEY = sk-abc123\n", "export OPENAI_API_KEY=sk-abc123\n", id="spaces"),
        pytest.param("# mine\nOPENAI_API_KEY=sk-abc123\n", "# mine\nexport OPENAI_API_KEY=sk-abc123\n", id="no-export"),
        pytest.param("export OPENAI_API_KEY=sk-abc123\r\n", "export OPENAI_API_KEY=sk-abc123\n", id="windows-ends"),
        pytest.param("OPENAI_API_KEY=a1b2c3d4\nexport OPENAI_API_KEY\n", None, id="exported-later"),
        pytest.param("export EDITOR = vim\n", None, id="not-ours"),
        pytest.param(
            'OPENAI_API_KEY="a1 b2"  # mine\nmine() { \n  OPENAI_API_KEY=a1b2 codex "$@"\n}\n',
            'export OPENAI_API_KEY="a1 b2"  # mine\nmine() { \n  OPENAI_API_KEY=a1b2 codex "$@"\n}\n',
            id="for-one-command",
        ),
        pytest.param(
            'export OPENAI_API_KEY = sk-abc123\nmine() {\n  ANTHROPIC_API_KEY= claude "$@"\n}\n',
            'export OPENAI_API_KEY=sk-abc123\nmine() {\n  ANTHROPIC_API_KEY= claude "$@"\n}\n',
            id="emptied-for-one-command",
        ),
    ],
)
def test_lines_of_a_start_up_file_are_mended_and_the_rest_is_left(
    tmp_path: Path, before: str, after: str | None
) -> None:
    file = write(tmp_path, ".bashrc", before)
    outcomes = mended(fake_world(tmp_path, FakeHttp(()), {}), DoctorOptions(offline=True))
    assert file.read_bytes().decode() == (after or before)
    assert [one.outcome for one in outcomes] == (["mended"] if after else [])


def test_each_of_two_start_up_files_is_mended(tmp_path: Path) -> None:
    files = [write(tmp_path, name, "export OPENAI_API_KEY = sk-abc123\n") for name in (".bashrc", ".zshrc")]
    outcomes = mended(fake_world(tmp_path, FakeHttp(()), {}), DoctorOptions(offline=True))
    assert [one.outcome for one in outcomes] == ["mended", "mended"]
    assert {file.read_text() for file in files} == {"export OPENAI_API_KEY=sk-abc123\n"}


def test_a_no_proxy_that_matches_nothing_is_written_plainly(tmp_path: Path) -> None:
    env = {"HTTP_PROXY": "http://p:3128", "NO_PROXY": "http://127.0.0.1:8000"}
    file = write(tmp_path, ".zshrc", 'export NO_PROXY="http://127.0.0.1:8000"\n')
    options = DoctorOptions(offline=True, base_url=f"{ROOT}/v1", model="m")
    (outcome,) = mended(fake_world(tmp_path, FakeHttp(()), env), options)
    assert (outcome.outcome, file.read_text()) == ("mended", 'export NO_PROXY="127.0.0.1"\n')


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ("localhost,127.0.0.1", "localhost,127.0.0.1"),
        ("localhost;127.0.0.1 ::1", "localhost,127.0.0.1,::1"),
        ("http://10.0.0.5:8000/v1", "10.0.0.5"),
        ("192.168.*,*localhost*", "192.168.0.0/16,localhost"),
        ("[localhost]", "localhost"),
        (".corp,10.0.0.0/8", ".corp,10.0.0.0/8"),
    ],
)
def test_no_proxy_in_a_form_that_all_clients_match(value: str, plain: str) -> None:
    assert plain_no_proxy(value) == plain
