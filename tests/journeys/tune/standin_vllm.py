"""Stands in for a Python with vLLM whose speed depends on its flags, as `tune` would find them.

A first token takes 60 ms; with prefix caching only where the conversation is new, else 5 ms. `--max-num-seqs 8` dies of
memory while it loads; `--max-num-batched-tokens 4096` answers otherwise, 8192 is three times as slow. STANDIN_STARTS: a
file that gets a line for each start.
"""

import http.server
import json
import os
import signal
import sys
import time
from pathlib import Path

STARTS = os.environ.get("STANDIN_STARTS", "")


def probe() -> None:
    python = os.environ["STANDIN_PYTHON"]
    print(
        json.dumps(
            {
                "python": "3.11.7",
                "executable": python,
                "prefix": str(Path(python).parent.parent),
                "vllm": ["vllm", "0.32.0"],
                "vllm_folder": "/x/vllm",
                "torch": os.environ.get("STANDIN_TORCH", "2.13.0+cpu"),
                "cuda": os.environ.get("STANDIN_CUDA", ""),
                "hip": "",
                "metadata": True,
                "packages": "/x",
            }
        )
    )


def flag(name: str, default: str = "") -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def last_switch(name: str) -> bool:
    state = True
    for word in sys.argv:
        state = True if word == f"--{name}" else False if word == f"--no-{name}" else state
    return state


CACHING = last_switch("enable-prefix-caching")
BATCH = flag("--max-num-batched-tokens", "2048")
SLOW = 3 if BATCH == "8192" else 1


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            return self.reply({"data": [{"id": flag("--served-model-name"), "max_model_len": 8192}]})
        return self.reply({})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers.get("authorization") != f"Bearer {os.environ['VLLM_API_KEY']}":
            self.send_error(401)
            return
        if not asked.get("stream"):
            word = "other" if BATCH == "4096" else "ready"
            tops = [{"token": word, "logprob": -0.01}, {"token": "x", "logprob": -9.0}]
            content = [{"token": word, "logprob": -0.01, "top_logprobs": tops}]
            self.reply({"choices": [{"message": {"content": word}, "logprobs": {"content": content}}]})
            return
        known = CACHING and len(asked["messages"]) > 2
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        time.sleep((0.005 if known else 0.06) * SLOW)
        for _ in range(asked["max_tokens"]):
            self.event({"choices": [{"delta": {"content": "a "}, "finish_reason": None}]})
            time.sleep(0.001 * SLOW)
        self.event({"choices": [{"delta": {}, "finish_reason": "length"}]})
        usage = {"prompt_tokens": 100, "completion_tokens": asked["max_tokens"]}
        self.event({"choices": [], "usage": usage})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def event(self, value: object) -> None:
        self.chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def chunk(self, raw: bytes) -> None:
        self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        self.wfile.flush()

    def reply(self, body: object) -> None:
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass


def serve() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if STARTS:
        with Path(STARTS).open("a") as starts:
            starts.write(" ".join(sys.argv) + "\n")
    if flag("--max-num-seqs") == "8":
        print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", flush=True)
        print("RuntimeError: Engine core initialization failed. See root cause above.", flush=True)
        os._exit(1)
    server = http.server.ThreadingHTTPServer((flag("--host"), int(flag("--port"))), Handler)
    print("INFO:     Application startup complete.", flush=True)
    server.serve_forever()


if "-c" in sys.argv:
    probe()
else:
    serve()
