"""`llm-setup watch` as a whole, against a server whose metrics are known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jsonschema
import pexpect
import pytest

KEY = "sk-watch-4f8a1c6e9b2d7035"
Watch = Callable[..., "subprocess.CompletedProcess[str]"]


class Metrics(BaseHTTPRequestHandler):
    """Each look finds 10 tokens more, and falls back to a new beginning where the server is told so."""

    looks = 0

    def do_GET(self) -> None:
        type(self).looks += 1
        tokens = 10 * (self.looks if self.looks < 3 else self.looks - 2)
        text = (
            'vllm:num_requests_running{engine="0"} 1\nvllm:kv_cache_usage_perc{engine="0"} 0.5\n'
            f'vllm:generation_tokens_total{{engine="0"}} {tokens}\n'
            f'vllm:time_to_first_token_seconds_bucket{{le="0.2"}} {tokens}\n'
            f'vllm:time_to_first_token_seconds_bucket{{le="+Inf"}} {tokens}\n'
        ).encode()
        self.send_response(200 if self.path == "/metrics" else 404)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Metrics.looks = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Metrics) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "wizard", "watch", *arguments],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "LANG": "C.UTF-8",
                "LLM_SETUP_HOME": str(tmp_path / "own"),
                "LLM_SETUP_API_KEY": KEY,
                **more,
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_with_json_each_look_is_a_line(watch: Watch, server: str) -> None:
    ran = watch("--base-url", f"{server}/v1", "--count", "2", "--interval", "0.2", "--json")
    assert ran.returncode == 0, ran.stderr
    first, second = (json.loads(line) for line in ran.stdout.splitlines())
    assert first["servers"][0]["window_s"] is None
    assert second["servers"][0]["output_tokens_per_s"] > 10
    assert second["servers"][0]["time_to_first_token_ms"]["p50"] == pytest.approx(100)


def test_a_server_that_begins_anew_is_no_negative_rate(watch: Watch, server: str) -> None:
    ran = watch("--base-url", server, "--count", "3", "--interval", "0.2", "--json", "--window", "0.1")
    last = json.loads(ran.stdout.splitlines()[-1])["servers"][0]
    assert last["output_tokens_per_s"] > 0
    assert last["restarts"] == 1


def test_without_a_terminal_there_are_plain_lines(watch: Watch, server: str) -> None:
    ran = watch("--base-url", server, "--once")
    assert ran.returncode == 0
    assert f"{server}: running 1, waiting -, KV used 50%" in ran.stdout
    assert "\x1b" not in ran.stdout


def test_a_server_that_does_not_answer_is_said_and_ends_with_1(watch: Watch) -> None:
    ran = watch("--base-url", "http://127.0.0.1:9/v1", "--once", "--json")
    assert ran.returncode == 1
    document = json.loads(ran.stdout)
    schema = Path(__file__).parents[3] / "docs" / "reference" / "schemas" / "watch.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    (server,) = document["servers"]
    assert "does not answer" in server["error"]


def test_another_program_is_not_taken_for_a_vllm(watch: Watch, server: str) -> None:
    ran = watch("--base-url", f"{server}/elsewhere", "--once")
    assert ran.returncode == 1
    assert "no /metrics (404): vLLM has them, most gateways show none" in ran.stdout


def test_an_unknown_name_is_wrong_usage(watch: Watch) -> None:
    ran = watch("nowhere", "--once")
    assert ran.returncode == 2
    assert "[unknown-server-or-profile]" in ran.stderr


@pytest.fixture(scope="session")
def driver_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the stand-in of NVIDIA's driver library."""
    folder = tmp_path_factory.mktemp("nvml")
    build = Path(__file__).parents[2] / "native" / "build.py"
    subprocess.run([sys.executable, str(build), str(folder)], check=True, stdout=subprocess.DEVNULL, timeout=300)
    return folder


def test_gpu_memory_and_power_are_beside_it(watch: Watch, server: str, driver_library: Path, tmp_path: Path) -> None:
    facts = tmp_path / "driver.txt"
    facts.write_text(
        "driver 580.65.06\ncuda 13000\n"
        "gpu total=81559 reserved=467 used=40960 power=350500 busy=87 temperature=64 cc=9.0 name=NVIDIA H100\n"
        "gpu total=15360 used=1024 cc=7.5 name=Tesla T4\n"
    )
    driver = {"LD_LIBRARY_PATH": str(driver_library), "NVML_STANDIN": str(facts)}
    first, second = json.loads(watch("--base-url", server, "--once", "--json", **driver).stdout)["gpus"]
    assert (first["memory_used_gib"], first["power_w"], first["utilization"]) == (40.0, 350.5, 0.87)
    assert second["power_w"] is None
    assert (
        "GPU 0 NVIDIA H100, 40.0 / 79.6 GiB, 350 W, busy 87%, 64 °C"
        in watch("--base-url", server, "--once", **driver).stdout
    )


def test_a_driver_that_hangs_makes_nobody_wait(watch: Watch, server: str, driver_library: Path, tmp_path: Path) -> None:
    facts = tmp_path / "driver.txt"
    facts.write_text("driver 580.65.06\ngpu total=81559 cc=9.0 name=NVIDIA H100\nhang nvmlDeviceGetName\n")
    ran = watch(
        "--base-url", server, "--once", LD_LIBRARY_PATH=str(driver_library), NVML_STANDIN=str(facts)
    )  # fmt: skip
    assert ran.returncode == 0
    assert "running 1" in ran.stdout


def test_the_key_is_shown_nowhere(watch: Watch, server: str) -> None:
    ran = watch("--base-url", server, "--once", "--json")
    assert KEY not in ran.stdout + ran.stderr


def test_on_a_terminal_the_table_changes_in_place(server: str, tmp_path: Path) -> None:
    child = pexpect.spawn(
        sys.executable,
        ["-m", "wizard", "watch", "--base-url", server, "--count", "2", "--interval", "0.3"],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "LLM_SETUP_HOME": str(tmp_path / "own"),
        },
        cwd=str(tmp_path),
        dimensions=(24, 80),
        encoding="utf-8",
        timeout=30,
    )
    shown = child.read()
    child.close()
    assert child.exitstatus == 0
    assert shown.count("KV used") >= 2
    assert "\x1b[1A" in shown, "the second table goes over the first"
