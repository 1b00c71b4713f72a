"""The catalogue's pages: models, GPUs, vLLM's flags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from wizard.catalog.flags import FlagEntry, all_flags, recorded_versions
from wizard.catalog.gpus import GpuEntry, all_gpus
from wizard.catalog.models import ModelEntry, all_models

Say = Callable[[str], str]


def pages(say: Say) -> dict[str, str]:
    """models.md, gpus.md and vllm-flags.md."""
    return {"models.md": _models(say), "gpus.md": _gpus(say), "vllm-flags.md": _flags(say)}


def _list(say: Say, *items: str) -> str:
    return "\n".join(f"- {say(item)}" for item in items)


def _models(say: Say) -> str:
    models = all_models()
    parts = [
        f"# {say('Models')}\n",
        say(
            "The {count} models that llm-setup knows by itself, without asking a hub. `llm-setup models` ranks them "
            "for a machine, `llm-setup plan MODEL` says how to serve one; `plan` also takes models that are not here. "
            "Each has a fact file with its source, `wizard/catalog/models/<org>/<name>.toml`."
        ).format(count=len(models)),
        "",
        _list(
            say,
            "**Tools, Reasoning**: vLLM's `--tool-call-parser` and `--reasoning-parser`. *(docs)*: the model's recipe "
            "names none, vLLM's documentation does. A dash: none is known, which is not to say that there is none.",
            "**From vLLM**: the least version by the model's recipe. Some parsers came a little later; "
            "the plan says so.",
            "**Shape**: whether its config.json was seen, is recalled, or is asked of the hub when needed.",
            "**Licence**: as model cards name it; read the card before you rely on it.",
        ),
    ]
    titles = ("Model", "Size, 10⁹", "Context", "From vLLM", "Tools", "Reasoning", "Variants", "Shape", "Licence")
    by_maker: dict[str, list[ModelEntry]] = {}
    for model in sorted(models, key=lambda m: m.id.lower()):
        by_maker.setdefault(model.id.split("/")[0], []).append(model)
    for maker, entries in by_maker.items():
        parts += ["", f"## {maker}", ""]
        parts += _table([say(title) for title in titles], (_model_row(entry, say) for entry in entries))
        parts += [f"\n{entry.id.split('/')[1]}: {say(entry.note)}" for entry in entries if entry.note]
    return "\n".join(parts)


def _model_row(entry: ModelEntry, say: Say) -> Sequence[str]:
    size = f"{entry.parameters_b:g}"
    if entry.active_b not in (None, entry.parameters_b):
        size = say("{size} ({n:g} active)").format(size=size, n=entry.active_b)
    tools = entry.tool_parser or "–"
    if entry.documented_tool_call_args:
        tools += " *(docs)*"
    precisions = dict.fromkeys(v.precision for v in entry.variants)
    name = entry.id.split("/")[1]
    purpose = "" if entry.purpose == "chat" else " " + say(f"({entry.purpose})")
    return (
        f"[{name}](https://huggingface.co/{entry.id}){purpose}",
        size,
        f"{entry.context_length:,}",
        entry.min_vllm_version,
        tools,
        entry.reasoning_parser or "–",
        ", ".join(precisions),
        say((entry.config_basis or "asked").split(":")[0]),
        entry.licence or say("see its page"),
    )


def _gpus(say: Say) -> str:
    gpus = all_gpus()
    parts = [
        "# " + say("GPUs") + "\n",
        say(
            "The {count} GPUs that `--gpu NAME` knows, by the driver's name or a shorter one (`4090`, `h100`). A name "
            "that fits several is not guessed: add the memory (`A100 80GB`). The rows are `wizard/catalog/gpus.toml`."
        ).format(count=len(gpus)),
        "",
        _list(
            say,
            "**Memory**: what CUDA or ROCm reports, GiB, which is less than what is on the box. ~: not seen on a real "
            "card, but the usual share for its kind of memory.",
            "**Bandwidth**: GB/s by the data sheet. It decides how fast one answer comes.",
            "**Lacks**: what is not in the hardware. vLLM runs FP8 and 4-bit weights on many of these all the same, "
            "unpacking them as it computes; without bf16 it computes in half precision.",
            "*Not checked*: from memory, and waiting for somebody to compare it with the data sheet.",
        ),
    ]
    for title, vendor in (("NVIDIA", "nvidia"), ("AMD", "amd"), ("Intel", "intel")):
        kind = "Capability" if vendor == "nvidia" else "Architecture"
        parts += ["", f"## {title}", ""]
        parts += _table(
            (*(say(text) for text in ("GPU", "Memory, GiB", "Bandwidth", kind, "Lacks")), ""),
            (_gpu_row(gpu, say) for gpu in gpus if gpu.vendor == vendor),
        )
    return "\n".join(parts)


def _gpu_row(gpu: GpuEntry, say: Say) -> Sequence[str]:
    several = sum(other.name == gpu.name for other in all_gpus()) > 1
    notes = [say(gpu.note) if gpu.note else "", "" if gpu.checked else say("Not checked.")]
    return (
        f"{gpu.name} {gpu.nameplate_gb:g}GB" if several else gpu.name,
        f"{'' if gpu.memory_seen else '~'}{gpu.memory_gib:g}",
        f"{gpu.memory_bandwidth_gb_s:,.0f}",
        gpu.compute_capability or gpu.architecture or "",
        ", ".join(gpu.lacks) or "–",
        " ".join(note for note in notes if note),
    )


def _flags(say: Say) -> str:
    versions = recorded_versions()
    here = [entry for entry in all_flags() if entry.gone is None]
    gone = [entry for entry in all_flags() if entry.gone is not None]
    return "\n".join(
        [
            f"# {say('Flags of vLLM')}",
            "",
            say(
                "The names of all flags of vLLM {first} to {last} are in `wizard/catalog/vllm_flags.toml`. A flag that "
                "the chosen version does not have is refused before anything is loaded, with the nearest names. Below "
                "are those that llm-setup sets, or that people set by habit."
            ).format(first=versions[0], last=versions[-1]),
            "",
            *_table(
                [say(title) for title in ("Flag", "Since", "Default", "What it does", "What it costs")],
                (
                    (
                        f"`{entry.name}`",
                        entry.since or "",
                        _defaults(entry, say),
                        say(entry.what),
                        _said(entry.cost, say),
                    )
                    for entry in here
                ),
            ),
            "",
            f"## {say('Gone')}",
            "",
            *_table(
                [say(title) for title in ("Flag", "Gone in", "What it did", "Instead")],
                (
                    (
                        f"`{entry.name}`",
                        entry.gone or "",
                        say(entry.what),
                        _said(entry.instead, say)
                        or say("`{name}`, with the same value.").format(name=entry.renamed_to),
                    )
                    for entry in gone
                ),
            ),
        ]
    )


def _defaults(entry: FlagEntry, say: Say) -> str:
    return "; ".join(
        say("{value} (from {version})").format(value=say(value), version=since) if since else say(value)
        for since, value in entry.defaults
    )


def _said(text: str | None, say: Say) -> str:
    return say(text) if text else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(head), "|" + "---|" * len(head), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
