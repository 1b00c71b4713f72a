"""No key may show, in any test of the suite: the leak test.

Every key that a test gives to a program (a variable named like one, `--api-key-file`), that the wizard makes for a
server of its own, or that is made in the test's own process is a planted one. When a test ends, all that it left is
searched for all of them, in every form in which files escape them:

- what the wizard printed, on pipes, files and pseudo-terminals, and what real clients printed;
- the arguments of every program that the test, the wizard or a Python below them started;
- every file that the wizard wrote: logs, crash reports and reports hold no key; others (client files, kept originals,
  the store) only where nobody else can read them, unless the user's own file held that very key before.

A test that shows a key because that is what it tests says so: `@pytest.mark.shows_key`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from wizard import secret
from wizard.ui import screen

_SITE = Path(__file__).parent / "watched"
_SHORTEST = 8
_KEY_NAMES = re.compile(r"(?i)(key|token|secret|password)$")
# What stands for "no key" in clients that insist on one.
_NO_KEYS = ("no-key-needed",)
_NEVER_WITH_A_KEY = re.compile(r"(\.(log|jsonl|html|svg)(\.\d+)?|/logs/.*)$")


@functools.cache
def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def load_script() -> Callable[[str], ModuleType]:
    """`load_script("messages")`: scripts/messages.py as a module, which is in no package; once for all tests."""
    return lambda name: _load(Path(name).name, Path(__file__).parents[1] / "scripts" / f"{name}.py")


watched = _load("leak_watch", _SITE / "sitecustomize.py")

# Where the suite was started by `nohup`, programs below it would not hear a terminal close.
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@dataclass
class Watch:
    """What one test (or the session's own fixtures) left to search. folder: what its processes wrote down."""

    folder: Path
    keys: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    argv: list[list[str]] = field(default_factory=list)
    printed: dict[str, list[str]] = field(default_factory=dict)

    def plant(self, name: str, value: str) -> None:
        """A variable that goes into a program's environment."""
        if _KEY_NAMES.search(name) and os.environ.get(name) != value:
            self.keys.add(value.strip())

    def hear(self, where: str, text: str) -> None:
        """Something printed."""
        self.printed.setdefault(where, []).append(text)

    def forms(self) -> tuple[str, ...]:
        """Every key in every form; what is too short or too plain to be told from other text is no key."""
        forms = {form for key in self.keys for form in secret.written_forms(key)}
        return tuple(form for form in forms if _can_be_told(form))

    def leaks(self) -> list[str]:
        """Each place where a key shows, and which key."""
        self._take_from_processes()
        if not (self.printed or self.argv or self.files):
            return []
        places = [(where, "".join(texts)) for where, texts in self.printed.items()]
        places += [(f"the arguments of `{words[0]}`", "\0".join(words)) for words in self.argv if words]
        forms = self.forms()
        found = [_say(form, where) for where, text in places for form in _in(forms, text)]
        for path in map(Path, sorted(self.files)):
            if not path.is_relative_to(self.folder):
                found += self._in_file(path, forms)
        return found

    def _take_from_processes(self) -> None:
        started: dict[str, list[str]] = {}
        for pid, kind, value in watched.lines_of(str(self.folder)):
            if kind == "start":
                started[pid] = value
            elif kind == "argv":
                self.argv.append(value)
            elif kind == "written":
                self.files.add(value)
                self._take_from_store(Path(value))
            elif not _prints_the_key(started.get(pid, [])):
                self.hear(f"{kind} of `{' '.join(started.get(pid, [])[1:])}`", value)

    def _take_from_store(self, path: Path) -> None:
        """Keys that the wizard made itself, for a server of its own, are in its store."""
        if path.name == "secrets.json":
            with contextlib.suppress(OSError, ValueError, AttributeError):
                self.keys |= {key for key in json.loads(path.read_text()).values() if isinstance(key, str)}

    def _in_file(self, path: Path, forms: Iterable[str]) -> Iterator[str]:
        try:
            content = path.read_bytes()
            mode = path.stat().st_mode
        except OSError:
            return
        if not stat.S_ISREG(mode):
            return
        text = content.decode(errors="replace")
        private = stat.S_IMODE(mode) & 0o077 == 0
        if private and not _NEVER_WITH_A_KEY.search(str(path)):
            return
        before = ""
        with contextlib.suppress(OSError):
            before = Path(watched.kept_first(str(self.folder), str(path))).read_text(errors="replace")
        for form in _in(forms, text):
            if form not in before:
                yield _say(form, f"{path} (mode {stat.S_IMODE(mode):o})")


def _can_be_told(form: str) -> bool:
    return len(form) >= _SHORTEST and len(set(form)) > _SHORTEST // 2 and form not in _NO_KEYS


def _in(forms: Iterable[str], text: str) -> list[str]:
    return [form for form in forms if form in text]


def _say(form: str, where: str) -> str:
    return f"the key {form[:4]}…{form[-2:]} ({len(form)} characters) shows in {where}"


def _prints_the_key(words: list[str]) -> bool:
    """Whether that command is there to print a key: `env` for a shell, `profiles key` for a client's helper."""
    said = words[words.index("wizard") + 1 :] if "wizard" in words else words[2:]
    return ("env" in said[:1] and "--json" not in said) or said[:2] == ["profiles", "key"]


_current: Watch | None = None


def _say_here(kind: str, value: Any) -> None:
    if _current is not None:
        if kind == "written":
            _current.files.add(value)
        else:
            _current.argv.append(value)


def _plant_from(command: Any, env: Mapping[str, str] | None) -> dict[str, str]:
    """The environment for a program that a test starts: it is watched, and its keys are known."""
    assert _current is not None
    given = dict(os.environ if env is None else env)
    for name, value in given.items():
        _current.plant(name, value)
    words = [str(word) for word in command] if isinstance(command, list | tuple) else []
    for option, file in itertools.pairwise(words):
        if option == "--api-key-file":
            with contextlib.suppress(OSError):
                _current.plant("KEY", Path(file).read_text())
    before = given.get("PYTHONPATH")
    return {
        **given,
        watched.VARIABLE: str(_current.folder),
        "PYTHONPATH": os.pathsep.join([str(_SITE), *([before] if before else [])]),
    }


def _from_a_test() -> bool:
    """Whether a test starts this program itself, and not the wizard's code under test."""
    return not watched._by_the_wizard()


class _WatchedPopen(subprocess.Popen):  # type: ignore[type-arg]
    """Programs that tests start are watched; what the wizard's own code starts in this process is as it is."""

    def __init__(self, args: Any, *more: Any, **options: Any) -> None:
        if _current is not None and _from_a_test():
            options["env"] = _plant_from(args, options.get("env"))
        super().__init__(args, *more, **options)


def _watch_pexpect() -> None:
    try:
        from ptyprocess import PtyProcess
    except ImportError:
        return
    real = PtyProcess.spawn.__func__

    def spawn(cls: Any, argv: Any, cwd: Any = None, env: Any = None, **options: Any) -> Any:
        if _current is not None:
            env = _plant_from(argv, env)
            _current.argv.append([os.fsdecode(word) for word in argv])
        return real(cls, argv, cwd, env, **options)

    PtyProcess.spawn = classmethod(spawn)


def _watch_secrets() -> None:
    """Of tests that call the wizard's code: each key made is a planted one."""
    real = secret.Secret.__init__

    def init(made: secret.Secret, value: str) -> None:
        real(made, value)
        if _current is not None:
            _current.keys.add(value.strip())

    secret.Secret.__init__ = init  # type: ignore[method-assign]


def _print(*texts: str, **options: Any) -> None:
    if _current is not None:
        _current.hear("the screen", "\n".join(texts) + "\n")
    print(*texts, **options)


def pytest_configure(config: pytest.Config) -> None:
    """Start watching, in the processes that run tests."""
    if config.getoption("numprocesses", None):
        return
    subprocess.Popen = _WatchedPopen  # type: ignore[misc]
    _watch_pexpect()
    _watch_secrets()
    screen.print = _print  # type: ignore[attr-defined]
    watched.watch(_say_here, lambda: str(_current.folder) if _current else os.devnull)


SESSION = pytest.StashKey[Watch]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """What fixtures of the whole session start is searched at its end."""
    global _current
    if session.config.getoption("numprocesses", None):
        return
    folder = session.config._tmp_path_factory.mktemp("watched")  # type: ignore[attr-defined]
    _current = session.config.stash[SESSION] = Watch(folder)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Search what was left outside of tests."""
    watch = session.config.stash.get(SESSION, None)
    if watch is not None and (found := watch.leaks()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        session.config.stash[FOUND] = found


FOUND = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the leaks that no test could be blamed for."""
    for place in config.stash.get(FOUND, []):
        terminalreporter.write_line(f"LEAK: {place}", red=True)


@pytest.fixture(autouse=True)
def leak_watch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """Search what this test left, once everything of it is closed."""
    global _current
    whole_session = request.config.stash[SESSION]
    folder = whole_session.folder / f"test-{id(request):x}"
    folder.mkdir()
    _current = watch = Watch(folder)
    try:
        yield watch
    finally:
        _current = whole_session
    # Keys of the session's server are given to its programs by many tests.
    watch.keys |= whole_session.keys
    found = [] if request.node.get_closest_marker("shows_key") else watch.leaks()
    shutil.rmtree(folder, ignore_errors=True)
    if found:
        pytest.fail("a key shows:\n  " + "\n  ".join(found), pytrace=False)
