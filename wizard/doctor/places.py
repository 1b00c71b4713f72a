"""Files that say how clients, shells and gateways are configured: where the doctor looks, beside the clients' specs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Place:
    """A file by its path below the home (`~/`) or the working folder (`./`). client: whose it is."""

    client: str
    path: str

    @property
    def scope(self) -> Literal["user", "project"]:
        """Whose settings it holds."""
        return "user" if self.path.startswith("~") else "project"


# Start-up files of shells: they say which variables a terminal has that a program from the desktop has not.
_SHELL = (
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".profile",
    ".bash_aliases",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".config/fish/config.fish",
    ".config/environment.d/llm.conf",
    ".pam_environment",
    ".config/powershell/Microsoft.PowerShell_profile.ps1",
)

PLACES: tuple[Place, ...] = (
    *(Place("shell", f"~/{name}") for name in _SHELL),
    Place("codex", "~/.codex/config.toml"),
    Place("codex", "~/.codex/auth.json"),
    Place("codex", "~/.codex/.env"),
    Place("codex", "./.codex/config.toml"),
    Place("claude-code", "~/.claude/settings.json"),
    Place("claude-code", "~/.claude/settings.local.json"),
    Place("claude-code", "~/.claude/.credentials.json"),
    Place("claude-code", "~/.claude.json"),
    Place("claude-code", "./.claude/settings.json"),
    Place("claude-code", "./.claude/settings.local.json"),
    Place("claude-code-router", "~/.claude-code-router/config.json"),
    Place("cline", "~/.cline/data/settings/providers.json"),
    Place("cline", "~/.cline/data/globalState.json"),
    Place("continue", "~/.continue/config.yaml"),
    Place("continue", "~/.continue/config.json"),
    Place("continue", "~/.continue/.env"),
    Place("opencode", "~/.config/opencode/opencode.json"),
    Place("opencode", "~/.config/opencode/opencode.jsonc"),
    Place("opencode", "~/.local/share/opencode/auth.json"),
    Place("opencode", "./opencode.json"),
    Place("opencode", "./opencode.jsonc"),
    Place("kilo", "~/.config/kilo/kilo.json"),
    Place("kilo", "~/.config/kilo/opencode.json"),
    Place("qwen", "~/.qwen/settings.json"),
    Place("qwen", "~/.qwen/.env"),
    Place("pi", "~/.pi/agent/models.json"),
    Place("pi", "~/.pi/agent/settings.json"),
    Place("aider", "~/.aider.conf.yml"),
    Place("aider", "./.aider.conf.yml"),
    Place("llm", "~/.config/io.datasette.llm/extra-openai-models.yaml"),
    Place("crush", "~/.config/crush/crushrc"),
    Place("crush", "~/.config/crush/crush.json"),
    Place("zed", "~/.config/zed/settings.json"),
    Place("roo", "~/.roo/settings.json"),
    Place("vscode", "~/.config/Code/User/settings.json"),
    Place("open-webui", "./open-webui.env"),
    Place("litellm", "~/litellm_config.yaml"),
    Place("litellm", "./litellm_config.yaml"),
    Place("litellm", "./litellm-config.yaml"),
    Place("litellm", "./config.yaml"),
    Place("docker", "~/.docker/config.json"),
    Place("docker", "./docker-compose.yml"),
    Place("docker", "./docker-compose.yaml"),
    Place("docker", "./compose.yaml"),
    Place("docker", "./compose.yml"),
    Place("wsl", "~/.wslconfig"),
    Place("env", "~/.env"),
    Place("env", "./.env"),
    Place("env", "./.env.local"),
)
