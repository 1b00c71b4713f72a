"""The settings' file that `serve` reads."""

from __future__ import annotations

import pytest

from wizard.planning.intent import Pin
from wizard.tuning.settings import Settings, parse_settings, render_settings

PINS = (Pin("--max-num-seqs", "64"), Pin("--no-enable-prefix-caching"), Pin("--speculative-config", '{"a": "b\\"c"}'))


def test_what_is_written_is_read_again() -> None:
    settings = Settings('/models/a "b" é', "0.32.0", PINS, "Found so.\nAnd so.")
    raw = render_settings(settings)
    assert raw.startswith(b"# Found so.\n# And so.\nmodel = ")
    again = parse_settings(raw)
    assert (again.model, again.vllm_version, again.pins) == (settings.model, settings.vllm_version, PINS)


def test_people_may_write_numbers_and_switch_off() -> None:
    found = parse_settings(b'model = "m"\n[set]\nmax-num-seqs = 64\nenforce-eager = false\nasync-scheduling = true\n')
    assert found.pins == (Pin("--max-num-seqs", "64"), Pin("--async-scheduling"))


@pytest.mark.parametrize(
    "text", ["", "model = 3\n", "mode = 'm'\n", "model = 'm'\n[set]\na = [1]\n", "model = 'm'\nset = 5\n", "]["]
)
def test_what_is_not_right_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_settings(text.encode())
