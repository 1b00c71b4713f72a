"""Where keys are kept: the system keyring where one works, else a file that only the user can read."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from wizard.effects.files import Files
from wizard.effects.lock import locked
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, move_away
from wizard.secret import Secret, redact

SERVICE = "llm-setup"
# Long enough for a password that somebody types into the keyring's dialog.
_KEYRING_WAIT_S = 30.0


class _NoAnswer(Exception):
    """The keyring raised something, or said nothing in time. Its text is what it said, without keys."""


class SecretStore:
    """Keys by name. A reference is `store:NAME` or `env:VARIABLE`.

    `LLM_SETUP_KEYRING=off` forces the file, for machines whose keyring asks questions nobody can answer. A name that is
    in the file is not looked up in the keyring: it came there when the keyring could not take it.
    """

    def __init__(self, files: Files, path: Path, env: Mapping[str, str]) -> None:
        self._files = files
        self._path = path
        self._env = env
        self._ring: Any = None
        self._ring_tried = False
        self._trouble = ""

    @property
    def _off(self) -> bool:
        # A state folder of its own means that nothing of this run belongs into the user's session keyring.
        return self._env.get("LLM_SETUP_KEYRING", "off" if self._env.get("LLM_SETUP_HOME") else "") == "off"

    def _keyring(self) -> Any:
        """The keyring module when its chosen back end really answers, else None."""
        if not self._ring_tried:
            self._ring_tried = True
            if not self._off:
                with contextlib.suppress(_NoAnswer):
                    self._ring = self._ask(_working_keyring)
        return self._ring

    def _ask(self, question: Callable[..., Any], *words: str) -> Any:
        """What the keyring answers. After one failure it is not asked again: raises _NoAnswer.

        Any back end may raise anything of its own (D-Bus, a locked collection, a missing library), and one that wants
        to show a dialog waits for ever where nobody sees it.
        """
        import threading

        answer: list[Any] = []

        def ask() -> None:
            try:
                answer.append(question(*words))
            except Exception as error:
                self._trouble = redact(f"{type(error).__name__}: {error}")

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(_KEYRING_WAIT_S)
        if answer:
            return answer[0]
        self._ring = None
        self._trouble = self._trouble or t("no answer within {seconds} s", seconds=f"{_KEYRING_WAIT_S:.0f}")
        raise _NoAnswer(self._trouble)

    @property
    def place(self) -> str:
        """Where new keys go, for people: the keyring's name or the file's path."""
        ring = self._keyring()
        return str(ring.get_keyring().name) if ring else str(self._path)

    def place_of(self, reference: str) -> str:
        """Where one key is, for people."""
        kind, _, name = reference.partition(":")
        if kind != "store":
            return reference
        return str(self._path) if name in self._load() else self.place

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
                    fix=Fix(t("Move it away and enter the keys again."), (move_away(self._path),)),
                )
            ) from error

    def _save(self, content: Mapping[str, str]) -> None:
        self._files.write_private(self._path, json.dumps(content, indent=2).encode() + b"\n")

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self._path.with_name("lock"))

    def put(self, name: str, key: Secret) -> str:
        """Keep a key; returns its reference. Writes nothing when the same key is kept already."""
        if self.get(f"store:{name}") != key:
            if self._put_into_ring(name, key):
                self._drop(name)
            else:
                with self._locked():
                    self._save({**self._load(), name: key.reveal()})
        return f"store:{name}"

    def _put_into_ring(self, name: str, key: Secret) -> bool:
        """Whether the keyring took the key, and gives it back as it was."""
        ring = self._keyring()
        if not ring:
            return False
        known = name in self._remembered()
        # Before the key: a name without a key is harmless, a key without a name would never be found again.
        self._remember(name, kept=True)
        with contextlib.suppress(_NoAnswer):
            self._ask(ring.set_password, SERVICE, name, key.reveal())
            if self._ask(ring.get_password, SERVICE, name) == key.reveal():
                return True
        self._remember(name, kept=known)
        return False

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

    def _remember(self, name: str, kept: bool) -> None:
        """Write down that the keyring has the name, or has it no more."""
        if (name in self._remembered()) != kept:
            with self._locked():
                others = [other for other in self._remembered() if other != name]
                wanted = [*others, name] if kept else others
                self._files.write_private(self._index, json.dumps(wanted, indent=2).encode() + b"\n")

    def get(self, reference: str) -> Secret | None:
        """The key behind a reference, or None where it is gone, or cannot be had now (see `why_not`)."""
        kind, _, name = reference.partition(":")
        if kind == "env":
            return Secret(self._env[name]) if self._env.get(name) else None
        if kind != "store":
            return None
        value = self._load().get(name)
        if value is None and (ring := self._keyring()):
            with contextlib.suppress(_NoAnswer):
                value = self._ask(ring.get_password, SERVICE, name)
        return Secret(value) if value else None

    def why_not(self, reference: str) -> Problem | None:
        """Why a key cannot be had that is kept all the same; None where it can, or is kept nowhere."""
        kind, _, name = reference.partition(":")
        if kind != "store" or name in self._load() or name not in self._remembered():
            return None
        if self._keyring() and not self._trouble:
            return None
        return self._unavailable(name)

    def _unavailable(self, name: str) -> Problem:
        off = t("LLM_SETUP_KEYRING is off, or LLM_SETUP_HOME is set")
        why = off if self._off else self._trouble or t("there is none in this session")
        return Problem(
            "keyring-unavailable",
            t("The key `{name}` is in the system keyring, which does not give it.", name=name),
            t("A keyring belongs to a desktop session: it may be locked, or out of reach over SSH and in containers."),
            (why,),
            Fix(
                t("Unlock the keyring and run the command again; or enter the key again, to be kept in a file."),
                ("export LLM_SETUP_KEYRING=off",),
            ),
        )

    def forget(self, name: str) -> Problem | None:
        """Remove a key from wherever it is; a warning where the keyring does not let go of it.

        The file's is gone then all the same, and the name stays written down, to be tried again.
        """
        left = None
        if self._take_out_of_ring(name):
            self._remember(name, kept=False)
        elif name in self._remembered():
            left = replace(
                self._unavailable(name),
                what=t("The key `{name}` stays in the system keyring, which does not let go of it.", name=name),
                fix=Fix(
                    t(
                        "Once the keyring is unlocked, delete its entry `{name}` of `{service}` there.",
                        name=name,
                        service=SERVICE,
                    )
                ),
                severity="warning",
            )
        self._drop(name)
        return left

    def _take_out_of_ring(self, name: str) -> bool:
        """Whether the keyring answered, and has the key no more."""
        ring = self._keyring()
        if not ring:
            return False
        with contextlib.suppress(_NoAnswer):
            if self._ask(ring.get_password, SERVICE, name) is not None:
                self._ask(ring.delete_password, SERVICE, name)
            return True
        return False

    def _drop(self, name: str) -> None:
        """Take a key out of the file."""
        if name in self._load():
            with self._locked():
                self._save({key: value for key, value in self._load().items() if key != name})


def _working_keyring() -> Any:
    """The keyring module, where its chosen back end stores anything at all, else None."""
    import keyring
    from keyring.backends import fail, null

    backend = keyring.get_keyring()
    if isinstance(backend, fail.Keyring | null.Keyring) or getattr(backend, "priority", 0) < 1:
        return None
    keyring.get_password(SERVICE, "probe")
    return keyring
