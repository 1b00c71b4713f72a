"""The command speaks the language that it was asked for, in whole runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from wizard.text import display_width

Run = Callable[..., subprocess.CompletedProcess[str]]

REFUSED = "connect ECONNREFUSED 127.0.0.1:8000"


@pytest.fixture
def llm_setup(tmp_path: Path) -> Run:
    """`llm_setup(*ARGUMENTS, **ENV)` runs the command in an empty home."""

    def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from wizard.cli.main import main; main()", *arguments],
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "LLM_SETUP_HOME": str(tmp_path / "own"),
                "PYTHONUTF8": "1",
                **env,
            },
        )

    return run


def test_hardware_is_shown_in_chinese(llm_setup: Run) -> None:
    done = llm_setup("hardware", "--lang", "zh_CN")
    assert "处理器" in done.stdout
    assert "Processor" not in done.stdout
    # The facts stand in one column, however wide their labels are.
    rows = [line for line in done.stdout.splitlines() if line.startswith(("  处理器", "  内存", "  vLLM 构建版"))]
    assert len(rows) == 3
    begins = {display_width(line[: len(line) - len(line.lstrip().split("  ", 1)[1].lstrip())]) for line in rows}
    assert len(begins) == 1, rows


def test_the_option_may_stand_before_the_command(llm_setup: Run) -> None:
    done = llm_setup("--lang", "zh_CN", "doctor", "--offline", "--error", REFUSED, LANG="en_US.UTF-8")
    assert "处理:" in done.stdout + done.stderr
    assert "fix:" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "env",
    [{"LANG": "zh_CN.UTF-8"}, {"LANG": "en_US.UTF-8", "LLM_SETUP_LANG": "zh"}, {"LC_ALL": "zh_CN.UTF-8", "LANG": "C"}],
    ids=["locale", "variable", "LC_ALL"],
)
def test_the_surroundings_choose_chinese(llm_setup: Run, env: dict[str, str]) -> None:
    assert "还没有启动过服务器" in llm_setup("status", **env).stdout


def test_what_programs_read_stays_english(llm_setup: Run) -> None:
    arguments = ("doctor", "--offline", "--error", REFUSED, "--json")
    english = json.loads(llm_setup(*arguments, LANG="C.UTF-8").stdout)
    chinese = json.loads(llm_setup(*arguments, LANG="zh_CN.UTF-8").stdout)
    assert [each["code"] for each in chinese["findings"]] == [each["code"] for each in english["findings"]]
    assert [each["severity"] for each in chinese["findings"]] == [each["severity"] for each in english["findings"]]
    assert chinese["status"] == english["status"]
    assert chinese.keys() == english.keys()
    assert chinese["findings"][0]["what"] != english["findings"][0]["what"]


def test_help_is_chinese_and_fits(llm_setup: Run) -> None:
    done = llm_setup("serve", "--lang=zh_CN", "--help", COLUMNS="80")
    assert done.stdout.startswith("用法: llm-setup serve")
    assert "启动 vLLM 服务器" in done.stdout
    assert "显示这段帮助并退出。" in done.stdout
    assert "Start" not in done.stdout
    assert [line for line in done.stdout.splitlines() if display_width(line) > 80] == []


def test_commands_of_a_group_are_listed_in_chinese(llm_setup: Run) -> None:
    done = llm_setup("--lang", "zh_CN", "clients", "--help")
    assert "逐字节恢复到写入之前" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("serv",), "没有命令 `serv`。 [unknown-command]"),
        (("serve", "--port", "x"), "'--port' 的取值无效"),
        (("status", "--nonsense"), "没有选项 '--nonsense'"),
        (("stop", "--all", "x"), "`--all` 和名字不能同时给出。 [wrong-usage]"),
    ],
    ids=["command", "value", "option", "both"],
)
def test_wrong_usage_is_explained_in_chinese(llm_setup: Run, arguments: tuple[str, ...], said: str) -> None:
    done = llm_setup(*arguments, LANG="zh_CN.UTF-8")
    assert done.returncode == 2
    assert said in done.stderr


def test_a_language_that_is_not_there_is_said_in_one_line(llm_setup: Run) -> None:
    done = llm_setup("status", "--lang", "tlh", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "ok"
    said, *others = done.stderr.splitlines()
    assert said == "llm-setup: there are no messages in `tlh`; English is used (known: en, zh_CN)"
    assert "tlh" not in "".join(others)


def test_a_locale_that_is_not_there_is_english_without_a_word(llm_setup: Run) -> None:
    done = llm_setup("status", LANG="de_DE.UTF-8")
    assert "No server was started by llm-setup." in done.stdout
    assert done.stderr == ""


def test_a_terminal_that_cannot_show_chinese_ends_no_command(llm_setup: Run) -> None:
    done = llm_setup("--lang", "zh_CN", "status", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "llm-setup serve" in done.stdout


def test_what_follows_two_dashes_chooses_no_language(llm_setup: Run) -> None:
    done = llm_setup("serv", "--", "--lang", "zh_CN")
    assert done.stderr.startswith("error: There is no command `serv`.")


def test_english_loads_no_catalogue(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom wizard.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'wizard.cli.words', 'wizard.text', 'unicodedata', 'pathlib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "en_US.UTF-8"},
    )
    assert done.stdout.splitlines()[-1] == "[]"
