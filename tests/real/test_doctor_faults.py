"""Faults planted one at a time in front of, in and around a real vLLM: the doctor names each first."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from .processes import environment, free_port
from .vllm_servers import RealServer, stop_vllm

KEY = "sk-faults-0123456789abcdef"
DUMMY = ["--load-format", "dummy"]
TOOLS = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]


class Examination:
    """What the doctor said: findings' codes (errors first), status, seconds."""

    def __init__(self, document: dict[str, Any], seconds: float) -> None:
        self.errors = [f["code"] for f in document["findings"] if f["severity"] == "error"]
        self.codes = self.errors + [f["code"] for f in document["findings"] if f["severity"] != "error"]
        self.status, self.seconds, self.document = document["status"], seconds, document

    @property
    def first(self) -> str:
        return self.codes[0] if self.codes else ""


Doctor = Callable[..., Examination]


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    """The doctor in a home of its own: `doctor("--base-url", ..., key=..., VARIABLE=...)`."""
    home = tmp_path / "home"
    home.mkdir()

    def run(*flags: str, key: str = "", **more: str) -> Examination:
        env = environment(home, LLM_SETUP_HOME=str(home / "own"), LLM_SETUP_API_KEY=key, **more)
        begun = time.monotonic()
        command = [sys.executable, "-m", "wizard", "doctor", "--json", "--timeout", "60", *flags]
        done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, timeout=200, check=False)
        return Examination(json.loads(done.stdout), time.monotonic() - begun)

    run.home = home  # type: ignore[attr-defined]
    return run


def flags_for(server: RealServer, client: str = "openai-sdk", **more: str) -> list[str]:
    base = server.root if client == "claude-code" else server.base_url
    flags = {"base-url": base, "model": server.model, "client-type": client, **more}
    return [part for name, value in flags.items() for part in (f"--{name}", value)]


@pytest.mark.parametrize("client", ["codex", "claude-code", "cline", "opencode", "openai-sdk", "aider"])
def test_a_healthy_server_gets_no_error(client: str, doctor: Doctor, scripted_server: RealServer) -> None:
    found = doctor(*flags_for(scripted_server, client), key=scripted_server.key)
    assert found.errors == [], found.document["findings"]
    assert found.status in ("ok", "warning")


@pytest.mark.parametrize(
    ("client", "flags", "key", "code"),
    [
        pytest.param("openai-sdk", {}, "sk-wrong-0123456789", "key-invalid", id="wrong-key"),
        pytest.param("openai-sdk", {}, None, "key-missing", id="no-key"),
        pytest.param("openai-sdk", {}, "{key} ", "key-whitespace", id="blank-behind-the-key"),
        pytest.param("openai-sdk", {"model": "gpt-4o"}, "{key}", "model-name-mismatch", id="wrong-model"),
        pytest.param("openai-sdk", {"model": "/{model}"}, "{key}", "model-name-mismatch", id="slash-before-the-model"),
        pytest.param("codex", {"base-url": "{root}"}, "{key}", "base-url-missing-v1", id="codex-without-v1"),
        pytest.param("cline", {"base-url": "{root}"}, "{key}", "base-url-missing-v1", id="cline-without-v1"),
        pytest.param("openai-sdk", {"base-url": "{root}/v1/v1"}, "{key}", "base-url-extra-v1", id="v1-twice"),
        pytest.param("claude-code", {"base-url": "{root}/v1"}, "{key}", "base-url-extra-v1", id="claude-with-v1"),
        pytest.param(
            "cline", {"base-url": "{root}/v1/chat/completions"}, "{key}", "base-url-full-endpoint", id="full-endpoint"
        ),
        pytest.param(
            "openai-sdk", {"base-url": "{https}/v1"}, "{key}", "tls-on-plain-http-port", id="https-on-plain-http"
        ),
        pytest.param(
            "openai-sdk", {"max-tokens": "100000"}, "{key}", "max-tokens-too-large", id="max-tokens-over-the-window"
        ),
        pytest.param(
            "openai-sdk", {"context": "131072"}, "{key}", "context-length-exceeded", id="window-believed-too-large"
        ),
    ],
)
def test_a_wrong_triple_is_named_first(
    client: str, flags: dict[str, str], key: str | None, code: str, doctor: Doctor, scripted_server: RealServer
) -> None:
    values = {
        "root": scripted_server.root,
        "https": scripted_server.root.replace("http:", "https:"),
        "model": scripted_server.model,
        "key": scripted_server.key,
    }
    given = {name: value.format(**values) for name, value in flags.items()}
    found = doctor(*flags_for(scripted_server, client, **given), key=(key or "").format(**values))
    assert found.first == code, found.document["findings"]


def test_a_key_sent_as_x_api_key_only_is_named(doctor: Doctor, scripted_server: RealServer) -> None:
    key = scripted_server.key
    found = doctor(*flags_for(scripted_server, "claude-code"), key=key, ANTHROPIC_API_KEY=key)
    assert found.first == "gateway-auth-header-style"


def test_a_closed_port_is_named(doctor: Doctor, scripted_server: RealServer) -> None:
    base = f"http://127.0.0.1:{free_port()}/v1"
    found = doctor(*flags_for(scripted_server, **{"base-url": base}), "--assume", "host", key=scripted_server.key)
    assert found.first == "server-not-ready"


def test_a_proxy_variable_is_named(doctor: Doctor, scripted_server: RealServer) -> None:
    proxy = f"http://127.0.0.1:{free_port()}"
    found = doctor(*flags_for(scripted_server), key=scripted_server.key, HTTP_PROXY=proxy)
    assert found.first == "proxy-env-captures-local"


def test_a_malformed_no_proxy_is_named(doctor: Doctor, scripted_server: RealServer) -> None:
    proxy = f"http://127.0.0.1:{free_port()}"
    flags = flags_for(scripted_server)
    found = doctor(*flags, key=scripted_server.key, HTTP_PROXY=proxy, NO_PROXY="http://127.0.0.1,*localhost*")
    assert found.first == "no-proxy-malformed"


def test_two_faults_are_both_named(doctor: Doctor, scripted_server: RealServer) -> None:
    flags = flags_for(scripted_server, "cline", model="gpt-4o", **{"base-url": scripted_server.root})
    found = doctor(*flags, key=scripted_server.key)
    assert {"base-url-missing-v1", "model-name-mismatch"} <= set(found.errors)


# ---- something in front --------------------------------------------------------------------------------------------


class Front:
    """A reverse proxy before the server, with one of the faults that such proxies have."""

    def __init__(
        self, root: str, *, prefix: str = "", buffers: bool = False, read_timeout_s: float | None = None, cut: int = 0
    ) -> None:
        host = root.removeprefix("http://")

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if prefix and not self.path.startswith(prefix):
                    self.page(404, "404 Not Found")
                    return
                with contextlib.closing(http.client.HTTPConnection(host, timeout=read_timeout_s or 120)) as upstream:
                    self.through(upstream, body)

            def through(self, upstream: http.client.HTTPConnection, body: bytes) -> None:
                headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
                try:
                    upstream.request(self.command, self.path.removeprefix(prefix), body, headers)
                    reply = upstream.getresponse()
                except TimeoutError:
                    self.page(504, "504 Gateway Time-out")
                    return
                with reply, contextlib.suppress(OSError):  # the doctor hangs up when it has seen enough
                    self.send_response(reply.status)
                    self.send_header("content-type", reply.getheader("content-type") or "")
                    self.end_headers()
                    if buffers:
                        self.wfile.write(reply.read())
                        return
                    sent = 0
                    while piece := reply.read1(4096):
                        self.wfile.write(piece[: cut - sent] if cut else piece)
                        self.wfile.flush()
                        sent += len(piece)
                        if cut and sent >= cut:
                            break

            def page(self, status: int, title: str) -> None:
                page = f"<html><head><title>{title}</title></head><body><center>nginx</center></body></html>".encode()
                self.send_response(status)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(page)

            do_GET = do_POST = do_HEAD = forward

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.root = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def front(scripted_server: RealServer) -> Iterator[Callable[..., Front]]:
    fronts: list[Front] = []

    def start(**how: Any) -> Front:
        fronts.append(Front(scripted_server.root, **how))
        return fronts[-1]

    yield start
    for one in fronts:
        one.close()


def test_a_proxy_with_another_prefix_is_named(
    doctor: Doctor, scripted_server: RealServer, front: Callable[..., Front]
) -> None:
    base = front(prefix="/team").root + "/team/team/v1"
    found = doctor(*flags_for(scripted_server, **{"base-url": base}), key=scripted_server.key)
    assert found.first in ("proxy-prefix-mismatch", "base-url-wrong-path")


def test_a_stream_cut_by_a_proxy_is_named(
    doctor: Doctor, scripted_server: RealServer, front: Callable[..., Front]
) -> None:
    base = front(cut=60).root + "/v1"
    found = doctor(*flags_for(scripted_server, **{"base-url": base}), key=scripted_server.key)
    assert found.first == "broken-response-body"


def test_a_certificate_of_a_private_authority_is_named(
    doctor: Doctor, scripted_server: RealServer, front: Callable[..., Front], tmp_path: Path
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=own -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    before = front()
    before.server.socket = context.wrap_socket(before.server.socket, server_side=True)
    base = before.root.replace("http:", "https:") + "/v1"
    found = doctor(*flags_for(scripted_server, **{"base-url": base}), key=scripted_server.key)
    assert found.first == "tls-untrusted-ca"


# ---- client files ---------------------------------------------------------------------------------------------------


def write(doctor: Doctor, path: str, text: str) -> None:
    file = doctor.home / path  # type: ignore[attr-defined]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def codex_config(server: RealServer, key_line: str) -> str:
    return (
        f'model = "{server.model}"\nmodel_provider = "own"\n\n[model_providers.own]\nname = "own"\n'
        f'base_url = "{server.base_url}"\nwire_api = "responses"\n{key_line}\n'
    )


SHAPE = ("codex-key-not-bound", "codex-auth-json-shape")


@pytest.mark.parametrize(
    ("config", "auth", "codes"),
    [
        pytest.param("", {"base_url": "BASE", "api_key": "KEY", "model": "m"}, SHAPE, id="triple-in-auth-json"),
        pytest.param("", {"openai": {"baseURL": "BASE", "apiKey": "KEY"}}, SHAPE, id="nested-in-auth-json"),
        pytest.param("", {"OPENAI_API_KEY": "KEY", "auth_mode": "apikey"}, SHAPE[:1], id="key-in-auth-json-unbound"),
        pytest.param('env_key = "NOBODY_SETS_THIS"', {}, ("key-env-not-visible",), id="variable-not-set"),
    ],
)
def test_codex_files_that_do_harm_are_named(
    config: str, auth: dict[str, Any], codes: tuple[str, ...], doctor: Doctor, scripted_server: RealServer
) -> None:
    write(doctor, ".codex/config.toml", codex_config(scripted_server, config))
    text = json.dumps(auth).replace("BASE", scripted_server.base_url).replace('"KEY"', f'"{scripted_server.key}"')
    if auth:
        write(doctor, ".codex/auth.json", text)
    assert doctor().first in codes


def test_claude_settings_that_override_the_shell_are_named(doctor: Doctor, scripted_server: RealServer) -> None:
    settings = {
        "env": {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{free_port()}",
            "ANTHROPIC_AUTH_TOKEN": scripted_server.key,
            "ANTHROPIC_MODEL": scripted_server.model,
        }
    }
    write(doctor, ".claude/settings.json", json.dumps(settings))
    found = doctor(ANTHROPIC_BASE_URL=scripted_server.root, ANTHROPIC_AUTH_TOKEN=scripted_server.key)
    assert "settings-override-env" in found.codes
    assert found.errors


# ---- servers started with faults -------------------------------------------------------------------------------------


def faulty(server: RealServer, doctor: Doctor, client: str, **more: str) -> Examination:
    return doctor(*flags_for(server, client, **more), "--assume", "host", key=KEY)


@pytest.mark.timeout(400)
def test_a_server_without_the_tool_flags_and_with_a_small_window_is_named(
    doctor: Doctor, tiny_model: Callable[[str], Path], start_server: Callable[..., RealServer]
) -> None:
    server = start_server(tiny_model("dense"), key=KEY, arguments=[*DUMMY, "--max-model-len", "8192"])
    assert faulty(server, doctor, "continue").first == "tool-choice-not-enabled"
    codex = faulty(server, doctor, "codex")
    assert {"tool-choice-not-enabled", "context-length-exceeded"} <= set(codex.errors)


@pytest.mark.timeout(400)
def test_a_template_without_a_system_role_is_named(
    doctor: Doctor, tiny_model: Callable[[str], Path], start_server: Callable[..., RealServer], tmp_path: Path
) -> None:
    template = tmp_path / "no-system.jinja"
    template.write_text(
        "{% for m in messages %}"
        "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    )
    arguments = [*DUMMY, *TOOLS, "--chat-template", str(template)]
    server = start_server(tiny_model("dense"), key=KEY, arguments=arguments)
    assert faulty(server, doctor, "cline").first == "template-no-system-role"


@pytest.mark.timeout(400)
def test_a_model_without_a_chat_template_is_named_and_a_start_is_told_from_a_death(
    doctor: Doctor, tiny_model: Callable[[str], Path], start_server: Callable[..., RealServer], tmp_path: Path
) -> None:
    folder = tmp_path / "no-template"
    shutil.copytree(tiny_model("dense"), folder)
    (folder / "chat_template.jinja").unlink()
    server = start_server(folder, key=KEY, arguments=[*DUMMY, *TOOLS], wait=False)
    assert faulty(server, doctor, "openai-sdk").first == "server-not-ready"
    deadline = time.monotonic() + 240
    while not _answers(server) and time.monotonic() < deadline:
        time.sleep(1)
    assert faulty(server, doctor, "openai-sdk").first == "chat-template-missing"
    stop_vllm(server)
    assert faulty(server, doctor, "openai-sdk").first == "server-not-ready"


def _answers(server: RealServer) -> bool:
    host, _, port = server.root.removeprefix("http://").partition(":")
    try:
        with socket.create_connection((host, int(port)), 1):
            return True
    except OSError:
        return False


@pytest.mark.timeout(400)
def test_a_parser_of_another_model_is_named(
    doctor: Doctor, workshop: Any, start_server: Callable[..., RealServer], tmp_path: Path
) -> None:
    """The scripted model calls a tool whenever one is offered, in Hermes' form; the parser waits for Python's."""
    folder = tmp_path / "calls"
    shutil.copytree(workshop.scripted_model(), folder)
    template = folder / "chat_template.jinja"
    text = template.read_text()
    start = text.index("{%- set offered")
    end = text.index("{%- endif %}{{ say.start }}")
    first_call = text[text.index("for name, start in ") :].split('["', 1)[1].split('"', 3)
    calls = f'{{%- if tools %}}{{% set say.start = "{first_call[2]}" %}}{{% endif %}}'
    asked = text.rindex("{%- elif", 0, start)
    template.write_text(text[:asked] + "{%- endif %}" + calls + text[end + len("{%- endif %}") :])
    arguments = ["--enable-auto-tool-choice", "--tool-call-parser", "pythonic"]
    server = start_server(folder, key=KEY, arguments=arguments)
    assert faulty(server, doctor, "cline").first == "tool-parser-mismatch"
