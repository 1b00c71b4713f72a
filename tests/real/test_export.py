"""What `export` writes, checked by the tools of each kind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from .installing import cache_folder, made_once, run, system_program
from .vllm_servers import RealServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
PACKAGES = {"nginx": "nginx-light", "promtool": "prometheus", "caddy": "caddy", "systemd-analyze": "systemd"}


def export(folder: Path, kind: str, *arguments: str, **env: str) -> Path:
    """`llm-setup export KIND` into a folder of its own, of a model that needs no network to be planned."""
    given = ("export", kind, "--model", "Qwen/Qwen3-8B", "--gpu", "RTX 4090", "--output", str(folder / kind))
    subprocess.run(
        [sys.executable, "-m", "wizard", *given, *arguments],
        env=os.environ | {"LLM_SETUP_HOME": str(folder / "own home")} | env,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder / kind


def tool(name: str) -> str:
    """A checker's path; skips where there is none, and fails where CI could have installed it."""
    try:
        return str(system_program(name, PACKAGES[name]))
    except LookupError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


def python_tools() -> Path:
    """The Python of an environment with validators."""

    def make(folder: Path) -> None:
        run(sys.executable, "-m", "venv", folder)
        run(folder / "bin" / "pip", "install", "--quiet", "kubernetes-validate==1.37.0", "compose-spec==0.2.1")

    return made_once(cache_folder() / "validators-2", make) / "bin" / "python"


@pytest.mark.parametrize("kind", ["systemd-user", "systemd-system"])
def test_systemd_takes_the_unit(tmp_path: Path, kind: str) -> None:
    folder = export(tmp_path, kind)
    (unit,) = folder.glob("*.service")
    # The unit names a program that may not be on this machine; what is checked is the file.
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/sh", unit.read_text(), flags=re.MULTILINE))
    scope = ["--user"] if kind == "systemd-user" else []
    ended = subprocess.run(
        [tool("systemd-analyze"), "verify", *scope, unit],
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_compose_is_what_the_specification_says(tmp_path: Path) -> None:
    file = export(tmp_path, "compose") / "compose.yaml"
    script = "import sys; from compose_spec import PyCompose as C; C.from_yaml(open(sys.argv[1]).read()).validate()"
    run(python_tools(), "-c", script, file)


def test_kubernetes_is_what_its_api_says(tmp_path: Path) -> None:
    files = [*export(tmp_path, "kubernetes").iterdir(), export(tmp_path, "production-stack") / "secret.yaml"]
    validate = python_tools().parent / "kubernetes-validate"
    ended = subprocess.run(
        [validate, "-k", "1.32", "--strict", *sorted(files)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_prometheus_takes_its_files(tmp_path: Path) -> None:
    run(tool("promtool"), "check", "config", export(tmp_path, "prometheus") / "prometheus.yml")


def test_caddy_takes_its_file(tmp_path: Path) -> None:
    run(tool("caddy"), "validate", "--adapter", "caddyfile", "--config", export(tmp_path, "caddy") / "Caddyfile")


def test_nginx_takes_its_site(tmp_path: Path) -> None:
    (site,) = export(tmp_path, "nginx").iterdir()
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    run(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"),
        *("-keyout", key, "-out", certificate),
    )
    text = re.sub(r"/etc/ssl/certs/\S+;", f"{certificate};", site.read_text())
    site.write_text(re.sub(r"/etc/ssl/private/\S+;", f"{key};", text))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = " ".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
    whole = tmp_path / "nginx.conf"
    whole.write_text(f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{ access_log off; {paths} include '{site}'; }}\n")
    run(tool("nginx"), "-t", "-e", "stderr", "-c", whole)


def test_the_dashboard_and_the_alerts_use_metrics_that_this_vllm_has(
    tmp_path: Path, scripted_server: RealServer
) -> None:
    with urllib.request.urlopen(scripted_server.root + "/metrics", timeout=10) as reply:
        served = set(re.findall(r"^(vllm:\w+)", reply.read().decode(), flags=re.MULTILINE))
    dashboard = export(tmp_path, "grafana") / "vllm-dashboard.json"
    rules = export(tmp_path, "prometheus") / "vllm-rules.yml"
    used = set(re.findall(r"vllm:\w+", json.dumps(json.loads(dashboard.read_text())) + rules.read_text()))
    assert len(used) >= 8
    assert used <= served
