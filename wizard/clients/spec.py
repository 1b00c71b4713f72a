"""What a client is, as data: its folder's `client.toml`, turned into typed values once."""

from __future__ import annotations

import difflib
import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from wizard.endpoint.model import CAPABILITIES, Capability
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, Severity

# How much more than JSON a client reads: nothing (json), comments (json-comments), trailing commas too (jsonc).
Format = Literal["toml", "json", "json-comments", "jsonc", "yaml", "dotenv", "text"]
Write = Literal["own", "merge", "block"]
Scope = Literal["user", "project"]
Protocol = Literal["chat", "responses", "messages"]
PlatformName = Literal["linux", "darwin", "windows"]
Evidence = Literal["seen", "read"]

SPEC_NAME = "client.toml"


@dataclass(frozen=True, slots=True)
class FileSpec:
    """One file of a client.

    target: a path with `~`, `./` (project), `{xdg_config}` or `{config}` (llm-setup's own folder).
    moved_by: (variable, pattern) pairs; the first variable that is set moves the file to the pattern, in which `{}` is
    its value. alternatives: taken instead of `target` when one of them exists and `target` does not.
    on: platforms where the file exists at all, empty: everywhere.
    own: dotted pointers which belong to llm-setup as a whole; what lies below and is not rendered is removed.
    list_keys: (pointer of a list, field that identifies an item): items are replaced or added by that field.
    list_first: a new item goes to the front of its list, because the client takes the first. defaults: pointers
    that are only set where nothing is.
    live: the client itself writes this file while it runs, so that restore takes out our keys where it changed since.
    shell: written where this shell is the user's or its file exists. `secret`: holds the key, so mode 0600.
    programs: written where one of these is installed or its file exists; with `shell`, only where one is installed.
    same_as: the template of another file that sets the same values in another syntax; people are shown the diff of that
    one.
    """

    template: str
    target: str
    format: Format
    write: Write
    scope: Scope = "user"
    moved_by: tuple[tuple[str, str], ...] = ()
    alternatives: tuple[str, ...] = ()
    on: tuple[PlatformName, ...] = ()
    own: tuple[str, ...] = ()
    list_keys: tuple[tuple[str, str], ...] = ()
    list_first: bool = False
    defaults: tuple[str, ...] = ()
    live: bool = False
    shell: str = ""
    secret: bool = False
    if_exists: bool = False
    programs: tuple[str, ...] = ()
    same_as: str = ""


@dataclass(frozen=True, slots=True)
class Trap:
    """A shape in an existing file that does harm, known by a pointer into it.

    any_present: pointers (`alias.key.*.key`) of which one exists. pattern: what the value has to match in addition.
    unless: pointers of which none may exist.
    """

    code: str
    any_present: tuple[str, ...]
    what: str
    why: str
    fix: str
    commands: tuple[str, ...] = ()
    pattern: str = ""
    unless: tuple[str, ...] = ()
    severity: Severity = "warning"


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """Where the client takes its triple from: candidates in its own order of precedence, the first that exists wins.

    A candidate is `alias.pointer` into one of `files`, `env:VARIABLE`, `$alias.pointer` (the value there names a
    variable), or `!alias.pointer` (a command prints it). A step `[field=value]` of a pointer chooses items of a list.
    `lets`: names usable in pointers as `{name}`; `|before` and `|after` split a value at its first slash.
    small_model: the model for side jobs. max_tokens, context_tokens: the output that a request asks for, and the window
    that the client believes in.
    """

    files: tuple[tuple[str, FileSpec], ...] = ()
    lets: tuple[tuple[str, str], ...] = ()
    base_url: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    small_model: tuple[str, ...] = ()
    max_tokens: tuple[str, ...] = ()
    context_tokens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSpec:
    """How the client is started on an endpoint with nothing of its own changed.

    env: (variable, template), in which `{home}` stands for a scratch folder and `{random}` for a word that nobody can
    guess. args: templates, never with the key
    (arguments are public). files: (path in the scratch folder, template file). headless: arguments for one turn without
    a terminal, in which `{prompt}` stands for the task. unset: variables that must not reach the client.
    """

    program: str = ""
    env: tuple[tuple[str, str], ...] = ()
    args: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    headless: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """A client. `needs`: what the endpoint has to speak.

    first_request_tokens: measured size of its own first request; minimum_context_tokens: the smallest context in which
    it can work at all. library: the Python package, where the client is one. versions: a range such as `>=0.150`,
    empty: any. evidence: whether it was seen running or read. rewritten_by: programs which, while they run, write the
    client's files from their memory. markers: paths whose presence says that the client was used here. headers: what it
    sends beside the key. streams: whether it asks for streamed answers, in its own protocol.
    """

    name: str
    title: str
    docs: str
    needs: tuple[Capability, ...]
    protocol: Protocol
    minimum_context_tokens: int
    first_request_tokens: int
    files: tuple[FileSpec, ...]
    programs: tuple[str, ...] = ()
    library: str = ""
    rewritten_by: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    versions: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    read: ReadSpec = ReadSpec()
    run: RunSpec = RunSpec()
    traps: tuple[Trap, ...] = ()
    notes: tuple[str, ...] = ()
    install: str = ""
    checked: str = ""
    evidence: Evidence = "read"
    output_limit_tokens: int = 32_000
    streams: bool = False

    def has_scope(self, scope: Scope) -> bool:
        """Whether the client has a file of that scope."""
        return any(file.scope == scope for file in self.files)


def _broken(where: str, what: str, fix: str = "") -> ProblemError:
    return ProblemError(
        Problem(
            "client-template-broken",
            t("The client template `{where}` is wrong: {what}", where=where, what=what),
            fix=Fix(fix or t("Correct the file; docs/reference/client-toml.md lists every key.")),
        )
    )


class _Table:
    """A TOML table whose keys are taken one by one; a key left over at the end is named, with its nearest match."""

    def __init__(self, where: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise _broken(where, t("a table was expected"))
        self.where = where
        self._left = dict(value)
        self._known: list[str] = []

    def take(self, key: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """The value of a key, checked; `...` as default makes it required."""
        self._known.append(key)
        if key not in self._left:
            if default is ...:
                raise _broken(self.where, t("`{key}` is missing", key=key))
            return default
        value = self._left.pop(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise _broken(self.where, t("`{key}` has the wrong type", key=key))
        return value

    def word(self, key: str, choices: Iterable[str], default: Any = ...) -> Any:
        """A string out of a fixed set."""
        value = self.take(key, str, default)
        if value is not default and value not in choices:
            raise _broken(
                self.where,
                t("`{key}` is `{value}`, not one of: {choices}", key=key, value=value, choices=", ".join(choices)),
            )
        return value

    def words(self, key: str, choices: Iterable[str] | None = None) -> tuple[str, ...]:
        """A list of strings; one string stands for a list of one."""
        value = self.take(key, (list, str), [])
        values = (value,) if isinstance(value, str) else tuple(value)
        for item in values:
            if not isinstance(item, str):
                raise _broken(self.where, t("`{key}` has the wrong type", key=key))
            if choices is not None and item not in choices:
                raise _broken(
                    self.where,
                    t("`{key}` is `{value}`, not one of: {choices}", key=key, value=item, choices=", ".join(choices)),
                )
        return values

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """A table of strings, in its order."""
        value = self.take(key, dict, {})
        if not all(isinstance(item, str) for item in value.values()):
            raise _broken(self.where, t("`{key}` has the wrong type", key=key))
        return tuple(value.items())

    def done(self) -> None:
        """Name what nobody asked for."""
        for key in self._left:
            near = difflib.get_close_matches(key, self._known, n=1)
            raise _broken(
                self.where,
                t("`{key}` is no key of it", key=key),
                t("Did you mean `{near}`?", near=near[0])
                if near
                else t("Known keys: {keys}", keys=", ".join(self._known)),
            )


def _file(where: str, value: Any, *, template: bool = True) -> FileSpec:
    table = _Table(where, value)
    spec = FileSpec(
        template=table.take("template", str) if template else "",
        target=table.take("target", str),
        format=table.word("format", get_args(Format)),
        write=table.word("write", get_args(Write)) if template else "merge",
        scope=table.word("scope", get_args(Scope), "user"),
        moved_by=table.pairs("moved_by"),
        alternatives=table.words("alternatives"),
        on=cast("tuple[PlatformName, ...]", table.words("on", get_args(PlatformName))),
        own=table.words("own"),
        list_keys=table.pairs("list_keys"),
        list_first=table.take("list_first", bool, False),
        defaults=table.words("defaults"),
        live=table.take("live", bool, False),
        shell=table.take("shell", str, ""),
        secret=table.take("secret", bool, False),
        if_exists=table.take("if_exists", bool, False),
        programs=table.words("programs"),
        same_as=table.take("same_as", str, ""),
    )
    table.done()
    return spec


def _trap(where: str, value: Any) -> Trap:
    table = _Table(where, value)
    trap = Trap(
        code=table.take("code", str),
        any_present=table.words("any_present"),
        what=table.take("what", str),
        why=table.take("why", str),
        fix=table.take("fix", str),
        commands=table.words("commands"),
        pattern=table.take("pattern", str, ""),
        unless=table.words("unless"),
        severity=table.word("severity", get_args(Severity), "warning"),
    )
    table.done()
    return trap


def _read(where: str, value: Any) -> ReadSpec:
    table = _Table(where, value)
    files = table.take("files", dict, {})
    read = ReadSpec(
        files=tuple((alias, _file(f"{where}.files.{alias}", file, template=False)) for alias, file in files.items()),
        lets=table.pairs("lets"),
        base_url=table.words("base_url"),
        model=table.words("model"),
        key=table.words("key"),
        small_model=table.words("small_model"),
        max_tokens=table.words("max_tokens"),
        context_tokens=table.words("context_tokens"),
    )
    table.done()
    return read


def _run(where: str, value: Any) -> RunSpec:
    table = _Table(where, value)
    run = RunSpec(
        program=table.take("program", str),
        env=table.pairs("env"),
        args=table.words("args"),
        files=table.pairs("files"),
        headless=table.words("headless"),
        unset=table.words("unset"),
    )
    table.done()
    return run


@functools.lru_cache(maxsize=128)
def parse_spec(folder: str, text: str) -> ClientSpec:
    """The client of a folder from its `client.toml`. A misspelt or missing key is named; raises ProblemError."""
    where = f"{folder}/{SPEC_NAME}"
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _broken(where, str(error)) from error
    table = _Table(where, document)
    spec = ClientSpec(
        name=table.take("name", str),
        title=table.take("title", str),
        docs=table.take("docs", str),
        needs=cast("tuple[Capability, ...]", table.words("needs", CAPABILITIES)),
        protocol=table.word("protocol", get_args(Protocol)),
        minimum_context_tokens=table.take("minimum_context_tokens", int),
        first_request_tokens=table.take("first_request_tokens", int),
        files=tuple(_file(f"{where} [[file]] {n}", item) for n, item in enumerate(table.take("file", list, []), 1)),
        programs=table.words("programs"),
        library=table.take("library", str, ""),
        rewritten_by=table.words("rewritten_by"),
        markers=table.words("markers"),
        versions=table.take("versions", str, ""),
        headers=table.pairs("headers"),
        read=_read(f"{where} [read]", table.take("read", dict, {})),
        run=_run(f"{where} [run]", table.take("run", dict, {"program": ""})),
        traps=tuple(_trap(f"{where} [[trap]] {n}", item) for n, item in enumerate(table.take("trap", list, []), 1)),
        notes=table.words("notes"),
        install=table.take("install", str, ""),
        checked=table.take("checked", str, ""),
        evidence=table.word("evidence", get_args(Evidence), "read"),
        output_limit_tokens=table.take("output_limit_tokens", int, 32_000),
        streams=table.take("streams", bool, "stream" in document.get("needs", ())),
    )
    table.done()
    if spec.name != folder:
        raise _broken(where, t("`name` is `{name}` but the folder is `{folder}`", name=spec.name, folder=folder))
    return spec
