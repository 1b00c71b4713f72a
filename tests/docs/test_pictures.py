"""The tutorial's pictures: one for each step in each language, of a real run, in the words that the program says today.

They are recorded by scripts/record_tutorial.py.
"""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from wizard.text import display_width

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures" / "tutorial"
PAGES = {"en": ROOT / "docs/tutorial/first-light.md", "zh_CN": ROOT / "docs/tutorial/first-light.zh.md"}
SVG = "{http://www.w3.org/2000/svg}"
# How wide a column is drawn.
CHARACTER = 12.2
MARKS = "✓✗!·…-"


def shown(page: Path) -> list[tuple[str, str]]:
    """The alternative text and the file of each picture, in the page's order."""
    return re.findall(r"!\[([^]]*)\]\(\.\./pictures/tutorial/([^)]+)\)", page.read_text(encoding="utf-8"))


def lines(picture: Path) -> list[str]:
    """The rows of the screen; what is blank is no text in the picture, but the place where the next one begins."""
    rows: dict[float, list[tuple[int, str]]] = {}
    for text in ElementTree.parse(picture).iter(f"{SVG}text"):
        row = rows.setdefault(float(text.attrib["y"]), [])
        row.append((round(float(text.attrib["x"]) / CHARACTER), (text.text or "").replace("\xa0", " ")))
    found = []
    for y in sorted(rows):
        line = ""
        for column, part in sorted(rows[y]):
            line += " " * (column - display_width(line)) + part
        found.append(line.rstrip())
    return found


def steps(picture: Path) -> list[str]:
    """The lines with a mark, and those that begin a warning or an error, each with those that go on with it."""
    found: list[str] = []
    going_on = False
    for line in lines(picture):
        if mark := re.match(rf"  [{MARKS}] |(?:warning|error|警告|错误): ", line):
            found.append(line[mark.end() :])
            going_on = True
        elif going_on and re.match(r"    \S|  (?!\w+:|[^\x00-\x7f]+: )\S", line):
            found[-1] += " " + line.strip()
        else:
            going_on = False
    return found


def titles(picture: Path) -> list[str]:
    """What is bold at the beginning of a line, but for the sign before what is typed."""
    root = ElementTree.parse(picture).getroot()
    styles = "".join(style.text or "" for style in root.iter(f"{SVG}style"))
    bold = {name for name, rules in re.findall(r"\.(s-r\d+) \{([^}]*)\}", styles) if "bold" in rules}
    texts = [text for text in root.iter(f"{SVG}text") if text.attrib.get("class") in bold and text.attrib["x"] == "0"]
    return [said for text in texts if (said := (text.text or "").replace("\xa0", " ").strip()) != "$"]


@pytest.fixture(scope="module")
def sayings(load_script: Callable[[str], ModuleType]) -> Callable[[str], re.Pattern[str]]:
    """What the program can say today in a language, without blanks; a placeholder is anything."""
    return functools.cache(lambda language: _sayings(load_script("messages"), language))


def _sayings(script: ModuleType, language: str) -> re.Pattern[str]:
    messages = script.extract_messages()
    translated = script.translations_of(script.read_catalog(language)) if language != "en" else {}
    patterns = set()
    for message in messages:
        literals = [re.sub(r"\s", "", part) for part in re.split(r"\{[^{}]*\}", translated.get(message, message))]
        if sum(map(len, literals)) >= (4 if language == "en" else 2):
            patterns.add(".+?".join(map(re.escape, literals)))
    return re.compile("|".join(sorted(patterns, key=len, reverse=True)))


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_each_step_has_its_picture(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    pieces = re.split(r"(?m)^(?=\d\. \*\*|## \d\. )", text)[1:]
    assert len(pieces) >= 12
    bare = [piece.splitlines()[0] for piece in pieces[1:] if "](../pictures/tutorial/" not in piece]
    assert bare == []
    assert all(len(alternative) > 10 for alternative, _ in shown(page))


def test_every_picture_is_shown_and_in_the_readers_language() -> None:
    english = [name for _, name in shown(PAGES["en"])]
    assert [name for _, name in shown(PAGES["zh_CN"])] == [name.replace(".svg", ".zh.svg") for name in english]
    there = {path.name for path in PICTURES.iterdir()}
    assert there == {name for page in PAGES.values() for _, name in shown(page)}
    for name in english:
        if name == "10-agent.svg":
            continue  # aider's own screen
        letters = "".join(lines(PICTURES / name.replace(".svg", ".zh.svg")))
        assert re.search("[\u4e00-\u9fff]", letters), name


@pytest.mark.parametrize("picture", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_is_small_and_whole_and_tells_no_secret(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    assert len(text) < 40_000
    assert len(lines(picture)) > 2
    assert not re.search(r"<(script|image|foreignObject|use)\b|href|@import|@font-face|url\((?!#)", text)
    seen = "\n".join(lines(picture))
    assert not re.search(r"/(root|home|tmp|work|Users)/", seen)
    assert not re.search(r"sk-\w{5}", seen)


@pytest.mark.parametrize("language", PAGES)
def test_the_program_still_says_what_the_pictures_show(
    language: str, sayings: Callable[[str], re.Pattern[str]]
) -> None:
    """If this fails: record the pictures again, scripts/record_tutorial.py."""
    stale, told = [], 0
    for _, name in shown(PAGES[language]):
        for title in titles(PICTURES / name):
            assert sayings(language).match(re.sub(r"\s", "", title)), f"{name}: {title}"
        for step in steps(PICTURES / name):
            told += 1
            # Paths, and names of requests and servers, are the same in every language; and a message may have got its
            # Chinese since.
            known = (sayings(spoken).match(re.sub(r"\s", "", step)) for spoken in (language, "en"))
            if not re.match(r"[~/]|(chat|local|vLLM) |Shell$", step) and not any(known):
                stale.append(f"{name}: {step}")
    assert told > 40
    assert stale == []


@pytest.mark.parametrize(
    ("language", "title"), [("en", "Which clients answer here"), ("zh_CN", "哪些客户端在这里能得到回答")]
)
def test_the_clients_that_the_page_says_are_left_out_are_not_shown_as_written(language: str, title: str) -> None:
    pictures = {name.split("-")[0]: "\n".join(lines(PICTURES / name)) for _, name in shown(PAGES[language])}
    written = "{title}: written" if language == "en" else "{title}：已写入"
    for client in ("Codex CLI", "Claude Code"):
        assert client in pictures["6"]
        assert written.format(title=client) not in pictures["6"]
    assert title in pictures["7"]
