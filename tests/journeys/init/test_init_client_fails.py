"""A client that gets no answer from the file just written: its cause is shown, and there are ways on."""

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("way", ["retry", "restore", "leave"])
def test_a_client_that_gets_no_answer_is_tried_again_or_taken_back(
    on_terminal: Any, endpoint: Any, home: Path, way: str
) -> None:
    answers = endpoint.routes["POST /v1/messages"]
    argv = ("--base-url", endpoint.url, "--client", "codex", "--client", "claude-code")
    terminal = on_terminal("init", *argv)
    terminal.sees("Write these files?")
    # It breaks after the proof.
    endpoint.routes["POST /v1/messages"] = lambda headers, body: (500, {"error": {"message": "it broke"}})
    terminal.enter()
    terminal.sees("[client-not-proved]", "the doctor looks for the cause", "[server-bug-500]")
    terminal.sees("What now?", "Try again", "Take their files back", "Leave the files as they are")
    if way == "retry":
        endpoint.routes["POST /v1/messages"] = answers
    terminal.down(("retry", "restore", "leave").index(way)).enter()
    terminal.sees("llm-setup clients restore").ends(0 if way == "retry" else 1)
    assert (home / ".claude/settings.json").exists() == (way != "restore")
    # The other client is as it was proved.
    assert (home / ".codex/config.toml").exists()
