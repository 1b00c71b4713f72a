"""Facts of a model that nobody has here, from the catalogue."""

from __future__ import annotations

from dataclasses import replace

from wizard.catalog.models import ModelEntry, Variant, find_base_model, find_model, nearest_models
from wizard.i18n import t
from wizard.planning.facts import ModelFacts, parse_model_config
from wizard.planning.memory import total_parameters
from wizard.planning.quantization import Quantization
from wizard.problems import Fix, Problem, ProblemError

_METHODS = {
    "fp8": Quantization("fp8", 8, 8),
    "mxfp8": Quantization("fp8", 8, 8),
    "int8": Quantization("compressed-tensors", 8, 8),
    "int4": Quantization("awq", 4, 16, 128),
    "nvfp4": Quantization("modelopt_fp4", 4, 4, 16),
    "fp4": Quantization("modelopt_fp4", 4, 4, 16),
    "mxfp4": Quantization("mxfp4", 4.25, 16),
}


def catalogue_facts(model: str) -> ModelFacts | None:
    """The catalogue's facts of a model or of one of its variants; None where it has no shape for it."""
    entry = find_model(model)
    if entry is None or entry.config is None:
        return None
    variant = entry.variant(model)
    try:
        facts = parse_model_config(model, entry.config, serve_as=_hub_name(entry, variant, model), source="catalogue")
    except ProblemError:
        # The row has not all that a plan needs; the hub has.
        return None
    return _as_variant(facts, entry, variant)


def variant_facts(facts: ModelFacts, entry: ModelEntry, variant: Variant) -> ModelFacts:
    """The same model in another variant of its weights."""
    bare = replace(
        facts, model=variant.model, serve_as=variant.model, quantization=None, checkpoint_bytes=None, source="catalogue"
    )
    return _as_variant(bare, entry, variant)


def _hub_name(entry: ModelEntry, variant: Variant, model: str) -> str:
    """The hub's own spelling, for a name that was written in other letters or without its organisation."""
    return variant.model if model.lower() not in (entry.id.lower(),) else entry.id


def _as_variant(facts: ModelFacts, entry: ModelEntry, variant: Variant) -> ModelFacts:
    if facts.quantization is None:
        facts = replace(facts, quantization=_METHODS.get(variant.precision))
    size, measured = entry.download(variant)
    # A measured size wins; else the shape, which knows the tables that stay wide, where it agrees with the parameters.
    # Whole numbers of them are often rounded down.
    shaped, told = total_parameters(facts) / 1e9, entry.parameters_b
    agrees = 0.9 < shaped / told < 1.12 or (told == int(told) and told <= shaped < told + 1)
    return replace(facts, checkpoint_bytes=None if agrees and not measured else int(size * 2**30))


def unknown_model(model: str, what: str) -> ProblemError:
    """The one error for a model that nothing is known of, with names that may have been meant."""
    near = nearest_models(model)
    copy = find_base_model(model)
    fix = (
        t("Did you mean {names}?", names=t(" or ").join(f"`{name}`" for name in near))
        if near
        else t("Give its folder or config.json with `--model-config`.")
    )
    if copy is not None and not near:
        fix = t("The catalogue knows its original, `{name}`.", name=copy.id)
    return ProblemError(
        Problem(
            "model-not-found",
            what,
            t("A plan needs the model's layers, heads and sizes."),
            fix=Fix(fix, (f"llm-setup plan {near[0]}",) if near else ()),
        )
    )


def without_shape(model: str) -> ProblemError:
    """The one error for a model of the catalogue whose dimensions are nowhere to be had now."""
    return ProblemError(
        Problem(
            "model-not-found",
            t("The catalogue knows `{model}`, but not its layers and sizes.", model=model),
            t("A plan needs the model's layers, heads and sizes."),
            fix=Fix(
                t("Plan where the hub can be reached, or copy the model's config.json and name its folder."),
                (f"llm-setup plan {model} --model-config DIR",),
            ),
        )
    )


def with_near_names(problem: Problem, model: str) -> Problem:
    """A hub's problem, with what the catalogue can plan instead: the original of a copy, or names that may have been
    meant."""
    copy = find_base_model(model)
    near = (copy.id,) if copy is not None else nearest_models(model)
    plannable = [name for name in near if catalogue_facts(name) is not None]
    if problem.fix is None:
        return problem
    if copy is not None and not plannable:
        text = t("The catalogue knows `{model}`, but not its layers and sizes.", model=copy.id)
    elif plannable:
        names = t(" or ").join(f"`{name}`" for name in plannable)
        text = t("The catalogue can plan {names} without the hub.", names=names)
    else:
        return problem
    return replace(problem, fix=replace(problem.fix, text=f"{problem.fix.text} {text}"))
