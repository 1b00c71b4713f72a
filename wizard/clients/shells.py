"""The triple as variables, for each shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from wizard.clients.formats.lines import quote_dotenv
from wizard.clients.quoting import quote_cmd, quote_fish, quote_powershell, quote_sh
from wizard.endpoint.model import Endpoint
from wizard.endpoint.urls import without_version

Shell = Literal["bash", "zsh", "fish", "powershell", "cmd", "dotenv"]
SHELLS: tuple[Shell, ...] = get_args(Shell)

PLACEHOLDER_KEY = "no-key-needed"


def users_shell(env: Mapping[str, str], platform: str) -> str:
    """The user's shell by name, from `SHELL`; PowerShell on Windows, bash where nothing says."""
    if platform == "windows":
        return "powershell"
    name = env.get("SHELL", "").rsplit("/", 1)[-1]
    return name if name in ("bash", "zsh", "fish") else "bash"


def shell_variables(endpoint: Endpoint, *, masked: bool = False) -> tuple[tuple[str, str], ...]:
    """What SDKs and most command lines read, in both protocols. A client that insists on a key gets a placeholder.

    masked: for looking at, with the key's hint in place of the key.
    """
    key = (endpoint.key.hint if masked else endpoint.key.reveal()) if endpoint.key else PLACEHOLDER_KEY
    return (
        ("OPENAI_BASE_URL", endpoint.openai_base_url),
        ("OPENAI_API_KEY", key),
        ("OPENAI_MODEL", endpoint.model),
        ("ANTHROPIC_BASE_URL", endpoint.anthropic_base_url or without_version(endpoint.openai_base_url)),
        ("ANTHROPIC_AUTH_TOKEN", key),
        ("ANTHROPIC_MODEL", endpoint.model),
    )


def render_shell(shell: Shell, variables: Sequence[tuple[str, str]]) -> str:
    """Lines that set the variables in that shell, exactly, whatever characters they hold."""
    return "".join(_LINES[shell].format(name=name, value=_QUOTES[shell](value)) for name, value in variables)


_LINES: dict[Shell, str] = {
    "bash": "export {name}={value}\n",
    "zsh": "export {name}={value}\n",
    "fish": "set -gx {name} {value}\n",
    "powershell": "$env:{name} = {value}\n",
    "cmd": '@set "{name}={value}"\n',
    "dotenv": "{name}={value}\n",
}
_QUOTES = {
    "bash": quote_sh,
    "zsh": quote_sh,
    "fish": quote_fish,
    "powershell": quote_powershell,
    "cmd": quote_cmd,
    "dotenv": quote_dotenv,
}
