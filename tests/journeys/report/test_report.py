"""`llm-setup report` as a whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

KEY = "sk-report-9f8e7d6c5b4a3021"
Report = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """`report(*ARGUMENTS)`, in a home with a profile whose key would show in its URL's errors."""
    state = tmp_path / "own" / "state"
    state.mkdir(parents=True)
    profile = {
        "name": "team",
        "openai_base_url": "http://127.0.0.1:9/v1",
        "model": "some/model",
        "key_reference": "env:TEAM_KEY",
    }
    (state / "profiles.json").write_text(json.dumps({"active": "team", "profiles": {"team": profile}}))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "wizard", "report", *arguments],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "LANG": "C.UTF-8",
                "LLM_SETUP_HOME": str(tmp_path / "own"),
                "TEAM_KEY": KEY,
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_a_report_says_what_is_there_and_what_is_not(report: Report, tmp_path: Path) -> None:
    ran = report("--json")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    schema = Path(__file__).parents[3] / "docs" / "reference" / "schemas" / "report.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    assert document["sections"]["machine"] == "ok"
    assert document["sections"]["proof"] == "ok"
    assert "llm-setup tune" in document["sections"]["tune"]
    text = (tmp_path / "llm-setup-report.html").read_text()
    assert "<!doctype html>" in text
    assert "some/model" in text
    assert KEY not in text + ran.stdout + ran.stderr


def test_figures_of_a_bench_go_in(report: Report, tmp_path: Path) -> None:
    row = {"target": "team", "concurrency": 1, "time_to_first_token_ms": {"p50": 77.7, "p99": 80}, "notes": [KEY]}
    (tmp_path / "bench.json").write_text(json.dumps({"results": [row]}))
    ran = report("--offline", "--bench", "bench.json", "--markdown", "-o", "-")
    assert ran.returncode == 0, ran.stderr
    assert "| team | 1 |" in ran.stdout
    assert "77.7" in ran.stdout
    assert KEY not in ran.stdout


def test_another_file_of_that_name_is_left_alone(report: Report, tmp_path: Path) -> None:
    mine = tmp_path / "notes.html"
    mine.write_text("<p>my own notes</p>")
    ran = report("--offline", "-o", "notes.html")
    assert ran.returncode == 1
    assert "[file-exists]" in ran.stderr
    assert mine.read_text() == "<p>my own notes</p>"
    assert report("--offline", "-o", "notes.html", "--yes").returncode == 0
    assert report("--offline", "-o", "notes.html").returncode == 0, "our own report is replaced"


def test_another_file_of_the_usual_name_in_a_folder_is_left_alone(report: Report, tmp_path: Path) -> None:
    mine = tmp_path / "out" / "llm-setup-report.html"
    mine.parent.mkdir()
    mine.write_text("<p>my own notes</p>")
    assert "[file-exists]" in report("--offline", "-o", "out").stderr
    assert mine.read_text() == "<p>my own notes</p>"


@pytest.mark.parametrize("text", ["[1, 2", '{"results": [{"target": "a", "output_tokens_per_s": "x", "notes": 5}]}'])
def test_a_file_that_is_no_bench_is_wrong_usage(text: str, report: Report, tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text(text)
    ran = report("--bench", "bench.json")
    assert ran.returncode == 2
    assert "[bench-file-malformed]" in ran.stderr
    assert not (tmp_path / "llm-setup-report.html").exists()


def test_measuring_says_what_it_is_at_and_not_in_the_report(report: Report) -> None:
    ran = report("--measure", "--markdown", "-o", "-")
    assert ran.stderr.count("measuring:") == 2
    assert "measuring:" not in ran.stdout
    assert "measuring:" not in report("--offline", "--measure").stderr


def test_offline_asks_nobody(report: Report) -> None:
    document = json.loads(report("--offline", "--json").stdout)
    assert "--offline" in document["sections"]["proof"]
