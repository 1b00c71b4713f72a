"""`run CLIENT` on a terminal in an empty home: the client's own prompt comes up, with no screen of a first start, and
when the window is closed nothing is left."""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path

import pexpect
import pytest

from .conftest import Workshop
from .homes import make_home, programs_of
from .installing import clients
from .vllm_servers import RealServer

# What a program asks its terminal, and what a terminal answers.
QUESTIONS = {
    "\x1b[6n": "\x1b[1;1R",
    "\x1b[c": "\x1b[?62;c",
    "\x1b]10;?": "\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    "\x1b]11;?": "\x1b]11;rgb:0000/0000/0000\x1b\\",
}
STEERING = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b[=>()][B0]?")
FIRST_START = re.compile(r"(?i)log ?in|sign ?in|text style|theme|do you want to use this API key")
READY = {
    "claude-code": "shift+tab",
    "codex": "Ask Codex",
    "qwen": "/model to change",
    "cline": "What can I do for you",
    "pi": "ctrl+o",
}
WITHIN_S = 60.0


def shown_until(child: pexpect.spawn, word: str) -> str:
    """What came on the screen, as words, once `word` is there or the time is over."""
    raw, deadline = "", time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        try:
            raw += child.read_nonblocking(65536, timeout=1)
        except pexpect.TIMEOUT:
            pass
        except pexpect.EOF:
            break
        for question, answer in QUESTIONS.items():
            if question in raw:
                child.send(answer)
                raw = raw.replace(question, "")
        if word in words(raw):
            break
    return words(raw)


def words(raw: str) -> str:
    return " ".join(STEERING.sub(" ", raw).split())


# The name is in the paths that clients show, so it has none of the words that are looked for.
@pytest.mark.parametrize("name", READY)
def test_its_prompt_is_what_comes_first(
    name: str, tmp_path: Path, workshop: Workshop, scripted_server: RealServer
) -> None:
    client = clients()[name]
    home = make_home(tmp_path / "home", programs=programs_of(client, workshop.program(client)))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    child = pexpect.spawn(
        sys.executable,
        ["-m", "wizard", "run", name, "--base-url", scripted_server.base_url, "--model", scripted_server.model],
        env=home.env(LLM_SETUP_API_KEY=scripted_server.key, TERM="xterm-256color", TMPDIR=str(scratch)),
        cwd=str(home.work),
        dimensions=(40, 120),
        encoding="utf-8",
    )
    try:
        shown = shown_until(child, READY[name])
        child.kill(signal.SIGHUP)  # the window is closed
        child.expect(pexpect.EOF, timeout=30)
    finally:
        child.close(force=True)
    assert READY[name] in shown
    assert not FIRST_START.search(shown), shown
    assert not list(scratch.glob("llm-setup-run-*"))
