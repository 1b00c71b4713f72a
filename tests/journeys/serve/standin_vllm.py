"""Stands in for a Python with vLLM: answers llm-setup's probe, and "serves" with the log lines of a real start.

The lines are those of vLLM 0.32.0 (CPU build, SmolLM2-135M-Instruct), shortened. STANDIN says how it behaves, as words:
  ok            ready after all phases
  slow          waits 0.3 s between phases
  die=TEXT      prints TEXT and exits 1 while loading weights
  die-until=N   dies of a context that is too long until --max-model-len is at most N
  port-taken-once=FILE  finds its port taken unless FILE is there, and makes FILE
  silent        prints one phase and never goes on
  stubborn      it and its child ignore TERM
  unready       the port opens and /health says 503
  shares-port   another process listens on the same port, as a second vLLM would
  chatty=MIB    writes that much into its log when it is ready
  crash-after=S exits 1 after S seconds of being ready
Like vLLM it starts a child ("engine") in its session, which outlives a killed parent, and leaves its sockets.
"""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

WORDS = dict(word.partition("=")[::2] for word in os.environ.get("STANDIN", "ok").split(";"))
VERSION = os.environ.get("STANDIN_VERSION", "0.32.0")


def probe() -> None:
    print(
        json.dumps(
            {
                "python": "3.11.7",
                "executable": os.environ["STANDIN_PYTHON"],
                "prefix": str(Path(os.environ["STANDIN_PYTHON"]).parent.parent),
                "vllm": ["vllm", VERSION],
                "vllm_folder": "/x/vllm",
                "torch": "2.13.0+cpu",
                "cuda": "",
                "hip": "",
                "metadata": True,
                "packages": "/x",
            }
        )
    )


def say(line: str) -> None:
    print(line, flush=True)
    if "slow" in WORDS:
        time.sleep(0.3)


def engine() -> None:
    if "stubborn" in WORDS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)


def stranger() -> None:
    http.server.ThreadingHTTPServer.allow_reuse_port = True
    place = (sys.argv[-2], int(sys.argv[-1]))
    http.server.ThreadingHTTPServer(place, http.server.BaseHTTPRequestHandler).serve_forever()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        key = os.environ.get("VLLM_API_KEY")
        if self.path.startswith("/v1/") and key and self.headers.get("authorization") != f"Bearer {key}":
            return self.reply(401, {"error": "Unauthorized"})
        if self.path == "/health":
            return self.reply(503 if "unready" in WORDS else 200, {})
        if self.path == "/v1/models":
            return self.reply(200, {"data": [{"id": SERVED, "max_model_len": LENGTH}]})
        if self.path == "/metrics":
            text = (
                f'vllm:num_requests_running{{engine="0",model_name="{SERVED}"}} 2.0\n'
                f'vllm:num_requests_waiting{{engine="0",model_name="{SERVED}"}} 1.0\n'
                f'vllm:kv_cache_usage_perc{{engine="0",model_name="{SERVED}"}} 0.25\n'
                'vllm:prefix_cache_queries_total{engine="0"} 200.0\n'
                'vllm:prefix_cache_hits_total{engine="0"} 50.0\n'
                'vllm:cache_config_info{kv_cache_size_tokens="46592"} 1.0\n'
            )
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())
            return None
        return self.reply(404, {"detail": "Not Found"})

    def reply(self, status: int, body: object) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args: object) -> None:
        say(f'INFO:     127.0.0.1 - "{self.command} {self.path} HTTP/1.1"')


def flag(name: str, default: str = "") -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def serve() -> None:
    if "stubborn" in WORDS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: (child.terminate(), child.wait(), os._exit(0)))
    Path(os.environ.get("VLLM_RPC_BASE_PATH", "/tmp"), f"standin-{os.getpid()}").touch()
    child = subprocess.Popen([os.environ["STANDIN_PYTHON"], "-m", "engine"])
    pid = os.getpid()
    say(f"(APIServer pid={pid}) INFO 11-30 13:33:41 [api_utils.py:286] non-default args: {{'port': {flag('--port')}}}")
    say(f"(APIServer pid={pid}) INFO 11-30 13:33:41 [model.py:733] Resolved architecture: LlamaForCausalLM")
    if "silent" in WORDS:
        time.sleep(600)
    say(f"(Worker pid={child.pid}) INFO 11-30 13:34:03 [cpu_model_runner.py:68] Starting to load model m...")
    limit = WORDS.get("die-until")
    if limit and int(limit) < LENGTH:
        say(
            f"(EngineCore pid={child.pid}) ERROR 11-30 13:34:03 [core.py:866] ValueError: To serve at least one request"
            f" with the model's max seq len ({LENGTH}), (0.18 GiB KV cache is needed, which is larger than the"
            " available KV cache memory (0.05 GiB). Based on the available memory, the estimated maximum model length"
            f" is {limit}. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the"
            " engine."
        )
        say("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
        os._exit(1)
    if "port-taken-once" in WORDS and not Path(WORDS["port-taken-once"]).exists():
        Path(WORDS["port-taken-once"]).touch()
        say("OSError: [Errno 98] Address already in use")
        os._exit(1)
    if "die" in WORDS:
        say(WORDS["die"])
        os._exit(1)
    say("Loading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]")
    say("Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:02<00:00,  2.03s/it]")
    say(
        "(EngineCore pid=1) INFO 11-30 13:34:08 [kv_cache_utils.py:2327] CPU KV cache size: 46,592 tokens, "
        f"Maximum concurrency for {LENGTH:,} tokens per request: 5.69x"
    )
    http.server.ThreadingHTTPServer.allow_reuse_port = True  # as vLLM
    server = http.server.ThreadingHTTPServer((flag("--host"), int(flag("--port"))), Handler)
    if "shares-port" in WORDS:
        subprocess.Popen(
            [os.environ["STANDIN_PYTHON"], "-m", "stranger", flag("--host"), flag("--port")], start_new_session=True
        )
        time.sleep(0.5)
    say(
        f"(APIServer pid={pid}) INFO 11-30 13:34:15 [entry.py:140] Starting vLLM server on http://127.0.0.1:{flag('--port')}"
    )
    say("INFO:     Application startup complete.")
    for number in range(int(WORDS.get("chatty", "0")) * 1024):
        print(f"{number:07d} " + "." * 1015)
    sys.stdout.flush()
    if "crash-after" in WORDS:
        threading.Timer(
            float(WORDS["crash-after"]), lambda: (say(WORDS.get("last", "MemoryError")), os._exit(1))
        ).start()
    server.serve_forever()


if "-c" in sys.argv:
    probe()
elif "stranger" in sys.argv:
    stranger()
elif "engine" in sys.argv:
    engine()
else:
    SERVED = flag("--served-model-name")
    LENGTH = int(flag("--max-model-len", "8192"))
    serve()
