"""Look at the machine: start the slow readers, read the rest meanwhile, put it all together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from wizard.effects.machine import Host
from wizard.effects.nvml import GpuReader, start_amdsmi, start_nvml
from wizard.effects.world import World
from wizard.hardware import amd, apple, intel, linux, nvidia
from wizard.hardware.judge import judge_machine
from wizard.hardware.machine import Cpu, DriverError, Gpu, GpuLink, GpuProcess, Machine
from wizard.hardware.render import machine_json, render_machine
from wizard.hardware.usable import choose_build
from wizard.i18n import t
from wizard.ui.screen import Screen

# A driver without persistence mode wakes each GPU first: seconds for a machine with eight of them.
GPU_TIME_LIMIT_S = 20.0
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io")
_NVIDIA_VENDOR = "0x10de"
# PCI class of displays (03xxxx): VGA and 3D controllers.
_DISPLAY_CLASS = "0x03"


def observe_machine(
    world: World,
    *,
    host: Host | None = None,
    nvml: GpuReader | None = None,
    amdsmi: GpuReader | None = None,
    gpu_time_limit_s: float = GPU_TIME_LIMIT_S,
) -> Machine:
    """This machine as it is now. Never raises for what cannot be read: that is None, and `unknown` says why.

    gpu_time_limit_s bounds how long a GPU driver may take to answer; a hung driver costs that long and no more.
    host, nvml, amdsmi: what to read instead of this machine and its drivers' libraries.
    """
    host = host or Host(env=world.env)
    reader = nvml or (start_nvml(world.env) if world.platform != "darwin" else None)
    try:
        if world.platform == "darwin":
            machine = _mac(host)
        elif world.platform == "linux":
            machine = _linux(host)
        else:
            machine = _windows(host, world)
        machine = replace(
            machine,
            ssh=any(world.env.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")),
            disk_free_gib=host.free_gib(world.paths.data),
        )
        if world.platform == "linux":
            machine = _other_gpus(machine, host, amdsmi, gpu_time_limit_s)
    except BaseException:
        if reader:
            reader.reading(0.0)
        raise
    if reader:
        machine = _nvidia(machine, host, reader, gpu_time_limit_s)
    gpus = nvidia.hide_invisible(
        tuple(gpu for gpu in machine.gpus if gpu.vendor == "nvidia"),
        world.env.get("CUDA_VISIBLE_DEVICES"),
        "CUDA_VISIBLE_DEVICES",
    )
    others = tuple(gpu for gpu in machine.gpus if gpu.vendor == "amd")
    for variable in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        others = nvidia.hide_invisible(others, world.env.get(variable), variable)
    rest = tuple(gpu for gpu in machine.gpus if gpu.vendor not in ("nvidia", "amd"))
    return replace(machine, gpus=(*gpus, *others, *rest))


def _linux(host: Host) -> Machine:
    unknown: list[str] = []
    cpuinfo = host.text("proc/cpuinfo")
    cpu = linux.parse_cpuinfo(cpuinfo or "", host.architecture())
    if cpuinfo is None:
        unknown.append(t("processor: /proc/cpuinfo cannot be read"))
    nodes = linux.parse_cpu_list(
        host.first_text("sys/devices/system/node/has_cpu", "sys/devices/system/node/online") or ""
    )
    total, available = linux.parse_meminfo(host.text("proc/meminfo") or "")
    if total is None:
        unknown.append(t("memory: /proc/meminfo cannot be read"))
    cgroup = host.text("proc/self/cgroup")
    limits, quotas = _cgroup_limits(host, cgroup)
    total, available = linux.apply_memory_limits(total, available, limits)
    container = linux.parse_container(
        host.env, [path for path in _CONTAINER_FILES if host.exists(path)], cgroup, host.text("run/systemd/container")
    )
    cores = [number for number in (cpu.logical_cores, host.usable_cores()) if number]
    return Machine(
        platform="linux",
        cpu=replace(
            cpu,
            name=cpu.name or host.first_text("proc/device-tree/model"),
            logical_cores=min(cores) if cores else None,
            numa_nodes=len(nodes) or None,
            quota_cores=min(quotas) if quotas else None,
        ),
        ram_total_gib=total,
        ram_available_gib=available,
        container=container,
        wsl=linux.is_wsl(host.first_text("proc/sys/kernel/osrelease", "proc/version")),
        shm_total_gib=host.size_gib("dev/shm"),
        unknown=tuple(unknown),
    )


def _cgroup_limits(host: Host, cgroup: str | None) -> tuple[list[linux.MemoryLimit], list[float]]:
    limits: list[linux.MemoryLimit] = []
    quotas: list[float] = []
    for folder in linux.cgroup_folders(cgroup or ""):
        at = f"sys/fs/cgroup/{folder.path}".rstrip("/")
        limit = quota = None
        if folder.version == 2:
            limit = linux.parse_memory_limit(
                host.text(f"{at}/memory.max"), host.text(f"{at}/memory.current"), host.text(f"{at}/memory.stat")
            )
            quota = linux.parse_cpu_quota(host.text(f"{at}/cpu.max"))
        elif folder.controller == "memory":
            limit = linux.parse_memory_limit(
                host.text(f"{at}/memory.limit_in_bytes"),
                host.text(f"{at}/memory.usage_in_bytes"),
                host.text(f"{at}/memory.stat"),
            )
        else:
            quota = linux.parse_cpu_quota(
                None, host.text(f"{at}/cpu.cfs_quota_us"), host.text(f"{at}/cpu.cfs_period_us")
            )
        if limit:
            limits.append(limit)
        if quota:
            quotas.append(quota)
    return limits, quotas


def _mac(host: Host) -> Machine:
    facts = apple.parse_apple(host.run("sysctl", *apple.SYSCTL_NAMES), host.run("vm_stat"), host.architecture())
    unknown = () if facts.ram_total_gib is not None else (t("memory: `sysctl` did not tell"),)
    return Machine("darwin", facts.cpu, facts.ram_total_gib, facts.ram_available_gib, facts.gpus, unknown=unknown)


def _windows(host: Host, world: World) -> Machine:
    import os

    cpu = Cpu(world.env.get("PROCESSOR_IDENTIFIER"), host.architecture(), os.cpu_count())
    why = t("memory: not read on Windows itself; vLLM runs in WSL, where this command tells all")
    return Machine("windows", cpu, None, None, unknown=(why,))


def _nvidia(machine: Machine, host: Host, reader: GpuReader, time_limit_s: float) -> Machine:
    reading = reader.reading(time_limit_s)
    facts = nvidia.parse_nvml(reading.lines, reading.ended, time_limit_s)
    error: DriverError | None = facts.error
    if reading.ended == "not-started":
        error = "driver-error"
    text = facts.error_text or reading.text
    gpus = facts.gpus
    version = facts.driver_version or nvidia.parse_kernel_module_version(host.text("proc/driver/nvidia/version") or "")
    if error and not gpus:
        gpus = tuple(
            nvidia.parse_kernel_gpu(
                host.text(f"proc/driver/nvidia/gpus/{name}/information") or "", index, text or t("the driver is silent")
            )
            for index, name in enumerate(host.names("proc/driver/nvidia/gpus"))
        )
    if error in ("driver-library-missing", "driver-not-loaded") and not gpus:
        # No library and no module is simply a machine without NVIDIA, unless a card is there.
        cards = [
            address
            for address in host.names("sys/bus/pci/devices")
            if (host.text(f"sys/bus/pci/devices/{address}/vendor") or "").strip() == _NVIDIA_VENDOR
            and (host.text(f"sys/bus/pci/devices/{address}/class") or "").startswith(_DISPLAY_CLASS)
        ]
        if not cards and machine.wsl and host.exists("dev/dxg") and not machine.gpus:
            why = t("GPU: Windows passes one on, but without NVIDIA's library for WSL; see `nvidia-smi` in Windows")
            return replace(machine, unknown=(*machine.unknown, why))
        if not cards:
            return machine
        if error == "driver-library-missing":
            error = "driver-missing"
        gpus = tuple(
            Gpu(
                index,
                _pci_name(host, address) or t("NVIDIA GPU (not read)"),
                "nvidia",
                None,
                None,
                pci_bus_id=address,
                unknown=(t("memory, compute capability, processes: no NVIDIA driver is loaded"),),
            )
            for index, address in enumerate(cards)
        )
    finished = tuple(_finish_nvidia(gpu, machine, host) for gpu in gpus)
    return replace(
        machine,
        gpus=(*finished, *machine.gpus),
        links=(*facts.links, *machine.links),
        driver_version=version,
        driver_cuda=facts.driver_cuda,
        driver_error=error,
        driver_error_text=text,
    )


def _finish_nvidia(gpu: Gpu, machine: Machine, host: Host) -> Gpu:
    if gpu.memory_total_gib is None and any(name in gpu.name for name in ("GB10", "Thor", "Orin")):
        # One memory for CPU and GPU: NVML has no figure of its own, and CUDA reports the machine's RAM.
        gpu = replace(
            gpu,
            memory_total_gib=machine.ram_total_gib,
            memory_free_gib=machine.ram_available_gib,
            unified_memory=True,
            unknown=(),
        )
    node = (host.text(f"sys/bus/pci/devices/{gpu.pci_bus_id}/numa_node") or "").strip() if gpu.pci_bus_id else ""
    return replace(
        gpu,
        processes=tuple(_named(process, machine, host) for process in gpu.processes),
        numa_node=int(node) if node.isdigit() else None,
    )


def _named(process: GpuProcess, machine: Machine, host: Host) -> GpuProcess:
    """The process with its name and user. In a container the driver may count as the host does: a process with that
    number here is then another one, so it must have a GPU open to be believed."""
    status = host.text(f"proc/{process.pid}/status")
    if status is None:
        return process
    if machine.container:
        opened = host.open_files(process.pid)
        if opened is None or not any(_is_gpu_file(path) for path in opened):
            return process
    uid = linux.parse_uid(status)
    return replace(
        process,
        name=linux.parse_process_name(host.bytes(f"proc/{process.pid}/cmdline"), host.text(f"proc/{process.pid}/comm")),
        user=None if uid is None else host.user_name(uid),
    )


def _is_gpu_file(path: str) -> bool:
    return any(name in path for name in ("/dev/nvidia", "/dev/dxg", "/dev/kfd", "/dev/dri/"))


def _pci_name(host: Host, address: str) -> str | None:
    vendor = (host.text(f"sys/bus/pci/devices/{address}/vendor") or "").strip().removeprefix("0x")
    device = (host.text(f"sys/bus/pci/devices/{address}/device") or "").strip().removeprefix("0x")
    ids = host.first_text("usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids")
    return linux.parse_pci_name(ids, vendor, device) if ids and vendor and device else None


def _other_gpus(machine: Machine, host: Host, amdsmi: GpuReader | None, time_limit_s: float) -> Machine:
    cards = [card for card in host.drm_cards() if card[1]]
    amd_cards = [card for card in cards if card[2].get("vendor", "").strip() == amd.VENDOR]
    intel_cards = [
        card for card in cards if card[2].get("vendor", "").strip() == intel.VENDOR and not intel.is_integrated(card[1])
    ]
    if not amd_cards and not intel_cards:
        return machine
    reader = (amdsmi or start_amdsmi(host.env)) if amd_cards else None
    clients = dict(_drm_clients(host))
    nodes = list(_kfd_nodes(host))
    by_address = {node.pci_bus_id: node for node in nodes}
    # The compute driver's order is the order in which HIP numbers them.
    amd_cards.sort(key=lambda card: (by_address[card[1]].number if card[1] in by_address else 10**6, card[1]))
    gpus: list[Gpu] = []
    for index, (_, address, texts) in enumerate(amd_cards):
        node = by_address.get(address)
        holders = amd.merge_processes(amd.sum_clients(clients, address), _kfd_processes(host, node))
        gpus.append(
            amd.parse_amd_gpu(
                index, texts, address, node, _amd_name(host, texts, address), _all_named(holders, machine, host)
            )
        )
    if reader:
        gpus = list(amd.parse_amdsmi(reader.reading(time_limit_s).lines, tuple(gpus)))
    number_of = {by_address[gpu.pci_bus_id or ""].number: gpu.index for gpu in gpus if gpu.pci_bus_id in by_address}
    links = tuple(
        GpuLink(number_of[node.number], number_of[other], "xgmi")
        for node in nodes
        for other in node.xgmi_to
        if node.number in number_of and other in number_of and number_of[node.number] < number_of[other]
    )
    for index, (_, address, texts) in enumerate(intel_cards):
        holders = _all_named(amd.sum_clients(clients, address), machine, host)
        gpus.append(intel.parse_intel_gpu(index, texts, address, _pci_name(host, address), holders))
    rocm = host.text("opt/rocm/.info/version")
    machine = replace(machine, gpus=tuple(gpus), links=links, rocm_version=rocm.strip().split("-")[0] if rocm else None)
    if not amd_cards or host.may_use("dev/kfd"):
        return machine
    return replace(machine, rocm_error="rocm-no-permission" if host.exists("dev/kfd") else "rocm-device-missing")


def _all_named(processes: tuple[GpuProcess, ...], machine: Machine, host: Host) -> tuple[GpuProcess, ...]:
    return tuple(_named(process, machine, host) for process in processes)


def _amd_name(host: Host, texts: dict[str, str], address: str) -> str | None:
    ids = host.first_text("usr/share/libdrm/amdgpu.ids", "opt/amdgpu/share/libdrm/amdgpu.ids")
    named = (
        amd.parse_amdgpu_name(ids, texts.get("device", "").strip(), texts.get("revision", "").strip()) if ids else None
    )
    return named or texts.get("product_name", "").strip() or _pci_name(host, address)


def _kfd_nodes(host: Host) -> Iterator[amd.KfdNode]:
    for name in host.names("sys/class/kfd/kfd/topology/nodes"):
        folder = f"sys/class/kfd/kfd/topology/nodes/{name}"
        properties = host.text(f"{folder}/properties")
        if not name.isdigit() or not properties:
            continue
        links = [host.text(f"{folder}/io_links/{link}/properties") or "" for link in host.names(f"{folder}/io_links")]
        node = amd.parse_kfd_node(int(name), properties, host.text(f"{folder}/gpu_id"), links)
        if node:
            yield node


def _kfd_processes(host: Host, node: amd.KfdNode | None) -> tuple[GpuProcess, ...]:
    if node is None or not node.gpu_id:
        return ()
    found = []
    for name in host.names("sys/class/kfd/kfd/proc"):
        held = (host.text(f"sys/class/kfd/kfd/proc/{name}/vram_{node.gpu_id}") or "").strip()
        if name.isdigit() and held.isdigit() and int(held):
            found.append(GpuProcess(int(name), int(held) / 2**30))
    return tuple(found)


def _drm_clients(host: Host) -> Iterator[tuple[int, list[amd.DrmClient]]]:
    for pid in host.pids():
        folder = Path("proc") / str(pid)
        clients = []
        for name in host.names(f"{folder}/fdinfo"):
            # Reading every open file's record of every process is slow; the link tells which are graphics handles.
            target = host.link(f"{folder}/fd/{name}")
            if target is not None and "/dev/dri/" not in target:
                continue
            with contextlib.suppress(ValueError):
                client = amd.parse_fdinfo(host.text(f"{folder}/fdinfo/{name}") or "")
                if client:
                    clients.append(client)
        if clients:
            yield pid, clients


def show_hardware(world: World, screen: Screen, *, gpu_time_limit_s: float = GPU_TIME_LIMIT_S) -> bool:
    """Observe and show this machine; returns whether a problem of severity error was found."""
    machine = observe_machine(world, gpu_time_limit_s=gpu_time_limit_s)
    choice = choose_build(machine)
    problems = judge_machine(machine)
    if screen.as_json:
        screen.document(machine_json(machine, choice, problems))
    else:
        for line in render_machine(machine, choice, symbols=screen.symbols):
            screen.line(line)
        for problem in problems:
            screen.line()
            for line in screen.problem_lines(problem):
                screen.line(line)
    return any(problem.severity == "error" for problem in problems)
