"""A run that was left, by Ctrl-C or by `kill -9`, goes on at the question where it was."""

import json
import socket
from pathlib import Path
from typing import Any


def test_a_run_killed_at_each_question_goes_on_there(on_terminal: Any, machine: Any, home: Path) -> None:
    questions = (
        "Where should the model run?",
        "Which model?",
        "Go on?",
        "all the same?",
        "Write these files?",
    )
    terminal = on_terminal("init", "--vllm", str(machine.vllm))
    terminal.sees("Which coding clients do you want to set up?").enter()
    for question in questions:
        terminal.sees(question)
        terminal.kill()
        assert machine.kept.stat().st_mode & 0o777 == 0o600
        terminal = on_terminal("init")
        terminal.sees("Go on where it was left?").enter()
        if question == questions[-1]:
            # What is written is one step, with all that is asked about it.
            terminal.sees(questions[-2]).enter()
        terminal.sees(question).enter()
    terminal.sees("What now").ends()
    assert (home / ".cline/data/settings/providers.json").exists()
    assert not machine.kept.exists()


def test_a_run_to_a_url_killed_at_each_question_goes_on_there(
    on_terminal: Any, endpoint: Any, environment: dict[str, str], home: Path
) -> None:
    key = environment.pop("LLM_SETUP_API_KEY")
    two = {"data": [{"id": "tiny", "max_model_len": 65536}, {"id": "other"}]}
    endpoint.routes["GET /v1/models"] = lambda headers, body: (200, two)
    answers = (
        ("Base URL", endpoint.url + "\r"),
        ("Key (not shown", key + "\r"),
        ("Which model?", "\r"),
        ("Write these files?", "y\r"),
    )
    terminal = on_terminal("init", "--client", "codex")
    terminal.sees("Where should the model run?").down().enter()
    for question, answer in answers:
        terminal.sees(question)
        terminal.kill()
        terminal = on_terminal("init", "--client", "codex")
        terminal.sees("Go on where it was left?").enter()
        terminal.sees(question).types(answer)
    terminal.sees("What now").ends()
    assert key in (home / ".codex/config.toml").read_text()


def test_a_run_killed_while_the_server_starts_takes_the_same_server(on_terminal: Any, machine: Any) -> None:
    machine.behave("slow")
    # A port of its own: where a test beside this one takes the same free one, the server starts again elsewhere.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = ("--port", str(probe.getsockname()[1]))
    given = ("--vllm", str(machine.vllm), "--client", "codex", "--here", "--model", "embedded", *port)
    terminal = on_terminal("init", *given)
    terminal.sees("Go on?", "Take another model").enter()
    terminal.sees("load weights")
    started = machine.record["pid"]
    terminal.kill()
    machine.behave("ok")
    terminal = on_terminal("init", "--client", "codex", *port)
    terminal.sees("Go on where it was left?").enter()
    terminal.sees("Write these files?").types("n").enter()
    terminal.sees("What now").ends()
    assert machine.record["pid"] == started


def test_a_server_that_has_gone_since_is_started_anew(on_terminal: Any, machine: Any) -> None:
    options = ("--vllm", str(machine.vllm), "--client", "codex")
    first = on_terminal("init", *options, "--here", "--model", "embedded")
    first.sees("Go on?", "Take another model").enter()
    first.sees("Write these files?").types("y").enter()
    first.sees("What now").ends()
    again = on_terminal("init", "--vllm", str(machine.vllm))
    again.sees("Which coding clients do you want to set up?").enter()
    again.sees("already running", "Where should the model run?", "The server here").enter()
    again.sees("all the same?").enter()
    again.sees("What now").ends()
    before = machine.record["pid"]
    third = on_terminal("init", "--vllm", str(machine.vllm))
    third.sees("Which coding clients do you want to set up?").enter()
    third.sees("Where should the model run?", "The server here", "Back")
    machine.close()
    third.enter()
    third.sees("Which model?", "Another:", "Back").enter()
    third.sees("Go on?", "Take another model").enter()
    third.sees("all the same?").enter()
    third.sees("What now").ends()
    assert machine.record["pid"] != before


def test_the_key_of_a_run_that_was_left_is_in_the_store_of_keys_alone(
    on_terminal: Any, endpoint: Any, environment: dict[str, str], home: Path
) -> None:
    key = environment.pop("LLM_SETUP_API_KEY")
    terminal = on_terminal("init", "--client", "codex", "--base-url", endpoint.url, "--model", "tiny")
    terminal.sees("Key (not shown").types(key).enter()
    terminal.sees("Write these files?")
    terminal.kill()
    state = home / "own/state"
    assert key not in (state / "init-answers.toml").read_text()
    assert key in json.loads((state / "secrets.json").read_text())["init-key"]
    assert (state / "secrets.json").stat().st_mode & 0o777 == 0o600
    terminal = on_terminal("init")
    terminal.sees("Go on where it was left?").enter()
    terminal.sees("Write these files?").types("y").enter()
    terminal.sees("What now").ends()
    assert "init-key" not in json.loads((state / "secrets.json").read_text())
    assert not (state / "init-answers.toml").exists()


def test_a_key_that_was_taken_back_stays_nowhere(on_terminal: Any, environment: dict[str, str], home: Path) -> None:
    environment.pop("LLM_SETUP_API_KEY")
    terminal = on_terminal("init", "--client", "codex", "--base-url", "http://127.0.0.1:9")
    terminal.sees("Key (not shown").types("sk-typed-000000000000").enter()
    # Nothing answers there; another address is another key.
    terminal.sees("What now?", "Enter another URL", "Leave; the answers are kept")
    secrets = home / "own/state/secrets.json"
    assert "init-key" in secrets.read_text()
    terminal.down().enter()
    terminal.sees("Base URL")
    assert "init-key" not in secrets.read_text()


def test_a_run_that_is_begun_anew_by_flag_forgets_the_one_that_was_left(
    on_terminal: Any, llm_setup: Any, endpoint: Any, environment: dict[str, str], home: Path
) -> None:
    key = environment.pop("LLM_SETUP_API_KEY")
    terminal = on_terminal("init", "--client", "codex", "--base-url", endpoint.url)
    terminal.sees("Key (not shown").types(key).enter()
    terminal.sees("Write these files?")
    terminal.kill()
    assert "init-key" in (home / "own/state/secrets.json").read_text()
    llm_setup("init", "--yes", "--no-resume", "--base-url", endpoint.url, "--client", "codex", LLM_SETUP_API_KEY=key)
    assert "init-key" not in (home / "own/state/secrets.json").read_text()
    assert not (home / "own/state/init-answers.toml").exists()


def test_answers_of_ours_that_do_not_parse_are_said_once_and_forgotten(on_terminal: Any, home: Path) -> None:
    kept = home / "own/state/init-answers.toml"
    kept.parent.mkdir(parents=True)
    kept.write_text("clients = [")
    terminal = on_terminal("init")
    terminal.sees("do not parse", "begun anew", "Which coding clients do you want to set up?")
    assert not kept.exists()


def test_what_is_gone_on_with_by_flag_is_not_offered_again(
    on_terminal: Any, llm_setup: Any, endpoint: Any, home: Path
) -> None:
    terminal = on_terminal("init", "--base-url", endpoint.url, "--model", "tiny")
    terminal.sees("Which coding clients do you want to set up?").enter()
    terminal.sees("Write these files?")
    terminal.kill()
    assert (home / "own/state/init-answers.toml").exists()
    done = llm_setup("init", "--yes", "--resume")
    assert done.returncode == 0, done.stderr
    assert not (home / "own/state/init-answers.toml").exists()


def test_a_run_may_begin_anew(on_terminal: Any, home: Path) -> None:
    terminal = on_terminal("init")
    terminal.sees("Which coding clients do you want to set up?").enter()
    terminal.sees("Where should the model run?")
    terminal.child.sendcontrol("c")
    terminal.sees("goes on from here").ends(130)
    terminal = on_terminal("init")
    terminal.sees("Go on where it was left?", "Begin anew").down().enter()
    terminal.sees("Which coding clients do you want to set up?")
    terminal.child.sendcontrol("c")
    terminal.ends(130)
    assert not (home / "own/state/init-answers.toml").exists()


def test_yes_twice_restarts_nothing_and_changes_no_file(llm_setup: Any, machine: Any, home: Path) -> None:
    def files() -> dict[str, tuple[bytes, int]]:
        return {
            str(path): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in sorted(home.rglob("*"))
            if path.is_file() and not {"logs", "servers"} & set(path.parts)
        }

    argv = ("init", "--yes", "--vllm", str(machine.vllm), "--client", "cline")
    first = llm_setup(*argv)
    assert first.returncode == 0, first.stdout + first.stderr
    assert not machine.kept.exists()
    pid, before = machine.record["pid"], files()
    for again in (argv, (*argv, "--here"), (*argv, "--here", "--model", "embedded")):
        done = llm_setup(*again)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "already running" in done.stdout
        assert machine.record["pid"] == pid
        assert files() == before


def test_answers_are_saved_and_given_again(llm_setup: Any, endpoint: Any, home: Path) -> None:
    argv = ("--yes", "--base-url", endpoint.url, "--client", "codex", "--model", "tiny")
    saved = llm_setup("init", *argv, "--save-answers", "mine.toml")
    assert saved.returncode == 0, saved.stderr
    text = (home / "mine.toml").read_text()
    assert 'clients = ["codex"]' in text
    assert 'clients_anyway = ["codex"]' in text
    assert "sk-" not in text
    (home / ".codex/config.toml").unlink()
    again = llm_setup("init", "--yes", "--answers", "mine.toml")
    assert again.returncode == 0, again.stderr
    assert endpoint.url in (home / ".codex/config.toml").read_text()


def test_a_misspelt_answer_is_one_problem_and_nothing_happens(llm_setup: Any, home: Path) -> None:
    (home / "mine.toml").write_text('base_ur = "http://127.0.0.1:9"\n')
    done = llm_setup("init", "--yes", "--answers", "mine.toml")
    assert done.returncode == 2
    assert "[answers-unknown]" in done.stderr
    assert "`base_url`" in done.stderr
    assert done.stderr.count("error:") == 1
    missing = llm_setup("init", "--yes", "--answers", "none.toml")
    assert missing.returncode == 2
    assert "[answers-unreadable]" in missing.stderr
