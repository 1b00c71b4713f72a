"""`watch` and `report` with a real vLLM: the names that it gives its metrics, and one file about all of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wizard.serving.metrics import known_metrics

from .conftest import Workshop
from .vllm_servers import RealServer, wizard_environment

pytestmark = pytest.mark.real


def run(workshop: Workshop, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The wizard that started the session's server, in a folder of its own."""
    home = workshop.folder / "wizard"
    return subprocess.run(
        [sys.executable, "-m", "wizard", *arguments],
        env=wizard_environment(home),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_metric_is_named_as_this_vllm_names_it(vllm_runtime: Path) -> None:
    (source,) = vllm_runtime.parent.parent.glob("lib/python3*/site-packages/vllm/v1/metrics/loggers.py")
    said = set(re.findall(r'name="(vllm:\w+)"', source.read_text()))
    for metric in known_metrics().values():
        assert metric.names[0].removesuffix("_total") in said, metric.quantity


def test_a_server_that_worked_is_seen_to_have_worked(scripted_server: RealServer, workshop: Workshop) -> None:
    bench = run(workshop, "bench", "real", "--concurrency", "2", "--requests", "4", "--max-tokens", "8", "--json")
    assert bench.returncode == 0, bench.stderr
    (workshop.folder / "wizard" / "bench.json").write_text(bench.stdout)
    ran = run(workshop, "watch", "real", "--once", "--json")
    assert ran.returncode == 0, ran.stderr
    (server,) = json.loads(ran.stdout)["servers"]
    assert server["url"] == scripted_server.root
    first = server["time_to_first_token_ms"]
    assert 0 < first["p50"] <= first["p99"]
    assert server["end_to_end_ms"] is not None
    assert server["queue_time_ms"] is not None
    assert server["requests_running"] == 0
    assert server["preemptions"] == 0
    assert 0 <= server["kv_cache_usage"] <= 1
    assert server["kv_cache_tokens"] > 0


def test_a_report_has_all_of_a_server_and_no_key(scripted_server: RealServer, workshop: Workshop) -> None:
    file = workshop.folder / "wizard" / "bench.json"
    ran = run(workshop, "report", "real", "--json", *(("--bench", "bench.json") if file.exists() else ("--measure",)))
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    for part in ("machine", "server", "plan", "proof", "bench"):
        assert document["sections"][part] == "ok", document
    text = Path(document["file"]).read_text()
    assert scripted_server.key not in text
    assert not re.search(r"<script|<link|<img|src=|url\(", text)
    assert scripted_server.model in text
