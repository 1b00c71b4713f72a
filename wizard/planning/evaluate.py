"""What comes of a set of engine settings: budget, cache size with its range, and whether the server starts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from wizard.hardware.machine import GIB
from wizard.i18n import t
from wizard.planning.adapters import NO_ADAPTERS, Adapters
from wizard.planning.architectures import last_version
from wizard.planning.facts import ModelFacts
from wizard.planning.kv import CacheSetup, KvLayout, kv_layout
from wizard.planning.measured import MeasuredStart, start_key
from wizard.planning.memory import Budget, Engine, Rank, memory_budget, rank_weights_gib
from wizard.planning.speculation import NO_DRAFT, Draft
from wizard.planning.versions import Version, is_unread, parse_version, rule
from wizard.problems import Fix, Problem

Device = Literal["cuda", "rocm", "xpu", "cpu"]

# A range of so many standard errors held nine of ten real starts.
_RANGE_SIGMAS = 1.65
# What a recommendation counts on, beside half of what compiling may take: one start in six has less.
_CAREFUL_SIGMAS = 1.0
# Versions differ by more than starts of one version do; so much wider is the range when nobody said which will run.
_UNKNOWN_VERSION = 2.5
# From one start to the next of the same settings.
_MEASURED_SIGMA_GIB = 0.05
# What CUDA's context, and an allocator's rounding, take outside of what vLLM requests.
CONTEXT_GIB = 0.45
# What a CPU server holds beside weights and cache: three processes, libraries, activations; measured with 0.32.
CPU_OVERHEAD_GIB = 3.5
# A share of a GPU that is not worth asking for.
_LEAST_SHARE = 0.05
# Taken after the cache by MXFP4 experts; see `_graphs_refusal`.
_MXFP4_UNSEEN_GIB = 3.0


@dataclass(frozen=True, slots=True)
class Knobs:
    """The settings that decide about memory; what is None is vLLM's own default. Sizes: tokens, sequences, GiB.

    total_gib, free_gib: of one GPU, or of the CPU's RAM. max_model_len: 0 asks for the longest that fits, up to limit.
    kv_space_gib: of a CPU's cache. kv_bytes_pinned: `--kv-cache-memory-bytes`.
    """

    version: Version
    device: Device
    total_gib: float
    free_gib: float | None
    utilization: float
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    dtype: str = "bfloat16"
    kv_cache_dtype: str = "auto"
    enforce_eager: bool = False
    block_size: int | None = None
    grouping: bool = True
    prefix_caching: bool | None = None
    async_scheduling: bool = True
    kv_space_gib: float | None = None
    kv_bytes_pinned: int | None = None
    blocks_pinned: int | None = None
    capability: tuple[int, int] | None = None
    nvlink: bool | None = None
    wsl: bool = False
    unified_memory: bool = False
    skip_vision: bool = False
    version_told: bool = True
    amx: bool = False
    wide_states: bool = False
    draft: Draft = NO_DRAFT
    gpu_name: str = ""
    cpu_offload_gib: float = 0.0
    adapters: Adapters = NO_ADAPTERS
    starts: tuple[MeasuredStart, ...] = ()

    def key(self, model: str) -> str:
        """What a measured start of these settings is kept under."""
        adapters = f" + {self.adapters.at_once} adapters of {self.adapters.rank}" if self.adapters.at_once else ""
        if self.draft.tokens:
            adapters += f" + {self.draft.layers} draft layers, {self.draft.tokens} tokens"
        return start_key(
            model + adapters,
            str(self.version),
            self.gpu_name,
            (self.tensor_parallel, self.pipeline_parallel),
            (self.max_num_batched_tokens, self.max_num_seqs),
            self.dtype,
            self.enforce_eager,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The settings' outcome. blocks, tokens: what the log will say; low and high hold 90% of real starts.

    longest: the longest request that fits, longest_low: with memory a standard error less.
    refusal: why it does not start.
    """

    knobs: Knobs
    max_model_len: int
    budget: Budget
    layout: KvLayout
    blocks: int
    tokens: int
    tokens_low: int
    tokens_high: int
    concurrency: float
    longest: int
    longest_low: int
    refusal: Problem | None

    @property
    def starts(self) -> bool:
        """Whether the server is expected to start and to run."""
        return self.refusal is None


def default_batch(
    version: Version, device: Device, total_gib: float, gpu_name: str, world_size: int
) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) where neither is given, for the API server.

    vLLM 0.32 engine/arg_utils.py `get_batch_defaults`. V0 had one for all; the row of 160 GiB appeared in 0.28, GB10
    left in 0.33.
    """
    if device == "cpu":
        return 2048 * world_size, 128 * world_size
    if rule(version, "engine") == "v0":
        return 2048, 256
    if total_gib >= 160 and version.numbers >= (0, 28, 0):
        return 16384, 1024
    small = "gb10" in gpu_name.lower() and version.numbers >= (0, 33, 0)
    if total_gib >= 70 and "a100" not in gpu_name.lower() and not small:
        return 8192, 1024
    return 2048, 256


def cache_setup(facts: ModelFacts, knobs: Knobs, length: int) -> CacheSetup:
    """The cache's settings for a context of `length` tokens."""
    batches = int(rule(knobs.version, "in-flight-batches"))
    prefix_caching = knobs.prefix_caching
    tokens = knobs.max_num_batched_tokens
    base = knobs.block_size or 16
    if knobs.device == "cpu":
        # Platforms/cpu.py of vLLM 0.32: no scheduling ahead; its reference kernels of latent attention take blocks of
        # 16 tokens and whole prompts.
        batches = 1
        base = knobs.block_size or 128
        if facts.is_mla and not knobs.amx:
            base, prefix_caching, tokens = 16, False, max(length, 2048)
    elif not knobs.async_scheduling:
        batches = 1
    elif batches > 1 and knobs.pipeline_parallel > 1:
        batches = knobs.pipeline_parallel + 1
    if not facts.is_hybrid:
        prefix_caching = None
    return CacheSetup(
        version=knobs.version,
        tensor_parallel=knobs.tensor_parallel,
        pipeline_parallel=knobs.pipeline_parallel,
        context_parallel=knobs.context_parallel,
        kv_cache_dtype=knobs.kv_cache_dtype,
        model_dtype=knobs.dtype,
        base_block=base,
        in_flight_tokens=batches * tokens,
        grouping=knobs.grouping,
        prefix_caching=prefix_caching,
        speculative_tokens=knobs.draft.tokens,
        draft_layers=knobs.draft.layers,
        wide_states=knobs.wide_states,
    )


def evaluate(facts: ModelFacts, knobs: Knobs) -> Outcome:
    """The outcome of these settings for this model."""
    length = knobs.max_model_len or facts.max_position
    budget = _cpu_budget(facts, knobs) if knobs.device == "cpu" else _gpu_budget(facts, knobs, length)
    layout = kv_layout(facts, cache_setup(facts, knobs, length))
    exact = knobs.kv_bytes_pinned is not None or knobs.device == "cpu"
    guessed = not budget.measured and (not knobs.version_told or is_unread(knobs.version))
    spread = 0.0 if exact else _RANGE_SIGMAS * budget.sigma_gib * (_UNKNOWN_VERSION if guessed else 1.0)
    longest = layout.longest(_bytes(knobs, budget), facts.max_position)
    # The first start of these settings compiles.
    careful = 0.0 if exact else _CAREFUL_SIGMAS * budget.sigma_gib + budget.cold_gib / 2
    below = 0.0 if exact else math.hypot(spread, budget.cold_gib)
    above = 0.0 if exact else math.hypot(spread, budget.warm_gib)
    longest_low = layout.longest(_bytes(knobs, budget, -careful), facts.max_position)
    if not knobs.max_model_len:
        length = max(1, longest)
    blocks = knobs.blocks_pinned or layout.blocks(_bytes(knobs, budget))
    tokens = layout.printed_tokens(blocks, length)
    low = layout.printed_tokens(layout.blocks(_bytes(knobs, budget, -below)), length)
    high = layout.printed_tokens(layout.blocks(_bytes(knobs, budget, above)), length)
    return Outcome(
        knobs=knobs,
        max_model_len=length,
        budget=budget,
        layout=layout,
        blocks=blocks,
        tokens=tokens,
        tokens_low=min(low, tokens),
        tokens_high=max(high, tokens),
        concurrency=layout.concurrency(blocks, length),
        longest=longest,
        longest_low=longest_low,
        refusal=_refusal(facts, knobs, budget, layout, length, longest),
    )


def _bytes(knobs: Knobs, budget: Budget, shift_gib: float = 0.0) -> tuple[int, ...]:
    if knobs.kv_bytes_pinned is not None:
        return (knobs.kv_bytes_pinned,) * len(budget.ranks)
    return budget.kv_bytes(shift_gib)


def _gpu_budget(facts: ModelFacts, knobs: Knobs, length: int) -> Budget:
    estimate = memory_budget(
        facts,
        Engine(
            version=knobs.version,
            total_gib=knobs.total_gib,
            utilization=knobs.utilization,
            tensor_parallel=knobs.tensor_parallel,
            pipeline_parallel=knobs.pipeline_parallel,
            max_num_seqs=knobs.max_num_seqs,
            max_num_batched_tokens=knobs.max_num_batched_tokens,
            max_model_len=length,
            dtype=knobs.dtype,
            enforce_eager=knobs.enforce_eager,
            capability=knobs.capability,
            nvlink=knobs.nvlink,
            wsl=knobs.wsl,
            unified_memory=knobs.unified_memory,
            skip_vision=knobs.skip_vision,
            cpu_offload_gib=knobs.cpu_offload_gib,
            adapters=knobs.adapters,
            draft=knobs.draft,
        ),
    )
    key = knobs.key(facts.serve_as)
    start = next((start for start in knobs.starts if start.key == key), None)
    return estimate if start is None else _as_measured(estimate, start)


def _as_measured(estimate: Budget, start: MeasuredStart) -> Budget:
    """The budget with what a real start used; the parts that its log did not tell keep their estimates."""
    weights = estimate.weights_gib if start.weights_gib is None else start.weights_gib
    known = weights + estimate.activation_gib + estimate.graphs_gib
    kv = estimate.requested_gib - start.rest_gib
    return replace(
        estimate,
        weights_gib=weights,
        other_gib=max(0.0, start.rest_gib - known),
        activation_gib=estimate.activation_gib + min(0.0, start.rest_gib - known),
        ranks=tuple(replace(rank, kv_gib=kv) for rank in estimate.ranks),
        sigma_gib=_MEASURED_SIGMA_GIB,
        cold_gib=0.0,
        warm_gib=0.0,
        measured=True,
    )


def _cpu_budget(facts: ModelFacts, knobs: Knobs) -> Budget:
    """On a CPU the cache is what `VLLM_CPU_KVCACHE_SPACE` says (whole GiB, for each rank); platforms/cpu.py, 0.32."""
    engine = Engine(
        knobs.version,
        knobs.total_gib,
        1.0,
        tensor_parallel=knobs.tensor_parallel,
        pipeline_parallel=knobs.pipeline_parallel,
        dtype=knobs.dtype,
        draft=knobs.draft,
    )
    space = knobs.kv_space_gib or 0.0
    ranks = tuple(Rank(weight, 0.0, space) for weight in rank_weights_gib(facts, engine))
    weights = max(rank.weights_gib for rank in ranks)
    return Budget(
        requested_gib=weights + space + CPU_OVERHEAD_GIB,
        weights_gib=weights,
        activation_gib=0.0,
        graphs_gib=0.0,
        graphs_real_gib=0.0,
        other_gib=CPU_OVERHEAD_GIB,
        ranks=ranks,
        sigma_gib=0.0,
    )


def _refusal(
    facts: ModelFacts, knobs: Knobs, budget: Budget, layout: KvLayout, length: int, longest: int
) -> Problem | None:
    """Why the server would not start, or None. The codes are those of the server's own deaths."""
    if (cannot := _unsupported(facts, knobs)) is not None:
        return cannot
    heads = facts.attention_heads
    if heads % knobs.tensor_parallel:
        return Problem(
            "tp-heads-not-divisible",
            t("{heads} attention heads cannot be shared by {tp} GPUs.", heads=heads, tp=knobs.tensor_parallel),
            t("Each GPU takes the same number of heads."),
            fix=Fix(t("Choose a tensor parallel size that divides {heads}.", heads=heads)),
        )
    if length > facts.max_position:
        return Problem(
            "max-model-len-above-model",
            t(
                "A context of {length} tokens is more than the model's {limit}.",
                length=f"{length:,}",
                limit=f"{facts.max_position:,}",
            ),
            t("vLLM refuses it, because positions that the model never saw give bad text."),
            fix=Fix(t("Ask for at most {limit} tokens.", limit=f"{facts.max_position:,}")),
        )
    if knobs.device == "cpu":
        return _cpu_refusal(knobs, budget) or _short(knobs, budget, layout, length, longest)
    if knobs.free_gib is not None and knobs.free_gib < knobs.total_gib * knobs.utilization:
        return Problem(
            "gpu-memory-in-use",
            t(
                "vLLM would ask for {asked:.1f} GiB of each GPU, of which {free:.1f} GiB are free.",
                asked=knobs.total_gib * knobs.utilization,
                free=knobs.free_gib,
            ),
            t("It refuses to start when less is free than its share (`--gpu-memory-utilization`)."),
            fix=Fix(_less_asked(knobs.total_gib, knobs.free_gib)),
        )
    if budget.kv_gib <= 0 and knobs.kv_bytes_pinned is None:
        return Problem(
            "cuda-oom",
            t(
                "The weights ({weights:.1f} GiB on each GPU) leave no room in {budget:.1f} GiB.",
                weights=budget.weights_gib,
                budget=budget.requested_gib,
            ),
            t("Beside the weights, a server needs room for activations and for the context of its requests."),
            fix=Fix(_more_room(knobs, budget)),
        )
    return (
        _short(knobs, budget, layout, length, longest)
        or _states_refusal(facts, knobs, budget, layout)
        or _graphs_refusal(facts, knobs, budget)
    )


def _less_asked(total_gib: float, free_gib: float) -> str:
    """What to do where less is free than vLLM asks for: a share that is free, where one is worth having."""
    share = math.floor(100 * (free_gib - CONTEXT_GIB) / total_gib) / 100
    if share < _LEAST_SHARE:
        return t("Free the {held:.1f} GiB that other programs hold on each GPU.", held=total_gib - free_gib)
    return t("Free memory, or ask for less: `--gpu-memory-utilization {value:.2f}`.", value=share)


def _more_room(knobs: Knobs, budget: Budget) -> str:
    """What to do about weights that leave no room: first of all with what others hold, where that would be enough."""
    held = knobs.total_gib - knobs.free_gib if knobs.free_gib is not None else 0.0
    if held > 1 and budget.kv_gib + held > 0:
        return t(
            "Free the {held:.1f} GiB that other programs hold on each GPU, or choose a smaller variant.", held=held
        )
    return t("Use more GPUs, a quantised variant, or a smaller model.")


def _unsupported(facts: ModelFacts, knobs: Knobs) -> Problem | None:
    """What this version, or this GPU, cannot do at all."""
    last = last_version(facts.architecture)
    if last is not None and knobs.version.numbers[:2] > parse_version(last).numbers[:2]:
        return Problem(
            "unsupported-architecture",
            t("vLLM {version} no longer serves {name}.", version=knobs.version, name=facts.architecture),
            t("The last version that did is {last}.", last=last),
            fix=Fix(t("Install vLLM {last}, or choose another model.", last=last)),
        )
    if knobs.device != "cuda" or knobs.capability is None:
        return None
    have = f"{knobs.capability[0]}.{knobs.capability[1]}"
    if knobs.dtype == "bfloat16" and knobs.capability < (8, 0):
        return Problem(
            "bf16-unsupported",
            t("This GPU (compute capability {have}) has no bfloat16.", have=have),
            t("vLLM refuses it below 8.0."),
            fix=Fix(t("Use `--dtype half`.")),
        )
    if facts.quantization and facts.quantization.method in ("fp8", "fbgemm_fp8") and knobs.capability < (7, 5):
        return Problem(
            "fp8-unsupported",
            t("This GPU (compute capability {have}) cannot run FP8 weights.", have=have),
            t("vLLM's kernels for them need 7.5 at least."),
            fix=Fix(t("Take another variant of the model, such as AWQ or GPTQ.")),
        )
    return None


def _short(knobs: Knobs, budget: Budget, layout: KvLayout, length: int, longest: int) -> Problem | None:
    if layout.fits(_bytes(knobs, budget), length):
        return None
    fix = (
        Fix(t("Ask for less: `--max-model-len {longest}`.", longest=longest), ())
        if longest
        else Fix(t("Use more GPUs, a quantised variant, or a smaller model."))
    )
    return Problem(
        "kv-cache-too-small",
        t(
            "A context of {length} tokens does not fit; the longest that does has {longest}.",
            length=f"{length:,}",
            longest=f"{longest:,}",
        ),
        t(
            "It needs {need:.2f} GiB for keys and values, and {have:.2f} GiB are left for them.",
            need=layout.bytes_for(length) / GIB,
            have=budget.kv_gib,
        ),
        fix=fix,
    )


def _states_refusal(facts: ModelFacts, knobs: Knobs, budget: Budget, layout: KvLayout) -> Problem | None:
    """A hybrid model with fewer blocks than sequences cannot capture its graphs; vLLM says so and stops."""
    if not facts.is_hybrid or knobs.enforce_eager or not rule(knobs.version, "block-a-sequence"):
        return None
    blocks = knobs.blocks_pinned or layout.blocks(_bytes(knobs, budget))
    if blocks >= knobs.max_num_seqs:
        return None
    return Problem(
        "recurrent-blocks-too-few",
        t("{seqs} requests at once need as many cache blocks; {blocks} fit.", seqs=knobs.max_num_seqs, blocks=blocks),
        t("Layers that keep a state, instead of keys and values, need one block for each request."),
        fix=Fix(t("Allow fewer at once: `--max-num-seqs {blocks}`.", blocks=max(1, blocks))),
    )


def _graphs_refusal(facts: ModelFacts, knobs: Knobs, budget: Budget) -> Problem | None:
    """CUDA graphs and the sampler's warm-up come after the cache took its share, so a start can still run out.

    What is free then: total less the share, less the context, plus what the profile had set aside. MXFP4 by Triton
    kernels takes 2 to 6 GiB in that phase that its profile does not see (H100: 0.95 died twice, 0.90 ran).
    """
    unseen = _MXFP4_UNSEEN_GIB if facts.quantization and facts.quantization.method == "mxfp4" and facts.is_moe else 0.0
    left = knobs.total_gib - CONTEXT_GIB - budget.requested_gib + max(0.0, budget.graphs_gib - budget.graphs_real_gib)
    captured = budget.graphs_real_gib if budget.graphs_gib == 0 else 0.0
    if left - captured - unseen >= 0 or knobs.enforce_eager:
        return None
    return Problem(
        "cuda-oom",
        t(
            "The cache fits, but CUDA graphs and warm-up after it need about {more:.1f} GiB more.",
            more=captured + unseen - left,
        ),
        t("vLLM sizes the cache first; what it captures afterwards comes out of the rest of the GPU."),
        fix=Fix(t("Ask for a smaller share: a lower `--gpu-memory-utilization`.")),
    )


def _cpu_refusal(knobs: Knobs, budget: Budget) -> Problem | None:
    if knobs.free_gib is None or budget.requested_gib <= knobs.free_gib:
        return None
    return Problem(
        "not-enough-ram",
        t(
            "The server would take about {need:.1f} GiB of memory, of which {free:.1f} GiB are free.",
            need=budget.requested_gib,
            free=knobs.free_gib,
        ),
        t(
            "Weights {weights:.1f} GiB, cache {kv:.0f} GiB, the rest for its processes.",
            weights=budget.weights_gib,
            kv=budget.kv_gib,
        ),
        fix=Fix(t("Close programs, choose a smaller model, or set `VLLM_CPU_KVCACHE_SPACE` lower.")),
    )
