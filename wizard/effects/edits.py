"""Carries edits of client files out, all or none, and keeps what undoes them.

Below the originals folder (0700): `receipts.json`, contents by hash under `contents/` (0600), versions that a restore
replaced under `replaced/`, and the lock. A transaction is written down before its first visible step; when a crash cuts
it, the next one rolls it back first.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from wizard.clients.edit import Receipt
from wizard.effects.files import PRIVATE_MODE, Files, Staged, make_folders
from wizard.effects.lock import locked
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError

_PRIVATE_FOLDER = 0o700


@dataclass(frozen=True, slots=True)
class Change:
    """One file from `before` to `after` (None: no file). mode: permission bits to set, None: as they are."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class FileState:
    """What a path is now. `mode` is None where there is no file; `writable` looks at the owner's bit, root or not.

    names: how many hard links the file has.
    """

    content: bytes | None
    mode: int | None
    writable: bool
    names: int = 1


class EditStore:
    """The receipts and the transactions over client files."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self.folder = folder

    def observe(self, path: Path) -> FileState:
        """A file's content and mode. Raises ProblemError where it is there but cannot be read."""
        try:
            content = self._files.read_regular(path)
            found = path.stat() if content is not None else None
            mode = stat.S_IMODE(found.st_mode) if found else None
        except OSError as error:
            raise ProblemError(
                Problem(
                    "client-file-unreadable",
                    t("The file `{path}` cannot be read.", path=path),
                    saw=(str(error),),
                    fix=Fix(
                        t("Give yourself read access to it, or move away what is there: a plain file belongs there.")
                    ),
                )
            ) from error
        if found is not None and mode is not None:
            return FileState(content, mode, bool(mode & stat.S_IWUSR) and os.access(path, os.W_OK), found.st_nlink)
        folder = Path(os.path.realpath(path)).parent
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        return FileState(None, None, os.access(folder, os.W_OK))

    def receipts(self) -> dict[Path, Receipt]:
        """What was changed and not restored yet, by path."""
        return {receipt.path: receipt for receipt in map(self._receipt, self._load()["files"])}

    def ever(self) -> tuple[Path, ...]:
        """Every client file that was ever written, given back or not."""
        return tuple(map(Path, self._load()["ever"]))

    def replaced(self) -> tuple[Path, ...]:
        """Versions of others that a restore replaced and kept."""
        folder = self.folder / "replaced"
        return tuple(sorted(folder.iterdir())) if folder.is_dir() else ()

    def keep_replaced(self, path: Path, content: bytes, stamp: str) -> Path:
        """Keep a version that a restore is about to replace although it changed since; returns where."""
        folder = self.folder / "replaced"
        self._make_private(folder)
        # Several clients have a `settings.json`, and all are restored in one second.
        places = (folder / f"{stamp}-{number}{path.name}" for number in ("", *(f"{n}-" for n in range(2, 1000))))
        kept = next(place for place in places if self._files.read_bytes(place) in (None, content))
        self._files.write_private(kept, content)
        return kept

    def remove_empty_folders(self, folders: Iterable[Path]) -> None:
        """Remove folders that were made for a file, innermost first, where nothing else came into them."""
        for folder in sorted(set(folders), key=lambda path: len(path.parts), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def settle(self) -> None:
        """Roll back what a crash cut in two, before anything is planned on top of it; else writes nothing."""
        if self._load()["pending"]:
            with self.locked():
                pass  # taking the lock does it

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other llm-setup processes out while files change; waits 10 s for one that is at it."""
        self._make_private(self.folder)
        with locked(self.folder / "lock"):
            self._recover()
            yield

    def transact(self, changes: Sequence[Change], receipts: Mapping[Path, Receipt]) -> None:
        """Carry all changes out, or none, and keep `receipts` afterwards. Call inside `locked()`.

        Raises ProblemError with every file as it was: when one changed in between, cannot be written, or does not read
        back as written.
        """
        for change in changes:
            self._check(change)
        document = self._load()
        pending = [
            {
                "path": str(change.path),
                "before": self._keep(change.before),
                "mode": self.observe(change.path).mode,
                "after": _digest(change.after),
            }
            for change in changes
        ]
        after = {
            "schema_version": 1,
            "files": [self._row(receipt) for receipt in receipts.values()],
            "pending": [],
            "ever": list(dict.fromkeys((*document["ever"], *map(str, receipts)))),
        }
        made: list[Path] = []
        staged: list[tuple[Change, Staged | None]] = []
        try:
            self._save({**document, "pending": pending})
            for change in changes:
                made += missing_folders(change.path)
                staged.append(
                    (change, None)
                    if change.after is None
                    else (change, self._files.stage(change.path, change.after, mode=change.mode))
                )
            for change, new in staged:
                if new is None:
                    self._files.remove(Path(os.path.realpath(change.path)))
                else:
                    new.commit()
                if self._files.read_bytes(change.path) != change.after:
                    raise OSError(f"{change.path} does not read back as written")
            self._save(after)
        except BaseException as error:
            for _, new in staged:
                if new is not None:
                    new.discard()
            complete = self._roll_back(pending)
            for folder in reversed(made):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            if complete:
                with contextlib.suppress(OSError):
                    self._save({**document, "pending": []})
                    self._forget_unused(document)
            if isinstance(error, OSError):
                raise self._not_written(error) from error
            raise
        self._forget_unused(after)

    def _check(self, change: Change) -> None:
        state = self.observe(change.path)
        if state.content != change.before:
            raise ProblemError(
                Problem(
                    "client-file-changed",
                    t(
                        "The file `{path}` changed while the change to it was prepared; nothing was written.",
                        path=change.path,
                    ),
                    fix=Fix(t("Run the command again; close the client if it is running.")),
                )
            )
        if not state.writable:
            raise self._not_written(PermissionError(13, os.strerror(13), str(change.path)))
        folder = Path(os.path.realpath(change.path)).parent
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            raise self._not_written(PermissionError(13, os.strerror(13), str(folder)))

    def _not_written(self, error: OSError) -> ProblemError:
        where = str(error.filename or "")
        if isinstance(error, PermissionError) or error.errno == 30:
            return ProblemError(
                Problem(
                    "client-file-read-only",
                    t("`{path}` is read-only; no file was changed.", path=where),
                    t("A read-only file or folder is often meant so: managed dotfiles, another's home, a mount."),
                    (str(error),),
                    Fix(t("Make it writable, or change it where it is managed, then run the command again.")),
                )
            )
        return ProblemError(
            Problem(
                "client-file-not-written",
                t("The files could not be written; all are as they were."),
                saw=(str(error),),
                fix=Fix(t("See whether the disk is full, then run the command again.")),
            )
        )

    def _recover(self) -> None:
        """Roll back what a crash cut in two."""
        document = self._load()
        if not document["pending"]:
            return
        for row in document["pending"]:
            target = Path(os.path.realpath(row["path"]))
            for left_over in target.parent.glob(f".{glob.escape(target.name)}.*.llm-setup"):
                self._files.remove(left_over)
        if self._roll_back(document["pending"]):
            self._save({**document, "pending": []})

    def _roll_back(self, pending: Sequence[Mapping[str, Any]]) -> bool:
        """Put back what a transaction had changed so far; False: something could not be put back now, and stays
        written down for the next run."""
        complete = True
        for row in reversed(pending):
            path = Path(row["path"])
            try:
                current = self._files.read_bytes(path)
                before = self._content(row["before"])
                if current == before or _digest(current) != row["after"]:
                    continue
                if before is None:
                    self._files.remove(Path(os.path.realpath(path)))
                else:
                    self._files.write_bytes(path, before, mode=row["mode"])
            except OSError:
                complete = False
        return complete

    def _load(self) -> dict[str, Any]:
        path = self.folder / "receipts.json"
        raw = self._files.read_bytes(path)
        if raw is None:
            return {"schema_version": 1, "files": [], "pending": [], "ever": []}
        try:
            document = json.loads(raw)
            files, pending = list(document["files"]), list(document.get("pending", []))
            for row in files:
                row.setdefault("base", row.get("original"))
                _check_row(row, _RECEIPT_ROW)
            for row in pending:
                _check_row(row, _PENDING_ROW)
            ever = document.get("ever", [row["path"] for row in files])
            if not isinstance(ever, list) or not all(isinstance(path, str) for path in ever):
                raise TypeError(f"ever is {ever!r}")
            return {"schema_version": 1, "files": files, "pending": pending, "ever": ever}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ProblemError(
                Problem(
                    "state-file-broken",
                    t("The file of receipts does not parse; nothing was changed."),
                    saw=(f"{path}: {error}",),
                    fix=Fix(t("Mend the file; the first originals are in `contents` beside it.")),
                )
            ) from error

    def _save(self, document: Mapping[str, Any]) -> None:
        self._files.write_private(
            self.folder / "receipts.json", json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
        )

    def _make_private(self, folder: Path) -> None:
        try:
            make_folders(folder, _PRIVATE_FOLDER)
            folder.chmod(_PRIVATE_FOLDER)
        except OSError as error:
            raise self._not_written(error) from error

    def _keep(self, content: bytes | None) -> str | None:
        """Keep a content by its hash; None stands for no file."""
        if content is None:
            return None
        name = _digest(content) or ""
        path = self.folder / "contents" / name
        if self._files.read_bytes(path) != content:
            self._make_private(path.parent)
            try:
                self._files.write_private(path, content)
            except OSError as error:
                raise self._not_written(error) from error
        return name

    def _content(self, name: str | None) -> bytes | None:
        if not name:
            return None
        content = self._files.read_bytes(self.folder / "contents" / name)
        if content is None:
            raise ProblemError(
                Problem(
                    "original-missing",
                    t("The kept original is gone, so nothing was restored."),
                    saw=(str(self.folder / "contents" / name),),
                )
            )
        return content

    def _row(self, receipt: Receipt) -> dict[str, Any]:
        return {
            "path": str(receipt.path),
            "original": self._keep(receipt.original),
            "original_mode": receipt.original_mode,
            "written": self._keep(receipt.written),
            "clients": list(receipt.clients),
            "live": receipt.live,
            "format": receipt.format,
            "folders": [str(folder) for folder in receipt.folders],
            "edited_between": receipt.edited_between,
            "base": self._keep(receipt.base),
            "project": str(receipt.project) if receipt.project else None,
            "first_applied": receipt.first_applied,
            "last_applied": receipt.last_applied,
            "by_command": receipt.by_command,
        }

    def _receipt(self, row: Mapping[str, Any]) -> Receipt:
        return Receipt(
            path=Path(row["path"]),
            original=self._content(row["original"]),
            original_mode=row["original_mode"],
            written=self._content(row["written"]),
            clients=tuple(row["clients"]),
            live=row["live"],
            format=row["format"],
            folders=tuple(Path(folder) for folder in row["folders"]),
            edited_between=row["edited_between"],
            base=self._content(row["base"]),
            project=Path(row["project"]) if row["project"] else None,
            first_applied=row["first_applied"],
            last_applied=row["last_applied"],
            by_command=row.get("by_command") is True,
        )

    def _forget_unused(self, document: Mapping[str, Any]) -> None:
        """Contents hold keys: none stays longer than its receipt."""
        used = {row[name] for row in document["files"] for name in ("original", "written", "base")}
        with contextlib.suppress(OSError):
            for path in (self.folder / "contents").iterdir():
                if path.name not in used:
                    self._files.remove(path)


def private_mode(mode: int | None) -> int:
    """The mode of a file with a key inside: the owner's bits alone."""
    return PRIVATE_MODE if mode is None else mode & 0o700


def missing_folders(path: Path) -> list[Path]:
    """Folders above the path that are not there, outermost first."""
    missing: list[Path] = []
    folder = Path(os.path.realpath(path)).parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing[::-1]


_RECEIPT_ROW: dict[str, tuple[type, ...]] = {
    "path": (str,),
    "original": (str, NoneType),
    "original_mode": (int, NoneType),
    "written": (str, NoneType),
    "clients": (list,),
    "live": (bool,),
    "format": (str,),
    "folders": (list,),
    "edited_between": (bool,),
    "base": (str, NoneType),
    "project": (str, NoneType),
    "first_applied": (str,),
    "last_applied": (str,),
}
_PENDING_ROW: dict[str, tuple[type, ...]] = {
    "path": (str,),
    "before": (str, NoneType),
    "mode": (int, NoneType),
    "after": (str, NoneType),
}
# Contents are kept under their SHA-256; anything else in their place would be a path of somebody's choice.
_HASHES = ("original", "written", "base", "before")


def _check_row(row: Any, wanted: Mapping[str, tuple[type, ...]]) -> None:
    """Raise KeyError, TypeError or ValueError for a row that is damaged."""
    for name, types in wanted.items():
        value = row[name]
        if not isinstance(value, types) or (isinstance(value, list) and not all(isinstance(v, str) for v in value)):
            raise TypeError(f"{name} is {value!r}")
        if name in _HASHES and isinstance(value, str) and not re.fullmatch(r"[0-9a-f]{64}", value):
            raise ValueError(f"{name} is no name of a content")


def _digest(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()
