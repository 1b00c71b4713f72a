"""The reader of a machine's files, and the child that asks a driver's library."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from wizard.effects.machine import Host
from wizard.effects.nvml import Child


def script(folder: Path, text: str) -> Path:
    path = folder / "child.py"
    path.write_text(text)
    return path


def test_a_child_that_ends_gives_all_its_lines(tmp_path: Path) -> None:
    reading = Child(script(tmp_path, "print('one')\nprint('two')\n"), os.environ).reading(20.0)
    assert (reading.lines, reading.ended) == (("one", "two"), "done")


def test_a_child_that_hangs_is_ended_in_time_and_keeps_its_lines(tmp_path: Path) -> None:
    child = Child(script(tmp_path, "import time\nprint('one', flush=True)\ntime.sleep(60)\n"), os.environ)
    begun = time.monotonic()
    reading = child.reading(0.5)
    assert time.monotonic() - begun < 5
    assert (reading.lines, reading.ended) == (("one",), "timeout")


def test_a_child_that_crashes_keeps_its_lines(tmp_path: Path) -> None:
    text = "import os, sys\nprint('one', flush=True)\nsys.stderr.write('segment')\nsys.stderr.flush()\nos.abort()\n"
    reading = Child(script(tmp_path, text), os.environ).reading(20.0)
    assert (reading.lines, reading.ended) == (("one",), "crashed")
    assert "segment" in reading.text


def test_a_childs_folder_does_not_hide_pythons_modules(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(3)\n")
    reading = Child(script(tmp_path, "import json\nprint(json.dumps(1))\n"), os.environ).reading(20.0)
    assert (reading.lines, reading.ended) == (("1",), "done")


def test_a_python_that_cannot_be_started_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "no-python"))
    reading = Child(script(tmp_path, ""), {}).reading(1.0)
    assert reading.ended == "not-started"
    assert "no-python" in reading.text


def test_missing_files_and_folders_are_none_and_empty(tmp_path: Path) -> None:
    host = Host(tmp_path, {})
    assert host.text("proc/meminfo") is None
    assert host.names("sys/class/drm") == ()
    assert host.open_files(1) is None
    assert list(host.drm_cards()) == []


def test_names_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("10", "9", "stats"):
        (tmp_path / name).mkdir()
    assert Host(tmp_path, {}).names("") == ("9", "10", "stats")


def test_a_user_without_a_name_is_a_number(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("alice:x:1000:1000::/:/bin/sh\nbroken\n")
    host = Host(tmp_path, {})
    assert host.user_name(1000) == "alice"
    assert host.user_name(7) == "7"


def test_a_tool_that_is_missing_prints_nothing() -> None:
    assert Host().run("no-such-tool-anywhere") == ""
