"""Models as fact files: parsers, minimum vLLM version, needed flags, quantised variants, shape.

One file a model at the hub's path: models/<org>/<name>.toml, most of them made from vLLM's own recipes by
scripts/import_models.py. What is absent is unknown, not "no".
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from wizard.catalog.arguments import flag_value
from wizard.catalog.index import read_index

Architecture = Literal["dense", "moe"]
Purpose = Literal["chat", "base", "translation", "moderation"]
GIB = 2**30

# Bytes that a weight takes on disk, by the recipes' names of precisions: int4 with a 16-bit scale and zero point for
# 128 weights, nvfp4 with an 8-bit scale for 16, mxfp4 with one for 32. Embeddings stay at two bytes in all of them.
_BYTES_PER_WEIGHT = {
    "bf16": 2.0,
    "fp8": 1.0,
    "mxfp8": 1.03,
    "int8": 1.0,
    "int4": 0.52,
    "nvfp4": 0.5625,
    "fp4": 0.5625,
    "mxfp4": 0.53,
    "int2/4/8": 0.5,
}
# What a quantised copy adds to the name of the model: "-AWQ", "-FP8-dynamic", "-quantized.w4a16", "-bnb-4bit".
_QUANTISED = re.compile(
    r"[-_.](awq|gptq|fp8|nvfp4|mxfp4|fp4|int4|int8|w4a16|w8a8|w8a16|quantized|bnb|unsloth|gguf|autoround|marlin|4bit|8bit)"
    r"([-_.].*)?$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Variant:
    """One checkpoint of a model. vram_minimum_gb: the recipe's advice, 10**9 bytes over all GPUs. download_gib: the
    checkpoint's GiB where a log showed them, else None (see ModelEntry.download). parameters_b: 10**9 weights, where
    the variant is a smaller or larger model.
    """

    name: str
    model: str
    precision: str
    vram_minimum_gb: float | None = None
    extra_args: tuple[str, ...] = ()
    download_gib: float | None = None
    parameters_b: float | None = None


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """What is known of a model.

    parameters_b, active_b: 10**9 weights, in all and used for one token. context_length: tokens. min_vllm_version:
    "0.8.5" or "nightly". *_args: as vLLM's recipe gives them, also where empty. documented_tool_call_args: from vLLM's
    documentation, for a model whose recipe has none. purpose: all but "chat" do not follow a conversation. config: the
    keys of config.json that a plan reads, or None; config_basis says whether it was seen or recalled. licence: as the
    model card names it, None where not known.
    """

    id: str
    family: str
    architecture: Architecture
    parameters_b: float
    active_b: float | None
    context_length: int
    min_vllm_version: str
    multimodal: bool
    base_args: tuple[str, ...]
    base_env: Mapping[str, str]
    tool_call_args: tuple[str, ...]
    reasoning_args: tuple[str, ...]
    spec_decoding_args: tuple[str, ...]
    documented_tool_call_args: tuple[str, ...]
    variants: tuple[Variant, ...]
    config: Mapping[str, Any] | None
    config_basis: str | None
    opt_in: tuple[str, ...]
    hardware_verified: tuple[str, ...]
    licence: str | None
    purpose: Purpose
    note: str
    source: str
    checked: str | None

    @property
    def tool_parser(self) -> str | None:
        """The name after `--tool-call-parser`, by the recipe, else by the documentation."""
        return flag_value(self.tool_call_args, "--tool-call-parser") or flag_value(
            self.documented_tool_call_args, "--tool-call-parser"
        )

    @property
    def reasoning_parser(self) -> str | None:
        """The name after `--reasoning-parser`."""
        return flag_value(self.reasoning_args, "--reasoning-parser")

    @property
    def chat_template(self) -> str | None:
        """The chat template that the recipe names; a path within vLLM's source, which its wheels do not carry."""
        return flag_value(self.tool_call_args, "--chat-template")

    def variant(self, model_id: str) -> Variant:
        """The variant with this id, else the default one (the first)."""
        wanted = model_id.lower()
        return next((v for v in self.variants if v.model.lower() == wanted), self.variants[0])

    def download(self, variant: Variant) -> tuple[float, bool]:
        """GiB to download, and whether a log showed it; else estimated from the weights at the variant's precision."""
        if variant.download_gib is not None:
            return variant.download_gib, True
        size = self.weights_gib(variant.precision) * (variant.parameters_b or self.parameters_b) / self.parameters_b
        return round(size, 2), False

    def weights_gib(self, precision: str) -> float:
        """Estimated GiB of the weights at a precision; within 16% of the 23 checkpoints whose size is known."""
        per_weight = _BYTES_PER_WEIGHT.get(precision, 2.0)
        if precision == "fp8" and (self.config or {}).get("expert_dtype") == "fp4":
            per_weight = _BYTES_PER_WEIGHT["mxfp4"]  # nearly all weights are those of experts
        embeddings_b = min(self._embeddings_b(), self.parameters_b / 2)
        return ((self.parameters_b - embeddings_b) * per_weight + embeddings_b * 2) * 1e9 / GIB

    def _embeddings_b(self) -> float:
        config = dict(self.config or {})
        config |= config.get("text_config", {})
        try:
            copies = 1 if config.get("tie_word_embeddings") else 2
            return copies * int(config["vocab_size"]) * int(config["hidden_size"]) / 1e9
        except KeyError:
            return min(0.15 * self.parameters_b, 1.5)


@cache
def all_models() -> tuple[ModelEntry, ...]:
    """Every model of the catalogue, by path."""
    return tuple(_entry(row) for row in _rows())


def find_model(model_id: str) -> ModelEntry | None:
    """The entry of a model, by its id, by the id of one of its variants, or by its bare name; case does not matter."""
    wanted = model_id.strip().strip("/").lower()
    if not wanted:
        return None
    rows = _rows()
    for names in (_own_id, _variant_ids, _bare_names):
        matching = [row for row in rows if wanted in names(row)]
        if matching and (len(matching) == 1 or names is not _bare_names):
            return _entry(matching[0])
    return None


def find_base_model(model_id: str) -> ModelEntry | None:
    """The entry whose quantised or re-uploaded copy the id names ("RedHatAI/Qwen3-14B-FP8-dynamic" -> Qwen/Qwen3-14B).

    A copy has the parsers, template and shape of its original, but not its weights.
    """
    if entry := find_model(model_id):
        return entry
    name = model_id.strip().strip("/").rsplit("/", 1)[-1].lower()
    for bare in (name, _QUANTISED.sub("", name)):
        for candidate in (bare, bare.removeprefix("meta-")):
            if entry := find_model(candidate):
                return entry
    return None


def nearest_models(model_id: str, count: int = 3) -> tuple[str, ...]:
    """Ids that a misspelt one may have meant, likeliest first."""
    wanted = model_id.lower().rsplit("/", 1)[-1]
    bare = {row["id"].rsplit("/", 1)[-1].lower(): row["id"] for row in _rows()}
    return tuple(bare[name] for name in difflib.get_close_matches(wanted, bare, n=count, cutoff=0.6))


@cache
def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_index("models")
    return rows


def _own_id(row: dict[str, Any]) -> set[str]:
    return {row["id"].lower()}


def _variant_ids(row: dict[str, Any]) -> set[str]:
    return {v["model"].lower() for v in row["variant"]}


def _bare_names(row: dict[str, Any]) -> set[str]:
    return {name.rsplit("/", 1)[-1] for name in _own_id(row) | _variant_ids(row)}


def _entry(row: dict[str, Any]) -> ModelEntry:
    return ModelEntry(
        id=row["id"],
        family=row["family"],
        architecture=row["architecture"],
        parameters_b=row["parameters_b"],
        active_b=row.get("active_b"),
        context_length=row["context_length"],
        min_vllm_version=row["min_vllm_version"],
        multimodal=row["multimodal"],
        base_args=tuple(row.get("base_args", ())),
        base_env=row.get("base_env", {}),
        tool_call_args=tuple(row.get("tool_call_args", ())),
        reasoning_args=tuple(row.get("reasoning_args", ())),
        spec_decoding_args=tuple(row.get("spec_decoding_args", ())),
        documented_tool_call_args=tuple(row.get("documented_tool_call_args", ())),
        variants=tuple(
            Variant(
                name=v["name"],
                model=v["model"],
                precision=v["precision"],
                vram_minimum_gb=v.get("vram_minimum_gb"),
                extra_args=tuple(v.get("extra_args", ())),
                download_gib=v.get("download_gib"),
                parameters_b=v.get("parameters_b"),
            )
            for v in row["variant"]
        ),
        config=row.get("config"),
        config_basis=row.get("config_basis"),
        opt_in=tuple(row.get("opt_in", ())),
        hardware_verified=tuple(row.get("hardware_verified", ())),
        licence=row.get("licence"),
        purpose=row.get("purpose", "chat"),
        note=row.get("note", ""),
        source=row["source"],
        checked=row.get("checked"),
    )
