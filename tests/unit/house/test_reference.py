"""The generated reference says what the application says, in each language."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
MARK = "<!-- Made by scripts/generate_reference.py"


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("generate_reference")


def test_the_reference_is_up_to_date(script: ModuleType) -> None:
    """If this fails: run scripts/generate_reference.py."""
    assert len(script.all_pages()) >= 3
    assert sorted(str(path.relative_to(ROOT)) for path in script.stale_pages()) == []


def test_every_sentence_of_a_chinese_page_is_chinese(script: ModuleType) -> None:
    """If this fails: scripts/messages.py for the product's own, scripts/reference/chinese.toml for the page's."""
    chinese = script.InChinese()
    script.all_pages(chinese)
    assert chinese.missing == []


def test_no_page_is_left_of_what_is_gone(script: ModuleType) -> None:
    known = {path.resolve() for path in script.all_pages()}
    made = [path for path in (ROOT / "docs").rglob("*.md") if path.read_text(encoding="utf-8").startswith(MARK)]
    assert len(made) > 300
    assert sorted(str(path.relative_to(ROOT)) for path in made if path not in known) == []
