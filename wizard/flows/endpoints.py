"""Which endpoint a command is about: from its options, else the named or active profile; and what its server says."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wizard.clients.keys import check_key, clean_key
from wizard.effects.world import World
from wizard.endpoint.discover import UrlForms, anthropic_roots, has_messages, judge_candidate, url_forms
from wizard.endpoint.exchange import HttpFailure, HttpReply, HttpRequest
from wizard.endpoint.model import Capability, Endpoint
from wizard.endpoint.presets import Preset, all_presets, find_preset
from wizard.endpoint.replies import judge_models
from wizard.endpoint.requests import auth_headers, models_request
from wizard.endpoint.urls import without_version
from wizard.flows.profiles import active_profile, no_endpoint, resolve_key
from wizard.i18n import t
from wizard.problems import usage_error
from wizard.secret import Secret, redact
from wizard.ui.screen import Screen

KEY_VARIABLE = "LLM_SETUP_API_KEY"
_LONGEST_KEY_BYTES = 65_536
_PROBE_TIMEOUT_S = 10.0
_PROBE_CONNECT_TIMEOUT_S = 4.0
_NAMES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """What the user gave. context_tokens overrides what the server says; offline asks the server nothing."""

    base_url: str = ""
    model: str = ""
    api_key_file: str = ""
    profile: str = ""
    context_tokens: int | None = None
    offline: bool = False


def given_key(world: World, screen: Screen, options: EndpointOptions) -> Secret | None:
    """The key from the file or `LLM_SETUP_API_KEY`, cleaned; what was taken off is said.

    Raises a usage problem where the file is missing or empty, or where no header can hold what is in it.
    """
    if options.api_key_file:
        source = options.api_key_file
        text = _key_file(world, source).decode("utf-8", "surrogateescape")
    else:
        source = f"${KEY_VARIABLE}"
        text = world.env.get(KEY_VARIABLE, "")
    found = clean_key(text)
    if found.key is None and options.api_key_file:
        raise usage_error(
            "key-file-empty",
            t("There is no key in `{path}`.", path=source),
            t("Write the key into it, or leave `--api-key-file` out."),
        )
    if found.key is not None:
        check_key(found.key, source)
    # A file ends with a line end; only what would have broken a header is worth a word.
    if found.removed and (text.strip("\r\n") != (found.key.reveal() if found.key else "")):
        screen.step("info", t("The key was cleaned: {what} removed.", what=", ".join(found.removed)))
    return found.key


def _key_file(world: World, name: str) -> bytes:
    try:
        raw = world.files.read_some(Path(name).expanduser(), _LONGEST_KEY_BYTES)
    except OSError as error:
        raise usage_error(
            "key-file-unreadable",
            t("The key file `{path}` cannot be read: {reason}.", path=name, reason=error.strerror or str(error)),
            t("Check the path and its rights."),
        ) from error
    if raw is None:
        raise usage_error("key-file-missing", t("There is no key file `{path}`.", path=name), t("Check the path."))
    return raw


def resolve_endpoint(world: World, screen: Screen, options: EndpointOptions) -> Endpoint:
    """The endpoint that the options mean. Raises a usage error which names the missing flag."""
    if not options.base_url:
        profile = active_profile(world, options.profile)
        if profile is None:
            raise no_endpoint(world)
        # The key in the variable is for a server that was named with it: another profile's server must not see it.
        given = options.api_key_file or not profile.key_reference
        key = given_key(world, screen, options) if given else resolve_key(world, profile)
        endpoint = profile.endpoint(key)
        if options.model:
            endpoint = replace(endpoint, model=options.model)
        if options.context_tokens:
            endpoint = replace(endpoint, max_model_len=options.context_tokens)
        return endpoint
    return observe_endpoint(world, screen, options, given_key(world, screen, options))


# What servers call the context of a model in their list: vLLM and SGLang, OpenRouter, Groq.
_CONTEXT_WORDS = ("max_model_len", "context_length", "context_window")


@dataclass(frozen=True, slots=True)
class Observed:
    """What a URL turned out to be.

    anthropic_base_url: None where `/v1/messages` was looked for and is not there. models: entries as the endpoint lists
    them, None where it gave no list. failure: why no answer came, None where one came or nobody was asked.
    key_refused: there is no list since the key was not let in. unproved: why there is no list that would prove the
    form, in the server's own words; empty where there is one, and where nobody was asked.
    """

    openai_base_url: str
    anthropic_base_url: str | None
    forms: UrlForms
    models: tuple[dict[str, Any], ...] | None = None
    failure: HttpFailure | None = None
    key_refused: bool = False
    unproved: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The served models, each once: gateways list a model again for each place where they have it."""
        return tuple(dict.fromkeys(str(entry["id"]) for entry in self.models or () if entry.get("id")))

    def endpoint(self, model: str, key: Secret | None) -> Endpoint:
        """The endpoint with one of its models."""
        preset = self.forms.preset
        known = next((entry for entry in self.models or () if entry.get("id") == model), None)
        length = next((known[word] for word in _CONTEXT_WORDS if known.get(word)), None) if known else None
        vllm = any(entry.get("owned_by") == "vllm" for entry in self.models or ())
        return Endpoint(
            name=preset.id if preset else "local",
            openai_base_url=self.openai_base_url,
            anthropic_base_url=self.anthropic_base_url,
            model=model,
            key=key,
            max_model_len=length if isinstance(length, int) and length > 0 else None,
            kind="vllm" if vllm else "gateway" if preset and preset.hosts else "unknown",
        )


def observe_url(world: World, url: str, key: Secret | None, *, offline: bool = False) -> Observed:
    """Find a URL's form by asking its candidates for their models, then for `/v1/messages`; nothing is generated.

    Offline, or where nothing answers, the likeliest form is taken. Raises a usage problem for what is no URL.
    """
    forms = url_forms(url)
    unasked = Observed(forms.openai[0], forms.anthropic[0], forms)
    if offline:
        return unasked
    asked: dict[str, HttpReply | HttpFailure] = {}
    for candidate in forms.openai:
        asked[candidate] = reply = _ask_models(world, candidate, key)
        # Who is not there at one path is not there at another.
        if judge_candidate(reply) == "models" or isinstance(reply, HttpFailure):
            break
    last = next(reversed(asked.values()))
    if isinstance(last, HttpFailure) and len(asked) == 1:
        return replace(unasked, failure=last, unproved=judge_models(last).detail)
    said = {candidate: judge_candidate(reply) for candidate, reply in asked.items()}
    base = next(
        (c for wanted in ("models", "key-refused") for c, word in said.items() if word == wanted), forms.openai[0]
    )
    reply = asked[base]
    models = None
    if said[base] == "models" and isinstance(reply, HttpReply):
        models = tuple(entry for entry in reply.json()["data"] if isinstance(entry, dict))
    root = _anthropic_root(world, anthropic_roots(forms, base), key)
    unproved = "" if models is not None else judge_models(reply).detail
    return Observed(base, root, forms, models, key_refused=said[base] == "key-refused", unproved=unproved)


def _anthropic_root(world: World, roots: tuple[str, ...], key: Secret | None) -> str | None:
    """The first root that has `/v1/messages`; the likeliest where nobody knows; None where all say no.

    A root further on that only refuses the key says less than one before it that did not answer in time: LiteLLM has a
    pass-through at `/anthropic` which wants a key of another's, and takes its time over a first request.
    """
    unknown = False
    for root in roots:
        reply = _post_nothing(world, f"{root}/v1/messages", key)
        there = has_messages(reply)
        refused = isinstance(reply, HttpReply) and reply.status in (401, 403)
        if there and not (unknown and refused):
            return root
        unknown = unknown or there is None
    return roots[0] if unknown else None


def observe_endpoint(world: World, screen: Screen, options: EndpointOptions, key: Secret | None) -> Endpoint:
    """A given URL in both its forms, with the model and the context that the server names where it can be asked.

    Raises a usage problem for what is no URL, and where no model is named and the endpoint serves none or several.
    """
    return observe_and_doubt(world, screen, options, key)[0]


def observe_and_doubt(
    world: World, screen: Screen, options: EndpointOptions, key: Secret | None
) -> tuple[Endpoint, str]:
    """The same, and what speaks against a client's getting an answer there, which was shown; empty: nothing did."""
    seen = observe_url(world, options.base_url, key, offline=options.offline)
    if seen.forms.pasted:
        say_pasted(screen, seen.forms.pasted)
    endpoint = seen.endpoint(options.model or seen.forms.model or only_model(seen.names, seen.unproved), key)
    doubt = ""
    if seen.unproved and not (seen.failure is None and _lists_none(seen.forms.preset)):
        doubt = _unlisted(endpoint, seen.unproved, failed=seen.failure is not None, key_refused=seen.key_refused)
    elif seen.models is not None:
        doubt = _missing(endpoint, seen.names)
    if doubt:
        screen.step("warning", doubt)
    return replace(endpoint, max_model_len=options.context_tokens or endpoint.max_model_len), doubt


def find_doubt(world: World, endpoint: Endpoint, *, direct: bool = False) -> str:
    """What speaks against a client's getting an answer from a known endpoint, by one question for its models; empty:
    nothing does. direct: past any proxy of the environment."""
    reply = _ask_known(world, endpoint, direct)
    judged = judge_models(reply)
    if judged.ok:
        return _missing(endpoint, tuple(judged.value))
    if _says_nothing(endpoint, reply):
        return ""
    refused = isinstance(reply, HttpReply) and reply.status in (401, 403)
    return _unlisted(endpoint, judged.detail, failed=isinstance(reply, HttpFailure), key_refused=refused)


def answers(world: World, endpoint: Endpoint, *, direct: bool = False) -> bool:
    """Whether the endpoint lists its models, or at least answers the key and path as a server does. direct: past any
    proxy of the environment."""
    reply = _ask_known(world, endpoint, direct)
    return judge_models(reply).ok or _says_nothing(endpoint, reply)


def _ask_known(world: World, endpoint: Endpoint, direct: bool) -> HttpReply | HttpFailure:
    return world.http.send(replace(models_request(endpoint, timeout_s=_PROBE_CONNECT_TIMEOUT_S), trust_env=not direct))


def _says_nothing(endpoint: Endpoint, reply: HttpReply | HttpFailure) -> bool:
    """Whether a reply that is no list of models says nothing, since some gateways and services have none."""
    if isinstance(reply, HttpFailure):
        return False
    return reply.status in (404, 405) or _lists_none(find_preset(endpoint.openai_base_url))


def _lists_none(preset: Preset | None) -> bool:
    """Whether a known service is documented to list no models."""
    return preset is not None and "models" not in preset.speaks


def _unlisted(endpoint: Endpoint, why: str, *, failed: bool, key_refused: bool) -> str:
    url, why = endpoint.openai_base_url, redact(why)
    if failed:
        return t("{url} does not answer ({why}): start the server, or mend the URL.", url=url, why=why)
    if key_refused and not endpoint.key:
        return t("{url} wants a key, and none was given ({why}).", url=url, why=why)
    if key_refused:
        return t("{url} refuses the key ({why}): give the right one.", url=url, why=why)
    return t("{url} did not list its models: taken as it is, not proved ({why}).", url=url, why=why)


def _missing(endpoint: Endpoint, names: tuple[str, ...]) -> str:
    if endpoint.model in names:
        return ""
    listed = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
    return t(
        "{url} does not list `{model}`; it lists: {names}",
        url=endpoint.openai_base_url,
        model=endpoint.model,
        names=listed or t("nothing"),
    )


def say_pasted(screen: Screen, suffix: str) -> None:
    """That more than a base URL was given."""
    if "?" in suffix:
        screen.step("info", t("`{suffix}` was taken off the base URL; no client sends a query of it.", suffix=suffix))
    else:
        screen.step("info", t("`{suffix}` was taken off the base URL; clients add it themselves.", suffix=suffix))


def find_lacking(world: World, endpoint: Endpoint, needs: Collection[Capability]) -> frozenset[Capability]:
    """Which of the protocols that are needed beside chat the endpoint does not have.

    An empty body is posted: a server that has the path refuses the body (400, 422) or the key, one that has not says
    404 or 405. Nothing is generated. What cannot be reached is not lacking, it is unknown.
    """
    root = endpoint.anthropic_base_url or without_version(endpoint.openai_base_url)
    urls: dict[Capability, str] = {
        "responses": f"{endpoint.openai_base_url}/responses",
        "messages": f"{root}/v1/messages",
    }
    found: set[Capability] = set()
    for need, url in urls.items():
        if need not in needs or endpoint.speaks:
            continue
        reply = _post_nothing(world, url, endpoint.key)
        if not isinstance(reply, HttpReply):
            break
        if reply.status in (404, 405, 501):
            found.add(need)
    return frozenset(found)


def _post_nothing(world: World, url: str, key: Secret | None) -> HttpReply | HttpFailure:
    """Post an empty body: who has the path refuses it, and nothing is generated."""
    return world.http.send(
        HttpRequest(
            "POST",
            url,
            auth_headers(key),
            json_body={},
            timeout_s=_PROBE_TIMEOUT_S,
            connect_timeout_s=_PROBE_CONNECT_TIMEOUT_S,
        )
    )


def _ask_models(world: World, base_url: str, key: Secret | None) -> HttpReply | HttpFailure:
    """The answer to GET {base}/models."""
    return world.http.send(
        HttpRequest(
            "GET",
            f"{base_url}/models",
            auth_headers(key),
            timeout_s=_PROBE_TIMEOUT_S,
            connect_timeout_s=_PROBE_CONNECT_TIMEOUT_S,
        )
    )


def only_model(names: tuple[str, ...], unproved: str = "") -> str:
    """The one model that is served. Raises a usage problem for none and for several; unproved: why none is known."""
    if len(names) == 1:
        return names[0]
    served = t("The server lists: {names}.", names=", ".join(names[:12])) if names else t("Example: --model qwen3-8b")
    if not names and unproved:
        served = t("The server did not list any ({why}). Example: --model qwen3-8b", why=redact(unproved))
    raise usage_error("model-missing", t("`--model` is missing: each request names its model."), served)


def ask_key(screen: Screen, *, may_ask: bool) -> Secret | None:
    """A key from a hidden question; None where none is entered or nobody can be asked."""
    if not may_ask:
        return None
    from wizard.ui.questions import Questions

    found = clean_key(
        Questions(screen, yes=False, may_ask=True).secret("--api-key-file", t("API key (hidden; empty for none):"))
    )
    if found.removed:
        screen.step("info", t("The key was cleaned: {what} removed.", what=", ".join(found.removed)))
    if found.key is not None:
        check_key(found.key, t("your answer"))
    return found.key


def preset_url(preset_id: str) -> str:
    """The base URL of a preset by its id."""
    presets = {preset.id: preset for preset in all_presets()}
    if preset_id not in presets:
        raise usage_error(
            "unknown-preset",
            t("There is no preset `{name}`.", name=preset_id),
            t("Presets: {names}.", names=", ".join(presets)),
            "llm-setup profiles presets",
        )
    return presets[preset_id].openai_base_url
