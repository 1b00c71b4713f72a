"""Which settings to take: what the user pinned, else the best that fits, with a reason a newcomer understands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wizard.catalog.models import ModelEntry
from wizard.hardware.machine import GIB, Gpu, Machine
from wizard.i18n import t
from wizard.planning.adapters import wanted_adapters
from wizard.planning.evaluate import CONTEXT_GIB, CPU_OVERHEAD_GIB, Device, Knobs, Outcome, default_batch, evaluate
from wizard.planning.facts import ModelFacts
from wizard.planning.intent import Intent
from wizard.planning.measured import MeasuredStart
from wizard.planning.memory import Engine, disagreeing_gib, rank_weights_gib
from wizard.planning.pins import (
    AUTO_LENGTH,
    bad_value,
    pinned_choice,
    pinned_fraction,
    pinned_integer,
    pinned_length,
    pinned_switch,
)
from wizard.planning.quantization import reader_of
from wizard.planning.speculation import wanted_draft
from wizard.planning.versions import (
    NEWEST_KNOWN,
    TESTED_VERSION,
    Version,
    default_utilization,
    is_unread,
    parse_version,
    rule,
)
from wizard.problems import Problem

# A desktop draws on the same GPU, and grows while the server runs.
_DESKTOP_GIB = 1.0
# A context that agents work well with and that every long-context model holds.
_ROOMY_TOKENS = 131_072
# Less than this is not worth serving to anybody's coding agent; the plan spends other things first.
_LEAST_TOKENS = 16_384
_ROUND = 1024


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen settings and why. auto_length: `--max-model-len auto` is to be written. notes: setting -> reason."""

    outcome: Outcome
    auto_length: bool
    notes: dict[str, str]
    warnings: tuple[str, ...]

    @property
    def knobs(self) -> Knobs:
        """The settings."""
        return self.outcome.knobs


def serving_gpus(machine: Machine) -> tuple[Gpu, ...]:
    """The GPUs that one server can use: the largest set of equal ones that vLLM knows and programs may use."""
    usable = [gpu for gpu in machine.gpus if gpu.vendor in ("nvidia", "amd", "intel") and not gpu.hidden_by]
    usable = [gpu for gpu in usable if gpu.memory_total_gib]
    if not usable or machine.platform == "darwin":
        return ()
    sets: dict[tuple[str, float], list[Gpu]] = {}
    for gpu in usable:
        sets.setdefault((gpu.name, round(gpu.memory_total_gib or 0)), []).append(gpu)
    return tuple(max(sets.values(), key=lambda gpus: sum(gpu.memory_total_gib or 0 for gpu in gpus)))


def _capability(gpu: Gpu) -> tuple[int, int] | None:
    if not gpu.compute_capability:
        return None
    major, _, minor = gpu.compute_capability.partition(".")
    return (int(major), int(minor or 0)) if major.isdigit() and (minor or "0").isdigit() else None


def _device(gpus: tuple[Gpu, ...]) -> Device:
    if not gpus:
        return "cpu"
    return {"nvidia": "cuda", "amd": "rocm", "intel": "xpu"}.get(gpus[0].vendor, "cuda")  # type: ignore[return-value]


def choose(machine: Machine, facts: ModelFacts, intent: Intent, starts: tuple[MeasuredStart, ...] = ()) -> Choice:
    """The settings for one server. Raises a usage error for pinned values that vLLM would refuse."""
    gpus = serving_gpus(machine)
    return _choose_gpu(machine, gpus, facts, intent, starts) if gpus else _choose_cpu(machine, facts, intent)


def planned_version(intent: Intent) -> Version:
    """The version that will run: the one named, else the one that `install` takes."""
    return parse_version(intent.vllm_version) if intent.vllm_version else TESTED_VERSION


def _target_tokens(facts: ModelFacts, intent: Intent) -> int:
    """The context to aim for."""
    if intent.context_tokens:
        return intent.context_tokens
    if intent.wish == "context":
        return facts.max_position
    return min(facts.max_position, 32_768 if intent.wish in ("latency", "throughput") else _ROOMY_TOKENS)


def _with_length(facts: ModelFacts, intent: Intent, knobs: Knobs) -> tuple[Outcome, bool]:
    """The outcome with the pinned context, or with the longest sensible one; and whether vLLM may find it itself."""
    pinned = pinned_length(intent)
    if pinned is not None and pinned != AUTO_LENGTH:
        return evaluate(facts, replace(knobs, max_model_len=pinned)), False
    probe = evaluate(facts, replace(knobs, max_model_len=0))
    if pinned == AUTO_LENGTH:
        return probe, True
    target = _target_tokens(facts, intent)
    safe = probe.longest_low
    if safe >= target or intent.context_tokens:
        return evaluate(facts, replace(knobs, max_model_len=target)), False
    if probe.longest <= 0:
        return evaluate(facts, replace(knobs, max_model_len=min(target, facts.max_position))), False
    if rule(knobs.version, "auto-max-model-len") and probe.longest < target:
        return probe, True
    length = max(1, safe // _ROUND * _ROUND or safe or probe.longest // 2)
    return evaluate(facts, replace(knobs, max_model_len=length)), False


def _choose_gpu(
    machine: Machine,
    gpus: tuple[Gpu, ...],
    facts: ModelFacts,
    intent: Intent,
    starts: tuple[MeasuredStart, ...],
) -> Choice:
    version = planned_version(intent)
    notes: dict[str, str] = {}
    warnings: list[str] = []
    first = gpus[0]
    capability = _capability(first)
    total = min(gpu.memory_total_gib or 0.0 for gpu in gpus)
    frees = [gpu.memory_free_gib for gpu in gpus if gpu.memory_free_gib is not None]
    free = min(frees) if frees else None
    utilization = pinned_fraction(intent, "--gpu-memory-utilization")
    if utilization is None:
        utilization = _utilization(gpus, total, free, version, notes)
    base = Knobs(
        version=version,
        device=_device(gpus),
        total_gib=total,
        free_gib=free,
        utilization=utilization,
        max_model_len=0,
        max_num_seqs=0,
        max_num_batched_tokens=0,
        dtype=_dtype(facts, intent, capability, notes, warnings),
        kv_cache_dtype=pinned_choice(intent, "--kv-cache-dtype") or "auto",
        enforce_eager=bool(pinned_switch(intent, "--enforce-eager")),
        block_size=pinned_integer(intent, "--block-size", most=4096),
        grouping=not pinned_switch(intent, "--disable-hybrid-kv-cache-manager"),
        prefix_caching=pinned_switch(intent, "--enable-prefix-caching"),
        async_scheduling=pinned_switch(intent, "--async-scheduling") is not False,
        kv_bytes_pinned=pinned_integer(intent, "--kv-cache-memory-bytes", most=2**50),
        blocks_pinned=pinned_integer(intent, "--num-gpu-blocks-override", most=2**40),
        context_parallel=pinned_integer(intent, "--decode-context-parallel-size", most=1024) or 1,
        capability=capability,
        nvlink=_nvlink(machine, gpus),
        wsl=machine.wsl,
        unified_memory=first.unified_memory,
        skip_vision=bool(pinned_switch(intent, "--language-model-only")),
        version_told=bool(intent.vllm_version),
        gpu_name=first.name,
        adapters=wanted_adapters(intent),
        draft=wanted_draft(intent, facts),
        cpu_offload_gib=float(pinned_integer(intent, "--cpu-offload-gb", least=0, most=4096) or 0),
        starts=starts,
    )
    candidates = [
        _batched(intent, replace(base, tensor_parallel=tp, pipeline_parallel=pp), first.name, notes)
        for tp, pp in _splits(facts, intent, gpus)
    ]
    best = _best_of(facts, intent, candidates, notes)
    outcome, auto = best
    if len(gpus) > 1:
        _note_split(outcome.knobs, len(gpus), notes, warnings)
    warnings += [*base.draft.warnings, *_unread_version(version)]
    _warn_about(machine, facts, outcome, warnings)
    return Choice(outcome, auto, notes, tuple(warnings))


def _utilization(
    gpus: tuple[Gpu, ...], total: float, free: float | None, version: Version, notes: dict[str, str]
) -> float:
    """vLLM's default share where that much is free; else what is free, less what a desktop needs."""
    default = default_utilization(version)
    if gpus[0].unified_memory:
        notes["utilization"] = t("The GPU shares its memory with the system, which needs some too.")
        default = min(default, 0.8)
    if free is None:
        return default
    desktop = any(gpu.display_attached or any(p.graphics for p in gpu.processes) for gpu in gpus)
    spare = CONTEXT_GIB + (_DESKTOP_GIB if desktop else 0.0)
    possible = int(100 * (free - spare) / total) / 100
    if possible >= default or free >= total * 0.995:
        return default
    notes["utilization"] = t(
        "Of {total:.1f} GiB, {free:.1f} GiB are free now; vLLM refuses to start when its share is not.",
        total=total,
        free=free,
    )
    return max(0.05, possible)


def _dtype(
    facts: ModelFacts,
    intent: Intent,
    capability: tuple[int, int] | None,
    notes: dict[str, str],
    warnings: list[str],
) -> str:
    pinned = pinned_choice(intent, "--dtype")
    if pinned and pinned != "auto":
        return {"half": "float16", "float": "float32"}.get(pinned, pinned)
    # "auto" loads float32 checkpoints in half the width; config/model.py `_get_and_verify_dtype`.
    own = "bfloat16" if facts.dtype in ("float32", "auto", "") else facts.dtype
    if own == "bfloat16" and capability is not None and capability < (8, 0):
        notes["dtype"] = t("This GPU has no bfloat16; half precision is the nearest it has.")
        if facts.architecture.startswith("Gemma"):
            warnings.append(t("Gemma models overflow in half precision; expect broken text on this GPU."))
        return "float16"
    return own


def _nvlink(machine: Machine, gpus: tuple[Gpu, ...]) -> bool | None:
    if len(gpus) < 2:
        return None
    if any(gpu.nvlink_peers for gpu in gpus):
        return True
    return None if machine.described else False


def _splits(facts: ModelFacts, intent: Intent, gpus: tuple[Gpu, ...]) -> list[tuple[int, int]]:
    """(tensor, pipeline) sizes to try, smallest first; pinned ones alone."""
    count = len(gpus)
    tp = pinned_integer(intent, "--tensor-parallel-size", most=1024)
    pp = pinned_integer(intent, "--pipeline-parallel-size", most=1024)
    for flag, size in (("--tensor-parallel-size", (tp or 1) * (pp or 1)), ("--pipeline-parallel-size", pp or 1)):
        if size > count:
            raise bad_value(
                flag,
                str(tp if flag.startswith("--t") else pp),
                t("no more ranks than this machine has GPUs: {count}", count=count),
            )
    if (pp or 1) > facts.layers:
        raise bad_value("--pipeline-parallel-size", str(pp), t("at most one rank for each of the model's layers"))
    if tp is not None or pp is not None:
        return [(tp or 1, pp or 1)]
    sizes = [(1, 1)]
    size = 2
    while size <= count:
        if facts.attention_heads % size == 0:
            sizes.append((size, 1))
        size *= 2
    widest = sizes[-1][0]
    if widest < count:
        sizes.append((widest, count // widest) if count // widest > 1 else (1, count))
    return [split for split in sizes if split[1] <= facts.layers]


def _batched(intent: Intent, knobs: Knobs, gpu_name: str, notes: dict[str, str]) -> Knobs:
    """With the batch sizes: pinned ones, else what the wish asks for, else vLLM's own."""
    world = knobs.tensor_parallel * knobs.pipeline_parallel
    tokens, seqs = default_batch(knobs.version, knobs.device, knobs.total_gib, gpu_name, world)
    if intent.wish == "latency":
        seqs = min(seqs, 32)
        notes["max_num_seqs"] = t("Few requests at once, so that each is answered fast.")
    elif intent.wish == "throughput" and tokens < 8192:
        tokens = 8192
        notes["max_num_batched_tokens"] = t("Larger steps do more work in the same time.")
    pinned_tokens = pinned_integer(intent, "--max-num-batched-tokens", most=2**24)
    pinned_seqs = pinned_integer(intent, "--max-num-seqs", most=2**20)
    tokens = pinned_tokens or tokens
    seqs = pinned_seqs or min(seqs, tokens)
    return replace(knobs, max_num_batched_tokens=tokens, max_num_seqs=seqs)


def _eased(intent: Intent, knobs: Knobs) -> Iterator[Knobs]:
    """The same settings, then ever thriftier ones; only flags that nobody pinned are touched."""
    yield knobs
    if intent.pinned("--max-num-seqs") is None and knobs.max_num_seqs > 32:
        knobs = replace(knobs, max_num_seqs=32)
        yield knobs
    if intent.pinned("--max-num-batched-tokens") is None and knobs.max_num_batched_tokens > 2048:
        knobs = replace(knobs, max_num_batched_tokens=2048)
        yield knobs
    capable = knobs.device == "cuda" and (knobs.capability is None or knobs.capability >= (8, 9))
    if intent.pinned("--kv-cache-dtype") is None and capable:
        knobs = replace(knobs, kv_cache_dtype="fp8")
        yield knobs
    if not knobs.enforce_eager and intent.pinned("--enforce-eager") is None:
        yield replace(knobs, enforce_eager=True)


def _good_enough(facts: ModelFacts, intent: Intent, outcome: Outcome) -> bool:
    if not outcome.starts:
        return False
    if pinned_length(intent) is not None:
        return True
    wanted = intent.context_tokens or min(max(_LEAST_TOKENS, intent.least_tokens), facts.max_position)
    if intent.wish == "context":
        wanted = facts.max_position
    return min(outcome.max_model_len, outcome.longest_low) >= wanted


def _enough_blocks(
    facts: ModelFacts, intent: Intent, outcome: Outcome, auto: bool, notes: dict[str, str]
) -> tuple[Outcome, bool]:
    """A hybrid model with no more sequences than it has blocks for."""
    refusal = outcome.refusal
    if refusal is None or refusal.code != "recurrent-blocks-too-few" or intent.pinned("--max-num-seqs") is not None:
        return outcome, auto
    seqs = 1 << (max(1, int(outcome.blocks * 0.9)).bit_length() - 1)
    notes["max_num_seqs"] = t("Each request of this model needs a cache block of its own; this many fit for sure.")
    return evaluate(facts, replace(outcome.knobs, max_num_seqs=seqs)), auto


def _best_of(facts: ModelFacts, intent: Intent, candidates: list[Knobs], notes: dict[str, str]) -> tuple[Outcome, bool]:
    """The first split that is good enough as it is, else the thriftier ones of the largest; else whatever starts."""
    tried: list[tuple[Outcome, bool]] = []
    fixed = pinned_length(intent) is not None or intent.context_tokens is not None
    for knobs in candidates:
        outcome = _enough_blocks(facts, intent, *_with_length(facts, intent, knobs), notes)
        tried.append(outcome)
        full = outcome[0].max_model_len >= min(_target_tokens(facts, intent), facts.max_position)
        if _good_enough(facts, intent, outcome[0]) and (fixed or full):
            return outcome
    good = [one for one in tried if _good_enough(facts, intent, one[0])]
    if good:
        return max(good, key=lambda one: one[0].max_model_len)
    # A pinned context that does not fit is said so, not rescued: the plan must tell what those flags do.
    if pinned_length(intent) is not None:
        return next((one for one in tried if one[0].starts), tried[-1])
    for knobs in candidates[-1:]:
        for eased in _eased(intent, knobs):
            outcome = _with_length(facts, intent, eased)
            tried.append(outcome)
            if _good_enough(facts, intent, outcome[0]):
                _note_eased(knobs, eased, notes)
                return outcome
    starting = [one for one in tried if one[0].starts]
    if starting:
        best = max(starting, key=lambda one: one[0].max_model_len)
        _note_eased(candidates[-1], best[0].knobs, notes)
        return best
    return tried[len(candidates) - 1]


def _note_eased(before: Knobs, after: Knobs, notes: dict[str, str]) -> None:
    if after.max_num_seqs < before.max_num_seqs:
        notes["max_num_seqs"] = t("Fewer requests at once need less memory for sampling, which goes to the context.")
    if after.max_num_batched_tokens < before.max_num_batched_tokens:
        notes["max_num_batched_tokens"] = t("Smaller steps need less memory for activations.")
    if after.kv_cache_dtype != before.kv_cache_dtype:
        notes["kv_cache_dtype"] = t("One byte instead of two for each value doubles the context that fits.")
    if after.enforce_eager and not before.enforce_eager:
        notes["enforce_eager"] = t("Without CUDA graphs there is just enough memory; replies come slower.")


def _note_split(knobs: Knobs, count: int, notes: dict[str, str], warnings: list[str]) -> None:
    used = knobs.tensor_parallel * knobs.pipeline_parallel
    if knobs.tensor_parallel > 1:
        notes["tensor_parallel"] = t(
            "Each layer is shared by {n} GPUs, so that weights and context fit.", n=knobs.tensor_parallel
        )
    if knobs.pipeline_parallel > 1:
        notes["pipeline_parallel"] = t("The layers are dealt out to {n} groups of GPUs.", n=knobs.pipeline_parallel)
    if used < count:
        warnings.append(
            t(
                "{used} of {count} GPUs are used; the model fits, and a second server can have the rest.",
                used=used,
                count=count,
            )
        )


def _warn_about(machine: Machine, facts: ModelFacts, outcome: Outcome, warnings: list[str]) -> None:
    knobs = outcome.knobs
    if machine.wsl:
        warnings.append(t("Under WSL2 the GPU's free memory is not exact; the cache may come out larger or smaller."))
    if facts.compress_ratios:
        warnings.append(t("Few starts of this model were seen; they held up to a tenth more tokens than planned."))
    if knobs.tensor_parallel > 1 and machine.shm_total_gib is not None and machine.shm_total_gib < 1:
        warnings.append(
            t(
                "/dev/shm has {size:.2f} GiB; several GPUs talk through it and need about 1 GiB.",
                size=machine.shm_total_gib,
            )
        )
    warnings += _reader_warning(facts, knobs.version)
    if (sizes := disagreeing_gib(facts)) is not None:
        warnings.append(
            t(
                "The weights take {told:.2f} GiB, by the model's shape it would be {shaped:.2f} GiB: a part is missing,"
                " they are another model's, or quantised without config.json saying so. The range is wider for that.",
                told=sizes[0],
                shaped=sizes[1],
            )
        )
    if not facts.checkpoint_bytes:
        warnings.append(t("The size of the weights is computed from the model's shape, not read from its files."))
    if outcome.starts and knobs.max_model_len and outcome.longest_low < outcome.max_model_len:
        cold = outcome.budget.cold_gib
        warnings.append(
            t(
                "It is close: a first start compiles and may measure {gib:.1f} GiB more; the longest context is then"
                " {low} tokens. Start it a second time before asking for less.",
                gib=cold / 2,
                low=outcome.longest_low,
            )
            if cold / 2 > outcome.budget.sigma_gib
            else t(
                "It is close: if memory turns out a little less, the longest context is {low} tokens.",
                low=outcome.longest_low,
            )
        )


def _reader_warning(facts: ModelFacts, version: Version) -> tuple[str, ...]:
    method = facts.quantization.method if facts.quantization else ""
    reader = reader_of(method, version.numbers) if method else ""
    if reader is None:
        return (
            t(
                "vLLM {version} itself does not read the quantisation `{method}`; without a plugin it refuses the"
                " model.",
                version=version,
                method=method[:40],
            ),
        )
    if reader:
        return (
            t(
                "vLLM {version} reads `{method}` checkpoints by a plugin: install `{plugin}` beside it.",
                version=version,
                method=method,
                plugin=reader,
            ),
        )
    return ()


def _unread_version(version: Version) -> tuple[str, ...]:
    if not is_unread(version):
        return ()
    return (
        t(
            "vLLM {version} is newer than {newest}, whose rules are taken for it; the range is wider for that.",
            version=version,
            newest=NEWEST_KNOWN,
        ),
    )


def _choose_cpu(machine: Machine, facts: ModelFacts, intent: Intent) -> Choice:
    """A server without a GPU: bfloat16 or float32 on the processor, the cache in ordinary memory."""
    version = planned_version(intent)
    notes: dict[str, str] = {}
    warnings = [t("Without a GPU this is slow: enough to try the road, too slow for daily work with an agent.")]
    features = machine.cpu.features
    total = machine.ram_total_gib or 0.0
    free = machine.ram_available_gib
    tp = pinned_integer(intent, "--tensor-parallel-size", most=64) or 1
    pp = pinned_integer(intent, "--pipeline-parallel-size", most=64) or 1
    knobs = Knobs(
        version=version,
        device="cpu",
        total_gib=total,
        free_gib=free,
        utilization=1.0,
        max_model_len=0,
        max_num_seqs=0,
        max_num_batched_tokens=0,
        tensor_parallel=tp,
        pipeline_parallel=pp,
        dtype=_dtype(facts, intent, None, notes, warnings),
        kv_cache_dtype=pinned_choice(intent, "--kv-cache-dtype") or "auto",
        enforce_eager=bool(pinned_switch(intent, "--enforce-eager")),
        block_size=pinned_integer(intent, "--block-size", most=4096),
        grouping=not pinned_switch(intent, "--disable-hybrid-kv-cache-manager"),
        prefix_caching=pinned_switch(intent, "--enable-prefix-caching"),
        kv_bytes_pinned=pinned_integer(intent, "--kv-cache-memory-bytes", most=2**50),
        blocks_pinned=pinned_integer(intent, "--num-gpu-blocks-override", most=2**40),
        amx="amx_tile" in features or "amx_bf16" in features,
        wide_states="avx512_bf16" in features,
        version_told=bool(intent.vllm_version),
        draft=wanted_draft(intent, facts),
    )
    warnings += [*knobs.draft.warnings, *_unread_version(version)]
    knobs = _batched(intent, knobs, "", notes)
    engine = Engine(version, total, 1.0, tensor_parallel=tp, pipeline_parallel=pp, dtype=knobs.dtype)
    weights = max(rank_weights_gib(facts, engine))
    knobs = replace(knobs, kv_space_gib=float(intent.kv_space_gib or _cpu_space(facts, intent, knobs, weights)))
    outcome, auto = _with_length(facts, intent, knobs)
    if auto and pinned_length(intent) is None:
        # The cache's size is exact here, so the longest context is a plain number.
        outcome, auto = evaluate(facts, replace(outcome.knobs, max_model_len=outcome.longest)), False
    notes["kv_space"] = t(
        "{gib:.0f} GiB of memory hold the context; unset, vLLM takes nearly all memory.", gib=knobs.kv_space_gib or 0
    )
    return Choice(outcome, auto, notes, tuple(warnings))


def _cpu_space(facts: ModelFacts, intent: Intent, knobs: Knobs, weights: float) -> int:
    """Whole GiB: for two requests of the target length, at least 1, at most half of what is free beside the weights."""
    target = pinned_length(intent) or min(_target_tokens(facts, intent), 32_768, facts.max_position)
    probe = evaluate(facts, replace(knobs, kv_space_gib=1.0, max_model_len=min(target, facts.max_position)))
    wanted = -(-probe.layout.bytes_for(probe.max_model_len, 2.0) // GIB)
    room = ((knobs.free_gib or 8.0) - weights - CPU_OVERHEAD_GIB) / 2
    return max(1, int(min(wanted, room)))


def intent_problem(choice: Choice, entry: ModelEntry | None) -> Problem | None:
    """Why this version cannot serve the model at all, by the catalogue; None where it can."""
    if entry is None or not entry.min_vllm_version[:1].isdigit():
        return None
    least = parse_version(entry.min_vllm_version)
    if choice.knobs.version_told and choice.knobs.version.numbers < least.numbers:
        return Problem(
            "vllm-too-old",
            t(
                "{model} needs vLLM {least} or newer; this is {version}.",
                model=entry.id,
                least=least,
                version=choice.knobs.version,
            ),
            t("Older versions do not know its architecture or its formats."),
        )
    return None
