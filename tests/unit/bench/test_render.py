"""Figures as chart, CSV, Markdown and SVG: what is in them is what was measured."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ElementTree

from wizard.bench.figures import ClientLoad, Figures, compute_figures
from wizard.bench.render import render_chart, render_csv, render_markdown, render_table
from wizard.bench.samples import Sample
from wizard.bench.svg import render_svg

SVG = "{http://www.w3.org/2000/svg}"


def figures(target: str, first: float, *, concurrency: int = 1, rate: float | None = None) -> Figures:
    times = tuple(first + 0.01 * number for number in range(11))
    samples = [Sample(token_s=times, output_tokens=11, usage_said=True)] * 200
    return compute_figures(target, concurrency, samples, 10.0, ClientLoad(0.1, 0.1), cache="cold", rate_per_s=rate)


BROKEN = compute_figures("gone", 1, [Sample(error="HTTP 500")], 1.0, ClientLoad(0.1, 0.1), cache="cold")


def test_bars_are_as_long_as_their_values() -> None:
    lines = render_chart([figures("a", 0.1), figures("b", 0.4), BROKEN], columns=80)
    first = {line.split()[0]: line.count("█") for line in lines[1:3]}
    assert first["b"] == 4 * first["a"]
    assert not any("gone" in line for line in lines)


def test_without_symbols_bars_are_ascii() -> None:
    lines = render_chart([figures("a", 0.1), figures("b", 0.4)], symbols=False)
    assert all(line.isascii() for line in lines)
    assert any("####" in line for line in lines)


def test_a_single_bar_says_nothing() -> None:
    assert render_chart([figures("a", 0.1)]) == ()


def test_the_csv_has_a_line_for_each_load_and_columns_by_name() -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv([figures("a, b", 0.1), BROKEN]))))
    assert [row["target"] for row in rows] == ["a, b", "gone"]
    assert float(rows[0]["time_to_first_token_ms_p90"]) == 100.0
    assert float(rows[0]["output_tokens_per_s"]) == 220.0
    assert rows[1]["time_to_first_token_ms_p50"] == ""
    assert rows[1]["errors"] == "1"


def test_the_markdown_is_a_table_with_sentences_below() -> None:
    text = render_markdown([figures("a|b", 0.1), figures("c", 0.2, rate=2.5)], ["Chat: a is better."])
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert "2.5/s" in table[3]
    assert "100 / 100 / 100 / 100" in table[2]
    assert "- Chat: a is better." in text


def test_the_picture_has_a_line_for_each_target_and_is_well_formed() -> None:
    ladder = [figures(name, first, concurrency=count) for name, first in (("a<b", 0.1), ("c", 0.2)) for count in (1, 4)]
    root = ElementTree.fromstring(render_svg([*ladder, BROKEN]))
    assert len(root.findall(f"{SVG}polyline")) == 2 * 3
    texts = [element.text for element in root.findall(f"{SVG}text")]
    assert "a<b (cold)" in texts
    assert {"1", "4"} <= set(texts)
    assert "gone (cold)" not in texts


def test_higher_values_are_higher_in_the_picture() -> None:
    root = ElementTree.fromstring(render_svg([figures("a", 0.1), figures("b", 0.4)]))
    heights = [float(circle.attrib["cy"]) for circle in root.findall(f"{SVG}circle")]
    assert heights[0] > heights[2]


def test_at_rates_the_picture_goes_by_rate_not_by_how_many_were_under_way() -> None:
    ladder = [figures("a", 0.1, concurrency=9, rate=0.5), figures("a", 0.2, concurrency=3, rate=2.0)]
    root = ElementTree.fromstring(render_svg(ladder))
    assert {"0.5", "2"} <= {element.text for element in root.findall(f"{SVG}text")}
    across = [float(circle.attrib["cx"]) for circle in root.findall(f"{SVG}circle")]
    assert across[0] < across[1]


def test_a_table_wider_than_the_terminal_becomes_two_that_it_holds() -> None:
    measured = [figures("http://127.0.0.1:8000/v1", 0.1, concurrency=16), BROKEN]
    lines = render_table(measured, columns=78)
    assert max(map(len, lines)) <= 78
    assert "" in lines
    for row in render_table(measured)[1:]:
        assert set(row.split()) <= {word for line in lines for word in line.split()}
    assert render_table(measured, columns=200) == render_table(measured)
