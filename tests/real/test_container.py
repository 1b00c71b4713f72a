"""`serve --container` with a real Podman: an own image with a stand-in for vLLM, run, ended, and cleared away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.journeys.conftest import lay_model

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]
STANDIN = Path(__file__).parents[1] / "journeys" / "serve" / "standin_vllm.py"
IMAGE = "localhost/standin-vllm:v0.32.0"
# The image's entry point, which the stand-in starts again as its engine.
PROGRAM = """#!{python} -I
import os, runpy, sys
os.environ["STANDIN_PYTHON"] = sys.argv[0]
runpy.run_path("/standin.py", run_name="__main__")
"""
NOT_IN_THE_IMAGE = {"test", "tests", "site-packages", "__pycache__", "idlelib", "ensurepip", "tkinter", "lib2to3"}


def make_image(tar: Path) -> None:
    """A root folder with this Python, the libraries that it links, and the stand-in, at the same paths as here."""
    python, library = Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))
    linked: set[str] = set()
    for binary in (python, *library.glob("lib-dynload/*.so")):
        said = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False).stdout
        linked |= {word for word in said.split() if word.startswith("/")}
    program = tar.with_suffix(".program")
    program.write_text(PROGRAM.format(python=python))
    program.chmod(0o755)
    with tarfile.open(tar, "w") as root:
        root.add(python, python)
        for name in linked:
            root.add(Path(name).resolve(), name)
        root.add(library, library, filter=lambda entry: None if Path(entry.name).name in NOT_IN_THE_IMAGE else entry)
        root.add(STANDIN, "standin.py")
        root.add(program, "vllm")
        for name in ("tmp", "proc", "sys", "dev", "etc", "root"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            root.addfile(folder)


@dataclass
class Place:
    """A home, a Podman with a store of its own, and llm-setup on both."""

    root: Path
    env: dict[str, str]

    def podman(self, *words: str | Path) -> str:
        return subprocess.run(["podman", *words], env=self.env, capture_output=True, text=True, check=True).stdout

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "wizard", *words]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=120)

    def serve(self, *more: str) -> subprocess.CompletedProcess[str]:
        words = ("--container", "--image", IMAGE, "--model", str(self.root / "a model"))
        return self.run("serve", "--detach", *words, *more)

    def server(self) -> dict:
        (row,) = json.loads(self.run("status", "--json").stdout)["servers"]
        return row

    def containers(self) -> list[str]:
        return self.podman("ps", "--all", "--format", "{{.Names}}").split()


@pytest.fixture(scope="module")
def place(find_program: Callable[[str, str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    find_program("podman", "podman")
    find_program("runc", "runc")
    root = tmp_path_factory.mktemp("podman")
    lay_model(root / "a model")
    # What a machine in a machine may not give is not asked for: higher limits than its own, a layered file system.
    limits = ["nofile=1024:1024", "nproc=1024:1024"]
    settings = {
        "containers.conf": f"[containers]\ndefault_ulimits = {json.dumps(limits)}\n"
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n',
        "storage.conf": f'[storage]\ndriver = "vfs"\ngraphroot = "{root}/store"\nrunroot = "{root}/run"\n',
    }
    for name, text in settings.items():
        (root / name).write_text(text)
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    home = root / "home"
    home.mkdir()
    made = Place(
        root,
        kept
        | {
            "HOME": str(home),
            "LLM_SETUP_HOME": str(home / "own"),
            "LLM_SETUP_PLAIN": "1",
            "CONTAINERS_CONF": str(root / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(root / "storage.conf"),
        },
    )
    make_image(root / "image.tar")
    made.podman("import", "--change", 'ENTRYPOINT ["/vllm"]', root / "image.tar", IMAGE)
    yield made
    made.run("stop", "--all")
    made.podman("rm", "--all", "--force")


def test_a_server_in_a_container_is_ready_and_gone_when_it_is_stopped(place: Place) -> None:
    started = place.serve()
    assert started.returncode == 0, started.stdout + started.stderr
    row = place.server()
    assert (row["state"], row["max_model_len"]) == ("ready", 8192)
    assert place.containers() == ["llm-setup-local"]
    key = json.loads((place.root / "home/own/state/secrets.json").read_text())["server-local"]
    assert key not in place.podman("ps", "--all", "--no-trunc") + " ".join(row["command"])
    stopped = place.run("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert place.containers() == []


def test_a_container_outlives_its_killed_client_and_is_ended_by_the_next_start_and_by_stop(place: Place) -> None:
    assert place.serve().returncode == 0
    port = place.server()["url"].rpartition(":")[2]
    os.kill(place.server()["pid"], signal.SIGKILL)
    assert place.containers() == ["llm-setup-local"]
    # The port can be had only when the first container let go of it.
    again = place.serve("--port", port)
    assert again.returncode == 0, again.stdout + again.stderr
    assert place.server()["state"] == "ready"
    os.kill(place.server()["pid"], signal.SIGKILL)
    assert place.run("stop").returncode == 0
    assert place.containers() == []
