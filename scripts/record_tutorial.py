#!/usr/bin/env python3
"""Follow the tutorial in an empty home, on a terminal, and keep each step's screen as SVG in docs/pictures/tutorial.

    .venv/bin/python scripts/record_tutorial.py --lang en     one language; needs aider on the PATH, or --agent-bin
    .venv/bin/python scripts/record_tutorial.py --lang zh_CN

Everything is run for real, as somebody would type it: a fresh clone, an empty home, vLLM installed and started. What is
shown is what was printed, but for the home's path, which is `~`, and lines left out of a long answer, marked `⋮`. That
the words are still the program's, tests/docs/test_pictures.py looks.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pexpect
from rich.console import Console
from rich.text import Text

from wizard.i18n import t
from wizard.ui.language import use_language

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures" / "tutorial"
COLUMNS = 96
# Files of a home that the reader may have; their diffs are equal in kind, and the first tells enough.
LINES_OF_A_DIFF = 24
# Screens of `init --yes`: the picture's name, and the titles that begin its parts.
PARTS = {
    "1-machine": ("This machine",),
    "2-model": ("vLLM and model",),
    "3-plan": ("{model} on {machine}, vLLM {version}", "Flags"),
    "4-start": ("Start",),
    "5-proof": ("Proof: requests as clients send them",),
    "6-files": ("Client files",),
    "7-clients": ("Proof as each client, from its own file",),
    "8-next": ("What now",),
}
AGAIN = ("4-start", "6-files")
# No font is loaded; the reader's own has the width that textLength gives it.
SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", "Noto Sans Mono CJK SC", \
monospace; font-size: {char_height}px; line-height: {line_height}px; white-space: pre; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{width}" height="{height}"/></clipPath>
{lines}
</defs>
<rect fill="#16181d" width="{width}" height="{height}" rx="10"/>
<g transform="translate(12, 12)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class Reader:
    """Somebody who follows the tutorial. folder: holds the clone and the home, both empty at the start."""

    def __init__(self, folder: Path, language: str, agent_bin: str) -> None:
        self.home = folder / "home"
        self.clone = folder / "llm-setup"
        self.home.mkdir(parents=True)
        subprocess.run(["git", "clone", "-q", str(ROOT), str(self.clone)], check=True)
        kept = ("PIP_", "SSL_CERT", "REQUESTS_CA", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "HF_ENDPOINT")
        self.env = {name: value for name, value in os.environ.items() if name.upper().startswith(kept)}
        self.env |= {
            "HOME": str(self.home),
            "PATH": os.pathsep.join(
                filter(None, (str(folder / "bin"), "/usr/local/bin", "/usr/bin", "/bin", agent_bin))
            ),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
            "LLM_SETUP_LANG": language,
            "LLM_SETUP_KEYRING": "off",
        }
        (folder / "bin").mkdir()
        (folder / "bin" / "python3").symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}")

    def types(self, command: str, expected: int = 0) -> str:
        """What the terminal shows after the command, the command itself first. Raises SystemExit on another end."""
        child = pexpect.spawn(
            "/bin/bash",
            ["--norc", "-c", command],
            dimensions=(50, COLUMNS),
            timeout=2400,
            encoding="utf-8",
            env=self.env,
            cwd=str(self.clone),
        )
        child.expect(pexpect.EOF)
        child.close()
        shown = seen(child.before or "").replace(str(self.home), "~").replace(str(self.clone), ".")
        if child.exitstatus != expected:
            raise SystemExit(f"{command}\nended with {child.exitstatus}:\n{shown}")
        return f"\x1b[1;36m$\x1b[0m {command}\n{shown.strip(chr(10))}"


def seen(raw: str) -> str:
    """What stays on the screen: lines that were written over (progress) give way to what came last."""
    lines = []
    for line in raw.replace("\r\n", "\n").split("\n"):
        last = re.split(r"\r|\x1b\[2K|\x1b\[1G", line)[-1] if "\r" in line or "\x1b[2K" in line else line
        lines.append(re.sub(r"\x1b\[[0-9;?]*[A-HJKSTfhlnsu]", "", last))
    return "\n".join(lines)


def parts(shown: str) -> dict[str, str]:
    """The screen of `init --yes` cut before its titles, by the name of the picture."""
    pieces: dict[str, list[str]] = {"": []}
    name = ""
    for line in shown.splitlines():
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
        for picture, titles in PARTS.items():
            for title in titles:
                if "\x1b[1m" in line and re.fullmatch(re.sub(r"\\\{\w+\\\}", ".+", re.escape(t(title))), plain):
                    name = picture
        pieces.setdefault(name, []).append(line)
    if missing := sorted(set(PARTS) - set(pieces)):
        raise SystemExit(f"the screen has no {missing}:\n{shown}")
    pieces["1-machine"] = pieces.pop("") + pieces["1-machine"]
    return {name: "\n".join(lines).strip("\n") for name, lines in pieces.items()}


def shortened(text: str) -> str:
    """A screen of many diffs up to the end of the first, and the lines that are no diff."""
    lines = text.splitlines()
    diffs = [n for n, line in enumerate(lines) if re.match(r"(\x1b\[[0-9;]*m)*--- ", line)]
    if len(diffs) < 2:
        return text
    rest = [line for line in lines[diffs[1] :] if not re.match(r"(\x1b\[[0-9;]*m)*( ?[-+@]| *$)", line)]
    return "\n".join([*lines[: diffs[1]], "⋮", *rest])


def picture(text: str) -> str:
    """The screen as SVG; the same screen gives the same file."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text))
    drawn = console.export_svg(title="", unique_id="s", code_format=SVG)
    # Rich clips each line to its row, and sends the title's row along: neither is needed where nothing overlaps.
    drawn = re.sub(r'<clipPath id="s-line-\d+">.*?</clipPath>\n?', "", drawn, flags=re.DOTALL)
    return re.sub(r' clip-path="url\(#s-line-\d+\)"', "", drawn)


def follow(reader: Reader) -> Iterator[tuple[str, str]]:
    """The tutorial's steps: name of the picture, and its screen."""
    reader.types("python3 -m venv .venv && .venv/bin/pip install -q .")
    cut = parts(reader.types(".venv/bin/llm-setup init --yes"))
    for name, text in cut.items():
        yield name, shortened(text) if name == "6-files" else text
    yield "9-look", "\n".join(reader.types(f".venv/bin/llm-setup {words}") for words in ("status", "logs -n 8"))
    agent = ".venv/bin/llm-setup run aider -- --no-git --no-show-release-notes --message 'What is 2 and 2?'"
    # Without a network aider says so of its table of prices.
    yield "10-agent", re.sub(r"(?m)^HTTPSConnectionPool.*$", "⋮", reader.types(agent))
    stopped = reader.types(".venv/bin/llm-setup stop")
    yield "11-broken", f"{stopped}\n{reader.types('.venv/bin/llm-setup doctor', expected=1)}"
    again = parts(reader.types(".venv/bin/llm-setup init --yes"))
    if "+++ " in again["6-files"]:
        raise SystemExit(f"files changed, which they do where another program took the port:\n{again['6-files']}")
    yield "12-again", "\n\n".join(again[name] for name in AGAIN)
    commands = ("clients restore --all --yes", "stop --all")
    yield "13-back", "\n".join(reader.types(f".venv/bin/llm-setup {words}") for words in commands)


def main() -> int:
    """Record one language."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lang", choices=("en", "zh_CN"), required=True)
    parser.add_argument("--agent-bin", default="", help="the folder of aider's program")
    parser.add_argument("--keep-text", type=Path, help="also write each screen's text here, with its colours")
    options = parser.parse_args()
    use_language(options.lang, {})
    PICTURES.mkdir(parents=True, exist_ok=True)
    suffix = {"en": ".svg", "zh_CN": ".zh.svg"}[options.lang]
    with tempfile.TemporaryDirectory(prefix="tutorial-") as folder:
        reader = Reader(Path(folder), options.lang, options.agent_bin)
        try:
            for name, text in follow(reader):
                (PICTURES / f"{name}{suffix}").write_text(picture(text), encoding="utf-8")
                if options.keep_text:
                    options.keep_text.mkdir(parents=True, exist_ok=True)
                    (options.keep_text / f"{name}{suffix}.txt").write_text(text, encoding="utf-8")
                print(name, flush=True)
        finally:
            subprocess.run([".venv/bin/llm-setup", "stop", "--all"], cwd=reader.clone, env=reader.env, check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
