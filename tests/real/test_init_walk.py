"""The guided flow as a person walks it, on a pseudo-terminal, against a real vLLM: in English, then in Chinese."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from .vllm_servers import stop_by_wizard, wizard_environment

DOWN, UP, ENTER = "\x1b[B", "\x1b[A", "\r"
# What may stand between two characters of a text on a terminal: blanks, line ends, colours.
BREAK = r"(?:\x1b\[[0-9;?]*[A-Za-z]|[\r\n ])*?"
START_LIMIT_S = 240


@pytest.fixture(scope="module")
def walker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """`walker(*options)`: `llm-setup init` on a terminal of 80 by 24, always in the same home."""
    home = tmp_path_factory.mktemp("walker") / "Zoë 家"
    home.mkdir()
    environment = {**wizard_environment(home), "TERM": "xterm-256color", "LANG": "C.UTF-8"}

    def start(*options: str) -> Any:
        child = pexpect.spawn(
            sys.executable,
            ["-m", "wizard", *options],
            env=environment,
            cwd=str(home),
            dimensions=(24, 80),
            encoding="utf-8",
            timeout=60,
        )
        child.home = home
        return child

    yield start
    stop_by_wizard(home)


def sees(child: Any, *texts: str, within_s: float = 60) -> None:
    for text in texts:
        child.expect(BREAK.join(map(re.escape, text.replace(" ", ""))), timeout=within_s)


def ends_well(child: Any) -> None:
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 0, child.before


def test_the_common_road_in_english_ends_with_a_proved_server(
    walker: Callable[..., Any], vllm_runtime: Path, scripted_model: Path
) -> None:
    # Without its compilation, which takes minutes on two cores.
    options = ("--set", "enforce-eager", "--set", "enable-auto-tool-choice", "--set", "tool-call-parser=hermes")
    child = walker("init", "--vllm", str(vllm_runtime.parent.parent), *options)
    sees(child, "This machine", "Which coding clients do you want to set up?")
    child.send(ENTER)
    sees(child, "Where should the model run?", "Back")
    child.send(ENTER)
    # The last row but one.
    sees(child, "Which model?", "Another: search", "Back")
    child.send(UP + UP + ENTER)
    sees(child, "A word to search for")
    child.send(f"{scripted_model}{ENTER}")
    sees(child, "Flags", "--enforce-eager", "Go on?", "Back")
    child.send(ENTER)
    sees(child, "load weights", "ready: http://127.0.0.1:", within_s=START_LIMIT_S)
    proved = ("models, with the key", "refused (401)", "stream, with usage", "/v1/responses", "/v1/messages")
    sees(child, *proved, within_s=120)
    sees(child, "Write these files?")
    child.send("y\r")
    sees(child, "Proof as each client", "Codex CLI: its own request", "What now")
    ends_well(child)
    assert (child.home / ".codex/config.toml").exists()


def test_the_same_road_in_chinese_takes_the_server_that_runs(walker: Callable[..., Any]) -> None:
    child = walker("--lang", "zh_CN", "init")
    before = json.loads((child.home / "state/servers/local.json").read_text())["pid"]
    sees(child, "这台机器", "您要设置哪些编程客户端？")
    child.send(ENTER)
    sees(child, "模型在哪里运行？", "这里的服务器", "返回")
    child.send(ENTER)
    # The files are as they should be already, so there is nothing to agree to.
    sees(child, "接下来", within_s=120)
    ends_well(child)
    assert json.loads((child.home / "state/servers/local.json").read_text())["pid"] == before
