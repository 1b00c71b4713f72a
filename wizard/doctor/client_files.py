"""Client files as evidence: found by their path's ending, parsed as their client parses them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wizard.clients.formats import parse
from wizard.doctor.observations import ClientFile, Observations
from wizard.endpoint.urls import pasted_endpoint
from wizard.problems import Problem, ProblemError
from wizard.secret import redact


@dataclass(frozen=True, slots=True)
class Parsed:
    """A file and its value. value is None where the file is missing or does not parse; problem says why."""

    file: ClientFile | None
    value: Any = None
    problem: Problem | None = None

    @property
    def there(self) -> bool:
        """Whether the file exists."""
        return self.file is not None

    @property
    def path(self) -> str:
        """Its path as shown to people."""
        return self.file.path if self.file else ""

    def table(self, *keys: str) -> Mapping[str, Any]:
        """The table below `keys`, empty where there is none."""
        value = self.value
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, Mapping) else {}

    def text(self, *keys: str) -> str:
        """The string at `keys`, empty where there is none."""
        value = self.table(*keys[:-1]).get(keys[-1])
        return value if isinstance(value, str) else ""


def find_files(seen: Observations, client: str) -> Iterator[ClientFile]:
    """The files of one client that exist and could be read."""
    return (file for file in seen.files if file.client == client and file.text is not None)


def read_parsed(seen: Observations, client: str, name: str, kind: str, scope: str = "user") -> Parsed:
    """A client's file by its path's ending and scope. kind: toml, json (strict), jsonc, yaml, dotenv."""
    for file in find_files(seen, client):
        if file.scope == scope and file.path.replace("\\", "/").endswith(name):
            try:
                return Parsed(file, parse((file.text or "").encode(), kind, Path(file.path)))
            except ProblemError as error:
                return Parsed(file, problem=error.problem)
    return Parsed(None)


def host_of(url: str) -> str:
    """The host of a URL as it stands in a file; empty where it is no URL."""
    try:
        return (urlsplit(url.strip()).hostname or "").lower()
    except ValueError:
        return ""


def shown(value: str) -> str:
    """A URL or another value out of a file or variable, without user, password and whatever looks like a key."""
    return redact(re.sub(r"//[^/@\s]*@", "//", value))


def path_of(url: str) -> str:
    """The path of a URL as it stands in a file; empty where it is no URL."""
    try:
        return urlsplit(url.strip()).path
    except ValueError:
        return ""


def endpoint_in(url: str) -> str:
    """The endpoint (`/chat/completions`) that a base URL ends in by mistake; empty: none."""
    try:
        suffix = pasted_endpoint(url.strip())
    except ValueError:
        return ""
    return suffix if suffix and suffix != "/models" else ""


def line_with(text: str, needle: str) -> int:
    """The number of the first line that holds `needle`; 0 where none does."""
    return next((n for n, line in enumerate(text.splitlines(), 1) if needle in line), 0)


def is_meant(seen: Observations, client: str) -> bool:
    """Whether the question is about this client, as far as it was said."""
    return not seen.client_type or seen.client_type == client


def weigh(seen: Observations, client: str, *problems: Problem) -> tuple[Problem, ...]:
    """Errors in files become warnings where the question is about another client, or the endpoint was given and asked.

    With a triple from flags the files are not what was used, so they cannot be why it fails.
    """
    if is_meant(seen, client) and not (seen.probed and seen.explicit):
        return problems
    return tuple(replace(p, severity="warning") if p.severity == "error" else p for p in problems)


def dotenv_value(seen: Observations, name: str, *clients: str) -> str | None:
    """A variable's value in the dotenv files of the given clients; None where it is in none."""
    for file in seen.files:
        if file.client in clients and file.text is not None and Path(file.path).name.startswith(".env"):
            match = re.search(rf"(?m)^\s*(?:export\s+)?{re.escape(name)}\s*=\s*(.*)$", file.text)
            if match:
                return match[1].strip().strip("\"'")
    return None


# `export NAME=value`, `set -gx NAME value` (fish), `$env:NAME = "value"` (PowerShell), `NAME=value` (no export).
_EXPORT = re.compile(
    r"^\s*(?:export\s+(?P<sh>\w+)=(?P<sh_value>.*)|set\s+(?:-\w*x\w*|--export)\s+(?:-\w+\s+)*(?P<fish>\w+)\s+(?P<fish_value>.*)"
    r"|\$env:(?P<ps>\w+)\s*=\s*(?P<ps_value>.*)|(?P<plain>[A-Z][A-Z0-9_]+)=(?P<plain_value>.*))$"
)


# A value in which no blank stands, or in quotes, and behind it a word that is no comment and no other command.
_PREFIXED = re.compile(r"""^\s*\w+=(?P<value>(?:"[^"]*"|'[^']*'|[^\s"'#;&|])*)[ \t]+(?P<rest>[^\s#;&|].*)$""")


def is_for_one_command(line: str) -> bool:
    """Whether a line of a shell sets a variable for the program behind it alone: `NAME=value codex`, `NAME= codex`.

    A single word behind an empty value that looks like a key or a URL is a value with a blank before it.
    """
    found = _PREFIXED.match(line)
    return found is not None and bool(found["value"] or not re.fullmatch(r"\S*[\d:\"'$]\S*\s*", found["rest"]))


@dataclass(frozen=True, slots=True)
class ShellLine:
    """A variable that a shell's start-up file sets. exported: whether programs started from that shell get it."""

    name: str
    value: str
    exported: bool
    path: str
    line: int

    @property
    def where(self) -> str:
        """`~/.bashrc line 12`, as evidence is shown."""
        return f"{self.path} line {self.line}"


def shell_lines(seen: Observations) -> Iterator[ShellLine]:
    """Every variable that a shell's start-up file sets, in order. Values may hold keys: never show them."""
    for file in find_files(seen, "shell"):
        text = file.text or ""
        exported_later = set(re.findall(r"(?m)^\s*export\s+((?:[A-Z_][A-Z0-9_]*\s*)+)$", text))
        names_later = {name for group in exported_later for name in group.split()}
        for number, line in enumerate(text.splitlines(), 1):
            match = _EXPORT.match(line)
            if not match or is_for_one_command(line):
                continue
            for kind in ("sh", "fish", "ps", "plain"):
                name = match[kind]
                if name:
                    exported = kind != "plain" or name in names_later or "environment.d" in file.path
                    yield ShellLine(name, match[f"{kind}_value"].strip(), exported, file.path, number)
