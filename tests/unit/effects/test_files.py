"""Files and folders that are more than their bytes, or change while they are looked at."""

from __future__ import annotations

import logging
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wizard.effects.files import Files, make_folders, measure_folder, try_folder
from wizard.effects.lock import locked
from wizard.effects.log import LOGGER_NAME, close_log, open_log


def test_a_file_that_goes_away_while_a_folder_is_measured_counts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for name in ("stays", "in/goes"):
        (tmp_path / name).write_bytes(b"four")
    real = os.walk

    def walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        for found in real(folder):
            (tmp_path / "in" / "goes").unlink(missing_ok=True)
            yield found[0], found[1], [*found[2], "goes"]

    assert measure_folder(tmp_path) == (2, 8)
    monkeypatch.setattr(os, "walk", walk)
    assert measure_folder(tmp_path) == (1, 4)
    assert measure_folder(tmp_path / "none") == (0, 0)


def test_a_replaced_file_keeps_its_extended_attributes(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"{}")
    os.setxattr(path, "user.note", b"mine")
    Files().write_bytes(path, b"{1}")
    assert path.read_bytes() == b"{1}"
    assert os.getxattr(path, "user.note") == b"mine"


def test_an_access_list_opens_no_file_that_is_to_be_private(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"{}")
    # Version 2; the owner, user 1234 and the mask may read and write, the group and others may not.
    entries = ((1, 6, 0xFFFFFFFF), (2, 6, 1234), (4, 0, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF))
    access = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(path, "system.posix_acl_access", access)
    Files().write_private(path, b"key")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600  # the mask is the group's bits: it lets nobody else in
    Files().write_bytes(path, b"{}", mode=0o660)
    assert os.getxattr(path, "system.posix_acl_access") == access


@pytest.fixture
def as_root_of(monkeypatch: pytest.MonkeyPatch) -> dict[Path, tuple[int, int]]:
    """A machine on which this process is root and every folder belongs to user 1000; what was given to whom."""
    given: dict[Path, tuple[int, int]] = {}
    real = os.stat

    def seen(path: Any, *args: Any, **options: Any) -> os.stat_result:
        found = list(real(path, *args, **options))
        found[4], found[5] = (1000, 1000) if stat.S_ISDIR(int(found[0])) else given.get(Path(path), (0, 0))
        return os.stat_result(found)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "stat", seen)
    monkeypatch.setattr(os, "chown", lambda path, user, group, **_: given.update({Path(path): (user, group)}))
    return given


def test_what_root_makes_in_a_home_belongs_to_the_user(tmp_path: Path, as_root_of: dict[Path, tuple[int, int]]) -> None:
    staged = Files().stage(tmp_path / "a" / "b" / "settings.json", b"{}")
    with locked(tmp_path / "state" / "lock"):
        pass
    assert as_root_of == dict.fromkeys(
        (tmp_path / "a", tmp_path / "a/b", staged.temporary, tmp_path / "state", tmp_path / "state/lock"), (1000, 1000)
    )


def test_what_stands_where_root_would_make_a_file_keeps_its_owner(
    tmp_path: Path, as_root_of: dict[Path, tuple[int, int]]
) -> None:
    secret = tmp_path / "shadow"
    secret.write_bytes(b"root's")
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "lock").symlink_to(secret)
    (folder / "llm-setup.log").symlink_to(secret)
    with locked(folder / "lock"):
        pass
    open_log(folder)
    try:
        logging.getLogger(LOGGER_NAME).info("a line")
    finally:
        close_log()
    assert as_root_of == {}


def test_a_new_file_is_never_given_away_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[bool] = []
    real = os.stat

    def seen(path: Any, *args: Any, **options: Any) -> os.stat_result:
        found = list(real(path, *args, **options))
        found[4] = 1000 if stat.S_ISDIR(int(found[0])) else found[4]
        return os.stat_result(found)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "stat", seen)
    monkeypatch.setattr(os, "chown", lambda *_, follow_symlinks=True: followed.append(follow_symlinks))
    with locked(tmp_path / "state" / "lock"):
        pass
    assert followed == [False, False]


def test_root_that_may_give_nothing_away_can_write_all_the_same(
    tmp_path: Path, as_root_of: dict[Path, tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    Files().write_bytes(tmp_path / "new" / "settings.json", b"{}")
    assert (tmp_path / "new" / "settings.json").read_bytes() == b"{}"


def test_a_drive_that_is_not_there_is_an_error_and_no_endless_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On POSIX the root is always there; `Z:\\` of Windows need not be.
    asked: list[Path] = []

    def exists(path: Path, **_: object) -> bool:
        asked.append(path)
        assert len(asked) < 100, "it never ends"
        return False

    def nowhere(path: Path, *args: object, **_: object) -> None:
        raise FileNotFoundError(2, "No such drive", str(path))

    monkeypatch.setattr(Path, "exists", exists)
    monkeypatch.setattr(Path, "mkdir", nowhere)
    with pytest.raises(FileNotFoundError, match="No such drive"):
        make_folders(tmp_path / "a" / "b")
    with pytest.raises(FileNotFoundError, match="No such drive"):
        try_folder(tmp_path / "a" / "b")


def test_a_file_of_another_user_is_refused_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"theirs")
    real = os.stat

    def seen(at: Any, *args: Any, **options: Any) -> os.stat_result:
        found = list(real(at, *args, **options))
        found[4] = 4321 if Path(at) == path else found[4]
        return os.stat_result(found)

    def refuse(*args: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "stat", seen)
    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(PermissionError, match="belongs to another user"):
        Files().write_bytes(path, b"ours")
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("settings.json", b"theirs")]


def test_folders_above_a_private_one_are_as_usual(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.mkdir()
    make_folders(tmp_path / "a" / "b" / "private", 0o700)
    modes = [stat.S_IMODE((tmp_path / path).stat().st_mode) for path in ("a", "a/b", "a/b/private")]
    assert modes == [*2 * [stat.S_IMODE(usual.stat().st_mode)], 0o700]
