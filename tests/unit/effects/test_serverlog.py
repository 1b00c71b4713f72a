"""Logs of any size, with anything in them, read in bounded memory."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest

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
    reader = LogReader(path, from_end=True)
    with path.open("a") as log:
        log.write("new\n")
    assert reader.new_lines() == ["new"]


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
