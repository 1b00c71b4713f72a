"""The ranking as rows of a question."""

from typing import Any

import pytest

from wizard.flows.init_model import GATEWAY, OTHER, model_rows, offer_models, search_models
from wizard.flows.init_road import EMBEDDED
from wizard.hardware.describe import describe_machine
from wizard.planning.rank import rank_models
from wizard.text import display_width


@pytest.fixture(scope="module")
def ranked() -> Any:
    return rank_models(describe_machine("RTX 4090", 1, None, None, None))


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_rows_fit_the_terminal(ranked: Any, columns: int) -> None:
    offer = offer_models(ranked, has_gpu=True, columns=columns)
    assert offer.suits
    assert all(display_width(row.title) <= columns - 4 for row in offer.rows)


def test_the_best_is_recommended_and_another_can_be_named(ranked: Any) -> None:
    offer = offer_models(ranked, has_gpu=True, columns=80)
    assert offer.recommended == ranked[0].variant.model
    assert offer.rows[-1].value == OTHER
    assert "context" in offer.rows[0].title and "tokens/s" in offer.rows[0].title and "GiB" in offer.rows[0].title


def test_without_a_gpu_the_small_model_is_recommended(ranked: Any) -> None:
    assert offer_models(ranked, has_gpu=False, columns=80).recommended == EMBEDDED


def test_where_nothing_suits_a_gateway_is_recommended_and_the_nearest_are_offered() -> None:
    tiny = rank_models(describe_machine("RTX 4090", 1, 2.0, 0.4, "8.9"))
    offer = offer_models(tiny, has_gpu=True, columns=80)
    assert not offer.suits
    assert offer.recommended == GATEWAY


def test_all_words_are_searched_for(ranked: Any) -> None:
    found = search_models(ranked, "qwen3 CODER")
    assert found
    assert all("coder" in row.variant.model.lower() for row in found)
    assert search_models(ranked, "no-such-model-anywhere") == ()


def test_an_exact_name_is_found_alone(ranked: Any) -> None:
    assert [row.variant.model for row in search_models(ranked, ranked[0].variant.model)] == [ranked[0].variant.model]


def test_what_does_not_fit_says_why(ranked: Any) -> None:
    far = [row for row in ranked if row.fits == "no"][:1]
    assert model_rows(far, 80)[0].disabled
