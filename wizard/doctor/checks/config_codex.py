"""Codex's own files: what it reads, what it only seems to read, and which key its provider sends.

Facts as seen with Codex 0.171.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from wizard.doctor.causes import found
from wizard.doctor.checks.way import is_local
from wizard.doctor.client_files import (
    Parsed,
    dotenv_value,
    endpoint_in,
    host_of,
    line_with,
    path_of,
    read_parsed,
    shell_lines,
    shown,
    weigh,
)
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.observations import Observations
from wizard.i18n import t
from wizard.problems import Problem, Severity

_BUILT_IN = ("openai", "ollama", "lmstudio")
_AUTH_MODES = ("apikey", "chatgpt", "chatgptAuthTokens")
_BEARERS = ("env_key", "experimental_bearer_token", "auth")
_FOREIGN_KEYS = ("base_url", "baseURL", "baseUrl", "api_base", "model", "api_key", "apiKey", "openai", "provider")


def _config(seen: Observations) -> Parsed:
    return read_parsed(seen, "codex", "config.toml", "toml")


def _auth(seen: Observations) -> Parsed:
    return read_parsed(seen, "codex", "auth.json", "json")


def _active(config: Parsed) -> tuple[str, Mapping[str, Any]]:
    name = config.text("model_provider")
    return name, config.table("model_providers", name) if name else {}


def _header_names(provider: Mapping[str, Any]) -> list[str]:
    names = []
    for table in ("http_headers", "env_http_headers"):
        headers = provider.get(table)
        if isinstance(headers, Mapping):
            names += [str(name).lower() for name in headers]
    return names


def _binds_a_key(provider: Mapping[str, Any]) -> bool:
    if any(provider.get(name) for name in _BEARERS) or provider.get("requires_openai_auth") is True:
        return True
    return any(re.search(r"authorization|api-?key|token", name) for name in _header_names(provider))


def codex_config(seen: Observations) -> Verdict:
    """Whether config.toml is one that Codex starts with, and that points where it seems to."""
    config = _config(seen)
    if not config.there:
        return Unseen(t("there is no Codex config.toml"))
    if config.problem:
        return weigh(seen, "codex", config.problem)
    return weigh(seen, "codex", *_form(config), *_project(seen, config), *_url(seen, config))


def _form(config: Parsed) -> Iterator[Problem]:
    text = config.file.text or "" if config.file else ""
    providers = config.table("model_providers")
    for name, provider in providers.items():
        if isinstance(provider, Mapping) and provider.get("wire_api") == "chat":
            yield found(
                "wire-api-chat-removed",
                t('The provider `{name}` in Codex\'s config.toml has `wire_api = "chat"`.', name=name),
                t("{path}: line {line}", path=config.path, line=line_with(text, "wire_api")),
            )
        if name in _BUILT_IN:
            yield found(
                "codex-provider-reserved",
                t("Codex's config.toml describes a provider `{name}`, which is built in.", name=name),
                f"{config.path}: [model_providers.{name}]",
            )
    if config.table("profiles") or config.text("profile"):
        yield found(
            "codex-profile-old-format",
            t("Codex's config.toml has profiles in the old format."),
            t("{path}: line {line}", path=config.path, line=line_with(text, "profile")),
        )
    name, provider = _active(config)
    own = [other for other in providers if other not in _BUILT_IN]
    if name and not provider and name not in _BUILT_IN:
        yield found(
            "codex-provider-undefined",
            t("Codex's config.toml chooses the provider `{name}` and does not describe it.", name=shown(name)),
            t("{path} describes: {names}", path=config.path, names=", ".join(own) or "-"),
        )
    elif not name and own and not config.text("openai_base_url"):
        yield found(
            "codex-provider-undefined",
            t(
                "Codex's config.toml describes `{name}` and does not choose it, so that Codex goes to OpenAI.",
                name=own[0],
            ),
            t("{path} has no `model_provider`", path=config.path),
            severity="warning",
            fix=t('Add `model_provider = "{name}"` at the top of the file.', name=own[0]),
        )


def _project(seen: Observations, config: Parsed) -> Iterator[Problem]:
    project = read_parsed(seen, "codex", "config.toml", "toml", "project")
    if project.text("model_provider") or project.table("model_providers"):
        own = bool(config.text("model_provider"))
        yield found(
            "codex-project-config-ignored",
            t("The project's Codex config names a provider, which Codex ignores there."),
            project.path,
            severity="warning" if own else "error",
        )


def _url(seen: Observations, config: Parsed) -> Iterator[Problem]:
    """What the form of the URL tells where nothing was asked."""
    name, provider = _active(config)
    url = str(provider.get("base_url") or config.text("openai_base_url"))
    if not url or seen.probed:
        return
    suffix = endpoint_in(url)
    if suffix:
        yield found(
            "base-url-full-endpoint",
            t("Codex's base URL ends in `{suffix}`, which Codex adds itself.", suffix=suffix),
            f"{config.path}: [model_providers.{name}] base_url = {shown(url)}",
        )
    elif path_of(url) in ("", "/"):
        yield found(
            "base-url-missing-v1",
            t("Codex's base URL has no path: servers have their API below /v1, and Codex adds only /responses."),
            f"{config.path}: [model_providers.{name}] base_url = {shown(url)}",
            severity="warning",
            fix=t("End it in `/v1`."),
        )


def codex_key(seen: Observations) -> Verdict:
    """Which key the active provider sends, and whether it is there."""
    config, auth = _config(seen), _auth(seen)
    if not config.there and not auth.there:
        return Unseen(t("Codex has no files here"))
    if config.problem:
        return Unseen(t("Codex's config.toml does not parse"))
    name, provider = _active(config)
    problems: list[Problem] = []
    if provider:
        problems += _provider_key(seen, config, auth, name, provider)
    uses_auth = not provider or (provider.get("requires_openai_auth") is True and not _own_key(provider))
    problems += _auth_shape(auth, uses_auth)
    if not provider and not config.text("openai_base_url") and not problems:
        problems += _base_url_variable(seen)
    return weigh(seen, "codex", *problems)


def _own_key(provider: Mapping[str, Any]) -> bool:
    return any(provider.get(name) for name in _BEARERS)


def _provider_key(
    seen: Observations, config: Parsed, auth: Parsed, name: str, provider: Mapping[str, Any]
) -> Iterator[Problem]:
    env_key = provider.get("env_key")
    host = host_of(str(provider.get("base_url") or ""))
    where = f"{config.path}: [model_providers.{name}]"
    if isinstance(env_key, str) and env_key:
        yield from _variable(seen, where, env_key)
        return
    if not _binds_a_key(provider):
        stored = auth.text("OPENAI_API_KEY") or _nested_key(auth)
        variable = next((v for v in ("OPENAI_API_KEY", "CODEX_API_KEY") if seen.variable(v)), "")
        if stored or variable or not is_local(host):
            yield found(
                "codex-key-not-bound",
                t("Codex's provider `{name}` names no key, so that none is sent.", name=shown(name)),
                where,
                t("a key is in {path}, which this provider does not use", path=auth.path) if stored else "",
                t("${name} is set, which this provider does not use", name=variable) if variable else "",
                fix=t('Add `env_key = "{variable}"` to the provider.', variable=variable) if variable else "",
            )
        return
    if provider.get("requires_openai_auth") is True and not _own_key(provider):
        yield from _openai_auth(auth, where, host)


def _variable(seen: Observations, where: str, env_key: str) -> Iterator[Problem]:
    if not re.fullmatch(r"[A-Za-z_]\w*", env_key):
        yield found(
            "key-env-not-visible",
            t("`env_key` holds a key; it has to be the name of a variable that holds the key."),
            where,
            fix=t('Write `env_key = "LLM_API_KEY"` and set that variable, or use `experimental_bearer_token`.'),
        )
        return
    value = seen.variable(env_key)
    if value is None:
        value = dotenv_value(seen, env_key, "codex")
    if value:
        return
    lines = [line for line in shell_lines(seen) if line.name == env_key]
    if value is None:
        yield found(
            "key-env-not-visible",
            t("Codex takes the key from `{name}`, which is not set here.", name=shown(env_key)),
            f"{where} env_key = {shown(env_key)}",
            *(t("{where} sets it", where=line.where) for line in lines[:1]),
            commands=(f"export {env_key}=...",),
        )
    else:
        yield found(
            "key-missing",
            t("Codex takes the key from `{name}`, which is set and empty.", name=shown(env_key)),
            f"{where} env_key = {shown(env_key)}",
        )


def _openai_auth(auth: Parsed, where: str, host: str) -> Iterator[Problem]:
    if not auth.there:
        yield found(
            "key-missing",
            t("Codex's provider wants the key of auth.json, and there is no auth.json: none is sent."),
            f"{where} requires_openai_auth = true",
            commands=("printenv LLM_API_KEY | codex login --with-api-key",),
        )
        return
    tokens = bool(auth.table("tokens").get("access_token"))
    mode = auth.text("auth_mode")
    if tokens and (mode == "chatgpt" or not auth.text("OPENAI_API_KEY")) and not host.endswith("openai.com"):
        yield found(
            "codex-login-sent-to-server",
            t("Codex sends the ChatGPT login of auth.json to {host}.", host=host or where),
            f"{where} requires_openai_auth = true",
            auth.path,
        )


def _nested_key(auth: Parsed) -> bool:
    return bool(auth.text("api_key") or auth.text("apiKey") or auth.table("openai"))


def _auth_shape(auth: Parsed, uses_auth: bool) -> Iterator[Problem]:
    """Shapes of auth.json that guides show and that Codex does not read; harmless where the file is not used."""
    severity: Severity = "error" if uses_auth else "warning"
    if not auth.there:
        return
    if auth.problem or not isinstance(auth.value, Mapping):
        yield found(
            "codex-auth-json-shape",
            t("Codex's auth.json is no JSON object; Codex takes it as if it were not there."),
            *(auth.problem.saw if auth.problem else (auth.path,)),
            severity=severity,
        )
        return
    foreign = [name for name in _FOREIGN_KEYS if name in auth.value]
    mode = auth.value.get("auth_mode")
    if foreign and not auth.text("OPENAI_API_KEY"):
        yield found(
            "codex-auth-json-shape",
            t("Codex's auth.json holds {names}, which Codex does not read there.", names=_names(foreign)),
            auth.path,
            severity=severity,
            commands=(f"mv {json.dumps(auth.path)} {json.dumps(auth.path + '.unused')}",),
        )
    elif foreign:
        yield found(
            "codex-auth-json-shape",
            t("Codex's auth.json holds {names} beside the key; they are ignored.", names=_names(foreign)),
            auth.path,
            severity="warning",
        )
    if mode is not None and mode not in _AUTH_MODES:
        yield found(
            "codex-auth-json-shape",
            t('Codex does not know `auth_mode` "{mode}" in auth.json, and sends no key.', mode=mode),
            auth.path,
            severity=severity,
            fix=t('Write `"auth_mode": "apikey"`.'),
        )


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _base_url_variable(seen: Observations) -> Iterator[Problem]:
    url = seen.variable("OPENAI_BASE_URL")
    if url and "api.openai.com" not in url:
        yield found(
            "codex-base-url-not-read",
            t("OPENAI_BASE_URL is set, which Codex does not read: it goes to OpenAI."),
            f"OPENAI_BASE_URL={shown(url)}",
            severity="error" if seen.client_type == "codex" else "info",
            commands=("llm-setup clients apply codex",),
        )


CHECKS = (
    Check("codex-config", "Codex's config.toml is one that Codex uses", codex_config),
    Check("codex-key", "Codex's provider sends a key", codex_key),
)
