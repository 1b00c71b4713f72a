"""Compose files: a server whose port stays inside its container, a client that looks for the server in its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wizard.clients.formats import parse
from wizard.doctor.causes import found
from wizard.doctor.checks.way import is_loopback
from wizard.doctor.client_files import find_files, host_of, shown
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.observations import Observations
from wizard.i18n import t
from wizard.problems import Problem, ProblemError

# Images that serve models; what follows is the port that they listen on.
_SERVERS = re.compile(r"vllm|sglang|llama\.cpp|llama-server|text-generation-inference|ollama/ollama|localai", re.I)
_URL_VARIABLE = re.compile(r"(?:BASE_URL|API_BASE|API_URL|ENDPOINT|_HOST|BASE_URLS)$")


def _services(seen: Observations) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(path, name, service) of every compose file that parses."""
    for file in find_files(seen, "docker"):
        if not file.path.endswith((".yml", ".yaml")):
            continue
        try:
            value = parse((file.text or "").encode(), "yaml", Path(file.path))
        except ProblemError:
            continue  # docker itself says what is wrong with it
        services = value.get("services") if isinstance(value, Mapping) else None
        for name, service in services.items() if isinstance(services, Mapping) else ():
            if isinstance(service, Mapping):
                yield file.path, str(name), service


def _environment(service: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    variables = service.get("environment")
    if isinstance(variables, Mapping):
        yield from ((str(name), str(value)) for name, value in variables.items())
    elif isinstance(variables, list):
        for entry in variables:
            name, _, value = str(entry).partition("=")
            yield name, value


def compose_files(seen: Observations) -> Verdict:
    """Whether services find each other, and the host finds the server."""
    services = list(_services(seen))
    if not services:
        return Unseen(t("there is no compose file here"))
    problems: list[Problem] = []
    for path, name, service in services:
        on_host = service.get("network_mode") == "host"
        if _SERVERS.search(str(service.get("image") or "")) and not service.get("ports") and not on_host:
            problems += _unpublished(seen, path, name)
        for variable, value in () if on_host else _environment(service):
            if _URL_VARIABLE.search(variable) and is_loopback(host_of(value)):
                problems.append(
                    found(
                        "wrong-host-in-container",
                        t("The service `{name}` looks for its server at `{url}`: itself.", name=name, url=shown(value)),
                        f"{path}: {name}: {variable}={shown(value)}",
                        severity="warning" if seen.probed else "error",
                    )
                )
    return tuple(problems)


def _unpublished(seen: Observations, path: str, name: str) -> list[Problem]:
    """Harmless as long as only other services ask; an error where something outside was pointed at loopback."""
    outside = any(is_loopback(host_of(target.base_url)) for target in seen.targets)
    return [
        found(
            "container-port-not-published",
            t("The service `{name}` publishes no port, so that the host cannot reach it.", name=name),
            f"{path}: {name}",
            severity="error" if outside and not seen.probed else "info",
            fix=t('Give it `ports: ["8000:8000"]`.'),
        )
    ]


CHECKS = (Check("compose", "Services of compose files are reached", compose_files),)
