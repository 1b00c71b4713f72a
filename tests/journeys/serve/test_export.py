"""`export` for a server that runs, and a unit put in place."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Place


def _key(place: Place) -> str:
    return json.loads((place.home / "state" / "secrets.json").read_text())["server-local"]


def test_a_running_server_is_exported_as_it_was_started(place: Place) -> None:
    place.serve("--set", "max-model-len=4096")
    folder = place.root / "out"
    ended = place.run("export", "compose", "--output", str(folder), "--json")
    assert ended.returncode == 0, ended.stderr
    text = (folder / "compose.yaml").read_text()
    assert '"4096"' in text
    assert _key(place) not in text + ended.stdout
    secret = folder / "vllm_api_key"
    assert secret.read_text() == _key(place) + "\n"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_an_exported_start_has_the_environment_that_serve_gives(place: Place) -> None:
    place.env["HF_ENDPOINT"] = "https://mirror.test"
    shown = json.loads(place.run("serve", "--dry-run", "--json", "--vllm", str(place.vllm)).stdout)["env"]
    assert shown["TORCH_COMPILE_DISABLE"] == "1"  # this place has a blank in its name
    given = ("--vllm", str(place.vllm), "--nodes", "2", "--master", "10.0.0.1", "--yes")
    texts = {}
    for kind in ("multi-node", "systemd-system", "compose", "kubernetes"):
        folder = place.root / kind
        assert place.run("export", kind, "--output", str(folder), *given).returncode == 0
        texts[kind] = "".join(path.read_text() for path in sorted(folder.iterdir()))
    for text in texts.values():
        assert all(name in text for name in ("VLLM_NO_USAGE_STATS", "HF_HUB_OFFLINE", "https://mirror.test"))
    assert [kind for kind, text in texts.items() if "TORCH_COMPILE_DISABLE" in text] == ["multi-node", "systemd-system"]


def test_what_to_type_next_can_be_pasted_whatever_the_folder_is_called(place: Place) -> None:
    folder = place.root / 'it\'s "mine" $HOME'
    given = ("--output", str(folder), "--vllm", str(place.vllm), "--json")
    compose, system = (json.loads(place.run("export", k, *given).stdout) for k in ("compose", "systemd-system"))
    assert shlex.split(compose["next"][0])[3] == str(folder / "compose.yaml")
    words = [word for line in system["next"] for word in shlex.split(line)]
    assert str(folder / "vllm-local.service") in words
    assert not any("{" in word for word in words)


@pytest.mark.parametrize("kind", ["compose", "kubernetes", "production-stack", "systemd-system"])
def test_before_anything_was_served_the_files_name_the_model_by_its_hub_id(kind: str, tmp_path: Path) -> None:
    home = tmp_path / "empty"
    home.mkdir()
    ended = subprocess.run(
        [sys.executable, "-m", "wizard", "export", kind, "--output", str(tmp_path / "out"), "--json"],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "LLM_SETUP_PLAIN": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["model"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert "model smollm2-135m-instruct" in ended.stderr
    assert "from the hub, at the first start" in ended.stderr
    assert "warning" not in ended.stderr
    text = "".join(path.read_text() for path in sorted((tmp_path / "out").iterdir()))
    assert "HF_HUB_OFFLINE" not in text
    for path in re.findall(re.escape(str(home)) + r"[^\s\"']*", text):
        assert Path(path).exists() or path.endswith((".cache/huggingface", "/local.key")), path
    template = home / ".local/share/llm-setup/models/smollm2-tools.jinja"
    assert template.is_file()
    if kind in ("kubernetes", "production-stack"):
        assert str(home) not in text


def test_a_cluster_is_told_that_it_sees_no_folder_of_this_machine(place: Place) -> None:
    for kind, warned in (("kubernetes", True), ("compose", False)):
        ended = place.run("export", kind, "--output", str(place.root / kind), "--vllm", str(place.vllm))
        assert ("No cluster sees this folder" in ended.stdout) == warned, ended.stdout
        assert "SmolLM2-135M-Instruct" in ended.stdout


def test_a_folder_that_is_gone_since_is_said(place: Place) -> None:
    place.serve()
    next(place.home.rglob("SmolLM2-135M-Instruct")).rename(place.root / "elsewhere")
    ended = place.run("export", "compose", "--output", str(place.root / "out"))
    assert "SmolLM2-135M-Instruct` is not on this machine" in ended.stdout


def test_twice_is_once_and_what_differs_is_replaced_only_when_told(place: Place) -> None:
    folder = place.root / "out"
    given = ("export", "nginx", "--output", str(folder), "--public-name", "llm.lan", "--vllm", str(place.vllm))
    assert "written" in place.run(*given).stdout
    assert "unchanged" in place.run(*given).stdout
    path = next(folder.iterdir())
    path.write_text("mine")
    assert "[file-exists]" in place.run(*given).stderr
    assert path.read_text() == "mine"
    assert "replaced" in place.run(*given, "--yes").stdout


def test_a_dry_run_writes_nothing_and_makes_no_key(place: Place) -> None:
    ended = place.run("export", "kubernetes", "--dry-run", "--vllm", str(place.vllm))
    assert ended.returncode == 0, ended.stderr
    assert "kind: Deployment" in ended.stdout
    assert "api-key: " not in ended.stdout
    assert not (place.root / "llm-setup-export").exists()
    assert not (place.home / "state").exists()


def test_a_unit_is_put_in_place_started_and_kept_at_boot(place: Place) -> None:
    said = place.root / "said"
    for name in ("systemctl", "loginctl"):
        program = place.root / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho {name} \"$@\" >>'{said}'\n")
        program.chmod(0o755)
    place.env["PATH"] = f"{place.root / 'bin'}:{place.env['PATH']}"
    ended = place.run("export", "systemd-user", "--install", "--vllm", str(place.vllm))
    assert ended.returncode == 0, ended.stderr
    unit = place.root / ".config" / "systemd" / "user" / "llm-setup-local.service"
    assert f'"{place.vllm}/bin/python"' in unit.read_text()
    assert _key(place) not in unit.read_text() + ended.stdout
    key_file = place.home / "config" / "servers" / "local.key"
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert said.read_text().splitlines() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now llm-setup-local.service",
        "loginctl enable-linger",
    ]


def test_without_a_user_manager_it_is_said_and_the_unit_stays(place: Place) -> None:
    program = place.root / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")
    program.chmod(0o755)
    place.env["PATH"] = f"{place.root / 'bin'}:{place.env['PATH']}"
    ended = place.run("export", "systemd-user", "--install", "--vllm", str(place.vllm))
    assert ended.returncode == 1
    assert "[systemd-failed]" in ended.stderr
    assert "Failed to connect to bus" in ended.stderr


def test_kinds_are_listed_and_bad_input_is_one_clear_error(place: Place) -> None:
    kinds = json.loads(place.run("export", "--json").stdout)["kinds"]
    assert {"systemd-user", "compose", "kubernetes", "multi-node", "grafana"} <= {row["name"] for row in kinds}
    assert "[unknown-export]" in place.run("export", "helm").stderr
    assert "[missing-answer]" in place.run("export", "multi-node").stderr
    assert "[bad-host-name]" in place.run("export", "nginx", "--public-name", "a;b").stderr
    assert "[wrong-usage]" in place.run("export", "compose", "--install").stderr


def test_a_template_of_the_users_own_replaces_ours(place: Place) -> None:
    own = place.home / "config" / "templates" / "server" / "nginx"
    own.mkdir(parents=True)
    (own / "site.conf.j2").write_text("mine {{ server.port }}\n")
    folder = Path(place.root / "out")
    assert place.run("export", "nginx", "--output", str(folder), "--vllm", str(place.vllm)).returncode == 0
    assert next(folder.iterdir()).read_text() == "mine 8000\n"
