"""Texts of Linux's /proc and /sys -> values. Nothing here opens a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wizard.hardware.machine import GIB, Cpu

KIB = 2**10

# What decides which kernels vLLM's CPU build may use; everything else in the flags line is noise here.
_FEATURE_WORDS = """
sse4_2 avx avx2 fma f16c avx_vnni avx512f avx512bw avx512dq avx512vl avx512_bf16 avx512_vnni avx512_fp16
amx_tile amx_bf16 amx_int8 amx_fp16 asimd asimddp asimdhp bf16 i8mm sve sve2 svebf16 vsx vx
"""
FEATURES = frozenset(_FEATURE_WORDS.split())

# ARM gives no name, only numbers: (implementer, part). Source: Arm's MIDR_EL1 tables as in util-linux lscpu-arm.c.
_ARM_CORES = {
    ("0x41", "0xd0c"): "Arm Neoverse-N1",
    ("0x41", "0xd40"): "Arm Neoverse-V1",
    ("0x41", "0xd49"): "Arm Neoverse-N2",
    ("0x41", "0xd4f"): "Arm Neoverse-V2",
    ("0x41", "0xd83"): "Arm Neoverse-V3",
    ("0x41", "0xd85"): "Arm Cortex-X925",
    ("0x41", "0xd87"): "Arm Cortex-A725",
    ("0x41", "0xd42"): "Arm Cortex-A78AE",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
    ("0x48", "0xd01"): "HiSilicon Kunpeng-920",
}


def parse_cpuinfo(text: str, architecture: str) -> Cpu:
    """/proc/cpuinfo of any architecture. logical_cores is the number of processors that it lists."""
    name: str | None = None
    implementer = part = ""
    features: set[str] = set()
    processors = 0
    cores: set[tuple[str, str]] = set()
    socket = ""
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        key, value = key.strip(), value.strip()
        if not colon:
            continue
        if key == "processor":
            processors += value.isdigit()
        elif key in ("model name", "cpu") and name is None:
            name = " ".join(value.split())
        elif key in ("flags", "Features", "features"):
            features.update(FEATURES.intersection(value.split()))
        elif key == "physical id":
            socket = value
        elif key == "core id":
            cores.add((socket, value))
        elif key == "CPU implementer":
            implementer = value
        elif key == "CPU part":
            part = part or value
    if name is None and implementer:
        name = _ARM_CORES.get((implementer, part), f"Arm CPU {implementer}/{part}")
    return Cpu(
        name=name,
        architecture=architecture,
        logical_cores=processors or None,
        physical_cores=len(cores) or None,
        features=tuple(sorted(features)),
    )


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Linux's list format: "0-3,8" is 0, 1, 2, 3, 8. What is not in that format is left out."""
    numbers: list[int] = []
    for item in text.strip().split(","):
        first, _, last = item.strip().partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def parse_meminfo(text: str) -> tuple[float | None, float | None]:
    """/proc/meminfo -> (total, available) in GiB. Kernels before 3.14 have no MemAvailable: free and cached then."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        number = value.split()
        if number and number[0].isdigit():
            found[key.strip()] = int(number[0]) * KIB
    total = found.get("MemTotal")
    available = found.get("MemAvailable")
    if available is None and "MemFree" in found:
        available = found["MemFree"] + found.get("Cached", 0) + found.get("Buffers", 0)
    return (None if total is None else total / GIB, None if available is None else available / GIB)


@dataclass(frozen=True, slots=True)
class CgroupFolder:
    """One folder below /sys/fs/cgroup whose limits apply to this process; version 1 or 2."""

    version: int
    controller: str
    path: str


def cgroup_folders(text: str) -> tuple[CgroupFolder, ...]:
    """/proc/self/cgroup -> folders with memory and CPU limits, own first, then every ancestor to the root.

    In a container without a cgroup namespace the path names a folder of the host that is not mounted; the root,
    which is always last, is then the container's own.
    """
    folders: list[CgroupFolder] = []
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            wanted = [(2, "", "")]
        else:
            wanted = [(1, c, f"{c if c == 'memory' else controllers}/") for c in controllers.split(",")]
            wanted = [item for item in wanted if item[1] in ("memory", "cpu")]
        for version, controller, prefix in wanted:
            parts = [part for part in path.split("/") if part and part != ".."]
            for end in range(len(parts), -1, -1):
                folders.append(CgroupFolder(version, controller, prefix + "/".join(parts[:end])))
    return tuple(folders)


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A cgroup's memory in bytes: its limit, what is used, and how much of that is file cache that can be dropped."""

    limit: int
    used: int | None = None
    reclaimable: int = 0


# cgroup v1 writes "no limit" as the largest multiple of a page; anything in that region is no limit.
_V1_UNLIMITED = 2**60


def parse_memory_limit(limit: str | None, used: str | None, stat: str | None) -> MemoryLimit | None:
    """memory.max or memory.limit_in_bytes with its usage and memory.stat; None where there is no limit."""
    if limit is None or not limit.strip().isdigit() or int(limit) >= _V1_UNLIMITED:
        return None
    reclaimable = 0
    for line in (stat or "").splitlines():
        key, _, value = line.partition(" ")
        if key in ("total_inactive_file", "inactive_file") and value.strip().isdigit():
            reclaimable = max(reclaimable, int(value))
    return MemoryLimit(int(limit), int(used) if used and used.strip().isdigit() else None, reclaimable)


def apply_memory_limits(
    total_gib: float | None, available_gib: float | None, limits: Iterable[MemoryLimit]
) -> tuple[float | None, float | None]:
    """RAM as this process may use it: the smallest of the machine's and each cgroup's; GiB in and out."""
    for limit in limits:
        limit_gib = limit.limit / GIB
        total_gib = limit_gib if total_gib is None else min(total_gib, limit_gib)
        if limit.used is not None:
            left = max(0, limit.limit - max(0, limit.used - limit.reclaimable)) / GIB
            available_gib = left if available_gib is None else min(available_gib, left)
        if available_gib is not None:
            available_gib = min(available_gib, total_gib)
    return total_gib, available_gib


def parse_cpu_quota(cpu_max: str | None, quota_us: str | None = None, period_us: str | None = None) -> float | None:
    """cgroup v2 cpu.max ("200000 100000") or v1 cpu.cfs_quota_us and cpu.cfs_period_us -> cores; None: no limit."""
    quota, period = [*cpu_max.split(), "", ""][:2] if cpu_max else ((quota_us or "").strip(), (period_us or "").strip())
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        return int(quota) / int(period)
    return None


def is_wsl(version: str | None) -> bool:
    """/proc/version or /proc/sys/kernel/osrelease: WSL runs Microsoft's kernel ("5.15.90-microsoft-standard-WSL2")."""
    return bool(version) and "microsoft" in (version or "").lower()


def parse_container(
    env: Mapping[str, str], files: Iterable[str], cgroup: str | None, systemd_container: str | None = None
) -> str | None:
    """Which container this is: kubernetes, podman, docker, lxc, the name systemd was told, or None.

    `files` are those of /.dockerenv, /run/.containerenv and /var/run/secrets/kubernetes.io that exist; `cgroup` is
    /proc/self/cgroup, which names the engine where there is no cgroup namespace; `systemd_container` is
    /run/systemd/container. https://systemd.io/CONTAINER_INTERFACE/ has the last one and the variable `container`.
    """
    present = set(files)
    cgroup = cgroup or ""
    if env.get("KUBERNETES_SERVICE_HOST") or "/var/run/secrets/kubernetes.io" in present or "kubepods" in cgroup:
        return "kubernetes"
    told = env.get("container", "") or (systemd_container or "").strip()
    if "/run/.containerenv" in present or told == "podman" or "libpod" in cgroup:
        return "podman"
    if "/.dockerenv" in present or told == "docker" or re.search(r"[/:]docker[/-]", cgroup):
        return "docker"
    if told in ("lxc", "lxc-libvirt") or "/lxc/" in cgroup or "lxc.payload" in cgroup:
        return "lxc"
    if "containerd" in cgroup or "cri-" in cgroup:
        return "containerd"
    return told or None


def parse_process_name(command_line: bytes | None, comm: str | None) -> str | None:
    """A process's name for people, from /proc/PID/cmdline and comm. Its arguments stay out: they may hold keys.

    For an interpreter the module or script is the name: "python -m vllm.entrypoints.openai.api_server".
    """
    words = [word.decode("utf-8", "replace") for word in (command_line or b"").split(b"\0") if word]
    if not words:
        return (comm or "").strip() or None
    program = words[0].rsplit("/", 1)[-1].strip()
    if not re.match(r"(python|pypy|node|ruby|perl|java)[\d.]*$", program):
        # A process that set its own title ("VLLM::EngineCore", "nginx: worker") has it all in the first word.
        return program.split(" --")[0][:64]
    if len(words) > 2 and words[1] == "-m":
        return f"{program} -m {words[2]}"
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    return f"{program} {script.rsplit('/', 1)[-1]}".strip()[:64] if words[1:2] != ["-c"] else program


def parse_uid(status: str | None) -> int | None:
    """The real user id of /proc/PID/status."""
    found = re.search(r"^Uid:\s+(\d+)", status or "", re.MULTILINE)
    return int(found[1]) if found else None


def parse_pci_name(ids: str, vendor: str, device: str) -> str | None:
    """A device's name from pci.ids (hwdata), by hexadecimal ids such as "8086" and "e20b"."""
    inside = False
    for line in ids.splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith("\t"):
            if inside:
                return None
            inside = line.lower().startswith(vendor.lower() + " ")
        elif inside and not line.startswith("\t\t") and line[1:].lower().startswith(device.lower() + " "):
            return line[1:].split(None, 1)[1].strip()
    return None
