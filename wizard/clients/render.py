"""(Endpoint, ClientSpec, templates) -> the text of each file -> the edits that bring it about."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard.clients.edit import Edit, register_secrets
from wizard.clients.formats import merge, parse, put_into_block
from wizard.clients.places import Places
from wizard.clients.quoting import FILTERS, Quoted
from wizard.clients.shells import PLACEHOLDER_KEY
from wizard.clients.spec import ClientSpec, FileSpec, Scope
from wizard.endpoint.model import Endpoint
from wizard.endpoint.urls import without_version
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError
from wizard.secret import Secret

if TYPE_CHECKING:
    import jinja2

PROVIDER = "llm-setup"
_ASSUMED_OUTPUT_TOKENS = 32_000
_LEAST_OUTPUT_TOKENS = 1_024


@dataclass(frozen=True, slots=True)
class Values:
    """What a template sees as `endpoint`. Tokens are None where the server did not say its context.

    key: empty where the endpoint has none; key_or_placeholder: never empty, for clients that insist on one.
    key_command: program and arguments that print the key, empty where the key itself is to be written.
    config_folder: llm-setup's own folder, where side files are. working_folder: where the command was called.
    """

    name: str
    provider: str
    openai_base_url: str
    anthropic_base_url: str
    model: str
    key: str
    key_or_placeholder: str
    key_command: tuple[str, ...]
    context_tokens: int | None
    output_tokens: int
    config_folder: str
    working_folder: str


def output_tokens(context_tokens: int | None, client_limit_tokens: int = _ASSUMED_OUTPUT_TOKENS) -> int:
    """How many tokens a client may ask for in one reply: a quarter of the context, at most the client's own limit.

    vLLM refuses a request whose max_tokens alone exceed its context, and clients subtract this from the room that they
    fill with files, so neither the usual 32,000 nor the whole context fits a small server.
    """
    if context_tokens is None:
        return client_limit_tokens
    return max(min(client_limit_tokens, context_tokens // 4), min(_LEAST_OUTPUT_TOKENS, context_tokens))


def template_values(endpoint: Endpoint, spec: ClientSpec, places: Places, key_command: tuple[str, ...] = ()) -> Values:
    """The endpoint in the forms that templates use."""
    key = endpoint.key.reveal() if endpoint.key else ""
    return Values(
        name=endpoint.name,
        provider=PROVIDER,
        openai_base_url=endpoint.openai_base_url,
        anthropic_base_url=endpoint.anthropic_base_url or without_version(endpoint.openai_base_url),
        model=endpoint.model,
        key=key,
        key_or_placeholder=key or PLACEHOLDER_KEY,
        key_command=key_command if key else (),
        context_tokens=endpoint.max_model_len,
        output_tokens=output_tokens(endpoint.max_model_len, spec.output_limit_tokens),
        config_folder=str(places.own),
        working_folder=str(places.cwd),
    )


@functools.cache
def _jinja() -> jinja2.Environment:
    import jinja2

    def only_quoted(value: Any) -> Any:
        if not isinstance(value, Quoted):
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
    for name, quote in FILTERS.items():
        environment.filters[name] = _quoted(quote)
    return environment


def _quoted(quote: Callable[..., str]) -> Callable[..., Quoted]:
    import jinja2

    def quoted(value: Any) -> Quoted:
        if isinstance(value, jinja2.Undefined):
            str(value)  # raises, and names what is missing
        return Quoted(quote(value))

    return quoted


@functools.lru_cache(maxsize=256)
def _template(text: str) -> jinja2.Template:
    return _jinja().from_string(text)


def render_text(text: str, values: Values, where: str) -> str:
    """A template's text with the values in it. Raises ProblemError for a wrong template."""
    import jinja2

    try:
        return _template(text).render(endpoint=values)
    except jinja2.TemplateError as error:
        raise ProblemError(
            Problem(
                "client-template-broken",
                t("The client template `{where}` is wrong: {what}", where=where, what=str(error)),
                fix=Fix(t("Print every value through a filter: {filters}.", filters=", ".join(FILTERS))),
            )
        ) from error


@dataclass(frozen=True, slots=True)
class Rendered:
    """A file's text before it meets what is there: for `own` the whole content, else the part that is merged in."""

    file: FileSpec
    path: Path
    text: str


def render_client(
    spec: ClientSpec,
    templates: Mapping[str, str],
    endpoint: Endpoint,
    scope: Scope,
    places: Places,
    exists: Callable[[Path], bool],
    key_command: tuple[str, ...] = (),
) -> tuple[Rendered, ...]:
    """Every file of the client in that scope on this machine. `templates`: texts of the client's folder by name.

    key_command: what prints the key, for clients that can ask a command instead of holding the key.
    """
    values = template_values(endpoint, spec, places, key_command)
    rendered: list[Rendered] = []
    for file in spec.files:
        if not places.applies(file, scope, exists):
            continue
        if file.template not in templates:
            raise ProblemError(
                Problem(
                    "client-template-broken",
                    t("The client template `{where}` is missing.", where=f"{spec.name}/{file.template}"),
                )
            )
        text = render_text(templates[file.template], values, f"{spec.name}/{file.template}")
        if not text.strip():
            continue  # a template whose conditions leave nothing has nothing to say on this endpoint
        rendered.append(Rendered(file, places.choose(file, exists), text))
    return tuple(rendered)


def plan_edits(
    spec: ClientSpec,
    rendered: tuple[Rendered, ...],
    contents: Mapping[Path, bytes | None],
    has_key: bool,
    cwd: Path,
    keys: tuple[Secret, ...] = (),
) -> tuple[Edit, ...]:
    """The edits, each parsed back. Two files of one client at the same path add up. Raises ProblemError.

    keys: the new key and those that the client has now, which no diff may show.
    """
    edits: dict[Path, Edit] = {}
    for item in rendered:
        file, path = item.file, item.path
        before = edits[path].after if path in edits else contents.get(path)
        after = _after(file, path, before, item.text, _old_commands(spec, file, path, before))
        if before and file.format != "text":
            register_secrets(parse(before, file.format, path) if file.write != "own" else None)
        first = edits[path].before if path in edits else before
        private = (file.secret and has_key) or (path in edits and edits[path].private)
        project = cwd if file.scope == "project" else None
        twin = next((other.path for other in rendered if other.file.template == file.same_as), None)
        edits[path] = Edit(spec.name, path, first, after, private, file.live, _kind(file), project, keys, twin)
    return tuple(edits.values())


def _kind(file: FileSpec) -> str:
    return "block" if file.write == "block" else "text" if file.write == "own" else file.format


def _old_commands(spec: ClientSpec, file: FileSpec, path: Path, before: bytes | None) -> tuple[str, ...]:
    """Pointers in the file at which a command of ours prints a key. Beside a key that is written now it would go on
    giving the key of the profile that it names, to another server."""
    if file.write != "merge" or not before or not before.strip():
        return ()
    pointers = dict.fromkeys(key.partition(".")[2] for key in spec.read.key if key.startswith("!"))
    if not pointers:
        return ()
    document = parse(before, file.format, path)
    return tuple(pointer for pointer in pointers if _is_our_command(_value_at(document, pointer)))


def _value_at(document: Any, pointer: str) -> Any:
    for step in pointer.split("."):
        document = document.get(step) if isinstance(document, Mapping) else None
    return document


def _is_our_command(value: Any) -> bool:
    """Whether a shell line is `llm-setup profiles key NAME`, in the forms in which it is written."""
    try:
        words = shlex.split(value) if isinstance(value, str) else []
    except ValueError:
        return False
    ours = words[1:-3] == ["-m", "wizard"] or (len(words) == 4 and Path(words[0]).stem == PROVIDER)
    return ours and words[-3:-1] == ["profiles", "key"]


def _after(file: FileSpec, path: Path, before: bytes | None, text: str, old_commands: tuple[str, ...]) -> bytes:
    if file.write == "block":
        comment = "::" if path.suffix.lower() in (".cmd", ".bat") else "#"
        return put_into_block(before, text, path, comment)
    if file.write == "own":
        after = merge(None, text, file.format, path)
        parse(after, file.format, path)
        return after
    after = merge(
        before,
        text,
        file.format,
        path,
        own=(*file.own, *old_commands),
        list_keys=file.list_keys,
        defaults=file.defaults,
        list_first=file.list_first,
    )
    parse(after, file.format, path)
    return after
