"""The common road in Chinese: questions, proof, differences, and what to type next."""

from pathlib import Path
from typing import Any

ENTER = "\r"


def test_init_speaks_chinese_from_the_first_question_to_the_last_word(
    on_terminal: Any, endpoint: Any, home: Path
) -> None:
    child = on_terminal("--lang", "zh_CN", "init", "--base-url", endpoint.url, "--model", "tiny")
    child.expect("这台机器")
    child.expect("哪些客户端要使用它？")
    child.expect("空格选择")
    child.send(ENTER)
    child.expect("写入这些文件吗？")
    child.send("y")
    child.expect("接下来")
    child.wait()
    assert child.exitstatus == 0
    assert (home / ".codex/config.toml").exists()
