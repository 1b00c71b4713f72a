"""From settings to flags: each with a reason, and only where it differs from what vLLM does anyway."""

from __future__ import annotations

import shlex
from typing import Protocol

from wizard.catalog.arguments import argument_pairs
from wizard.catalog.flags import check_flags
from wizard.catalog.models import ModelEntry
from wizard.i18n import t
from wizard.planning.adapters import DEFAULT_RANK, Adapters
from wizard.planning.facts import ModelFacts
from wizard.planning.intent import Intent
from wizard.planning.model import Flag
from wizard.planning.pins import bad_value
from wizard.planning.recommend import Choice
from wizard.planning.versions import Version, default_utilization

# Settings of the recipes that the plan decides itself.
_OURS = frozenset(
    {
        "--max-model-len", "--gpu-memory-utilization", "--tensor-parallel-size", "--pipeline-parallel-size",
        "--max-num-seqs", "--max-num-batched-tokens", "--kv-cache-dtype", "--served-model-name", "--dtype",
        "--trust-remote-code", "--enable-chunked-prefill", "--enable-prefix-caching",
        "--enable-expert-parallel", "--async-scheduling", "--compilation-config",
    }
)  # fmt: skip


def served_name(facts: ModelFacts, intent: Intent) -> str:
    """The name that clients use: the last part of the model's name, without a slash. Raises a usage error for a wished
    one that would be none or several."""
    pinned = intent.pinned("--served-model-name")
    if intent.served_name is not None and len(intent.served_name.split()) != 1:
        raise bad_value("--served-model-name", intent.served_name, t("one name without blanks"))
    name = pinned or intent.served_name or facts.model.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1]
    return name.split()[0] if name.split() else "model"


def command_flags(
    facts: ModelFacts, intent: Intent, entry: ModelEntry | None, choice: Choice
) -> tuple[tuple[Flag, ...], tuple[str, ...]]:
    """(flags in the order of a command, warnings). Only what the version has."""
    flags: dict[str, Flag] = {}
    warnings: list[str] = []

    def put(flag: str, value: str | None, reason: str, source: str, cost: str = "") -> None:
        flags.setdefault(flag, Flag(flag, value, reason, source, cost))

    put(
        "--served-model-name",
        served_name(facts, intent),
        t("As you named it.") if intent.served_name else t("A short name without a slash works in every client."),
        "you" if intent.served_name else "clients",
    )
    _put_settings(facts, choice, put)
    for name, value in argument_pairs(entry.base_args if entry else ()):
        if name not in _OURS or (facts.compress_ratios and name == "--kv-cache-dtype"):
            put(name, value, t("vLLM's recipe for this model asks for it."), "catalogue")
    _put_parsers(facts, entry, choice.knobs.version, put, warnings)
    _put_remote_code(facts, intent, entry, put, warnings)
    if intent.lora_modules:
        for module in intent.lora_modules:
            if not all(module.partition("=")[::2]):
                raise bad_value("--lora-modules", module, t("a name and a path, such as `sql=/adapters/sql`"))
        put("--enable-lora", None, t("You gave adapters to load."), "you", t("Some memory and speed."))
        put("--lora-modules", shlex.join(intent.lora_modules), t("You gave adapters to load."), "you")
        _put_adapter_room(choice.knobs.adapters, put)
    for pin in intent.pins:
        reason = flags[pin.flag].reason if pin.flag in flags else t("You set it.")
        off = f"--{pin.flag[5:]}" if pin.flag.startswith("--no-") else f"--no-{pin.flag[2:]}"
        flags.pop(off, None)
        flags[pin.flag] = Flag(pin.flag, pin.value, reason, "you")
    chosen = _true_flags(tuple(flags.values()), str(choice.knobs.version), warnings)
    return chosen, tuple(warnings)


def _true_flags(flags: tuple[Flag, ...], version: str, warnings: list[str]) -> tuple[Flag, ...]:
    """Those that this version has, with values that it takes; what the user pinned stays and is judged elsewhere."""
    kept = []
    # A plugin brings the parser that is named beside it.
    plugins = [(flag.flag, flag.value) for flag in flags if flag.flag.endswith("-parser-plugin")]
    plugins = [plugin for plugin in plugins if not check_flags([plugin], version)]
    for flag in flags:
        problems = () if flag.source == "you" else check_flags([(flag.flag, flag.value), *plugins], version)
        if any(problem.severity == "error" for problem in problems):
            warnings.append(t("Left out: {what}", what=problems[0].what))
        else:
            kept.append(flag)
    if not any(flag.flag == "--tool-call-parser" for flag in kept):
        # Without a parser it ends the start; vLLM 0.32 entrypoints/openai/cli_args.py `validate_parsed_serve_args`.
        kept = [flag for flag in kept if flag.source == "you" or flag.flag != "--enable-auto-tool-choice"]
    return tuple(kept)


class _Put(Protocol):
    def __call__(self, flag: str, value: str | None, reason: str, source: str, cost: str = "") -> None: ...


def _put_settings(facts: ModelFacts, choice: Choice, put: _Put) -> None:
    knobs, notes, outcome = choice.knobs, choice.notes, choice.outcome
    if "dtype" in notes:
        put("--dtype", "half", notes["dtype"], "machine", t("Numbers of a smaller range."))
    if knobs.tensor_parallel > 1:
        put("--tensor-parallel-size", str(knobs.tensor_parallel), notes.get("tensor_parallel", ""), "memory")
    if knobs.pipeline_parallel > 1:
        put("--pipeline-parallel-size", str(knobs.pipeline_parallel), notes.get("pipeline_parallel", ""), "memory")
    if knobs.device != "cpu" and abs(knobs.utilization - default_utilization(knobs.version)) > 1e-9:
        put(
            "--gpu-memory-utilization",
            f"{knobs.utilization:g}",
            notes.get("utilization", t("The share of each GPU that vLLM may use.")),
            "machine",
            t("Less room for context than on an empty GPU.") if "utilization" in notes else "",
        )
    if choice.auto_length:
        put(
            "--max-model-len",
            "auto",
            t(
                "vLLM takes the longest context that fits, here about {n} tokens of {limit}.",
                n=f"{outcome.max_model_len:,}",
                limit=f"{facts.max_position:,}",
            ),
            "memory",
        )
    elif outcome.max_model_len >= facts.max_position:
        reason = t("All that the model can; it fits.") if outcome.starts else t("All that the model can.")
        if outcome.max_model_len > facts.max_position:
            reason = t("More than the model can: {limit}.", limit=facts.max_position)
        put("--max-model-len", str(outcome.max_model_len), reason, "model")
    else:
        put(
            "--max-model-len",
            str(outcome.max_model_len),
            t("The longest request; the model could take {limit}.", limit=facts.max_position),
            "memory",
        )
    if "max_num_seqs" in notes:
        put(
            "--max-num-seqs",
            str(knobs.max_num_seqs),
            notes["max_num_seqs"],
            "memory",
            t("Further requests wait in line."),
        )
    if "max_num_batched_tokens" in notes:
        put("--max-num-batched-tokens", str(knobs.max_num_batched_tokens), notes["max_num_batched_tokens"], "memory")
    if knobs.kv_cache_dtype != "auto":
        put(
            "--kv-cache-dtype",
            knobs.kv_cache_dtype,
            notes.get("kv_cache_dtype", ""),
            "memory",
            t("A little less exact."),
        )
    if "enforce_eager" in notes:
        put("--enforce-eager", None, notes["enforce_eager"], "memory", t("Replies come slower."))


def _put_parsers(facts: ModelFacts, entry: ModelEntry | None, version: Version, put: _Put, warnings: list[str]) -> None:
    if entry is None:
        warnings.append(t("This model is not in the catalogue, so no tool-call parser is set; agents need one."))
        return
    calls = argument_pairs(entry.tool_call_args or entry.documented_tool_call_args)
    for name, value in calls:
        if name == "--chat-template" and value and value.startswith("examples/"):
            # A path in vLLM's source tree, which its wheels do not carry.
            warnings.append(_template_problem(value, str(version)))
            continue
        put(name, value, t("Agents work by tool calls; this reads them out of the model's text."), "catalogue")
    if not calls:
        warnings.append(t("No tool-call parser is known for this model; coding agents may not work with it."))
    for name, value in argument_pairs(entry.reasoning_args):
        put(name, value, t("Keeps the model's thinking apart from its answer."), "catalogue")
    if facts.has_chat_template is False:
        warnings.append(t("The model brings no chat template; give one with `--set chat-template=FILE`."))


def _template_problem(path: str, version: str) -> str:
    name = path.rpartition("/")[2]
    return t(
        "Left out: the chat template {name} of vLLM's recipe, which no wheel carries; the model's own is used. If tool "
        "calls fail, save {url} and add `--set chat-template={name}`.",
        name=name,
        url=f"https://raw.githubusercontent.com/vllm-project/vllm/v{version}/{path}",
    )


def _put_adapter_room(adapters: Adapters, put: _Put) -> None:
    if adapters.at_once > 1:
        put(
            "--max-loras",
            str(adapters.at_once),
            t("Requests for different adapters run together instead of in turn."),
            "memory",
            t("Memory for each."),
        )
    if adapters.rank > DEFAULT_RANK:
        put("--max-lora-rank", str(adapters.rank), t("An adapter has a rank as large as that."), "model")


def _put_remote_code(
    facts: ModelFacts, intent: Intent, entry: ModelEntry | None, put: _Put, warnings: list[str]
) -> None:
    recipe = entry is not None and "--trust-remote-code" in entry.base_args
    if intent.trust_remote_code or intent.pinned("--trust-remote-code") is not None:
        put(
            "--trust-remote-code",
            None,
            t("You allow code of the model's author to run."),
            "you",
            t("That code can do anything you can."),
        )
    elif recipe or facts.needs_remote_code:
        warnings.append(
            t("The model brings code of its author. If vLLM asks for it and you trust them, add `--trust-remote-code`.")
        )


def command_env(choice: Choice, entry: ModelEntry | None) -> dict[str, str]:
    """Environment variables that the command needs."""
    env = dict(entry.base_env) if entry else {}
    # It would change what is reserved for CUDA graphs, and with it every figure of the plan.
    env.pop("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", None)
    if choice.knobs.device == "cpu" and choice.knobs.kv_space_gib and choice.knobs.kv_bytes_pinned is None:
        env["VLLM_CPU_KVCACHE_SPACE"] = f"{choice.knobs.kv_space_gib:.0f}"
    return env
