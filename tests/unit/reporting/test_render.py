"""One HTML file that loads nothing and shows no key, and the same as Markdown."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from wizard.reporting.content import (
    Bar,
    Fact,
    Report,
    Section,
    Table,
    absent_section,
    bench_section,
    proof_section,
    tune_section,
)
from wizard.reporting.render import render_html, render_markdown
from wizard.secret import Secret
from wizard.tuning.trials import Trial

TEMPLATES = Path(__file__).parents[3] / "templates" / "report"
HTML = (TEMPLATES / "report.html.j2").read_text()
MARKDOWN = (TEMPLATES / "report.md.j2").read_text()
KEY = "sk-report-0a1b2c3d4e5f6071"
LOADS = {"src", "href", "srcset", "action", "data", "poster", "background", "xlink:href", "ping", "formaction"}


class Page(HTMLParser):
    """What a browser would do with a page: tags in order, what it would load, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [f"{tag} {name}={value}" for name, value in attrs if name in LOADS]
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.text += data


def report(*sections: Section, title: str = "m: how it is served") -> Report:
    return Report(title, "2026-11-30 12:00 UTC", "1.2.3", sections)


FULL = report(
    Section("machine", "Machine", lines=("GPU  none", "Memory  23 GiB")),
    Section(
        "plan",
        "Plan",
        facts=(Fact("model", "m"),),
        bars=(Bar("weights", 3.5, 70, "#2563eb"), Bar("free", 1.5, 30, "#e5e7eb")),
        bars_of="GiB, estimated",
        table=Table(("flag", "reason"), (("--max-model-len 8192", "All that it can."),)),
        notes=("A warning.",),
        command="vllm serve m --max-model-len 8192",
    ),
    absent_section("bench", "Measured", "nothing measured"),
)


def test_the_page_is_whole_and_loads_nothing() -> None:
    page = Page(render_html(FULL, HTML))
    assert page.open == []
    assert page.loads == []
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert not re.search(r"url\(|@import|https?://", render_html(FULL, HTML))


def test_everything_is_in_it() -> None:
    text = Page(render_html(FULL, HTML)).text
    for word in ("GPU  none", "weights 3.50", "--max-model-len 8192", "A warning.", "nothing measured", "1.2.3"):
        assert word in text
    assert "width:70.00%" in render_html(FULL, HTML)


@pytest.mark.parametrize("markdown", [False, True], ids=["html", "markdown"])
def test_no_key_gets_through_whatever_part_holds_it(markdown: bool) -> None:
    secret = Secret(KEY)
    leaky = report(
        Section(
            "s",
            KEY,
            lines=(f"a {KEY}",),
            facts=(Fact(KEY, KEY),),
            bars=(Bar(KEY, 1, 100, "#000000"),),
            bars_of=KEY,
            table=Table((KEY,), ((KEY, "Authorization: Bearer abcdef0123456789"),)),
            notes=(KEY,),
            command=f"--api-key {KEY}",
            absent=KEY,
        ),
        title=KEY,
    )
    text = render_markdown(leaky, MARKDOWN) if markdown else render_html(leaky, HTML)
    assert KEY not in text
    assert "abcdef0123456789" not in text
    assert secret.hint in text


def test_markup_in_values_is_shown_and_not_obeyed() -> None:
    bad = '<script src="https://x"></script> & <b>'
    page = Page(render_html(report(Section("s", bad, notes=(bad,), command=bad)), HTML))
    assert "script" not in page.tags
    assert page.text.count(bad) == 3


def test_markup_in_values_is_no_markup_in_markdown_either() -> None:
    bad = "<img src=x onerror=alert(1)>\n\n# A heading"
    table = Table((bad,), ((bad,),))
    section = Section("s", bad, facts=(Fact(bad, bad),), notes=(bad,), table=table, absent=bad, command="a < b")
    text = render_markdown(report(section, title=bad), MARKDOWN)
    assert "<img" not in text
    assert "\n# A heading" not in text
    assert "```\na < b\n```" in text


@pytest.mark.parametrize(("home", "shown"), [("/home/someone", "~/models/m"), ("/", "/home/someone/models/m")])
def test_the_home_folder_is_not_told(home: str, shown: str) -> None:
    given = report(Section("s", "S", command="/home/someone/models/m /home/someoneelse"))
    text = Page(render_html(given, HTML, home=home)).text
    assert shown in text
    assert "/home/someoneelse" in text


def test_markdown_has_tables_that_hold_whatever_is_in_them() -> None:
    text = render_markdown(report(Section("s", "S", table=Table(("a", "b"), (("x|y", "two\nlines"),), 0))), MARKDOWN)
    assert "| a | b |\n|---|---|\n| **x\\|y** | two lines |" in text


def test_markdown_has_all_parts() -> None:
    text = render_markdown(FULL, MARKDOWN)
    for word in ("# m: how", "## Plan", "- model: m", "| weights | 3.50 |", "- A warning.", "nothing measured"):
        assert word in text
    assert "```\nvllm serve m --max-model-len 8192\n```" in text
    assert "\n\n\n" not in text


def test_the_best_setting_is_pointed_out() -> None:
    trials = [
        Trial((), "plan", "measured", ({"ttft_p50_ms": 400.0, "tokens_per_s": 10.0},), model="m", arguments=("--a",)),
        Trial(
            (("prefix-caching", "on"),),
            "alone",
            "measured",
            ({"ttft_p50_ms": 50.0, "tokens_per_s": 30.0},),
            model="m",
            arguments=("--b", '{"c": 1}'),
        ),
    ]
    section = tune_section("tokens/s", trials, 1, 8.0, 120)
    page = render_html(report(section), HTML)
    assert re.search(r'<tr class="best"><td>prefix-caching on</td><td>50.0</td>', page)
    assert """vllm serve m --b '{"c": 1}'""" in Page(page).text  # as a shell takes it
    assert "8.0 times" in Page(page).text


def test_a_bench_document_becomes_a_table_with_its_verdicts() -> None:
    row = {
        "target": "local",
        "concurrency": 4,
        "requests": 8,
        "errors": 0,
        "time_to_first_token_ms": {"p50": 210.04, "p99": 400.0},
        "inter_token_latency_ms": None,
        "output_tokens_per_s": 1234.5,
        "notes": ["Few requests."],
    }
    causes = [{"what": "Requests wait.", "action": "Raise the limit.", "target": "local"}]
    section = bench_section(
        {"results": [row], "verdicts": [{"sentence": "local is better for chat."}], "explanations": causes}
    )
    assert section.table is not None
    assert section.table.rows[0][:2] == ("local", "4")
    assert {"210", "1,234"} <= set(section.table.rows[0])
    assert section.notes == ("local is better for chat.", "Requests wait. Raise the limit.", "Few requests.")


@pytest.mark.parametrize("document", [{}, {"results": 5}, {"results": [{"a": 1}]}])
def test_what_is_no_bench_document_is_said(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="results"):
        bench_section(document)


def test_proof_rows_tell_failures() -> None:
    section = proof_section([{"title": "chat", "status": "error", "detail": "HTTP 500", "duration_ms": 12}])
    assert section.table is not None
    assert section.table.rows == (("✗", "chat", "HTTP 500", "12.0 ms"),)
