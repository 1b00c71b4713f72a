"""The README's first line, run as it stands: a fresh clone, an empty home, nothing but Python."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .installing import REPOSITORY, pip_environment
from .processes import MARK, MARK_NAME, Ended
from .processes import run as run_program

SET_UP_TIMEOUT_S = 2400
COMMAND_TIMEOUT_S = 600
# What pip and npm need to know about this network; nothing else of the developer's environment goes along.
_PASSED_ON = ("PIP_", "SSL_CERT", "REQUESTS_CA", "CURL_CA", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass(frozen=True, slots=True)
class FirstLight:
    """A home in which `init --yes` has run. ended: how the README's line ended."""

    clone: Path
    home: Path
    env: dict[str, str]
    ended: Ended

    @property
    def runtime_python(self) -> Path:
        """The interpreter of the vLLM that was installed."""
        found = sorted((self.home / ".local/share/llm-setup/runtimes").glob("*/bin/python"))
        assert found, f"no runtime was installed: {self.ended.text}"
        return found[-1]

    def llm_setup(self, *argv: str, within_s: float = COMMAND_TIMEOUT_S, **more: str) -> Ended:
        """The command that the README's line installed."""
        command = [self.clone / ".venv/bin/llm-setup", *argv]
        return run_program(command, env={**self.env, **more}, cwd=self.clone, within_s=within_s)


def readme_command(start: str) -> str:
    """The README's command line (indented by four) that begins so."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^    ({re.escape(start)}.*)$", text, re.MULTILINE)
    assert found, f"README.md has no line that begins with {start}"
    return found[1]


def fresh_clone(target: Path) -> Path:
    """This checkout as committed, without anything that was built in it."""
    subprocess.run(["git", "clone", "-q", str(REPOSITORY), str(target)], check=True, timeout=120)
    return target


def run_first_light(folder: Path) -> FirstLight:
    """Clone, and run the README's first line. `python3` is the Python of these tests, as on a machine with only it."""
    home = folder / "home"
    home.mkdir(parents=True)
    clone = fresh_clone(folder / "llm-setup")
    binaries = folder / "bin"
    binaries.mkdir()
    (binaries / "python3").symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}")
    env = {name: value for name, value in pip_environment().items() if name.upper().startswith(_PASSED_ON)}
    env |= {
        "HOME": str(home),
        "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "USER": "someone",
        MARK_NAME: MARK,
    }
    command = readme_command("python3 -m venv")
    ended = run_program(["/bin/sh", "-c", command], env=env, cwd=clone, within_s=SET_UP_TIMEOUT_S)
    return FirstLight(clone, home, env, ended)
