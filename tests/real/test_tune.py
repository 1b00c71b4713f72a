"""`tune` with a real vLLM: prefix caching is found for the work of a coding agent, and what it buys is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .vllm_servers import wizard_environment

pytestmark = [pytest.mark.real, pytest.mark.timeout(720)]
# What a start of the tiny model needs; it has no weights.
FIXED = ("--set", "enforce-eager", "--set", "load-format=dummy", "--set", "max-model-len=32768")
SMALL = ("--users", "1", "--requests", "3", "--rounds", "2", "--prefix-tokens", "12000", "--max-tokens", "8")


def test_prefix_caching_is_found_kept_and_worth_three_times(
    tmp_path: Path, vllm_runtime: Path, tiny_model: Callable[[str], Path]
) -> None:
    """From a server without it, three starts: as it is, with prefix caching, with larger batches."""
    home = tmp_path / "home"
    home.mkdir()
    model = tiny_model("dense")
    command = [sys.executable, "-m", "wizard", "tune", model, "--vllm", vllm_runtime.parent.parent, *FIXED, *SMALL]
    # On a machine that others use, the third start is left out rather than the test timed out.
    command += ["--budget", "8m", "--trials", "3", "--yes", "--json"]
    command += ["--only", "prefix-caching", "--only", "max-num-batched-tokens"]
    command += ["--", "--no-enable-prefix-caching"]
    ran = subprocess.run(
        command, env=wizard_environment(home), cwd=home, capture_output=True, text=True, timeout=700, check=False
    )
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    print(ran.stderr)
    for trial in document["trials"]:
        print(trial["setting"], f"start {trial['start_s']:.0f} s, all {trial['spent_s']:.0f} s", trial["figures"])
    assert [trial["outcome"] for trial in document["trials"][:2]] == ["measured", "measured"]
    assert all(trial["answers"] != "different" for trial in document["trials"])

    # Found, and kept against all else.
    assert document["best"]["setting"]["prefix-caching"] == "on"
    assert "--enable-prefix-caching" in document["best"]["arguments"]
    assert '"enable-prefix-caching" = true' in Path(document["written"]).read_text()
    (row,) = [row for row in document["bought"] if row["setting"] == {"prefix-caching": "on"}]
    assert row["verdict"] == "helps"
    assert row["first_token_change"] < -0.5

    # On one and the same server: a beginning that it had against one that is new.
    figures = document["best"]["figures"]
    assert document["warm_against_cold"] >= 3, figures
    assert figures["cold_p50_ms"] >= 3 * figures["warm_p50_ms"]
    assert figures["prefix_hit_rate"] > 0.5, "by the server's own counters"
