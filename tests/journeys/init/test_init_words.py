"""What is said beside the questions: what leaving means, where one is, and what to type next."""

from pathlib import Path
from typing import Any


def test_a_service_that_nothing_is_called_is_not_taken_and_back_finds_the_one_that_was(
    on_terminal: Any, environment: dict[str, str]
) -> None:
    del environment["LLM_SETUP_API_KEY"]
    terminal = on_terminal("init", "--client", "codex")
    terminal.sees("Where should the model run?", "by name").down(2).enter()
    terminal.sees("Which one?", "Anthropic").types("zzz").enter()
    terminal.sees("Nothing has `zzz` in its name").types("\x7f\x7f\x7ftaot").sees("/ taot").enter()
    terminal.sees("? Which one?", "TaoToken", "Key (not shown").escape()
    # Enter alone takes what was taken before.
    terminal.sees("Which one?", "Anthropic", "» TaoToken").enter()
    terminal.sees("? Which one?", "TaoToken", "Key (not shown").child.sendcontrol("c")
    terminal.sees("Left. `llm-setup init` goes on from here.").ends(130)


def test_leaving_at_the_first_question_says_that_nothing_was_changed(on_terminal: Any, home: Path) -> None:
    terminal = on_terminal("init")
    terminal.sees("Which coding clients", "when done)").child.sendcontrol("c")
    terminal.sees("Left. Nothing was changed.").ends(130)
    assert list(home.iterdir()) == []


def test_resume_with_nothing_to_resume_says_so(llm_setup: Any, endpoint: Any) -> None:
    done = llm_setup("init", "--yes", "--resume", "--base-url", endpoint.url, "--model", "tiny", "--client", "codex")
    assert done.returncode == 0, done.stderr
    assert "no earlier run was left" in done.stdout


def test_a_url_that_is_none_is_refused_with_an_example(on_terminal: Any) -> None:
    terminal = on_terminal("init", "--client", "codex")
    terminal.sees("Where should the model run?", "by name").down().enter()
    terminal.sees("Base URL").types("not a url").enter()
    terminal.sees("Example: http://127.0.0.1:8000/v1").child.sendcontrol("c")
    terminal.ends(130)


def test_the_files_are_counted_beside_the_question(on_terminal: Any, endpoint: Any, home: Path) -> None:
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text('model = "mine"\n')
    argv = ("init", "--base-url", endpoint.url, "--model", "tiny", "--client", "codex", "--client", "cline")
    terminal = on_terminal(*argv)
    terminal.sees("Files in all: 2 (1 new, 1 changed).", "Write these files?").enter()
    terminal.sees("What now").ends()


def test_what_is_typed_next_is_the_client_that_is_here(
    llm_setup: Any, endpoint: Any, environment: dict[str, str], home: Path
) -> None:
    program = home / "bin/codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho codex-cli 0.171.0\n")
    program.chmod(0o755)
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    done = llm_setup("init", "--yes", "--base-url", endpoint.url, "--model", "tiny")
    assert done.returncode == 0, done.stderr
    first = done.stdout.partition("What now")[2].strip().splitlines()[0]
    assert first.split() == ["codex", "start", "Codex", "CLI"]


def test_nothing_has_a_tick_before_it_was_asked(llm_setup: Any, endpoint: Any) -> None:
    done = llm_setup("init", "--yes", "--base-url", endpoint.url, "--model", "nosuch", "--client", "codex")
    assert done.returncode == 1
    assert "[ok] http://" not in done.stdout


def test_the_url_that_was_found_is_offered_to_init_itself(llm_setup: Any, endpoint: Any) -> None:
    done = llm_setup("init", "--yes", "--base-url", endpoint.url, "--model", "nosuch", "--client", "codex")
    assert f"llm-setup init --base-url {endpoint.url}/v1 --model tiny --client codex" in done.stderr
    assert "openai-sdk" not in done.stderr
    assert "--cheap" not in done.stdout
