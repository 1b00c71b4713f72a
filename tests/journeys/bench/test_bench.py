"""`llm-setup bench` as a whole."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

Run = Callable[..., Any]
FAST = "first=0.05;gap=0.01;tokens=10"
EIGHT = ("--concurrency", "4", "--requests", "8")


def truth(server: str) -> Any:
    """What the server did since it was last asked."""
    with urllib.request.urlopen(server.removesuffix("/v1") + "/truth", timeout=10) as reply:
        return json.load(reply)


def test_the_figures_are_the_servers_truth(bench: Run, server: str) -> None:
    truth(server)
    (result,) = bench(FAST, "--concurrency", "4", "--requests", "24", "--warmup", "0").results
    told = truth(server)
    assert told["requests"] == 24
    # By the server's own clock, and by how late the client says it was: a busy machine is nobody's fault.
    late = result["client"]["lag_ms"]
    assert result["time_to_first_token_ms"]["p50"] == pytest.approx(median(told["first_ms"]), abs=4 + 2 * late)
    assert result["inter_token_latency_ms"]["p50"] == pytest.approx(median(told["gap_ms"]), abs=2 + late)
    assert 9 < result["time_per_output_token_ms"]["p50"] < 20
    assert 138 < result["end_to_end_ms"]["p50"] < 280
    assert result["errors"] == 0
    assert result["connect_ms"] is None, "connections are opened before, and kept"
    assert result["output_tokens"] == 240
    assert result["output_tokens_per_s"] == pytest.approx(240 / result["wall_s"], rel=0.01)


def test_each_concurrency_has_its_figures(bench: Run) -> None:
    results = bench(FAST, "--concurrency", "1,4", "--requests", "8").results
    assert [(r["concurrency"], r["requests"]) for r in results] == [(1, 8), (4, 8)]
    assert results[1]["output_tokens_per_s"] > 2 * results[0]["output_tokens_per_s"]


def test_the_way_there_is_a_share_of_the_lowest_loads_first_token_in_whatever_order(bench: Run) -> None:
    ran = bench("first=0.02;jitter=0.9;tokens=5", "--concurrency", "4,1", "--requests", "8")
    alone = next(result for result in ran.results if result["concurrency"] == 1)
    (way,) = ran.document["network"]
    share = way["empty_request_ms"]["p50"] / alone["time_to_first_token_ms"]["p50"]
    assert way["share_of_time_to_first_token"] == pytest.approx(min(1.0, share), abs=1e-4)


def test_a_first_chunk_without_a_token_is_no_first_token(bench: Run) -> None:
    (result,) = bench("role=0.001;" + FAST, *EIGHT).results
    assert result["time_to_first_token_ms"]["p50"] > 40


def test_warm_up_is_in_no_figure(bench: Run, server: str) -> None:
    truth(server)
    ran = bench(FAST, *EIGHT, "--warmup", "3")
    assert ran.results[0]["requests"] == 8
    assert truth(server)["requests"] == 11
    assert ran.document["warmup_time_to_first_token_ms"].popitem()[1] > 40


def test_max_tokens_bounds_the_answer(bench: Run) -> None:
    assert bench(FAST, *EIGHT, "--max-tokens", "3").results[0]["output_tokens"] == 24


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        pytest.param("status=429;retry=2;refuse=2", "HTTP 429, retry after 2 s", id="429"),
        pytest.param("cut=3", "cut off", id="reset"),
        pytest.param("error=3", "error event: out of memory", id="error-event"),
    ],
)
def test_errors_are_told_apart_and_counted(bench: Run, behaviour: str, kind: str) -> None:
    ran = bench(f"{behaviour};{FAST}", *EIGHT, "--warmup", "0")
    assert ran.code == 1
    (result,) = ran.results
    assert result["errors"] in (4, 8)
    assert any(name.startswith(kind) for name in result["error_kinds"])
    assert ran.document["problems"][0]["code"] == "bench-errors"
    if result["errors"] == 8:
        assert result["time_to_first_token_ms"] is None
        assert ran.document["status"] == "error"
    else:
        assert result["time_to_first_token_ms"]["p50"] > 40


def test_a_stall_shows_in_the_tail_and_not_in_the_median(bench: Run) -> None:
    (result,) = bench(f"stall=5;pause=0.4;{FAST}", *EIGHT).results
    assert result["inter_token_latency_ms"]["p50"] < 50
    assert result["inter_token_latency_ms"]["p99"] > 350


def test_a_server_that_never_ends_is_given_up(bench: Run) -> None:
    ran = bench(f"stall=5;pause=30;{FAST}", "--concurrency", "2", "--requests", "2", "--warmup", "0", "--timeout", "1")
    assert ran.results[0]["error_kinds"] == {"no end within 1 s": 2}


def test_usage_that_lies_is_marked(bench: Run) -> None:
    (result,) = bench(f"lie=2;{FAST}", *EIGHT).results
    assert result["output_tokens"] == 80
    assert any("usage" in note for note in result["notes"])


def test_usage_that_is_missing_is_marked(bench: Run) -> None:
    (result,) = bench(f"usage=0;{FAST}", *EIGHT).results
    assert result["tokens_from"] == "chunks"
    assert result["prompt_tokens"] is None


def test_several_tokens_in_a_chunk_give_a_true_time_per_token(bench: Run) -> None:
    (result,) = bench("each=2;first=0.05;gap=0.02;tokens=20", *EIGHT).results
    assert result["output_tokens"] == 160
    assert result["time_per_output_token_ms"]["p50"] == pytest.approx(180 / 19, abs=5)


def test_profiles_are_measured_side_by_side(bench: Run, server: str, tmp_path: Path) -> None:
    def profile(name: str, model: str) -> dict[str, Any]:
        return {"name": name, "openai_base_url": server, "model": model}

    state = tmp_path / "own" / "state"
    state.mkdir(parents=True)
    profiles = {"near": profile("near", FAST), "far": profile("far", "first=0.15;gap=0.01;tokens=10")}
    (state / "profiles.json").write_text(json.dumps({"schema_version": 1, "active": "near", "profiles": profiles}))
    near, far = bench("", "near", "far", "--concurrency", "2", "--requests", "8").results
    assert (near["target"], far["target"]) == ("near", "far")
    assert (near["requests"], far["requests"]) == (8, 8)
    assert far["time_to_first_token_ms"]["p50"] - near["time_to_first_token_ms"]["p50"] == pytest.approx(100, abs=60)
    assert bench("", *EIGHT).results[0]["target"] == "near"


def test_own_prompts_come_from_a_file(bench: Run, tmp_path: Path) -> None:
    path = tmp_path / "prompts with space ü.txt"
    path.write_text("eins\nzwei\n")
    assert bench(FAST, *EIGHT, "--prompts", str(path)).code == 0
    path.write_text("\n")
    assert bench(FAST, *EIGHT, "--prompts", str(path)).code == 2
    assert bench(FAST, *EIGHT, "--prompts", str(tmp_path / "none")).code == 2


def test_nothing_listening_is_counted_not_a_crash(bench: Run) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    ran = bench(FAST, *EIGHT, "--warmup", "0", url=url)
    assert ran.code == 1
    assert ran.results[0]["errors"] == 8
    assert ran.results[0]["error_kinds"].popitem()[0].startswith("no connection")


def test_nothing_listening_ends_it_at_the_warm_up_with_one_problem(bench: Run) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    ran = bench(FAST, *EIGHT, url=url)
    assert ran.code == 1
    (problem,) = ran.document["problems"]
    assert problem["code"] == "bench-errors"
    assert f"cannot be reached at {url}" in problem["what"]
    assert "results" not in ran.document


@pytest.mark.parametrize("value", ["0", "1,x", "", "5000", "-1"])
def test_a_wrong_concurrency_is_wrong_usage(bench: Run, value: str) -> None:
    assert bench(FAST, "--concurrency", value).code == 2


def test_without_any_endpoint_the_missing_flag_is_named(bench: Run) -> None:
    ran = bench("")
    assert ran.code == 2
    assert "--base-url" in ran.document["problems"][0]["what"]


def test_the_table_is_for_people_and_the_key_for_nobody(bench: Run) -> None:
    ran = bench(FAST, *EIGHT, plain=True, env={"LLM_SETUP_API_KEY": "sk-0123456789abcdef"})
    assert ran.code == 0
    # Sentences are broken by the terminal, and are whole where there is none.
    table = [line for line in ran.out.split("requests/s")[0].splitlines() if not line.startswith("  !")]
    assert any("between" in line for line in table)
    assert max(map(len, table)) <= 80
    assert "sk-0123456789abcdef" not in ran.out + ran.err


def test_help_has_an_example_and_fits_a_screen(bench: Run) -> None:
    ran = bench("", "--help")
    assert "Example:" in ran.out
    assert len(ran.out.splitlines()) <= 40


def test_conversations_of_an_agent_tell_a_new_beginning_from_one_sent_before(bench: Run) -> None:
    ran = bench(FAST, "--workload", "agent", "--cache", "both", "--concurrency", "2", "--requests", "10")
    cold, warm = ran.results
    assert ran.document["settings"]["prefix_tokens"] == 12_000
    assert (cold["cache"], warm["cache"]) == ("cold", "warm")
    assert cold["cold_time_to_first_token_ms"] and cold["warm_time_to_first_token_ms"]
    assert warm["cold_time_to_first_token_ms"] is None


def test_at_a_rate_requests_go_out_when_they_are_due(bench: Run, server: str) -> None:
    truth(server)
    (result,) = bench("first=0.3;gap=0.01;tokens=5", "--rate", "40", "--requests", "40", "--warmup", "0").results
    assert truth(server)["requests"] == 40
    assert result["request_rate_per_s"] == 40.0
    # One by one they would take 13 seconds.
    assert 0.5 < result["wall_s"] < 6
    assert result["concurrency"] > 4
    assert result["send_delay_ms"]["p50"] < 100


def test_files_are_written_in_the_kind_of_their_ending(bench: Run, tmp_path: Path) -> None:
    kinds = ("json", "csv", "md", "svg")
    ran = bench(FAST, *EIGHT, *(part for kind in kinds for part in ("--output", f"out.{kind}")))
    assert ran.code == 0
    texts = {kind: (tmp_path / f"out.{kind}").read_text() for kind in kinds}
    assert json.loads(texts["json"])["results"] == ran.results
    assert texts["csv"].startswith("target,concurrency,")
    assert texts["md"].startswith("| target |")
    assert texts["svg"].startswith("<svg ")


def test_prices_and_purposes_are_told_side_by_side(bench: Run, server: str, tmp_path: Path) -> None:
    def profile(name: str, model: str) -> dict[str, Any]:
        return {"name": name, "openai_base_url": server, "model": model}

    state = tmp_path / "own" / "state"
    state.mkdir(parents=True)
    profiles = {"near": profile("near", FAST), "far": profile("far", "first=0.4;gap=0.03;tokens=10")}
    (state / "profiles.json").write_text(json.dumps({"schema_version": 1, "active": "near", "profiles": profiles}))
    prices = ("--price", "near=1.5/h", "--price", "far=0.5/2")
    ran = bench("", "near", "far", "--concurrency", "2", "--requests", "12", *prices)
    ratios = {ratio["quantity"]: ratio for ratio in ran.document["ratios"]}
    first = ratios["time_to_first_token_ms"]
    assert first["low"] <= first["ratio"] <= first["high"]
    assert first["low"] > 1.5
    assert {cost["target"] for cost in ran.document["costs"]} == {"near", "far"}
    verdicts = {verdict["purpose"]: verdict["best"] for verdict in ran.document["verdicts"]}
    assert set(verdicts) == {"chat", "agent", "batch"}
    assert (verdicts["chat"], verdicts["agent"]) == ("near", "near")
    ways = {way["target"]: way for way in ran.document["network"]}
    assert ways["near"]["empty_request_ms"]["p50"] < 100
    assert ways["near"]["connect_ms"]["p50"] > 0


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(("--rate", "0"), id="rate"),
        pytest.param(("--max-tokens", "9-3"), id="bounds"),
        pytest.param(("--price", "near"), id="price"),
        pytest.param(("--output", "figures.txt"), id="kind"),
        pytest.param(("--output", "none/figures.md"), id="folder"),
        pytest.param(("--prompts", "x", "--workload", "agent"), id="two-workloads"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_sent(
    bench: Run, server: str, wrong: tuple[str, ...]
) -> None:
    truth(server)
    assert bench(FAST, *wrong).code == 2
    assert truth(server)["requests"] == 0
