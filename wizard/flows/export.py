"""Write the files of one kind of export for a server, and install a unit of the user's own where asked."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path

from wizard.catalog.arguments import flag_value
from wizard.effects.hub import hugging_face_home
from wizard.effects.templates import packaged_templates
from wizard.effects.world import World
from wizard.flows.embedded import embedded_here, write_template
from wizard.flows.serve import fresh_key
from wizard.flows.serve_model import ServeAnswers, planned_arguments
from wizard.hardware.machine import Machine
from wizard.hardware.usable import choose_build
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, usage_error
from wizard.serving.embedded import CHAT_TEMPLATE, FOLDER_NAME
from wizard.serving.export import (
    SPEC_NAME,
    Exported,
    ExportSpec,
    ExportValues,
    image_for,
    mount_files,
    parse_export,
    render_export,
    split_over_nodes,
)
from wizard.serving.install_plan import TESTED_VERSION
from wizard.serving.phases import patience_for
from wizard.serving.start import HUB_VARIABLES, server_variables, without_flags
from wizard.ui.screen import Screen

_INSTALLABLE = "systemd-user"
_SYSTEMCTL_S = 60.0


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What flags say beside the server's own. output None: a folder of the kind's name below the current one."""

    output: Path | None = None
    nodes: int = 1
    master: str = ""
    tensor_parallel_size: int | None = None
    public_name: str = ""
    image: str = ""
    install: bool = False
    overwrite: bool = False
    dry_run: bool = False


def export_kinds(world: World) -> tuple[tuple[ExportSpec, dict[str, str]], ...]:
    """All kinds with their templates, by name; a folder of the user's own replaces ours file by file."""
    texts: dict[str, dict[str, str]] = {}
    for root in (packaged_templates().joinpath("server"), world.paths.config / "templates" / "server"):
        for folder in _folders(root):
            known = texts.setdefault(folder.name, {})
            for entry in folder.iterdir():
                if entry.name == SPEC_NAME or entry.name.endswith(".j2"):
                    known[entry.name] = entry.read_text(encoding="utf-8")
    found = [(parse_export(name, files[SPEC_NAME]), files) for name, files in texts.items() if SPEC_NAME in files]
    return tuple(sorted(found, key=lambda pair: pair[0].name))


def _folders(root: Traversable) -> list[Traversable]:
    return [entry for entry in root.iterdir() if entry.is_dir()] if root.is_dir() else []


def export(
    world: World, screen: Screen, machine: Machine, kind: str, answers: ServeAnswers, options: ExportOptions
) -> None:
    """Render the kind for the server of that name, or for a planned one, and write its files."""
    kinds = {spec.name: (spec, files) for spec, files in export_kinds(world)}
    if kind not in kinds:
        raise usage_error(
            "unknown-export",
            t("There is no export `{kind}`.", kind=kind[:60]),
            t("Kinds: {kinds}.", kinds=", ".join(kinds)),
        )
    spec, files = kinds[kind]
    if options.install and kind != _INSTALLABLE:
        raise usage_error("wrong-usage", t("`--install` goes with `{kind}` only.", kind=_INSTALLABLE))
    if spec.needs_nodes and (options.nodes < 2 or not options.master):
        raise usage_error(
            "missing-answer",
            t("Several machines need to be told: how many, and the first one's address."),
            t("Say both."),
            f"llm-setup export {kind} --nodes 2 --master 10.0.0.1",
        )
    values = _values(world, machine, answers, options)
    rendered = render_export(spec, files, values)
    folder = options.output or world.cwd / "llm-setup-export" / spec.name
    if options.install:
        _install(world, screen, values, rendered[0], dry_run=options.dry_run)
        return
    written = _write(world, folder, rendered, options)
    if spec.needs_key_file and not options.dry_run:
        world.files.write_private(Path(values.key_file), values.key.encode() + b"\n")
    next_lines = [_filled(t(line), folder, values.name) for line in spec.next]
    for file, state in zip(rendered, written, strict=True):
        screen.step("ok", str(folder / file.target), state)
    if options.dry_run:
        for file in rendered:
            screen.title(file.target)
            screen.line(t("(holds the key; not shown)") if file.secret else file.text.rstrip("\n"))
    _say_model(world, screen, spec, values)
    screen.title(t("Next"))
    for line in next_lines:
        screen.line(f"  $ {line}" if not line[0].isupper() else f"  {line}")
    if screen.as_json:
        screen.document(
            {
                "status": "ok",
                "kind": spec.name,
                "folder": str(folder),
                "model": values.model,
                "files": [
                    {"file": str(folder / file.target), "secret": file.secret, "state": state}
                    for file, state in zip(rendered, written, strict=True)
                ],
                "next": next_lines,
            }
        )


# Flags whose value is a file or folder that vLLM reads; others, such as `--download-dir`, it makes itself.
_READ = (
    "--chat-template", "--config", "--hf-config-path", "--reasoning-parser-plugin", "--speculative-model",
    "--ssl-ca-certs", "--ssl-certfile", "--ssl-keyfile", "--tokenizer", "--tool-parser-plugin",
)  # fmt: skip


def _say_model(world: World, screen: Screen, spec: ExportSpec, values: ExportValues) -> None:
    """Which model the files serve and whence it comes; a warning for each path that they name and that is not there."""
    whence = values.model_folder or t("from the hub, at the first start")
    record = world.servers.load(values.name)
    if record is not None and record.model == values.model:
        whence = t("as the server `{name}` has it: {whence}", name=values.name, whence=whence)
    screen.step("info", t("model {name}", name=values.served_name), f"{values.model}\n{whence}")
    if values.model_folder and spec.elsewhere:
        told = t(
            "No cluster sees this folder: copy {folder} to /data/{name} on its volume first, or name the model by its "
            "hub id, which the server then downloads.",
            folder=values.model_folder,
            name=values.served_name,
        )
        screen.step("warning", told)
        screen.line(f"    $ llm-setup export {spec.name} --model {t('HUB_ID')}")
    read = (flag_value(values.arguments, flag) for flag in _READ)
    named = {word for word in (values.model, *read) if word and Path(word).is_absolute()}
    mounted = {file.source for file in values.mounted}
    for path in sorted(named - mounted):
        if not Path(path).exists():
            told = t(
                "`{path}` is not on this machine: put it there before the start, or name the model by its hub id.",
                path=path,
            )
            screen.step("warning", told)


def _filled(line: str, folder: Path, name: str) -> str:
    """What to type afterwards; a path in `'{folder}/{name}.x'` is quoted as a shell needs it."""

    def fill(found: re.Match[str]) -> str:
        if found[1] is None:
            return name
        return shlex.quote(str(folder) + found[1].replace("{name}", name))

    return re.sub(r"'\{folder\}([^']*)'|\{name\}", fill, line)


def _write(world: World, folder: Path, rendered: tuple[Exported, ...], options: ExportOptions) -> list[str]:
    """Equal files are left alone; others of that name are replaced only when that was said."""
    states: list[str] = []
    for file in rendered:
        before = world.files.read_bytes(folder / file.target)
        if before is None:
            states.append(t("would be written") if options.dry_run else t("written"))
        elif before == file.text.encode():
            states.append(t("unchanged"))
        elif options.overwrite:
            states.append(t("would be replaced") if options.dry_run else t("replaced"))
        else:
            raise ProblemError(
                Problem(
                    "file-exists",
                    t("`{path}` is there and differs.", path=folder / file.target),
                    fix=Fix(t("Write elsewhere with `--output`, or replace it with `--yes`.")),
                )
            )
    if not options.dry_run:
        for file in rendered:
            if world.files.read_bytes(folder / file.target) != file.text.encode():
                mode = 0o600 if file.secret else 0o755 if file.executable else 0o644
                world.files.write_bytes(folder / file.target, file.text.encode(), mode=mode)
    return states


def _values(world: World, machine: Machine, answers: ServeAnswers, options: ExportOptions) -> ExportValues:
    record = world.servers.load(answers.name)
    image = options.image
    texts: dict[str, str] = {}
    if record is not None and answers.model is None:
        version, python, host, port = record.vllm_version, record.python, record.host, record.port
        command, model, arguments = record.command, record.model, record.arguments
        served_name, environment = record.served_name, dict(record.environment)
        if record.container:
            image = image or record.command[record.command.index(model) - 1]
    else:
        from wizard.flows.runtime import find_runtime, given_runtime

        runtime = (
            given_runtime(world, answers.vllm) if answers.vllm else find_runtime(world, Screen(plain=True), machine)
        )
        version = answers.vllm_version or (runtime.vllm_version if runtime else TESTED_VERSION)
        model, arguments, environment = planned_arguments(world, machine, answers, version)
        if model == str(world.paths.models / FOLDER_NAME):
            # Nobody has to have fetched the embedded model: whoever starts these files may do it.
            model, template = embedded_here(world)
            texts[str(world.paths.models / CHAT_TEMPLATE)] = template
            if not options.dry_run:
                write_template(world)
        python = runtime.python if runtime else "/opt/vllm/bin/python"
        serve = runtime.serve_command if runtime else ("/opt/vllm/bin/vllm", "serve")
        host, port = answers.host, answers.port or 8000
        command = (*serve, model, "--host", host, "--port", str(port), *arguments)
        served_name = flag_value(arguments, "--served-model-name") or model
    build = choose_build(machine).build
    local = Path(model).expanduser()
    environment = {name: world.env[name] for name in HUB_VARIABLES if world.env.get(name)} | environment
    if local.is_dir():
        environment.pop("VLLM_USE_MODELSCOPE", None)
    runtime_folder = str(Path(python).parent.parent) if python else ""
    per_node = options.tensor_parallel_size or int(flag_value(arguments, "--tensor-parallel-size") or 1)
    tensor, pipeline = split_over_nodes(build, options.nodes, per_node)
    if options.nodes > 1:
        arguments = without_flags(
            arguments, ("--tensor-parallel-size", "--pipeline-parallel-size", "--distributed-executor-backend")
        )
    if flag_value(arguments, "--served-model-name") is None:
        arguments = ("--served-model-name", served_name, *arguments)
    container_arguments, mounted = mount_files(arguments, _named_files(arguments) | texts)
    own_home = world.env.get("LLM_SETUP_HOME")
    return ExportValues(
        name=answers.name,
        command=command,
        arguments=arguments,
        env=environment,
        machine_env=server_variables(build, runtime_folder, environment, local_model=local.is_dir()),
        container_env=server_variables(build, "", environment, local_model=local.is_dir()),
        model=model,
        model_folder=str(local) if local.is_dir() else "",
        served_name=served_name,
        host=host,
        port=port,
        python=python,
        vllm_version=version,
        build=build,
        image=image or image_for(build, version),
        gpus=0 if build == "cpu" else per_node,
        shm_gib=max(2, 4 * per_node),
        startup_s=int(patience_for(None, downloaded=local.is_dir()).total_s),
        home=str(world.home),
        cache_folder=str(hugging_face_home(world.env, world.home)),
        wizard=(sys.executable, "-m", "wizard"),
        key=_key(world, answers, dry_run=options.dry_run),
        key_file=str(world.paths.config / "servers" / f"{answers.name}.key"),
        public_name=options.public_name or "llm.example.com",
        container_arguments=container_arguments,
        mounted=mounted,
        wizard_env=(("LLM_SETUP_HOME", own_home),) if own_home else (),
        connect_host={"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host),
        nodes=options.nodes,
        master=options.master,
        tensor_parallel_size=tensor,
        pipeline_parallel_size=pipeline,
    )


def _named_files(arguments: tuple[str, ...]) -> dict[str, str]:
    """Contents of the small text files that flags name by their absolute path, such as a chat template."""
    found: dict[str, str] = {}
    for word in arguments:
        path = Path(word)
        if path.is_absolute() and path.is_file() and path.stat().st_size < 2**18:
            found[word] = path.read_text(encoding="utf-8", errors="replace")
    return found


def _key(world: World, answers: ServeAnswers, *, dry_run: bool) -> str:
    """The server's key; one that it has not yet is made and kept, so that clients get the same."""
    name = f"server-{answers.name}"
    key = answers.key or world.secrets.get(f"store:{name}") or fresh_key()
    if not dry_run:
        world.secrets.put(name, key)
    return key.reveal()


def _install(world: World, screen: Screen, values: ExportValues, unit: Exported, *, dry_run: bool) -> None:
    """Put the unit and its key in place, and start it now and at every boot."""
    configuration = Path(world.env.get("XDG_CONFIG_HOME") or world.home / ".config")
    target = configuration / "systemd" / "user" / unit.target
    steps = [
        ["systemctl", "--user", "daemon-reload"],
        ["systemctl", "--user", "enable", "--now", unit.target],
        ["loginctl", "enable-linger"],
    ]
    if dry_run:
        screen.line(t("Would write {path} and run:", path=target))
        for step in steps:
            screen.line("  $ " + shlex.join(step))
    else:
        world.files.write_private(Path(values.key_file), values.key.encode() + b"\n")
        world.files.write_bytes(target, unit.text.encode(), mode=0o644)
        screen.step("ok", t("unit written"), str(target))
        for step in steps:
            ran = world.processes.run(step, env=world.env, timeout_s=_SYSTEMCTL_S)
            if ran.code != 0:
                raise ProblemError(_systemd_problem(step, ran.err or ran.out, target))
            screen.step("ok", shlex.join(step))
    if screen.as_json:
        screen.document({"status": "ok", "unit": str(target), "commands": [shlex.join(step) for step in steps]})


def _systemd_problem(step: list[str], said: str, target: Path) -> Problem:
    return Problem(
        "systemd-failed",
        t("`{command}` did not work.", command=shlex.join(step)),
        t("A container, or a login without a user manager, has no systemd to install into."),
        saw=(said.strip()[:300], t("the unit is at {path}", path=target)),
        fix=Fix(
            t("Run it in a real login (not by `su`), or take the unit of the system."),
            (shlex.join(step), "llm-setup export systemd-system"),
        ),
    )


def show_kinds(world: World, screen: Screen) -> None:
    """The list of kinds."""
    kinds = export_kinds(world)
    width = max(len(spec.name) for spec, _ in kinds)
    for spec, _ in kinds:
        screen.row("info", f"{spec.name:<{width}}  ", t(spec.title))
    if screen.as_json:
        rows = [{"name": spec.name, "title": spec.title, "docs": spec.docs} for spec, _ in kinds]
        screen.document({"status": "ok", "kinds": rows})
