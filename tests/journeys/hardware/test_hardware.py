"""`llm-setup hardware` as a whole, with the real binding on a stand-in driver."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

H100 = "gpu total=81559 reserved=467 used={used} cc=9.0 bus=00000000:{bus:02X}:00.0 uuid=GPU-{n} mig=0 name=NVIDIA H100 80GB HBM3"  # noqa: E501
DRIVER = "driver 580.65.06\ncuda 13000\n"
EIGHT = (
    DRIVER
    + "\n".join(H100.format(n=n, used=1000 * n, bus=16 * n + 11) for n in range(8))
    + "\n"
    + "\n".join(f"link {a} {b} nvlink" for a in range(8) for b in range(a + 1, 8))
    + "\n"
)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[int]:
    """A process that has a GPU's device file open, as far as a path can tell."""
    device = tmp_path / "dev" / "nvidia0"
    device.parent.mkdir()
    device.touch()
    script = tmp_path / "train.py"
    script.write_text("import sys, time\nf = open(sys.argv[1])\nprint('ready', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, str(script), str(device), "--api-key", "sk-0123456789abcdef"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process.pid
    process.kill()
    process.communicate()


def test_eight_gpus_with_their_links(hardware: Run) -> None:
    ran = hardware(EIGHT, "--json")
    assert ran.code == 0, ran.err
    document = ran.document
    assert document["schema_version"] == 1
    assert [gpu["index"] for gpu in document["gpus"]] == list(range(8))
    first = document["gpus"][0]
    assert first["name"] == "NVIDIA H100 80GB HBM3"
    assert first["memory_total_gib"] == 79.191
    assert first["memory_free_gib"] == 79.191
    assert first["compute_capability"] == "9.0"
    assert first["nvlink_peers"] == [1, 2, 3, 4, 5, 6, 7]
    assert first["pci_bus_id"] == "0000:0b:00.0"
    assert first["unknown"] == []
    assert document["gpus"][3]["memory_used_gib"] == pytest.approx(3000 / 1024, abs=0.001)
    assert document["driver"].items() >= {"version": "580.65.06", "cuda": "13.0", "rocm": None, "error": None}.items()
    assert document["vllm"]["build"] == "cuda"
    assert document["vllm"]["variant"] == "cu130"


def test_the_panel_is_for_people_and_readable_without_symbols(hardware: Run) -> None:
    ran = hardware(EIGHT, "--plain")
    assert ran.code == 0
    assert ran.out.isascii()
    assert "NVLink: between all GPUs" in ran.out
    assert "NVIDIA 580.65.06, CUDA up to 13.0" in ran.out
    assert "[" in ran.out


@pytest.mark.shows_key("another's program was started with one")
def test_memory_held_by_others_is_named_without_their_arguments(hardware: Run, holder: int) -> None:
    facts = EIGHT + f"process gpu=7 pid={holder} used=6000\nprocess gpu=7 pid=4194000 used=900 graphics=1\n"
    ran = hardware(facts, "--json")
    held = ran.document["gpus"][7]["processes"]
    assert held[0]["name"].endswith("train.py")
    assert held[0]["user"]
    assert held[0]["memory_used_gib"] == pytest.approx(6000 / 1024, abs=0.001)
    assert held[1] == {"pid": 4194000, "name": None, "user": None, "memory_used_gib": 0.879, "graphics": True}
    assert "gpu-memory-in-use" in [problem["code"] for problem in ran.document["problems"]]
    shown = hardware(facts)
    assert f"pid {holder}" in shown.out
    assert "sk-0123456789abcdef" not in ran.out + shown.out


def test_slices_are_gpus_of_their_own(hardware: Run) -> None:
    facts = (
        DRIVER
        + "gpu total=40960 reserved=600 used=30 cc=8.0 bus=00000000:07:00.0 mig=1 name=NVIDIA A100-SXM4-40GB\n"
        + "mig gpu=0 total=19968 used=13 uuid=MIG-a name=NVIDIA A100-SXM4-40GB MIG 3g.20gb\n"
        + "mig gpu=0 total=4864 used=13 uuid=MIG-b name=NVIDIA A100-SXM4-40GB MIG 1g.5gb\n"
        + "process gpu=0 slice=1 pid=4194000 used=1000\n"
    )
    gpus = hardware(facts, "--json").document["gpus"]
    assert [(g["name"], g["mig"], g["uuid"], g["compute_capability"]) for g in gpus] == [
        ("NVIDIA A100-SXM4-40GB", "3g.20gb", "MIG-a", "8.0"),
        ("NVIDIA A100-SXM4-40GB", "1g.5gb", "MIG-b", "8.0"),
    ]
    assert [len(g["processes"]) for g in gpus] == [0, 1]
    assert gpus[0]["memory_total_gib"] == 19.5


def test_mig_without_a_slice_is_no_memory(hardware: Run) -> None:
    facts = DRIVER + "gpu total=40960 reserved=600 used=30 cc=8.0 uuid=GPU-0 mig=1 name=NVIDIA A100-SXM4-40GB\n"
    (gpu,) = hardware(facts, "--json").document["gpus"]
    assert gpu["memory_total_gib"] is None
    assert "no slice" in gpu["unknown"][0]


@pytest.mark.parametrize(
    ("code", "error"),
    [(18, "driver-library-mismatch"), (4, "driver-no-permission"), (999, "driver-error")],
)
def test_a_driver_that_refuses_is_a_problem_with_its_own_word(hardware: Run, code: int, error: str) -> None:
    ran = hardware(f"init {code}\n", "--json")
    assert ran.code == 1
    assert ran.document["driver"]["error"] == error
    assert ran.document["problems"][0]["code"] == error
    assert ran.document["problems"][0]["fix"]["text"]
    assert ran.document["cpu"]["logical_cores"] > 0


def test_a_mismatch_reads_well(hardware: Run) -> None:
    ran = hardware("init 18\n")
    assert "error: The NVIDIA driver's library and its kernel module are of different versions." in ran.out
    assert "saw: RM has detected an NVML/RM version mismatch." in ran.out
    assert "$ sudo reboot" in ran.out


def test_no_driver_at_all_is_a_machine_without_a_gpu(hardware: Run) -> None:
    ran = hardware("init 9\n", "--json")
    assert ran.code == 0
    assert ran.document["gpus"] == []
    assert ran.document["vllm"]["build"] == "cpu"


@pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlDeviceGetName"])
def test_a_hung_driver_hangs_nobody(hardware: Run, function: str) -> None:
    begun = time.monotonic()
    ran = hardware(
        EIGHT + f"hang {function}" + (" gpu=2\n" if "Device" in function else "\n"), "--json", "--timeout", "1"
    )
    assert time.monotonic() - begun < 8
    assert ran.code == 1
    assert ran.document["driver"]["error"] == "driver-hung"
    assert ran.document["ram"]["total_gib"] > 0
    if "Device" in function:
        sizes = [gpu["memory_total_gib"] for gpu in ran.document["gpus"]]
        assert sizes == [79.191, 79.191, *[None] * 6]


def test_a_driver_library_that_crashes_takes_only_itself_down(hardware: Run) -> None:
    ran = hardware(EIGHT + "crash nvmlDeviceGetUUID gpu=1\n", "--json")
    assert ran.code == 1
    assert ran.document["driver"]["error"] == "driver-crashed"
    assert ran.document["gpus"][0]["memory_total_gib"] == 79.191


def test_one_lost_gpu_does_not_hide_the_others(hardware: Run) -> None:
    ran = hardware(EIGHT + "fail nvmlDeviceGetHandleByIndex_v2 15 gpu=5\n", "--json")
    gpus = ran.document["gpus"]
    assert len(gpus) == 8
    assert gpus[5]["memory_total_gib"] is None
    assert "GPU is lost" in gpus[5]["unknown"][0]
    assert gpus[6]["memory_total_gib"] == 79.191


def test_what_a_gpu_does_not_support_is_unknown_never_zero(hardware: Run) -> None:
    facts = EIGHT + "fail nvmlDeviceGetMemoryInfo 3 gpu=0\nfail nvmlDeviceGetMemoryInfo_v2 3 gpu=0\n"
    facts += "fail nvmlDeviceGetComputeRunningProcesses_v3 4 gpu=0\n"
    gpu = hardware(facts, "--json").document["gpus"][0]
    assert (gpu["memory_total_gib"], gpu["memory_free_gib"], gpu["memory_used_gib"]) == (None, None, None)
    assert gpu["unknown"] == ["memory: Not Supported", "who holds its memory: Insufficient Permissions"]


def test_an_old_driver_without_the_second_memory_call_still_tells(hardware: Run) -> None:
    gpu = hardware(EIGHT + "fail nvmlDeviceGetMemoryInfo_v2 13\n", "--json").document["gpus"][0]
    assert gpu["memory_total_gib"] == 79.647
    assert "reserve" in gpu["unknown"][0]


def test_an_old_driver_gets_the_build_that_fits_it(hardware: Run) -> None:
    facts = EIGHT.replace("580.65.06", "535.183.01").replace("13000", "12020")
    document = hardware(facts, "--json").document
    assert document["driver"]["cuda"] == "12.2"
    assert document["vllm"]["variant"] == "cu129"
    assert document["vllm"]["warnings"]


def test_hidden_gpus_are_shown_as_hidden(hardware: Run) -> None:
    gpus = hardware(EIGHT, "--json", env={"CUDA_VISIBLE_DEVICES": "2,3"}).document["gpus"]
    assert [gpu["index"] for gpu in gpus if gpu["hidden_by"] is None] == [2, 3]


def test_keys_in_the_environment_do_not_show(hardware: Run) -> None:
    ran = hardware(EIGHT, env={"LLM_SETUP_API_KEY": "sk-abcdef0123456789"})
    assert "sk-abcdef0123456789" not in ran.out + ran.err


def test_wrong_usage_ends_with_2(hardware: Run) -> None:
    assert hardware(EIGHT, "--timeout", "-1").code == 2
    assert hardware(EIGHT, "--timeout", "soon").code == 2


def test_help_has_an_example_and_fits_a_screen(hardware: Run) -> None:
    ran = hardware("", "--help")
    assert "Example:" in ran.out
    assert len(ran.out.splitlines()) < 24


def test_nothing_is_written(hardware: Run, tmp_path: Path) -> None:
    hardware(EIGHT)
    assert {path.name for path in tmp_path.iterdir()} == {"driver.txt"}
