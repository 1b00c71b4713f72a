#!/usr/bin/env python3
"""Run a command on a pseudo-terminal and keep what its screen showed as an SVG, for the documentation.

    .venv/bin/python scripts/record_screen.py docs/pictures/init.svg -- llm-setup init --yes

The picture is of a real run: nothing is edited, but for the home folder's path, which is shown as `~`.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from pathlib import Path

import pexpect
from rich.console import Console
from rich.text import Text

COLUMNS = 100


def seen(raw: str) -> str:
    """What stays on the screen: lines that were written over (progress) give way to what came last."""
    lines = []
    for line in raw.replace("\r\n", "\n").split("\n"):
        lines.append(re.split(r"\r|\x1b\[2K|\x1b\[1G", line)[-1] if "\r" in line or "\x1b[2K" in line else line)
    return "\n".join(lines)


def main() -> int:
    """Record; exits as the command did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("--title", default="")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    child = pexpect.spawn(
        options.command[0], options.command[1:], dimensions=(200, COLUMNS), timeout=3600, encoding="utf-8", env=env
    )
    child.expect(pexpect.EOF)
    child.close()
    text = seen(child.before or "").replace(str(Path.home()), "~").strip("\n")
    title = options.title or " ".join([Path(options.command[0]).name, *options.command[1:]])
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text))
    options.target.parent.mkdir(parents=True, exist_ok=True)
    # A fixed id keeps the file equal when the screen is.
    svg = console.export_svg(title=title, unique_id="screen")
    options.target.write_text(svg, encoding="utf-8")
    return child.exitstatus or 0


if __name__ == "__main__":
    sys.exit(main())
