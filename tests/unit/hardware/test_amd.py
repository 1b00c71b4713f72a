"""AMD GPUs from sysfs, the compute driver's topology and open handles."""

from __future__ import annotations

import json

import pytest

from wizard.hardware import amd
from wizard.hardware.machine import GIB, GpuProcess

MI300X = (
    "cpu_cores_count 0\nsimd_count 1216\nmem_banks_count 1\ngfx_target_version 90402\nvendor_id 4098\n"
    "device_id 29857\nlocation_id 768\ndomain 0\ndrm_render_minor 128\n"
)


@pytest.mark.parametrize(
    ("number", "name"),
    [(90402, "gfx942"), (90010, "gfx90a"), (90500, "gfx950"), (110000, "gfx1100"), (110501, "gfx1151")],
)
def test_the_architecture_from_its_number(number: int, name: str) -> None:
    assert amd.parse_gfx_version(number) == name


def test_a_gpu_node_tells_architecture_address_and_peers() -> None:
    links = ["type 2\nnode_from 2\nnode_to 0\n", "type 11\nnode_from 2\nnode_to 3\n"]
    node = amd.parse_kfd_node(2, MI300X, "51110\n", links)
    assert node is not None
    assert (node.architecture, node.pci_bus_id, node.gpu_id) == ("gfx942", "0000:03:00.0", 51110)
    assert node.xgmi_to == (3,)
    assert not node.integrated


def test_a_cpu_node_is_no_gpu() -> None:
    assert amd.parse_kfd_node(0, "cpu_cores_count 64\nsimd_count 0\n", "0\n") is None


IDS = "# comment\n1.0.0\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n744C,\tCC,\tAMD Radeon RX 7900 XT\n"


def test_the_name_is_looked_up_by_device_and_revision() -> None:
    assert amd.parse_amdgpu_name(IDS, "0x744c", "0xcc") == "AMD Radeon RX 7900 XT"
    assert amd.parse_amdgpu_name(IDS, "0x744c", "0x01") is None


def test_memory_is_total_less_used() -> None:
    texts = {"mem_info_vram_total": f"{192 * GIB}\n", "mem_info_vram_used": f"{12 * GIB}\n", "numa_node": "1\n"}
    gpu = amd.parse_amd_gpu(0, texts, "0000:03:00.0", amd.parse_kfd_node(2, MI300X, "51110"), "AMD Instinct MI300X")
    assert (gpu.memory_total_gib, gpu.memory_free_gib, gpu.numa_node) == (192.0, 180.0, 1)
    assert gpu.architecture == "gfx942"
    assert gpu.unknown == ()


def test_what_the_driver_does_not_report_is_unknown() -> None:
    gpu = amd.parse_amd_gpu(0, {"device": "0x744c\n", "numa_node": "-1\n"}, "0000:03:00.0", None, None)
    assert gpu.name == "AMD GPU 0x744c"
    assert gpu.memory_total_gib is None
    assert gpu.numa_node is None
    assert len(gpu.unknown) == 2


def test_a_split_gpu_says_that_the_figures_are_the_wholes() -> None:
    gpu = amd.parse_amd_gpu(0, {"current_compute_partition": "CPX\n"}, "0000:03:00.0", None, None)
    assert any("CPX" in reason for reason in gpu.unknown)


def test_open_handles_tell_their_memory_in_the_old_and_the_new_spelling() -> None:
    old = "pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\ndrm-memory-vram:\t2048 KiB\n"
    new = old + "drm-resident-vram:\t3 MiB\ndrm-resident-gtt:\t9 MiB\n"
    first, second = amd.parse_fdinfo(old), amd.parse_fdinfo(new)
    assert first is not None and second is not None
    assert (first.memory_bytes, second.memory_bytes) == (2 * 2**20, 3 * 2**20)
    assert first.pci_bus_id == "0000:03:00.0"


def test_a_file_that_is_no_graphics_handle_is_none() -> None:
    assert amd.parse_fdinfo("pos:\t0\nflags:\t02\nmnt_id:\t14\n") is None


def test_a_duplicated_handle_counts_once() -> None:
    client = amd.DrmClient("0000:03:00.0", "7", 2**30)
    other = amd.DrmClient("0000:03:00.0", "8", 2**30)
    elsewhere = amd.DrmClient("0000:83:00.0", "9", 2**30)
    held = amd.sum_clients({10: [client, client, elsewhere], 11: [other, client], 12: [elsewhere]}, "0000:03:00.0")
    assert held == (GpuProcess(11, 2.0), GpuProcess(10, 1.0))


def test_two_views_of_one_process_are_not_added() -> None:
    merged = amd.merge_processes([GpuProcess(1, 2.0), GpuProcess(2, 1.0)], [GpuProcess(1, 3.0)])
    assert merged == (GpuProcess(1, 3.0), GpuProcess(2, 1.0))


def test_amdsmi_names_a_gpu_and_fills_what_sysfs_lacks() -> None:
    gpu = amd.parse_amd_gpu(0, {}, "0000:03:00.0", amd.parse_kfd_node(2, MI300X, "1"), None)
    record = {"event": "gpu", "bus": "0000:03:00.0", "name": "AMD Instinct MI300X", "total_mib": 2048, "used_mib": 1024}
    (found,) = amd.parse_amdsmi(["a warning of the library", json.dumps(record)], (gpu,))
    assert (found.name, found.memory_total_gib, found.memory_free_gib) == ("AMD Instinct MI300X", 2.0, 1.0)
    assert found.unknown == ()


def test_amdsmi_without_an_answer_changes_nothing() -> None:
    gpu = amd.parse_amd_gpu(0, {}, "0000:03:00.0", None, "Radeon")
    assert amd.parse_amdsmi(['{"event": "error", "text": "no module"}'], (gpu,)) == (gpu,)
