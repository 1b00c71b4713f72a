"""The reader of a machine's files, and the child that asks a driver's library."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from wizard.effects.machine import Host
from wizard.effects.nvml import Child, start_amdsmi


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


AMDSMI = """
class AmdSmiException(Exception): pass
def amdsmi_init(): pass
def amdsmi_get_processor_handles(): return [1, 2]
def amdsmi_get_gpu_device_bdf(handle): return f"0000:0{handle}:00.0"
def amdsmi_get_gpu_asic_info(handle):
    if handle == 2:
        raise AmdSmiException("not supported")
    return {"market_name": "AMD Instinct MI300X"}
def amdsmi_get_gpu_vram_usage(handle): return {"vram_total": 196592, "vram_used": 285}
"""


def test_amds_library_is_asked_where_it_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "amdsmi.py").write_text(AMDSMI)
    reading = start_amdsmi({**os.environ, "PYTHONPATH": str(tmp_path)}).reading(20.0)
    assert reading.ended == "done", reading.text
    assert [json.loads(line) for line in reading.lines] == [
        {"event": "gpu", "bus": "0000:01:00.0", "name": "AMD Instinct MI300X", "total_mib": 196592, "used_mib": 285},
        {"event": "gpu", "bus": "0000:02:00.0", "total_mib": 196592, "used_mib": 285},
    ]


def test_without_amds_library_there_is_only_the_reason(tmp_path: Path) -> None:
    (tmp_path / "amdsmi.py").write_text("raise OSError('libamd_smi.so: cannot open shared object file')\n")
    reading = start_amdsmi({**os.environ, "PYTHONPATH": str(tmp_path)}).reading(20.0)
    (line,) = reading.lines
    assert json.loads(line)["event"] == "error"
    assert reading.ended == "done"


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
