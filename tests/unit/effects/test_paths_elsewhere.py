"""Where llm-setup keeps its things on Windows and macOS, by environments as those systems set them."""

import ntpath
import os
import types
from collections.abc import Callable
from pathlib import Path

import platformdirs
import platformdirs.macos
import platformdirs.windows
import pytest

from wizard.clients.places import Places
from wizard.clients.spec import SPEC_NAME, PlatformName, parse_spec
from wizard.effects.paths import state_paths
from wizard.effects.templates import read_client_folders

WINDOWS = {
    "USERPROFILE": r"C:\Users\Zoë Li",
    "LOCALAPPDATA": r"C:\Users\Zoë Li\AppData\Local",
    "APPDATA": r"C:\Users\Zoë Li\AppData\Roaming",
    "SystemRoot": r"C:\WINDOWS",
    "COMPUTERNAME": "DESK",
}
MACOS = {
    "HOME": "/Users/zoë",
    "TMPDIR": "/var/folders/x/T/",
    "__CF_USER_TEXT_ENCODING": "0x1F5:0x0:0x0",
    "SHELL": "/bin/zsh",
}


@pytest.fixture
def documented(load_script: Callable[[str], types.ModuleType]) -> Callable[[int], dict[str, str]]:
    """The folders of docs/reference/files.md: 1 Linux, 2 macOS, 3 Windows."""
    return lambda place: {row[0]: row[place] for row in load_script("reference/files").FOLDERS}


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """platformdirs as on Windows: its class, its way to join paths, its variables."""
    for name, value in WINDOWS.items():
        monkeypatch.setenv(name, value)
    from platformdirs import windows

    monkeypatch.setattr(windows, "get_win_folder", windows.get_win_folder_from_env_vars)
    monkeypatch.setattr(windows, "os", types.SimpleNamespace(path=ntpath, environ=os.environ, getenv=os.getenv))
    monkeypatch.setattr(platformdirs, "PlatformDirs", windows.Windows)


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in MACOS.items():
        monkeypatch.setenv(name, value)
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(platformdirs, "PlatformDirs", platformdirs.macos.MacOS)


@pytest.mark.usefixtures("windows")
def test_on_windows_all_is_in_the_local_application_data(documented: Callable[[int], dict[str, str]]) -> None:
    paths = state_paths(WINDOWS)
    for name, folder in documented(3).items():
        assert str(getattr(paths, name)) == folder.replace("%LOCALAPPDATA%", WINDOWS["LOCALAPPDATA"])


@pytest.mark.usefixtures("macos")
def test_on_macos_all_is_in_the_library(documented: Callable[[int], dict[str, str]]) -> None:
    paths = state_paths(MACOS)
    for name, folder in documented(2).items():
        assert str(getattr(paths, name)) == folder.replace("~", MACOS["HOME"])


def test_on_linux_all_is_where_xdg_says(
    monkeypatch: pytest.MonkeyPatch, documented: Callable[[int], dict[str, str]]
) -> None:
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/home/zoë")
    paths = state_paths({})
    for name, folder in documented(1).items():
        assert str(getattr(paths, name)) == folder.replace("~", "/home/zoë")


@pytest.mark.usefixtures("windows")
def test_one_folder_that_is_asked_for_wins_everywhere(tmp_path: Path) -> None:
    paths = state_paths({**WINDOWS, "LLM_SETUP_HOME": str(tmp_path)})
    assert {paths.config, paths.state, paths.data, paths.cache, paths.logs} <= {
        tmp_path / name for name in ("config", "state", "data", "cache", "logs")
    }


@pytest.mark.parametrize(("platform", "env"), [("windows", WINDOWS), ("darwin", MACOS)])
def test_every_client_has_a_file_there_below_the_users_own_folders(platform: PlatformName, env: dict[str, str]) -> None:
    home = Path(env.get("USERPROFILE") or env["HOME"])
    own = Path("/own")
    places = Places(env, home, home / "work", platform, own)
    for name, texts in read_client_folders(Path("/nonexistent")).items():
        spec = parse_spec(name, texts[SPEC_NAME])
        files = [file for file in spec.files if not file.on or platform in file.on]
        assert files or not spec.files, f"{name} has no file on {platform}"
        for file in files:
            path = places.resolve(file.target)
            allowed = (home, own, Path(env.get("APPDATA", home)))
            assert any(path.is_relative_to(folder) for folder in allowed), f"{name}: {path}"
            assert "~" not in str(path)
            assert "%" not in str(path)
