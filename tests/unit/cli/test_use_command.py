"""`use --json` does not call a switch fine where something speaks against an answer."""

import json
from pathlib import Path

from click.testing import CliRunner

from wizard.cli.profiles import command as profiles_command
from wizard.cli.use import command as use_command


def test_a_profile_that_does_not_answer_is_a_warning_in_the_document(tmp_path: Path) -> None:
    env = {"LLM_SETUP_HOME": str(tmp_path / "llm-setup"), "HOME": str(tmp_path), "LLM_SETUP_API_KEY": "sk-0123456789ab"}
    dead = ["--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--yes"]
    CliRunner().invoke(profiles_command, ["add", "dead", *dead], env=env)
    said = CliRunner().invoke(use_command, ["dead", "--json"], env=env)
    document = json.loads(said.stdout)
    assert (document["status"], document["active"]) == ("warning", "dead")
