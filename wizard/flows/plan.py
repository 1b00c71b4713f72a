"""Find a model's facts, look at the machine, plan, show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from wizard.catalog.models import find_model
from wizard.clients.fit import judge_room, models_command
from wizard.effects.hub import Hub, HubCache, ModelFolder
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpReply
from wizard.flows.held import without_server
from wizard.hardware.machine import Machine
from wizard.i18n import t
from wizard.planning.catalogue import catalogue_facts, unknown_model, with_near_names, without_shape
from wizard.planning.facts import (
    MAX_CONFIG_BYTES,
    ModelFacts,
    config_problem,
    parse_config_bytes,
    parse_model_config,
)
from wizard.planning.hub import HubSource, hub_source, is_hub_id, judge_reply, offline
from wizard.planning.intent import Intent, Pin, Wish
from wizard.planning.measured import MeasuredStart, parse_starts, render_starts, with_start
from wizard.planning.model import ServePlan
from wizard.planning.pins import parse_pin
from wizard.planning.plan import plan_serve
from wizard.planning.recommend import serving_gpus
from wizard.planning.versions import TESTED_VERSION, parse_version
from wizard.problems import ExitCode, Problem, ProblemError, usage_error
from wizard.text import display_width
from wizard.ui.screen import Screen

if TYPE_CHECKING:
    from wizard.clients.spec import ClientSpec
    from wizard.planning.tensors import TensorSizes

# The whole talk with a hub; what it has not told by then is estimated.
HUB_TIME_S = 10.0
_HEAD_BYTES = 256 * 1024
_MOST_FILES = 200
_INDEX = "model.safetensors.index.json"
_MAX_INDEX_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where to look. config: a file or folder that the user named. ask_hub: before the catalogue, not only after it."""

    config: Path | None = None
    ask_hub: bool = False
    revision: str | None = None


def plan_for(
    world: World,
    model: str,
    *,
    machine: Machine | None = None,
    intent: Intent | None = None,
    source: ModelSource | None = None,
) -> ServePlan:
    """The plan for a model: a folder, a name on the hub, or one of the catalogue. machine None: this one.

    Raises ProblemError where the model's facts cannot be had, or a pinned value is impossible.
    """
    facts = observe_model(world, model, source or ModelSource())
    if machine is None:
        from wizard.flows.hardware import observe_machine

        machine = observe_machine(world)
    starts = () if machine.described else parse_starts(world.files.read_bytes(_starts_file(world)))
    intent = intent or Intent()
    specs = _specs(world, intent.clients)
    if specs and not intent.least_tokens:
        intent = replace(intent, least_tokens=max(spec.minimum_context_tokens for spec in specs))
    if intent.lora_modules and not intent.lora_rank:
        intent = replace(intent, lora_rank=_largest_rank(world, intent.lora_modules))
    plan = plan_serve(machine, facts, intent, starts)
    # As it is judged before a client's file is written.
    room = plan.max_model_len if plan.fits else None
    return replace(plan, warnings=(*plan.warnings, *(p.what for spec in specs for p in judge_room(spec, room))))


def _largest_rank(world: World, modules: tuple[str, ...]) -> int:
    """The largest rank of these adapters, where they lie in folders here; 0 where none tells."""
    ranks = [0]
    for module in modules:
        folder = ModelFolder(world.cwd / Path(module.partition("=")[2]).expanduser())
        try:
            told = json.loads(folder.read("adapter_config.json", MAX_CONFIG_BYTES) or b"{}")
        except ValueError:
            continue
        rank = told.get("r") if isinstance(told, dict) else None
        ranks.append(rank if isinstance(rank, int) and 0 < rank < 2**16 else 0)
    return max(ranks)


def _starts_file(world: World) -> Path:
    return world.paths.state / "measured-starts.json"


def remember_start(world: World, plan: ServePlan, *, kv_gib: float | None, weights_gib: float | None) -> None:
    """Keep what a start of this plan measured (GiB of one GPU), so that the next plan of the same need not estimate.

    kv_gib: "Available KV cache memory" of its log; without it, and on a CPU, there is nothing to keep.
    """
    if kv_gib is None or not 0 < kv_gib < plan.memory.budget_gib or plan.device == "cpu":
        return
    path = _starts_file(world)
    start = MeasuredStart(plan.start_key, plan.memory.budget_gib - kv_gib, weights_gib)
    before = parse_starts(world.files.read_bytes(path))
    after = with_start(before, start)
    if after != before:
        world.files.write_bytes(path, render_starts(after))


def _specs(world: World, names: tuple[str, ...]) -> tuple[ClientSpec, ...]:
    """The specs of these clients. Raises ProblemError for a client that nobody knows."""
    if not names:
        return ()
    from wizard.flows.clients import choose_clients, load_clients

    return tuple(client.spec for client in choose_clients(load_clients(world), names))


def observe_model(world: World, model: str, source: ModelSource) -> ModelFacts:
    """The facts of a model, from the first that has them: a named config, a folder, the hub's cache, the catalogue, the
    hub (or the hub before the catalogue, where the source says so).
    """
    if not model.strip() or "\0" in model:
        raise usage_error("missing-model", t("No model is named."), t("Name one, such as `Qwen/Qwen3-8B`."))
    if source.config is not None:
        return _folder_facts(model, _named_folder(source.config), serve_as=model)
    folder = _as_folder(world, model)
    if folder is not None:
        return _folder_facts(model, ModelFolder(folder), serve_as=str(folder))
    if not is_hub_id(model):
        raise unknown_model(model, t("`{model}` is neither a folder here nor a name on a hub.", model=model[:120]))
    cache = HubCache(world.env, world.home)
    snapshot = cache.snapshot(model)
    if snapshot is not None:
        return replace(_folder_facts(model, ModelFolder(snapshot), serve_as=model), source="cache")
    known = catalogue_facts(model)
    if known is not None and not source.ask_hub:
        return known
    if offline(world.env):
        if known is not None:
            return known
        if find_model(model) is not None:
            raise without_shape(model)
        raise unknown_model(
            model, t("`{model}` is not in the catalogue, and `HF_HUB_OFFLINE` forbids to ask the hub.", model=model)
        )
    return _hub_facts(world, model, hub_source(world.env, source.revision), Hub(world.http, cache.token()))


def _named_folder(path: Path) -> ModelFolder:
    path = path.expanduser()
    if path.is_dir():
        return ModelFolder(path)
    return ModelFolder(path.parent, path)


def _as_folder(world: World, model: str) -> Path | None:
    """The folder that a text means, when it means one."""
    path = Path(model).expanduser()
    path = path if path.is_absolute() else world.cwd / path
    looks_local = (
        model.startswith(("/", "./", "../", "~")) or model in (".", "..") or (len(model) > 1 and model[1] == ":")
    )
    if path.is_file() and path.name == "config.json":
        return path.parent
    if path.is_dir() and (looks_local or (path / "config.json").exists()):
        return path
    if looks_local:
        raise ProblemError(
            Problem(
                "model-folder-missing",
                t("There is no model folder `{path}`.", path=path),
                t("A model folder holds a config.json and the weights."),
            )
        )
    return None


def _folder_facts(model: str, folder: ModelFolder, *, serve_as: str) -> ModelFacts:
    raw = folder.read("config.json", MAX_CONFIG_BYTES + 1)
    if raw is None:
        names = folder.names()
        saw = t("no config.json in `{folder}`", folder=folder.folder)
        if any(name.endswith(".gguf") for name in names):
            saw = t("`{folder}` holds GGUF files and no config.json", folder=folder.folder)
        raise config_problem(model, saw, fix=t("Name the folder of a model in the hub's form, with its config.json."))
    config = parse_config_bytes(model, raw, folder.size("config.json"))
    facts = parse_model_config(
        model,
        config,
        quantization_file=_separate_quantization(folder),
        has_chat_template=_has_chat_template(folder),
        serve_as=serve_as,
        source="local",
    )
    sizes = _folder_sizes(folder, facts)
    return _with_sizes(facts, sizes)


def _separate_quantization(folder: ModelFolder) -> Mapping[str, Any] | None:
    import json

    for name in ("hf_quant_config.json", "quantize_config.json", "quant_config.json"):
        raw = folder.read(name, MAX_CONFIG_BYTES)
        if raw:
            try:
                value = json.loads(raw)
            except ValueError:
                continue
            if isinstance(value, dict):
                return {"quant_method": "gptq", **value} if name == "quantize_config.json" else value
    return None


def _has_chat_template(folder: ModelFolder) -> bool | None:
    names = folder.names()
    if "chat_template.jinja" in names or "chat_template.json" in names:
        return True
    raw = folder.read("tokenizer_config.json", MAX_CONFIG_BYTES)
    return None if raw is None else b'"chat_template"' in raw


def _folder_sizes(folder: ModelFolder, facts: ModelFacts) -> TensorSizes:
    """Sizes from the heads of the weight files; from the index, or the files, where there are no heads to read."""
    from wizard.planning.tensors import TensorSizes, add_sizes, header_length, parse_header, parse_index

    names = folder.names()
    weights = [name for name in names if name.endswith(".safetensors") and not name.startswith("consolidated")]
    weights = weights or [name for name in names if name.endswith(".safetensors")]
    raw = folder.read(_INDEX, _MAX_INDEX_BYTES)
    told, listed = parse_index(raw) if raw else (None, ())
    if told and not set(listed) <= set(names):
        # A download that is not complete: the index knows the whole.
        return TensorSizes(told)
    if weights and len(weights) <= _MOST_FILES:
        parts = []
        for name in weights:
            size = folder.size(name) or 0
            length = header_length(name, folder.read(name, 8) or b"", size)
            parts.append(parse_header(name, folder.read_range(name, 8, length) or b"", size, _draft_layer(facts)))
        return add_sizes(parts)
    if told:
        return TensorSizes(told)
    others = [name for name in names if name.endswith((".bin", ".pt", ".pth")) and "training" not in name]
    return TensorSizes(sum(folder.size(name) or 0 for name in others))


def _draft_layer(facts: ModelFacts) -> int | None:
    """The first layer number of a prediction head that is stored after the model's own layers."""
    return facts.layers if facts.mtp_layers else None


def _with_sizes(facts: ModelFacts, sizes: TensorSizes) -> ModelFacts:
    if not sizes.loaded:
        return facts
    vision = facts.vision
    if vision is not None and sizes.tower:
        vision = replace(vision, parameters=sizes.tower // 2)
    return replace(
        facts,
        checkpoint_bytes=sizes.loaded,
        tensors_read=bool(sizes.dtypes),
        draft_bytes=sizes.draft,
        vision=vision,
    )


def _hub_facts(world: World, model: str, source: HubSource, hub: Hub) -> ModelFacts:
    begun = world.clock.monotonic_s()

    def left_s() -> float:
        return max(0.5, HUB_TIME_S - (world.clock.monotonic_s() - begun))

    reply = hub.get(source.file_url(model, "config.json"), timeout_s=left_s(), max_bytes=MAX_CONFIG_BYTES + 1)
    problem = judge_reply(source, model, reply, has_token=hub.has_token)
    if problem is not None:
        raise ProblemError(with_near_names(problem, model))
    body = reply.body if isinstance(reply, HttpReply) else b""
    facts = parse_model_config(model, parse_config_bytes(model, body), serve_as=model, source="hub")
    return _with_sizes(facts, _hub_sizes(world, model, source, hub, facts, begun))


def _hub_sizes(world: World, model: str, source: HubSource, hub: Hub, facts: ModelFacts, begun: float) -> TensorSizes:
    """Exact sizes from the heads of the files, as far as the time goes; else what the index tells; else nothing."""
    from wizard.planning.tensors import TensorSizes, add_sizes, parse_header, parse_index

    def left_s() -> float:
        return HUB_TIME_S - (world.clock.monotonic_s() - begun)

    def fetch(file: str, limit: int, span: tuple[int, int] | None = None) -> bytes | None:
        if left_s() <= 0:
            return None
        reply = hub.get(source.file_url(model, file), timeout_s=left_s(), max_bytes=limit, span=span)
        return reply.body if isinstance(reply, HttpReply) and reply.status in (200, 206) else None

    index = fetch(_INDEX, _MAX_INDEX_BYTES)
    told, files = parse_index(index) if index else (None, ("model.safetensors",))
    parts = []
    for file in files[:_MOST_FILES]:
        head = fetch(file, _HEAD_BYTES, (0, _HEAD_BYTES - 1))
        if head is None or len(head) < 8:
            return TensorSizes(told or 0)
        length = int.from_bytes(head[:8], "little")
        if length > 64 * _HEAD_BYTES:
            return TensorSizes(told or 0)
        if len(head) < 8 + length:
            head = fetch(file, 8 + length, (0, 7 + length))
        if head is None or len(head) < 8 + length:
            return TensorSizes(told or 0)
        try:
            # The file's own size is not asked for; the tensors then tell it themselves.
            parts.append(parse_header(file, head[8 : 8 + length], 2**60, _draft_layer(facts)))
        except ProblemError:
            return TensorSizes(told or 0)
    return add_sizes(parts)


def checked_pins(pins: Iterable[Pin], version: str | None) -> tuple[str, ...]:
    """Warnings about pinned flags. Raises a usage error for the first one that this vLLM does not have, or whose value
    it does not take, with the nearest names.
    """
    from wizard.catalog.flags import check_flags

    warnings = []
    for problem in check_flags(((pin.flag, pin.value) for pin in pins), version or TESTED_VERSION.text):
        if problem.severity == "error":
            raise ProblemError(problem, ExitCode.USAGE)
        warnings.append(problem.what)
    return tuple(warnings)


def show_plan(screen: Screen, plan: ServePlan, machine_name: str) -> None:
    """The whole plan for people: what was chosen, other ways, the command of what starts."""
    from wizard.planning.render import as_command

    # Flags and command of what does not fit would be read as advice.
    show_choice(screen, plan, machine_name, flags=plan.fits)
    if plan.alternatives:
        screen.title(t("Other ways"))
        too_much = t("does not fit") if plan.fits else t("does not fit either")
        for other in plan.alternatives:
            size = t("{tokens} tokens", tokens=f"{other.kv_tokens:,}") if other.fits else too_much
            screen.step("info" if other.fits else "skipped", other.change, size)
    if plan.fits:
        screen.title(t("Command"))
        screen.line(as_command(plan))
        return
    way = next((other for other in plan.alternatives if other.fits), None)
    if way is not None:
        screen.title(t("Command of the first other way"))
        screen.line(as_command(plan, way))


def show_choice(screen: Screen, plan: ServePlan, machine_name: str, *, flags: bool = True) -> None:
    """What was chosen and why: memory, flags with reasons (unless they are not wanted), warnings."""
    memory = plan.memory
    screen.title(
        t("{model} on {machine}, vLLM {version}", model=plan.model, machine=machine_name, version=plan.vllm_version)
    )
    verdict = t(
        "context {length} tokens, {tokens} in the cache ({low} to {high}), {n:.1f} full requests at once",
        length=f"{plan.max_model_len:,}",
        tokens=f"{memory.kv_tokens:,}",
        low=f"{memory.kv_tokens_low:,}",
        high=f"{memory.kv_tokens_high:,}",
        n=memory.max_concurrency,
    )
    screen.step(
        "ok" if plan.fits else "failed", t("fits") if plan.fits else t("does not fit"), verdict if plan.fits else ""
    )
    _show_bar(screen, plan)
    for problem in plan.problems:
        screen.line()
        for line in screen.problem_lines(problem):
            screen.line(line)
    if flags:
        _show_flags(screen, plan)
    for warning in plan.warnings:
        screen.step("warning", warning)


def _show_flags(screen: Screen, plan: ServePlan) -> None:
    screen.title(t("Flags"))
    width = min(44, max((len(" ".join(flag.words)) for flag in plan.flags), default=0))
    for flag in plan.flags:
        cost = f" {t('Costs:')} {flag.cost}" if flag.cost else ""
        words = " ".join(flag.words)
        # Beside a column for the flags a narrow terminal has no room for reasons.
        narrow = screen.interactive and screen.columns < 2 * width
        told, head = (f"{words}: {flag.reason}{cost}", "  ") if narrow else (flag.reason + cost, f"  {words:{width}}  ")
        screen.say(told, head, "    " if narrow else " " * (width + 4))


def _show_bar(screen: Screen, plan: ServePlan) -> None:
    from wizard.planning.render import BAR_WIDTH, bar_cells

    where = t("memory") if plan.memory.device == "cpu" else t("each GPU")
    total = t("{total:.1f} GiB, {where}", total=plan.memory.total_gib, where=where)
    beside = screen.columns - 6 - display_width(total)
    cells = bar_cells(plan.memory, min(BAR_WIDTH, beside if beside > 20 else max(10, screen.columns - 4)))
    if screen.plain:
        # Read aloud, a bar is a row of letters; the figures say it all.
        screen.line(f"  {total}")
    else:
        bar = "".join(
            screen.paint((part.fill if screen.symbols else part.plain) * width, part.ansi) for part, width in cells
        )
        screen.say(total, f"  [{bar}] ", "  ")
    told = t("GiB, measured") if plan.memory.measured else t("GiB, estimated")
    mark = "" if screen.plain else "{} "
    legend = [
        mark.format(screen.paint(part.fill if screen.symbols else part.plain, part.ansi))
        + f"{part.label} {part.gib:.2f}"
        for part, _ in cells
    ]
    lines = [""]
    for entry in (*legend, f"({told})"):
        longer = f"{lines[-1]}   {entry}" if lines[-1] else entry
        if screen.interactive and lines[-1] and display_width(longer) > screen.columns - 2:
            lines.append(entry)
        else:
            lines[-1] = longer
    for line in lines:
        screen.line(f"  {line}")


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """What `llm-setup plan` was asked. Sizes in GiB; form: text, command, yaml, env or json."""

    model: str
    gpu: str | None = None
    gpus: int | None = None
    gpu_memory_gib: float | None = None
    gpu_free_gib: float | None = None
    compute_capability: str | None = None
    vllm_version: str | None = None
    model_config: Path | None = None
    ask_hub: bool = False
    revision: str | None = None
    pins: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    context_tokens: int | None = None
    wish: str = "balanced"
    served_name: str | None = None
    lora_modules: tuple[str, ...] = ()
    trust_remote_code: bool = False
    form: str = "text"
    svg: Path | None = None

    @property
    def describes_machine(self) -> bool:
        """Whether flags describe a machine."""
        return any(
            value is not None
            for value in (self.gpu, self.gpus, self.gpu_memory_gib, self.gpu_free_gib, self.compute_capability)
        )


def plan_command(world: World, screen: Screen, question: PlanQuestion) -> bool:
    """Plan and show; whether it fits."""
    pins = tuple(parse_pin(text) for text in question.pins)
    if question.vllm_version:
        parse_version(question.vllm_version)
    machine, held_gib = without_server(world, _machine(world, question))
    version = question.vllm_version or (None if machine.described else installed_version(world, machine))
    warnings = checked_pins(pins, version)
    if held_gib:
        warnings += (
            t("{gib:.1f} GiB that llm-setup's own server holds count as free: this one takes its place.", gib=held_gib),
        )
    intent = Intent(
        clients=question.clients,
        wish=cast(Wish, question.wish),
        context_tokens=question.context_tokens,
        vllm_version=version,
        pins=pins,
        served_name=question.served_name,
        trust_remote_code=question.trust_remote_code,
        lora_modules=question.lora_modules,
    )
    source = ModelSource(question.model_config, question.ask_hub, question.revision)
    plan = plan_for(world, question.model, machine=machine, intent=intent, source=source)
    plan = replace(plan, warnings=(*plan.warnings, *warnings))
    if question.svg is not None:
        from wizard.planning.render import bar_svg

        world.files.write_bytes(question.svg.expanduser(), bar_svg(plan).encode())
    if question.form == "json":
        screen.document(plan.as_json())
    elif question.form == "text":
        show_plan(screen, plan, machine_name(machine))
        _say_who_has_room(world, screen, plan, question.clients)
    else:
        from wizard.planning.render import as_command, as_env, as_yaml

        for problem in plan.problems:
            screen.problem(problem)
        screen.line({"command": as_command, "yaml": as_yaml, "env": as_env}[question.form](plan).rstrip("\n"))
    return plan.fits


def _say_who_has_room(world: World, screen: Screen, plan: ServePlan, clients: Sequence[str]) -> None:
    """Where this model holds too little for a client, what lists those that would do."""
    room = plan.max_model_len if plan.fits else None
    small = [spec.name for spec in _specs(world, tuple(clients)) if judge_room(spec, room)]
    if small:
        screen.title(t("Models with more room"))
        screen.line(models_command(small))


def installed_version(world: World, machine: Machine) -> str | None:
    """The version of the vLLM that `serve` would start here, or None where there is none yet."""
    from wizard.flows.runtime import find_runtime

    runtime = find_runtime(world, Screen(out=StringIO(), err=StringIO(), plain=True), machine)
    return runtime.vllm_version if runtime else None


def _machine(world: World, question: PlanQuestion) -> Machine:
    if question.describes_machine:
        from wizard.hardware.describe import describe_machine

        return describe_machine(
            question.gpu,
            question.gpus or 1,
            question.gpu_memory_gib,
            question.gpu_free_gib,
            question.compute_capability,
        )
    from wizard.flows.hardware import observe_machine

    return observe_machine(world)


def machine_name(machine: Machine) -> str:
    gpus = serving_gpus(machine)
    if not gpus:
        return machine.cpu.name or t("this processor")
    return f"{len(gpus)} x {gpus[0].name}" if len(gpus) > 1 else gpus[0].name
