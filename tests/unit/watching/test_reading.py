"""What happened between two looks at a server's metrics."""

from __future__ import annotations

from typing import Any

import pytest

from wizard.serving.metrics import known_metrics
from wizard.watching.gpus import parse_gpu_lines
from wizard.watching.reading import Snapshot, parse_snapshot, read_window
from wizard.watching.show import Watched, gpu_line, notes, server_cells, server_columns, server_line, table_of


def body(tokens: int, *, fast: int = 0, slow: int = 0, started: float | None = None, **more: float) -> str:
    """Metrics of one engine: `fast` first tokens within 0.1 s, `slow` ones within a second."""
    lines = [
        'vllm:num_requests_running{engine="0"} 2.0',
        'vllm:num_requests_waiting{engine="0"} 0.0',
        'vllm:kv_cache_usage_perc{engine="0"} 0.25',
        f'vllm:generation_tokens_total{{engine="0"}} {tokens}',
        f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.1"}} {fast}',
        f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="1.0"}} {fast + slow}',
        f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf"}} {fast + slow}',
        *(f"vllm:{name} {value}" for name, value in more.items()),
    ]
    if started is not None:
        lines.append(f"process_start_time_seconds {started}")
    return "\n".join(lines) + "\n"


def look(at_s: float, tokens: int, **how: Any) -> Snapshot:
    return parse_snapshot(body(tokens, **how), at_s)


def test_rates_and_percentiles_are_of_the_window() -> None:
    reading = read_window([look(0, 1000, fast=100), look(10, 1500, fast=100, slow=10)], 5)
    assert reading.window_s == 10
    assert reading.output_tokens_per_s == 50
    first = reading.percentile("time_to_first_token", 50)
    assert first is not None
    assert first.value == pytest.approx(0.55)


def test_the_window_begins_at_the_last_look_that_is_old_enough() -> None:
    looks = [look(0, 0), look(10, 100), look(20, 400), look(25, 500)]
    assert read_window(looks, 5).output_tokens_per_s == 20
    assert read_window(looks, 12).window_s == 15
    assert read_window(looks, 100).window_s == 25
    assert read_window(looks, 0).window_s == 5


def test_a_first_look_is_over_all_of_its_life_and_has_no_rates() -> None:
    reading = read_window([look(0, 1000, fast=10)], 30)
    assert reading.window_s is None
    assert reading.output_tokens_per_s is None
    assert reading.percentile("time_to_first_token", 50) is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"tokens": 900, "fast": 50}, {"tokens": 100, "slow": 2}, id="counters fell"),
        pytest.param(
            {"tokens": 50, "fast": 1, "started": 1000.0},
            {"tokens": 100, "fast": 1, "slow": 2, "started": 1060.0},
            id="it says when it began, and has overtaken its old counters",
        ),
    ],
)
def test_a_server_that_began_anew_counts_from_there(before: dict[str, Any], after: dict[str, Any]) -> None:
    reading = read_window([look(0, **before), look(10, **after)], 5)
    assert reading.output_tokens_per_s == 10
    assert reading.restarts == 1
    slow = reading.percentile("time_to_first_token", 99)
    assert slow is not None
    assert slow.value > 0.9


def test_prefix_hits_are_those_of_the_window() -> None:
    before = look(0, 0, prefix_cache_queries_total=1000, prefix_cache_hits_total=0)
    now = look(5, 0, prefix_cache_queries_total=1100, prefix_cache_hits_total=90)
    assert read_window([before, now], 5).prefix_hit_rate == 0.9


def test_engines_of_one_server_are_added() -> None:
    two = body(100, fast=10) + body(100, fast=10).replace('engine="0"', 'engine="1"')
    snapshot = parse_snapshot(two, 0)
    assert snapshot.counters["generation_tokens"] == 200
    assert snapshot.histograms["time_to_first_token"].count == 20


def test_old_names_are_known() -> None:
    old = 'vllm:time_per_output_token_seconds_bucket{le="0.05"} 7\nvllm:gpu_cache_usage_perc 0.5\n'
    snapshot = parse_snapshot(old, 0)
    assert snapshot.histograms["inter_token_latency"].count == 7
    assert snapshot.load.kv_cache_usage == 0.5


def test_each_quantity_has_a_name_that_a_present_release_has() -> None:
    for metric in known_metrics().values():
        assert all(name.startswith("vllm:") for name in metric.names)
        assert metric.kind != "counter" or metric.names[0].endswith("_total"), metric.quantity


def test_another_programs_metrics_are_no_snapshot() -> None:
    assert not parse_snapshot("http_requests_total 5\nprocess_start_time_seconds 3\n", 0).has_metrics


def test_json_has_every_time_also_where_nothing_happened() -> None:
    document = read_window([look(0, 5)], 5).as_json()
    assert document["time_to_first_token_ms"] is None
    assert document["requests_running"] == 2


def test_a_row_has_a_cell_for_each_head() -> None:
    reading = read_window([look(0, 0), look(5, 100, slow=3)], 5)
    for server in (Watched("a", "http://a", reading), Watched("b", "http://b", None, "does not answer")):
        assert len(server_cells(server)) == len(server_columns())
    assert "tokens/s 20.0" in server_line(Watched("a", "http://a", reading))


def test_a_narrow_terminal_has_a_column_for_each_server() -> None:
    reading = read_window([look(0, 0), look(5, 100, slow=3)], 5)
    servers = [Watched("a", "u", reading), Watched("b", "u", reading), Watched("gone", "u", None, "no")]
    assert [row[0] for row in table_of(servers, 200)] == ["server", "a", "b"]
    assert table_of(servers, 80)[0] == ("server", "a", "b")
    assert "running" in [row[0] for row in table_of(servers, 80)]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param({"num_preemptions_total": 4}, "preemptions", id="preemptions"),
        pytest.param({}, "", id="nothing"),
    ],
)
def test_what_is_wrong_is_said(more: dict[str, float], said: str) -> None:
    earlier = look(0, 0, **dict.fromkeys(more, 0))
    told = notes([Watched("a", "u", read_window([earlier, look(5, 9, **more)], 5))])
    assert (said in told[0]) if said else not told


def test_waiting_beside_an_empty_cache_names_the_limit() -> None:
    text = body(1).replace('waiting{engine="0"} 0.0', 'waiting{engine="0"} 9.0')
    (note,) = notes([Watched("a", "u", read_window([parse_snapshot(text, 0)], 5))])
    assert "--max-num-seqs" in note


def test_the_newest_reading_of_each_gpu_counts() -> None:
    lines = [
        '{"event": "gpu", "index": 0, "name": "H200", "used": 1073741824, "total": 2147483648, "power_mw": 90000}',
        "half a li",
        '{"event": "gpu", "index": 0, "name": "H200", "used": 2147483648, "total": 2147483648, "power_mw": 350500}',
        '{"event": "gpu", "index": 1, "name": "T4"}',
    ]
    first, second = parse_gpu_lines(lines)
    assert (first.memory_used_gib, first.power_w) == (2.0, 350.5)
    assert second.power_w is None
    assert gpu_line(second) == "GPU 1 T4"
    assert "2.0 / 2.0 GiB, 350 W" in gpu_line(first)
