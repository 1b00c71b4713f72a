"""Faults planted one at a time around a real vLLM: the doctor names each one first; of two, both."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import Workshop
from .homes import Home, make_home
from .installing import system_program
from .processes import Ended, free_port
from .relays import black_hole, nginx, private_certificate, relay
from .vllm_servers import CPU_ENVIRONMENT, RealServer, serve_by_wizard, stop_by_wizard, stop_vllm

NO_SYSTEM_TEMPLATE = """\
{% for message in messages %}{% if message.role in ('system', 'developer') %}
{{- raise_exception('System role not supported') }}{% endif %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}{% endfor %}
{{- '<|im_start|>assistant\\n<|say_0|>' }}"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home."""
    return make_home(tmp_path / "home")


class Patient:
    """The doctor in a home, asked about an endpoint as one client's user gives it, or about what the files say."""

    def __init__(self, home: Home, server: RealServer) -> None:
        self.home = home
        self.server = server

    def examine(
        self,
        *flags: str,
        base_url: str = "",
        model: str = "",
        key: str | None = None,
        client: str = "openai-sdk",
        **env: str,
    ) -> list[str]:
        """The codes of the errors, first the root cause. What is not said is as it should be for this server."""
        triple = ["--base-url", base_url or self.server.base_url, "--model", model or self.server.model]
        triple += ["--client-type", client, *flags]
        return errors(self.ask(*triple, LLM_SETUP_API_KEY=self.server.key if key is None else key, **env))

    def examine_files(self, client: str, **env: str) -> list[str]:
        """The same, from the client's own files."""
        return errors(self.ask("--client", client, **env))

    def ask(self, *flags: str, **env: str) -> Ended:
        """`doctor --json`, on the host."""
        return self.home.wizard("doctor", "--json", "--assume", "host", *flags, within_s=90, **env)

    def write(self, path: str, content: object) -> None:
        """A file below home: JSON, or a text."""
        target = self.home.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content if isinstance(content, str) else json.dumps(content))


def errors(doctor: Ended) -> list[str]:
    """The codes of a report's errors."""
    try:
        findings = json.loads(doctor.stdout)["findings"]
    except (ValueError, KeyError):
        pytest.fail(doctor.text)
    return [finding["code"] for finding in findings if finding["severity"] == "error"]


@pytest.fixture
def patient(home: Home, scripted_server: RealServer) -> Patient:
    """The doctor beside the healthy server."""
    return Patient(home, scripted_server)


# ---- a healthy server --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "client",
    ["codex", "claude-code", "cline", "continue", "opencode", "qwen", "kilo", "pi", "aider", "llm", "openai-sdk"],
)
def test_a_healthy_server_has_no_error_for_any_client(client: str, patient: Patient) -> None:
    root = client in ("claude-code", "anthropic-sdk")
    url = patient.server.root if root else patient.server.base_url
    assert patient.examine(base_url=url, client=client) == []


def triple_values(server: RealServer) -> dict[str, str]:
    """What a fault's description may name."""
    return {
        "root": server.root,
        "https": server.root.replace("http:", "https:"),
        "closed": f"http://127.0.0.1:{free_port()}",
        "key": server.key,
    }


# ---- key, model, URL, way ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "code"),
    [
        pytest.param({"key": "sk-wrong-0000"}, "key-invalid", id="wrong-key"),
        pytest.param({"key": ""}, "key-missing", id="no-key"),
        pytest.param({"key": " {key}"}, "key-whitespace", id="blank-before-the-key"),
        pytest.param({"model": "gpt-5.5"}, "model-name-mismatch", id="wrong-model"),
        pytest.param({"model": "Ready-64k"}, "model-name-mismatch", id="slash-in-the-model-lost"),
        pytest.param({"base_url": "{root}"}, "base-url-missing-v1", id="v1-missing"),
        pytest.param({"base_url": "{root}/v1/v1"}, "base-url-extra-v1", id="v1-doubled"),
        pytest.param({"base_url": "{root}/v1", "client": "claude-code"}, "base-url-extra-v1", id="v1-for-claude"),
        pytest.param({"base_url": "{root}/v1/chat/completions"}, "base-url-full-endpoint", id="full-endpoint"),
        pytest.param({"base_url": "{https}/v1"}, "tls-on-plain-http-port", id="https-on-http"),
        pytest.param({"base_url": "{closed}/v1"}, "server-not-ready", id="port-closed"),
        pytest.param({"HTTP_PROXY": "{closed}"}, "proxy-env-captures-local", id="proxy-variable"),
        pytest.param(
            {"HTTP_PROXY": "{closed}", "NO_PROXY": "http://127.0.0.1:8000"},
            "no-proxy-malformed",
            id="no-proxy-malformed",
        ),
    ],
)
def test_a_fault_on_the_client_s_side_is_named_first(how: dict[str, str], code: str, patient: Patient) -> None:
    values = triple_values(patient.server)
    found = patient.examine(**{name: value.format(**values) for name, value in how.items()})
    assert found[:1] == [code], found


def test_a_port_that_swallows_connections_is_named_first(patient: Patient) -> None:
    with black_hole() as root:
        found = patient.examine(base_url=f"{root}/v1")
    assert found[:1] == ["server-unreachable"], found


def test_more_output_than_the_window_is_named_first(patient: Patient) -> None:
    found = patient.examine("--max-tokens", "100000")
    assert found[:1] == ["max-tokens-too-large"], found


# ---- what stands in between --------------------------------------------------------------------------------------


def test_a_server_that_goes_away_in_mid_stream_is_named_first(patient: Patient) -> None:
    with relay(patient.server.root, cut_at=b"data: {") as root:
        found = patient.examine(base_url=f"{root}/v1")
    assert found[:1] == ["broken-response-body"], found


def test_a_certificate_of_a_private_authority_is_named_first(patient: Patient, tmp_path: Path) -> None:
    tls = private_certificate(system_program("openssl", "openssl"), tmp_path / "tls")
    with relay(patient.server.root, tls=tls) as root:
        found = patient.examine(base_url=f"{root}/v1")
    assert found[:1] == ["tls-untrusted-ca"], found


def test_a_prefix_that_the_proxy_passes_on_is_named_first(
    patient: Patient, tmp_path: Path, find_program: Callable[[str, str], Path]
) -> None:
    passes = f"proxy_pass {patient.server.root};"
    locations = f"location /llm/ {{ {passes} }}\nlocation / {{ {passes} }}"
    with nginx(find_program("nginx", "nginx-light"), tmp_path / "nginx", locations) as root:
        found = patient.examine(base_url=f"{root}/llm/v1")
    assert found[:1] == ["proxy-prefix-mismatch"], found


LARGE_BUFFERS = "proxy_buffer_size 1m; proxy_buffers 4 1m; proxy_busy_buffers_size 2m;"


@pytest.mark.parametrize(
    ("way", "codes"),
    [
        pytest.param(LARGE_BUFFERS, ["proxy-buffering"], id="buffering"),
        pytest.param("gzip on; gzip_types *; gzip_proxied any;", ["proxy-buffering"], id="packing"),
        pytest.param("proxy_buffering off;", [], id="passing-on"),
    ],
)
def test_a_proxy_that_holds_the_stream_back_is_named_first(
    way: str,
    codes: list[str],
    patient: Patient,
    tmp_path: Path,
    workshop: Workshop,
    find_program: Callable[[str, str], Path],
) -> None:
    """Two of nginx in a row, as of an ingress and a sidecar: vLLM sends chunks, which nginx passes on whatever its
    buffers are; the inner one makes one long body of them."""
    program = find_program("nginx", "nginx-light")
    inner = f"location / {{ proxy_pass {patient.server.root}; proxy_buffering off; }}"
    with nginx(program, tmp_path / "inner", inner) as middle:
        outer = f"location / {{ proxy_pass {middle}; {way} }}"
        # Where nothing is held back the engine works as ever: one that is stopped again and again stutters by itself.
        engine = engine_processes(workshop.folder / "wizard") if codes else []
        with nginx(program, tmp_path / "outer", outer) as root, slowed(engine):
            assert patient.examine(base_url=f"{root}/v1", client="continue") == codes


@contextmanager
def slowed(engine: list[int]) -> Iterator[None]:
    """The engine computes for a fifth of the time: the small model makes tokens as slowly as one of a usual size."""
    over = threading.Event()

    def tread() -> None:
        while not over.wait(0.01):
            for pid in engine:
                os.kill(pid, signal.SIGSTOP)
            over.wait(0.04)
            for pid in engine:
                os.kill(pid, signal.SIGCONT)

    treading = threading.Thread(target=tread)
    treading.start()
    try:
        yield
    finally:
        over.set()
        treading.join()


def test_a_proxy_that_refuses_the_client_s_size_is_named_first(
    patient: Patient, tmp_path: Path, find_program: Callable[[str, str], Path]
) -> None:
    locations = f"location / {{ proxy_pass {patient.server.root}; proxy_buffering off; client_max_body_size 16k; }}"
    with nginx(find_program("nginx", "nginx-light"), tmp_path / "nginx", locations) as root:
        assert patient.examine(base_url=f"{root}/v1", client="cline") == ["proxy-body-limit"]
        assert patient.examine(base_url=f"{root}/v1", client="aider") == []


def test_a_proxy_that_loses_patience_is_named_first(
    patient: Patient, tmp_path: Path, workshop: Workshop, find_program: Callable[[str, str], Path]
) -> None:
    locations = f"location / {{ proxy_pass {patient.server.root}; proxy_read_timeout 5s; }}"
    engine = engine_processes(workshop.folder / "wizard")
    assert engine
    with nginx(find_program("nginx", "nginx-light"), tmp_path / "nginx", locations) as root:
        for pid in engine:
            os.kill(pid, signal.SIGSTOP)
        try:
            found = patient.examine(base_url=f"{root}/v1")
        finally:
            for pid in engine:
                os.kill(pid, signal.SIGCONT)
    assert found[:1] == ["proxy-read-timeout"], found


def engine_processes(state_home: Path) -> list[int]:
    """The session server's processes that compute, not the one that answers HTTP."""
    leader = json.loads((state_home / "state" / "servers" / "real.json").read_text())["pid"]
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            session = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
            if session == leader and int(folder.name) != leader and b"VLLM" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except (OSError, ValueError):
            continue
    return found


# ---- a server that was started otherwise -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def odd_server(
    workshop: Workshop, scripted_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], RealServer]]:
    """`odd_server(kind)`: the scripted model on a real vLLM that was started in a way which does harm."""
    started: dict[str, RealServer] = {}
    tools = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]

    def start(kind: str) -> RealServer:
        if kind in started:
            return started[kind]
        folder, arguments = scripted_model, tools
        if kind == "no tools, small context":
            arguments = ["--max-model-len", "8192"]
        elif kind == "small context":
            arguments = [*tools, "--max-model-len", "8192"]
        elif kind == "wrong parser":
            arguments = ["--enable-auto-tool-choice", "--tool-call-parser", "pythonic"]
        elif kind in ("no template", "no system role"):
            folder = tmp_path_factory.mktemp("odd") / "model"
            shutil.copytree(scripted_model, folder)
            if kind == "no template":
                (folder / "chat_template.jinja").unlink()
            else:
                (folder / "chat_template.jinja").write_text(NO_SYSTEM_TEMPLATE)
        started[kind] = workshop.start(folder, key="sk-odd-0000", served_name="odd", arguments=arguments)
        return started[kind]

    yield start
    for server in started.values():
        stop_vllm(server)


@pytest.mark.parametrize(
    ("kind", "client", "flags", "code"),
    [
        pytest.param("no tools, small context", "continue", (), "tool-choice-not-enabled", id="no-tool-flag"),
        pytest.param(
            "no tools, small context", "aider", ("--context", "65536"), "context-length-exceeded", id="small-context"
        ),
        pytest.param("wrong parser", "continue", (), "tool-parser-mismatch", id="wrong-parser"),
        pytest.param("no template", "openai-sdk", (), "chat-template-missing", id="no-template"),
        pytest.param("no system role", "aider", (), "template-no-system-role", id="no-system-role"),
    ],
)
def test_a_fault_of_the_server_s_start_is_named_first(
    kind: str, client: str, flags: tuple[str, ...], code: str, home: Home, odd_server: Callable[[str], RealServer]
) -> None:
    found = Patient(home, odd_server(kind)).examine(*flags, client=client)
    assert found[:1] == [code], found


def test_a_prompt_that_does_not_fit_is_sent_and_named_first(
    home: Home, odd_server: Callable[[str], RealServer]
) -> None:
    server = odd_server("small context")
    flags = ("--base-url", server.base_url, "--model", server.model, "--client-type", "codex")
    doctor = Patient(home, server).ask(*flags, LLM_SETUP_API_KEY=server.key)
    assert errors(doctor) == ["context-length-exceeded"]
    saw = json.loads(doctor.stdout)["findings"][0]["saw"]
    assert any("/v1/responses -> 400" in line for line in saw), saw


def test_a_client_that_waits_too_short_is_named_first(patient: Patient, workshop: Workshop) -> None:
    server = patient.server
    settings = claude_settings(server.root, server.model, ANTHROPIC_AUTH_TOKEN=server.key, API_TIMEOUT_MS="500")
    patient.write(".claude/settings.json", settings)
    engine = engine_processes(workshop.folder / "wizard")

    def go_on() -> None:
        for pid in engine:
            os.kill(pid, signal.SIGCONT)

    for pid in engine:
        os.kill(pid, signal.SIGSTOP)
    waking = threading.Timer(8, go_on)
    waking.start()
    try:
        found = errors(patient.ask("--client", "claude-code"))
    finally:
        waking.cancel()
        go_on()
    assert found[:1] == ["client-timeout-too-short"], found


def test_a_server_that_still_loads_is_named_first(home: Home, workshop: Workshop, scripted_model: Path) -> None:
    server = workshop.start(scripted_model, wait=False)
    try:
        found = Patient(home, server).examine()
    finally:
        stop_vllm(server)
    assert found[:1] == ["server-not-ready"], found


@pytest.mark.timeout(600)
def test_an_own_server_is_started_again_with_what_it_lacks_and_then_serves_the_client(
    home: Home, workshop: Workshop, scripted_model: Path, tmp_path: Path
) -> None:
    """The served name says which parser the model's calls need."""
    key_file, state = tmp_path / "key", tmp_path / "wizard"
    key_file.write_text("sk-fixed-0123456789")
    small = ("--max-model-len", "8192")
    server = serve_by_wizard(
        workshop.runtime(), scripted_model, state, key_file=key_file, served_name="Qwen/Qwen3-8B", arguments=small
    )
    try:
        patient = Patient(home, server)
        where = {**CPU_ENVIRONMENT, "LLM_SETUP_HOME": str(state)}
        before = patient.examine("--context", "16384", client="continue", **where)
        assert {"tool-choice-not-enabled", "context-length-exceeded"} <= set(before), before
        triple = ("--base-url", server.base_url, "--model", server.model, "--client-type", "continue")
        fix = ("doctor", "--fix", "--yes", "--assume", "host", "--context", "16384", *triple)
        fixed = home.wizard(*fix, within_s=400, LLM_SETUP_API_KEY=server.key, **where)
        assert fixed.code == 0, fixed.text
        assert patient.examine("--context", "16384", client="continue", **where) == []
    finally:
        stop_by_wizard(state)


# ---- files and environment ---------------------------------------------------------------------------------------


def codex_config(server: RealServer, more: str) -> str:
    """A sound provider for the server, with what is given."""
    return (
        f'model = "{server.model}"\nmodel_provider = "mine"\n'
        f'[model_providers.mine]\nname = "mine"\nbase_url = "{server.base_url}"\nwire_api = "responses"\n{more}\n'
    )


CHATGPT_LOGIN = {"id_token": "e30.e30.x", "access_token": "e30.e30.x", "refresh_token": "r", "account_id": "a"}


@pytest.mark.parametrize(
    ("auth", "codes"),
    [
        pytest.param(
            {"base_url": "{url}", "api_key": "{key}", "model": "{model}"}, {"codex-auth-json-shape"}, id="flat"
        ),
        pytest.param({"openai": {"baseURL": "{url}", "apiKey": "{key}"}}, {"codex-auth-json-shape"}, id="nested"),
        pytest.param(
            {"auth_mode": "chatgpt", "OPENAI_API_KEY": "{key}", "tokens": CHATGPT_LOGIN},
            {"codex-login-sent-to-server", "oauth-login-sent-to-server"},
            id="login",
        ),
    ],
)
def test_a_harmful_auth_json_of_codex_is_named_first(auth: dict, codes: set[str], patient: Patient) -> None:
    server = patient.server
    text = json.dumps(auth)
    for name, value in (("{url}", server.base_url), ("{key}", server.key), ("{model}", server.model)):
        text = text.replace(name, value)
    patient.write(".codex/auth.json", text)
    patient.write(".codex/config.toml", codex_config(server, "requires_openai_auth = true"))
    found = patient.examine_files("codex")
    assert set(found[:1]) & codes, found


def claude_settings(root: str, model: str, **more: str) -> dict:
    """Claude Code's settings.json."""
    return {"env": {"ANTHROPIC_BASE_URL": root, "ANTHROPIC_MODEL": model, **more}}


def test_claude_settings_that_beat_the_shell_are_named_first(patient: Patient) -> None:
    server = patient.server
    stale = claude_settings(f"http://127.0.0.1:{free_port()}", server.model, ANTHROPIC_AUTH_TOKEN=server.key)
    patient.write(".claude/settings.json", stale)
    found = patient.examine_files("claude-code", ANTHROPIC_BASE_URL=server.root, ANTHROPIC_AUTH_TOKEN=server.key)
    assert found[:1] == ["settings-override-env"], found


def test_a_key_that_goes_out_as_x_api_key_only_is_named_first(patient: Patient) -> None:
    server = patient.server
    settings = claude_settings(server.root, server.model, ANTHROPIC_API_KEY=server.key)
    patient.write(".claude/settings.json", settings)
    found = patient.examine_files("claude-code")
    assert found[:1] == ["gateway-auth-header-style"], found


def test_a_stored_login_that_goes_to_the_own_server_is_named_first(patient: Patient) -> None:
    login = {"accessToken": "sk-ant-oat01-x", "refreshToken": "r", "expiresAt": 4102444800000, "scopes": []}
    patient.write(".claude/.credentials.json", {"claudeAiOauth": login})
    patient.write(".claude/settings.json", claude_settings(patient.server.root, patient.server.model))
    found = patient.examine_files("claude-code")
    assert found[:1] == ["oauth-login-sent-to-server"], found


def test_the_other_of_two_servers_is_named_first(
    patient: Patient, home: Home, odd_server: Callable[[str], RealServer]
) -> None:
    other = odd_server("wrong parser")
    found = Patient(home, other).examine(model=patient.server.model)
    assert found[:1] == ["model-name-mismatch"], found


def test_a_profile_of_a_server_that_moved_is_named_first(patient: Patient, workshop: Workshop) -> None:
    moved = f"http://127.0.0.1:{free_port()}/v1"
    found = patient.examine(base_url=moved, LLM_SETUP_HOME=str(workshop.folder / "wizard"))
    assert found[:1] == ["stale-profile"], found


# ---- two at once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "codes"),
    [
        pytest.param(
            {"base_url": "{root}", "model": "gpt-5.5"}, {"base-url-missing-v1", "model-name-mismatch"}, id="url-model"
        ),
        pytest.param(
            {"base_url": "{root}/v1/chat/completions", "key": "sk-wrong-0000"},
            {"base-url-full-endpoint", "key-invalid"},
            id="url-key",
        ),
        pytest.param({"base_url": "{root}/v1/v1", "key": ""}, {"base-url-extra-v1", "key-missing"}, id="url-no-key"),
        pytest.param({"key": "{key} ", "model": "gpt-5.5"}, {"key-whitespace", "model-name-mismatch"}, id="key-model"),
        pytest.param(
            {"HTTP_PROXY": "{closed}", "model": "gpt-5.5"},
            {"proxy-env-captures-local", "model-name-mismatch"},
            id="proxy-model",
        ),
        pytest.param(
            {"HTTP_PROXY": "{closed}", "key": "sk-wrong-0000"},
            {"proxy-env-captures-local", "key-invalid"},
            id="proxy-key",
        ),
        pytest.param(
            {"HTTP_PROXY": "{closed}", "NO_PROXY": "http://127.0.0.1", "base_url": "{root}"},
            {"no-proxy-malformed", "base-url-missing-v1"},
            id="no-proxy-url",
        ),
        pytest.param(
            {"base_url": "{root}/v1", "client": "claude-code", "model": "gpt-5.5"},
            {"base-url-extra-v1", "model-name-mismatch"},
            id="claude-url-model",
        ),
        pytest.param(
            {"base_url": "{https}/v1", "key": "'{key}'"}, {"tls-on-plain-http-port", "key-whitespace"}, id="tls-key"
        ),
        pytest.param(
            {"base_url": "{closed}/v1", "key": "{key}\n"}, {"server-not-ready", "key-whitespace"}, id="closed-key"
        ),
    ],
)
def test_of_two_faults_both_are_named(how: dict[str, str], codes: set[str], patient: Patient) -> None:
    values = triple_values(patient.server)
    found = patient.examine(**{name: value.format(**values) for name, value in how.items()})
    assert codes <= set(found), found


def test_more_output_than_fits_does_not_hide_another_fault(patient: Patient) -> None:
    found = patient.examine("--max-tokens", "100000", base_url=patient.server.root)
    assert {"base-url-missing-v1", "max-tokens-too-large"} <= set(found), found


def test_of_two_faults_in_codex_s_files_both_are_named(patient: Patient) -> None:
    server = patient.server
    patient.write(".codex/auth.json", {"base_url": server.base_url, "api_key": server.key})
    config = codex_config(server, "requires_openai_auth = true").replace(server.base_url, server.root)
    patient.write(".codex/config.toml", config)
    found = patient.examine_files("codex")
    assert {"codex-auth-json-shape", "base-url-missing-v1"} <= set(found), found


def test_of_two_faults_in_claude_s_files_both_are_named(patient: Patient) -> None:
    server = patient.server
    settings = claude_settings(server.base_url, server.model, ANTHROPIC_API_KEY=server.key)
    patient.write(".claude/settings.json", settings)
    found = patient.examine_files("claude-code")
    assert {"base-url-extra-v1", "gateway-auth-header-style"} <= set(found), found


def test_of_two_faults_of_the_server_both_are_named(home: Home, odd_server: Callable[[str], RealServer]) -> None:
    found = Patient(home, odd_server("no tools, small context")).examine(client="codex")
    assert {"tool-choice-not-enabled", "context-length-exceeded"} <= set(found), found


def test_a_server_that_is_killed_in_mid_stream_is_named_first(
    home: Home, odd_server: Callable[[str], RealServer]
) -> None:
    server = odd_server("small context")

    def kill() -> None:
        os.killpg(server.pid, signal.SIGKILL)

    with relay(server.root, cut_at=b"data: {", then=kill) as root:
        found = Patient(home, server).examine(base_url=f"{root}/v1")
    assert found[:1] == ["broken-response-body"], found
