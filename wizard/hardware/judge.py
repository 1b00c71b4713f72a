"""What is wrong with a machine, or worth knowing, before a model is served on it."""

from __future__ import annotations

from wizard.hardware.machine import DriverError, Gpu, Machine
from wizard.hardware.usable import MINIMUM_COMPUTE_CAPABILITY
from wizard.i18n import t
from wizard.problems import Fix, Problem

# Docker's default /dev/shm is 64 MiB; NCCL asks for tens of MiB for each pair of GPUs.
SMALL_SHM_GIB = 1.0
# Below this a desktop or an idle CUDA context explains it.
MUCH_MEMORY_GIB = 1.0


def judge_machine(machine: Machine) -> tuple[Problem, ...]:
    """Problems, errors first: a driver that does not answer, GPUs that are too old, memory that others hold."""
    found = [
        *_driver(machine),
        *_rocm(machine),
        *(_old(gpu) for gpu in machine.usable_gpus if _is_old(gpu)),
        *_held(machine),
        *_shm(machine),
    ]
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(found, key=lambda problem: order[problem.severity]))


def _driver(machine: Machine) -> list[Problem]:
    if machine.driver_error is None:
        return []
    names = ", ".join(f"{gpu.name} {gpu.pci_bus_id or ''}".strip() for gpu in machine.gpus if gpu.vendor == "nvidia")
    loaded = t("driver {version} is loaded", version=machine.driver_version) if machine.driver_version else ""
    saw = (text for text in (machine.driver_error_text, loaded, names) if text)
    return [_driver_problem(machine.driver_error, machine.container is not None).seen(*saw)]


def _driver_problem(error: DriverError, contained: bool) -> Problem:
    container = Fix(
        t("Start the container with its GPUs, through NVIDIA's container toolkit."), ("docker run --gpus all ...",)
    )
    problems: dict[DriverError, Problem] = {
        "driver-missing": Problem(
            "driver-missing",
            t("There is an NVIDIA GPU, but no NVIDIA driver."),
            t("Without the driver's kernel module no program can use the GPU."),
            fix=container if contained else Fix(t("Install the driver (580 or newer), and start the machine again.")),
            # A card without any driver is as good as no card: the machine works, on its processor.
            severity="warning",
        ),
        "driver-not-loaded": Problem(
            "driver-not-loaded",
            t("The NVIDIA driver is installed, but its kernel module is not loaded."),
            t("After a kernel update the module may not have been built for the new kernel."),
            fix=Fix(
                t("Load the module; if that fails, install the driver again for this kernel."),
                ("sudo modprobe nvidia",),
            ),
        ),
        "driver-library-missing": Problem(
            "driver-library-missing",
            t("The NVIDIA kernel module is loaded, but its library `libnvidia-ml.so.1` is not found."),
            t("The library comes with the driver's user part; a container gets it from the host."),
            fix=container
            if contained
            else Fix(t("Install the driver's user part in the version of the module that is loaded.")),
        ),
        "driver-library-mismatch": Problem(
            "driver-library-mismatch",
            t("The NVIDIA driver's library and its kernel module are of different versions."),
            t("The driver was updated while the old module stayed loaded; CUDA fails until both are the same."),
            fix=Fix(t("Start the machine again, so that the new module is loaded."), ("sudo reboot",)),
        ),
        "driver-no-permission": Problem(
            "driver-no-permission",
            t("The NVIDIA driver may not be asked by this user."),
            t("The device files /dev/nvidia* are for certain users or groups on this machine."),
            fix=Fix(t("See who may open them, and join that group."), ("ls -l /dev/nvidia*",)),
        ),
        "driver-hung": Problem(
            "driver-hung",
            t("The NVIDIA driver does not answer in time."),
            t("A GPU that has failed, or one that is being reset, blocks everybody who asks."),
            fix=Fix(
                t("Look for `Xid` errors in the kernel's log; a restart of the machine frees the GPU."),
                ("sudo dmesg | grep -i xid",),
            ),
        ),
        "driver-crashed": Problem(
            "driver-crashed",
            t("The NVIDIA driver's library crashed when asked."),
            t("Its files are damaged, or it does not fit the kernel module."),
            fix=Fix(t("See whether NVIDIA's own tool works; if not, install the driver again."), ("nvidia-smi",)),
        ),
        "driver-error": Problem(
            "driver-error",
            t("The NVIDIA driver answers with an error."),
            t("llm-setup asked NVIDIA's management library, and it refused."),
            fix=Fix(t("See what NVIDIA's own tool says."), ("nvidia-smi",)),
        ),
    }
    return problems[error]


def _rocm(machine: Machine) -> list[Problem]:
    if machine.rocm_error is None:
        return []
    gpus = ", ".join(gpu.name for gpu in machine.gpus if gpu.vendor == "amd")
    why = t("ROCm programs reach AMD GPUs through /dev/kfd and /dev/dri.")
    container = Fix(t("Give the container both devices."), ("docker run --device /dev/kfd --device /dev/dri ...",))
    if machine.rocm_error == "rocm-device-missing":
        fix = (
            container
            if machine.container
            else Fix(
                t("Load the amdgpu driver with its compute part; see its log."),
                ("sudo dmesg | grep -i -e amdgpu -e kfd",),
            )
        )
        return [Problem("rocm-device-missing", t("AMD's compute device /dev/kfd is not here."), why, (gpus,), fix)]
    groups = Fix(t("Join the groups that own it, and log in again."), ("sudo usermod -aG render,video $USER",))
    return [
        Problem("rocm-no-permission", t("This user may not use AMD's compute device /dev/kfd."), why, (gpus,), groups)
    ]


def _is_old(gpu: Gpu) -> bool:
    if gpu.vendor != "nvidia" or gpu.compute_capability is None:
        return False
    major, _, minor = gpu.compute_capability.partition(".")
    return (int(major), int(minor)) < MINIMUM_COMPUTE_CAPABILITY


def _old(gpu: Gpu) -> Problem:
    minimum = "{}.{}".format(*MINIMUM_COMPUTE_CAPABILITY)
    return Problem(
        "gpu-too-old",
        t("{name} is too old for vLLM's wheels.", name=gpu.name),
        t("They hold code for compute capability {minimum} and newer.", minimum=minimum),
        (t("GPU {index}: compute capability {found}", index=gpu.index, found=gpu.compute_capability),),
        Fix(t("Serve on another GPU or on the processor, or use a server elsewhere by its URL.")),
        severity="warning",
    )


def _held(machine: Machine) -> list[Problem]:
    saw = []
    for gpu in machine.usable_gpus:
        used = gpu.memory_used_gib
        if used is None or used < MUCH_MEMORY_GIB or gpu.unified_memory:
            continue
        holders = ", ".join(
            f"{p.name or t('a process not visible from here')} (pid {p.pid}{f', {p.user}' if p.user else ''})"
            for p in gpu.processes[:3]
        )
        saw.append(
            t(
                "GPU {index}: {used:.1f} of {total:.1f} GiB held by {holders}",
                index=gpu.index,
                used=used,
                total=gpu.memory_total_gib,
                holders=holders or t("processes not visible from here"),
            )
        )
    if not saw:
        return []
    pids = sorted({p.pid for g in machine.usable_gpus for p in g.processes if p.name and (p.memory_used_gib or 0) > 1})
    return [
        Problem(
            "gpu-memory-in-use",
            t("Other programs hold GPU memory."),
            t("vLLM takes its share of the whole memory, and refuses to start when less than that is free."),
            tuple(saw),
            Fix(
                t("Stop what is not needed, or plan with what is free: `llm-setup plan` does so by itself."),
                (f"ps -fp {','.join(map(str, pids))}",) if pids else (),
            ),
            severity="info",
        )
    ]


def _shm(machine: Machine) -> list[Problem]:
    shm = machine.shm_total_gib
    if shm is None or shm >= SMALL_SHM_GIB or len(machine.usable_gpus) < 2:
        return []
    return [
        Problem(
            "shm-too-small",
            t("Shared memory is too small for several GPUs."),
            t("vLLM's workers and NCCL exchange data through /dev/shm; a container gets 64 MiB unless told otherwise."),
            (t("/dev/shm: {size:.0f} MiB, GPUs: {gpus}", size=shm * 1024, gpus=len(machine.usable_gpus)),),
            Fix(
                t("Start the container with the host's shared memory, or a larger one of its own."),
                ("docker run --ipc=host ...", "docker run --shm-size=16g ..."),
            ),
            severity="warning",
        )
    ]
