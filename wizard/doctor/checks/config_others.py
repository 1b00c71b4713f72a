"""Files of the other clients and gateways: names that need a provider, keys taken from variables that are not set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wizard.clients.formats import parse
from wizard.doctor.causes import found
from wizard.doctor.client_files import (
    dotenv_value,
    endpoint_in,
    is_meant,
    line_with,
    path_of,
    read_parsed,
    shell_lines,
    shown,
    weigh,
)
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.observations import ClientFile, Observations
from wizard.i18n import t
from wizard.problems import Problem, ProblemError

# How each client's files are parsed by the client itself. Codex and Claude Code have modules of their own.
_KINDS: tuple[tuple[str, str, str], ...] = (
    ("cline", ".json", "json"),
    ("continue", ".yaml", "yaml"),
    ("continue", ".json", "jsonc"),
    ("opencode", ".json", "jsonc"),
    ("opencode", ".jsonc", "jsonc"),
    ("kilo", ".json", "jsonc"),
    ("qwen", ".json", "jsonc"),
    ("pi", ".json", "json"),
    ("aider", ".yml", "yaml"),
    ("llm", ".yaml", "yaml"),
    ("crush", ".json", "json"),
    ("litellm", ".yaml", "yaml"),
    ("claude-code-router", ".json", "jsonc"),
    ("zed", ".json", "jsonc"),
    ("vscode", ".json", "jsonc"),
)


def _kind(file: ClientFile) -> str:
    return next((kind for client, end, kind in _KINDS if file.client == client and file.path.endswith(end)), "")


def _value(file: ClientFile) -> Any:
    """The file's value, or None where it does not parse."""
    try:
        return parse((file.text or "").encode(), _kind(file), Path(file.path))
    except ProblemError:
        return None


def files_parse(seen: Observations) -> Verdict:
    """Whether every client's file parses as its client parses it."""
    problems: list[Problem] = []
    looked = False
    for file in seen.files:
        kind = _kind(file)
        if not kind or file.text is None or not file.text.strip():
            continue
        looked = True
        try:
            parse(file.text.encode(), kind, Path(file.path))
        except ProblemError as error:
            problems += weigh(seen, file.client, error.problem)
    return tuple(problems) if looked else Unseen(t("no other client has files here"))


# ---- aider and LiteLLM: the provider in front of the model's name

# litellm's providers (litellm 1.81, LlmProviders) that name a model of any server or of a well-known one.
_PROVIDER_NAMES = """
    openai hosted_vllm openai_like custom_openai text-completion-openai litellm_proxy vllm ollama ollama_chat
    lm_studio llamafile azure azure_ai anthropic bedrock bedrock_converse vertex_ai vertex_ai_beta gemini palm
    cohere cohere_chat mistral codestral deepseek groq cerebras fireworks_ai together_ai openrouter perplexity
    anyscale replicate huggingface sagemaker sagemaker_chat watsonx databricks deepinfra nvidia_nim xai
    friendliai github github_copilot sambanova volcengine dashscope moonshot zai minimax novita nebius
    hyperbolic featherless_ai cloudflare xinference oobabooga predibase nscale lambda_ai baseten ai21 ai21_chat
    voyage jina_ai galadriel snowflake meta_llama gradient_ai datarobot bytez vercel_ai_gateway v0 morph heroku
    oci aiml compactifai cometapi docker_model_runner ovhcloud wandb chutes siliconflow inception_ai triton
    petals aleph_alpha nlp_cloud maritalk empower clarifai topaz
"""
_PROVIDERS = frozenset(_PROVIDER_NAMES.split())
# Names that litellm and aider know without a provider.
_KNOWN_NAMES = re.compile(
    r"(?:gpt-|o[1-9]\b|chatgpt-|codex-|text-|ft:|claude-|gemini-|command-|deepseek-(?:chat|coder|reasoner)|mistral-|"
    r"grok-|(?:sonnet|opus|haiku|4o?|4-turbo|mini|35-?turbo|flash\S*|r1|deepseek|grok3|quasar|optimus)$)",
    re.IGNORECASE,
)


def lacks_provider(model: str, base_url: str) -> bool:
    """Whether litellm would find no provider for a model name. base_url: of an own server, or empty."""
    first, slash, _ = model.partition("/")
    if slash and first.lower() in _PROVIDERS:
        return False
    if not slash and _KNOWN_NAMES.match(model):
        return bool(base_url) and "openai.com" not in base_url and not re.match(r"gpt-|o[1-9]\b|4o?$", model)
    return bool(slash) or bool(base_url)


def aider_model(seen: Observations) -> Verdict:
    """Whether aider's model names tell LiteLLM which protocol to speak."""
    sources: list[tuple[str, str, str]] = []
    base = seen.variable("OPENAI_API_BASE") or seen.variable("OPENAI_BASE_URL") or ""
    for file in seen.files:
        if file.client != "aider" or file.text is None:
            continue
        value = _value(file)
        if not isinstance(value, Mapping):
            continue
        base = str(value.get("openai-api-base") or base)
        for key in ("model", "weak-model", "editor-model"):
            if isinstance(value.get(key), str):
                sources.append((str(value[key]), f"{file.path}: {key}", file.path))
    for variable in ("AIDER_MODEL", "AIDER_WEAK_MODEL", "AIDER_EDITOR_MODEL"):
        model = seen.variable(variable)
        if model:
            sources.append((model, f"${variable}", ""))
    if seen.client_type == "aider" and seen.target is None and seen.explicit:
        sources += [(target.model, target.source, "") for target in seen.targets if target.model]
    if not sources:
        return Unseen(t("aider has no model set here"))
    problems = []
    for model, where, _ in sources:
        if lacks_provider(model, base):
            bare = model.partition("/")[2] if model.startswith(("local/", "custom/")) else model
            problems.append(
                found(
                    "litellm-provider-prefix",
                    t("aider's model `{model}` names no provider that LiteLLM knows.", model=shown(model)),
                    where,
                    t("base URL {url}", url=shown(base)) if base else "",
                    fix=t("Write `openai/{model}`.", model=shown(bare)),
                )
            )
    return weigh(seen, "aider", *problems)


def litellm_config(seen: Observations) -> Verdict:
    """Whether the models of a LiteLLM proxy's file name their provider."""
    problems = []
    looked = False
    for file in seen.files:
        if file.client != "litellm" or file.text is None:
            continue
        value = _value(file)
        models = value.get("model_list") if isinstance(value, Mapping) else None
        if not isinstance(models, list):
            continue
        looked = True
        for entry in models:
            params = entry.get("litellm_params") if isinstance(entry, Mapping) else None
            if not isinstance(params, Mapping) or params.get("custom_llm_provider"):
                continue
            model, base = str(params.get("model") or ""), str(params.get("api_base") or "")
            if model and lacks_provider(model, base):
                problems.append(
                    found(
                        "litellm-provider-prefix",
                        t("LiteLLM's model `{model}` names no provider.", model=shown(model)),
                        t("{path}: line {line}", path=file.path, line=line_with(file.text, model)),
                        fix=t("Write `hosted_vllm/{model}` (vLLM) or `openai/{model}`.", model=shown(model)),
                    )
                )
    return weigh(seen, "litellm", *problems) if looked else Unseen(t("there is no LiteLLM file"))


# ---- Cline, Continue, claude-code-router


def cline_provider(seen: Observations) -> Verdict:
    """Whether Cline's providers.json uses the id that its command line understands."""
    file = read_parsed(seen, "cline", "providers.json", "json")
    if not file.there:
        return Unseen(t("Cline has no providers.json"))
    if file.text("lastUsedProvider") == "openai" or "openai" in file.table("providers"):
        return weigh(
            seen,
            "cline",
            found("cline-provider-id", t("Cline's providers.json has the provider id `openai`."), file.path),
        )
    return None


def continue_file(seen: Observations) -> Verdict:
    """Whether Continue reads the file that is there."""
    names = {Path(file.path).name: file.path for file in seen.files if file.client == "continue"}
    if "config.json" not in names:
        return Unseen(t("Continue has no config.json"))
    what = (
        t("Continue reads config.yaml, and ignores the config.json beside it.")
        if "config.yaml" in names
        else t("Continue's command line does not read config.json, and there is no config.yaml.")
    )
    return found(
        "client-file-ignored",
        what,
        names["config.json"],
        severity="info" if "config.yaml" in names else "warning",
        why=t("config.yaml took the place of config.json; the extension still reads the old file where no new one is."),
        fix=t("Move the models to `~/.continue/config.yaml`."),
        commands=("llm-setup clients apply continue",),
    )


def router_urls(seen: Observations) -> Verdict:
    """claude-code-router, unlike clients, wants the full endpoint in `api_base_url`."""
    router = read_parsed(seen, "claude-code-router", "config.json", "jsonc")
    providers = router.value.get("Providers") if isinstance(router.value, Mapping) else None
    if not isinstance(providers, list):
        return Unseen(t("claude-code-router is not set up here"))
    problems = []
    for provider in providers:
        url = str(provider.get("api_base_url") or "") if isinstance(provider, Mapping) else ""
        if url and not endpoint_in(url) and re.search(r"/v\d+\w*/?$|^https?://[^/]+/?$", url):
            problems.append(
                found(
                    "base-url-wrong-path",
                    t("claude-code-router sends requests to `{url}` itself, and no endpoint is there.", url=shown(url)),
                    f"{router.path}: Providers {provider.get('name') or ''}".strip(),
                    fix=t("Write the whole endpoint: `{url}/chat/completions`.", url=url.rstrip("/")),
                )
            )
    return weigh(seen, "claude-code-router", *problems)


# ---- keys taken from variables

_REFERENCES = re.compile(
    r"\{env:(?P<opencode>\w+)\}|\$\{\{\s*secrets\.(?P<continue_>\w+)\s*\}\}|os\.environ/(?P<litellm>\w+)"
    r"|[\"']?envKey[\"']?\s*:\s*[\"'](?P<qwen>\w+)[\"']|\$\{(?P<shell>[A-Z_][A-Z0-9_]*)\}"
    r"|(?<=[\"':= ])\$(?P<plain>[A-Z_][A-Z0-9_]*)\b"
)
_ABOUT_KEYS = re.compile(r"api[-_]?key|token|secret|authorization|envkey|password", re.IGNORECASE)
_WITH_REFERENCES = (
    "opencode",
    "kilo",
    "continue",
    "litellm",
    "qwen",
    "crush",
    "claude-code-router",
    "open-webui",
    "roo",
    "zed",
)


def key_references(seen: Observations) -> Verdict:
    """Whether the variables from which clients' files take their keys are set here."""
    problems: dict[tuple[str, str], Problem] = {}
    looked = False
    for file in seen.files:
        if file.client not in _WITH_REFERENCES or file.text is None:
            continue
        looked = True
        for number, line in enumerate(file.text.splitlines(), 1):
            if not _ABOUT_KEYS.search(line) or line.lstrip().startswith(("#", "//")):
                continue
            for match in _REFERENCES.finditer(line):
                name = next(value for value in match.groups() if value)
                if (file.client, name) in problems or _is_set(seen, file, name):
                    continue
                lines = [item for item in shell_lines(seen) if item.name == name]
                problem = found(
                    "key-env-not-visible",
                    t("{client} takes its key from `{name}`, which is not set here.", client=file.client, name=name),
                    t("{path}: line {line}", path=file.path, line=number),
                    *(t("{where} sets it", where=item.where) for item in lines[:1]),
                    commands=(f"export {name}=...",),
                )
                problems[file.client, name] = weigh(seen, file.client, problem)[0]
    return tuple(problems.values()) if looked else Unseen(t("no client's file takes a key from a variable"))


def _is_set(seen: Observations, file: ClientFile, name: str) -> bool:
    if seen.variable(name):
        return True
    if dotenv_value(seen, name, file.client, "env"):
        return True
    # Qwen's settings hold variables of their own, opencode's may be set by its auth file.
    return bool(re.search(rf"[\"']{re.escape(name)}[\"']\s*:\s*[\"'][^\"']+[\"']", file.text or ""))


# ---- URLs by their form, where nothing was asked

_NEEDS_VERSION = (
    "cline",
    "continue",
    "opencode",
    "kilo",
    "qwen",
    "aider",
    "llm",
    "roo",
    "crush",
    "openai-sdk",
    "shell",
)


def url_forms(seen: Observations) -> Verdict:
    """What the text of a base URL tells of its form, for triples that were read from files and variables."""
    if seen.probed:
        return Unseen(t("the endpoints were asked"))
    problems = []
    for target in seen.targets:
        url = target.base_url.strip()
        suffix = endpoint_in(url)
        path = path_of(url)
        if target.client in ("codex", "claude-code") and not url.endswith("/"):
            continue  # Told by their own modules.
        if suffix and not seen.explicit:
            problems.append(
                found(
                    "base-url-full-endpoint",
                    t(
                        "The base URL of {client} ends in `{suffix}`, which it adds itself.",
                        client=target.client,
                        suffix=suffix,
                    ),
                    f"{target.source}: {shown(url)}",
                )
            )
        elif target.wire == "messages" and path.rstrip("/").endswith("/v1"):
            what = t("The base URL of {client} ends in /v1, and it adds /v1/messages itself.", client=target.client)
            problems.append(found("base-url-extra-v1", what, f"{target.source}: {shown(url)}"))
        elif (
            target.wire != "messages"
            and path in ("", "/")
            and target.client in _NEEDS_VERSION
            and is_meant(seen, target.client)
        ):
            what = t(
                "The base URL of {client} has no path; most servers have their API below /v1.", client=target.client
            )
            problems.append(found("base-url-missing-v1", what, f"{target.source}: {shown(url)}", severity="warning"))
        elif url.endswith("/"):
            what = t("The base URL of {client} ends in a slash.", client=target.client or t("the client"))
            problems.append(found("base-url-trailing-slash", what, f"{target.source}: {shown(url)}", severity="info"))
    return (*problems, *_pasted(seen, {target.base_url.strip() for target in seen.targets}))


_PASTED = re.compile(r"https?://[^\s\"',]+/(?:chat/completions|responses|messages)/?(?=[\s\"',]|$)")


def _pasted(seen: Observations, told: set[str]) -> Iterator[Problem]:
    """Full endpoints in files of clients whose triple was not read: providers that are not the chosen one."""
    for file in seen.files:
        if file.client not in (*_NEEDS_VERSION, "pi", "zed") or not _kind(file):
            continue
        for number, line in enumerate((file.text or "").splitlines(), 1):
            match = _PASTED.search(line)
            if match and match[0] not in told and not line.lstrip().startswith(("#", "//")):
                what = t("A base URL of {client} is a full endpoint: `{url}`.", client=file.client, url=shown(match[0]))
                where = t("{path}: line {line}", path=file.path, line=number)
                yield from weigh(seen, file.client, found("base-url-full-endpoint", what, where))


CHECKS = (
    Check("client-files", "Client files parse", files_parse),
    Check("aider-model", "aider's model names a provider", aider_model),
    Check("litellm-config", "LiteLLM's models name their provider", litellm_config),
    Check("cline-provider", "Cline's provider id is right", cline_provider),
    Check("continue-file", "Continue reads its file", continue_file),
    Check("router-urls", "claude-code-router has full endpoints", router_urls),
    Check("key-references", "Variables that hold keys are set", key_references),
    Check("url-forms", "Base URLs look right", url_forms),
)
