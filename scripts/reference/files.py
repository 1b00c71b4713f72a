"""Every path that llm-setup writes: its own folders, client files, and what an option names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from wizard.clients.spec import SPEC_NAME, parse_spec
from wizard.effects.templates import read_client_folders

Say = Callable[[str], str]


class Row(NamedTuple):
    """One kind of file. folder: which of our own; pattern: below it, as `fnmatch` reads it; private: mode 0600."""

    folder: str
    pattern: str
    private: bool
    what: str


# tests/journeys/house/test_files_written.py runs commands and holds what they leave against these.
OWN = (
    Row("config", "templates/*", False, "Templates of your own; only ever read."),
    Row("config", "serve/*.toml*", True, "Flags that `tune` found for a server; those before are kept beside them."),
    Row("config", "hub.env", True, "Which hub models are fetched from, where another than Hugging Face was chosen."),
    Row("config", "servers/*.key", True, "The key of a server that was exported as a unit."),
    Row("state", "profiles.json", True, "Named endpoints; keys by reference only."),
    Row("state", "secrets.json", True, "Keys, where no keyring works."),
    Row("state", "keyring-names.json", True, "The names of the keys in the keyring, so that each can be forgotten."),
    Row("state", "lock", False, "A lock; it stays, and says nothing when nobody holds it."),
    Row("state", "measured-starts.json", False, "What real starts measured, for the next plan."),
    Row("state", "init-answers.toml", True, "The answers of an interrupted `init`, without keys."),
    Row("state", "tune/*", False, "Measurements of `tune`, and the server that it stopped meanwhile."),
    Row("state", "originals/receipts.json", True, "What was changed in client files, and how to undo it."),
    Row("state", "originals/contents/*", True, "The first original of each client file, by hash."),
    Row("state", "originals/replaced/*", True, "What a restore replaced."),
    Row("state", "originals/lock", False, "A lock; it stays, and says nothing when nobody holds it."),
    Row("state", "servers/*.json", True, "A server that was started: command, port, process."),
    Row("state", "servers/*.log*", True, "Its output; the last three before it are kept."),
    Row("state", "servers/*.pid", False, "What its process wrote when it began."),
    Row("state", "servers/*.l[io][fc][ek]", True, "Locks: of a run that changes it, and of its own life."),
    Row("state", "tune/*.json*", True, "Trials of a search over flags, and servers that it owes a start."),
    Row("data", "runtimes/*", False, "One virtual environment for each installed vLLM, and which one is used."),
    Row("data", "models/*", False, "The small test model, its chat template, and models from ModelScope."),
    Row("data", "tools/*", False, "ModelScope's own client, once a model came from there."),
    Row("logs", "llm-setup.log*", True, "Our own log; keys are masked."),
    Row("logs", "install-*.log", False, "What an installation of vLLM said."),
)
FOLDERS = (
    ("config", "~/.config/llm-setup", "~/Library/Application Support/llm-setup", r"%LOCALAPPDATA%\llm-setup"),
    ("state", "~/.local/state/llm-setup", "~/Library/Application Support/llm-setup", r"%LOCALAPPDATA%\llm-setup"),
    ("data", "~/.local/share/llm-setup", "~/Library/Application Support/llm-setup", r"%LOCALAPPDATA%\llm-setup"),
    ("cache", "~/.cache/llm-setup", "~/Library/Caches/llm-setup", r"%LOCALAPPDATA%\llm-setup\Cache"),
    ("logs", "~/.local/state/llm-setup/log", "~/Library/Logs/llm-setup", r"%LOCALAPPDATA%\llm-setup\Logs"),
)
ELSEWHERE = (
    ("the system keyring, service `llm-setup`", "Keys of profiles and servers, where a keyring works."),
    ("`~/.config/systemd/user/llm-setup-NAME.service`", "Only with `export systemd-user --install`."),
    ("the folder of `export --output`", "What is exported; else the files go to the current folder."),
    ("`llm-setup-report.html` in the current folder", "Only by `report`; `--output` names another."),
    ("the file of `plan --svg`, of `doctor --report`", "What the option names."),
    ("`llm-setup-server-*` in the temporary folder", "Sockets of a running server; removed when it is stopped."),
    ("`llm-setup-run-*` in the temporary folder", "For `run` and `clients verify --run`; removed at the end."),
    ("`.NAME.*.llm-setup` beside a file", "The new content before it is renamed over the old; gone at once."),
)


def pages(say: Say) -> dict[str, str]:
    """files.md."""
    own = [(f"`{r.folder}`", f"`{_shown(r.pattern)}`", "0600" if r.private else "-", say(r.what)) for r in OWN]
    parts = [
        f"# {say('Files written')}",
        say(
            "Everything of llm-setup's own lies in its folders, or in one folder where `LLM_SETUP_HOME` names it. "
            "Nothing is written by `--help`, `plan`, `hardware`, `doctor` (without `--fix`) and `show`, but a log."
        ),
        f"## {say('Folders')}",
        _table(
            (say("folder"), "Linux", "macOS", "Windows"), [(f"`{n}`", *(f"`{p}`" for p in ps)) for n, *ps in FOLDERS]
        ),
        f"## {say('Of its own')}",
        _table((say("folder"), say("file"), say("mode"), say("what")), own),
        f"## {say('Files of clients')}",
        say("Only those of the clients that you chose, each shown as a diff first; `clients restore` gives them back."),
        _table((say("client"), say("scope"), say("file")), _clients()),
        f"## {say('Elsewhere')}",
        _table((say("where"), say("what")), [(say(where), say(what)) for where, what in ELSEWHERE]),
    ]
    return {"files.md": "\n\n".join(parts)}


def _shown(pattern: str) -> str:
    return pattern.replace("l[io][fc][ek]", "lock, *.life")


def _clients() -> list[tuple[str, str, str]]:
    rows = []
    for name, texts in sorted(read_client_folders(Path("/nonexistent")).items()):
        spec = parse_spec(name, texts[SPEC_NAME])
        for file in spec.files:
            rows.append((f"[{spec.title}](../how-to/connect-{spec.name}.md)", file.scope, f"`{file.target}`"))
    return list(dict.fromkeys(rows))


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
