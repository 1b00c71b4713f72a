"""Whole runs of the doctor: faults planted in sockets, files and environment."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.flows.conftest import TinyEndpoint

from .conftest import KEY, Examined, unused_port

# What a dead host may cost. tests/bench/doctor.py holds it; here a busy machine gets three times as long.
DEAD_HOST_S = 5
Doctor = Callable[..., Examined]
Talker = Callable[..., str]


def chat_of(url: str, **more: str) -> list[str]:
    flags = {"base-url": f"{url}/v1", "model": "tiny", "client-type": "openai-sdk", **more}
    return [part for name, value in flags.items() for part in (f"--{name}", value)]


def test_a_healthy_endpoint_is_judged_well_and_soon(doctor: Doctor, endpoint: TinyEndpoint) -> None:
    ended = doctor(*chat_of(endpoint.url))
    assert ended.code == 0
    assert ended.document["status"] in ("ok", "warning")
    assert ended.seconds < 30
    assert ended.document["endpoints"][0]["key"] == "sk-…0000"


@pytest.mark.parametrize(
    ("flags", "key", "code"),
    [
        pytest.param({}, "sk-journey-wrong-key", "key-invalid", id="wrong-key"),
        pytest.param({}, "", "key-missing", id="no-key"),
        pytest.param({}, f" {KEY}", "key-whitespace", id="blank-before-the-key"),
        pytest.param({"model": "other"}, KEY, "model-name-mismatch", id="wrong-model"),
        pytest.param({"base-url": "{url}"}, KEY, "base-url-missing-v1", id="no-v1"),
        pytest.param({"base-url": "{url}/v1/v1"}, KEY, "base-url-extra-v1", id="v1-twice"),
        pytest.param({"base-url": "{url}/v1/chat/completions"}, KEY, "base-url-full-endpoint", id="full-endpoint"),
        pytest.param({"base-url": "{https}/v1"}, KEY, "tls-on-plain-http-port", id="https-on-http"),
        pytest.param({"context": "131072"}, KEY, "context-length-exceeded", id="window-believed-too-large"),
    ],
)
def test_a_planted_fault_is_named_first(
    doctor: Doctor, endpoint: TinyEndpoint, flags: dict[str, str], key: str, code: str
) -> None:
    https = endpoint.url.replace("http:", "https:")
    flags = {name: value.format(url=endpoint.url, https=https) for name, value in flags.items()}
    ended = doctor(*chat_of(endpoint.url, **flags), LLM_SETUP_API_KEY=key)
    assert (ended.first, ended.code) == (code, 1)


def test_a_closed_port_is_told_soon(doctor: Doctor) -> None:
    ended = doctor(*chat_of(f"http://127.0.0.1:{unused_port()}"), "--assume", "host")
    assert ended.first == "server-not-ready"
    assert ended.seconds < 3 * DEAD_HOST_S


def test_a_black_hole_is_told_soon(doctor: Doctor, black_hole: str) -> None:
    ended = doctor(*chat_of(black_hole), "--assume", "host")
    assert ended.first == "server-unreachable"
    assert "timeout" in " ".join(ended.document["findings"][0]["saw"])
    assert ended.seconds < 3 * DEAD_HOST_S


def test_in_a_container_localhost_is_the_container(doctor: Doctor) -> None:
    ended = doctor(*chat_of(f"http://127.0.0.1:{unused_port()}"), "--assume", "container")
    assert ended.first == "wrong-host-in-container"


def test_a_proxy_variable_that_catches_loopback_is_named(doctor: Doctor, endpoint: TinyEndpoint) -> None:
    proxy = f"http://127.0.0.1:{unused_port()}"
    ended = doctor(*chat_of(endpoint.url), HTTP_PROXY=proxy)
    assert ended.first == "proxy-env-captures-local"


def test_a_malformed_no_proxy_is_named_and_a_good_one_is_fine(doctor: Doctor, endpoint: TinyEndpoint) -> None:
    proxy = f"http://127.0.0.1:{unused_port()}"
    bad = doctor(*chat_of(endpoint.url), HTTP_PROXY=proxy, NO_PROXY="http://127.0.0.1")
    assert bad.first == "no-proxy-malformed"
    assert doctor(*chat_of(endpoint.url), HTTP_PROXY=proxy, NO_PROXY="127.0.0.1").code == 0


def request_of(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            break
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            missing = int(line.split(b":")[1]) - len(body)
            while missing > 0:
                missing -= len(sock.recv(65536))
    return data


def drips(sock: socket.socket) -> None:
    request_of(sock)
    sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n")
    while True:
        sock.sendall(b" ")
        time.sleep(0.2)


def never_ends(sock: socket.socket) -> None:
    request_of(sock)
    sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[")
    while True:
        sock.sendall(b"0," * 32768)


def says_nothing(sock: socket.socket) -> None:
    request_of(sock)
    time.sleep(30)


def hangs_up(sock: socket.socket) -> None:
    request_of(sock)


def speaks_something_else(sock: socket.socket) -> None:
    sock.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")


def stops_in_the_middle(sock: socket.socket) -> None:
    request_of(sock)
    sock.sendall(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{"choices": [{"ind')


def endless_headers(sock: socket.socket) -> None:
    request_of(sock)
    sock.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        sock.sendall(b"x-a: " + b"b" * 4000 + b"\r\n")


@pytest.mark.parametrize(
    ("talk", "codes"),
    [
        pytest.param(drips, ("broken-response-body",), id="one-byte-at-a-time"),
        pytest.param(never_ends, ("broken-response-body",), id="endless-body"),
        pytest.param(says_nothing, ("upstream-hangs",), id="no-answer"),
        pytest.param(hangs_up, ("broken-response-body",), id="hangs-up"),
        pytest.param(speaks_something_else, ("broken-response-body",), id="ssh"),
        pytest.param(stops_in_the_middle, ("broken-response-body",), id="cut-in-the-middle"),
        pytest.param(endless_headers, ("broken-response-body",), id="endless-headers"),
    ],
)
def test_a_hostile_server_is_judged_within_its_time(
    doctor: Doctor, talker: Talker, talk: Any, codes: tuple[str, ...]
) -> None:
    ended = doctor(*chat_of(talker(talk)), "--timeout", "2")
    assert ended.first in codes
    assert ended.seconds < 60


@pytest.fixture
def private_tls(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    """A certificate for 127.0.0.1 that nobody signed."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=own -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


def answers_models(sock: socket.socket) -> None:
    request_of(sock)
    body = b'{"data": [{"id": "tiny"}]}'
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    sock.sendall(head.encode() + body)


def test_a_certificate_of_a_private_authority_is_named(
    doctor: Doctor, talker: Talker, private_tls: tuple[ssl.SSLContext, Path]
) -> None:
    ended = doctor(*chat_of(talker(answers_models, private_tls[0])))
    assert ended.first == "tls-untrusted-ca"


def test_http_on_a_tls_port_is_named(doctor: Doctor, talker: Talker, private_tls: tuple[ssl.SSLContext, Path]) -> None:
    url = talker(answers_models, private_tls[0]).replace("https:", "http:")
    assert doctor(*chat_of(url)).first == "plain-http-on-tls-port"


def codex_file(home: Path, base_url: str) -> Path:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(
        f'# mine\nmodel = "tiny"\nmodel_provider = "own"\n\n[model_providers.own]\nname = "own"\n'
        f'base_url = "{base_url}"\nwire_api = "responses"\nexperimental_bearer_token = "{KEY}"\n'
    )
    return file


def test_the_endpoint_comes_from_the_client_s_file(doctor: Doctor, home: Path, endpoint: TinyEndpoint) -> None:
    codex_file(home, endpoint.url)
    document = doctor().document
    assert document["endpoints"][0]["client"] == "codex"
    assert document["findings"][0]["code"] == "base-url-missing-v1"


def test_nothing_is_written_without_fix(doctor: Doctor, home: Path, endpoint: TinyEndpoint) -> None:
    codex_file(home, endpoint.url)
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    doctor()
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


def test_fix_writes_what_works_and_proves_it(doctor: Doctor, home: Path, endpoint: TinyEndpoint) -> None:
    file = codex_file(home, endpoint.url)
    ended = doctor("--fix", "--yes")
    assert ended.document["mended"] == [{"client": "codex", "outcome": "mended", "codes": ["base-url-missing-v1"]}]
    assert "# mine" in file.read_text()
    assert doctor("--client", "codex").code == 0


def test_fix_without_a_terminal_asks_for_yes_and_writes_nothing(
    doctor: Doctor, home: Path, endpoint: TinyEndpoint
) -> None:
    file = codex_file(home, endpoint.url)
    before = file.read_bytes()
    ended = doctor("--fix", as_json=False)
    assert ended.code == 2
    assert "--yes" in ended.err
    assert file.read_bytes() == before


def test_a_report_can_be_attached_to_an_issue(doctor: Doctor, home: Path, endpoint: TinyEndpoint) -> None:
    doctor(*chat_of(endpoint.url, model="other"), "--report", "report.md")
    text = (home / "report.md").read_text()
    assert "model-name-mismatch" in text
    assert "curl" in text
    assert KEY not in text
    doctor(*chat_of(endpoint.url, model="other"), "--report", "report.html")
    page = (home / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "curl -sS -i -X POST" in page
    assert KEY not in page


def test_an_error_text_is_explained_with_what_would_decide(doctor: Doctor) -> None:
    ended = doctor("--error", "There's an issue with the selected model (m). It may not exist", "--offline")
    assert (ended.first, ended.code) == ("model-name-mismatch", 1)
    fix = ended.document["findings"][0]["fix"]
    assert "To be sure: POST BASE_URL/v1/messages" in fix["text"]
    assert any("curl" in command for command in fix["commands"])
    assert "base-url-extra-v1" in [finding["code"] for finding in ended.document["findings"]]


def test_offline_sends_nothing(doctor: Doctor, endpoint: TinyEndpoint) -> None:
    doctor(*chat_of(endpoint.url), "--offline")
    assert endpoint.seen == []


def test_a_log_is_read_alone(doctor: Doctor, home: Path) -> None:
    (home / "server.log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n")
    ended = doctor("--log", "server.log", "--offline")
    assert ended.first == "cuda-oom"


def test_twenty_endpoints_are_not_twenty_times_as_long(doctor: Doctor, home: Path, black_hole: str) -> None:
    places = {
        "providers": {
            f"p{number}": {
                "baseUrl": f"{black_hole}/v{number}",
                "api": "openai-completions",
                "apiKey": KEY,
                "models": [],
            }
            for number in range(3)
        }
    }
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "models.json").write_text(json.dumps(places))
    codex_file(home, f"{black_hole}/v1")
    (home / ".claude").mkdir()
    settings = {"env": {"ANTHROPIC_BASE_URL": black_hole, "ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_MODEL": "tiny"}}
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))
    ended = doctor("--all", "--assume", "host")
    assert len(ended.document["endpoints"]) >= 2
    assert ended.seconds < 3 * DEAD_HOST_S


def test_people_read_what_why_saw_and_fix(doctor: Doctor, endpoint: TinyEndpoint) -> None:
    ended = doctor(*chat_of(endpoint.url, model="other"), as_json=False)
    text = ended.out + ended.err
    for word in ("[model-name-mismatch]", "why:", "saw:", "fix:"):
        assert word in text
    assert KEY not in text


ASKS = """
import json, os, sys, urllib.request
body = {"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": "hi"}]}
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
try:
    print(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read().decode())
except OSError as error:
    sys.exit(f"client says: {error}")
"""


def test_trace_shows_what_a_client_really_sent_and_why_it_failed(
    doctor: Doctor, home: Path, endpoint: TinyEndpoint
) -> None:
    (home / "asks.py").write_text(ASKS)
    command = ["--trace", "--", sys.executable, "asks.py"]
    failed = doctor(*chat_of(endpoint.url, model="other"), *command)
    assert failed.first == "model-name-mismatch"
    assert "POST /v1/chat/completions [bearer] model other" in failed.document["exchanges"][0]
    assert KEY not in failed.out + failed.err
    fine = doctor(*chat_of(endpoint.url), *command, as_json=False)
    assert fine.code == 0
    assert "-> 200" in fine.out


def test_what_a_traced_program_prints_is_not_in_the_document(doctor: Doctor, endpoint: TinyEndpoint) -> None:
    command = ["--trace", "--", sys.executable, "-c", "print('chatter')"]
    traced = doctor(*chat_of(endpoint.url), *command)
    assert traced.document["exit_code"] == 0
    assert "chatter" not in traced.out
    assert "chatter" in traced.err
    assert "chatter" in doctor(*chat_of(endpoint.url), *command, as_json=False).out


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:99999/v1"])
def test_what_is_no_url_is_not_traced(doctor: Doctor, url: str) -> None:
    ended = doctor("--base-url", url, "--model", "m", "--trace", "--", "true", as_json=False)
    assert ended.code == 2
    assert "[base-url-invalid]" in ended.err


def test_watch_with_json_ends_with_one_document(doctor: Doctor, endpoint: TinyEndpoint) -> None:
    ended = doctor(*chat_of(endpoint.url), "--watch")
    assert ended.document["status"] in ("ok", "warning")
    assert ended.code == 0


def test_watch_stays_until_it_works(home: Path, endpoint: TinyEndpoint) -> None:
    file = codex_file(home, endpoint.url)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LLM_SETUP_HOME": str(home / "own"), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "wizard", "doctor", "--watch"]
    with subprocess.Popen(command, env=env, cwd=home, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "base-url-missing-v1" in line:
                break
        file.write_text(file.read_text().replace(endpoint.url, f"{endpoint.url}/v1"))
        rest, _ = process.communicate(timeout=60)
    assert "\a" in rest
    assert process.returncode == 0
