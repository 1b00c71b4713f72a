"""The memory of one rank, as vLLM spends it: what it requests, less weights, activations, graphs and the rest.

    kv_bytes = requested - (free before - free after the profile) - (peak - allocated) - graphs

vLLM 0.32 v1/worker/gpu_worker.py `determine_available_memory`, utils/mem_utils.py `memory_profiling`. Every figure here
is an estimate in GiB (2**30 bytes); `Budget.sigma_gib` is its standard error, from how far real starts were off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from wizard.hardware.machine import GIB
from wizard.planning.adapters import NO_ADAPTERS, Adapters, adapters_gib
from wizard.planning.facts import ModelFacts
from wizard.planning.kv import element_bytes, partition
from wizard.planning.speculation import NO_DRAFT, Draft
from wizard.planning.versions import Version, rule, runner, sampler


@dataclass(frozen=True, slots=True)
class Engine:
    """What one vLLM engine was told. total_gib: memory of one GPU as the driver reports it.

    capability: of the GPU, e.g. (9, 0), None where unknown. nvlink: None where unknown. dtype: of activations.
    cpu_offload_gib: weights kept in ordinary memory, for each GPU.
    """

    version: Version
    total_gib: float
    utilization: float
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int = 8192
    dtype: str = "bfloat16"
    enforce_eager: bool = False
    capability: tuple[int, int] | None = None
    nvlink: bool | None = None
    wsl: bool = False
    unified_memory: bool = False
    skip_vision: bool = False
    cpu_offload_gib: float = 0.0
    adapters: Adapters = NO_ADAPTERS
    draft: Draft = NO_DRAFT

    @property
    def fused_all_reduce(self) -> bool:
        """Whether FlashInfer's all-reduce buffers are there: tensor ranks on Hopper or Blackwell, no pipeline."""
        return (
            bool(rule(self.version, "fused-all-reduce"))
            and self.tensor_parallel > 1
            and self.pipeline_parallel == 1
            and self.capability is not None
            and self.capability[0] in (9, 10)
        )


@dataclass(frozen=True, slots=True)
class Rank:
    """One pipeline rank's share, GiB."""

    weights_gib: float
    activation_gib: float
    kv_gib: float


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of the fullest rank, and what each pipeline rank has left for the cache.

    graphs_gib: reserved before the cache is sized (0 where a version does not); graphs_real_gib: what capturing takes.
    other_gib: CUDA libraries, communication, buffers that live as long as the engine. cold_gib, warm_gib: what
    a start that compiles may take more than that, and one that finds the compiler's cache less.
    """

    requested_gib: float
    weights_gib: float
    activation_gib: float
    graphs_gib: float
    graphs_real_gib: float
    other_gib: float
    ranks: tuple[Rank, ...]
    sigma_gib: float
    measured: bool = False
    cold_gib: float = 0.0
    warm_gib: float = 0.0

    @property
    def kv_gib(self) -> float:
        """GiB for the cache on the fullest rank; below zero where the rest does not fit."""
        return min(rank.kv_gib for rank in self.ranks)

    def kv_bytes(self, shift_gib: float = 0.0) -> tuple[int, ...]:
        """Bytes for the cache on each rank, all of them more or less by `shift_gib`."""
        return tuple(int((rank.kv_gib + shift_gib) * GIB) for rank in self.ranks)


# Feed-forward networks with two matrices instead of three (no gate).
_UNGATED = (
    "OPT", "GPT2", "GPTJ", "GPTNeoX", "GPTBigCode", "Bloom", "Falcon", "PhiFor", "Starcoder2", "MPT", "Mpt",
    "NemotronFor", "NemotronH", "StableLmEpoch", "Persimmon",
)  # fmt: skip

# Bytes of one logit at the sampler's peak, over all copies: bf16 and fp32 logits, probabilities, noise; sorting adds
# sorted values, 64-bit indices and their buffers. Measured: 37.5 (v0.15, sort), 14.0 (v0.17 to v0.19), all in all; V0
# (v0.6.5, v0.7.3) 39 to 41.
_LOGIT_BYTES = {"sort": 37.0, "triton": 14.0, "flashinfer": 14.0}
_V0_LOGIT_BYTES = 39.0
# V0 profiles a whole context at once up to here, and in chunks above; engine/arg_utils.py v0.7.
_V0_CHUNKS_ABOVE = 32_768
# What the second runner keeps for penalties: counts of 4 bytes and one bit; v1/worker/gpu/sample/penalties.py v0.22.
_V2_KEPT_LOGIT_BYTES = 4.125
# Hidden states alive at the end of the model, and in the middle of a layer, as multiples of tokens x hidden size.
_HIDDEN_AT_END = 2.0
_HIDDEN_IN_LAYER = 3.5
_SMALL_GIB = 0.05


def _gated(facts: ModelFacts) -> bool:
    return not facts.architecture.startswith(_UNGATED)


def _expert_parameters(facts: ModelFacts) -> int:
    """Parameters of routed experts in one layer."""
    if not facts.is_moe:
        return 0
    width = facts.moe_latent_size or facts.hidden_size
    return facts.experts * width * facts.moe_intermediate_size * (3 if _gated(facts) else 2)


def _attention_parameters(facts: ModelFacts, kind: str) -> int:
    hidden = facts.hidden_size
    if facts.is_mla:
        query = (
            hidden * facts.q_lora_rank
            + facts.q_lora_rank * facts.attention_heads * (facts.qk_nope_head_dim + facts.qk_rope_head_dim)
            if facts.q_lora_rank
            else hidden * facts.attention_heads * (facts.qk_nope_head_dim + facts.qk_rope_head_dim)
        )
        latent = hidden * (facts.kv_lora_rank + facts.qk_rope_head_dim)
        value = facts.head_dim_value or facts.qk_nope_head_dim
        up = facts.kv_lora_rank * facts.attention_heads * (facts.qk_nope_head_dim + value)
        return query + latent + up + facts.attention_heads * value * hidden
    if kind == "recurrent" and facts.recurrent:
        state = facts.recurrent
        inner = state.value_heads * state.value_dim or state.intermediate
        keys = 2 * state.key_heads * state.key_dim + 2 * state.groups * state.state_size
        return hidden * (2 * inner + keys) + inner * hidden
    heads, key_dim, value_dim = facts.kv_shape("full" if kind == "none" else kind)  # type: ignore[arg-type]
    query_dim = facts.attention_heads * facts.head_dim
    return hidden * query_dim * 2 + hidden * heads * (key_dim + value_dim)


def _feed_forward_parameters(facts: ModelFacts, index: int) -> int:
    matrices = 3 if _gated(facts) else 2
    if facts.is_moe and index >= facts.dense_layers:
        shared = facts.shared_expert_intermediate_size * facts.hidden_size * matrices
        # Into the experts' own width and back (models/nemotron_h.py `fc1_latent_proj`).
        latent = 2 * facts.hidden_size * facts.moe_latent_size
        return _expert_parameters(facts) + shared + latent + facts.experts * facts.hidden_size
    # Models/gemma4.py v0.32: layers that keep no keys and values of their own.
    wide = 2 if facts.shared_layers_wide and index >= facts.layers - facts.shared_kv_layers else 1
    inputs = 2 * facts.hidden_size * facts.per_layer_width
    return facts.hidden_size * facts.intermediate_size * matrices * wide + inputs


def _layer_parameters(facts: ModelFacts, index: int) -> int:
    if facts.architecture.startswith("NemotronH"):
        # One part a layer: a state, attention, or a network.
        kind = facts.layer_kinds[index]
        return _feed_forward_parameters(facts, index) if kind == "none" else _attention_parameters(facts, kind)
    if facts.both_in_each_layer:
        both = _attention_parameters(facts, "full") + _attention_parameters(facts, "recurrent")
        return both + _feed_forward_parameters(facts, index)
    return _attention_parameters(facts, facts.layer_kinds[index]) + _feed_forward_parameters(facts, index)


def embedding_parameters(facts: ModelFacts) -> int:
    """Of the input table, and as many again of the output head where it is not tied."""
    return facts.vocab_size * facts.hidden_size


def _table_parameters(facts: ModelFacts) -> int:
    """Of all token tables; those for each layer and their projection are one more (models/gemma3n.py, gemma4.py)."""
    per_layer = (facts.per_layer_vocab + facts.hidden_size) * facts.per_layer_width * facts.layers
    return embedding_parameters(facts) * (1 if facts.tie_word_embeddings else 2) + per_layer


def total_parameters(facts: ModelFacts) -> int:
    """Parameters of the language model by its dimensions, and of a tower that the configuration describes. Within some
    per cent."""
    layers = sum(_layer_parameters(facts, index) for index in range(facts.layers))
    told = facts.vision is not None and (facts.vision.parameters or facts.vision.hidden_size)
    return layers + _table_parameters(facts) + (tower_parameters(facts) if told else 0)


def checkpoint_estimate(facts: ModelFacts) -> int:
    """Bytes of a checkpoint that nobody measured: layers at the quantised width, tables at the model's own."""
    tables = _table_parameters(facts)
    plain = element_bytes(facts.dtype)
    body = total_parameters(facts) - tables
    width = plain
    if facts.quantization:
        bits = facts.quantization.weight_bits or 8
        group = facts.quantization.group_size
        # A scale of 16 bits and a zero point for each group of values.
        width = bits / 8 + ((2.5 / group) if group and bits < 8 else 0)
    experts = sum(_expert_parameters(facts) for index in range(facts.dense_layers, facts.layers))
    finer = experts * (width - facts.expert_bits / 8) if facts.expert_bits else 0.0
    return int(body * width - finer + tables * plain)


# A checkpoint whose size is so far from what its shape tells, times one or (32 bits) two, is another model's, in part
# missing, or quantised without a word. The sizes of some hundred published ones are within 0.95 to 1.14.
_SIZES_AGREE = (0.85, 1.2)


def disagreeing_gib(facts: ModelFacts) -> tuple[float, float] | None:
    """(GiB of the checkpoint, GiB by the shape) where one cannot be the other's; None where they agree."""
    unknown = facts.quantization is not None and facts.quantization.weight_bits is None
    if not facts.checkpoint_bytes or unknown:
        return None
    told, shaped = facts.checkpoint_bytes / GIB, checkpoint_estimate(facts) / GIB
    low, high = _SIZES_AGREE
    if any(low < told / (shaped * times) < high for times in ((1, 2) if facts.quantization is None else (1,))):
        return None
    return told, shaped


def stored_bytes(facts: ModelFacts, dtype: str) -> float:
    """Bytes of all weights once loaded as `dtype`: the checkpoint's, widened where plain weights are cast."""
    told = facts.checkpoint_bytes or checkpoint_estimate(facts)
    if facts.quantization:
        return float(told)
    per_parameter = told / max(1, total_parameters(facts))
    stored = min((1.0, 2.0, 4.0), key=lambda size: abs(math.log(per_parameter / size)))
    return told * element_bytes(dtype) / stored if abs(math.log(per_parameter / stored)) < 0.3 else float(told)


def rank_weights_gib(facts: ModelFacts, engine: Engine) -> tuple[float, ...]:
    """GiB of weights on each pipeline rank.

    Embedding on the first rank, head on the last (a tied one on both); everything is split over tensor ranks but
    routers, latent down-projections and KV heads that are fewer than the ranks; `--cpu-offload-gb` is taken off. Beside
    the weights stand the rotary table (layers/rotary_embedding) and, for latent attention, the two split copies of its
    up-projection (layers/attention/mla_attention.py `process_weights_after_loading`); vLLM 0.32.
    """
    tp = engine.tensor_parallel
    total = stored_bytes(facts, engine.dtype)
    plain = element_bytes(engine.dtype)
    table = embedding_parameters(facts) * plain
    tables = _table_parameters(facts) * plain
    first = tables - (0 if facts.tie_word_embeddings else table)
    tower = 2.0 * tower_parameters(facts)
    body = max(0.0, total - tables - tower)
    shares = [_layer_parameters(facts, index) for index in range(facts.layers)]
    rope = facts.rope_cache_rows * facts.rope_dim * plain
    if facts.sliding_window and "sliding" in facts.layer_kinds and facts.architecture.startswith(("Gemma3", "Gemma4")):
        rope += facts.max_position * facts.rope_dim * plain
    out = []
    ranks = partition(facts.layers, engine.pipeline_parallel)
    for number, layers in enumerate(ranks):
        here = body * sum(shares[index] for index in layers) / max(1, sum(shares)) / tp
        here += sum(_replicated_bytes(facts, index, tp, plain) for index in layers)
        here += _padding_bytes(facts, tp, body * len(layers) / facts.layers)
        if number == 0:
            # `--language-model-only` does not load the tower (models/interfaces.py `_mark_tower_model`).
            here += (first + (0.0 if engine.skip_vision else tower)) / tp
        if number == len(ranks) - 1 and (number > 0 or not facts.tie_word_embeddings):
            here += table / tp
        if number == len(ranks) - 1:
            here += draft_bytes(facts, engine) / tp
        beside = adapters_gib(facts, engine.adapters, tensor_parallel=tp, dtype=engine.dtype, layers=layers)
        out.append(max(0.0, (here + rope) / GIB - engine.cpu_offload_gib) + beside)
    return tuple(out)


def draft_bytes(facts: ModelFacts, engine: Engine) -> float:
    """Bytes of the layers that propose tokens: a decoder layer each, and a matrix that joins its inputs.

    Prediction heads share the token tables (vLLM 0.32 model_executor/models/qwen3_5_mtp.py, deepseek_mtp.py); an EAGLE
    draft brings a head for its own, smaller vocabulary (llama_eagle3.py).
    """
    draft = engine.draft
    if not draft.layers:
        return 0.0
    if draft.own_head and facts.draft_bytes:
        return float(facts.draft_bytes)
    bits = facts.quantization.weight_bits if facts.quantization else None
    # Four-bit checkpoints leave their prediction head as it was.
    width = bits / 8 if bits and bits >= 8 and draft.own_head else element_bytes(engine.dtype)
    attention = next(
        (at for at, kind in reversed(list(enumerate(facts.layer_kinds))) if kind != "recurrent"), facts.layers - 1
    )
    hidden = facts.hidden_size
    if draft.own_head:
        return draft.layers * (_layer_parameters(facts, attention) + 2 * hidden * hidden) * width
    dense = _attention_parameters(facts, facts.layer_kinds[attention]) + 3 * hidden * max(
        facts.intermediate_size, 2 * hidden
    )
    return (draft.layers * dense + 3 * hidden * hidden + _EAGLE_VOCABULARY * hidden) * width


# Rows of the head that EAGLE-3 drafts are published with.
_EAGLE_VOCABULARY = 32_000


def _replicated_bytes(facts: ModelFacts, index: int, tp: int, plain: float) -> float:
    """Bytes that a layer has on each rank beyond its even share."""
    extra = 0.0
    if facts.is_mla:
        value = facts.head_dim_value or facts.qk_nope_head_dim
        extra += facts.attention_heads / tp * (facts.qk_nope_head_dim + value) * facts.kv_lora_rank * plain
        down = facts.hidden_size * (facts.kv_lora_rank + facts.qk_rope_head_dim + facts.q_lora_rank)
        extra += down * plain * (1 - 1 / tp)
    elif tp > facts.kv_heads and facts.layer_kinds[index] != "recurrent":
        heads, key_dim, value_dim = facts.kv_shape(facts.layer_kinds[index])
        extra += facts.hidden_size * (key_dim + value_dim) * plain * (1 - heads / tp)
    if facts.is_moe and index >= facts.dense_layers:
        extra += facts.experts * facts.hidden_size * plain * (1 - 1 / tp)
    return extra


def _padding_bytes(facts: ModelFacts, tp: int, body: float) -> float:
    """MXFP4 experts are padded to a multiple of 128 columns a rank on the gate and up side.

    vLLM 0.19 model_executor/layers/quantization/mxfp4.py `create_weights`.
    """
    if not (facts.quantization and facts.quantization.method == "mxfp4" and facts.is_moe and tp > 1):
        return 0.0
    width = facts.moe_intermediate_size / tp
    padded = math.ceil(width / 128) * 128
    return body * 0.9 / tp * (padded / width - 1) * 2 / 3


def _moe_workspace_gib(facts: ModelFacts, engine: Engine) -> float:
    """The two buffers of fused experts: tokens x choices x (max(I, H) + max(2 I, H)).

    vLLM 0.19 layers/fused_moe/fused_moe.py `TritonExperts.workspace_shapes`. MXFP4 by Triton kernels has none.
    """
    if not facts.is_moe or (facts.quantization and facts.quantization.method == "mxfp4"):
        return 0.0
    inner = facts.moe_intermediate_size / engine.tensor_parallel
    hidden = facts.moe_latent_size or facts.hidden_size
    width = max(inner, hidden) + max(2 * inner, hidden)
    rows = engine.max_num_batched_tokens * max(1, facts.experts_per_token)
    return rows * width * element_bytes(engine.dtype) / GIB


@dataclass(frozen=True, slots=True)
class _Tower:
    """An encoder's shape. patches: of one largest input; tokens: that it becomes; layers: 0 where not known."""

    hidden: int
    intermediate: int
    matrices: int
    patches: int
    tokens: int
    layers: int = 0


# Towers whose shape a config.json may leave out, by architecture; from the models' own configurations and vLLM's
# processors (largest image by default). Fallback: a SigLIP so400m.
_TOWERS: tuple[tuple[str, _Tower], ...] = (
    ("Qwen2VL", _Tower(1280, 5120, 2, 65536, 16384, 32)),
    ("Qwen2_5", _Tower(1280, 3420, 3, 65536, 16384, 32)),
    ("Qwen3_5", _Tower(1152, 4304, 2, 65536, 16384, 27)),
    ("Qwen3", _Tower(1152, 4304, 2, 65536, 16384, 27)),
    ("Gemma3For", _Tower(1152, 4304, 2, 4096, 256, 27)),
    ("Gemma4", _Tower(1152, 4304, 2, 2520, 280)),
    ("Mistral3", _Tower(1024, 4096, 3, 12100, 3025, 24)),
    ("Pixtral", _Tower(1024, 4096, 3, 4096, 4096)),
    ("LlavaNext", _Tower(1024, 4096, 2, 2885, 2880, 24)),
    ("Llava", _Tower(1024, 4096, 2, 577, 576, 24)),
    ("KimiVL", _Tower(1152, 4304, 2, 4096, 1024)),
    ("Llama4", _Tower(1408, 5632, 2, 9800, 2448)),
    ("InternVL", _Tower(1024, 4096, 2, 13 * 1025, 13 * 256)),
)
_DEFAULT_TOWER = _Tower(1152, 4304, 2, 4096, 1024)
# Models that always bring a tower, also where this configuration does not mention it.
_ALWAYS_TOWER = ("Qwen3_5For", "Qwen3_5MoeFor", "Qwen2_5_VL", "Qwen2VL", "Qwen3VL", "Gemma3ForCond", "Mistral3ForCond")


def has_tower(facts: ModelFacts) -> bool:
    """Whether an encoder is loaded and profiled."""
    return facts.vision is not None or (
        facts.architecture.startswith(_ALWAYS_TOWER) and "CausalLM" not in (facts.architecture)
    )


def _tower(facts: ModelFacts) -> _Tower:
    """The encoder's shape: the configuration's own numbers over the family's."""
    tower = next((t for name, t in _TOWERS if facts.architecture.startswith(name)), _DEFAULT_TOWER)
    if facts.architecture.startswith(("Qwen3VL", "Qwen3_5")) and facts.hidden_size < 4096 and not facts.is_moe:
        # The smaller models of these families have the smaller tower.
        tower = replace(tower, hidden=1024, intermediate=4096, layers=24)
    told = facts.vision
    if told and told.hidden_size:
        inner = told.intermediate_size or 4 * told.hidden_size
        tower = replace(tower, hidden=told.hidden_size, intermediate=inner, layers=told.layers or tower.layers)
    return tower


def tower_parameters(facts: ModelFacts) -> int:
    """Parameters of the encoder: as told, else by its shape; 0 where neither is known."""
    if facts.vision and facts.vision.parameters:
        return facts.vision.parameters
    if not has_tower(facts):
        return 0
    tower = _tower(facts)
    return tower.layers * tower.hidden * (4 * tower.hidden + tower.matrices * tower.intermediate)


def _encoder_gib(facts: ModelFacts, engine: Engine) -> tuple[float, float]:
    """(peak of the encoder's own run, what its output adds to the language model's run), GiB.

    Profiled with as many largest inputs as the budget holds, at least one; vLLM 0.32 v1/worker/gpu_model_runner.py
    `profile_run`, multimodal/encoder_budget.py.
    """
    if not has_tower(facts) or engine.skip_vision:
        return 0.0, 0.0
    tower = _tower(facts)
    largest = tower.tokens
    if facts.architecture.startswith(("Qwen2VL", "Qwen2_5_VL", "Qwen2_5Omni")):
        # A video of 14 frames, two of them a step, as far as the context holds it; models/qwen2_vl.py v0.32
        # `get_num_frames_with_most_features`. Its log at 128000 tokens: "budget of 114688 tokens".
        largest *= max(1, min(7, engine.max_model_len // tower.tokens))
    budget = max(engine.max_num_batched_tokens, largest)
    rows = max(1, budget // largest) * (largest // tower.tokens) * tower.patches
    peak = rows * (tower.matrices * tower.intermediate / engine.tensor_parallel + 5 * tower.hidden) * 2 / GIB
    kept = 2 * engine.max_num_batched_tokens * facts.hidden_size * 2 / GIB
    return peak + budget * facts.hidden_size * 2 / GIB, kept


def activation_gib(facts: ModelFacts, engine: Engine, *, first: bool = True, last: bool = True) -> float:
    """The peak above what stays allocated, on one pipeline rank: the worst of encoder, layers and sampler.

    vLLM 0.19 and 0.32: v1/worker/gpu_model_runner.py `profile_run` and `_dummy_sampler_run`, v1/sample/; second runner
    v1/worker/gpu/model_runner.py. Checked against start-up logs of 0.11 to 0.19 to 0.03 GiB on text models.
    """
    width = element_bytes(engine.dtype)
    tokens = engine.max_num_batched_tokens
    v0 = rule(engine.version, "engine") == "v0"
    if v0 and engine.max_model_len <= _V0_CHUNKS_ABOVE:
        tokens = max(tokens, engine.max_model_len)
    hidden = tokens * facts.hidden_size * width / GIB
    workspace = _moe_workspace_gib(facts, engine)
    encoder, encoder_kept = _encoder_gib(facts, engine) if first else (0.0, 0.0)
    inner = facts.intermediate_size
    if facts.is_moe:
        inner = max(facts.shared_expert_intermediate_size, facts.intermediate_size if facts.dense_layers else 0)
    if facts.shared_layers_wide:
        inner *= 2
    layer = tokens * 3 * inner / engine.tensor_parallel * width / GIB + _HIDDEN_IN_LAYER * hidden + workspace
    if v0:
        layer = tokens * (3 * inner / engine.tensor_parallel + 3 * facts.hidden_size) * width / GIB + workspace
    between = 2 * hidden if engine.pipeline_parallel > 1 else 0.0
    peak = max(encoder, layer + between + encoder_kept)
    if last:
        logits = min(engine.max_num_seqs, tokens) * facts.vocab_size / GIB
        kept_workspace = workspace if rule(engine.version, "moe-workspace-kept") else 0.0
        end = _HIDDEN_AT_END * hidden + kept_workspace + encoder_kept + between
        if v0:
            peak = max(peak, logits * _V0_LOGIT_BYTES)
        elif _runner(facts, engine) == "v2":
            peak = max(peak, end + logits * float(rule(engine.version, "v2-logit-bytes")))
        else:
            peak = max(peak, end + logits * (_LOGIT_BYTES[sampler(engine.version)] + max(0.0, width - 2)))
    # What the tables for each layer say of every token: a buffer, and its projection that lives through all layers
    # (models/gemma4_mm.py v0.32 `per_layer_embeddings`, gemma4.py `project_per_layer_inputs`).
    return peak + 2 * tokens * facts.layers * facts.per_layer_width * width / GIB + _SMALL_GIB


def _runner(facts: ModelFacts, engine: Engine) -> str:
    return runner(
        engine.version,
        facts.architecture,
        moe=facts.is_moe,
        hybrid=facts.is_hybrid,
        quantised=facts.quantization is not None,
    )


# Tokens of the largest captured batch where the number of sequences does not limit it; config/vllm.py v0.32
# `_set_cudagraph_sizes`.
_LARGEST_CAPTURE = 512


def largest_capture(engine: Engine) -> int:
    """Tokens of the largest batch that CUDA graphs are captured for."""
    decoded = 2 * engine.max_num_seqs * (1 + engine.draft.tokens)
    return max(1, min(decoded, _LARGEST_CAPTURE, engine.max_num_batched_tokens))


def graphs_gib(facts: ModelFacts, engine: Engine) -> tuple[float, float]:
    """(reserved before the cache is sized, really captured), GiB.

    The first capture, of the largest batch, keeps one output a layer; later ones reuse the pool at 1 MiB and more each
    (v1/worker/gpu_model_runner.py `profile_cudagraph_memory`, v1/worker/gpu/cudagraph_utils.py; vLLM 0.32). The slope
    is from start-up logs: 0.53 for 28 layers of 3584 and 512 tokens; 0.13, 0.17 for 64 of 5120 and 16, 32 tokens.
    """
    if engine.enforce_eager:
        return 0.0, 0.0
    share = largest_capture(engine) / _LARGEST_CAPTURE
    depth = facts.layers / engine.pipeline_parallel * facts.hidden_size
    reserved = 0.05 + share * (5.0e-6 * min(depth, 250_000) + 1.2e-6 * max(0.0, depth - 250_000))
    real = 0.35 + 2.2e-6 * min(depth, 300_000) + 1.2e-6 * max(0.0, depth - 300_000) + (0.6 if facts.is_moe else 0.0)
    real += 0.3 if engine.max_num_seqs > 512 else 0.0
    counted = rule(engine.version, "graphs-reserved")
    if _runner(facts, engine) == "v2":
        counted = counted and rule(engine.version, "v2-graphs-reserved")
    return (reserved if counted else 0.0), real


def other_gib(facts: ModelFacts, engine: Engine) -> tuple[float, float]:
    """(GiB outside of torch and of lasting buffers, its standard error).

    CUDA libraries, NCCL and FlashInfer's all-reduce buffers; the second runner's penalty tables. Read from the
    "non-torch" figures of start-up logs: one GPU 0.01 to 0.35 of V0, 0.13 before and 0.25 from 0.18 on, under WSL2 0.06
    to 0.6; NVLinked Hopper 0.55, then 2.1 with the fused all-reduce; PCIe 0.21, then 0.75; a pipeline 0.07.
    """
    recent = engine.version.numbers >= (0, 18, 0)
    if engine.tensor_parallel > 1:
        fast = engine.nvlink if engine.nvlink is not None else engine.capability in ((8, 0), (9, 0), (10, 0), (10, 3))
        base, error = (0.67 if fast else 0.75) if recent else (0.55 if fast else 0.21), 0.15
        if engine.fused_all_reduce:
            base, error = base + 1.4 + 0.03 * math.log2(engine.tensor_parallel), 0.15
    elif engine.pipeline_parallel > 1:
        base, error = 0.07, 0.05
    elif rule(engine.version, "engine") == "v0":
        base, error = 0.06, 0.12
    else:
        base, error = (0.25 if recent else 0.13), (0.2 if engine.wsl else 0.06)
        if facts.vocab_size % 2:
            # An odd row length keeps the logits from aligned kernels; seen: 0.21 more (Granite 3, vocabulary 49155).
            base += 0.21
    if engine.unified_memory:
        # Free memory is then the system's, so the engine's own process counts too (utils/mem_utils.py).
        base, error = base + 1.8, 0.8
    kept = 0.0
    if _runner(facts, engine) == "v2" and rule(engine.version, "consumed-by-free-memory"):
        kept = engine.max_num_seqs * facts.vocab_size * _V2_KEPT_LOGIT_BYTES / GIB
    return base + kept, error


# Copies of the token tables that a compiling start of the second runner holds within its profile, where a start that
# finds the compiler's cache holds none: the compiler tries its kernels on tensors of the weights' sizes. Pairs of one
# start with and without the cache, in tables a rank: 1.8 and 1.8 (RTX 5090, Qwen3 32B and 14B AWQ, v0.28.0), 1.1
# (RTX 8000, Qwen3.8 27B), 0.7 (L40S, Qwen3 14B, v0.28.0), 0.7 (two RTX 4090, Qwen3 32B AWQ, v0.28.0, issue 54383), none
# (V100); tens of GiB for a model with tables of n-grams (issue 54122). Fixes are open: pull requests 54209, 54479.
_COLD_TABLES_MOST = 2.0
# A plan does not know whether the start will compile: 0.7, the middle of those pairs, for the two of nine starts of the
# second runner that were seen to.
_COLD_TABLES_EXPECTED = 0.15


def _compiled_table_gib(facts: ModelFacts, engine: Engine) -> float:
    """GiB of one copy of the token tables on a rank, 0 where compiling leaves the profile alone."""
    if engine.enforce_eager or _runner(facts, engine) != "v2":
        return 0.0
    head = 0 if facts.tie_word_embeddings else embedding_parameters(facts)
    return (_table_parameters(facts) - head) * element_bytes(engine.dtype) / engine.tensor_parallel / GIB


def _weights_error(facts: ModelFacts) -> float:
    """Standard error of the weights, as a share of them.

    Below 8 bits kernels repack and pad what the checkpoint holds, and an index does not tell which parts stayed wide.
    """
    if facts.checkpoint_bytes is None:
        return 0.042 if facts.quantization else 0.035
    if disagreeing_gib(facts) is not None:
        return 0.05
    if facts.quantization is None:
        return 0.005
    if facts.quantization.method == "bitsandbytes":
        # Its scales are stored in 32 or in 8 bits, and loaders widen the narrow ones or leave them.
        return 0.05
    bits = facts.quantization.weight_bits or 8
    return 0.012 if bits >= 8 or facts.tensors_read else 0.03


def memory_budget(facts: ModelFacts, engine: Engine) -> Budget:
    """The budget of an engine."""
    requested = math.ceil(engine.total_gib * engine.utilization * GIB) / GIB
    weights = rank_weights_gib(facts, engine)
    reserved, real = graphs_gib(facts, engine)
    other, other_error = other_gib(facts, engine)
    table = _compiled_table_gib(facts, engine)
    other += _COLD_TABLES_EXPECTED * table
    ranks = []
    for number, weight in enumerate(weights):
        last = number == len(weights) - 1
        active = activation_gib(facts, engine, first=number == 0, last=last)
        ranks.append(Rank(weight, active, requested - weight - active - reserved - other))
    worst = min(ranks, key=lambda rank: rank.kv_gib)
    encoder, _ = _encoder_gib(facts, engine)
    logits = min(engine.max_num_seqs, engine.max_num_batched_tokens) * facts.vocab_size / GIB
    by_chance = (_LOGIT_BYTES["sort"] - _LOGIT_BYTES["flashinfer"]) * logits / 2
    sigma = math.hypot(
        worst.weights_gib * _weights_error(facts),
        0.04 * worst.activation_gib,
        0.35 * reserved,
        other_error,
        0.2 * encoder,
        0.003 * engine.total_gib,
        0.05 * max(0.0, worst.kv_gib) if facts.compress_ratios else 0.0,
        by_chance if rule(engine.version, "sampler-by-chance") else 0.0,
    )
    return Budget(
        requested_gib=requested,
        weights_gib=worst.weights_gib,
        activation_gib=worst.activation_gib,
        graphs_gib=reserved,
        graphs_real_gib=real,
        other_gib=other,
        ranks=tuple(ranks),
        sigma_gib=sigma,
        cold_gib=(_COLD_TABLES_MOST - _COLD_TABLES_EXPECTED) * table,
        warm_gib=_COLD_TABLES_EXPECTED * table,
    )
