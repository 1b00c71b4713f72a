"""The documentation's site is built with warnings as errors, in both languages."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.timeout(300)
def test_every_page_is_in_the_site_in_both_languages(site: Path) -> None:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if not path.stem.endswith(".zh")]
    assert len(pages) > 300
    for page in pages:
        place = page.relative_to(ROOT / "docs").with_suffix("")
        place = place.parent if place.name == "README" else place
        assert (site / place / "index.html").is_file(), page
        assert (site / "zh" / place / "index.html").is_file(), page


@pytest.mark.timeout(300)
def test_the_sections_are_named_in_the_readers_language(site: Path) -> None:
    assert "Tutorial" in (site / "index.html").read_text(encoding="utf-8")
    chinese = (site / "zh" / "index.html").read_text(encoding="utf-8")
    for title in ("教程", "操作指南", "参考", "原理说明"):
        assert title in chinese


@pytest.mark.timeout(300)
def test_the_chinese_tutorial_shows_chinese_screens(site: Path) -> None:
    page = site / "zh" / "tutorial" / "first-light" / "index.html"
    pictures = re.findall(r'src="([^"]*pictures/tutorial/[^"]*)"', page.read_text(encoding="utf-8"))
    assert len(pictures) > 10
    for picture in pictures:
        if not picture.endswith("10-agent.svg"):  # aider's own screen
            assert re.search("[\u4e00-\u9fff]", (page.parent / picture).read_text(encoding="utf-8")), picture


@pytest.mark.timeout(300)
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """A site that is read offline, or where foreign hosts are slow, is whole."""

    for page in (site / "index.html", site / "zh" / "index.html", site / "explanation" / "architecture" / "index.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', text)
        assert [url for url in loaded if "canonical" not in url] == []
