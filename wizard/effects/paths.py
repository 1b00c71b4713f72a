"""Where llm-setup keeps its own things."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# How vLLM and the hub's own client are told where models are.
HUB_VARIABLES = ("HF_ENDPOINT", "VLLM_USE_MODELSCOPE")


@dataclass(frozen=True, slots=True)
class StatePaths:
    """Folders of our own; none is made before something is written there.

    config: what the user may edit (templates of their own, answers). state: profiles, servers, receipts, secrets file.
    data: runtimes (virtual environments of vLLM) and models made here. cache: what can be fetched again. logs: our log.
    """

    config: Path
    state: Path
    data: Path
    cache: Path
    logs: Path

    @property
    def servers(self) -> Path:
        """One JSON file and one log for each server by name."""
        return self.state / "servers"

    @property
    def runtimes(self) -> Path:
        """One virtual environment for each installed vLLM."""
        return self.data / "runtimes"

    @property
    def models(self) -> Path:
        """Model folders that were made or fetched here."""
        return self.data / "models"

    @property
    def originals(self) -> Path:
        """The first original of every client file that was changed, with receipts."""
        return self.state / "originals"


def state_paths(env: Mapping[str, str]) -> StatePaths:
    """All below `LLM_SETUP_HOME` where that is set, else the platform's folders for this user."""
    own = env.get("LLM_SETUP_HOME", "")
    if own:
        root = Path(own).expanduser().absolute()
        return StatePaths(root / "config", root / "state", root / "data", root / "cache", root / "logs")
    import platformdirs  # 15 ms; `--help` does without

    dirs = platformdirs.PlatformDirs("llm-setup", appauthor=False)
    return StatePaths(
        dirs.user_config_path, dirs.user_state_path, dirs.user_data_path, dirs.user_cache_path, dirs.user_log_path
    )


def hub_file(paths: StatePaths) -> Path:
    """Which hub models are fetched from, as `NAME=value` lines; no file: Hugging Face, or what the environment says."""
    return paths.config / "hub.env"


def remembered_hub(paths: StatePaths, env: Mapping[str, str]) -> dict[str, str]:
    """The variables of the hub that was chosen; none where the environment names one itself."""
    if any(env.get(name) for name in HUB_VARIABLES):
        return {}
    try:
        lines = hub_file(paths).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.partition("=") for line in lines)
    return {name: value for name, _, value in pairs if name in HUB_VARIABLES and value}
