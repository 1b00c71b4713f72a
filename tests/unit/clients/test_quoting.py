"""Each shell gives back exactly what was quoted for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wizard.clients.formats.lines import parse_dotenv
from wizard.clients.places import Places
from wizard.clients.quoting import FILTERS, quote_cmd, quote_powershell, quote_toml
from wizard.clients.render import render_text, template_values
from wizard.clients.shells import SHELLS, render_shell, shell_variables
from wizard.clients.spec import parse_spec
from wizard.effects.templates import read_client_folders
from wizard.endpoint.model import Endpoint
from wizard.problems import ProblemError
from wizard.secret import Secret

NASTY = [
    "plain",
    "with blank",
    "a'b",
    'a"b',
    "a\\b",
    "$HOME `id` $(id)",
    "模型 é",
    "%PATH%!x!",
    "#hash;&|<>",
    "\ttab",
    "-n",
    "a\nb",
]


@pytest.mark.parametrize("value", NASTY)
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_posix_shell_gives_it_back(value: str, shell: str) -> None:
    program = shutil.which(shell) or shutil.which("bash") or "sh"
    script = render_shell("bash", [("X", value)]) + 'printf "%s." "$X"'
    said = subprocess.run([program, "-c", script], capture_output=True, check=True).stdout.decode()
    assert said == value + "."


@pytest.mark.parametrize("value", [value for value in NASTY if "\n" not in value])
@pytest.mark.parametrize("template", ["crushrc.j2", "run.crushrc.j2"])
def test_crush_which_expands_a_value_again_gets_it_back(
    template: str, value: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    texts = read_client_folders(tmp_path)["crush"]
    places = Places({}, tmp_path, tmp_path, "linux", tmp_path)
    values = template_values(replace(endpoint, key=Secret(value)), parse_spec("crush", texts["client.toml"]), places)
    # Crush's own shell runs the file; what it then expands, and how, is what a here-document does.
    script = f"""
        model() {{ :; }}
        provider() {{ while [ "$1" != --api-key ]; do shift; done; eval "cat <<END
$2
END
"; }}
        {render_text(texts[template], values, template)}
    """
    # By standard input: a key among arguments shows to everybody.
    said = subprocess.run(
        ["bash"], input=script.encode(), capture_output=True, check=True, env={**os.environ, "LLM_SETUP_API_KEY": value}
    ).stdout.decode()
    assert said == value + "\n"


@pytest.mark.parametrize("value", NASTY)
def test_a_dotenv_reader_gives_it_back(value: str) -> None:
    assert parse_dotenv(render_shell("dotenv", [("X", value)])) == {"X": value}


@pytest.mark.parametrize("value", NASTY)
def test_toml_gives_it_back(value: str) -> None:
    assert tomllib.loads(f"x = {quote_toml(value)}") == {"x": value}


def test_powershell_doubles_every_kind_of_single_quote() -> None:
    assert quote_powershell("a'b’c") == "'a''b’’c'"


def test_cmd_doubles_percent_signs() -> None:
    assert quote_cmd("%PATH%") == "%%PATH%%"


def test_a_value_without_a_filter_is_refused() -> None:
    with pytest.raises(ProblemError) as caught:
        render_text("x = {{ endpoint.model }}", None, "x.j2")  # type: ignore[arg-type]
    assert caught.value.problem.code == "client-template-broken"


def test_a_misspelt_value_is_named(endpoint: Endpoint, tmp_path: Path) -> None:
    spec = parse_spec("codex", read_client_folders(tmp_path)["codex"]["client.toml"])
    values = template_values(endpoint, spec, Places({}, tmp_path, tmp_path, "linux", tmp_path))
    with pytest.raises(ProblemError) as caught:
        render_text("x = {{ endpoint.modell | toml }}", values, "x.j2")
    assert "modell" in caught.value.problem.what


def test_every_filter_has_a_shell_or_format_of_its_own() -> None:
    assert set(FILTERS) >= {"json", "toml", "yaml", "sh", "fish", "powershell", "cmd", "dotenv", "url", "curl"}


def test_env_and_the_shell_client_set_the_same_variables(home: Any, endpoint: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "pwsh").touch(0o755)
    home.env["PATH"] = str(tmp_path)
    home.apply("shell")
    own = home.world.paths.config
    for shell, name in (("bash", "env.sh"), ("fish", "env.fish"), ("powershell", "env.ps1"), ("dotenv", "llm.env")):
        written = [line for line in (own / name).read_text().splitlines() if not line.startswith("#")]
        assert shell in SHELLS
        assert "\n".join(written) + "\n" == render_shell(shell, shell_variables(endpoint))


def test_the_lines_for_a_shell_need_no_reader_of_files() -> None:
    # `env` stands in start-up files, so that every import of it is waited for at each new shell.
    program = (
        "import sys, wizard.flows.env; print([name for name in sys.modules if name.startswith(('tomllib', 'tempfile',"
        " 'jinja2', 'wizard.clients.formats.json', 'wizard.clients.formats.toml', 'wizard.clients.formats.yaml'))])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
