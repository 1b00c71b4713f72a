"""Closed, full and foreign output, arguments that are no text, termination: one clear end, never a traceback."""

import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest

from wizard.ui.screen import Screen

COMMAND = f"'{sys.executable}' -m wizard"


def shell(line: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HOME": str(home), "LLM_SETUP_HOME": str(home / "own"), **more}
    return subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, timeout=60, errors="replace")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param(f"{COMMAND} clients list >&-", 0, id="closed-stdout"),
        pytest.param(f"{COMMAND} clients list --json >/dev/full", 1, id="full-stdout"),
        pytest.param(f"{COMMAND} clients list --json 2>&-", 0, id="closed-stderr"),
        pytest.param(f"set -o pipefail; {COMMAND} clients list | head -1", 0, id="reader-gone"),
        pytest.param(f"{COMMAND} clients apply codex --base-url http://h --model $'a\\xffb' --yes", 2, id="no-text"),
    ],
)
def test_odd_output_ends_clearly(line: str, code: int, tmp_path: Path) -> None:
    done = shell(line, tmp_path)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "internal-error" not in done.stderr


def test_an_encoding_without_our_signs_shows_others(tmp_path: Path) -> None:
    done = shell(f"{COMMAND} init --yes --base-url http://127.0.0.1:9 --model m", tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 1, done.stderr
    assert "internal-error" not in done.stderr


def test_termination_ends_a_command_as_ctrl_c_does(tmp_path: Path) -> None:
    code = (
        "import click, time\nfrom wizard.cli import main as cli\n"
        "@click.command()\ndef wait():\n    print('waiting', flush=True)\n    time.sleep(30)\n"
        "cli.LazyGroup.get_command = lambda self, ctx, name: wait\ncli.main(['doctor'])"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    time.sleep(0.1)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 130, err


def test_texts_of_servers_do_not_steer_the_terminal() -> None:
    out = StringIO()
    Screen(out=out, env={}).step("ok", "model ev\x1b]0;pwn\x07\x1b[31mil", "a\tb")
    assert "\x1b" not in out.getvalue()
    assert "\\x1b]0;pwn\\x07" in out.getvalue()
    assert "a\tb" in out.getvalue()
