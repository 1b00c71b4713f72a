"""Texts of /proc and /sys become values; what a text does not say stays unknown."""

from __future__ import annotations

import pytest

from wizard.hardware import linux
from wizard.hardware.linux import MemoryLimit

# Two sockets of two cores with two threads each, shortened from /proc/cpuinfo of a Xeon (Linux 6.8).
XEON = "\n".join(
    f"processor\t: {number}\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)  Platinum 8480+\n"
    f"physical id\t: {number % 4 // 2}\ncore id\t\t: {number % 2}\n"
    "flags\t\t: fpu vme sse4_2 avx2 avx512f avx512_bf16 amx_bf16 amx_tile amx_int8 ssbd\n"
    for number in range(8)
)
GRACE = "".join(
    f"processor\t: {number}\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd sve sve2 i8mm bf16 aes\n"
    "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f\n\n"
    for number in range(3)
)


def test_cpuinfo_tells_name_threads_cores_and_the_features_that_matter() -> None:
    cpu = linux.parse_cpuinfo(XEON, "x86_64")
    assert cpu.name == "Intel(R) Xeon(R) Platinum 8480+"
    assert (cpu.logical_cores, cpu.physical_cores) == (8, 4)
    assert cpu.features == ("amx_bf16", "amx_int8", "amx_tile", "avx2", "avx512_bf16", "avx512f", "sse4_2")


def test_an_arm_cpu_is_named_by_its_numbers() -> None:
    cpu = linux.parse_cpuinfo(GRACE, "aarch64")
    assert cpu.name == "Arm Neoverse-V2"
    assert cpu.logical_cores == 3
    assert cpu.physical_cores is None
    assert "sve2" in cpu.features


def test_an_arm_cpu_that_is_not_in_the_table_shows_its_numbers() -> None:
    assert linux.parse_cpuinfo(GRACE.replace("0xd4f", "0xfff"), "aarch64").name == "Arm CPU 0x41/0xfff"


def test_an_empty_cpuinfo_is_unknown_not_zero() -> None:
    cpu = linux.parse_cpuinfo("", "x86_64")
    assert cpu.name is None
    assert cpu.logical_cores is None


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0-3,8\n", (0, 1, 2, 3, 8)), ("0", (0,)), ("", ()), ("0-1,x,3", (0, 1, 3))],
)
def test_cpu_lists(text: str, numbers: tuple[int, ...]) -> None:
    assert linux.parse_cpu_list(text) == numbers


def test_meminfo_in_gib() -> None:
    assert linux.parse_meminfo("MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n") == (
        16.0,
        8.0,
    )


def test_an_old_kernel_without_available_memory_counts_free_and_cache() -> None:
    text = "MemTotal: 4194304 kB\nMemFree: 1048576 kB\nBuffers: 524288 kB\nCached: 524288 kB\n"
    assert linux.parse_meminfo(text) == (4.0, 2.0)


def test_meminfo_without_numbers_is_unknown() -> None:
    assert linux.parse_meminfo("MemTotal: kB\n") == (None, None)


def test_cgroup_folders_go_from_the_own_one_to_the_root() -> None:
    folders = linux.cgroup_folders("0::/kubepods/pod1/abc\n")
    assert [folder.path for folder in folders] == ["kubepods/pod1/abc", "kubepods/pod1", "kubepods", ""]
    assert {folder.version for folder in folders} == {2}


def test_cgroup_v1_has_a_folder_for_each_controller() -> None:
    text = "4:memory:/docker/abc\n3:cpuset:/\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n"
    assert [folder.path for folder in linux.cgroup_folders(text)] == [
        "memory/docker/abc",
        "memory/docker",
        "memory/",
        "cpu,cpuacct/docker/abc",
        "cpu,cpuacct/docker",
        "cpu,cpuacct/",
    ]


def test_a_path_above_the_namespace_is_not_followed_outside() -> None:
    assert all(".." not in folder.path for folder in linux.cgroup_folders("0::/../../other\n"))


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param("max\n", None, id="v2-no-limit"),
        pytest.param("9223372036854771712\n", None, id="v1-no-limit"),
        pytest.param(None, None, id="no-file"),
        pytest.param("8589934592\n", MemoryLimit(8 * 2**30, 5 * 2**30, 2**30), id="8-gib"),
    ],
)
def test_memory_limits(limit: str | None, expected: MemoryLimit | None) -> None:
    assert linux.parse_memory_limit(limit, f"{5 * 2**30}\n", f"anon 7\ninactive_file {2**30}\n") == expected


def test_a_container_limit_cuts_total_and_available() -> None:
    limits = [MemoryLimit(8 * 2**30, used=5 * 2**30, reclaimable=2**30)]
    assert linux.apply_memory_limits(64.0, 50.0, limits) == (8.0, 4.0)


def test_a_limit_above_the_machine_changes_nothing_but_what_others_used() -> None:
    assert linux.apply_memory_limits(16.0, 10.0, [MemoryLimit(64 * 2**30, used=0)]) == (16.0, 10.0)


def test_available_never_exceeds_a_limit_whose_use_is_unknown() -> None:
    assert linux.apply_memory_limits(64.0, 50.0, [MemoryLimit(8 * 2**30)]) == (8.0, 8.0)


@pytest.mark.parametrize(
    ("cpu_max", "quota", "period", "cores"),
    [
        ("200000 100000\n", None, None, 2.0),
        ("max 100000\n", None, None, None),
        (None, "150000\n", "100000\n", 1.5),
        (None, "-1\n", "100000\n", None),
        (None, None, None, None),
        ("100", None, None, None),
    ],
)
def test_cpu_quota(cpu_max: str | None, quota: str | None, period: str | None, cores: float | None) -> None:
    assert linux.parse_cpu_quota(cpu_max, quota, period) == cores


@pytest.mark.parametrize(
    ("env", "files", "cgroup", "systemd", "expected"),
    [
        pytest.param({}, [], "0::/user.slice/session-1.scope\n", None, None, id="host"),
        pytest.param({}, ["/.dockerenv"], "0::/\n", None, "docker", id="docker"),
        pytest.param({}, [], "4:memory:/docker/0123abc\n", None, "docker", id="docker-by-cgroup"),
        pytest.param({"container": "podman"}, ["/run/.containerenv"], "0::/\n", None, "podman", id="podman"),
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ["/.dockerenv"], "0::/\n", None, "kubernetes", id="kubernetes"
        ),
        pytest.param({}, [], "0::/kubepods.slice/pod1\n", None, "kubernetes", id="kubernetes-by-cgroup"),
        pytest.param({"container": "lxc"}, [], "0::/\n", None, "lxc", id="lxc"),
        pytest.param({}, [], "0::/\n", "systemd-nspawn\n", "systemd-nspawn", id="nspawn"),
    ],
)
def test_containers(
    env: dict[str, str], files: list[str], cgroup: str, systemd: str | None, expected: str | None
) -> None:
    assert linux.parse_container(env, files, cgroup, systemd) == expected


def test_wsl_is_told_by_its_kernel() -> None:
    assert linux.is_wsl("5.15.153.1-microsoft-standard-WSL2\n")
    assert not linux.is_wsl("6.8.0-45-generic\n")
    assert not linux.is_wsl(None)


@pytest.mark.parametrize(
    ("command_line", "comm", "name"),
    [
        (b"VLLM::EngineCore\0\0\0", "VLLM::EngineCore", "VLLM::EngineCore"),
        (b"/usr/bin/python3\0-m\0vllm.entrypoints.openai.api_server\0--api-key\0sk-secret\0", "python3",
         "python3 -m vllm.entrypoints.openai.api_server"),
        (b"/opt/venv/bin/python\0/opt/venv/bin/vllm\0serve\0--api-key=sk-secret\0", "vllm", "python vllm"),
        (b"python3\0-c\0import os; key='sk-secret'\0", "python3", "python3"),
        (b"/usr/lib/xorg/Xorg\0:0\0", "Xorg", "Xorg"),
        (b"worker --token sk-secret\0", "worker", "worker"),
        (b"", "kthread", "kthread"),
        (None, None, None),
    ],
)  # fmt: skip
def test_a_process_name_never_has_its_arguments(command_line: bytes | None, comm: str | None, name: str | None) -> None:
    assert linux.parse_process_name(command_line, comm) == name


def test_the_real_user_of_a_process() -> None:
    assert linux.parse_uid("Name:\tx\nUid:\t1000\t0\t0\t0\nGid:\t5\t5\t5\t5\n") == 1000
    assert linux.parse_uid(None) is None


PCI_IDS = "# comment\n8086  Intel Corporation\n\te20b  Battlemage G21 [Arc B580]\n\t\t1849 1234  Some card\n10de  NVIDIA Corporation\n\t2684  AD102 [GeForce RTX 4090]\n"  # noqa: E501


def test_a_pci_name_is_looked_up_within_its_vendor() -> None:
    assert linux.parse_pci_name(PCI_IDS, "10de", "2684") == "AD102 [GeForce RTX 4090]"
    assert linux.parse_pci_name(PCI_IDS, "8086", "2684") is None
    assert linux.parse_pci_name(PCI_IDS, "8086", "E20B") == "Battlemage G21 [Arc B580]"
