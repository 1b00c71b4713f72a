"""How the program begins."""

from __future__ import annotations

import signal
import subprocess
import sys


def test_an_interrupt_while_modules_are_imported_ends_without_a_traceback() -> None:
    script = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "wizard.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
signal.signal(signal.SIGINT, signal.default_int_handler)
from wizard.__main__ import run
run()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
