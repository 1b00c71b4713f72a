"""Every end of a command is an exit code and, where something is wrong, one problem."""

import json
import subprocess
import sys

import click
import pytest

from wizard.cli import main as cli
from wizard.problems import Fix, Problem, ProblemError


def end_of(monkeypatch: pytest.MonkeyPatch, raised: BaseException, *argv: str) -> int:
    """Run a command that raises; returns the exit code."""

    @click.command()
    @click.option("--json", "as_json", is_flag=True)
    def command(as_json: bool) -> None:
        raise raised

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda self, ctx, name: command)
    with pytest.raises(SystemExit) as end:
        cli.main(["doctor", *argv])
    return int(end.value.code or 0)


PROBLEM = Problem("disk-space", "Too little room", "why", ("saw this",), Fix("Make room", ("df -h",)))


def test_a_problem_is_shown_with_its_code_and_fix(monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    assert end_of(monkeypatch, ProblemError(PROBLEM)) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "error: Too little room [disk-space]",
        "  why: why",
        "  saw: saw this",
        "  fix: Make room",
        "       $ df -h",
    ]


def test_with_json_a_problem_is_one_document_on_stdout(monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    assert end_of(monkeypatch, ProblemError(PROBLEM), "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert document["status"] == "error"
    assert document["problems"][0]["fix"] == {"text": "Make room", "commands": ["df -h"], "automatic": False}


def test_ctrl_c_ends_with_130(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    assert end_of(monkeypatch, KeyboardInterrupt()) == 130


def test_our_own_bug_ends_with_3_and_names_the_log(monkeypatch, capsys, tmp_path) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("LLM_SETUP_HOME", str(tmp_path / "own"))
    assert end_of(monkeypatch, RuntimeError("sk-planted-000000000002 broke it")) == 3
    shown = capsys.readouterr().err
    log = tmp_path / "own" / "logs" / "llm-setup.log"
    assert str(log) in shown
    assert "Traceback" in log.read_text()
    assert "planted" not in shown + log.read_text()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        pytest.param(["docter"], "`doctor`", id="misspelt-command"),
        pytest.param(["--nonsense"], "--nonsense", id="unknown-option"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_is_right(argv: list[str], says: str) -> None:
    done = subprocess.run([sys.executable, "-m", "wizard", *argv], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""


def test_help_imports_no_command_and_nothing_heavy() -> None:
    code = (
        "import sys\nfrom wizard.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'httpx2', 'openai', 'rich', 'questionary', 'jinja2', 'tomlkit', 'keyring', 'pynvml', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_command_of_the_table_has_a_module_with_help_and_an_example() -> None:
    for name in cli.COMMANDS:
        command = cli.group.get_command(click.Context(cli.group), name)
        assert command is not None
        commands = list(command.commands.values()) if isinstance(command, click.Group) else [command]
        for one in commands:
            assert one.help, f"{name} {one.name} has no help"
            assert "llm-setup" in (one.epilog or command.epilog or ""), f"{name} {one.name} has no example"
