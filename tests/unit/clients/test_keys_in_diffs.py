"""No diff shows a key, whatever its file does to the characters in it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from wizard.clients.edit import show_difference
from wizard.clients.quoting import FILTERS
from wizard.endpoint.model import Endpoint
from wizard.flows.clients import diff_clients, load_clients
from wizard.secret import Secret, redact

CORE = "efghSECRETijklmnop"
ODD = [
    pytest.param('ab"cd"' + CORE, id="quotes"),
    pytest.param("ab'cd'" + CORE, id="apostrophes"),
    pytest.param("ab\\cd\\\\" + CORE, id="backslashes"),
    pytest.param("{{" + CORE + "}}{%x%}", id="template"),
    pytest.param("$(a)`b`${" + CORE + "}\"'%\\&<>|;#!~", id="everything"),
]


@pytest.mark.parametrize("key", ODD)
def test_redaction_finds_a_key_in_every_form_that_a_filter_writes(key: str) -> None:
    Secret(key)
    for name, quote in FILTERS.items():
        value: Any = [key] if name == "sh_words" else key
        assert "SECRET" not in redact(f"x {quote(value)} y"), name


@pytest.mark.parametrize("key", ODD)
def test_no_client_shows_an_odd_key_when_it_is_written(make_home: Any, tmp_path: Any, key: str) -> None:
    home = make_home(tmp_path)
    names = list(load_clients(home.world))
    for result in home.apply(*names, endpoint=endpoint(key)):
        assert "SECRET" not in str(result.as_json()), result.client
    assert "SECRET" not in home.said


@pytest.mark.parametrize("key", [*ODD, pytest.param("qZ7", id="three characters")])
def test_no_client_shows_the_key_that_gives_way_to_another(make_home: Any, tmp_path: Any, key: str) -> None:
    home = make_home(tmp_path)
    names = list(load_clients(home.world))
    home.apply(*names, endpoint=endpoint(key))
    core = "SECRET" if "SECRET" in key else key
    said = home.said
    said += "".join(str(result.as_json()) for result in home.apply(*names, endpoint=endpoint("sk-another-0123456789")))
    assert core not in said + home.said


def test_a_user_s_old_key_is_masked_even_where_its_file_escapes_it(make_home: Any, tmp_path: Any) -> None:
    home = make_home(tmp_path)
    old = {"OTHER_API_KEY": "ODD", "ANTHROPIC_AUTH_TOKEN": "s3"}
    home.write(".claude/settings.json", json.dumps({"env": old}).replace("ODD", r"a\u0062\"cdSECRETef"))
    home.write(".bashrc", "export MY_TOKEN='ab'\\''SECRET'\"more\"\n")
    for result in home.apply("claude-code", "shell"):
        shown = str(result.as_json())
        assert "SECRET" not in shown and '"s3"' not in shown


def test_the_diff_since_and_the_restore_show_no_key(make_home: Any, tmp_path: Any) -> None:
    home = make_home(tmp_path)
    home.apply("codex", "claude-code", "shell", endpoint=endpoint("qZ7"))
    for path in home.tree():
        file = home.path / path
        file.write_bytes(file.read_bytes().replace(b"qZ7", b"wY8"))
    shown = str(diff_clients(home.world, None, ()))
    home.restore()
    for key in ("qZ7", "wY8"):
        assert key not in shown + home.said


def test_a_key_is_never_cut_in_two_on_a_very_long_line() -> None:
    key = Secret("sk-" + "0123456789abcdef" * 4)
    before = f'{{"k": "{key.reveal()}", "model": "old", "pad": "{"x" * 9000}"}}'
    after = before.replace('"old"', '"new"')
    shown = show_difference(before.encode(), after.encode(), "f")
    assert "new" in shown and "0123456789abcdef" not in shown and len(shown) < 1500


def test_five_megabytes_on_one_line_are_compared_at_once() -> None:
    before = '{"a": "' + "é-token " * 700_000 + '", "model": "old"}'
    begun = time.process_time()
    shown = show_difference(before.encode(), before.replace('"old"', '"new"').encode(), "f")
    assert '"new"' in shown
    assert time.process_time() - begun < 0.6


def test_many_changed_lines_are_compared_at_once() -> None:
    before = "".join(f"a{n % 7}\n" for n in range(40_000))
    begun = time.process_time()
    shown = show_difference(before.encode(), before.replace("a3", "b3").encode(), "f")
    assert "+b3" in shown
    assert time.process_time() - begun < 2


def endpoint(key: str) -> Endpoint:
    return Endpoint("local", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000", "m", Secret(key))
