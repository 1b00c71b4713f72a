"""Which settings are worth a trial, of those that this vLLM and this machine allow."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from wizard.catalog.arguments import flag_value
from wizard.catalog.flags import flag_values, has_flag, version_key
from wizard.i18n import t
from wizard.serving.start import without_flags
from wizard.tuning.trials import Setting

# What changes answers is tried only where the user allows it.
ALLOWANCES = ("kv-dtype", "quantization")
_BATCHES = (1024, 2048, 4096, 8192, 16384, 32768)
_SEQUENCES = (8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a knob. words: put at the end of the command. model: served instead; empty: the same.

    changes_answers: the text may differ from the plan's, by what it does.
    """

    label: str
    words: tuple[str, ...] = ()
    model: str = ""
    changes_answers: bool = False


@dataclass(frozen=True, slots=True)
class Knob:
    """Something to turn. removes: flags that its choices stand in for. now: what the plan has. why: what it buys."""

    name: str
    removes: tuple[str, ...]
    now: str
    choices: tuple[Choice, ...]
    why: str

    def choice(self, label: str) -> Choice | None:
        """The choice of that label; None for what the plan has."""
        return next((choice for choice in self.choices if choice.label == label), None)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the space depends on. batch: the plan's batched tokens and sequences at once, also where vLLM's own defaults
    hold. free_share: of one GPU, 0 to 1, before the server. heads: the model's attention heads. pinned: flags that the
    user fixed. variants: (precision, model) of the same model. max_model_len: the plan's, in tokens.
    """

    version: str
    device: str
    arguments: tuple[str, ...]
    batch: tuple[int, int] = (2048, 256)
    users: int = 4
    gpus: int = 0
    heads: int = 0
    capability: tuple[int, int] | None = None
    free_share: float | None = None
    max_model_len: int = 0
    draft_layers: int = 0
    pinned: tuple[str, ...] = ()
    variants: tuple[tuple[str, str], ...] = ()


def plan_space(around: Surroundings, *, allow: Collection[str] = (), only: Collection[str] = ()) -> tuple[Knob, ...]:
    """Knobs that matter, likeliest gain first. only: names of knobs or their flags; none: all.

    A flag that this vLLM does not have, that the user pinned, or whose values the machine cannot do is left out.
    """
    built = (
        _prefix_caching(around),
        _batched_tokens(around),
        _sequences(around),
        _cuda_graphs(around),
        _chunked_prefill(around),
        _attention(around),
        _speculation(around),
        _utilization(around),
        _parallelism(around),
        _kv_dtype(around) if "kv-dtype" in allow else None,
        _quantization(around) if "quantization" in allow else None,
    )
    wanted = {_bare(word) for word in only}
    fixed = {_bare(flag) for flag in around.pinned}
    return tuple(
        knob
        for knob in built
        if knob is not None
        and knob.choices
        and not fixed & {_bare(flag) for flag in knob.removes}
        and (not wanted or wanted & {knob.name, *(_bare(flag) for flag in knob.removes)})
    )


def knob_names() -> tuple[str, ...]:
    """Every name that `only` may have."""
    return (
        "prefix-caching", "max-num-batched-tokens", "max-num-seqs", "cuda-graphs", "chunked-prefill",
        "attention-backend", "speculative-decoding", "gpu-memory-utilization", "parallelism", "kv-cache-dtype",
        "quantization",
    )  # fmt: skip


def arguments_of(base: Sequence[str], knobs: Sequence[Knob], setting: Setting) -> tuple[str, ...]:
    """The plan's flags with a setting's in their place."""
    arguments = tuple(base)
    for name, label in setting:
        knob = next((knob for knob in knobs if knob.name == name), None)
        choice = knob.choice(label) if knob else None
        if knob and choice:
            arguments = (*without_flags(arguments, knob.removes), *choice.words)
    return arguments


def model_of(base: str, knobs: Sequence[Knob], setting: Setting) -> str:
    """The model that a setting serves."""
    for name, label in setting:
        choice = next((knob.choice(label) for knob in knobs if knob.name == name), None)
        if choice and choice.model:
            return choice.model
    return base


def changes_answers(knobs: Sequence[Knob], setting: Setting) -> bool:
    """Whether other answers were allowed by what a setting does."""
    by_name: Mapping[str, Knob] = {knob.name: knob for knob in knobs}
    return any(
        (choice := by_name[name].choice(label)) is not None and choice.changes_answers
        for name, label in setting
        if name in by_name
    )


def _bare(flag: str) -> str:
    return flag.lstrip("-").replace("_", "-").lower()


def _is_on(around: Surroundings, flag: str, *, default: bool) -> bool:
    """A switch's state: the last of `--flag` and `--no-flag` wins."""
    state = default
    for word in around.arguments:
        if _bare(word) == flag and word.startswith("--"):
            state = True
        elif _bare(word) == f"no-{flag}" and word.startswith("--"):
            state = False
    return state


def _switch(around: Surroundings, name: str, flag: str, *, default: bool, why: str) -> Knob | None:
    if not has_flag(f"--{flag}", around.version):
        return None
    on = _is_on(around, flag, default=default)
    other = Choice("off", (f"--no-{flag}",)) if on else Choice("on", (f"--{flag}",))
    return Knob(name, (f"--{flag}", f"--no-{flag}"), "on" if on else "off", (other,), why)


def _prefix_caching(around: Surroundings) -> Knob | None:
    # On by default since the V1 engine (0.8); latent attention on a CPU has none, and refuses in its own words.
    return _switch(
        around,
        "prefix-caching",
        "enable-prefix-caching",
        default=True,
        why=t("What a prompt shares with earlier ones is not computed again."),
    )


def _chunked_prefill(around: Surroundings) -> Knob | None:
    knob = _switch(
        around,
        "chunked-prefill",
        "enable-chunked-prefill",
        default=True,
        why=t("Long prompts are computed in pieces, between the tokens of others."),
    )
    if knob is None or knob.now != "on":
        return knob
    # Whole prompts must then fit into one batch.
    length = around.max_model_len
    if not length or length > _BATCHES[-1]:
        return None
    words = ("--no-enable-chunked-prefill", "--max-num-batched-tokens", str(max(length, around.batch[0])))
    return Knob(knob.name, (*knob.removes, "--max-num-batched-tokens"), "on", (Choice("off", words),), knob.why)


def _batched_tokens(around: Surroundings) -> Knob:
    now, sequences = around.batch
    # One step down and two up: prompts of agents are long, and a larger batch brings the first token sooner.
    lower = [size for size in _BATCHES if size < now and size >= sequences][-1:]
    higher = [size for size in _BATCHES if size > now][:2]
    return Knob(
        "max-num-batched-tokens",
        ("--max-num-batched-tokens",),
        str(now),
        tuple(Choice(str(size), ("--max-num-batched-tokens", str(size))) for size in (*higher, *lower)),
        t("Tokens computed in one step: more, and prompts are done sooner; fewer, and tokens come evenly."),
    )


def _sequences(around: Surroundings) -> Knob:
    batched, now = around.batch
    least = next((size for size in _SEQUENCES if size >= around.users), _SEQUENCES[-1])
    wanted = dict.fromkeys(size for size in (least, 2 * least, 4 * least) if size != now and size <= batched)
    return Knob(
        "max-num-seqs",
        ("--max-num-seqs",),
        str(now),
        tuple(Choice(str(size), ("--max-num-seqs", str(size))) for size in list(wanted)[:2]),
        t("Requests computed at once; fewer leave memory and time to each."),
    )


def _cuda_graphs(around: Surroundings) -> Knob | None:
    if around.device == "cpu" or not _is_on(around, "enforce-eager", default=False):
        return None
    return Knob(
        "cuda-graphs",
        ("--enforce-eager", "--no-enforce-eager"),
        "off",
        (Choice("on", ("--no-enforce-eager",)),),
        t("Recorded steps instead of single calls: faster tokens, for memory."),
    )


def _attention(around: Surroundings) -> Knob | None:
    if around.device != "cuda" or not has_flag("--attention-backend", around.version):
        return None
    now = flag_value(around.arguments, "--attention-backend") or "auto"
    names = ["FLASHINFER", "TRITON_ATTN"]
    if around.capability is None or around.capability >= (8, 0):
        names.insert(0, "FLASH_ATTN")
    return Knob(
        "attention-backend",
        ("--attention-backend",),
        now,
        tuple(Choice(name, ("--attention-backend", name)) for name in names if name != now),
        t("The kernels that read the context; which is fastest depends on GPU, model and length."),
    )


def _speculation(around: Surroundings) -> Knob | None:
    if around.device not in ("cuda", "rocm") or not has_flag("--speculative-config", around.version):
        return None
    if flag_value(around.arguments, "--speculative-config"):
        return Knob(
            "speculative-decoding",
            ("--speculative-config",),
            "on",
            (Choice("off"),),
            t("Tokens are guessed and then checked together; it pays while the GPU has time to spare."),
        )
    plans: list[tuple[str, dict[str, object]]] = []
    if around.draft_layers:
        plans.append(("mtp 1", {"method": "mtp", "num_speculative_tokens": 1}))
    lookup = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 5}
    plans.append(("n-gram 4", lookup))
    return Knob(
        "speculative-decoding",
        ("--speculative-config",),
        "off",
        tuple(Choice(label, ("--speculative-config", json.dumps(config))) for label, config in plans),
        t("Tokens are guessed and then checked together; it pays while the GPU has time to spare."),
    )


def _utilization(around: Surroundings) -> Knob | None:
    if around.device == "cpu":
        return None
    default = 0.92 if version_key(around.version) >= (0, 20) else 0.9
    now = float(flag_value(around.arguments, "--gpu-memory-utilization") or default)
    most = 0.97 if around.free_share is None else min(0.97, around.free_share - 0.01)
    return Knob(
        "gpu-memory-utilization",
        ("--gpu-memory-utilization",),
        f"{now:g}",
        tuple(
            Choice(f"{share:g}", ("--gpu-memory-utilization", f"{share:g}"))
            for share in (0.95, 0.97)
            if now + 0.005 < share <= most
        ),
        t("The share of the GPU for vLLM; what is not weights holds context, and prefixes of earlier prompts."),
    )


def _parallelism(around: Surroundings) -> Knob | None:
    if around.gpus < 2:
        return None
    tensor = int(flag_value(around.arguments, "--tensor-parallel-size") or 1)
    data = int(flag_value(around.arguments, "--data-parallel-size") or 1)
    choices: list[Choice] = []
    for size in (1, 2, 4, 8, 16):
        if size > around.gpus or (around.heads and around.heads % size):
            continue
        copies = around.gpus // size
        for copy in dict.fromkeys((1, copies)):
            if (size, copy) == (tensor, data) or (copy > 1 and not has_flag("--data-parallel-size", around.version)):
                continue
            words = ("--tensor-parallel-size", str(size), *(("--data-parallel-size", str(copy)) if copy > 1 else ()))
            choices.append(Choice(f"TP {size} x {copy}", words))
    return Knob(
        "parallelism",
        ("--tensor-parallel-size", "--data-parallel-size"),
        f"TP {tensor} x {data}",
        tuple(choices),
        t("How GPUs share the work: one request over several, or several copies side by side."),
    )


def _kv_dtype(around: Surroundings) -> Knob | None:
    now = flag_value(around.arguments, "--kv-cache-dtype") or "auto"
    able = around.device == "cpu" or around.capability is None or around.capability >= (8, 9)
    if not able or "fp8" not in flag_values("--kv-cache-dtype", around.version) or now.startswith("fp8"):
        return None
    return Knob(
        "kv-cache-dtype",
        ("--kv-cache-dtype",),
        now,
        (Choice("fp8", ("--kv-cache-dtype", "fp8"), changes_answers=True),),
        t("Keys and values in half the bytes: twice the context, a little less exact."),
    )


def _quantization(around: Surroundings) -> Knob | None:
    return Knob(
        "quantization",
        (),
        t("the plan's"),
        tuple(Choice(precision, model=model, changes_answers=True) for precision, model in around.variants[:2]),
        t("Weights in fewer bits: less to read for each token, a little less exact."),
    )
