"""Archives of this checkout, built once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Built:
    """What one build made."""

    wheel: Path
    sdist: Path


def build(source: Path, target: Path) -> Built:
    """Both archives of a source tree; the tool is the one that pyproject.toml names."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}
    argv = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    subprocess.run(argv, cwd=source, env=env, check=True, stdout=subprocess.DEVNULL, timeout=300)
    return Built(next(target.glob("*.whl")), next(target.glob("*.tar.gz")))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def wheel(built: Built) -> Path:
    return built.wheel


@pytest.fixture(scope="session")
def built_elsewhere(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The same, from the unpacked sdist in another folder, by another umask, with other times of files."""
    folder = tmp_path_factory.mktemp("elsewhere ü")
    with tarfile.open(built.sdist) as archive:
        # 3.11.3 and older know no filters; 3.12 and 3.13 want one named.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    source = next(folder.iterdir())
    for path in source.rglob("*"):
        if path.is_file():
            os.utime(path, (1_700_000_000, 1_700_000_000))
    return build(source, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def tool_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """For uv and pipx: homes of their own, the Python of these tests, and the index that pip has here."""
    home = tmp_path_factory.mktemp("tools")
    env = {**os.environ, "HOME": str(home), "PIPX_HOME": str(home / "pipx"), "PIPX_BIN_DIR": str(home / "bin")}
    env |= {"UV_TOOL_DIR": str(home / "uv"), "UV_TOOL_BIN_DIR": str(home / "bin"), "UV_CACHE_DIR": str(home / "cache")}
    env |= {"PIPX_MAN_DIR": str(home / "man"), "UV_PYTHON_DOWNLOADS": "never"}
    index = os.environ.get("PIP_INDEX_URL")
    if index:
        env["UV_DEFAULT_INDEX"] = index
    env.pop("VIRTUAL_ENV", None)
    assert shutil.which("bash")
    return env
