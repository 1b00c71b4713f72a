"""Every page that people read has a Chinese counterpart with the same headings and the same code."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pages() -> list[Path]:
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if not path.stem.endswith(".zh")]


def chinese(page: Path) -> Path:
    return page.with_suffix(".zh.md")


def blocks(page: Path) -> list[str]:
    """The code of a page without comments, which are translated; with what a test is told about it."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^(<!-- test: [^\n]* -->\n+)?```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return ["".join((mark.strip(), kind, re.sub(r"(?m)\s*#.*$", "", code))) for mark, kind, code in found]


def indented(page: Path) -> list[str]:
    """The commands of README.md, which are indented there."""
    return re.findall(r"(?m)^    (.*)$", page.read_text(encoding="utf-8"))


def headings(page: Path) -> list[int]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [len(marks) for marks in re.findall(r"^(#{1,6}) ", text, re.MULTILINE)]


def test_every_page_has_a_chinese_counterpart() -> None:
    missing = [str(page.relative_to(ROOT)) for page in pages() if not chinese(page).exists()]
    assert missing == []
    assert len(pages()) > 300


def test_no_chinese_page_is_alone() -> None:
    alone = [path for path in (ROOT / "docs").rglob("*.zh.md") if not path.with_name(f"{path.name[:-6]}.md").exists()]
    assert alone == []


def test_a_counterpart_has_the_headings_of_the_english_page() -> None:
    others = [p for p in pages() if chinese(p).exists() and headings(chinese(p)) != headings(p)]
    assert [str(page.relative_to(ROOT)) for page in others] == []


def test_a_counterpart_has_the_code_of_the_english_page() -> None:
    others = [p for p in pages() if chinese(p).exists() and blocks(chinese(p)) != blocks(p)]
    assert [str(page.relative_to(ROOT)) for page in others] == []


def test_the_readmes_have_the_same_commands() -> None:
    assert indented(ROOT / "README.zh.md") == indented(ROOT / "README.md")


def test_a_counterpart_is_chinese() -> None:
    """At least a fifth of its letters outside code; a page that was copied has none."""
    english = []
    for page in pages():
        if chinese(page).exists():
            text = re.sub(
                r"```.*?```|`[^`\n]*`|\]\([^)]*\)", "", chinese(page).read_text(encoding="utf-8"), flags=re.DOTALL
            )
            han, latin = len(re.findall(r"[\u4e00-\u9fff]", text)), len(re.findall(r"[A-Za-z]+", text))
            if han < (han + latin) / 5:
                english.append(f"{page.relative_to(ROOT)}: {han} of {han + latin}")
    assert english == []
