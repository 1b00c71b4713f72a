"""Where keys are kept: the system keyring where one works, else a file that only the user can read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from wizard.effects.files import Files
from wizard.effects.lock import locked
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError
from wizard.secret import Secret

SERVICE = "llm-setup"


class SecretStore:
    """Keys by name. A reference is `store:NAME` or `env:VARIABLE`.

    `LLM_SETUP_KEYRING=off` forces the file, for machines whose keyring asks questions nobody can answer.
    """

    def __init__(self, files: Files, path: Path, env: Mapping[str, str]) -> None:
        self._files = files
        self._path = path
        self._env = env
        self._ring: Any = None
        self._ring_tried = False

    def _keyring(self) -> Any:
        """The keyring module when its chosen back end really stores, else None. A broken back end counts as none."""
        if self._ring_tried:
            return self._ring
        self._ring_tried = True
        # A state folder of its own means that nothing of this run belongs into the user's session keyring.
        if self._env.get("LLM_SETUP_KEYRING", "off" if self._env.get("LLM_SETUP_HOME") else "") == "off":
            return None
        try:
            import keyring
            from keyring.backends import fail, null

            backend = keyring.get_keyring()
            if isinstance(backend, fail.Keyring | null.Keyring) or getattr(backend, "priority", 0) < 1:
                return None
            keyring.get_password(SERVICE, "probe")
        except Exception:  # any back end may raise anything of its own: D-Bus, a locked collection, a missing library
            return None
        self._ring = keyring
        return keyring

    @property
    def place(self) -> str:
        """Where keys go, for people: the keyring's name or the file's path."""
        ring = self._keyring()
        return str(ring.get_keyring().name) if ring else str(self._path)

    def _load(self) -> dict[str, str]:
        raw = self._files.read_bytes(self._path)
        if raw is None:
            return {}
        try:
            return {str(name): str(value) for name, value in json.loads(raw).items()}
        except (ValueError, AttributeError) as error:
            raise ProblemError(
                Problem(
                    "state-file-broken",
                    t("The file of keys does not parse; it was left as it is."),
                    saw=(str(self._path),),
                    fix=Fix(t("Move it away and enter the keys again."), (f"mv '{self._path}' '{self._path}.broken'",)),
                )
            ) from error

    def _save(self, content: Mapping[str, str]) -> None:
        self._files.write_private(self._path, json.dumps(content, indent=2).encode() + b"\n")

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self._path.with_name("lock"))

    def put(self, name: str, key: Secret) -> str:
        """Keep a key; returns its reference. Writes nothing when the same key is kept already."""
        if self.get(f"store:{name}") != key:
            ring = self._keyring()
            if ring:
                # Before the key: a name without a key is harmless, a key without a name would never be found again.
                self._remember((*self._remembered(), name))
                ring.set_password(SERVICE, name, key.reveal())
            else:
                with self._locked():
                    self._save({**self._load(), name: key.reveal()})
        return f"store:{name}"

    def names(self) -> tuple[str, ...]:
        """Of every key that is kept. A keyring cannot be asked for its names, so they are written down beside it."""
        return tuple(dict.fromkeys((*self._load(), *self._remembered())))

    @property
    def _index(self) -> Path:
        return self._path.with_name("keyring-names.json")

    def _remembered(self) -> tuple[str, ...]:
        raw = self._files.read_bytes(self._index)
        try:
            return tuple(map(str, json.loads(raw))) if raw else ()
        except (ValueError, TypeError):
            return ()  # a list of names alone: the next key writes it anew

    def _remember(self, names: Iterable[str]) -> None:
        wanted = list(dict.fromkeys(names))
        if wanted != list(self._remembered()):
            with self._locked():
                self._files.write_private(self._index, json.dumps(wanted, indent=2).encode() + b"\n")

    def get(self, reference: str) -> Secret | None:
        """The key behind a reference, or None where it is gone."""
        kind, _, name = reference.partition(":")
        if kind == "env":
            return Secret(self._env[name]) if self._env.get(name) else None
        if kind != "store":
            return None
        ring = self._keyring()
        value = ring.get_password(SERVICE, name) if ring else None
        if value is None:
            value = self._load().get(name)
        return Secret(value) if value else None

    def forget(self, name: str) -> None:
        """Remove a key from wherever it is."""
        ring = self._keyring()
        if ring and ring.get_password(SERVICE, name) is not None:
            ring.delete_password(SERVICE, name)
        self._remember(kept for kept in self._remembered() if kept != name)
        if name in self._load():
            with self._locked():
                self._save({key: value for key, value in self._load().items() if key != name})
