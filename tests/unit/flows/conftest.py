"""A small endpoint on loopback that answers as told, and a world whose home is empty."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from wizard.effects.clock import Clock
from wizard.effects.files import Files
from wizard.effects.http import Http
from wizard.effects.paths import state_paths
from wizard.effects.world import World
from wizard.ui.screen import Screen

Answer = tuple[int, Any]  # status and a body: bytes as they are, text as a stream, anything else as JSON
Route = Callable[[dict[str, str], dict[str, Any]], Answer]


class TinyEndpoint:
    """Routes are `"METHOD /path"` -> function of (headers, body); what is not routed is a FastAPI-like 404."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.seen: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def answer(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length") or 0))
                name = f"{self.command} {self.path.split('?')[0]}"
                outer.seen.append(name)
                route = outer.routes.get(name, lambda headers, body: (404, {"detail": "Not Found"}))
                status, body = route({k.lower(): v for k, v in self.headers.items()}, json.loads(raw or b"{}"))
                kind = "application/json"
                if isinstance(body, str):
                    kind, out = "text/event-stream", body.encode()
                else:
                    out = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(out)))
                self.end_headers()
                self.wfile.write(out)

            do_GET = do_POST = answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def vllm_like(server: TinyEndpoint, *, key: str, model: str = "m", context: int = 4096) -> None:
    """Answers as vLLM 0.32 was seen to: the key is checked below /v1 only, and only as a bearer."""

    def guarded(route: Route) -> Route:
        def answer(headers: dict[str, str], body: dict[str, Any]) -> Answer:
            if headers.get("authorization") != f"Bearer {key}":
                return 401, {"error": "Unauthorized"}
            if body and body.get("model") != model:
                text = f"The model `{body.get('model')}` does not exist. Valid aliases: {model}."
                return 404, {"error": {"message": text, "type": "NotFoundError", "param": "model", "code": 404}}
            return route(headers, body)

        return answer

    def chat(headers: dict[str, str], body: dict[str, Any]) -> Answer:
        if body.get("stream"):
            chunk = {"choices": [{"index": 0, "delta": {"content": "ready"}, "finish_reason": "stop"}]}
            usage = {"choices": [], "usage": {"completion_tokens": 1}}
            return 200, f"data: {json.dumps(chunk)}\n\ndata: {json.dumps(usage)}\n\ndata: [DONE]\n\n"
        message: dict[str, Any] = {"role": "assistant", "content": "ready"}
        if body.get("structured_outputs"):
            function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
            message = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": function}]}
        return 200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    def answer_of(whole: Any, *events: dict[str, Any]) -> Route:
        streamed = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return guarded(lambda headers, body: (200, streamed if body.get("stream") else whole))

    listed = {"object": "list", "data": [{"id": model, "max_model_len": context, "owned_by": "vllm"}]}
    output = [{"type": "message", "content": [{"type": "output_text", "text": "ready"}]}]
    message = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ready"}]}
    server.routes |= {
        "GET /version": lambda headers, body: (200, {"version": "0.32.0"}),
        "GET /v1/models": guarded(lambda headers, body: (200, listed)),
        "POST /v1/chat/completions": guarded(chat),
        "POST /v1/responses": answer_of(
            {"status": "completed", "output": output},
            {"type": "response.output_text.delta", "delta": "ready"},
            {"type": "response.completed", "response": {"status": "completed", "output": output}},
        ),
        "POST /v1/messages": answer_of(
            message,
            {"type": "message_start", "message": message | {"content": []}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ready"}},
            {"type": "message_stop"},
        ),
        "POST /v1/messages/count_tokens": guarded(lambda headers, body: (200, {"input_tokens": 5})),
    }


@pytest.fixture
def tiny_endpoint() -> Iterator[TinyEndpoint]:
    server = TinyEndpoint()
    yield server
    server.close()


@pytest.fixture
def make_vllm_like() -> Callable[..., None]:
    return vllm_like


@pytest.fixture
def world(tmp_path: Path) -> World:
    env = {"LLM_SETUP_HOME": str(tmp_path / "own"), "PATH": "/usr/bin:/bin"}
    home = tmp_path / "home"
    home.mkdir()
    return World(env, home, home, "linux", state_paths(env), Files(), Http(), Clock())


@pytest.fixture
def screen() -> Screen:
    return Screen(plain=True, out=StringIO(), err=StringIO(), env={})


@pytest.fixture
def shown(screen: Screen) -> Callable[[], str]:
    """What the screen has shown until now."""
    return lambda: str(screen.people.getvalue())  # type: ignore[attr-defined]
