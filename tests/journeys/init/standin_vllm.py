"""Stands in for a Python with vLLM: answers llm-setup's probe, fetches a model from the hub on loopback as the hub's
client would, and serves every protocol that the proof asks for.

Its log is a real start's (vLLM 0.32.0), shortened. The file named by STANDIN_MODE says how it behaves, so that
a test can mend it meanwhile: `ok`; `die` (out of memory while loading); `chatless` (chat answers 500); `slow` (is not
ready as long as it says so); `full` (the disk has no room for a model).
"""

import http.server
import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path


def mode() -> str:
    path = os.environ.get("STANDIN_MODE", "")
    return Path(path).read_text().strip() if path and Path(path).exists() else "ok"


def probe() -> None:
    python = os.environ["STANDIN_PYTHON"]
    told = {
        "python": "3.11.7",
        "executable": python,
        "prefix": str(Path(python).parent.parent),
        "vllm": ["vllm", "0.32.0"],
        "vllm_folder": "/x/vllm",
        "torch": "2.13.0+cpu",
        "cuda": "",
        "hip": "",
        "metadata": True,
        "packages": "/x",
    }
    print(json.dumps(told))


def fetch(model: str) -> None:
    """What the hub's client does and says, for a model of one file (huggingface_hub 1.x)."""
    headers = {"Authorization": f"Bearer {os.environ['HF_TOKEN']}"} if os.environ.get("HF_TOKEN") else {}
    url = f"{os.environ['HF_ENDPOINT']}/{model}/resolve/main/"

    def get(name: str) -> bytes:
        with urllib.request.urlopen(urllib.request.Request(url + name, headers=headers)) as reply:
            return reply.read()

    try:
        files = {name: get(name) for name in ("config.json", "model.safetensors")}
    except urllib.error.HTTPError as error:
        say(f"huggingface_hub.errors.GatedRepoError: {error.code} Client Error. (Request ID: Root=1-2)")
        say(f"Cannot access gated repo for url {url}config.json.")
        sys.exit(1)
    size = sum(map(len, files.values()))
    if mode() == "full":
        say(f"sizes {2**40} {2**40}")
        sys.exit(28)
    say(f"sizes {size} {size}")
    folder = Path(os.environ["HOME"], ".cache/huggingface/hub", "models--" + model.replace("/", "--"), "snapshots/1")
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    say(f"folder {folder}")


def flag(name: str, default: str = "") -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def say(line: str) -> None:
    print(line, flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def answer(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        status, said = self.route(self.path.split("?")[0], body)
        kind = "text/event-stream" if isinstance(said, str) else "application/json"
        raw = said.encode() if isinstance(said, str) else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def route(self, path: str, body: dict) -> tuple[int, object]:
        if path == "/health":
            return 200, {}
        if path == "/version":
            return 200, {"version": "0.32.0"}
        if self.headers.get("authorization") != f"Bearer {os.environ.get('VLLM_API_KEY')}":
            return 401, {"error": "Unauthorized"}
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": SERVED, "max_model_len": LENGTH, "owned_by": "vllm"}]}
        text = [{"type": "output_text", "text": "ready"}]
        answers: dict[str, object] = {
            "/v1/responses": streamed({"type": "response.completed"})
            if body.get("stream")
            else {"status": "completed", "output": [{"type": "message", "content": text}]},
            "/v1/messages": streamed({"type": "message_start"}, {"type": "message_stop"})
            if body.get("stream")
            else {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ready"}]},
            "/v1/messages/count_tokens": {"input_tokens": 5},
        }
        if path == "/v1/chat/completions":
            return (500, {"error": {"message": "it broke"}}) if mode() == "chatless" else (200, chat(body))
        return (200, answers[path]) if path in answers else (404, {"detail": "Not Found"})

    do_GET = do_POST = answer


def streamed(*events: dict) -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events)


def chat(body: dict) -> object:
    if body.get("stream"):
        chunk = {"choices": [{"index": 0, "delta": {"content": "ready"}, "finish_reason": "stop"}]}
        usage = {"choices": [], "usage": {"completion_tokens": 1}}
        return f"data: {json.dumps(chunk)}\n\ndata: {json.dumps(usage)}\n\ndata: [DONE]\n\n"
    message: dict = {"role": "assistant", "content": "ready"}
    if body.get("structured_outputs"):
        function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
        message = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": function}]}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def serve() -> None:
    say("(APIServer pid=1) INFO 11-30 13:33:41 [model.py:733] Resolved architecture: LlamaForCausalLM")
    say("(Worker pid=2) INFO 11-30 13:34:03 [cpu_model_runner.py:68] Starting to load model m...")
    while mode() == "slow":
        time.sleep(0.05)
    if mode() == "die":
        say("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 8 GiB in all")
        os._exit(1)
    say("Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:02<00:00,  2.03s/it]")
    server = http.server.ThreadingHTTPServer((flag("--host"), int(flag("--port"))), Handler)
    say("INFO:     Application startup complete.")
    server.serve_forever()


if "huggingface" in sys.argv:
    fetch(sys.argv[sys.argv.index("huggingface") + 1])
elif "-c" in sys.argv:
    probe()
else:
    SERVED = flag("--served-model-name")
    LENGTH = int(flag("--max-model-len", "8192"))
    serve()
