"""Which llm-setup this is, and, only when asked, whether the package index has a newer one."""

from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from wizard import __version__
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpFailure, HttpReply, HttpRequest
from wizard.i18n import t

NAME = "llm-setup"
PUBLIC_INDEX = "https://pypi.org/simple"
# https://packaging.python.org/en/latest/specifications/simple-repository-api/
_SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"

State = Literal["not-asked", "newest", "older", "not-there", "unknown"]


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What the index says. newest: the newest release there; text: for people; command: what brings it, or empty."""

    state: State
    newest: str = ""
    text: str = ""
    command: str = ""


def upgrade_command() -> str:
    """What brings a newer one, by how this one was installed (pipx, uv tool, a clone, pip)."""
    prefix = sys.prefix.replace("\\", "/")
    if "/pipx/venvs/" in prefix:
        return f"pipx upgrade {NAME}"
    if "/uv/tools/" in prefix:
        return f"uv tool upgrade {NAME}"
    if _is_editable():
        return "git pull"
    return f"{sys.executable} -m pip install --upgrade {NAME}"


def removal_command() -> str:
    """What takes this one away, by how it was installed."""
    prefix = sys.prefix.replace("\\", "/")
    if "/pipx/venvs/" in prefix:
        return f"pipx uninstall {NAME}"
    if "/uv/tools/" in prefix:
        return f"uv tool uninstall {NAME}"
    return f"{shlex.quote(sys.executable)} -m pip uninstall {NAME}"


def _is_editable() -> bool:
    try:
        recorded = metadata.distribution(NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return True
    return bool(recorded and json.loads(recorded).get("dir_info", {}).get("editable"))


def check_upgrade(world: World) -> Upgrade:
    """Ask the index that pip or uv would ask, once, for the releases there are."""
    index = (world.env.get("PIP_INDEX_URL") or world.env.get("UV_INDEX_URL") or PUBLIC_INDEX).rstrip("/")
    reply = world.http.send(
        HttpRequest("GET", f"{index}/{NAME}/", headers=(("accept", _SIMPLE_JSON),), timeout_s=10, follow_redirects=True)
    )
    return judge_reply(_without_password(index), reply, __version__)


def judge_reply(index: str, reply: HttpReply | HttpFailure, current: str) -> Upgrade:
    """What an index's reply means for version `current`. `index` is shown."""
    if isinstance(reply, HttpReply) and reply.status == 404:
        return Upgrade("not-there", text=t("{index} has no release of llm-setup.", index=index))
    if not isinstance(reply, HttpReply) or reply.status != 200:
        why = f"HTTP {reply.status}" if isinstance(reply, HttpReply) else reply.text
        return Upgrade("unknown", text=t("{index} did not say: {why}", index=index, why=why))
    releases = [version for version in _releases(reply.json()) if _key(version)]
    if not releases:
        return Upgrade("unknown", text=t("{index} did not say: {why}", index=index, why=t("no list of releases")))
    newest = max(releases, key=_key)
    if _key(newest) > _key(current):
        return Upgrade("older", newest, t("{newest} is newer.", newest=newest), upgrade_command())
    return Upgrade("newest", newest, t("This is the newest release."))


def _releases(document: Any) -> list[str]:
    if not isinstance(document, dict) or not isinstance(document.get("versions", []), list):
        return []
    return [version for version in document.get("versions", []) if isinstance(version, str)]


def _key(version: str) -> tuple[int, ...]:
    """Of a final release; empty for others, which nobody is moved to without asking for them."""
    return tuple(map(int, version.split("."))) if re.fullmatch(r"\d{1,6}(\.\d{1,6}){0,5}", version) else ()


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
