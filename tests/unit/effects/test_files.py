"""Folders that change while they are looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from wizard.effects.files import measure_folder


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
