"""GPU memory that a server of llm-setup's own holds: what takes its place may count on it."""

from __future__ import annotations

from dataclasses import replace

from wizard.effects.world import World
from wizard.hardware.machine import Machine
from wizard.problems import ProblemError
from wizard.serving.record import DEFAULT_NAME


def without_server(world: World, machine: Machine, name: str = DEFAULT_NAME) -> tuple[Machine, float]:
    """This machine as it is once the server of that name has ended, and the GiB that it holds on its fullest GPU.

    A machine that flags describe is left as it is, and so is one whose driver tells no processes.
    """
    ours = frozenset() if machine.described else _processes_of(world, name)
    held = [
        sum(process.memory_used_gib or 0.0 for process in gpu.processes if process.pid in ours) for gpu in machine.gpus
    ]
    if not any(held):
        return machine, 0.0
    gpus = tuple(
        replace(
            gpu,
            memory_free_gib=gpu.memory_free_gib if gpu.memory_free_gib is None else gpu.memory_free_gib + size,
            processes=tuple(process for process in gpu.processes if process.pid not in ours),
        )
        for gpu, size in zip(machine.gpus, held, strict=True)
    )
    return replace(machine, gpus=gpus), max(held)


def _processes_of(world: World, name: str) -> frozenset[int]:
    try:
        record = world.servers.load(name)
    except ProblemError:
        return frozenset()
    if record is None:
        return frozenset()
    life = world.servers.life(record)
    return frozenset((*((record.pid,) if life.alive else ()), *life.remains))
