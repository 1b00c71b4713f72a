"""Pictures and texts of a plan."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from wizard.hardware.machine import Machine
from wizard.planning.facts import ModelFacts
from wizard.planning.intent import Intent
from wizard.planning.model import Flag, ServePlan
from wizard.planning.pins import parse_pin
from wizard.planning.plan import plan_serve
from wizard.planning.render import as_command, as_env, as_yaml, bar_cells, bar_svg, segments


@pytest.fixture
def plan(facts: Callable[..., ModelFacts], gpu_machine: Callable[..., Machine]) -> ServePlan:
    pins = (parse_pin('hf-overrides={"a": "b c"}'), parse_pin("enforce-eager"))
    return plan_serve(
        gpu_machine("H100", free_gib=70.0), facts(gib=14.96, model="acme/it's <big> & fine"), Intent(pins=pins)
    )


def test_the_bar_fills_its_width_and_every_part_is_seen(plan: ServePlan) -> None:
    for width in (20, 60, 200):
        cells = bar_cells(plan.memory, width)
        assert sum(count for _, count in cells) == width
        assert all(count >= 1 for _, count in cells)


def test_the_parts_are_the_whole_gpu(plan: ServePlan) -> None:
    parts = {part.key: part.gib for part in segments(plan.memory)}
    assert sum(parts.values()) == pytest.approx(plan.memory.total_gib, abs=0.02)
    assert parts["others"] == pytest.approx(9.19, abs=0.01)


def test_the_picture_is_sound_xml_and_says_its_numbers(plan: ServePlan) -> None:
    picture = bar_svg(plan)
    root = ElementTree.fromstring(picture)
    assert root.tag.endswith("svg")
    assert f"{plan.memory.weights_gib:.2f} GiB" in picture
    assert "<big>" not in picture


def test_the_command_can_be_pasted(plan: ServePlan) -> None:
    words = shlex.split(as_command(plan).replace("\\\n", " "))
    assert tuple(words) == plan.command


def test_the_file_gives_vllm_the_same_flags(plan: ServePlan) -> None:
    table = YAML(typ="safe").load(as_yaml(plan))
    assert table["model"] == "acme/it's <big> & fine"
    assert table["hf-overrides"] == '{"a": "b c"}'
    assert table["enforce-eager"] is True
    assert {f"--{key}" for key in table if key != "model"} == {flag.flag for flag in plan.flags}


def test_the_variables_carry_the_arguments(plan: ServePlan) -> None:
    lines = dict(line.split("=", 1) for line in as_env(plan).splitlines())
    assert lines["VLLM_SERVED_NAME"].strip('"') == plan.served_name
    assert "--enforce-eager" in lines["VLLM_ARGUMENTS"]


def test_several_words_after_one_flag_stay_several(plan: ServePlan) -> None:
    adapters = Flag("--lora-modules", "sql='/my adapters/sql' chat=/chat", "", "you")
    several = replace(plan, flags=(*plan.flags, adapters))
    assert several.arguments[-3:] == ("--lora-modules", "sql=/my adapters/sql", "chat=/chat")
    assert tuple(shlex.split(as_command(several).replace("\\\n", " "))) == several.command
    assert YAML(typ="safe").load(as_yaml(several))["lora-modules"] == ["sql=/my adapters/sql", "chat=/chat"]
