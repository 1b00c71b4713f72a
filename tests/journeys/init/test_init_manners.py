"""The whole road on narrow terminals, for screen readers, and in both languages."""

import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from wizard.text import display_width

QUESTIONS = {
    "en": (
        "Which coding clients do you want to set up?",
        "Where should the model run?",
        "Which model?",
        "Go on?",
        "Write these files?",
    ),
    "zh_CN": ("您要设置哪些编程客户端？", "模型在哪里运行？", "用哪个模型？", "继续吗？", "写入这些文件吗？"),
}
LAST = {"en": "What now", "zh_CN": "接下来"}
# Words of questionary and of our own screen that have no place in a Chinese text.
ENGLISH = re.compile(r"arrow keys|selections|Invalid input|\(Y/n\)$|Back\b|Number,|\[ok\]|Yes\b")


def whole_road(on_terminal: Any, machine: Any, language: str, *argv: str, columns: int = 80, **more: str) -> Any:
    command = ("--lang", language, "init", "--vllm", str(machine.vllm), "--client", "codex", *argv)
    terminal = on_terminal(*command, columns=columns, **more)
    for question in QUESTIONS[language][1:]:
        terminal.sees(question)
        if "--plain" in argv:
            terminal.sees(":" if language == "en" else "：")
        terminal.enter()
    return terminal.sees(LAST[language]).ends()


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_the_whole_road_fits_forty_columns(on_terminal: Any, machine: Any, home: Path, language: str) -> None:
    terminal = whole_road(on_terminal, machine, language, columns=40)
    assert len(terminal.lines) > 80
    # Commands and lines of files are shown as they are, to be copied; a path is one word.
    for line in terminal.lines:
        longest = max(map(display_width, line.split()), default=0)
        to_copy = line.lstrip().startswith(("$", "llm-setup", "+", "-", "@")) or longest > 30
        assert to_copy or display_width(line) <= 40, line
    assert (home / ".codex/config.toml").exists()


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_plain_is_lines_that_can_be_read_aloud(on_terminal: Any, machine: Any, language: str) -> None:
    terminal = whole_road(on_terminal, machine, language, "--plain")
    assert "\x1b" not in terminal.shown
    # Nothing is drawn over: a carriage return only ends a line.
    assert not re.search(r"\r(?!\r*\n)", terminal.shown)
    drawn = {c for c in terminal.text if unicodedata.name(c, "").startswith(("BOX", "BLOCK", "BRAILLE", "GEOMETRIC"))}
    drawn |= {c for c in terminal.text if c in "█▓▒░·✓✗●○»⠋"} - {"·"}
    assert drawn == set()
    # What a colour would say is a word.
    assert len(re.findall(r"^ +\[\w+\] ", terminal.text, re.MULTILINE)) > 10


def test_chinese_has_no_english_of_the_libraries(on_terminal: Any, machine: Any) -> None:
    terminal = whole_road(on_terminal, machine, "zh_CN")
    found = [line for line in terminal.text.splitlines() if ENGLISH.search(line) and "+" not in line[:2]]
    assert found == []


@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_without_colour_no_colour_is_sent(on_terminal: Any, machine: Any, more: dict[str, str]) -> None:
    terminal = whole_road(on_terminal, machine, "en", **more)
    assert not re.search(r"\x1b\[(?:\d+;)*(?:3\d|4\d|9\d)(?:;\d+)*m", terminal.shown)


def test_where_no_terminal_is_nothing_moves(llm_setup: Any, machine: Any) -> None:
    done = llm_setup("init", "--yes", "--vllm", str(machine.vllm), "--client", "cline")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\r" not in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_colours_are_the_terminals_own_so_that_they_can_be_read_on_light_and_dark(
    on_terminal: Any, machine: Any
) -> None:
    terminal = whole_road(on_terminal, machine, "en")
    codes = {int(code) for sent in re.findall(r"\x1b\[([\d;]*)m", terminal.shown) for code in sent.split(";") if code}
    # Black and white are what one of the two backgrounds is; a background of ours, or of 256 colours, is nobody's.
    assert {31, 32, 33, 36} & codes
    assert codes <= {0, 1, 2, 3, 4, 22, 23, 24, 27, 31, 32, 33, 34, 35, 36, 39, 49}


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_labels_of_the_machine_stay_in_their_column_on_a_narrow_terminal(on_terminal: Any, language: str) -> None:
    terminal = on_terminal("--lang", language, "init", columns=40)
    terminal.sees(QUESTIONS[language][0])
    rows = [line for line in terminal.text.splitlines() if re.match(r"  \S", line) and "  " in line.strip()]
    places = {display_width(re.match(r"  \S+(?: \S+)* +", line)[0]) for line in rows if "?" not in line}  # type: ignore[index]
    assert len(rows) > 5
    assert len(places) == 1, rows


def test_ctrl_c_while_the_server_starts_leaves_no_server(on_terminal: Any, machine: Any) -> None:
    machine.behave("slow")
    terminal = on_terminal("init", "--vllm", str(machine.vllm), "--client", "codex", "--here", "--model", "embedded")
    terminal.sees("Go on?", "Take another model").enter()
    terminal.sees("load weights")
    started = machine.record["pid"]
    terminal.child.sendcontrol("c")
    terminal.sees("goes on from here").ends(130)
    assert not Path(f"/proc/{started}").exists()
    # The answers are kept, and so is the way.
    assert machine.kept.exists()
