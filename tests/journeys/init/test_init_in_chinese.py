"""The common road in Chinese: questions, proof, differences, and what to type next."""

from pathlib import Path
from typing import Any


def test_init_speaks_chinese_from_the_first_question_to_the_last_word(
    on_terminal: Any, endpoint: Any, home: Path
) -> None:
    terminal = on_terminal("--lang", "zh_CN", "init", "--base-url", endpoint.url, "--model", "tiny")
    terminal.sees("这台机器", "您要设置哪些编程客户端？", "空格选择").enter()
    terminal.sees("写入这些文件吗？").types("y").enter()
    terminal.sees("接下来").ends()
    assert (home / ".codex/config.toml").exists()


def test_the_answers_of_a_run_that_was_left_are_told_in_chinese(on_terminal: Any) -> None:
    terminal = on_terminal("--lang", "zh_CN", "init", "--client", "codex")
    terminal.sees("URL").down().enter()
    terminal.sees("Esc 返回")
    terminal.kill()
    on_terminal("--lang", "zh_CN", "init").sees("客户端: codex; 模型在哪里: 在某个 URL").kill()
