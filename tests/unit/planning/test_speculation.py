"""`--speculative-config` as memory sees it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from wizard.planning.facts import ModelFacts
from wizard.planning.intent import Intent
from wizard.planning.kv import CacheSetup, kv_layout
from wizard.planning.pins import parse_pin
from wizard.planning.speculation import NO_DRAFT, wanted_draft
from wizard.planning.versions import parse_version
from wizard.problems import ProblemError

Facts = Callable[..., ModelFacts]


def pinned(*texts: str) -> Intent:
    return Intent(pins=tuple(parse_pin(text) for text in texts))


def test_without_the_flag_there_is_no_draft(facts: Facts) -> None:
    assert wanted_draft(pinned("enforce-eager"), facts()) == NO_DRAFT


@pytest.mark.parametrize(
    ("settings", "tokens", "layers", "told"),
    [
        pytest.param('{"method":"mtp","num_speculative_tokens":3}', 3, 1, 0, id="prediction-head"),
        pytest.param('{"method":"qwen3_next_mtp","num_speculative_tokens":2}', 2, 1, 0, id="older-name"),
        pytest.param('{"method":"ngram","num_speculative_tokens":5}', 5, 0, 0, id="from-the-text"),
        pytest.param('{"model":"a/LLaMA3-EAGLE3-8B","num_speculative_tokens":4}', 4, 1, 1, id="eagle-by-name"),
        pytest.param('{"method":"dflash","model":"/d","num_speculative_tokens":7}', 7, 0, 1, id="not-counted"),
        pytest.param('{"model":"Qwen/Qwen3-0.6B","num_speculative_tokens":4}', 4, 0, 1, id="a-model-of-its-own"),
    ],
)
def test_each_method_has_its_layers_and_says_what_is_not_counted(
    facts: Facts, settings: str, tokens: int, layers: int, told: int
) -> None:
    draft = wanted_draft(pinned(f"speculative-config={settings}"), facts())
    assert (draft.tokens, draft.layers, len(draft.warnings)) == (tokens, layers, told)


def test_dotted_flags_are_the_same(facts: Facts) -> None:
    dotted = pinned("speculative-config.method=mtp", "speculative-config.num_speculative_tokens=2")
    assert wanted_draft(dotted, facts()).tokens == 2


@pytest.mark.parametrize("value", ["mtp", "[1]", '{"num_speculative_tokens":-1}', '{"num_speculative_tokens":1e9}'])
def test_what_is_no_configuration_is_refused(facts: Facts, value: str) -> None:
    with pytest.raises(ProblemError):
        wanted_draft(pinned(f"speculative-config={value}"), facts())


def test_a_prediction_head_joins_the_groups_of_a_hybrid_model(facts: Facts) -> None:
    # Qwen3.6-27B on two RTX 3090, FP8 cache, MTP with 3 tokens, prefix caching: "Add 3 padding layers", 11.05 GiB gave
    # 623,873 tokens in two starts and 622,408 in a third (github.com/noonghunna/club-3090, issues 142, 294, 642).
    model = facts(
        "qwen3.5-4b",
        num_hidden_layers=64,
        hidden_size=5120,
        num_attention_heads=24,
        layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 16,
        linear_num_value_heads=48,
        torch_dtype="float16",
    )
    setup = CacheSetup(
        parse_version("0.24.0"),
        tensor_parallel=2,
        kv_cache_dtype="fp8_e5m2",
        model_dtype="float16",
        prefix_caching=True,
        speculative_tokens=3,
        draft_layers=1,
    )
    layout = kv_layout(model, setup)
    assert [len(group.page_sizes) for group in layout.groups] == [17, 17, 17, 17]
    assert layout.printed_tokens(layout.blocks((int(11.055 * 2**30),)), 262_144) == 623_873
    assert layout.printed_tokens(layout.blocks((int(11.045 * 2**30),)), 262_144) == 622_408
