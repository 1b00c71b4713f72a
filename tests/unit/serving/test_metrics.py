"""A server's load from its metrics, of versions old and new."""

from __future__ import annotations

from wizard.serving.metrics import Load, parse_load

NOW = """\
# HELP vllm:num_requests_running Number of requests
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 600.0
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.79e+09
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 512.0
vllm:cache_config_info{block_size="128",kv_cache_size_tokens="46592"} 1.0
"""


def test_load_of_a_present_version() -> None:
    load = parse_load(NOW)
    assert load == Load(3, 2, 0.5, 46592, 600, 512)
    assert load.as_json()["prefix_cache_hit_rate"] == 0.8533


def test_older_names_are_known() -> None:
    load = parse_load(
        "vllm:gpu_cache_usage_perc{} 0.25\nvllm:gpu_prefix_cache_queries_total 10\nvllm:gpu_prefix_cache_hits_total 5\n"
    )
    assert (load.kv_cache_usage, load.prefix_hit_rate) == (0.25, 0.5)


def test_engines_are_added_and_the_fullest_cache_counts() -> None:
    load = parse_load(NOW + NOW.replace('engine="0"', 'engine="1"').replace(" 0.5", " 0.9"))
    assert (load.requests_running, load.kv_cache_usage, load.kv_cache_tokens) == (6, 0.9, 93184)


def test_what_is_not_said_is_not_zero() -> None:
    assert parse_load("garbage {\nvllm:num_requests_running nonsense\nvllm:kv_cache_usage_perc NaN\n") == Load()
    assert parse_load("vllm:prefix_cache_queries_total 0\nvllm:prefix_cache_hits_total 0\n").prefix_hit_rate is None
