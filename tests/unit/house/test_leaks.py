"""The leak test finds what it is there to find: each test plants a key and lets it out in one way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wizard.secret import Secret

pytestmark = pytest.mark.shows_key("the leak test itself is tested")

KEY = "sk-leaked-0123456789abcdef"
# Stands for the wizard: what its folder is called is how its code is known.
LETS_OUT = {
    "an argument of a child's child": (
        "import os, subprocess, sys\n"
        'again = \'import os, subprocess; subprocess.run(["true", os.environ["SOME_API_KEY"]])\'\n'
        "subprocess.run([sys.executable, '-c', again], check=True)\n",
        "the arguments of `true`",
    ),
    "an argument of a program in its place": (
        "import os; os.execv('/bin/true', ['true', os.environ['SOME_API_KEY']])\n",
        "the arguments of `true`",
    ),
    "a file that others may read": (
        "import os, pathlib; pathlib.Path('out.json').write_text(os.environ['SOME_API_KEY'])\n",
        "out.json (mode 644)",
    ),
    "a file renamed into its place": (
        "import os, pathlib\n"
        "new = pathlib.Path('new')\n"
        "new.write_text(os.environ['SOME_API_KEY'])\n"
        "new.replace('out.json')\n",
        "out.json (mode 644)",
    ),
    "a log that only the user reads": (
        "import os, pathlib\n"
        "log = pathlib.Path('llm-setup.log')\n"
        "log.touch(mode=0o600)\n"
        "log.write_text(os.environ['SOME_API_KEY'])\n",
        "llm-setup.log (mode 600)",
    ),
}


def run_as_wizard(folder: Path, lines: str) -> None:
    program = folder / "wizard" / "program.py"
    program.parent.mkdir()
    program.write_text("import os; os.umask(0o022)\n" + lines)
    env = {"PATH": "/usr/bin:/bin", "SOME_API_KEY": KEY}
    subprocess.run([sys.executable, program], env=env, cwd=folder, check=True)


@pytest.mark.parametrize("way", LETS_OUT)
def test_a_key_that_gets_out_is_found(way: str, tmp_path: Path, leak_watch: Any) -> None:
    lines, place = LETS_OUT[way]
    run_as_wizard(tmp_path, lines)
    (leak,) = leak_watch.leaks()
    assert place in leak
    assert KEY not in leak


def test_what_the_wizard_prints_is_searched(tmp_path: Path, leak_watch: Any) -> None:
    env = {"PATH": "/usr/bin:/bin", "LLM_SETUP_HOME": str(tmp_path), "SOME_TOKEN": "unknown-client"}
    subprocess.run([sys.executable, "-m", "wizard", "use", "unknown-client"], env=env, check=False)
    found = leak_watch.leaks()
    assert any("stderr of `-m wizard use" in leak for leak in found), found
    assert any("the arguments of" in leak for leak in found), found


def test_a_key_made_in_the_test_s_own_process_counts(leak_watch: Any) -> None:
    Secret(KEY)
    leak_watch.hear("the screen", f"what now {KEY}")
    assert len(leak_watch.leaks()) == 1


def test_the_user_s_own_key_may_stay_where_the_user_had_it(tmp_path: Path, leak_watch: Any) -> None:
    (tmp_path / "out.json").write_text(f"mine: {KEY}")
    run_as_wizard(tmp_path, LETS_OUT["a file renamed into its place"][0])
    assert leak_watch.leaks() == []
