"""Whatever a server answers, the doctor ends with a judgement: no crash, no key shown, no memory without end.

`LLM_SETUP_FUZZ=N` sends N hostile answers in place of 800 (20,000 in CI): as replies through probes and judgement, and
a quarter as many as bytes through the HTTP library.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from wizard.doctor.bodies import read_body
from wizard.doctor.engine import all_checks, examine
from wizard.doctor.manners import wire_of
from wizard.doctor.observations import Context, Observations, Target
from wizard.doctor.symptoms import family_of
from wizard.effects.http import Http, HttpFailure, HttpReply, HttpRequest
from wizard.flows.probe import Limits, Prober
from wizard.secret import Secret, redact

from .conftest import CHAT_OK, HOST, MESSAGE_OK, RESPONSE_OK, FakeNetwork, fake_world

ANSWERS = int(os.environ.get("LLM_SETUP_FUZZ", "20000" if os.environ.get("CI") else "800"))
MOST_GROWTH_MIB = 200
KEY = "sk-fuzz-abcdef0123456789"
_KINDS = ("application/json", "text/html", "text/event-stream", "text/plain", "", "application/octet-stream", "json;;;")
_FAILURES = ("refused", "timeout", "dns", "tls", "reset", "protocol", "proxy", "unreachable", "invalid-request")
_NAMES = (
    *("choices", "error", "message", "content", "delta", "data", "id", "model"),
    *("detail", "type", "code", "output", "status", "usage", "tool_calls", "function"),
    *("name", "arguments", "finish_reason", "reasoning_content", "object", "input_tokens", "max_model_len", "paths"),
    *("loc", "msg", "role", "text", "errors", "success"),
)
_SEEDS: tuple[Any, ...] = (
    CHAT_OK,
    MESSAGE_OK,
    RESPONSE_OK,
    {"error": {"message": "Invalid API key", "code": 401}},
    {"detail": [{"loc": ["body", "tools"], "msg": "bad"}]},
    {"object": "list", "data": [{"id": "m", "max_model_len": 4096}]},
    {"choices": []},
    {"paths": {"/v1/chat/completions": {}}},
    {"error": {"message": f"Incorrect API key provided: {KEY}"}},
    '"ok"',
    [[[]]],
    None,
)


def _value(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return dice.choice((None, True, False, 0, -1, 10**30, 1.5, float("inf")))
    if kind in (1, 2):
        return dice.choice(
            ("", "stop", "error", KEY, "模型不存在", "\ud800", "a" * 3000, "404 Not Found", "<tool_call>", "[DONE]")
        )
    if kind == 3:
        return dice.randrange(-5, 600)
    if kind in (4, 5):
        return dice.choice(_NAMES)
    if kind == 6:
        return [_value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {dice.choice(_NAMES): _value(dice, depth + 1) for _ in range(dice.randrange(5))}


def _mutated(dice: random.Random, value: Any) -> Any:
    """A well-formed answer with one part of it replaced."""
    if isinstance(value, dict) and value and dice.random() < 0.85:
        name = dice.choice(list(value))
        return {**value, name: _mutated(dice, value[name])}
    if isinstance(value, list) and value and dice.random() < 0.85:
        return [*value[:-1], _mutated(dice, value[-1])]
    return _value(dice)


def _body(dice: random.Random) -> bytes:
    kind = dice.randrange(10)
    if kind < 4:
        value = _mutated(dice, dice.choice(_SEEDS))
        raw = json.dumps(value, ensure_ascii=True).encode()
    elif kind == 4:
        raw = dice.randbytes(dice.randrange(200))
    elif kind == 5:
        seed = dice.choice((CHAT_OK, MESSAGE_OK, RESPONSE_OK, {"type": "response.completed"}, {"choices": []}))
        events = "".join(f"data: {json.dumps(_mutated(dice, seed))}\n\n" for _ in range(dice.randrange(60)))
        raw = (
            events
            + dice.choice(("", "data: [DONE]\n\n", "retry: 1\n\n", ": x\n\n", "data: {", "event: error\ndata: x"))
        ).encode()
    elif kind == 6:
        raw = b"[" * dice.choice((10, 5000, 200_000)) + b"1"
    elif kind == 7:
        raw = dice.choice(
            (b"", b" ", b"\xef\xbb\xbf{}", b"null", b"\x00" * 50, b"<html>" + b"x" * 9000, b"NaN", b"1e999")
        )
    elif kind == 8:
        raw = gzip.compress(dice.choice((b"{}", b"a" * 10**6)))
    else:
        raw = json.dumps(dice.choice(_SEEDS)).encode()
    return raw[: dice.randrange(len(raw) + 1)] if dice.random() < 0.2 else raw


class HostileHttp:
    """Another hostile answer for every request."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.count = 0

    def send(self, request: HttpRequest) -> HttpReply | HttpFailure:
        """One exchange, drawn by the dice."""
        self.count += 1
        dice = self.dice
        if dice.random() < 0.05:
            return HttpFailure(dice.choice(_FAILURES), f"failed for {KEY}", 0.1)  # type: ignore[arg-type]
        headers = [("content-type", dice.choice(_KINDS))]
        if dice.random() < 0.1:
            headers.append(("content-encoding", dice.choice(("gzip", "br", "deflate", "x", "identity"))))
        if dice.random() < 0.1:
            headers.append(("server", dice.choice(("cloudflare", "nginx", "\xff", KEY))))
        status = dice.choice(
            (200, 200, 200, 200, 400, 401, 403, 404, 405, 422, 429, 499, 500, 502, 503, 504, 529, 307, 999)
        )
        cut = dice.choice(("", "", "", "longer than 20 s", "ReadError: reset", "more than 1048576 bytes"))
        return HttpReply(
            status, tuple(headers), _body(dice)[: 2**20], 0.01, dice.choice((0.02, 5.0)), cut, ((0.01, 1),)
        )


@pytest.mark.timeout(3600)
def test_hostile_answers_end_in_a_judgement(tmp_path: Path) -> None:
    dice = random.Random(20261130)
    checks = [check for check in all_checks() if check.scope == "target"]
    sent = 0
    resident = _resident_mib()
    while sent < ANSWERS:
        http = HostileHttp(dice)
        client = dice.choice(("codex", "claude-code", "cline", "openai-sdk", "litellm", "unknown-client"))
        base = HOST + dice.choice(("", "/v1", "/v1/", "/x/y/v1", "/v1/messages", "/v1/v1"))
        target = Target(client, base, "m", Secret(KEY), "--base-url", "LLM_SETUP_API_KEY", wire=wire_of(client))
        shared = Observations(Context("linux"), targets=(target,), explicit=True, probed=True)
        seen = Prober(fake_world(tmp_path, http, {}), Limits(), FakeNetwork()).examine(shared, target)  # type: ignore[arg-type]
        diagnosis = examine(shared, (seen,), checks)
        sent += http.count
        crashed = [(r.id, r.detail) for r in diagnosis.results if r.status == "crashed"]
        assert not crashed, (crashed, [(e.probe, e.outcome) for e in seen.exchanges])
        said = json.dumps([finding.as_json() for finding in diagnosis.findings])
        assert KEY not in redact(said)
    assert _resident_mib() - resident < MOST_GROWTH_MIB


def _resident_mib() -> float:
    """The most memory that this process has had so far; Windows has no such count in the standard library."""
    if sys.platform == "win32":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


_STATUS_LINES = (
    *(b"HTTP/1.1 200 OK", b"HTTP/1.0 200", b"HTTP/1.1 404 Not Found", b"HTTP/1.1 503 " + b"x" * 300, b"HTTP/1.1 999 ?"),
    *(
        b"HTTP/9.9 200 OK",
        b"HTTP/1.1 -1 OK",
        b"ICY 200 OK",
        b"SSH-2.0-OpenSSH_9.6",
        b"\x16\x03\x01\x02\x00",
        b"",
        b"{}",
    ),
)
_HEADERS = (
    *(b"content-type: application/json", b"Content-Type: text/event-stream; charset=utf-16", b"content-length: 5"),
    *(b"content-length: -1", b"content-length: 99999999999", b"content-length: 3\r\ncontent-length: 4", b"x: \xff\xfe"),
    *(b"transfer-encoding: chunked", b"transfer-encoding: gzip, chunked", b"content-encoding: gzip", b"location: ///"),
    *(b"no colon", b": empty", b" folded", b"connection: upgrade", b"set-cookie: " + b"a" * 9000, b"x" * 5000 + b": y"),
)


def _raw(dice: random.Random) -> bytes:
    """What comes over the wire: a reply of HTTP's form with parts that are not, or anything else."""
    if dice.random() < 0.1:
        return dice.randbytes(dice.randrange(400))
    body = _body(dice)[:60_000]
    headers = [dice.choice(_HEADERS) for _ in range(dice.randrange(5))]
    if b"transfer-encoding: chunked" in headers:
        cuts = sorted(dice.randrange(len(body) + 1) for _ in range(3))
        pieces = [body[a:b] for a, b in itertools.pairwise((0, *cuts, len(body)))]
        sizes = (b"%x", b"%X;ext=1", b"-%x", b"%x0", b"zz%x")
        body = b"".join(
            dice.choice(sizes[: 1 if dice.random() < 0.7 else 5]) % len(p) + b"\r\n" + p + b"\r\n" for p in pieces
        )
        body += dice.choice((b"0\r\n\r\n", b"0\r\n", b"", b"0\r\nx: y\r\n\r\n"))
    line = dice.choice((b"\r\n", b"\r\n", b"\r\n", b"\n"))
    raw = line.join([dice.choice(_STATUS_LINES[: 4 if dice.random() < 0.7 else 12]), *headers, b"", b""]) + body
    return raw[: dice.randrange(len(raw) + 1)] if dice.random() < 0.2 else raw


@pytest.mark.timeout(3600)
def test_hostile_bytes_end_in_a_reply_or_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(20261201)

    def connect(host: str, port: int, connect_by: float) -> socket.socket:
        """A connection on whose other end everything was said already."""
        ours, theirs = socket.socketpair()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
        with theirs:
            theirs.sendall(_raw(dice))
        return ours

    monkeypatch.setattr("wizard.effects.http.connect", connect)
    http = Http({})
    replies = 0
    for _ in range(ANSWERS // 4):
        request = HttpRequest("GET", f"{HOST}/v1/models", timeout_s=5, max_body_bytes=2**20)
        outcome = http.send(request)
        if isinstance(outcome, HttpReply):
            replies += 1
            body = read_body(outcome, dice.choice(("chat", "messages", "responses")))
            family_of(outcome, body)
    assert replies > ANSWERS // 40
