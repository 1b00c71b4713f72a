#!/usr/bin/env python3
"""Write the catalogue's fact file of each model: wizard/catalog/models/<org>/<name>.toml.

    import_models.py RECIPES [--shapes FILE] [--configs FOLDER] [--notes FILE] [--out FOLDER] [--checked DATE]

RECIPES is a JSON digest of vllm-project/recipes, {"about": ..., "models": [{"model", "architecture", ...}]}. --shapes
is a JSON file of recalled or seen architecture facts, {"models": {id: {...}}}. --configs is a folder of real files
`org--name_config.json`. What none of them says is in model_notes.toml. Files of models that none of them names are left
alone. Afterwards run scripts/generate_catalogue_index.py.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

# Keys of a config.json that no plan reads: names of tokens, training, generation, bookkeeping.
UNREAD = re.compile(
    r"(^|_)(token_id|token_ids|token_index|id2label|label2id|transformers_version|_name_or_path|initializer_range)$"
    r"|^(bad_words_ids|begin_suppress_tokens|chunk_size_feed_forward|diversity_penalty|do_sample|early_stopping|"
    r"encoder_no_repeat_ngram_size|exponential_decay_length_penalty|finetuning_task|forced_.*|length_penalty|max_length|"
    r"min_length|no_repeat_ngram_size|num_beams|num_beam_groups|num_return_sequences|output_attentions|"
    r"output_hidden_states|output_scores|output_router_logits|prefix|problem_type|pruned_heads|remove_invalid_values|"
    r"repetition_penalty|return_dict|return_dict_in_generate|suppress_tokens|task_specific_params|temperature|tf_legacy_loss|"
    r"tie_encoder_decoder|tokenizer_class|top_k|top_p|typical_p|torchscript|use_bfloat16|use_cache|is_decoder|"
    r"is_encoder_decoder|add_cross_attention|cross_attention_hidden_size|ignore_index|.*placeholder|pretraining_tp|"
    r"attention_dropout|hidden_dropout|hidden_dropout_prob|attention_probs_dropout_prob|embd_pdrop|resid_pdrop|"
    r"router_aux_loss_coef|aux_loss_alpha|seq_aux|ep_size|hidden_act|hidden_activation|rms_norm_eps|layer_norm_eps|layernorm_epsilon|"
    r"initializer_factor|classifier_dropout|router_jitter_noise|norm_eps|rescale_prenorm_residual|bos_token|eos_token)$"
)
LONGEST_LIST = 200


def main() -> None:
    """Read all inputs, write one file a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", type=Path)
    parser.add_argument("--shapes", type=Path)
    parser.add_argument("--configs", type=Path)
    parser.add_argument("--notes", type=Path, default=ROOT / "scripts" / "model_notes.toml")
    parser.add_argument("--out", type=Path, default=ROOT / "wizard" / "catalog" / "models")
    parser.add_argument("--checked", default=datetime.date.today().isoformat())
    options = parser.parse_args()

    recipes = json.loads(options.recipes.read_text("utf-8"))
    origin = re.search(r"vllm-project/recipes, commit (\w+)", recipes["about"])
    source = f"https://github.com/vllm-project/recipes, commit {origin[1]}" if origin else "vllm-project/recipes"
    notes = tomllib.loads(options.notes.read_text("utf-8"))
    configs = Configs(options.configs, options.shapes, notes)

    everything = [*({**m, "source": source} for m in recipes["models"]), *notes["model"]]
    sizes = {recipe["model"]: billions(recipe["parameters"]) for recipe in everything}
    for recipe in everything:
        entry = fact_file(recipe, notes, configs, sizes, options.checked)
        path = options.out / f"{recipe['model']}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(entry, "utf-8")
        print(path.relative_to(options.out))


class Configs:
    """Where the facts of config.json come from: a seen file, one of the same shape, or recalled facts."""

    def __init__(self, folder: Path | None, shapes: Path | None, notes: dict[str, Any]) -> None:
        self._folder = folder
        self._shapes = json.loads(shapes.read_text("utf-8"))["models"] if shapes else {}
        self._recalled: dict[str, dict[str, Any]] = notes["recalled"]
        self._noted = {model: row for row in notes["seen"] for model in row["models"]}
        self._same = {model: row for row in notes["same_config"] for model in row["models"]}

    def find(self, model: str) -> tuple[dict[str, Any], str] | None:
        """The config and how it is known."""
        row = self._same.get(model)
        if not (row and row.get("instead")) and (own := self._own(model)):
            return own
        if row is None or (other := self._own(row["as"])) is None:
            return None
        config, basis = other
        kept = {k: v for k, v in config.items() if k not in row.get("drop", ())}
        changed = {**kept, **row.get("change", {})}
        return changed, f"{basis}: the file of {row['as']}, which has the same shape" if basis == "seen" else basis

    def _own(self, model: str) -> tuple[dict[str, Any], str] | None:
        if (seen := self._seen(model)) is not None:
            return seen, "seen"
        # One of the same shape that was seen is better than what is recalled of this one.
        row = self._same.get(model)
        if row and self._seen(row["as"]) is not None:
            return None
        if noted := self._noted.get(model):
            return noted["config"], f"seen: {noted['where']}"
        if shape := self._shapes.get(model):
            return hub_form(shape), "recalled" if "recalled" in shape["source"] else "seen"
        return (self._recalled[model], "recalled") if model in self._recalled else None

    def _seen(self, model: str) -> dict[str, Any] | None:
        path = self._folder / f"{model.replace('/', '--')}_config.json" if self._folder else None
        return trim(json.loads(path.read_text("utf-8"))) if path and path.exists() else None


def trim(config: dict[str, Any]) -> dict[str, Any]:
    """What a plan may read: no nulls, no token ids, no list of thousands of layer names."""
    kept: dict[str, Any] = {}
    for key, value in config.items():
        if value is None or UNREAD.search(key):
            continue
        if isinstance(value, dict):
            value = trim(value)
            if not value:
                continue
        if isinstance(value, list) and (len(value) > LONGEST_LIST or any(v is None for v in value)):
            continue
        kept[key] = value
    return kept


def hub_form(shape: dict[str, Any]) -> dict[str, Any]:
    """Architecture facts under the names that config.json uses; counts of layer kinds become a list of kinds."""
    renamed = {
        "num_k_heads": "linear_num_key_heads",
        "num_v_heads": "linear_num_value_heads",
        "k_dim": "linear_key_head_dim",
        "v_dim": "linear_value_head_dim",
        "conv": "linear_conv_kernel_dim",
    }
    config = {
        k: v
        for k, v in shape.items()
        if v is not None
        and k
        not in (
            "architecture",
            "source",
            "layer_types",
            "linear_attn",
            "total_params",
            "vision_params",
            "note",
            "checkpoint_bytes",
        )
    }
    config["architectures"] = [shape["architecture"]]
    if shape.get("vision_params"):
        config["vision_config"] = {"parameters": shape["vision_params"]}
    if linear := shape.get("linear_attn"):
        config |= {new: linear[old] for old, new in renamed.items()}
        config["mamba_ssm_dtype"] = "float32" if str(linear["ssm_dtype"]).startswith("float32") else "bfloat16"
    if counts := shape.get("layer_types"):
        config["layer_types"] = spread(counts)
    return config


def spread(counts: dict[str, int]) -> list[str]:
    """Kinds of layers in the usual order: many of the frequent kind, then one of the rare kind."""
    (rare, few), (frequent, many) = sorted(counts.items(), key=lambda item: item[1])
    kinds: list[str] = []
    for at in range(few):
        kinds += [frequent] * (many * (at + 1) // few - many * at // few)
        kinds.append(rare)
    return kinds


def fact_file(
    recipe: dict[str, Any], notes: dict[str, Any], configs: Configs, sizes: dict[str, float | None], checked: str
) -> str:
    """The TOML text of one model."""
    model = recipe["model"]
    lines = [f"id = {text(model)}", f"family = {text(family(model))}"]
    lines.append(f"architecture = {text(recipe['architecture'])}")
    for key, given in (("parameters_b", recipe["parameters"]), ("active_b", recipe["active"])):
        if (size := billions(given)) is not None:
            lines.append(f"{key} = {size:g}")
    lines.append(f"context_length = {recipe['context_length']}")
    lines.append(f"min_vllm_version = {text(recipe['min_vllm_version'])}")
    lines.append(f"multimodal = {text(bool(recipe.get('multimodal')))}")
    for key in ("base_args", "tool_call_args", "reasoning_args", "spec_decoding_args", "opt_in", "hardware_verified"):
        if recipe.get(key):
            lines.append(f"{key} = {text(recipe[key])}")
    if purpose := notes["purpose"].get(model):
        lines.append(f"purpose = {text(purpose)}")
    for row in notes["documented_tools"]:
        if model in row["models"]:
            lines.append(f"documented_tool_call_args = {text(row['arguments'])}")
            lines.append(f"documented_tool_call_source = {text(row['source'])}")
    if licence := licence_of(model, notes["licence"]):
        lines.append(f"licence = {text(licence)}")
    if recipe.get("note"):
        lines.append(f"note = {text(recipe['note'])}")
    lines.append(f"source = {text(recipe['source'])}")
    if "huggingface.co" not in recipe["source"]:
        lines.append(f"checked = {checked}")
    if recipe.get("base_env"):
        lines += ["", "[base_env]", *(f"{k} = {text(v)}" for k, v in recipe["base_env"].items())]

    variants = recipe.get("variants") or [{"name": "default", "model": model, "precision": "bf16"}]
    for variant in [*variants, *(v for v in notes["variant"] if v["of"] == model)]:
        lines += ["", "[[variant]]"]
        lines += [f"{k} = {text(variant[k])}" for k in ("name", "model", "precision")]
        if (other := other_size(model, variant["model"], sizes)) is not None:
            lines.append(f"parameters_b = {other:g}")
        if variant.get("vram_minimum_gb"):
            lines.append(f"vram_minimum_gb = {variant['vram_minimum_gb']:g}")
        if variant.get("extra_args"):
            lines.append(f"extra_args = {text(variant['extra_args'])}")
        if variant["model"] in notes["download_gib"]:
            lines.append(f"download_gib = {notes['download_gib'][variant['model']]:g}")

    if found := configs.find(model) or given_config(recipe):
        config, basis = found
        lines += ["", f"# From config.json; {basis}.", *table("config", config), ""]
        lines.insert(lines.index(f"source = {text(recipe['source'])}") + 1, f"config_basis = {text(basis)}")
    return "\n".join(lines).rstrip("\n") + "\n"


def given_config(recipe: dict[str, Any]) -> tuple[dict[str, Any], str] | None:
    """The config that the notes themselves give."""
    return (recipe["config"], recipe["config_basis"]) if "config" in recipe else None


def table(name: str, values: dict[str, Any]) -> list[str]:
    """A TOML table and its sub-tables."""
    lines = [f"[{name}]", *(f"{key_text(k)} = {text(v)}" for k, v in values.items() if not isinstance(v, dict))]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", *table(f"{name}.{key_text(key)}", value)]
    return lines


def key_text(key: str) -> str:
    """A bare key where TOML allows it."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def text(value: Any) -> str:
    """A TOML value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key_text(k)} = {text(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(text(v) for v in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)


def billions(given: str) -> float | None:
    """ "8.2B" -> 8.2, "230M" -> 0.23, "2.4T" -> 2400; None where no figure is given."""
    match = re.fullmatch(r"([\d.]+)([MBT])", given)
    return round(float(match[1]) * {"M": 0.001, "B": 1, "T": 1000}[match[2]], 4) if match else None


def other_size(model: str, variant: str, sizes: dict[str, float | None]) -> float | None:
    """The size of a variant that is another model, by its own recipe or by its name; None where it is the same."""
    own = sizes[model]
    told, own_told = (size_in_name(m) for m in (variant, model))
    size = sizes.get(variant) or (told if told != own_told else None)
    return size if own and size and not 0.8 < size / own < 1.25 else None


def size_in_name(model: str) -> float | None:
    """The first size in a name: "Qwen3Guard-Gen-0.6B" -> 0.6."""
    match = re.search(r"(?<![A-Za-z\d.])(\d+(?:\.\d+)?)[bB](?![A-Za-z])", model.split("/")[1])
    return float(match[1]) if match else None


def family(model: str) -> str:
    """The name up to its size: "Qwen/Qwen3-30B-A3B" -> "Qwen3"."""
    name = model.split("/")[1]
    name = re.sub(r"^(Meta|NVIDIA)-", "", name)
    head = re.split(r"[-_](?=(?:[EeA]?\d+(?:\.\d+)?[BbMTt]\b|\d+x\d+))", name)[0]
    return re.sub(r"-(it|Instruct|Base|PT|hf)$", "", head)


def licence_of(model: str, rows: list[dict[str, Any]]) -> str | None:
    """The first pattern that fits."""
    return next((r["licence"] for r in rows if any(fnmatch.fnmatchcase(model, p) for p in r["models"])), None)


if __name__ == "__main__":
    main()
