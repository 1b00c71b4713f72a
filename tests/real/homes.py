"""A home folder, a scratch repository in it, and the wizard and clients run as someone who lives there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .installing import HERE, Client, node
from .processes import Ended, environment, run
from .scripted_model import PROOF_WORD

LIVED_IN = HERE / "lived_in"

# What a library's user writes, no more: everything else comes from the environment.
LIBRARY_PROGRAMS = {
    "openai-sdk": """\
import sys, openai
model, prompt = sys.argv[1:]
reply = openai.OpenAI().chat.completions.create(model=model, messages=[{"role": "user", "content": prompt}])
print(reply.choices[0].message.content)
""",
    "anthropic-sdk": """\
import sys, anthropic
model, prompt = sys.argv[1:]
ask = anthropic.Anthropic().messages.create
reply = ask(model=model, max_tokens=64, messages=[{"role": "user", "content": prompt}])
print(reply.content[0].text)
""",
}


@dataclass(frozen=True, slots=True)
class Home:
    """`folder` is $HOME; `work` is a git repository below it with one file, named and filled with PROOF_WORD."""

    folder: Path
    programs: tuple[Path, ...] = ()

    @property
    def work(self) -> Path:
        """Where clients are started."""
        return self.folder / "projects" / "scratch"

    def env(self, **more: str) -> dict[str, str]:
        """The environment of a fresh login here: no key, no URL."""
        return environment(self.folder, self.programs, **more)

    def wizard(self, *arguments: str, within_s: float = 60, given: str | None = None, **env: str) -> Ended:
        """Run `llm-setup` in the scratch repository."""
        command = [sys.executable, "-m", "wizard", *arguments]
        return run(command, env=self.env(**env), cwd=self.work, within_s=within_s, given=given)

    def command(self, client: Client, program: Path, model: str, prompt: str) -> list[str]:
        """The program and the arguments that ask it one thing, headless."""
        values = {"prompt": prompt, "model": model, "home": self.folder, "program": LIBRARY_PROGRAMS.get(client.name)}
        return [str(program), *(word.format(**values) for word in client.ask)]

    def ask(self, client: Client, program: Path, model: str, prompt: str, **env: str) -> Ended:
        """Ask the real client one thing in the scratch repository, as a user of it would."""
        command = self.command(client, program, model, prompt)
        if client.sourced:
            command = ["sh", "-c", f'set -a; . "$HOME/{client.sourced}"; set +a; exec "$@"', "sh", *command]
        return run(command, env=self.env(**env), cwd=self.work, within_s=client.within_s)

    def shell(self, shell: Sequence[str | Path], script: str, within_s: float = 60, **env: str) -> Ended:
        """Run a script in a shell, in the scratch repository."""
        return run([*shell, script], env=self.env(**env), cwd=self.work, within_s=within_s)

    def python_script(self, text: str) -> str:
        """A command line without anything to quote that runs these lines of Python."""
        script = self.folder / "script.py"
        script.write_text(text)
        return f"{sys.executable} {script}"

    def files(self) -> dict[str, bytes]:
        """Every file outside the scratch repository and the wizard's own state: path below home -> bytes."""
        own = self.folder / ".local"
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not path.is_relative_to(self.work) and not path.is_relative_to(own)
        }


def make_home(folder: Path, *, lived_in: bool = False, programs: tuple[Path, ...] = ()) -> Home:
    """A new home, empty or with every client's files of someone who has used it for a year."""
    if lived_in:
        shutil.copytree(LIVED_IN, folder, symlinks=True)
    home = Home(folder, programs)
    home.work.mkdir(parents=True)
    (home.work / f"{PROOF_WORD}.txt").write_text(f"{PROOF_WORD}\n")
    subprocess.run(["git", "init", "-q", home.work], check=True, env=home.env())
    return home


def programs_of(client: Client, program: Path) -> tuple[Path, ...]:
    """What the client's folder and Node add to PATH."""
    return (program.parent, node()) if client.origin == "npm" else (program.parent,)
