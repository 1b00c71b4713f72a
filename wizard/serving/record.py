"""What is remembered about a server that llm-setup started, so that any later run can find, judge and stop it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from wizard.i18n import t
from wizard.problems import ProblemError, usage_error

State = Literal["starting", "ready", "dead", "unhealthy"]

DEFAULT_NAME = "local"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """One server. Times are Unix seconds (UTC).

    pid 0: the start was announced and the process is not known yet. pid_started: an opaque word for when the process
    with that pid began (boot and clock ticks), so that a reused pid is never taken for the server; of one that was only
    announced, the boot alone.
    key_reference: where the key is kept, as SecretStore says; empty for none. ready_at: when it first proved ready.
    build: cuda, rocm or cpu. arguments: the flags that were asked for. environment: variables beside the user's own,
    without the key. container: engine and name of the container that the process runs, where it is one. sockets: the
    folder in which its processes meet, removed with it; empty for none of its own.
    """

    name: str
    pid: int
    pid_started: str
    host: str
    port: int
    model: str
    served_name: str
    key_reference: str
    vllm_version: str
    command: tuple[str, ...]
    log: str
    started_at: float
    max_model_len: int | None = None
    ready_at: float | None = None
    python: str = ""
    build: str = ""
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = field(default=())
    container: tuple[str, ...] = ()
    sockets: str = ""

    @property
    def url(self) -> str:
        """Where clients on this machine reach it, without `/v1`. A server on all addresses is asked on loopback."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self.host, self.host)
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        return f"http://{host}:{self.port}"

    def as_json(self) -> dict[str, Any]:
        """For the record's file."""
        return {
            "schema_version": 1,
            "name": self.name,
            "pid": self.pid,
            "pid_started": self.pid_started,
            "host": self.host,
            "port": self.port,
            "model": self.model,
            "served_name": self.served_name,
            "key_reference": self.key_reference,
            "vllm_version": self.vllm_version,
            "command": list(self.command),
            "log": self.log,
            "started_at": self.started_at,
            "max_model_len": self.max_model_len,
            "ready_at": self.ready_at,
            "python": self.python,
            "build": self.build,
            "arguments": list(self.arguments),
            "environment": dict(self.environment),
            "container": list(self.container),
            "sockets": self.sockets,
        }


def parse_record(value: Any) -> ServerRecord:
    """The record in a decoded JSON document. Raises ValueError where a field is missing or of the wrong kind."""
    try:
        return ServerRecord(
            name=str(value["name"]),
            pid=int(value["pid"]),
            pid_started=str(value["pid_started"]),
            host=str(value["host"]),
            port=int(value["port"]),
            model=str(value["model"]),
            served_name=str(value["served_name"]),
            key_reference=str(value.get("key_reference") or ""),
            vllm_version=str(value.get("vllm_version") or ""),
            command=tuple(str(word) for word in value["command"]),
            log=str(value["log"]),
            started_at=float(value["started_at"]),
            max_model_len=None if value.get("max_model_len") is None else int(value["max_model_len"]),
            ready_at=None if value.get("ready_at") is None else float(value["ready_at"]),
            python=str(value.get("python") or ""),
            build=str(value.get("build") or ""),
            arguments=tuple(str(word) for word in value.get("arguments") or ()),
            environment=tuple((str(k), str(v)) for k, v in (value.get("environment") or {}).items()),
            container=_engine_and_name(value.get("container") or []),
            sockets=str(value.get("sockets") or ""),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a server record: {error}") from error


def _engine_and_name(words: Any) -> tuple[str, ...]:
    if not isinstance(words, list) or len(words) not in (0, 2):
        raise TypeError(f"container is {words!r}")
    return tuple(map(str, words))


def check_name(name: str) -> str:
    """The name, when it can name a server (and its files). Raises a usage problem otherwise."""
    if not _NAME.fullmatch(name):
        raise _bad_name(name)
    return name


def _bad_name(name: str) -> ProblemError:
    return usage_error(
        "bad-server-name",
        t("`{name}` cannot name a server.", name=name[:80]),
        t("Use letters, digits, `.`, `_` and `-`, beginning with a letter or digit, at most 64."),
    )
