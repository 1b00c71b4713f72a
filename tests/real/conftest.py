"""A real vLLM, real clients, and homes to put them in.

Before the first test everything is installed and the one server of the session is started, two things at a time, so
that each test's time is its own. `LLM_SETUP_TEST_CACHE`: where to install (default `.cache/real`).
`LLM_SETUP_TEST_VLLM`: a virtual environment with a vLLM to use instead of installing one.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from . import tiny_models
from .first_light import FirstLight, run_first_light
from .homes import Home, make_home, programs_of
from .installing import (
    HERE,
    Client,
    cache_folder,
    client_bin,
    clients,
    made_once,
    run,
    system_program,
    tokenizer_gguf,
)
from .processes import PRINTED, end_marked, marked
from .vllm_servers import Nursery, RealServer, serve_by_wizard, start_vllm, stop_by_wizard, stop_vllm

SERVED_NAME = "Scripted/Ready-64k"
SERVER_ARGUMENTS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


class Workshop:
    """What the session installs and starts, each once and in the background; a failure shows where it is needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds: dict[str, float] = {}
        self.servers: list[RealServer] = []
        self.left: dict[int, str] = {}
        # Two installers: there are two cores. What waits for another job has threads of its own.
        self.installers = ThreadPoolExecutor(2)
        self.waiters = ThreadPoolExecutor(8)
        self.jobs: dict[str, Future] = {}

    def submit(self, name: str, job: Callable, *arguments: object, waits: bool = True) -> Future:
        """The running or finished job of that name, started now if it is new."""

        def timed() -> object:
            begun = time.monotonic()
            try:
                return job(*arguments)
            finally:
                self.seconds[name] = time.monotonic() - begun

        if name not in self.jobs:
            self.jobs[name] = (self.waiters if waits else self.installers).submit(timed)
        return self.jobs[name]

    def program(self, client: Client) -> Path:
        """The client's program."""
        return self.submit(client.name, client_bin, client, waits=False).result()

    def first_light(self) -> FirstLight:
        """The README's first line, run once in a fresh clone and an empty home, both in a folder with a blank and
        letters beyond ASCII in its name."""
        return self.submit("first light", run_first_light, self.folder / "first light é").result()

    def runtime(self) -> Path:
        """The Python of a virtual environment with vLLM: the one named, else that which the README's line installed."""
        given = os.environ.get("LLM_SETUP_TEST_VLLM")
        return Path(given).absolute() / "bin" / "python" if given else self.first_light().runtime_python

    def gguf(self) -> Path:
        """SmolLM2 as GGUF."""
        return self.submit("smollm2", tokenizer_gguf).result()

    def scripted_model(self) -> Path:
        """The folder of the model that answers by script, made anew when the script changes."""

        def make() -> Path:
            script = HERE / "scripted_model.py"
            version = script.stat().st_mtime_ns
            python, gguf = self.runtime(), self.gguf()
            return made_once(
                cache_folder() / f"scripted-model-{version}", lambda folder: run(python, script, gguf, folder)
            )

        return self.submit("scripted model", make).result()

    def start(self, folder: Path, **how: object) -> RealServer:
        """A server that is stopped at the end of the session at the latest."""
        nursery = self.submit("nursery", lambda: Nursery(self.runtime(), self.folder / "nursery")).result()
        server = start_vllm(nursery, folder, self.folder / f"server-{len(self.servers)}", **how)
        self.servers.append(server)
        return server

    def start_scripted(self) -> RealServer:
        """Start the session's one server, as a user does."""
        key_file = self.folder / "key"
        key_file.write_text(f"sk-real-{secrets.token_hex(16)}")
        return serve_by_wizard(
            self.runtime(),
            self.scripted_model(),
            self.folder / "wizard",
            key_file=key_file,
            served_name=SERVED_NAME,
            arguments=SERVER_ARGUMENTS,
        )

    def scripted_server(self) -> RealServer:
        """The session's one server."""
        return self.submit("scripted server", self.start_scripted).result()

    def close(self) -> None:
        """Stop all servers; whatever else still runs with our mark is killed."""
        self.installers.shutdown(wait=False, cancel_futures=True)
        self.waiters.shutdown(wait=False, cancel_futures=True)
        if any(job.running() for job in self.jobs.values()):
            end_marked()  # interrupted: what the jobs wait for
        self.installers.shutdown(wait=True)
        self.waiters.shutdown(wait=True)
        for server in self.servers:
            stop_vllm(server)
        nursery = self.jobs.get("nursery")
        if nursery and nursery.done() and not nursery.cancelled() and not nursery.exception():
            nursery.result().close()
        if (self.folder / "wizard").exists():
            stop_by_wizard(self.folder / "wizard")
        self.left = end_marked()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here are real ones; none takes longer than five minutes once everything is installed."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.real)
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(300))


WORKSHOP = pytest.StashKey[Workshop]()


def pytest_runtestloop(session: pytest.Session) -> None:
    """Install and start what the selected tests ask for, before the first of them."""
    ours = [item for item in session.items if item.path.is_relative_to(HERE)]
    if session.config.option.collectonly or not ours:
        return
    # A time limit on the whole run (CI, `timeout`) ends it by SIGTERM: stop the servers then, too.
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))
    base = Path(session.config._tmp_path_factory.mktemp("real"))  # type: ignore[attr-defined]
    workshop = session.config.stash[WORKSHOP] = Workshop(base)
    fixtures = {name for item in ours for name in getattr(item, "fixturenames", ())}
    if "first_light" in fixtures:
        workshop.submit("first light", run_first_light, base / "first light é")
    if "scripted_server" in fixtures:
        workshop.submit("scripted server", workshop.start_scripted)
    named = [callspec.params.get("client") for item in ours if (callspec := getattr(item, "callspec", None))]
    for client in clients().values():
        if client in named:
            workshop.submit(client.name, client_bin, client, waits=False)
    for job in list(workshop.jobs.values()):
        job.exception()  # shown by the test that needs it


def pytest_sessionfinish(session: pytest.Session) -> None:
    """No process of ours outlives the session."""
    if workshop := session.config.stash.get(WORKSHOP, None):
        workshop.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How the time before the tests was spent."""
    if workshop := config.stash.get(WORKSHOP, None):
        parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in workshop.seconds.items())
        terminalreporter.write_line(f"real: installed and started, two to three at a time: {parts}")
        for pid, line in workshop.left.items():
            terminalreporter.write_line(f"real: was still running at the end: {pid} {line[:150]}")


@pytest.fixture(autouse=True)
def _real_clients_are_heard(leak_watch: Any) -> Iterator[None]:
    """The leak test searches what real clients print, too."""
    yield
    leak_watch.hear("what a program printed", "\n".join(PRINTED))
    PRINTED.clear()


@pytest.fixture(scope="session")
def workshop(request: pytest.FixtureRequest) -> Workshop:
    """The session's workshop."""
    return request.config.stash[WORKSHOP]


@pytest.fixture(scope="session")
def first_light(workshop: Workshop) -> FirstLight:
    """A home in which the README's first line has run."""
    return workshop.first_light()


@pytest.fixture(scope="session")
def vllm_runtime(workshop: Workshop) -> Path:
    """The Python of a virtual environment with a vLLM that serves on this machine."""
    return workshop.runtime()


@pytest.fixture(scope="session")
def scripted_server(workshop: Workshop) -> RealServer:
    """A real vLLM, with a key and the hermes tool parser, whose model answers by script. One for the session."""
    return workshop.scripted_server()


@pytest.fixture
def start_server(workshop: Workshop) -> Iterator[Callable[..., RealServer]]:
    """`start_server(folder, key=..., served_name=..., arguments=..., env=...)`: a server for this test alone."""
    started: list[RealServer] = []

    def start(folder: Path, **how: object) -> RealServer:
        started.append(workshop.start(folder, **how))
        return started[-1]

    yield start
    for server in started:
        stop_vllm(server)


@pytest.fixture(scope="session")
def scripted_model(workshop: Workshop) -> Path:
    """The folder of the model that answers by script."""
    return workshop.scripted_model()


@pytest.fixture(scope="session")
def tiny_model(workshop: Workshop) -> Callable[[str], Path]:
    """`tiny_model("dense" | "dense-135m" | "sliding" | "moe" | "mla" | "recurrent" | "mamba")`: a folder with config
    and tokenizer, no weights; it is served with `--load-format dummy`."""

    def make(kind: str) -> Path:
        place = workshop.folder / "tiny" / kind
        return place if place.exists() else tiny_models.write(kind, workshop.gguf(), place)

    return make


@pytest.fixture(params=["empty", "lived-in"])
def home_kind(request: pytest.FixtureRequest) -> str:
    """Which home."""
    return request.param


@pytest.fixture
def home(home_kind: str, client: Client, workshop: Workshop, tmp_path: Path) -> Iterator[Home]:
    """A home of that kind, the client on its PATH; whatever the client leaves running is ended."""
    before = frozenset(marked())
    yield make_home(
        tmp_path / "home", lived_in=home_kind == "lived-in", programs=programs_of(client, workshop.program(client))
    )
    end_marked(but=before)


@pytest.fixture(scope="session")
def wizard_on_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the PATH with `llm-setup` in it: this checkout's."""
    folder = tmp_path_factory.mktemp("bin")
    launcher = folder / "llm-setup"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m wizard "$@"\n')
    launcher.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def find_program() -> Callable[[str, str], Path]:
    """`find_program("nginx", "nginx-light")`: the program's path. Where there is none, CI installs that package, and
    fails if it cannot; elsewhere the test is skipped."""

    def find(name: str, package: str) -> Path:
        try:
            return system_program(name, package)
        except LookupError as error:
            if package and os.environ.get("CI") == "true":
                raise
            pytest.skip(str(error))

    return find


@pytest.fixture(scope="session")
def find_shell(find_program: Callable[[str, str], Path]) -> Callable[[str], Path]:
    """`find_shell("zsh")`: its path; as find_program. PowerShell has no package here."""
    return lambda name: find_program(name, name if name in ("bash", "dash", "zsh", "fish") else "")
