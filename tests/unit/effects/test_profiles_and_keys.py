"""Profiles and keys that several commands write at once are all kept."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from wizard.effects.files import Files
from wizard.effects.profiles import ProfileStore
from wizard.effects.secrets import SecretStore
from wizard.endpoint.model import Profile
from wizard.secret import Secret

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
