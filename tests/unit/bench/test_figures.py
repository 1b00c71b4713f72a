"""Samples become figures; what makes them doubtful is said."""

from __future__ import annotations

from typing import Any

import pytest

from wizard.bench.figures import ClientLoad, compute_figures, percentile, spread
from wizard.bench.render import render_table
from wizard.bench.samples import Sample

IDLE = ClientLoad(0.1, 0.2)


def sample(first: float = 0.1, gap: float = 0.01, tokens: int = 11) -> Sample:
    times = tuple(first + gap * number for number in range(tokens))
    return Sample(token_s=times, output_tokens=tokens, prompt_tokens=5, usage_said=True)


@pytest.mark.parametrize(
    ("percent", "value"),
    [(0, 1.0), (50, 2.5), (90, 3.7), (100, 4.0)],
)
def test_percentiles_are_interpolated_as_numpy_does(percent: float, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], percent) == pytest.approx(value)


def test_a_percentile_of_one_value_is_that_value_and_of_none_an_error() -> None:
    assert percentile([7.0], 99) == 7.0
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
    assert spread([]) is None


def test_a_spread_has_the_percentiles_that_its_names_say() -> None:
    found = spread(range(101))
    assert found is not None
    assert (found.mean, found.p50, found.p90, found.p99) == (50, 50, 90, 99)


def test_all_figures_of_equal_samples() -> None:
    figures = compute_figures("x", 2, [sample() for _ in range(4)], 2.0, IDLE)
    document = figures.as_json()
    assert document["time_to_first_token_ms"] == {"mean": 100.0, "p50": 100.0, "p90": 100.0, "p99": 100.0}
    assert document["inter_token_latency_ms"]["p50"] == 10.0
    assert document["time_per_output_token_ms"]["p99"] == 10.0
    assert document["end_to_end_ms"]["mean"] == 200.0
    assert (document["output_tokens_per_s"], document["requests_per_s"]) == (22.0, 2.0)
    assert (document["requests"], document["errors"], document["tokens_from"]) == (4, 0, "usage")


def test_errors_are_counted_apart_and_are_in_no_figure() -> None:
    figures = compute_figures("x", 1, [sample(), Sample(error="HTTP 429"), Sample(error="HTTP 429")], 1.0, IDLE)
    assert (figures.requests, figures.errors, figures.error_kinds) == (3, 2, (("HTTP 429", 2),))
    assert figures.requests_per_s == 1.0
    assert figures.end_to_end_ms is not None
    assert figures.end_to_end_ms.mean == pytest.approx(200.0)


def test_without_an_answer_there_is_no_figure_not_zero() -> None:
    document = compute_figures("x", 1, [Sample(error="cut off")], 1.0, IDLE).as_json()
    assert document["time_to_first_token_ms"] is None
    assert document["output_tokens_per_s"] is None
    assert document["prompt_tokens"] is None


@pytest.mark.parametrize(("cores", "lag", "stamped"), [(0.95, 0.1, False), (0.1, 20.0, False), (0.95, 0.1, True)])
def test_a_client_at_its_limit_says_so(cores: float, lag: float, stamped: bool) -> None:
    figures = compute_figures("x", 1, [sample()] * 200, 1.0, ClientLoad(cores, lag, stamped))
    assert figures.distortion == "all"
    assert "may be faster" in figures.notes[0]
    assert figures.as_json()["client"]["limited"] is True


@pytest.mark.parametrize(
    ("lag", "gap", "distortion", "word"),
    [
        pytest.param(9.0, 0.05, "", "", id="little-of-an-answer"),
        pytest.param(33.0, 0.05, "throughput", "throughput may be higher", id="much-of-an-answer"),
        pytest.param(30.0, 0.03, "gaps", "smeared", id="as-long-as-a-gap"),
        pytest.param(0.9, 0.001, "", "", id="hardly-late"),
    ],
)
def test_where_the_kernel_tells_times_being_late_matters_for_what_it_hides(
    lag: float, gap: float, distortion: str, word: str
) -> None:
    figures = compute_figures("x", 1, [sample(gap=gap)] * 200, 1.0, ClientLoad(0.1, lag, stamped=True))
    assert figures.distortion == distortion
    assert bool(figures.notes) is bool(distortion)
    assert all(word in note for note in figures.notes)


def test_an_idle_client_with_enough_samples_has_nothing_to_note() -> None:
    assert compute_figures("x", 1, [sample()] * 200, 1.0, IDLE).notes == ()


def test_tokens_that_were_not_streamed_are_noted() -> None:
    hidden = Sample(token_s=(0.1, 0.2), output_tokens=500, usage_said=True)
    assert any("not streamed" in note for note in compute_figures("x", 1, [hidden] * 200, 1.0, IDLE).notes)


def test_counting_by_chunks_is_noted() -> None:
    figures = compute_figures("x", 1, [Sample(token_s=(0.1,), output_tokens=1)] * 200, 1.0, IDLE)
    assert figures.tokens_from == "chunks"
    assert any("chunks" in note for note in figures.notes)


@pytest.mark.parametrize("disbelieved", [{"usage_is_short": True}, {"usage_is_long": True}])
def test_where_usage_is_not_believed_tokens_are_not_said_to_be_its(disbelieved: dict[str, Any]) -> None:
    lied = Sample(token_s=(0.1,), output_tokens=1, usage_said=True, **disbelieved)
    figures = compute_figures("x", 1, [lied] * 200, 1.0, IDLE)
    assert figures.tokens_from == "chunks"
    assert len(figures.notes) == 1
    assert figures.notes[0].startswith("In 200 answers `usage` counts")


def test_the_table_is_aligned_and_has_a_dash_for_nothing() -> None:
    lines = render_table(
        [compute_figures("a", 1, [sample()], 1.0, IDLE), compute_figures("b", 16, [Sample(error="x")], 1.0, IDLE)]
    )
    assert lines[0].startswith("target")
    assert "100" in lines[1]
    assert lines[2].split()[-2:] == ["-", "-"]
    assert len({line.rindex(end) + len(end) for line, end in zip(lines, ("requests/s", "1.00", "-"), strict=True)}) == 1
