"""The workflows name what this project has, and give no more rights than they need."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from wizard import __version__

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def load(path: Path) -> dict[str, Any]:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def commands(workflow: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])


def test_the_workflows_are_what_the_platform_reads() -> None:
    argv = ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS)]
    done = subprocess.run([BIN / argv[0], *argv[1:]], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_audit_of_the_workflows_finds_nothing() -> None:
    """Rights, credentials that stay, values of others in a shell's line, actions that may change."""
    argv = [BIN / "zizmor", "--offline", "--no-progress", ROOT / ".github"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_python_that_is_promised_is_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = [
        found[1] for found in (re.fullmatch(r".*:: (3\.\d+)", line) for line in project["classifiers"]) if found
    ]
    assert load(ROOT / ".github/workflows/check.yml")["jobs"]["quick"]["strategy"]["matrix"]["python"] == promised


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_reads_only_unless_a_job_says_more(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert "timeout-minutes" in job
    writers = {name for name, job in workflow["jobs"].items() if "write" in str(job.get("permissions", ""))}
    assert writers <= {"publish", "notes"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_the_scripts_that_are_run_are_there(path: Path) -> None:
    named = re.findall(r"(?:scripts|\.ci)/[\w.]+", commands(load(path)))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_a_release_is_published_without_a_token() -> None:
    release = load(ROOT / ".github/workflows/release.yml")
    assert release["jobs"]["publish"]["permissions"]["id-token"] == "write"
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert "cmp " in commands(release)


def test_the_step_that_builds_twice_runs_as_it_stands(tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tmp_path / "clone")], check=True, timeout=100)
    step = next(s for s in load(ROOT / ".github/workflows/release.yml")["jobs"]["build"]["steps"] if "cmp " in str(s))
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(argv, cwd=tmp_path / "clone", env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "clone" / "dist").iterdir())) == 2


def test_the_version_is_read_from_the_package_as_the_release_does() -> None:
    line = next(
        line for line in commands(load(ROOT / ".github/workflows/release.yml")).splitlines() if "python3 -c" in line
    )
    code = line.split("python3 -c '")[1].split("')\"")[0]

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == __version__, done.stderr
