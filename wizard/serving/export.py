"""Files that keep a server running elsewhere or for long: units, manifests, proxies, dashboards; from templates.

A kind is a folder of `templates/server/` with an `export.toml`; folders are found, there is no list.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, usage_error

if TYPE_CHECKING:
    import jinja2

SPEC_NAME = "export.toml"
_KEYS = {"name", "title", "docs", "next", "file", "needs_nodes", "needs_key_file", "elsewhere"}
_FILE_KEYS = {"template", "target", "secret", "executable", "each_node", "builds"}


@dataclass(frozen=True, slots=True)
class ExportFile:
    """One file. target: its name, in which `{name}` is the server's and `{node}` the node's number. secret: holds the
    key (mode 0600, never printed). each_node: once for every node. builds: only for these of vLLM's; empty: for all."""

    template: str
    target: str
    secret: bool = False
    executable: bool = False
    each_node: bool = False
    builds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportSpec:
    """One kind of export. next: what to type afterwards, `{folder}` and `{name}` put in. needs_nodes: several nodes.
    needs_key_file: its files name `server.key_file`, which has to be there. elsewhere: it is for machines that see no
    folder of this one."""

    name: str
    title: str
    docs: str
    files: tuple[ExportFile, ...]
    next: tuple[str, ...]
    needs_nodes: bool = False
    needs_key_file: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class MountedFile:
    """A file of this machine that a flag names (a chat template), and where a container finds it."""

    source: str
    name: str
    target: str
    text: str


@dataclass(frozen=True, slots=True)
class ExportValues:
    """What a template sees as `server`.

    command: the whole argv on this machine. arguments: vLLM's flags after the model, without host, port and key;
    container_arguments: the same, with files where a container finds them. connect_host: where a client on the same
    machine reaches it. wizard_env: variables that llm-setup itself needs to find its state.
    python: the runtime's interpreter, empty for one that is an image. model_folder: a local folder, empty for a hub
    id. env: variables that were set for this server, without the key; machine_env, container_env: all that a start
    sets, of the runtime here or in an image. key: the key itself, for files marked secret. key_file: where a file with
    the key lies on this machine. wizard: argv of llm-setup here.
    gpus: how many the server uses (0: CPU build). shm_gib: shared memory for the processes of one server.
    startup_s: how long a start may take. nodes, master: of a multi-node start. node: this file's node, 0 first.
    """

    name: str
    command: tuple[str, ...]
    arguments: tuple[str, ...]
    env: dict[str, str]
    machine_env: dict[str, str]
    container_env: dict[str, str]
    model: str
    model_folder: str
    served_name: str
    host: str
    connect_host: str
    port: int
    python: str
    vllm_version: str
    build: str
    image: str
    gpus: int
    shm_gib: int
    startup_s: int
    home: str
    cache_folder: str
    wizard: tuple[str, ...]
    key: str
    key_file: str
    public_name: str
    container_arguments: tuple[str, ...]
    mounted: tuple[MountedFile, ...] = ()
    wizard_env: tuple[tuple[str, str], ...] = ()
    nodes: int = 1
    master: str = ""
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    node: int = 0


@dataclass(frozen=True, slots=True)
class Exported:
    """A rendered file."""

    target: str
    text: str
    secret: bool
    executable: bool


def parse_export(folder: str, text: str) -> ExportSpec:
    """The kind in an `export.toml`. Raises ProblemError that names what is wrong."""
    try:
        table = tomllib.loads(text)
        unknown = set(table) - _KEYS
        for row in table.get("file", []):
            unknown |= set(row) - _FILE_KEYS
        if unknown:
            raise ValueError(t("unknown keys: {keys}", keys=", ".join(sorted(unknown))))
        return ExportSpec(
            name=str(table["name"]),
            title=str(table["title"]),
            docs=str(table["docs"]),
            files=tuple(ExportFile(**{**row, "builds": tuple(row.get("builds", ()))}) for row in table["file"]),
            next=tuple(str(line) for line in table.get("next", ())),
            needs_nodes=bool(table.get("needs_nodes", False)),
            needs_key_file=bool(table.get("needs_key_file", False)),
            elsewhere=bool(table.get("elsewhere", False)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ProblemError(
            Problem(
                "template-broken",
                t("The export kind in `{folder}` is not right.", folder=folder),
                saw=(f"{SPEC_NAME}: {error}",),
                fix=Fix(t("Mend the file, or remove your own copy of it.")),
            )
        ) from error


def split_over_nodes(build: str, nodes: int, gpus_of_each: int) -> tuple[int, int]:
    """Tensor and pipeline parallel size of a server over several machines.

    Tensors are split within a machine and layers across machines, which needs the least of the network between them.
    vLLM's CPU build cannot split layers (0.32: `assert self.intermediate_tensors is not None` at the first request),
    so there tensors are split across machines too.
    """
    if build == "cpu":
        return gpus_of_each * nodes, 1
    return gpus_of_each, nodes


def image_for(build: str, version: str) -> str:
    """vLLM's own container image of a build and version (hub.docker.com/u/vllm, public.ecr.aws/q9t5s3a7 for CPU)."""
    if build == "rocm":
        return f"vllm/vllm-openai-rocm:v{version}"
    if build == "cpu":
        return f"public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v{version}"
    return f"vllm/vllm-openai:v{version}"


def mount_files(arguments: Sequence[str], texts: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[MountedFile, ...]]:
    """Arguments for a container, and the files that it needs. texts: contents of the files that arguments name."""
    mounted: list[MountedFile] = []
    words: list[str] = []
    for word in arguments:
        if word not in texts:
            words.append(word)
            continue
        name = re.sub(r"[^A-Za-z0-9._-]", "-", word.rpartition("/")[2])
        target = f"/etc/llm-setup/{name}"
        mounted.append(MountedFile(word, name, target, texts[word]))
        words.append(target)
    return tuple(words), tuple(dict.fromkeys(mounted))


def check_public_name(name: str) -> str:
    """A host name as it may stand in a proxy's configuration. Raises a usage problem otherwise."""
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?", name):
        raise usage_error("bad-host-name", t("`{name}` is no host name.", name=name[:80]))
    return name


def render_export(spec: ExportSpec, texts: Mapping[str, str], values: ExportValues) -> tuple[Exported, ...]:
    """The kind's files. texts: its templates by file name, which may include one another. Raises ProblemError for a
    wrong template."""
    import jinja2

    templates = _jinja().overlay(loader=jinja2.DictLoader(texts))
    rendered: list[Exported] = []
    for file in spec.files:
        if file.builds and values.build not in file.builds:
            continue
        for node in range(values.nodes if file.each_node else 1):
            seen = asdict(values) | {"node": node}
            try:
                text = templates.get_template(file.template).render(server=seen)
            except (jinja2.TemplateError, KeyError) as error:
                raise ProblemError(
                    Problem(
                        "template-broken",
                        t("The template `{name}` cannot be rendered.", name=f"{spec.name}/{file.template}"),
                        saw=(f"{type(error).__name__}: {error}",),
                        fix=Fix(t("Mend the template, or remove your own copy of it.")),
                    )
                ) from error
            target = file.target.format(name=values.name, node=node)
            rendered.append(Exported(target, text, file.secret, file.executable))
    return tuple(rendered)


class _Quoted(str):
    """Text that a quoting filter made."""

    __slots__ = ()


@functools.cache
def _jinja() -> jinja2.Environment:
    import jinja2

    def only_quoted(value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if not isinstance(value, _Quoted):
            raise jinja2.TemplateError("a value is printed without a quoting filter")
        return value

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        finalize=only_quoted,
        autoescape=False,  # files are no HTML; the filters quote
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[[Any], str]] = {
        "sh": shlex.quote,
        "sh_words": lambda words: " ".join(shlex.quote(word) for word in words),
        "systemd": systemd_word,
        "systemd_words": lambda words: " ".join(systemd_word(word) for word in words),
        "systemd_path": _systemd_path,
        # JSON is YAML too, and the one quoting in which nothing is ever read as a number or a boolean.
        "yaml": lambda value: json.dumps(value, ensure_ascii=False),
        "compose": lambda value: json.dumps(value.replace("$", "$$"), ensure_ascii=False),
        "dns": _dns_label,
        "comment": lambda value: re.sub(r"[\x00-\x1f\x7f]+", " ", str(value)),
        "host": check_public_name,
    }
    for name, quote in filters.items():
        environment.filters[name] = _quoting(quote)
    return environment


def _quoting(quote: Callable[[Any], str]) -> Callable[[Any], _Quoted]:
    import jinja2

    def quoted(value: Any) -> _Quoted:
        if isinstance(value, jinja2.Undefined):
            str(value)  # raises, and names what is missing
        return _Quoted(quote(value))

    return quoted


def systemd_word(word: str) -> str:
    """One word of an ExecStart or Environment line: quoted, with specifiers and variables kept literal.

    systemd.service(5) "Command lines", systemd.unit(5) "Specifiers".
    """
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    return text if re.fullmatch(r"[A-Za-z0-9_./:=+,@-]+", text) else f'"{text}"'


def _systemd_path(path: str) -> str:
    """A path where a setting takes the rest of the line: no quotes, specifiers literal, one line."""
    if "\n" in path:
        raise ValueError("a path with a line break cannot stand in a unit")
    return path.replace("%", "%%")


def _dns_label(name: str) -> str:
    """A name as Kubernetes takes it (RFC 1123 label): lower case, digits and dashes, at most 53 characters, so that
    what is added to it stays below 63."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:53].strip("-")
    return label or "vllm"
