"""Real shells take what `llm-setup env` prints as it is meant, whatever the model is called.

PowerShell is in no package index that the tests can count on: its output is tested as text, in tests/unit/clients.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .homes import Home, make_home

# What a shell could run, split, expand or end a string at.
HOSTILE_MODELS = {
    "single-quote": "it's",
    "double-quotes": 'say "hi"',
    "command-substitution": "$(touch pwned)`touch pwned`",
    "variables": "$HOME ${IFS} %PATH% $env:HOME !!",
    "blanks": "a b\tc  d",
    "operators": "x; touch pwned & touch pwned | cat > pwned #",
    "backslashes": "back\\slash\\n\\",
    "not-ascii": "模型/Größe-é",
    "patterns": "*? [a-z] ~ {a,b}",
}
KEY = "sk-'q$(touch pwned)\"\\z"
URL = "http://127.0.0.1:9/v1"

# How each shell evaluates the output in a start-up file, and a program that shows what its children then get.
EVALUATE = {
    "bash": (["-c"], 'eval "$(llm-setup env --shell bash)"; exec {show}'),
    "dash": (["-c"], 'eval "$(llm-setup env --shell bash)"; exec {show}'),
    "zsh": (["-f", "-c"], 'eval "$(llm-setup env --shell zsh)"; exec {show}'),
    "fish": (["--no-config", "-c"], "llm-setup env --shell fish | source; exec {show}"),
}
SHOW = """\
import json, os
print(json.dumps({name: os.environ[name] for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_"))}))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, wizard_on_path: Path) -> Home:
    """A home with a profile for each hostile model."""
    home = make_home(tmp_path_factory.mktemp("shells") / "home", programs=(wizard_on_path,))
    for name, model in HOSTILE_MODELS.items():
        arguments = ["profiles", "add", name, "--base-url", URL, "--model", model, "--offline"]
        added = home.wizard(*arguments, LLM_SETUP_API_KEY=KEY)
        assert added.code == 0, added.text
    return home


@pytest.mark.shows_key("a program shows what it was given")
@pytest.mark.parametrize("name", HOSTILE_MODELS)
@pytest.mark.parametrize("shell", EVALUATE)
def test_a_shell_gets_the_exact_values(shell: str, name: str, home: Home, find_shell: Callable[[str], Path]) -> None:
    model, (arguments, script) = HOSTILE_MODELS[name], EVALUATE[shell]
    show = home.python_script(SHOW)
    ended = home.shell([find_shell(shell), *arguments], script.format(show=show), LLM_SETUP_PROFILE=name)
    assert ended.code == 0, ended.text
    values = json.loads(ended.stdout)
    assert values["OPENAI_MODEL"] == values["ANTHROPIC_MODEL"] == model
    assert values["OPENAI_API_KEY"] == values["ANTHROPIC_AUTH_TOKEN"] == KEY
    assert values["OPENAI_BASE_URL"] == URL
    assert not list(home.work.glob("pwned*"))
