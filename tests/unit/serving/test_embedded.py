"""The embedded model's flags, and its chat template with tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from wizard.serving import embedded
from wizard.serving.start import flag_value

TEMPLATE = Path(__file__).parents[3] / "templates" / "server" / embedded.CHAT_TEMPLATE
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def _render(messages: list[dict[str, Any]], **more: Any) -> str:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(TEMPLATE.read_text()).render(messages=messages, **more)


def test_it_is_served_with_tools_a_small_cache_and_its_own_name() -> None:
    model = embedded.plan_embedded("/m", "/t.jinja", "own")
    assert flag_value(model.arguments, "--tool-call-parser") == "hermes"
    assert flag_value(model.arguments, "--chat-template") == "/t.jinja"
    assert flag_value(model.arguments, "--served-model-name") == model.served_name
    assert dict(model.environment)["VLLM_CPU_KVCACHE_SPACE"] == "1"


def test_it_is_said_to_be_too_small_and_what_to_do_instead() -> None:
    text = embedded.too_small_for_an_agent()
    assert "too small" in text
    assert "--base-url" in text


def test_a_plain_question() -> None:
    assert _render([{"role": "user", "content": "hi"}], add_generation_prompt=True) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("role", ["system", "developer"])
def test_the_clients_own_instructions_replace_the_default(role: str) -> None:
    text = _render([{"role": role, "content": "Be brief."}, {"role": "user", "content": "hi"}])
    assert text.startswith("<|im_start|>system\nBe brief.<|im_end|>")


def test_instructions_in_several_messages_all_count() -> None:
    text = _render(
        [{"role": "system", "content": "A"}, {"role": "user", "content": "q"}, {"role": "system", "content": "B"}]
    )
    assert text.count("<|im_start|>system") == 1
    assert "A\n\nB" in text


def test_tools_are_shown_with_the_form_of_a_call() -> None:
    text = _render([{"role": "user", "content": "weather?"}], tools=[TOOL])
    assert '"name": "get_weather"' in text
    assert "<tool_call>" in text


@pytest.mark.parametrize("arguments", [{"city": "Köln & <Bonn>"}, '{"city": "x"}'])
def test_calls_and_their_results_are_read_back(arguments: object) -> None:
    text = _render(
        [
            {"role": "user", "content": "weather?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "get_weather", "arguments": arguments}}] * 2,
            },
            {"role": "tool", "content": "rain"},
            {"role": "tool", "content": "sun"},
        ],
        tools=[TOOL],
        add_generation_prompt=True,
    )
    assert text.count('<tool_call>\n{"name": "get_weather", "arguments": {"city":') == 2
    assert "<tool_response>\nrain\n</tool_response>\n<tool_response>\nsun\n</tool_response><|im_end|>" in text
    assert text.endswith("<|im_start|>assistant\n")
