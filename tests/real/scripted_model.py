"""Makes a model folder that says what a script tells it to, so that real clients get a known answer from a real server.

    python scripted_model.py GGUF FOLDER

Runs in vLLM's own Python (torch, safetensors). The architecture is Llama, so nothing in the server is replaced.

How: the one layer is all zeros, so the last hidden state is the normalised embedding of the last token alone, and the
next token a function of it. Each token of the script has an embedding dimension of its own, and the `lm_head` row of
its successor weighs that dimension; any other token leads to the end token. A token can have one successor only, so a
text is cut into pieces that occur once in the script, and each piece is a token added to SmolLM2's vocabulary; no merge
leads to it, so prompts are cut as ever.

Which text is said is the chat template's choice: it ends the prompt with a token that starts that text.
"""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

CONTEXT_TOKENS = 65536
HIDDEN = 256
END = "<|im_end|>"
PIECE_CHARACTERS = 5

ANSWER = "Ready."
# Said once the output of the tool came back; the file that the call looks for has this word in its name and inside.
PROOF_WORD = "periwinkle"
PROVED = "The tool answered."
# A question with one of these words gets a tool call, of the first of these tools that the client offers. They are the
# tools that coding clients offer for a look at the folder, each with the arguments that its schema asks for, and the
# one that llm-setup's own probes offer.
CALL_WORD = "inspect"
CALL_WORDS = (CALL_WORD, "weather")
TOOL_CALLS: dict[str, dict[str, Any]] = {
    "exec_command": {"cmd": "cat periwinkle.txt"},  # Codex
    "Bash": {"command": "cat periwinkle.txt"},  # Claude Code, Continue
    "bash": {"command": "cat periwinkle.txt"},  # opencode, Kilo, pi
    "run_commands": {"commands": ["cat periwinkle.txt"]},  # Cline
    "glob": {"pattern": "*.txt"},  # Qwen Code
    "get_weather": {"city": "Paris"},
}

TEMPLATE = """\
{%- set seen = namespace(tool=false, proof=false, asked=false) -%}
{%- if tools %}{{ '<|im_start|>system\\n# Tools\\n<tools>\\n' }}
{%- for tool in tools %}{{ tool | tojson }}{{ '\\n' }}{% endfor %}{{ '</tools><|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{%- set content = message.content or '' %}
{{- '<|im_start|>' + message.role + '\\n' + content }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n' }}{{ call.function | tojson }}{{ '\\n</tool_call>' }}{% endfor %}
{{- '<|im_end|>\\n' }}
{%- if message.role == 'user' %}
{%- for word in @CALL_WORDS@ if word in content %}{% set seen.asked = true %}{% endfor %}
{%- endif %}
{%- if message.role == 'tool' %}{% set seen.tool = true %}{% endif %}
{%- if message.role == 'tool' and @PROOF_WORD@ in content %}{% set seen.proof = true %}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- set say = namespace(start=@ANSWER@) %}
{%- if seen.proof %}{% set say.start = @PROVED@ %}
{%- elif seen.asked and not seen.tool %}
{%- set offered = (tools or []) | map(attribute='function.name') | list %}
{%- for name, start in @TOOL_CALLS@ | reverse %}
{%- if name in offered %}{% set say.start = start %}{% endif %}
{%- endfor %}
{%- endif %}{{ say.start }}{% endif %}"""


def read_gguf_metadata(file: BinaryIO) -> dict[str, Any]:
    """The key-value part of a GGUF file (version 3; format: ggml's docs/gguf.md)."""
    plain = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def number(code: str) -> Any:
        return struct.unpack("<" + code, file.read(struct.calcsize("<" + code)))[0]

    def text() -> str:
        return file.read(number("Q")).decode("utf-8")

    def value(kind: int) -> Any:
        if kind == 8:
            return text()
        if kind == 9:
            inner, count = number("I"), number("Q")
            return [value(inner) for _ in range(count)]
        return number(plain[kind])

    if file.read(4) != b"GGUF":
        raise ValueError("this is no GGUF file")
    number("I"), number("Q")
    return {text(): value(number("I")) for _ in range(number("Q"))}


@dataclass(frozen=True, slots=True)
class Script:
    """The vocabulary with the script's tokens at its end, each of those tokens' successor, each text's start token."""

    vocabulary: tuple[str, ...]
    starts: dict[str, str]
    successors: dict[int, int]


def pieces(text: str, used: set[str]) -> list[str]:
    """The text cut into pieces that are neither in `used` nor twice here; in GPT-2's byte alphabet (blank, newline)."""
    moved = text.replace(" ", "Ġ").replace("\n", "Ċ")

    def cut(at: int, taken: list[str]) -> list[str] | None:
        if at == len(moved):
            return taken
        for end in range(min(at + PIECE_CHARACTERS, len(moved)), min(at + 3 * PIECE_CHARACTERS, len(moved)) + 1):
            piece = moved[at:end]
            found = None if piece in used or piece in taken else cut(end, [*taken, piece])
            if found:
                return found
        return None

    found = cut(0, [])
    if not found:
        raise ValueError(f"no way to cut: {text}")
    used.update(found)
    return found


def write_script(plain_vocabulary: list[str]) -> Script:
    """All texts as chains of tokens: start, pieces, end."""
    texts = [ANSWER, PROVED]
    for name, arguments in TOOL_CALLS.items():
        texts.append(f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>")
    vocabulary, used = list(plain_vocabulary), set(plain_vocabulary)
    end = vocabulary.index(END)
    starts: dict[str, str] = {}
    successors: dict[int, int] = {}
    for number, text in enumerate(texts):
        starts[text] = f"<|say_{number}|>"
        added = [starts[text], *pieces(text, used)]
        chain = [*range(len(vocabulary), len(vocabulary) + len(added)), end]
        vocabulary += added
        successors.update(pairwise(chain))
    return Script(tuple(vocabulary), starts, successors)


def tokenizer_json(metadata: dict[str, Any], script: Script) -> dict[str, Any]:
    """Hugging Face's tokenizer.json of a GPT-2 style tokenizer with SmolLM's digits (pre: smollm)."""
    special = [i for i, kind in enumerate(metadata["tokenizer.ggml.token_type"]) if kind == 3]
    special += [i for i, token in enumerate(script.vocabulary) if token in script.starts.values()]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": script.vocabulary[i], **flags} for i in special],
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {token: i for i, token in enumerate(script.vocabulary)},
            "merges": metadata["tokenizer.ggml.merges"],
        },
    }


def write_tokenizer(gguf: Path, folder: Path) -> Script:
    """tokenizer.json and its config, with the script's tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    with gguf.open("rb") as file:
        metadata = read_gguf_metadata(file)
    script = write_script(metadata["tokenizer.ggml.tokens"])
    text = json.dumps(tokenizer_json(metadata, script), ensure_ascii=False)
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    special = {"bos_token": "<|im_start|>", "eos_token": END, "pad_token": END, "unk_token": "<|endoftext|>"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1 << 30, **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return script


def template(start_of: dict[str, str]) -> str:
    """The chat template with the start tokens filled in."""
    calls = list(zip(TOOL_CALLS, list(start_of.values())[2:], strict=True))
    values = {
        "ANSWER": start_of[ANSWER],
        "PROVED": start_of[PROVED],
        "PROOF_WORD": PROOF_WORD,
        "CALL_WORDS": CALL_WORDS,
        "TOOL_CALLS": calls,
    }
    text = TEMPLATE
    for name, value in values.items():
        text = text.replace(f"@{name}@", json.dumps(value))
    return text


def llama_config(vocabulary_size: int, eos: int) -> dict[str, Any]:
    """One layer, one head: the smallest that the server's attention kernels take."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocabulary_size,
        "hidden_size": HIDDEN,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": 64,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT_TOKENS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 100000.0,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 1,
        "eos_token_id": eos,
        "pad_token_id": eos,
    }


def write_model(gguf: Path, folder: Path) -> None:
    """The whole folder: tokenizer, template, config, weights."""
    import torch
    from safetensors.torch import save_file

    script = write_tokenizer(gguf, folder)
    vocabulary, eos = script.vocabulary, script.vocabulary.index(END)
    (folder / "chat_template.jinja").write_text(template(script.starts), encoding="utf-8")
    config = llama_config(len(vocabulary), eos)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": eos, "pad_token_id": eos}))

    if len(script.successors) >= HIDDEN:
        raise ValueError(f"{len(script.successors)} script tokens do not fit {HIDDEN} dimensions")
    embedding = torch.zeros(len(vocabulary), HIDDEN)
    head = torch.zeros(len(vocabulary), HIDDEN)
    embedding[:, 0] = 1.0  # every token; alone it leads to the end token
    head[eos, 0] = 5.0
    for dimension, (token, following) in enumerate(script.successors.items(), start=1):
        embedding[token, dimension] = 1.0
        head[following, dimension] = 50.0
    width, head_width = config["hidden_size"], config["head_dim"]
    layer = {
        "self_attn.q_proj": (head_width, width),
        "self_attn.k_proj": (head_width, width),
        "self_attn.v_proj": (head_width, width),
        "self_attn.o_proj": (width, head_width),
        "mlp.gate_proj": (config["intermediate_size"], width),
        "mlp.up_proj": (config["intermediate_size"], width),
        "mlp.down_proj": (width, config["intermediate_size"]),
    }
    weights = {f"model.layers.0.{name}.weight": torch.zeros(*shape) for name, shape in layer.items()}
    for name in ("model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"):
        weights[f"{name}.weight"] = torch.ones(width)
    weights |= {"model.embed_tokens.weight": embedding, "lm_head.weight": head}
    save_file(
        {name: weight.to(torch.bfloat16).contiguous() for name, weight in weights.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )


if __name__ == "__main__":
    write_model(Path(sys.argv[1]), Path(sys.argv[2]))
