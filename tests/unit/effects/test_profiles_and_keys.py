"""Profiles and keys that several commands write at once are all kept."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail
from keyring.errors import KeyringLocked

from wizard.effects import secrets
from wizard.effects.files import Files
from wizard.effects.profiles import ProfileStore
from wizard.effects.secrets import SecretStore
from wizard.endpoint.model import Profile
from wizard.secret import Secret

KEY = Secret("sk-planted-0123456789abcdefXYZ")
OFF = {"LLM_SETUP_KEYRING": "off"}


def put_many(folder: Path, writer: int) -> None:
    profiles = ProfileStore(Files(), folder / "profiles.json")
    secrets = SecretStore(Files(), folder / "secrets.json", OFF)
    for number in range(5):
        name = f"{writer}-{number}"
        secrets.put(name, Secret(f"key-of-{name}"))
        profiles.put(Profile(name, "http://h/v1", None, "m"), activate=False, activate_first=True)


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=put_many, args=(tmp_path, writer)) for writer in range(4)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
        assert process.exitcode == 0
    names = {f"{writer}-{number}" for writer in range(4) for number in range(5)}
    profiles = ProfileStore(Files(), tmp_path / "profiles.json").load()
    assert set(profiles.by_name) == names
    assert profiles.active in {f"{writer}-0" for writer in range(4)}
    secrets = SecretStore(Files(), tmp_path / "secrets.json", OFF)
    assert {name for name in names if secrets.get(f"store:{name}") == Secret(f"key-of-{name}")} == names


def test_removing_and_switching_remember_the_one_before(tmp_path: Path) -> None:
    store = ProfileStore(Files(), tmp_path / "profiles.json")
    for name in ("a", "b"):
        store.put(Profile(name, "http://h/v1", None, "m"), activate=True)
    assert (store.load().active, store.load().previous) == ("b", "a")
    before, after = store.activated("a")
    assert before != after
    store.path.write_bytes(after)
    assert store.activated("a") == (after, after)
    assert (store.load().active, store.load().previous) == ("a", "b")
    store.remove("b")
    assert (store.load().active, store.load().previous, list(store.load().by_name)) == ("a", "", ["a"])


def test_keys_in_a_keyring_are_known_by_name_until_they_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring: dict[str, str] = {}

    class Ring:
        get_password = staticmethod(lambda service, name: ring.get(name))
        set_password = staticmethod(lambda service, name, value: ring.update({name: value}))
        delete_password = staticmethod(lambda service, name: ring.pop(name))

    monkeypatch.setattr(SecretStore, "_keyring", lambda self: Ring)
    store = SecretStore(Files(), tmp_path / "secrets.json", {})
    for name in ("profile:a", "server:b", "profile:a"):
        store.put(name, Secret(f"sk-key-of-{name}"))
    assert SecretStore(Files(), tmp_path / "secrets.json", {}).names() == ("profile:a", "server:b")
    assert not (tmp_path / "secrets.json").exists()
    store.forget("profile:a")
    assert (store.names(), list(ring)) == (("server:b",), ["server:b"])
    (tmp_path / "keyring-names.json").write_text("5")
    assert store.names() == ()


class Ring(KeyringBackend):
    """A system keyring with moods: what each question does beside (or instead of) answering it."""

    priority = 9

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.moods: dict[str, Callable[..., None]] = {}

    def get_password(self, service: str, username: str) -> str | None:
        self.moods.get("get", lambda name: None)(username)
        return self.kept.get(username)

    def set_password(self, service: str, username: str, password: str) -> None:
        self.moods.get("set", lambda name, key: self.kept.update({name: key}))(username, password)

    def delete_password(self, service: str, username: str) -> None:
        self.moods.get("delete", lambda name: self.kept.pop(name))(username)


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ring]:
    before, ring = keyring.get_keyring(), Ring()
    keyring.set_keyring(ring)
    monkeypatch.setattr(secrets, "_KEYRING_WAIT_S", 0.2)
    yield ring
    keyring.set_keyring(before)


def locked(*words: str) -> None:
    raise KeyringLocked(f"locked: {' '.join(words)}")


def silent(*words: str) -> None:
    threading.Event().wait(2)


def forgetful(*words: str) -> None:
    """As a back end that keeps nothing."""


@pytest.mark.parametrize("mood", [locked, silent, forgetful])
def test_a_key_that_the_keyring_does_not_take_goes_to_the_file(
    mood: Callable[..., None], ring: Ring, tmp_path: Path
) -> None:
    ring.moods["set"] = mood
    store = SecretStore(Files(), tmp_path / "secrets.json", {})
    assert store.put("profile:a", KEY) == "store:profile:a"
    for again in (store, SecretStore(Files(), tmp_path / "secrets.json", {})):
        assert again.get("store:profile:a") == KEY
        assert again.place_of("store:profile:a") == str(tmp_path / "secrets.json")
        assert again.names() == ("profile:a",)
    ring.moods.clear()
    later = SecretStore(Files(), tmp_path / "secrets.json", {})
    newer = Secret("sk-another-key-of-mine")
    later.put("profile:a", newer)
    assert (ring.kept, later.get("store:profile:a")) == ({"profile:a": newer.reveal()}, newer)
    assert KEY.reveal() not in (tmp_path / "secrets.json").read_text()


@pytest.mark.parametrize("mood", [locked, silent])
def test_a_keyring_that_does_not_answer_is_said_and_asked_once(
    mood: Callable[..., None], ring: Ring, tmp_path: Path
) -> None:
    SecretStore(Files(), tmp_path / "secrets.json", {}).put("profile:a", KEY)
    asked: list[str] = []

    def ask(name: str) -> None:
        asked.append(name)
        mood(name, KEY.reveal())

    ring.moods["get"] = ask
    store = SecretStore(Files(), tmp_path / "secrets.json", {})
    assert [store.get("store:profile:a"), store.get("store:profile:a")] == [None, None]
    assert len(asked) == 1
    problem = store.why_not("store:profile:a")
    assert problem is not None
    assert problem.code == "keyring-unavailable"
    assert KEY.reveal() not in str(problem)
    left = store.forget("profile:a")
    assert left is not None
    assert (left.code, left.severity) == ("keyring-unavailable", "warning")
    assert left.fix is not None
    assert "profile:a" in left.fix.text
    assert store.names() == ("profile:a",)
    assert store.why_not("store:profile:b") is None
    ring.moods.clear()
    SecretStore(Files(), tmp_path / "secrets.json", {}).forget("profile:a")
    assert (ring.kept, store.names()) == ({}, ())


def test_a_session_without_a_keyring_says_where_the_key_is(ring: Ring, tmp_path: Path) -> None:
    SecretStore(Files(), tmp_path / "secrets.json", {}).put("profile:a", KEY)
    for session in ({"LLM_SETUP_KEYRING": "off"}, {}):
        keyring.set_keyring(ring if session else fail.Keyring())
        store = SecretStore(Files(), tmp_path / "secrets.json", session)
        assert store.get("store:profile:a") is None
        problem = store.why_not("store:profile:a")
        assert problem is not None
        assert problem.code == "keyring-unavailable"


def remember_many(folder: Path, writer: int) -> None:
    keyring.set_keyring(Ring())
    for number in range(5):
        SecretStore(Files(), folder / "secrets.json", {}).put(f"{writer}-{number}", KEY)


def test_names_of_keys_that_are_kept_at_the_same_time_are_all_known(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=remember_many, args=(tmp_path, writer)) for writer in range(4)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
        assert process.exitcode == 0
    assert len(SecretStore(Files(), tmp_path / "secrets.json", OFF).names()) == 20
