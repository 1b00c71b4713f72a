"""A whole machine is put together from small recorded trees of /proc and /sys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wizard.effects.machine import Host
from wizard.effects.nvml import ChildReading
from wizard.effects.world import World, real_world
from wizard.flows.hardware import observe_machine
from wizard.hardware.machine import Machine

GIB = 2**30
CPUINFO = "processor\t: 0\nmodel name\t: Some CPU\nphysical id\t: 0\ncore id\t: 0\nflags\t: avx2\n\nprocessor\t: 1\n"
BASE = {
    "proc/cpuinfo": CPUINFO,
    "proc/meminfo": "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n",
    "proc/self/cgroup": "0::/\n",
    "proc/sys/kernel/osrelease": "6.8.0-45-generic\n",
    "proc/sys/kernel/arch": "x86_64\n",
    "sys/devices/system/node/has_cpu": "0-1\n",
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n",
}
NO_LIBRARY = json.dumps({"event": "error", "at": "init", "code": 12, "text": "NVML Shared Library Not Found"})


class Said:
    """A driver's library that has said these records."""

    def __init__(self, *records: str | dict[str, Any], ended: str = "done") -> None:
        lines = tuple(record if isinstance(record, str) else json.dumps(record) for record in records)
        self.answer = ChildReading(lines, ended)  # type: ignore[arg-type]

    def reading(self, time_limit_s: float) -> ChildReading:
        return self.answer


def observe(
    root: Path,
    files: Mapping[str, str],
    *,
    nvml: Said | None = None,
    amdsmi: Said | None = None,
    env: Mapping[str, str] | None = None,
) -> Machine:
    """Observe a machine of these files (`-> target` is a symlink)."""
    for name, content in {**BASE, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            path.symlink_to(content[3:])
        else:
            path.write_text(content)
    world: World = replace(real_world(), env=dict(env or {}), platform="linux")
    quiet = Said(json.dumps({"event": "error", "text": "No module named 'amdsmi'"}))
    return observe_machine(world, host=Host(root, world.env), nvml=nvml or Said(NO_LIBRARY), amdsmi=amdsmi or quiet)


def nvidia_gpu(**values: Any) -> dict[str, Any]:
    record: dict[str, Any] = {"event": "gpu", "index": 0, "errors": {}, "name": "NVIDIA GeForce RTX 4090"}
    record |= {"total": 24 * GIB, "reserved": 0, "free": 24 * GIB, "capability": [8, 9], "bus": "00000000:41:00.0"}
    return record | {"processes": []} | values


def test_a_machine_without_a_gpu(tmp_path: Path) -> None:
    machine = observe(tmp_path, {})
    assert machine.gpus == ()
    assert machine.driver_error is None
    assert (machine.cpu.name, machine.cpu.logical_cores, machine.cpu.numa_nodes) == ("Some CPU", 2, 2)
    assert (machine.ram_total_gib, machine.ram_available_gib) == (64.0, 32.0)
    assert (machine.container, machine.wsl, machine.ssh) == (None, False, False)
    assert machine.unknown == ()


def test_what_cannot_be_read_is_unknown_with_a_reason(tmp_path: Path) -> None:
    world = replace(real_world(), env={}, platform="linux")
    machine = observe_machine(world, host=Host(tmp_path, {}), nvml=Said(NO_LIBRARY))
    assert machine.ram_total_gib is None
    assert machine.cpu.logical_cores is None
    assert machine.shm_total_gib is None
    assert len(machine.unknown) == 2


def test_a_containers_limits_are_applied(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": f"{8 * GIB}\n",
        "sys/fs/cgroup/memory.current": f"{2 * GIB}\n",
        "sys/fs/cgroup/memory.stat": f"inactive_file {GIB}\n",
        "sys/fs/cgroup/cpu.max": "150000 100000\n",
        ".dockerenv": "",
    }
    machine = observe(tmp_path, files)
    assert (machine.ram_total_gib, machine.ram_available_gib) == (8.0, 7.0)
    assert machine.cpu.quota_cores == 1.5
    assert machine.container == "docker"


def test_cgroup_v1_limits_count_even_where_the_path_is_the_hosts(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{4 * GIB}\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    machine = observe(tmp_path, files)
    assert (machine.ram_total_gib, machine.ram_available_gib, machine.cpu.quota_cores) == (4.0, 3.0, 0.5)


def test_wsl_and_ssh(tmp_path: Path) -> None:
    files = {"proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"}
    machine = observe(tmp_path, files, env={"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"})
    assert machine.wsl
    assert machine.ssh


def test_wsl_with_a_gpu_but_without_its_library_says_so(tmp_path: Path) -> None:
    files = {"proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n", "dev/dxg": ""}
    machine = observe(tmp_path, files)
    assert machine.gpus == ()
    assert "Windows" in machine.unknown[0]


def test_holders_get_names_and_users(tmp_path: Path) -> None:
    files = {
        "proc/4242/status": "Name:\tpython\nUid:\t1000\t1000\t1000\t1000\n",
        "proc/4242/cmdline": "/usr/bin/python3\0-m\0vllm.entrypoints.openai.api_server\0--api-key\0sk-x\0",
        "sys/bus/pci/devices/0000:41:00.0/numa_node": "1\n",
    }
    held = [{"pid": 4242, "used": 8 * GIB, "graphics": False}, {"pid": 777, "used": GIB, "graphics": False}]
    (gpu,) = observe(tmp_path, files, nvml=Said(nvidia_gpu(processes=held, free=15 * GIB))).gpus
    assert [(p.pid, p.name, p.user, p.memory_used_gib) for p in gpu.processes] == [
        (4242, "python3 -m vllm.entrypoints.openai.api_server", "alice", 8.0),
        (777, None, None, 1.0),
    ]
    assert gpu.numa_node == 1


@pytest.mark.parametrize(("target", "name"), [("/dev/nvidia0", "train"), ("/tmp/notes.txt", None)])
def test_in_a_container_a_holder_is_believed_only_with_the_gpu_open(
    tmp_path: Path, target: str, name: str | None
) -> None:
    files = {
        ".dockerenv": "",
        "proc/42/status": "Name:\ttrain\nUid:\t0\t0\t0\t0\n",
        "proc/42/cmdline": "train\0",
        "proc/42/fd/3": f"-> {target}",
    }
    held = [{"pid": 42, "used": GIB, "graphics": False}]
    (gpu,) = observe(tmp_path, files, nvml=Said(nvidia_gpu(processes=held))).gpus
    assert gpu.processes[0].name == name


KERNEL_GPU = "Model: \t\t NVIDIA GeForce RTX 4090\nGPU UUID: \t GPU-5f3a\nBus Location: \t 0000:41:00.0\n"
KERNEL_VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC\n"


def test_a_mismatch_still_names_the_gpu_and_the_loaded_module(tmp_path: Path) -> None:
    files = {
        "proc/driver/nvidia/version": KERNEL_VERSION,
        "proc/driver/nvidia/gpus/0000:41:00.0/information": KERNEL_GPU,
    }
    error = {"event": "error", "at": "init", "code": 18, "text": "Driver/library version mismatch"}
    machine = observe(tmp_path, files, nvml=Said(error))
    assert machine.driver_error == "driver-library-mismatch"
    assert machine.driver_version == "535.183.01"
    assert machine.gpus[0].name == "NVIDIA GeForce RTX 4090"
    assert "mismatch" in machine.gpus[0].unknown[0]


def test_a_loaded_module_without_its_library_is_said_so(tmp_path: Path) -> None:
    files = {
        "proc/driver/nvidia/version": KERNEL_VERSION,
        "proc/driver/nvidia/gpus/0000:41:00.0/information": KERNEL_GPU,
    }
    machine = observe(tmp_path, files)
    assert machine.driver_error == "driver-library-missing"
    assert len(machine.gpus) == 1


def test_a_card_without_any_driver_is_found_on_the_bus(tmp_path: Path) -> None:
    files = {
        "sys/bus/pci/devices/0000:41:00.0/vendor": "0x10de\n",
        "sys/bus/pci/devices/0000:41:00.0/device": "0x2684\n",
        "sys/bus/pci/devices/0000:41:00.0/class": "0x030000\n",
        "sys/bus/pci/devices/0000:41:00.1/vendor": "0x10de\n",
        "sys/bus/pci/devices/0000:41:00.1/class": "0x040300\n",
        "usr/share/misc/pci.ids": "10de  NVIDIA Corporation\n\t2684  AD102 [GeForce RTX 4090]\n",
    }
    machine = observe(tmp_path, files)
    assert machine.driver_error == "driver-missing"
    assert [gpu.name for gpu in machine.gpus] == ["AD102 [GeForce RTX 4090]"]


def test_a_hung_driver_keeps_the_rest_of_the_machine(tmp_path: Path) -> None:
    machine = observe(tmp_path, {}, nvml=Said({"event": "count", "gpus": 2}, nvidia_gpu(), ended="timeout"))
    assert machine.driver_error == "driver-hung"
    assert [gpu.memory_total_gib for gpu in machine.gpus] == [24.0, None]
    assert machine.ram_total_gib == 64.0


def test_unified_memory_is_the_machines(tmp_path: Path) -> None:
    gb10 = nvidia_gpu(name="NVIDIA GB10", total=None, free=None, capability=[12, 1], errors={"memory": "Not Supported"})
    (gpu,) = observe(tmp_path, {}, nvml=Said(gb10)).gpus
    assert (gpu.memory_total_gib, gpu.memory_free_gib, gpu.unified_memory) == (64.0, 32.0, True)
    assert gpu.unknown == ()


def test_hidden_gpus_are_marked(tmp_path: Path) -> None:
    said = Said(nvidia_gpu(), nvidia_gpu(index=1))
    machine = observe(tmp_path, {}, nvml=said, env={"CUDA_VISIBLE_DEVICES": "1"})
    assert [gpu.hidden_by for gpu in machine.gpus] == ["CUDA_VISIBLE_DEVICES", None]


def amd_card(number: int, bus: str, node: int, gpu_id: int, location: int) -> dict[str, str]:
    device = f"sys/class/drm/card{number}/device"
    topology = f"sys/class/kfd/kfd/topology/nodes/{node}"
    return {
        f"{device}/vendor": "0x1002\n",
        f"{device}/device": "0x74a1\n",
        f"{device}/revision": "0x00\n",
        f"{device}/uevent": f"DRIVER=amdgpu\nPCI_SLOT_NAME={bus}\n",
        f"{device}/mem_info_vram_total": f"{192 * GIB}\n",
        f"{device}/mem_info_vram_used": f"{2 * GIB}\n",
        f"{topology}/properties": f"simd_count 1216\ngfx_target_version 90402\nlocation_id {location}\ndomain 0\n",
        f"{topology}/gpu_id": f"{gpu_id}\n",
        f"{topology}/io_links/0/properties": f"type 11\nnode_from {node}\nnode_to {3 - node}\n",
    }


AMD = {
    **amd_card(1, "0000:83:00.0", 2, 222, 0x8300),
    **amd_card(2, "0000:03:00.0", 1, 111, 0x0300),
    "dev/kfd": "",
    "sys/class/drm/card1-DP-1/status": "disconnected\n",
    "sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 64\nsimd_count 0\n",
    "usr/share/libdrm/amdgpu.ids": "74A1,\t00,\tAMD Instinct MI300X\n",
    "opt/rocm/.info/version": "7.2.1-81\n",
    "sys/class/kfd/kfd/proc/4242/vram_111": f"{GIB}\n",
    "proc/4242/status": "Name:\tx\nUid:\t1000\t1000\t1000\t1000\n",
    "proc/4242/cmdline": "VLLM::EngineCore\0",
    "proc/4242/fd/5": "-> /dev/dri/renderD128",
    "proc/4242/fdinfo/5": "drm-pdev:\t0000:03:00.0\ndrm-client-id:\t1\ndrm-memory-vram:\t2048 KiB\n",
}


def test_amd_gpus_are_numbered_as_the_compute_driver_does(tmp_path: Path) -> None:
    machine = observe(tmp_path, AMD)
    assert [(gpu.index, gpu.pci_bus_id, gpu.name) for gpu in machine.gpus] == [
        (0, "0000:03:00.0", "AMD Instinct MI300X"),
        (1, "0000:83:00.0", "AMD Instinct MI300X"),
    ]
    assert [(link.first, link.second, link.kind) for link in machine.links] == [(0, 1, "xgmi")]
    assert machine.rocm_version == "7.2.1"
    assert machine.gpus[0].memory_free_gib == 190.0
    assert machine.gpus[0].architecture == "gfx942"
    assert machine.rocm_error is None


def test_an_amd_gpus_holder_is_counted_once_with_the_larger_figure(tmp_path: Path) -> None:
    first, second = observe(tmp_path, AMD).gpus
    assert [(p.pid, p.name, p.user, p.memory_used_gib) for p in first.processes] == [
        (4242, "VLLM::EngineCore", "alice", 1.0)
    ]
    assert second.processes == ()


def test_amdsmi_renames_a_gpu(tmp_path: Path) -> None:
    said = Said({"event": "gpu", "bus": "0000:03:00.0", "name": "AMD Instinct MI300X OAM"})
    assert observe(tmp_path, AMD, amdsmi=said).gpus[0].name == "AMD Instinct MI300X OAM"


def test_a_container_without_the_compute_device_is_told_so(tmp_path: Path) -> None:
    machine = observe(tmp_path, {name: text for name, text in AMD.items() if name != "dev/kfd"})
    assert machine.rocm_error == "rocm-device-missing"
    assert len(machine.gpus) == 2


def test_an_intel_card_is_found_and_integrated_graphics_are_not(tmp_path: Path) -> None:
    files = {
        "sys/class/drm/card0/device/vendor": "0x8086\n",
        "sys/class/drm/card0/device/uevent": "DRIVER=i915\nPCI_SLOT_NAME=0000:00:02.0\n",
        "sys/class/drm/card1/device/vendor": "0x8086\n",
        "sys/class/drm/card1/device/device": "0xe20b\n",
        "sys/class/drm/card1/device/uevent": "DRIVER=xe\nPCI_SLOT_NAME=0000:03:00.0\n",
        "sys/class/drm/card1/device/tile0/physical_vram_size_bytes": f"{12 * GIB}\n",
        "sys/bus/pci/devices/0000:03:00.0/vendor": "0x8086\n",
        "sys/bus/pci/devices/0000:03:00.0/device": "0xe20b\n",
        "usr/share/hwdata/pci.ids": "8086  Intel Corporation\n\te20b  Battlemage G21 [Arc B580]\n",
    }
    (gpu,) = observe(tmp_path, files).gpus
    assert (gpu.name, gpu.vendor, gpu.memory_total_gib) == ("Battlemage G21 [Arc B580]", "intel", 12.0)
    assert "xe" in gpu.unknown[0]


def test_free_disk_is_that_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    free = Host(tmp_path).free_gib(tmp_path / "not" / "yet" / "there")
    assert free is not None
    assert free > 0
