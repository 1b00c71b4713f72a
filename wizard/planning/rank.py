"""What to serve on a machine: each model of the catalogue tried with the plan's own arithmetic, best first.

A model is tried in its most exact variant that leaves enough room, else in the one with the most room. Speed is
estimated from memory bandwidth: to make one token, the GPU reads every active weight once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from wizard.catalog.flags import version_key
from wizard.catalog.gpus import find_gpu, lacks
from wizard.catalog.models import GIB, ModelEntry, Variant, all_models
from wizard.hardware.machine import Cpu, Gpu, Machine
from wizard.i18n import t
from wizard.planning.catalogue import catalogue_facts, variant_facts
from wizard.planning.facts import ModelFacts
from wizard.planning.intent import Intent
from wizard.planning.recommend import choose, serving_gpus
from wizard.planning.versions import NEWEST_KNOWN, TESTED_VERSION
from wizard.problems import ProblemError

# With no client named: what a coding agent needs at the least to begin with.
AGENT_CONTEXT_TOKENS = 16_384

# Share of the data sheet's bandwidth that a decoding step reaches, and the time of a step that does not shrink with the
# weights: launching the kernels of each layer (more of them where experts are chosen), and one exchange between GPUs
# after attention and after the feed-forward part. Set so that published single-request figures come out: Llama 3.1 8B
# bf16 at about 50 tokens/s on an RTX 4090 and 140 on an H100, Qwen3-30B-A3B in 4 bits at about 150 on an RTX 4090.
_BANDWIDTH_SHARE = 0.85
_STEP_MS = 0.5
_LAYER_MS = 0.04
_MOE_LAYER_MS = 0.08
_EXCHANGE_MS = {True: 0.015, False: 0.04}

# Two channels of DDR5, as most computers have, and what one core reads of them; nothing on a machine tells it without
# measuring. One core of a Zen 4 EPYC read 16 GB/s.
CPU_BANDWIDTH_GB_S = 50.0
_CORE_BANDWIDTH_GB_S = 16.0
# 10**9 operations a second of one core in torch's matrix products. Measured on Zen 4: 215 in bfloat16, 90 in float32
# (torch 2.13, 1,024 tokens). AMX is four times as wide at the least; AVX2 and NEON half as wide as AVX-512.
_CORE_GFLOPS = (("amx_bf16", 800.0), ("avx512_bf16", 215.0), ("avx512f", 90.0))
_PLAIN_CORE_GFLOPS = 45.0
# Attention and what else is no matrix product take the rest.
_PREFILL_SHARE = 0.6
# A first request of an agent fills half of the least context it works in; its answer is of this many tokens. Waiting
# up to this long is taken as usable.
_ANSWER_TOKENS = 300
_PATIENCE_S = 60.0

_VARIANT_NAMES = re.compile(r"default|fp8|nvfp4|mxfp|fp4|int4|int8|awq|gptq|w4a16|w8a8|bf16")
_OTHER_HARDWARE = re.compile(r"ascend|amd|mobile|^base")
# From which compute capability on vLLM runs a precision, also where it only unpacks the weights and computes wider:
# `get_min_capability` in vLLM 0.32, model_executor/layers/quantization/{fp8,auto_awq,modelopt,mxfp4}.py.
_LEAST_CAPABILITY = {
    "bf16": (7, 0),
    "fp8": (7, 5),
    "mxfp8": (7, 5),
    "int8": (7, 5),
    "int4": (7, 5),
    "nvfp4": (8, 0),
    "fp4": (8, 0),
    "mxfp4": (8, 0),
    "int2/4/8": (8, 0),
}
_FOR_CODE = re.compile(r"coder|code|devstral|laguna", re.IGNORECASE)
Fit = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Need:
    """What a client needs of a model."""

    client: str
    title: str
    tools: bool
    minimum_context_tokens: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """One model on this machine, in the variant that suits it best.

    fits: "unknown" where the weights fit but the model's shape is not known, so that its context is not either.
    context_tokens: the longest request that fits; kv_tokens: all requests together; gpus: how many it takes;
    tokens_per_s: of one answer, estimated, None where the bandwidth is not known; first_answer_s: until a first
    request is read and answered, where there is no GPU and reading takes longest. lacking: what it does not have, in
    sentences. serves: the clients it is enough for.
    """

    entry: ModelEntry
    variant: Variant
    fits: Fit
    context_tokens: int | None
    kv_tokens: int | None
    gpus: int
    tokens_per_s: float | None
    download_gib: float
    download_seen: bool
    lacking: tuple[str, ...]
    serves: tuple[str, ...]
    score: float
    first_answer_s: float | None = None

    @property
    def calls_tools(self) -> bool:
        """Whether a tool-call parser is known for it."""
        return self.entry.tool_parser is not None

    @property
    def suits(self) -> bool:
        """Whether it fits and has all that was asked for."""
        return self.fits == "yes" and not self.lacking

    def as_json(self) -> dict[str, Any]:
        """One element of `models --json`. Sizes in GiB, tokens, tokens/s."""
        speed = self.tokens_per_s
        return {
            "model": self.entry.id,
            "serve": self.variant.model,
            "variant": self.variant.name,
            "precision": self.variant.precision,
            "suits": self.suits,
            "fits": {"yes": True, "no": False, "unknown": None}[self.fits],
            "context_tokens": self.context_tokens,
            "kv_tokens": self.kv_tokens,
            "gpus": self.gpus,
            "tokens_per_s": None if speed is None else round(speed, 1),
            "first_answer_s": None if self.first_answer_s is None else round(self.first_answer_s),
            "estimated": ["tokens_per_s", "first_answer_s", "context_tokens", "kv_tokens"]
            + ([] if self.download_seen else ["download_gib"]),
            "tools": self.calls_tools,
            "tool_parser": self.entry.tool_parser,
            "reasoning_parser": self.entry.reasoning_parser,
            "multimodal": self.entry.multimodal,
            "licence": self.entry.licence,
            "download_gib": self.download_gib,
            "min_vllm_version": self.entry.min_vllm_version,
            "parameters_b": self.entry.parameters_b,
            "active_b": self.entry.active_b,
            "shape": self.entry.config_basis,
            "lacking": list(self.lacking),
            "serves": list(self.serves),
            "source": self.entry.source,
        }


def rank_models(
    machine: Machine,
    needs: Iterable[Need] = (),
    intent: Intent | None = None,
    models: Iterable[ModelEntry] | None = None,
) -> tuple[Ranked, ...]:
    """All chat models of the catalogue on this machine, best first: those that suit, those whose context is unknown,
    those that fit but lack something, those that do not fit. Raises a usage error for an intent that no vLLM takes.
    """
    wanted = tuple(needs)
    wishes = intent or Intent()
    rows = [_rank(entry, machine, wanted, wishes) for entry in models or all_models() if entry.purpose == "chat"]
    return tuple(sorted(rows, key=lambda row: (_group(row), -row.score, row.entry.id)))


def facts_of(entry: ModelEntry, variant: Variant) -> ModelFacts | None:
    """A catalogue model's facts in one of its variants; None where its shape is not known or cannot be planned."""
    try:
        facts = catalogue_facts(entry.id)
    except ProblemError:
        return None
    return None if facts is None else variant_facts(facts, entry, variant)


def estimate_tokens_per_s(
    bandwidth_gb_s: float,
    active_gib: float,
    layers: int,
    *,
    moe: bool = False,
    tensor_parallel: int = 1,
    nvlink: bool = True,
) -> float:
    """Tokens a second of one answer, from the bytes that each token must read. active_gib: weights used for a token.

    bandwidth_gb_s: of one GPU, 10**9 bytes/s. The context is left out: at 32k tokens it costs some 10 to 30% more.
    """
    read_ms = active_gib * GIB / tensor_parallel / (bandwidth_gb_s * 1e9 * _BANDWIDTH_SHARE) * 1e3
    step_ms = _STEP_MS + layers * (_MOE_LAYER_MS if moe else _LAYER_MS)
    if tensor_parallel > 1:
        step_ms += 2 * layers * _EXCHANGE_MS[nvlink]
    return 1e3 / (read_ms + step_ms)


def usable_variants(entry: ModelEntry, gpu: Gpu | None) -> tuple[Variant, ...]:
    """The variants that this GPU (None: a CPU) computes with, the most exact first, those that run badly last."""
    fitting = [
        v
        for v in entry.variants
        if _VARIANT_NAMES.search(v.name) and not _OTHER_HARDWARE.search(v.name) and _computes(gpu, v.precision)
    ]
    # Without FP4 in hardware its weights are unpacked at every step; plain 4-bit integers are better served there.
    unpacked = gpu is not None and "fp4" in lacks("nvidia", gpu.compute_capability) and gpu.vendor == "nvidia"
    return tuple(
        sorted(fitting, key=lambda v: (unpacked and v.precision in ("nvfp4", "fp4"), -entry.weights_gib(v.precision)))
    )


def _computes(gpu: Gpu | None, precision: str) -> bool:
    if gpu is None:
        return precision in ("bf16", "int8", "int4")
    if gpu.vendor == "nvidia":
        major, _, minor = (gpu.compute_capability or "8.0").partition(".")
        return (int(major), int(minor or 0)) >= _LEAST_CAPABILITY.get(precision, (8, 0))
    if gpu.vendor == "amd":
        lacking = lacks("amd", None, gpu.architecture)
        needed = {"fp8": "fp8", "mxfp8": "fp8", "mxfp4": "flash-attention-2", "nvfp4": "", "fp4": ""}.get(precision)
        return needed is None or (needed != "" and needed not in lacking)
    return precision in ("bf16", "int4")


def _rank(entry: ModelEntry, machine: Machine, needs: tuple[Need, ...], intent: Intent) -> Ranked:
    gpus = serving_gpus(machine)
    least = max((need.minimum_context_tokens for need in needs), default=AGENT_CONTEXT_TOKENS)
    least = max(least, intent.context_tokens or 0)
    variants = usable_variants(entry, gpus[0] if gpus else None)
    if not variants:
        why = t("None of its variants runs on this kind of processor.")
        return _too_far(entry, entry.variants[0], (why, *_unmet(entry, None, needs, least, intent)))
    tried: list[Ranked] = []
    for variant in variants:
        row = _try(entry, variant, machine, gpus, needs, least, intent)
        if row.fits == "yes" and (row.context_tokens or 0) >= least:
            return row
        tried.append(row)
    return max(tried, key=lambda row: (row.fits == "yes", row.fits == "unknown", row.context_tokens or 0))


def _try(
    entry: ModelEntry,
    variant: Variant,
    machine: Machine,
    gpus: tuple[Gpu, ...],
    needs: tuple[Need, ...],
    least: int,
    intent: Intent,
) -> Ranked:
    size, seen = entry.download(variant)
    room = _room_gib(machine, gpus)
    # The plan's arithmetic is not needed to see that a model is far too large.
    facts = facts_of(entry, variant) if size <= room else None
    layers = facts.layers if facts else 40
    lacking: list[str] = []
    fits: Fit
    context: int | None = None
    tokens: int | None = None
    used, parallel = 1, 1
    nvlink = True
    if facts is not None:
        outcome = choose(machine, facts, replace(intent, context_tokens=None)).outcome
        knobs = outcome.knobs
        used, parallel = knobs.tensor_parallel * knobs.pipeline_parallel, knobs.tensor_parallel
        nvlink = bool(knobs.nvlink)
        fits = "yes" if outcome.starts else "no"
        if outcome.starts:
            context, tokens = outcome.longest, outcome.tokens  # as the plan serves it
        elif outcome.refusal is not None:
            lacking.append(outcome.refusal.what)
    else:
        fits, used, why = _weights_alone(size, room, len(gpus))
        parallel = used
        if why:
            lacking.append(why)
    lacking += _unmet(entry, context, needs, least, intent)
    speed = _speed(entry, variant, machine, gpus, layers, parallel, nvlink) if fits != "no" else None
    first = None if gpus or speed is None else _first_answer_s(entry, machine, least // 2, speed)
    return Ranked(
        entry=entry,
        variant=variant,
        fits=fits,
        context_tokens=context,
        kv_tokens=tokens,
        gpus=used if gpus else 0,
        tokens_per_s=speed,
        download_gib=size,
        download_seen=seen,
        lacking=tuple(lacking),
        serves=tuple(
            need.client
            for need in needs
            if fits == "yes"
            and (context or 0) >= need.minimum_context_tokens
            and (not need.tools or entry.tool_parser is not None)
        ),
        score=_score(entry, variant, speed, context, needs, first),
        first_answer_s=first,
    )


def _too_far(entry: ModelEntry, variant: Variant, lacking: tuple[str, ...]) -> Ranked:
    size, seen = entry.download(variant)
    score = _score(entry, variant, None, None, ())
    return Ranked(entry, variant, "no", None, None, 0, None, size, seen, lacking, (), score)


def _room_gib(machine: Machine, gpus: tuple[Gpu, ...]) -> float:
    """Free memory over all GPUs that one server can use, else of the computer; GiB."""
    if not gpus:
        return machine.ram_available_gib or 0.0
    free = [gpu.memory_free_gib if gpu.memory_free_gib is not None else gpu.memory_total_gib or 0.0 for gpu in gpus]
    return min(free) * len(gpus)


def _weights_alone(size_gib: float, room_gib: float, gpus: int) -> tuple[Fit, int, str]:
    """Whether the weights fit, for a model whose shape is not known; how many GPUs they take; why not."""
    # A tenth for vLLM's own work, and a tenth for a context that is worth having.
    for count in (n for n in (1, 2, 4, 8, 16) if n <= max(1, gpus)):
        if size_gib <= 0.8 * room_gib / max(1, gpus) * count:
            return "unknown", count, ""
    why = t("Its weights take {size:.0f} GiB, of {room:.0f} GiB here.", size=size_gib, room=room_gib)
    return "no", max(1, gpus), why


def _unmet(entry: ModelEntry, context: int | None, needs: tuple[Need, ...], least: int, intent: Intent) -> list[str]:
    unmet = []
    if context is not None and context < least:
        unmet.append(t("Room for {have} tokens; {least} are needed.", have=f"{context:,}", least=f"{least:,}"))
    if context is None and entry.context_length < least:
        unmet.append(
            t("It holds {have} tokens; {least} are needed.", have=f"{entry.context_length:,}", least=f"{least:,}")
        )
    agents = [need.title for need in needs if need.tools]
    if (agents or not needs) and entry.tool_parser is None:
        unmet.append(t("No tool-call parser is known for it."))
    version = intent.vllm_version or str(TESTED_VERSION)
    if version_key(version) < version_key(entry.min_vllm_version):
        unmet.append(
            t("It needs a nightly build of vLLM.")
            if entry.min_vllm_version == "nightly"
            else t("It needs vLLM {version}.", version=entry.min_vllm_version)
        )
    return unmet


def _speed(
    entry: ModelEntry,
    variant: Variant,
    machine: Machine,
    gpus: tuple[Gpu, ...],
    layers: int,
    parallel: int,
    nvlink: bool,
) -> float | None:
    bandwidth = bandwidth_gb_s(gpus, machine.cpu)
    if bandwidth is None or entry.active_b is None:
        return None
    return estimate_tokens_per_s(
        bandwidth,
        entry.weights_gib(variant.precision) * entry.active_b / entry.parameters_b,
        layers,
        moe=entry.architecture == "moe",
        tensor_parallel=parallel,
        nvlink=nvlink,
    )


def _first_answer_s(entry: ModelEntry, machine: Machine, prompt_tokens: int, tokens_per_s: float) -> float:
    """Seconds until a processor has read and answered a first request: two operations a weight and token to read it."""
    cpu = machine.cpu
    core = next((speed for feature, speed in _CORE_GFLOPS if feature in cpu.features), _PLAIN_CORE_GFLOPS)
    gflops = _cores(cpu) * core * _PREFILL_SHARE
    return 2 * (entry.active_b or entry.parameters_b) * prompt_tokens / gflops + _ANSWER_TOKENS / tokens_per_s


def _cores(cpu: Cpu) -> float:
    """Cores that compute, as far as they are known: one of two threads, and no more than a container's limit."""
    logical = cpu.logical_cores or 1
    return max(1.0, min(cpu.physical_cores or max(1, logical // 2), logical, cpu.quota_cores or logical))


def _score(
    entry: ModelEntry,
    variant: Variant,
    speed: float | None,
    context: int | None,
    needs: tuple[Need, ...],
    first_answer_s: float | None = None,
) -> float:
    """How useful a model is likely to be: size (in all and active), how new it is, exactness, room, speed.

    A rule of thumb, not a benchmark: twice the size counts one, and so do seven of vLLM's releases of being newer.
    """
    active = entry.active_b or entry.parameters_b
    generation = re.search(r"(?<!\d)\d{1,2}(?:\.\d+)?(?!\d)", entry.family)
    score = math.log2(math.sqrt(entry.parameters_b * active))
    newest = version_key(str(NEWEST_KNOWN))[1]
    since = version_key(entry.min_vllm_version)
    score += 5.0 * min(1.0, (since[1] if len(since) > 1 else newest) / newest)
    score += 0.02 * float(generation[0] if generation else 0)
    score -= {"int4": 0.25, "nvfp4": 0.2, "fp4": 0.2, "fp8": 0.05, "int8": 0.1}.get(variant.precision, 0.0)
    if (not needs or any(need.tools for need in needs)) and _FOR_CODE.search(entry.id):
        score += 0.6
    if context and context > AGENT_CONTEXT_TOKENS:
        # By one measure for all clients, so that the order of models does not change with what is asked for.
        score += min(0.4, 0.1 * math.log2(context / AGENT_CONTEXT_TOKENS))
    if first_answer_s is not None:
        # Without a GPU the wait decides: twice as long costs what four times the size is worth.
        score -= max(0.0, 2 * math.log2(first_answer_s / _PATIENCE_S))
    elif speed is not None:
        # Below 15 tokens a second one waits; far above it, more is only a little better.
        score += max(-3.0, math.log2(speed / 15)) if speed < 15 else min(0.6, 0.15 * math.log2(speed / 15))
    return score


def _group(row: Ranked) -> int:
    if row.suits:
        return 0
    if row.fits == "unknown" and not row.lacking:
        return 1
    return 2 if row.fits != "no" else 3


def bandwidth_gb_s(gpus: tuple[Gpu, ...], cpu: Cpu) -> float | None:
    """Memory bandwidth of one GPU by its data sheet (None: not in the catalogue); without GPUs an assumed one."""
    if not gpus:
        return min(CPU_BANDWIDTH_GB_S, _CORE_BANDWIDTH_GB_S * _cores(cpu))
    known = find_gpu(gpus[0].name, gpus[0].memory_total_gib)
    return known.memory_bandwidth_gb_s if known else None


def machine_json(machine: Machine) -> Mapping[str, Any]:
    """The part of a machine that the ranking looked at. GiB; bandwidth in 10**9 bytes/s."""
    gpus = serving_gpus(machine)
    return {
        "gpus": [
            {"name": gpu.name, "memory_total_gib": gpu.memory_total_gib, "memory_free_gib": gpu.memory_free_gib}
            for gpu in gpus
        ],
        "memory_bandwidth_gb_s": bandwidth_gb_s(gpus, machine.cpu),
        "memory_bandwidth_from": "data sheet" if gpus else "assumed",
        "ram_available_gib": machine.ram_available_gib,
        "described": machine.described,
    }
