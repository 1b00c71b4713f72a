"""What changed between vLLM's versions, as rows: rule, first version, value, where it was read.

A version that is not here behaves as the newest row at or below it, so an unreleased one behaves as the newest known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from wizard.i18n import t
from wizard.problems import usage_error

Sampler = Literal["sort", "triton", "flashinfer"]
Runner = Literal["v1", "v2"]


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A vLLM release, compared by its first three numbers; `text` is what the user wrote."""

    numbers: tuple[int, int, int]
    text: str = ""

    def __str__(self) -> str:
        return self.text or ".".join(map(str, self.numbers))


# The newest one whose rules were read; and the one that llm-setup installs and plans for when none is named.
NEWEST_KNOWN = Version((0, 33, 0), "0.33.0")
TESTED_VERSION = Version((0, 32, 0), "0.32.0")


def parse_version(text: str) -> Version:
    """`0.19.0`, `v0.26.1rc1.dev608`, `0.28` as a Version. Raises a usage error for anything else."""
    match = re.fullmatch(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[.+-]?[0-9A-Za-z.+-]*)", text.strip())
    if not match:
        raise usage_error(
            "bad-vllm-version",
            t("`{text}` is no vLLM version.", text=text[:60]),
            t("Write it like `{version}`, which is taken where none is named.", version=TESTED_VERSION.text),
        )
    major, minor, patch = match.groups()
    return Version((int(major), int(minor), int(patch or 0)), text.strip().removeprefix("v"))


def is_unread(version: Version) -> bool:
    """Whether it is newer than the newest one whose rules were read (another patch of that one is not)."""
    return version.numbers[:2] > NEWEST_KNOWN.numbers[:2]


@dataclass(frozen=True, slots=True)
class Row:
    """From version `since` on, `rule` is `value`; `source` is the file of vLLM's own repository that says so."""

    rule: str
    since: tuple[int, int, int]
    value: float | int | str | bool
    source: str


ROWS: tuple[Row, ...] = (
    Row("default-utilization", (0, 0, 0), 0.90, "vllm/config/cache.py v0.8.5 to v0.19.0"),
    Row("default-utilization", (0, 20, 0), 0.92, "vllm/config/cache.py v0.20.0"),
    # The engine. V0's scheduler profiles a whole context at once where chunked prefill is off.
    Row("engine", (0, 0, 0), "v0", "vllm/envs.py v0.7.3: VLLM_USE_V1 is off"),
    Row("engine", (0, 8, 0), "v1", "vllm/envs.py v0.8.5: VLLM_USE_V1 is on"),
    # How the size of the KV cache is printed: blocks shared evenly between groups, or concurrency times length.
    Row("printed-size", (0, 0, 0), "blocks", "vllm/v1/core/kv_cache_utils.py v0.20.0 _report_kv_cache_config"),
    Row(
        "printed-size", (0, 20, 2), "concurrency", "vllm/v1/core/kv_cache_utils.py; PR 40694; start-up logs of v0.20.2"
    ),
    Row("graphs-reserved", (0, 0, 0), False, "vllm/envs.py v0.19.0 VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"),
    Row("graphs-reserved", (0, 20, 0), True, "vllm/envs.py v0.20.0 VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"),
    # The second runner's estimate was a stub for a while.
    Row("v2-graphs-reserved", (0, 0, 0), False, "vllm/v1/worker/gpu/model_runner.py v0.28.0 profile_cudagraph_memory"),
    Row("v2-graphs-reserved", (0, 29, 0), True, "vllm/v1/worker/gpu/cudagraph_utils.py v0.29.0; PR 53306"),
    # Whether layers of several kinds get groups of their own, or all count as full attention.
    Row("groups", (0, 0, 0), False, "vllm/v1/core/kv_cache_utils.py v0.8.5 unify_hybrid_kv_cache_specs"),
    Row("groups", (0, 9, 2), True, "vllm/v1/core/kv_cache_utils.py v0.9.2 _get_kv_cache_config_uniform_page_size"),
    Row("chunked-groups", (0, 0, 0), False, "vllm/envs.py v0.13.0 VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE"),
    Row("chunked-groups", (0, 14, 0), True, "vllm/envs.py v0.15.0 VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE"),
    # Layers of one kind per group: the smallest bucket, or the largest where it is not much larger.
    Row("group-ratio", (0, 0, 0), 1.0, "vllm/v1/core/kv_cache_utils.py v0.11.2"),
    Row("group-ratio", (0, 12, 0), 1.25, "vllm/v1/core/kv_cache_utils.py v0.12.0"),
    Row("group-ratio", (0, 18, 0), 1.5, "vllm/v1/core/kv_cache_utils.py v0.18.0"),
    # Batches in flight that a sliding window must hold.
    Row("in-flight-batches", (0, 0, 0), 1, "vllm/v1/kv_cache_interface.py v0.25.0 SlidingWindowSpec"),
    Row("in-flight-batches", (0, 26, 0), 2, "vllm/config/vllm.py v0.26.0 max_in_flight_tokens"),
    Row("null-block", (0, 0, 0), 0, "vllm/v1/core/kv_cache_utils.py v0.28.0"),
    Row("null-block", (0, 29, 0), 1, "vllm/v1/core/kv_cache_utils.py v0.29.0 get_kv_cache_configs"),
    Row("need-by-group", (0, 0, 0), False, "vllm/v1/core/kv_cache_utils.py v0.13.0 check_enough_kv_cache_memory"),
    Row("need-by-group", (0, 14, 0), True, "vllm/v1/core/kv_cache_utils.py v0.14.0 get_kv_cache_configs"),
    Row("yarn-stretches", (0, 0, 0), True, "vllm/config/model.py v0.29.0 _get_and_verify_max_len"),
    Row("yarn-stretches", (0, 30, 0), False, "vllm/config/model.py v0.30.0 _get_and_verify_max_len"),
    Row("auto-max-model-len", (0, 0, 0), False, "vllm/v1/core/kv_cache_utils.py v0.13.0"),
    Row("auto-max-model-len", (0, 14, 0), True, "vllm/v1/core/kv_cache_utils.py v0.14.0 _auto_fit_max_model_len"),
    # Each sequence of a hybrid model needs a block of its own for graph capture; before, the graphs were cut back.
    Row(
        "block-a-sequence",
        (0, 0, 0),
        False,
        "vllm/config/compilation.py v0.19.0 adjust_cudagraph_sizes_for_mamba_cache",
    ),
    Row("block-a-sequence", (0, 21, 0), True, "vllm/config/compilation.py v0.21.0"),
    # Prefix caching of recurrent layers keeps two states a request instead of one.
    Row("recurrent-states", (0, 0, 0), 1, "vllm/config/model.py v0.25.0 is_prefix_caching_supported"),
    Row("recurrent-states", (0, 26, 0), 2, "vllm/config/model.py v0.26.0; models/config.py: mamba_cache_mode align"),
    # One state more with prefix caching, where a prefill stores the state at a block's end on its way.
    Row("mamba2-checkpoint", (0, 0, 0), 0, "PR 57329: open on 2026-09-17"),
    Row(
        "mamba2-checkpoint", (0, 32, 0), 1, "vllm/model_executor/layers/mamba/mamba_mixer2.py v0.32.0 get_kv_cache_spec"
    ),
    # Profiling's sampler. Up to 0.11.0 FlashInfer is used where the installation happens to have it.
    Row("sampler", (0, 0, 0), "sort", "vllm/v1/sample/ops/topk_topp_sampler.py v0.10.2, without FlashInfer"),
    Row("sampler", (0, 11, 0), "flashinfer", "vllm/v1/sample/ops/topk_topp_sampler.py v0.11.0, in its image"),
    Row("sampler", (0, 11, 1), "sort", "vllm/v1/sample/ops/topk_topp_sampler.py v0.11.2 to v0.16.0"),
    Row("sampler", (0, 17, 0), "triton", "vllm/v1/sample/ops/topk_topp_sampler.py v0.17.0 apply_top_k_top_p_triton"),
    Row("sampler", (0, 21, 0), "flashinfer", "vllm/envs.py v0.21.0 VLLM_USE_FLASHINFER_SAMPLER"),
    # Whether that depends on what lies beside vLLM: its image brings FlashInfer, its wheel on PyPI does not.
    Row("sampler-by-chance", (0, 0, 0), False, "vllm/v1/sample/ops/topk_topp_sampler.py v0.10.2: only where asked for"),
    Row("sampler-by-chance", (0, 11, 0), True, "vllm/v1/sample/ops/topk_topp_sampler.py v0.11.0"),
    Row(
        "sampler-by-chance", (0, 11, 1), False, "vllm/v1/sample/ops/topk_topp_sampler.py v0.11.2: only where asked for"
    ),
    Row("moe-workspace-kept", (0, 0, 0), False, "vllm/model_executor/layers/fused_moe v0.12.0"),
    Row("moe-workspace-kept", (0, 13, 0), True, "vllm/v1/worker/workspace.py v0.13.0"),
    # Which models the second model runner takes by default.
    Row("runner", (0, 0, 0), "v1", "vllm/envs.py v0.21.0 VLLM_USE_V2_MODEL_RUNNER"),
    Row("runner", (0, 22, 0), "v2-qwen3", "vllm/config/vllm.py v0.22.0 DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES"),
    Row("runner", (0, 23, 0), "v2-plain", "vllm/config/vllm.py v0.23.0 DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES"),
    Row("runner", (0, 25, 0), "v2-dense", "vllm/config/vllm.py v0.25.0 _is_default_v2_model_runner_model"),
    Row("runner", (0, 29, 0), "v2", "vllm/config/vllm.py v0.29.0 use_v2_model_runner"),
    # Bytes of a logit that the second runner's profile needs: bf16 with an fp32 copy, later without.
    Row("v2-logit-bytes", (0, 0, 0), 6, "vllm/v1/worker/gpu/sample/sampler.py v0.25.0 apply_sampling_params"),
    Row("v2-logit-bytes", (0, 28, 0), 2, "vllm/v1/worker/gpu/sample/sampler.py v0.28.0 needs_logits_processing"),
    # Tables that live beside the model are seen by the profile once it compares free memory instead of adding up parts.
    Row("consumed-by-free-memory", (0, 0, 0), False, "vllm/v1/worker/gpu_worker.py v0.26.0: weights, non-torch, peak"),
    Row("consumed-by-free-memory", (0, 27, 0), True, "vllm/v1/worker/gpu_worker.py v0.27.0: consumed memory"),
    # FlashInfer's buffers for all-reduce with norm, on Hopper and data-centre Blackwell.
    Row("fused-all-reduce", (0, 0, 0), False, "vllm/config/vllm.py v0.15.0 OPTIMIZATION_LEVEL_02"),
    Row("fused-all-reduce", (0, 17, 0), True, "vllm/config/vllm.py v0.17.0 enable_allreduce_rms_fusion"),
)


def rule(version: Version, name: str) -> float | int | str | bool:
    """The value of a rule for a version."""
    return max((row for row in ROWS if row.rule == name and row.since <= version.numbers), key=lambda r: r.since).value


def default_utilization(version: Version) -> float:
    """`--gpu-memory-utilization` where it is not given."""
    return float(rule(version, "default-utilization"))


def sampler(version: Version) -> Sampler:
    """The implementation of top-k and top-p that the profile runs."""
    value = rule(version, "sampler")
    return "sort" if value == "sort" else "triton" if value == "triton" else "flashinfer"


_V2_PLAIN = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen3ForCausalLM"})
_V2_EVEN_MOE = frozenset(
    {"DeepseekV2ForCausalLM", "DeepseekV4ForCausalLM", "GraniteMoeForCausalLM", "Qwen2MoeForCausalLM"}
)


def runner(version: Version, architecture: str, *, moe: bool, hybrid: bool, quantised: bool) -> Runner:
    """The model runner that this version takes for a model by default (vllm/config/vllm.py use_v2_model_runner)."""
    stage = rule(version, "runner")
    if stage == "v2":
        return "v2"
    if stage == "v2-dense" and not hybrid and (not moe or architecture in _V2_EVEN_MOE):
        return "v2"
    plain = not moe and not quantised
    if stage == "v2-plain" and plain and architecture in _V2_PLAIN:
        return "v2"
    if stage == "v2-qwen3" and plain and architecture == "Qwen3ForCausalLM":
        return "v2"
    return "v1"
