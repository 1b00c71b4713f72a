"""What a model is, as far as memory and flags are concerned: config.json and sizes in, `ModelFacts` out.

Whatever comes from outside is checked here once; every reader behind it may trust the numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from wizard.i18n import t
from wizard.planning.architectures import is_known_architecture
from wizard.planning.quantization import Quantization, parse_quantization
from wizard.problems import Fix, Problem, ProblemError

MAX_CONFIG_BYTES = 4 * 2**20
_MAX_COUNT = 2**31

LayerKind = Literal["full", "sliding", "chunked", "recurrent", "none"]
RecurrentKind = Literal["gated-delta-net", "kimi-delta", "mamba1", "mamba2", "short-conv", "lightning"]


@dataclass(frozen=True, slots=True)
class Recurrent:
    """A layer that keeps a state of fixed size instead of keys and values.

    heads and dims as vLLM's `mamba_utils.MambaStateShapeCalculator` names them (vLLM 0.32,
    model_executor/layers/mamba/mamba_utils.py); unused ones are 0. state_dtype: of the recurrent state, e.g. "float32";
    the convolution's state has the model's dtype.
    """

    kind: RecurrentKind
    conv_kernel: int
    key_heads: int = 0
    value_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0
    groups: int = 0
    state_size: int = 0
    intermediate: int = 0
    state_dtype: str = "auto"


@dataclass(frozen=True, slots=True)
class Vision:
    """An encoder for images (or sound). parameters: of the tower, where known. patch geometry 0 where not told."""

    parameters: int = 0
    hidden_size: int = 0
    intermediate_size: int = 0
    layers: int = 0
    image_size: int = 0
    patch_size: int = 0


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model's shape. Sizes in bytes, lengths in tokens.

    model: its name as the user gave it; source: where the facts came from ("local", "hub", "catalogue").
    serve_as: what `vllm serve` gets (an id or a path). checkpoint_bytes: all weights that are loaded, None if unknown;
    tensors_read: counted tensor by tensor, not read from an index; draft_bytes: of a prediction head beside them.
    dtype: the checkpoint's own ("bfloat16"). layer_kinds: one entry a layer. head_dim_value: of values, if different.
    experts: 0 for a dense model. kv_lora_rank: above 0 for latent attention (MLA). indexer_head_dim: above 0 for
    DeepSeek's sparse attention. yarn_position: max_position for vLLM before 0.30, where YaRN stretches it, else 0.
    has_chat_template: None when nobody looked.
    """

    model: str
    architecture: str
    model_type: str
    layers: int
    hidden_size: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    intermediate_size: int
    max_position: int
    dtype: str
    layer_kinds: tuple[LayerKind, ...]
    tie_word_embeddings: bool = False
    head_dim_value: int = 0
    sliding_window: int = 0
    chunk_size: int = 0
    experts: int = 0
    experts_per_token: int = 0
    moe_intermediate_size: int = 0
    shared_expert_intermediate_size: int = 0
    dense_layers: int = 0
    # Width that routed experts work in, where it is not the hidden size (Nemotron 3, Kimi K3).
    moe_latent_size: int = 0
    kv_lora_rank: int = 0
    qk_rope_head_dim: int = 0
    qk_nope_head_dim: int = 0
    q_lora_rank: int = 0
    indexer_head_dim: int = 0
    # Tokens that a stored state of each layer stands for, 0 where only a window is kept; and bits of a routed expert's
    # weight, where not those of the others (DeepSeek V4).
    compress_ratios: tuple[int, ...] = ()
    expert_bits: float = 0.0
    # Layers that keep a plain key more for choosing blocks, and its dimension (MiniMax M3).
    block_index_layers: int = 0
    block_index_dim: int = 0
    # Full-attention layers with a shape of their own (Gemma 4), and sliding ones (MiMo); 0: as the others.
    full_kv_heads: int = 0
    full_head_dim: int = 0
    sliding_kv_heads: int = 0
    sliding_head_dim: int = 0
    sliding_head_dim_value: int = 0
    shared_kv_layers: int = 0
    # Those are twice as wide (Gemma 4 E2B); and a table for each layer: tokens, numbers a token (Gemma 3n, 4).
    shared_layers_wide: bool = False
    per_layer_vocab: int = 0
    per_layer_width: int = 0
    # Attention and a recurrent state side by side in each layer (Falcon H1).
    both_in_each_layer: bool = False
    rope_cache_rows: int = 0
    rope_dim: int = 0
    yarn_position: int = 0
    recurrent: Recurrent | None = None
    vision: Vision | None = None
    mtp_layers: int = 0
    quantization: Quantization | None = None
    checkpoint_bytes: int | None = None
    tensors_read: bool = False
    draft_bytes: int = 0
    has_chat_template: bool | None = None
    needs_remote_code: bool = False
    serve_as: str = ""
    source: str = "local"

    @property
    def is_moe(self) -> bool:
        """Whether the model mixes experts."""
        return self.experts > 1

    @property
    def is_mla(self) -> bool:
        """Whether it keeps latent keys and values (DeepSeek, Kimi, GLM 5)."""
        return self.kv_lora_rank > 0

    @property
    def is_hybrid(self) -> bool:
        """Whether some layers keep a recurrent state."""
        return "recurrent" in self.layer_kinds or self.both_in_each_layer

    def kv_shape(self, kind: LayerKind) -> tuple[int, int, int]:
        """(KV heads, dimension of keys, dimension of values) of an attention layer of that kind."""
        if kind == "full" and self.full_head_dim:
            return self.full_kv_heads or self.kv_heads, self.full_head_dim, self.full_head_dim
        if kind == "sliding" and (self.sliding_kv_heads or self.sliding_head_dim):
            key = self.sliding_head_dim or self.head_dim
            return self.sliding_kv_heads or self.kv_heads, key, self.sliding_head_dim_value or key
        return self.kv_heads, self.head_dim, self.head_dim_value or self.head_dim

    @property
    def multimodal(self) -> bool:
        """Whether it has an encoder beside the language model."""
        return self.vision is not None


def config_problem(model: str, saw: str, why: str = "", fix: str = "") -> ProblemError:
    """The one error for a config.json that cannot be used."""
    return ProblemError(
        Problem(
            "model-config-invalid",
            t("The config.json of `{model}` cannot be used.", model=model),
            why or t("The plan needs the model's own numbers: layers, heads, sizes."),
            (saw,),
            Fix(fix or t("Fetch the model's config.json again, or name another model.")),
        )
    )


def parse_config_bytes(model: str, raw: bytes, size: int | None = None) -> Mapping[str, Any]:
    """The text of a config.json as a mapping; size: of the file, where only its beginning was read.

    Raises ProblemError for what is empty, huge, or no JSON object.
    """
    if len(raw) == 0:
        raise config_problem(model, t("the file has 0 bytes"), fix=t("The download was cut off: fetch it again."))
    if len(raw) > MAX_CONFIG_BYTES:
        raise config_problem(
            model, t("the file has {size} MB; a config.json has a few kB", size=(size or len(raw)) // 10**6)
        )
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise config_problem(model, t("it is no JSON: {error}", error=str(error)[:120])) from error
    if not isinstance(value, dict):
        raise config_problem(model, t("it is JSON, but no object: {kind}", kind=type(value).__name__))
    return value


class _Reader:
    """Reads checked values; every refusal names the key and what was there."""

    def __init__(self, model: str, config: Mapping[str, Any]) -> None:
        self.model = model
        self.config = config

    def count(self, *keys: str, default: int | None = None, least: int = 1) -> int:
        """A whole number of at least `least` under the first key present; `default` when none is."""
        for key in keys:
            value = self.config.get(key)
            if value is None:
                continue
            if isinstance(value, list) and len(value) == self.config.get("num_hidden_layers") and _are_counts(value):
                # One number a layer (Hunyuan, Laguna): memory is planned for the largest.
                value = max(value)
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, bool) or not isinstance(value, int):
                raise config_problem(
                    self.model, t("`{key}` is {value}, not a whole number", key=key, value=json.dumps(value)[:60])
                )
            if not least <= value < _MAX_COUNT:
                raise config_problem(self.model, t("`{key}` is {value}, out of range", key=key, value=value))
            return value
        if default is None:
            raise config_problem(self.model, t("`{key}` is missing", key=keys[0]))
        return default

    def text(self, key: str, default: str = "") -> str:
        value = self.config.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise config_problem(self.model, t("`{key}` is {value}, not a text", key=key, value=json.dumps(value)[:60]))
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.config.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise config_problem(
                self.model, t("`{key}` is {value}, not true or false", key=key, value=json.dumps(value)[:60])
            )
        return value

    def section(self, key: str) -> Mapping[str, Any]:
        value = self.config.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise config_problem(
                self.model, t("`{key}` is {value}, not an object", key=key, value=json.dumps(value)[:60])
            )
        return value


# What the language model's section of a multimodal model may leave out, because it is the default of its class; from
# transformers 5.15 models/*/configuration_*.py, which vLLM reads it with. Published so: Gemma 3 4B, LLaVA.
_CLASS_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "gemma3_text": {
        "vocab_size": 262_208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131_072,
    },
    "gemma": {
        "vocab_size": 256_000, "hidden_size": 3072, "intermediate_size": 24_576, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "max_position_embeddings": 8192,
    },
    "gemma2": {
        "vocab_size": 256_000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 8192,
    },
    "llama": {
        "vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 11_008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "max_position_embeddings": 2048,
    },
    "mistral": {
        "vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131_072,
    },
    "qwen2": {
        "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22_016, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 32_768,
    },
}  # fmt: skip

_TEXT_SECTIONS = ("text_config", "llm_config", "language_config", "language_model", "thinker_config")
_VISION_SECTIONS = ("vision_config", "vision_tower_config", "audio_config", "vit_config", "visual")


def _text_part(reader: _Reader) -> Mapping[str, Any]:
    """The language model's own section over the outer keys, the way transformers' `get_text_config` finds it."""
    outer = reader.config
    for key in _TEXT_SECTIONS:
        inner = outer.get(key)
        if not isinstance(inner, dict):
            continue
        named = inner.get("model_type")
        defaults = _CLASS_DEFAULTS.get(named, {}) if isinstance(named, str) else {}
        if defaults or "num_hidden_layers" in inner or "text_config" in inner or "hidden_size" in inner:
            if isinstance(inner.get("text_config"), dict):
                inner = {**inner, **inner["text_config"]}
            told = {**outer, **{k: v for k, v in inner.items() if v is not None}}
            return {**defaults, **told}
    return outer


def parse_architecture(model: str, config: Mapping[str, Any]) -> str:
    """The architecture's name. Raises ProblemError when there is none or nobody knows it; nothing is guessed."""
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise config_problem(model, t("`architectures` is missing or no list of names"))
    # A part of a larger model is sometimes named in brackets: `Qwen2_5OmniModel(thinker)`.
    name = names[0].split("(")[0].strip()
    if not is_known_architecture(name):
        raise ProblemError(
            Problem(
                "unknown-architecture",
                t("The architecture `{name}` is not known, so its memory is not guessed.", name=name[:80]),
                t("vLLM serves the architectures in its registry; what another one needs nobody can say."),
                (t("config.json of `{model}`: architectures = {names}", model=model, names=json.dumps(names)[:160]),),
                Fix(t("Choose another model; `llm-setup models` lists what is known."), ("llm-setup models",)),
            )
        )
    return name


def parse_model_config(
    model: str,
    config: Mapping[str, Any],
    *,
    checkpoint_bytes: int | None = None,
    quantization_file: Mapping[str, Any] | None = None,
    has_chat_template: bool | None = None,
    serve_as: str = "",
    source: str = "local",
) -> ModelFacts:
    """Facts of a model in the hub's form of config.json.

    quantization_file: a separate hf_quant_config.json or quantize_config.json. Raises ProblemError
    (`model-config-invalid`, `unknown-architecture`) with the key and the value that cannot be right.
    """
    architecture = parse_architecture(model, config)
    outer = _Reader(model, config)
    text = _Reader(model, _text_part(outer))
    told = text.config.get("layers_block_type")
    layers = text.count(
        "num_hidden_layers", "n_layer", "num_layers", "n_layers", default=len(told) if isinstance(told, list) else None
    )
    if layers > 4096:
        raise config_problem(model, t("`{key}` is {value}, out of range", key="num_hidden_layers", value=layers))
    hidden = text.count("hidden_size", "n_embd", "d_model", "dim")
    recurrent = _recurrent(text, hidden)
    # Only a model of states alone has no heads to tell.
    heads = text.count("num_attention_heads", "n_head", "n_heads", default=None if recurrent is None else 1)
    kv_heads = _kv_heads(text, heads)
    latent = text.count("kv_lora_rank", default=0, least=0)
    head_dim = text.count("head_dim", "attention_head_dim", "kv_channels", default=max(1, hidden // heads))
    kinds = _layer_kinds(text, architecture, layers, recurrent is not None)
    moe_every = text.config.get("mlp_layer_types")
    experts = text.count("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", default=0, least=0)
    intermediate = text.count(
        "dense_intermediate_size",
        "intermediate_size",
        "n_inner",
        "ffn_hidden_size",
        "ffn_dim",
        "inner_dim",
        default=0 if experts else 4 * hidden,
    )
    if architecture == "Lfm2ForCausalLM":
        intermediate = _lfm2_width(text, intermediate)
    vision = _vision(outer)
    dense = text.count("first_k_dense_replace", "num_dense_layers", default=0, least=0)
    if isinstance(moe_every, list):
        dense = moe_every.count("dense")
    elif isinstance(text.config.get("moe_layer_freq"), list):
        dense = text.config["moe_layer_freq"].count(0)
    block_index = text.section("sparse_attention_config")
    chosen = block_index.get("sparse_attention_freq")
    dtype = text.config.get("dtype") or text.config.get("torch_dtype") or config.get("torch_dtype") or "bfloat16"
    return ModelFacts(
        model=model,
        architecture=architecture,
        model_type=outer.text("model_type"),
        layers=layers,
        hidden_size=hidden,
        attention_heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=text.count("vocab_size", "padded_vocab_size"),
        intermediate_size=intermediate,
        max_position=_max_position(text, architecture),
        yarn_position=_yarn_position(text),
        dtype=str(dtype).removeprefix("torch."),
        layer_kinds=kinds,
        tie_word_embeddings=text.flag("tie_word_embeddings", architecture.startswith(("Gemma", "Qwen2VL"))),
        head_dim_value=text.count("v_head_dim", default=0, least=0),
        sliding_window=text.count("sliding_window", default=0, least=0),
        chunk_size=text.count("attention_chunk_size", default=0, least=0),
        experts=experts,
        experts_per_token=text.count(
            "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "moe_top_k", default=0, least=0
        ),
        moe_intermediate_size=text.count(
            "moe_intermediate_size",
            "expert_intermediate_size",
            "intermediate_size",
            default=intermediate if experts else 0,
            least=0,
        )
        if experts
        else 0,
        shared_expert_intermediate_size=_shared_experts(text),
        dense_layers=dense,
        moe_latent_size=text.count("moe_latent_size", "routed_expert_hidden_size", default=0, least=0),
        kv_lora_rank=latent,
        qk_rope_head_dim=text.count("qk_rope_head_dim", default=0, least=0),
        qk_nope_head_dim=text.count("qk_nope_head_dim", default=128 if latent else 0, least=0),
        q_lora_rank=text.count("q_lora_rank", default=0, least=0),
        indexer_head_dim=text.count("index_head_dim", default=0, least=0),
        compress_ratios=_compress_ratios(text, layers),
        expert_bits=4.25 if text.config.get("expert_dtype") == "fp4" else 0.0,
        block_index_layers=chosen.count(1) if isinstance(chosen, list) else 0,
        block_index_dim=_Reader(model, block_index).count("sparse_index_dim", default=0, least=0),
        full_kv_heads=text.count("num_global_key_value_heads", default=0, least=0),
        full_head_dim=text.count("global_head_dim", default=0, least=0),
        sliding_kv_heads=text.count("swa_num_key_value_heads", default=0, least=0),
        sliding_head_dim=text.count("swa_head_dim", default=0, least=0),
        sliding_head_dim_value=text.count("swa_v_head_dim", default=0, least=0),
        shared_kv_layers=text.count("num_kv_shared_layers", default=0, least=0),
        shared_layers_wide=text.flag("use_double_wide_mlp", False),
        per_layer_vocab=text.count("vocab_size_per_layer_input", default=0, least=0),
        per_layer_width=text.count("hidden_size_per_layer_input", default=0, least=0),
        both_in_each_layer=architecture.startswith("FalconH1"),
        rope_cache_rows=_rope_cache_rows(text),
        rope_dim=text.count("qk_rope_head_dim", default=head_dim)
        if latent or architecture.startswith("DeepseekV4")
        else _rope_dim(text, architecture, head_dim),
        recurrent=recurrent,
        vision=vision,
        mtp_layers=text.count(
            "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", default=0, least=0
        ),
        quantization=parse_quantization(text.config, quantization_file),
        checkpoint_bytes=checkpoint_bytes,
        has_chat_template=has_chat_template,
        needs_remote_code="auto_map" in config,
        serve_as=serve_as or model,
        source=source,
    )


def _compress_ratios(text: _Reader, layers: int) -> tuple[int, ...]:
    """One for each layer; entries of prediction heads come after them."""
    told = text.config.get("compress_ratios")
    if not isinstance(told, list) or not _are_counts(told) or len(told) < layers or min(told) < 0:
        return ()
    return tuple(told[:layers])


def _are_counts(values: list[Any]) -> bool:
    return bool(values) and all(type(one) is int for one in values)


def _lfm2_width(text: _Reader, told: int) -> int:
    """Feed-forward width of LFM2: two thirds of the told one, rounded up, where it says so (vLLM 0.32
    model_executor/models/lfm2.py `Lfm2MLP`)."""
    width = text.count("block_ff_dim", default=told)
    if not text.flag("block_auto_adjust_ff_dim", True):
        return width
    multiple = text.count("block_multiple_of", default=256)
    return -(-int(2 * width / 3) // multiple) * multiple


def _kv_heads(text: _Reader, heads: int) -> int:
    """KV heads as vLLM's `ModelConfig.get_total_num_kv_heads` reads them (vLLM 0.32, config/model.py)."""
    if text.config.get("multi_query") is True and not text.config.get("new_decoder_architecture"):
        return 1
    return text.count(
        "num_key_value_heads",
        "n_head_kv",
        "num_kv_heads",
        "multi_query_group_num",
        "num_query_groups",
        "num_attention_groups",
        default=heads,
    )


# Ways of stretching that leave `max_position_embeddings` stretched already.
_STRETCHED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "mrope")


def _rope_scaling(text: _Reader) -> tuple[str, float, int]:
    """(kind, factor of at least 1, original length or 0) of the configuration's RoPE."""
    scaling = text.config.get("rope_scaling") or text.config.get("rope_parameters")
    if not isinstance(scaling, dict):
        return "", 1.0, 0
    kind = scaling.get("rope_type") or scaling.get("type")
    factor = scaling.get("factor", 1)
    original = scaling.get("original_max_position_embeddings")
    plain = isinstance(factor, int | float) and not isinstance(factor, bool) and math.isfinite(factor) and factor >= 1
    return (
        kind if isinstance(kind, str) else "",
        min(float(factor), 1e6) if plain else 1.0,
        min(original, 2**40) if isinstance(original, int) and original > 0 else 0,
    )


def _yarn_position(text: _Reader) -> int:
    """The longest context by YaRN's own numbers, as vLLM before 0.30 counts it (config/model.py
    `_get_and_verify_max_len` v0.29.0); 0 where there is no YaRN."""
    kind, factor, original = _rope_scaling(text)
    return int(original * factor) if kind == "yarn" else 0


def _max_position(text: _Reader, architecture: str) -> int:
    """The longest context the configuration allows, with a RoPE factor where one stretches it.

    As `_get_and_verify_max_len` (vLLM 0.32, config/model.py): times the factor, but for ways of stretching that leave
    the length stretched already, and for Gemma 3.
    """
    length = text.count(
        "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", default=2048
    )
    kind, factor, _ = _rope_scaling(text)
    return length if kind in _STRETCHED or architecture.startswith("Gemma3") else int(length * factor)


def _rope_cache_rows(text: _Reader) -> int:
    """Rows of the table of cosines and sines that each rank keeps beside the weights.

    vLLM 0.32 model_executor/layers/rotary_embedding: `max_position` rows, times the factor for linear and dynamic
    scaling (linear_scaling_rope.py, dynamic_ntk_scaling_rope.py), YaRN from its original length (yarn_scaling_rope.py).
    """
    length = text.count("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", default=2048)
    kind, factor, original = _rope_scaling(text)
    if kind in ("yarn", "deepseek_yarn") and original:
        return int(original * factor)
    return int(length * factor) if kind in ("linear", "dynamic") else length


# Architectures that rotate a part of each head where the configuration does not say so.
# vLLM 0.32 model_executor/models/: qwen3_next.py, glm4.py, stablelm.py, nemotron.py; transformers' defaults.
_PARTIAL_ROTARY = {"Qwen3Next": 0.25, "Qwen3_5": 0.25, "Glm4": 0.5, "StableLm": 0.25, "NemotronFor": 0.5, "PhiFor": 0.4}


def _rope_dim(text: _Reader, architecture: str, head_dim: int) -> int:
    """Dimensions of a head that are rotated."""
    told = text.count("rotary_dim", default=0, least=0)
    if told:
        return min(told, head_dim)
    scaling = text.config.get("rope_parameters")
    share = text.config.get("partial_rotary_factor")
    if share is None and isinstance(scaling, dict):
        share = scaling.get("partial_rotary_factor")
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share <= 1:
        share = next((value for name, value in _PARTIAL_ROTARY.items() if architecture.startswith(name)), 1.0)
    return max(1, int(head_dim * share))


def _shared_experts(text: _Reader) -> int:
    """Width of the experts that every token uses, all together; 0 for none."""
    one = text.count(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        "share_expert_dim",
        default=0,
        least=0,
    )
    if one:
        return one
    shared = text.count("n_shared_experts", "num_shared_experts", "num_shared_expert", default=0, least=0)
    return shared * text.count("moe_intermediate_size", default=0, least=0)


_KINDS: dict[str, LayerKind] = {
    "full_attention": "full",
    "attention": "full",
    "*": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "recurrent",
    "mamba": "recurrent",
    "conv": "recurrent",
    "M": "recurrent",
    "-": "none",
    "E": "none",
    "mlp": "none",
    "moe": "none",
}

# Alternating windows that older configurations leave to the code: (every nth layer is full, counted from 1).
# vLLM 0.32: model_executor/models/gemma2.py, gemma3.py, commandr.py.
_FULL_EVERY: Mapping[str, int] = {"Gemma2": 2, "Gemma3": 6, "Cohere2": 4}


def _layer_kinds(text: _Reader, architecture: str, layers: int, has_recurrent: bool) -> tuple[LayerKind, ...]:
    """What each layer keeps, from `layer_types`, a pattern, or the architecture's own rule."""
    told = (
        text.config.get("layer_types")
        or text.config.get("layers_block_type")
        or text.config.get("hybrid_override_pattern")
    )
    if told is not None:
        if not isinstance(told, list | str) or not all(isinstance(kind, str) for kind in told):
            raise config_problem(text.model, t("`layer_types` is no list of names"))
        kinds: tuple[LayerKind, ...] = tuple(_KINDS.get(kind, "full") for kind in told)
        if len(kinds) < layers:
            raise config_problem(
                text.model, t("`layer_types` names {n} layers of {layers}", n=len(kinds), layers=layers)
            )
        return kinds[:layers]
    if architecture.startswith("FalconH1"):
        return _all(layers, "full")
    if (placed := _placed_attention(text, layers)) is not None:
        return placed
    window = text.count("sliding_window", default=0, least=0)
    if text.count("attention_chunk_size", default=0, least=0) and architecture.startswith("Llama4"):
        return _periodic(layers, text.count("no_rope_layer_interval", default=4), "chunked")
    every = text.count("full_attention_interval", "sliding_window_pattern", default=0, least=0)
    if has_recurrent and every:
        return _periodic(layers, every, "recurrent")
    if has_recurrent:
        return _all(layers, "recurrent")
    if window:
        period = every or next((n for name, n in _FULL_EVERY.items() if architecture.startswith(name)), 0)
        if period:
            return _periodic(layers, period, "sliding")
        if architecture.startswith(("Mistral", "Mixtral", "Phi3", "Starcoder2")):
            return _all(layers, "sliding")
        if text.config.get("use_sliding_window") is True:
            first = text.count("max_window_layers", default=0, least=0)
            return _all(min(first, layers), "full") + _all(max(0, layers - first), "sliding")
    return _all(layers, "full")


def _placed_attention(text: _Reader, layers: int) -> tuple[LayerKind, ...] | None:
    """Hybrids that say where attention is: by numbers (Kimi Linear from 1, Bamba from 0), or by a period (Jamba)."""
    linear = text.section("linear_attn_config")
    full: set[int] | None = None
    if isinstance(text.config.get("full_attn_idxs"), list):
        full = {number for number in text.config["full_attn_idxs"] if isinstance(number, int)}
    elif isinstance(linear.get("full_attn_layers"), list):
        full = {number - 1 for number in linear["full_attn_layers"] if isinstance(number, int)}
    elif isinstance(text.config.get("attn_layer_indices"), list):
        full = {number for number in text.config["attn_layer_indices"] if isinstance(number, int)}
    elif "attn_layer_period" in text.config:
        period = text.count("attn_layer_period")
        offset = text.count("attn_layer_offset", default=0, least=0)
        full = {at for at in range(layers) if at % period == offset % period}
    if full is None:
        return None
    recurrent: LayerKind = "recurrent"
    return tuple("full" if at in full else recurrent for at in range(layers))


def _all(layers: int, kind: LayerKind) -> tuple[LayerKind, ...]:
    return tuple([kind] * layers)


def _periodic(layers: int, period: int, others: LayerKind) -> tuple[LayerKind, ...]:
    """Every `period`th layer full, counted from 1."""
    full: LayerKind = "full"
    return tuple(full if (at + 1) % period == 0 else others for at in range(layers))


def _recurrent(text: _Reader, hidden: int) -> Recurrent | None:
    """The state of recurrent layers; None where the model has none."""
    count, config = text.count, text.config
    state = str(config.get("mamba_ssm_dtype") or config.get("mamba_ssm_cache_dtype") or "auto").removeprefix("torch.")
    delta = text.section("linear_attn_config")
    if delta.get("kda_layers"):
        part = _Reader(text.model, delta)
        heads, dim = part.count("num_heads"), part.count("head_dim")
        return Recurrent(
            "kimi-delta",
            conv_kernel=part.count("short_conv_kernel_size", default=4),
            key_heads=heads,
            value_heads=heads,
            key_dim=dim,
            value_dim=dim,
        )
    if "linear_num_value_heads" in config:
        return Recurrent(
            "gated-delta-net",
            conv_kernel=count("linear_conv_kernel_dim", default=4),
            key_heads=count("linear_num_key_heads"),
            value_heads=count("linear_num_value_heads"),
            key_dim=count("linear_key_head_dim"),
            value_dim=count("linear_value_head_dim"),
            state_dtype=state,
        )
    if any(key in config for key in ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")):
        value_heads = count("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
        value_dim = count("mamba_head_dim", "mamba_d_head", "mamba_headdim", default=64)
        return Recurrent(
            "mamba2",
            conv_kernel=count("conv_kernel", "mamba_d_conv", default=4),
            value_heads=value_heads,
            value_dim=value_dim,
            groups=count("n_groups", "mamba_n_groups", "mamba_ngroups", default=1),
            state_size=count("ssm_state_size", "mamba_d_state", default=128),
            intermediate=count("mamba_d_ssm", default=value_heads * value_dim),
            state_dtype=state,
        )
    if "mamba_d_state" in config or ("state_size" in config and "conv_kernel" in config):
        expand = count("mamba_expand", "expand", default=2)
        return Recurrent(
            "mamba1",
            conv_kernel=count("mamba_d_conv", "conv_kernel", default=4),
            state_size=count("mamba_d_state", "state_size", default=16),
            intermediate=count("intermediate_size", default=expand * hidden)
            if "conv_kernel" in config
            else expand * hidden,
            state_dtype=state,
        )
    if "conv_L_cache" in config:
        return Recurrent("short-conv", conv_kernel=count("conv_L_cache"), intermediate=hidden)
    return None


def _vision(outer: _Reader) -> Vision | None:
    """The encoder beside the language model, None where there is none."""
    for key in _VISION_SECTIONS:
        section = outer.section(key)
        if section:
            part = _Reader(outer.model, section)
            return Vision(
                parameters=part.count("parameters", default=0, least=0),
                hidden_size=part.count("hidden_size", "embed_dim", "width", default=0, least=0),
                intermediate_size=part.count("intermediate_size", default=0, least=0),
                layers=part.count("num_hidden_layers", "depth", "layers", default=0, least=0),
                image_size=_first_int(section.get("image_size")),
                patch_size=_first_int(section.get("patch_size")),
            )
    return None


def _first_int(value: Any) -> int:
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
