"""Machine, model and wishes in; the command, its budget and its alternatives out."""

from __future__ import annotations

import math
from dataclasses import replace

from wizard.catalog.models import ModelEntry, Variant, find_base_model
from wizard.hardware.machine import Machine
from wizard.i18n import t
from wizard.planning.catalogue import variant_facts
from wizard.planning.evaluate import Outcome
from wizard.planning.facts import ModelFacts
from wizard.planning.flags import command_env, command_flags, served_name
from wizard.planning.intent import Intent, Pin
from wizard.planning.measured import MeasuredStart
from wizard.planning.model import Alternative, Memory, ServePlan
from wizard.planning.recommend import Choice, choose, intent_problem, planned_version, serving_gpus
from wizard.planning.versions import rule
from wizard.problems import Problem, ProblemError

MOST_ALTERNATIVES = 6
# Ordinary memory to count on for weights where nobody said how much there is.
_RAM_UNKNOWN_GIB = 64


def plan_serve(
    machine: Machine, facts: ModelFacts, intent: Intent, starts: tuple[MeasuredStart, ...] = ()
) -> ServePlan:
    """The recommended way to serve this model on this machine, with ranked alternatives.

    starts: what earlier starts on this machine measured; they replace the estimates of the same settings.

    A plan that does not fit is a plan with `fits` False and its problems. Raises ProblemError (exit code 2) only for
    pinned values that no vLLM would take.
    """
    entry = find_base_model(facts.model)
    plan, choice = _plan_once(machine, facts, intent, entry, starts)
    return replace(plan, alternatives=_alternatives(machine, facts, intent, entry, choice, starts))


def _plan_once(
    machine: Machine,
    facts: ModelFacts,
    intent: Intent,
    entry: ModelEntry | None,
    starts: tuple[MeasuredStart, ...] = (),
) -> tuple[ServePlan, Choice]:
    if facts.yarn_position and rule(planned_version(intent), "yarn-stretches"):
        facts = replace(facts, max_position=facts.yarn_position)
    choice = choose(machine, facts, intent, starts)
    flags, flag_warnings = command_flags(facts, intent, entry, choice)
    problems: list[Problem] = []
    if too_old := intent_problem(choice, entry):
        problems.append(too_old)
    if choice.outcome.refusal:
        problems.append(choice.outcome.refusal)
    return (
        ServePlan(
            model=facts.model,
            serve_as=facts.serve_as,
            served_name=served_name(facts, intent),
            vllm_version=str(choice.knobs.version),
            fits=not problems,
            max_model_len=choice.outcome.max_model_len,
            flags=flags,
            env=command_env(choice, entry),
            memory=_memory(machine, choice.outcome),
            warnings=(*choice.warnings, *flag_warnings, *_beyond_the_makers_word(entry, choice)),
            problems=tuple(problems),
            device=choice.knobs.device,
            facts_source=facts.source,
            start_key=choice.knobs.key(facts.serve_as),
        ),
        choice,
    )


def _memory(machine: Machine, outcome: Outcome) -> Memory:
    budget, knobs = outcome.budget, outcome.knobs
    free = knobs.free_gib
    kv_gib = max(0.0, budget.kv_gib)
    if knobs.kv_bytes_pinned is not None:
        kv_gib = knobs.kv_bytes_pinned / 2**30
    return Memory(
        total_gib=knobs.total_gib,
        budget_gib=budget.requested_gib,
        weights_gib=budget.weights_gib,
        activation_gib=budget.activation_gib,
        cuda_graph_gib=budget.graphs_gib,
        other_gib=budget.other_gib,
        kv_gib=kv_gib,
        kv_tokens=outcome.tokens,
        kv_tokens_low=outcome.tokens_low,
        kv_tokens_high=outcome.tokens_high,
        max_concurrency=outcome.concurrency,
        max_model_len_fitting=outcome.longest,
        used_by_others_gib=max(0.0, knobs.total_gib - free) if free is not None else 0.0,
        device="cpu" if knobs.device == "cpu" else "gpu",
        gpus=knobs.tensor_parallel * knobs.pipeline_parallel if serving_gpus(machine) else 0,
        measured=budget.measured,
    )


def _alternatives(
    machine: Machine,
    facts: ModelFacts,
    intent: Intent,
    entry: ModelEntry | None,
    choice: Choice,
    starts: tuple[MeasuredStart, ...],
) -> tuple[Alternative, ...]:
    """Other ways, those that fit first, of them those on this machine, then by how much context they hold."""
    here = choice.outcome
    found: list[Alternative] = []
    elsewhere: list[Alternative] = []

    def add(change: str, other: ModelFacts, wishes: Intent, *, own_machine: Machine = machine) -> bool:
        """Whether it fits."""
        try:
            plan, _ = _plan_once(own_machine, other, wishes, entry, starts)
        except ProblemError:
            return False
        found.append(Alternative(change, plan.command, plan.memory.kv_tokens, plan.fits, plan.max_model_len))
        if own_machine is not machine:
            elsewhere.append(found[-1])
        return plan.fits

    if here.refusal is not None and here.refusal.code == "max-model-len-above-model":
        # No machine and no variant helps there.
        if here.longest:
            add(
                t("Less context: {n} tokens.", n=f"{here.longest:,}"),
                facts,
                _pin(intent, "--max-model-len", str(here.longest)),
            )
        return tuple(found)
    knobs = here.knobs
    capable = knobs.device == "cuda" and (knobs.capability is None or knobs.capability >= (8, 9))
    # Where the weights alone are too much, a smaller cache is no way.
    too_heavy = knobs.device != "cpu" and here.budget.weights_gib >= here.budget.requested_gib
    if capable and not too_heavy and knobs.kv_cache_dtype == "auto" and not facts.indexer_head_dim:
        add(
            t("Keys and values in FP8: about twice the context, a little less exact."),
            facts,
            _pin(intent, "--kv-cache-dtype", "fp8"),
        )
    for variant in _other_variants(facts, entry, capable):
        assert entry is not None
        add(
            t("The {precision} variant {model}.", precision=variant.precision, model=variant.model),
            variant_facts(facts, entry, variant),
            replace(intent, served_name=intent.served_name),
        )
    count = len(serving_gpus(machine))
    used = knobs.tensor_parallel * knobs.pipeline_parallel
    if count > used and intent.pinned("--tensor-parallel-size") is None and facts.attention_heads % (2 * used) == 0:
        add(
            t("{n} GPUs together: more context, more at once.", n=2 * used),
            facts,
            _pin(intent, "--tensor-parallel-size", str(2 * used)),
        )
    if count == used and not here.starts and machine.gpus:
        for more in (2 * used, 4 * used, 8 * used):
            if facts.attention_heads % more == 0 and add(
                t("With {n} such GPUs.", n=more),
                facts,
                _pin(intent, "--tensor-parallel-size", str(more)),
                own_machine=_with_gpus(machine, more // used),
            ):
                break
    if here.longest and here.max_model_len > here.longest:
        add(
            t("Less context: {n} tokens.", n=f"{here.longest:,}"),
            facts,
            _pin(intent, "--max-model-len", str(here.longest)),
        )
    elif here.starts and here.max_model_len >= 16_384:
        half = here.max_model_len // 2
        # Where states and windows take most of the cache, a shorter request needs about as much.
        if here.layout.concurrency(here.blocks, half) >= 1.8 * here.concurrency:
            add(
                t("Half the context ({n} tokens), twice as many requests at once.", n=f"{half:,}"),
                facts,
                _pin(intent, "--max-model-len", str(half)),
            )
    if not here.starts and not too_heavy and not knobs.enforce_eager and knobs.device != "cpu":
        add(t("Without CUDA graphs: less memory, slower replies."), facts, _pin(intent, "--enforce-eager", None))
    found.sort(key=lambda one: (not one.fits, one in elsewhere, -one.kv_tokens))
    kept = found[:MOST_ALTERNATIVES]
    if offload := _offload_gib(machine, here):
        # The last resort, whatever its size: each step then waits for weights from ordinary memory.
        found.clear()
        add(
            t("{gib} GiB of the weights of each GPU in ordinary memory: many times slower.", gib=offload),
            facts,
            _pin(intent, "--cpu-offload-gb", str(offload)),
        )
        kept = [*kept[: MOST_ALTERNATIVES - 1], *(one for one in found if one.fits)]
    return tuple(kept)


def _with_gpus(machine: Machine, times: int) -> Machine:
    return replace(machine, gpus=tuple(replace(gpu, index=at) for at, gpu in enumerate(machine.gpus * times)))


def _offload_gib(machine: Machine, here: Outcome) -> int:
    """Whole GiB of weights to move off each GPU so that the server starts; 0 where that is not the trouble."""
    knobs, budget = here.knobs, here.budget
    if here.starts or knobs.device != "cuda" or here.refusal is None:
        return 0
    if here.refusal.code not in ("cuda-oom", "kv-cache-too-small"):
        return 0
    need = here.layout.bytes_for(here.max_model_len) / 2**30
    missing = math.ceil(need - budget.kv_gib + budget.sigma_gib)
    ranks = knobs.tensor_parallel * knobs.pipeline_parallel
    room = _RAM_UNKNOWN_GIB if machine.ram_available_gib is None else machine.ram_available_gib - 4
    return missing if 0 < missing < budget.weights_gib and missing * ranks <= room else 0


def _pin(intent: Intent, flag: str, value: str | None) -> Intent:
    kept = tuple(pin for pin in intent.pins if pin.flag != flag)
    wishes = replace(intent, pins=(*kept, Pin(flag, value)))
    return replace(wishes, context_tokens=None) if flag == "--max-model-len" else wishes


_CAPABLE_ONLY = ("fp8", "nvfp4", "fp4", "mxfp8")


def _beyond_the_makers_word(entry: ModelEntry | None, choice: Choice) -> tuple[str, ...]:
    """config.json may allow more than the model's card promises."""
    if entry is None or not choice.outcome.starts or choice.outcome.max_model_len <= entry.context_length:
        return ()
    return (
        t(
            "The model's card speaks of {stated} tokens; its config.json allows this context, in which answers may be "
            "worse: `--set max-model-len={plain}` keeps to the card.",
            stated=f"{entry.context_length:,}",
            plain=entry.context_length,
        ),
    )


def _other_variants(facts: ModelFacts, entry: ModelEntry | None, capable: bool) -> tuple[Variant, ...]:
    if entry is None:
        return ()
    ours = facts.model.lower()
    return tuple(
        variant
        for variant in entry.variants
        if variant.model.lower() not in (ours, facts.serve_as.lower())
        and (capable or variant.precision not in _CAPABLE_ONLY)
        and not (variant.name == "default" and ours == entry.id.lower())
    )[:3]
