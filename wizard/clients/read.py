"""Reading a client's triple back from its files and the environment, in the client's own order of precedence."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wizard.clients.formats import parse
from wizard.clients.places import Places
from wizard.clients.spec import ClientSpec, Scope, Trap
from wizard.endpoint.model import Endpoint
from wizard.endpoint.urls import without_version
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError
from wizard.secret import Secret


@dataclass(frozen=True, slots=True)
class Found:
    """A value and where it came from: `source` is for people (`~/.codex/config.toml: model`, `$OPENAI_API_KEY`).

    path: the file, None for a variable. scope: the file's scope. missing: the name of a variable that should hold the
    value and does not (the value is empty then). command: what the client runs to get the value (empty then, too).
    """

    value: str
    source: str
    path: Path | None = None
    scope: Scope = "user"
    missing: str = ""
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What the client was told beside the triple; None: nothing, so that it does as it always does.

    small_model: for side jobs. max_tokens: the output that a request asks for. context_tokens: the window it assumes.
    """

    small_model: str | None = None
    max_tokens: int | None = None
    context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Triple:
    """What one client would use now. The first of each list wins; the rest are overridden by it.

    key: the winning key; `key_source` where it came from. problems: files that do not parse, keys that are named but
    not there.
    """

    client: str
    base_urls: tuple[Found, ...]
    models: tuple[Found, ...]
    key_sources: tuple[Found, ...]
    keys: tuple[Secret | None, ...]
    problems: tuple[Problem, ...] = ()
    limits: ClientLimits = ClientLimits()

    @property
    def base_url(self) -> str | None:
        """The URL that wins."""
        return self.base_urls[0].value if self.base_urls else None

    @property
    def model(self) -> str | None:
        """The model that wins."""
        return self.models[0].value if self.models else None

    @property
    def key(self) -> Secret | None:
        """The key that wins; None: none is set, or a named variable is missing."""
        return self.keys[0] if self.keys else None

    @property
    def key_source(self) -> str:
        """Where the winning key is."""
        return self.key_sources[0].source if self.key_sources else ""

    @property
    def file(self) -> str:
        """The file or variable of the winning URL, else of the model, else of the key."""
        first = next((found for found in (*self.base_urls, *self.models, *self.key_sources)), None)
        return first.source.split(": ")[0] if first else ""


def files_to_read(spec: ClientSpec, places: Places) -> tuple[Path, ...]:
    """Every path that `read_triple` may look into; read them first (missing ones as None)."""
    return tuple(path for _, file in spec.read.files for path in places.candidates(file))


def read_triple(spec: ClientSpec, places: Places, contents: Mapping[Path, bytes | None]) -> Triple | None:
    """The triple that the client would use, or None where nothing at all is configured for it."""
    view = _View(spec, places, contents)
    base_urls = tuple(view.all(spec.read.base_url))
    models = tuple(view.all(spec.read.model))
    key_sources = tuple(view.all(spec.read.key))
    if not (base_urls or models or key_sources or view.problems):
        return None
    return Triple(
        spec.name,
        base_urls,
        models,
        tuple(replace(found, value="") for found in key_sources),
        tuple(Secret(f.value) if f.value else None for f in key_sources),
        tuple(view.problems),
        _limits(spec, view),
    )


def read_limits(spec: ClientSpec, places: Places, contents: Mapping[Path, bytes | None]) -> ClientLimits:
    """The limits alone; with no contents, what the environment says."""
    return _limits(spec, _View(spec, places, contents))


def _limits(spec: ClientSpec, view: _View) -> ClientLimits:
    small = next((found.value for found in view.all(spec.read.small_model) if found.value), None)
    return ClientLimits(small, _count(view, spec.read.max_tokens), _count(view, spec.read.context_tokens))


def _count(view: _View, candidates: tuple[str, ...]) -> int | None:
    """The first value that is a positive number: clients write -1 or 0 for their own default."""
    values = (found.value for found in view.all(candidates))
    return next((int(value) for value in values if value.isascii() and value.isdigit() and int(value) > 0), None)


def judge_traps(spec: ClientSpec, places: Places, contents: Mapping[Path, bytes | None]) -> tuple[Problem, ...]:
    """Shapes in the client's present files that do harm, each explained."""
    view = _View(spec, places, contents)
    return tuple(problem for trap in spec.traps if (problem := _judge(trap, view)) is not None)


def judge_overridden(
    spec: ClientSpec, places: Places, contents: Mapping[Path, bytes | None], endpoint: Endpoint
) -> tuple[Problem, ...]:
    """A warning for each value that the client would take from elsewhere than what was written for this endpoint."""
    triple = read_triple(spec, places, contents)
    if triple is None or any(file.shell for file in spec.files):
        return ()  # what a shell has now is what it was started with; a new one reads what was written
    ours = {without_version(endpoint.openai_base_url), without_version(endpoint.anthropic_base_url or "x://")}
    problems: list[Problem] = []
    for what, found, right in (
        (t("base URL"), triple.base_urls, lambda value: without_version(value) in ours),
        (t("model"), triple.models, lambda value: value == endpoint.model),
    ):
        if found and found[0].value and not right(found[0].value):
            problems.append(_overridden(spec, what, found[0].source, found[0].value))
    if triple.key is not None and endpoint.key and triple.key != endpoint.key:
        problems.append(_overridden(spec, t("key"), triple.key_source, triple.key.hint))
    return tuple(problems)


def _overridden(spec: ClientSpec, what: str, source: str, value: str) -> Problem:
    return Problem(
        "settings-override-env",
        t(
            "{title} takes its {what} from `{source}`, not from what is written here.",
            title=spec.title,
            what=what,
            source=source,
        ),
        t("The client has an order of precedence, and that place comes first."),
        (f"{source}: {value}",),
        Fix(t("Remove it there.")),
        "warning",
    )


def _judge(trap: Trap, view: _View) -> Problem | None:
    if any(view.all(trap.unless)):
        return None
    hits = [
        found
        for found in view.all(trap.any_present)
        if not trap.pattern or re.search(trap.pattern, found.value, re.IGNORECASE)
    ]
    if not hits:
        return None
    return Problem(
        trap.code,
        t(trap.what),
        t(trap.why),
        tuple(dict.fromkeys(found.source for found in hits)),
        Fix(t(trap.fix), trap.commands),
        trap.severity,
    )


class _View:
    """The client's parsed files by alias, and the environment."""

    def __init__(self, spec: ClientSpec, places: Places, contents: Mapping[Path, bytes | None]) -> None:
        self._places = places
        self._documents: dict[str, tuple[Any, Path, Scope]] = {}
        self.problems: list[Problem] = []
        for alias, file in spec.read.files:
            path = places.choose(file, lambda p: contents.get(p) is not None)
            raw = contents.get(path)
            if raw is None:
                continue
            try:
                self._documents[alias] = (parse(raw, file.format, path), path, file.scope)
            except ProblemError as error:
                self.problems.append(error.problem)
        self._lets: dict[str, str] = {}
        for name, candidate in spec.read.lets:
            pointer, _, part = candidate.partition("|")
            found = next(iter(self._look(pointer)), None)
            if found is not None:
                before, slash, after = found.value.partition("/")
                self._lets.setdefault(
                    name, {"before": before, "after": after if slash else before}.get(part, found.value)
                )

    def all(self, candidates: tuple[str, ...]) -> Iterator[Found]:
        """Every candidate that exists, in order."""
        for candidate in candidates:
            yield from self._look(candidate)

    def _look(self, candidate: str) -> Iterator[Found]:
        candidate, _, part = candidate.partition("|")
        if candidate.startswith("!"):
            yield from self._command(candidate[1:])
            return
        if candidate.startswith("env:"):
            name = candidate[4:]
            value = self._places.env.get(name, "")
            if value:
                yield Found(value, f"${name}")
            return
        if candidate.startswith("$"):
            for found in self._look(candidate[1:]):
                value = self._places.env.get(found.value, "")
                yield Found(
                    value,
                    f"${found.value} ({found.source})",
                    found.path,
                    found.scope,
                    missing="" if value else found.value,
                )
            return
        for value, trail, path, scope in self._values(candidate):
            if isinstance(value, Mapping | list):
                text = ""
            elif value is None or value == "":
                continue
            elif isinstance(value, bool):
                text = "true" if value else "false"
            else:
                text = str(value).strip()
                if trail and trail[-1].lower() == "authorization":
                    text = re.sub(r"\Abearer\s+", "", text, flags=re.IGNORECASE)  # a whole header, not the key alone
            if part == "after" and "/" in text:
                text = text.partition("/")[2]
            yield from self._expand(text, f"{self._short(path)}: {'.'.join(trail)}", path, scope)

    def _command(self, candidate: str) -> Iterator[Found]:
        """A value that a command prints: a shell line, or a table of `command` and `args`."""
        for value, trail, path, scope in self._values(candidate):
            if isinstance(value, Mapping) and value.get("command"):
                words = (str(value["command"]), *map(str, value.get("args") or ()))
            elif isinstance(value, str) and value:
                words = _words(value)
            else:
                continue
            yield Found("", f"{self._short(path)}: {'.'.join(trail)}", path, scope, command=words)

    def _values(self, candidate: str) -> Iterator[tuple[Any, tuple[str, ...], Path, Scope]]:
        """Every value at a pointer, with the way to it."""
        alias, _, pointer = candidate.partition(".")
        if alias not in self._documents:
            return
        document, path, scope = self._documents[alias]
        segments: list[str] = []
        for segment in pointer.split(".") if pointer else ():
            name = re.search(r"\{(\w+)\}", segment)
            if name and name[1] not in self._lets:
                return
            segments.append(segment.replace(name[0], self._lets[name[1]]) if name else segment)
        for value, trail in _walk(document, segments):
            yield value, trail, path, scope

    def _expand(self, text: str, source: str, path: Path, scope: Scope) -> Iterator[Found]:
        """A value which is nothing but a reference to a variable (`{env:X}`, `${X}`, `os.environ/X`) is looked up; one
        behind `!` is a command."""
        if text.startswith("!") and len(text) > 1:
            yield Found("", source, path, scope, command=_words(text[1:]))
            return
        reference = re.fullmatch(r"\{env:(\w+)\}|\$\{(\w+)\}|os\.environ/(\w+)|\$\{\{\s*secrets\.(\w+)\s*\}\}", text)
        if reference is None:
            yield Found(text, source, path, scope)
            return
        name = next(group for group in reference.groups() if group)
        value = self._places.env.get(name, "")
        yield Found(value, f"${name} ({source})", path, scope, missing="" if value else name)

    def _short(self, path: Path) -> str:
        try:
            return "~/" + path.relative_to(self._places.home).as_posix()
        except ValueError:
            return str(path)


def _words(line: str) -> tuple[str, ...]:
    """A shell line as words; as one word where its quotes do not pair up."""
    try:
        return tuple(shlex.split(line))
    except ValueError:
        return (line,)


def _walk(value: Any, segments: list[str], trail: tuple[str, ...] = ()) -> Iterator[tuple[Any, tuple[str, ...]]]:
    if not segments:
        yield value, trail
        return
    head, rest = segments[0], segments[1:]
    if isinstance(value, Mapping):
        for key in list(value) if head == "*" else [head] if head in value else []:
            yield from _walk(value[key], rest, (*trail, str(key)))
    elif isinstance(value, list):
        for index in _indexes(value, head):
            yield from _walk(value[index], rest, (*trail, str(index)))


def _indexes(items: list[Any], step: str) -> list[int]:
    """Which items of a list a step of a pointer means: `*`, an index, or `[field=value]`."""
    if step == "*":
        return list(range(len(items)))
    if step.startswith("["):
        field, _, wanted = step[1:-1].partition("=")
        return [n for n, item in enumerate(items) if isinstance(item, Mapping) and str(item.get(field)) == wanted]
    return [int(step)] if step.isdigit() and int(step) < len(items) else []
