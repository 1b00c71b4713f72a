"""What a vLLM server's metrics say that its answers do not: a queue that grows, a prefix cache that never hits."""

from __future__ import annotations

from wizard.doctor.causes import found
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.observations import Observations
from wizard.i18n import t
from wizard.serving.metrics import parse_load

# Enough prompts that a shared beginning would have hit, in tokens queried.
_MIN_QUERIED_TOKENS = 20_000
_NEVER = 0.01
_FULL = 0.97


def server_load(seen: Observations) -> Verdict:
    """Queue, KV cache and prefix cache of the server."""
    reply = seen.reply("metrics")
    if reply is None or reply.status != 200 or "vllm:" not in reply.text:
        return Unseen(t("the server shows no vLLM metrics"))
    load = parse_load(reply.text)
    problems = []
    if load.requests_waiting:
        full = load.kv_cache_usage is not None and load.kv_cache_usage >= _FULL
        problems.append(
            found(
                "server-queue",
                t("{count} requests wait for the server.", count=load.requests_waiting),
                t("running: {count}", count=load.requests_running),
                t("KV cache: {share:.0%} used", share=load.kv_cache_usage) if load.kv_cache_usage is not None else "",
                severity="warning" if full or load.requests_waiting > 4 else "info",
            )
        )
    rate = load.prefix_hit_rate
    if rate is not None and rate < _NEVER and (load.prefix_queried_tokens or 0) >= _MIN_QUERIED_TOKENS:
        problems.append(
            found(
                "prefix-cache-misses",
                t(
                    "Of {queried} prompt tokens none were found in the prefix cache.",
                    queried=load.prefix_queried_tokens,
                ),
                t("vllm:prefix_cache_hits_total: {hits}", hits=load.prefix_hit_tokens),
                severity="info",
            )
        )
    return tuple(problems)


CHECKS = (Check("load", "The server keeps up", server_load, "target"),)
