"""`serve --container`: the image is fetched, run, and gone with its server; with a stand-in for the engine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from wizard.effects.ports import free_port

from .conftest import Place, wait_until

# `run` begins the stand-in in a session of its own, as conmon does, and shows what it says; `rm` ends it.
ENGINE = """#!/bin/sh
echo "$@" >>'{said}'
case "$1" in
version) exit {works} ;;
image) [ -e '{image}' ] ;;
pull) echo 'Copying blob 1'; touch '{image}' ;;
run)
    while [ "$1" != {name} ]; do shift; done
    shift
    setsid '{vllm}' -m vllm serve "$@" &
    echo $! >'{pid}'
    inside=$!
    trap 'kill -TERM $inside' TERM
    wait; wait ;;
rm) [ ! -e '{stuck}' ] || {{ echo 'device busy' >&2; exit 1; }}
    [ ! -e '{pid}' ] || {{ kill -9 "-$(cat '{pid}')"; rm '{pid}'; }} ;;
esac
"""
IMAGE = "public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.32.0"


class Engine:
    def __init__(self, place: Place, name: str, *, works: bool = True) -> None:
        root = place.root / "engine"
        root.mkdir(exist_ok=True)
        self.said, self.pid, self.stuck = root / f"{name} said", root / "pid", root / "stuck"
        program = place.root / "bin" / name
        program.parent.mkdir(exist_ok=True)
        words = {
            "said": self.said,
            "image": root / "image",
            "pid": self.pid,
            "stuck": self.stuck,
            "works": 0 if works else 1,
        }
        program.write_text(ENGINE.format(**words, name=IMAGE, vllm=place.vllm / "bin" / "python"))
        program.chmod(0o755)
        place.env["PATH"] = f"{program.parent}:/usr/bin:/bin"

    def lines(self, verb: str) -> list[str]:
        text = self.said.read_text() if self.said.exists() else ""
        return [line for line in text.splitlines() if line.split()[0] == verb]


@pytest.fixture
def model(place: Place) -> str:
    return str(place.home / "data" / "models" / "SmolLM2-135M-Instruct")


def _serve(place: Place, model: str, *more: str):
    return place.run("serve", "--detach", "--container", "--vllm-version", "0.32.0", "--model", model, *more)


def test_an_image_is_fetched_run_and_ended_with_its_server(place: Place, model: str) -> None:
    Engine(place, "docker", works=False)
    podman = Engine(place, "podman")
    ended = _serve(place, model)
    assert ended.returncode == 0, ended.stderr
    assert podman.lines("pull") == [f"pull {IMAGE}"]
    (run,) = podman.lines("run")
    assert f"source={model},target={model},readonly" in run
    assert "--env VLLM_API_KEY" in run
    assert place.state() == "ready"
    assert _serve(place, model).returncode == 0
    assert len(podman.lines("run")) == 1
    stopped = place.run("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert place.processes() == []
    assert len(podman.lines("pull")) == 1


def test_a_container_whose_client_was_killed_is_ended_by_the_next_start(place: Place, model: str) -> None:
    podman, port = Engine(place, "podman"), free_port("127.0.0.1")
    _serve(place, model, "--port", str(port))
    inside = int(podman.pid.read_text())
    os.kill(place.record()["pid"], signal.SIGKILL)
    wait_until(lambda: place.state() == "dead", what="dead")
    assert inside in place.processes()
    # That the port can be had again shows that the container let go of it.
    assert _serve(place, model, "--port", str(port)).returncode == 0
    assert inside not in place.processes()
    assert place.run("stop").returncode == 0
    assert place.processes() == []


def test_a_container_whose_client_was_killed_is_ended_by_stop(place: Place, model: str) -> None:
    Engine(place, "podman")
    _serve(place, model)
    os.kill(place.record()["pid"], signal.SIGKILL)
    wait_until(lambda: place.state() == "dead", what="dead")
    assert place.run("stop").returncode == 0
    assert place.processes() == []


def test_a_container_that_the_engine_cannot_remove_is_said_and_not_forgotten(place: Place, model: str) -> None:
    podman = Engine(place, "podman")
    _serve(place, model)
    podman.stuck.touch()
    stopped = place.run("stop")
    assert stopped.returncode == 1
    assert "[server-will-not-end]" in stopped.stderr
    assert "device busy" in stopped.stderr
    podman.stuck.unlink()
    assert place.run("stop").returncode == 0
    assert place.processes() == []


def test_the_container_of_a_run_that_replaced_this_one_is_left_alone(place: Place, model: str) -> None:
    Engine(place, "podman")
    attached = place.start("serve", "--container", "--vllm-version", "0.32.0", "--model", model)
    assert attached.stdout is not None
    assert any("Ctrl-C stops the server" in line for line in attached.stdout)
    assert _serve(place, model, "--set", "max-model-len=2048", "--replace").returncode == 0
    output, _ = attached.communicate(timeout=30)
    assert "was stopped elsewhere" in output
    assert place.state() == "ready"


def test_each_path_that_a_flag_names_is_seen_inside_once(place: Place, model: str) -> None:
    Engine(place, "podman")
    template = place.root / "chat.jinja"
    template.write_text("{{ messages }}")
    place.env["HF_HUB_CACHE"] = str(place.root / "hub")
    more = ("--", "--tokenizer", model, f"--chat-template={template}", "--lora-modules", f"mine={place.root}")
    shown = place.run("serve", "--dry-run", "--container", "--vllm-version", "0.32.0", "--model", model, *more).stdout
    for path in (model, template, place.root):
        assert shown.count(f"source={path},target={path},readonly") == 1
    assert f"source={place.root / 'hub'},target=/root/.cache/huggingface/hub" in shown


def test_a_dry_run_shows_the_command_and_fetches_nothing(place: Place, model: str) -> None:
    podman = Engine(place, "podman")
    ended = place.run("serve", "--dry-run", "--container", "--vllm-version", "0.32.0", "--model", model)
    assert ended.returncode == 0, ended.stderr
    assert "podman run --rm --name llm-setup-local --network host" in ended.stdout
    assert IMAGE in ended.stdout
    assert podman.lines("pull") == podman.lines("run") == []


def test_without_an_engine_that_works_each_is_named_with_what_it_said(place: Place, model: str) -> None:
    Engine(place, "docker", works=False)
    (Path(place.root) / "bin" / "podman").unlink(missing_ok=True)
    place.env["PATH"] = str(place.root / "bin")
    ended = _serve(place, model)
    assert "[container-engine-missing]" in ended.stderr
    assert "docker: " in ended.stderr
    assert "podman: not installed" in ended.stderr


def test_a_server_in_a_container_is_exported_as_one(place: Place, model: str) -> None:
    Engine(place, "podman")
    _serve(place, model)
    folder = place.root / "out"
    assert place.run("export", "systemd-user", "--output", str(folder)).returncode == 0
    (unit,) = folder.iterdir()
    assert f"--container --image {IMAGE}" in unit.read_text()
    assert "--vllm" not in unit.read_text()
    assert place.run("export", "compose", "--output", str(folder)).returncode == 0
    assert IMAGE in (folder / "compose.yaml").read_text()
