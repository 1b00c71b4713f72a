"""The profiles file: named endpoints and which one is active."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from wizard.effects.files import Files
from wizard.effects.lock import locked
from wizard.endpoint.model import CAPABILITIES, Capability, EndpointKind, Profile
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, move_away


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles by name; `active` is the one that commands use, `previous` what `use -` goes back to."""

    by_name: dict[str, Profile]
    active: str = ""
    previous: str = ""


def _profile(name: str, value: dict[str, Any]) -> Profile:
    return Profile(
        name=name,
        openai_base_url=str(value["openai_base_url"]),
        anthropic_base_url=value.get("anthropic_base_url"),
        model=str(value["model"]),
        key_reference=str(value.get("key_reference") or ""),
        max_model_len=value.get("max_model_len"),
        speaks=tuple(cast(Capability, word) for word in value.get("speaks", ()) if word in CAPABILITIES),
        kind=cast(EndpointKind, value.get("kind", "unknown")),
        server=str(value.get("server") or ""),
    )


class ProfileStore:
    """Reads and writes `profiles.json` in the state folder."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self.path = path

    def load(self) -> Profiles:
        """All profiles; none where the file is missing. A file that does not parse is a problem, never overwritten."""
        raw = self._files.read_bytes(self.path)
        if raw is None:
            return Profiles({})
        try:
            document = json.loads(raw)
            found = {name: _profile(name, value) for name, value in document["profiles"].items()}
            return Profiles(found, str(document.get("active") or ""), str(document.get("previous") or ""))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ProblemError(
                Problem(
                    "state-file-broken",
                    t("The profiles file does not parse; it was left as it is."),
                    saw=(f"{self.path}: {error}",),
                    fix=Fix(
                        t("Mend the file, or move it away to start with no profiles."),
                        (move_away(self.path),),
                    ),
                )
            ) from error

    def save(self, profiles: Profiles) -> None:
        """Write all profiles (private: URLs may name hosts inside a company)."""
        self._files.write_private(self.path, self._text(profiles))

    def _text(self, profiles: Profiles) -> bytes:
        document = {
            "schema_version": 1,
            "active": profiles.active,
            "previous": profiles.previous,
            "profiles": {name: profile.as_json() for name, profile in profiles.by_name.items()},
        }
        return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"

    def update(self, change: Callable[[Profiles], Profiles]) -> bool:
        """Load, change and save while no other llm-setup does; returns whether the file changed."""
        with locked(self.path.with_name("lock")):
            before = self.load()
            after = change(before)
            if after == before:
                return False
            self.save(after)
            return True

    def put(self, profile: Profile, *, activate: bool, activate_first: bool = False) -> bool:
        """Add or replace one profile; returns whether the file changed. activate_first: where it is the only one."""

        def change(before: Profiles) -> Profiles:
            active = profile.name if activate or (activate_first and not before.by_name) else before.active
            left = before.active and before.active != active
            return Profiles(
                {**before.by_name, profile.name: profile}, active, before.active if left else before.previous
            )

        return self.update(change)

    def remove(self, name: str) -> bool:
        """Forget one profile; returns whether the file changed."""
        return self.update(
            lambda before: Profiles(
                {key: value for key, value in before.by_name.items() if key != name},
                "" if before.active == name else before.active,
                "" if before.previous == name else before.previous,
            )
        )

    def activated(self, name: str) -> tuple[bytes | None, bytes | None]:
        """The file as it is, and as it becomes with that profile active, for a transaction over more than it."""
        raw, before = self._files.read_bytes(self.path), self.load()
        if before.active == name:
            return raw, raw
        return raw, self._text(replace(before, active=name, previous=before.active))
