"""Logs of any size, with anything in them, read in bounded memory."""

from __future__ import annotations

import errno
import os
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from wizard.effects import log_child
from wizard.effects.log_child import rotate
from wizard.effects.serverlog import HEAD_BYTES, TAIL_BYTES, LogReader, last_lines, pieces_of_log
from wizard.serving.deaths import find_deaths_in_bytes


def test_only_new_whole_lines_are_given(tmp_path: Path) -> None:
    path = tmp_path / "log"
    reader = LogReader(path)
    assert reader.new_lines() == []
    path.write_text("one\ntw")
    assert reader.new_lines() == ["one"]
    with path.open("a") as log:
        log.write("o\n10%\r20%")
    assert reader.new_lines() == ["two", "10%"]
    assert reader.rest() == ["20%"]
    assert reader.rest() == []


def test_a_log_that_was_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a long first line\n")
    reader = LogReader(path)
    reader.new_lines()
    path.write_text("new\n")
    assert reader.new_lines() == ["new"]


def test_a_follower_begins_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old\n")
    reader = LogReader(path, followed=True)
    with path.open("a") as log:
        log.write("new\n")
    assert reader.new_lines() == ["new"]
    assert reader.take_skipped() == 0


def test_a_follower_gives_the_last_of_what_comes_faster_than_it_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    reader = LogReader(path, followed=True)
    with path.open("a") as log:
        log.writelines(f"{number:07d} {'.' * 91}\n" for number in range(200_000))
        log.write("the last word")
    lines = reader.rest()
    assert lines[-1] == "the last word"
    assert len(lines) < 2000
    assert reader.take_skipped() + sum(len(line) + 1 for line in lines) - 1 == path.stat().st_size
    assert (reader.rest(), reader.take_skipped()) == ([], 0)


def test_a_line_without_end_and_binary_noise_come_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\xff\x00" * 100_000 + b"\nend\n")
    lines = LogReader(path).new_lines()
    assert lines[-1] == "end"
    assert all(len(line) <= 65536 for line in lines)
    path.write_bytes(b"x" * 500_000)
    assert len(LogReader(path).new_lines()) == 1


@pytest.mark.parametrize(
    ("content", "count", "lines"),
    [
        pytest.param(b"a\nb\nc\n", 2, ["b", "c"], id="the last"),
        pytest.param(b"a\nb", 5, ["a", "b"], id="fewer"),
        pytest.param(b"", 5, [], id="empty"),
        pytest.param(b"a\n\nb\n", 2, ["", "b"], id="blank lines"),
        pytest.param(b"a\n", 0, [], id="none"),
    ],
)
def test_the_last_lines(tmp_path: Path, content: bytes, count: int, lines: list[str]) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    assert last_lines(path, count) == lines


def test_a_log_of_one_gib_is_judged_in_seconds_and_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    death = b"ValueError: Total number of attention heads (9) must be divisible by tensor parallel size (8).\n"
    with path.open("wb") as log:
        log.write(b"INFO begin\n")
        # Sparse where the file system can: zeros are the binary noise.
        log.seek(2**30)
        log.write(b"\n" + b"INFO: 127.0.0.1 GET /metrics 200 OK\n" * 100_000 + death)
    tracemalloc.start()
    begun = time.monotonic()
    deaths = find_deaths_in_bytes(pieces_of_log(path))
    seconds = time.monotonic() - begun
    lines = last_lines(path, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert deaths[0].problem.code == "tp-heads-not-divisible"
    assert lines[-1].startswith("ValueError")
    assert seconds < 5
    assert peak < 64 * 2**20
    assert path.stat().st_size > 2**30


def test_small_logs_are_given_whole_and_large_ones_by_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"all of it")
    assert b"".join(pieces_of_log(path)) == b"all of it"
    path.write_bytes(b"B" + b"-" * (HEAD_BYTES + TAIL_BYTES) + b"E")
    pieces = b"".join(pieces_of_log(path))
    assert pieces.startswith(b"B-")
    assert pieces.endswith(b"-E")
    assert len(pieces) == HEAD_BYTES + TAIL_BYTES + 1


def _without_collapse(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file system that can only leave a hole."""
    real = log_child._fallocate

    def no_collapse(descriptor: int, mode: int, length: int) -> None:
        if mode == 0x08:
            raise OSError(errno.EOPNOTSUPP, "not here")
        real(descriptor, mode, length)

    monkeypatch.setattr(log_child, "_fallocate", no_collapse)


def _line(number: int) -> bytes:
    return b"line %07d %s\n" % (number, b"x" * 80)


@pytest.mark.parametrize("collapses", [True, False])
def test_a_log_that_is_cut_while_it_is_written_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collapses: bool
) -> None:
    if not collapses:
        _without_collapse(monkeypatch)
    path = tmp_path / "log"
    count, written = 30_000, threading.Event()
    path.touch()

    def write() -> None:
        with path.open("ab", buffering=0) as log:
            for number in range(count):
                log.write(_line(number))
                if number == count // 10:
                    written.set()
                if number % 500 == 0:
                    time.sleep(0.005)

    writer = threading.Thread(target=write)
    reader, seen, cuts = LogReader(path), [], 0
    writer.start()
    written.wait(30)
    while writer.is_alive():
        seen += reader.new_lines()
        cuts += rotate(path, 200_000, kept=1000)
        seen += reader.new_lines()
    writer.join()
    seen += reader.new_lines()
    assert cuts > 3
    assert seen == [_line(number).decode().strip() for number in range(count)]
    pieces = [path.with_name(f"log.{number}") for number in range(cuts, 0, -1)] + [path]
    assert b"".join(piece.read_bytes() for piece in pieces).replace(b"\0", b"") == b"".join(map(_line, range(count)))


def test_a_bounded_log_keeps_its_last_lines_and_a_few_of_its_cut_parts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("ab") as log:
        for number in range(20_000):
            log.write(_line(number))
            if number % 1000 == 0:
                log.flush()
                rotate(path, 100_000, kept=3)
    assert last_lines(path, 1) == [_line(19_999).decode().strip()]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "log.1", "log.2", "log.3", "log.cut"]
    assert sum(each.stat().st_blocks * 512 for each in tmp_path.iterdir()) < 700_000
    assert not rotate(path, 10**9, kept=3)


def test_where_a_file_systems_cannot_cut_room_is_given_back_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(map(_line, range(5000))))
    reader = LogReader(path)
    before = reader.new_lines()
    _without_collapse(monkeypatch)
    assert rotate(path, 100_000, kept=3)
    with path.open("ab") as log:
        log.write(b"more\n")
    assert len(before) == 5000
    assert reader.new_lines() == ["more"]
    assert path.stat().st_blocks * 512 < 100_000
    assert not rotate(path, 100_000, kept=3)


@pytest.mark.parametrize("fails", ["pread", "fallocate"])
def test_where_nothing_can_be_cut_the_older_parts_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.ENOSPC, "full")

    path = tmp_path / "log"
    path.write_bytes(b"".join(map(_line, range(5000))))
    for number in (1, 2):
        path.with_name(f"log.{number}").write_text(f"older {number}")
    owner, name = (os, "pread") if fails == "pread" else (log_child, "_fallocate")
    monkeypatch.setattr(owner, name, fail)
    for _ in range(3):
        with pytest.raises(OSError, match="full"):
            rotate(path, 100_000, kept=3)
    assert [path.with_name(f"log.{number}").read_text() for number in (1, 2)] == ["older 1", "older 2"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "log.1", "log.2", "log.cut"]
    assert len(path.read_bytes().splitlines()) == 5000


def test_a_reader_goes_on_where_the_part_that_it_missed_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(map(_line, range(5000))))
    assert rotate(path, 100_000, kept=3)
    path.with_name("log.1").unlink()
    assert LogReader(path).new_lines()[-1] == _line(4999).decode().strip()
