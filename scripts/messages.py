"""The messages in other languages: extract them, fill in translations, compile the catalogues.

    python scripts/messages.py            write the .pot, bring the .po up to date, compile the .mo; say what is missing
    python scripts/messages.py missing    the untranslated messages as JSON: {"English": ""}
    python scripts/messages.py fill FILE  take translations from such a JSON file into the .po, then the same

A message is what stands in `t("…")`. Texts of tables are shown by `t(row.what)`: where those come from is said below,
and a test holds that every such place is. The .mo is committed, so that an installed or an edited copy needs no build.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import functools
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).parent.parent
LOCALES = ROOT / "wizard" / "locales"
DOMAIN = "llm-setup"
LANGUAGES = ("zh_CN",)

# Fields of tables that are shown by t(row.field), at any depth of the file; what flags do and cost, what tells causes
# apart, and the notes of models and GPUs by the pages of the reference only.
TOML_TEXTS: dict[str, frozenset[str]] = {
    "wizard/catalog/flags.toml": frozenset({"instead", "what", "cost"}),
    "wizard/catalog/gpus.toml": frozenset({"note"}),
    "wizard/catalog/models/*/*.toml": frozenset({"note"}),
    "wizard/doctor/causes.toml": frozenset({"title", "why", "fix", "tells"}),
    "wizard/doctor/error_texts.toml": frozenset({"says", "what", "probe"}),
    "wizard/endpoint/presets/*.toml": frozenset({"note"}),
    "wizard/serving/deaths.toml": frozenset({"what", "why", "fix", "gives_up"}),
    "templates/*/client.toml": frozenset({"notes", "what", "why", "fix"}),
    "templates/server/*/export.toml": frozenset({"title", "next"}),
}
# Dictionaries and tuples of Python whose texts are shown by t(TABLE[key]).
PYTHON_TABLES: tuple[tuple[str, str], ...] = (
    ("wizard/cli/clients.py", "_STATES"),
    ("wizard/cli/main.py", "FAMILIES"),
    ("wizard/flows/init.py", "_WORDS"),
    ("wizard/flows/init_hub.py", "_FAILURES"),
    ("wizard/hardware/nvidia.py", "_WHAT"),
    ("wizard/hardware/render.py", "_LINKS"),
    ("wizard/ui/screen.py", "_WORDS"),
    ("wizard/cli/words.py", "CLICK"),
)
# Calls one argument of which is shown by t() later: name -> its place.
CALLS: dict[str, int] = {"Check": 1}
# Every t(…) of something else than a literal: served by the lists above, or of a text that is itself a message.
INDIRECT: dict[str, frozenset[str]] = {
    "wizard/catalog/flags.py": frozenset({"entry.instead"}),
    "wizard/cli/clients.py": frozenset({"_STATES[row['state']]"}),
    "wizard/cli/main.py": frozenset({"text"}),
    "wizard/cli/profiles.py": frozenset({"preset.note", "row['key']"}),
    "wizard/cli/words.py": frozenset(
        {"command.epilog", "inspect.cleandoc(command.help)", "command.short_help", "parameter.help", "one", "many"}
    ),
    "wizard/clients/read.py": frozenset({"trap.what", "trap.why", "trap.fix"}),
    "wizard/doctor/causes.py": frozenset({"cause.why", "cause.fix"}),
    "wizard/doctor/error_texts.py": frozenset({"candidate.probe", "row.says", "template"}),
    "wizard/doctor/tracing.py": frozenset({"find_cause(code).title"}),
    "wizard/flows/clients.py": frozenset({"note"}),
    "wizard/flows/doctor.py": frozenset({"result.title", "find_cause(finding.code).title", "target.key_hint"}),
    # "none", where there is no key; a masked key is no message, and stays.
    "wizard/flows/init_hub.py": frozenset({"_FAILURES.get(self.failure, self.failure)"}),
    "wizard/flows/init.py": frozenset({"endpoint.key_hint", "_WORDS.get(str(word), str(word))"}),
    "wizard/flows/export.py": frozenset({"line", "spec.title"}),
    "wizard/hardware/nvidia.py": frozenset({"_WHAT[key]"}),
    "wizard/hardware/render.py": frozenset({"_LINKS[kind]"}),
    "wizard/serving/deaths.py": frozenset(
        {"kind.what", "kind.why", "kind.fix", "masked.what", "masked.why", "masked.fix", "template"}
    ),
    "wizard/ui/screen.py": frozenset({"problem.severity", "word"}),
}
# Which arguments of these calls people read: positions, and names.
SHOWN: dict[str, tuple[tuple[int, ...], frozenset[str]]] = {
    "Problem": ((1, 2), frozenset({"what", "why"})),
    "Fix": ((0,), frozenset({"text"})),
    "usage_error": ((1, 2), frozenset({"what", "why", "fix"})),
    "found": ((1,), frozenset({"why", "fix"})),
    "Unseen": ((0,), frozenset({"reason"})),
    "title": ((0,), frozenset()),
    "BadParameter": ((0,), frozenset({"message"})),
    "UsageError": ((0,), frozenset({"message"})),
}
# No date: it would change the files at every run.
_NO_DATE = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
_HEADER = """\
# Messages of llm-setup in {language}.
#
# Literals in backticks, names of flags, variables, files and {{placeholders}} stay as they are.
# Which word is used for what: docs/explanation/translating.md.
# Written by scripts/messages.py; only msgstr is edited by hand.
"""


def extract_messages() -> dict[str, list[str]]:
    """Every message and the files that show it, in the order of the files."""
    found: dict[str, list[str]] = {}
    for path, text in _messages():
        files = found.setdefault(text, [])
        if path not in files:
            files.append(path)
    return found


@functools.cache
def _trees() -> tuple[tuple[str, ast.Module], ...]:
    paths = sorted((ROOT / "wizard").rglob("*.py"))
    return tuple((path.relative_to(ROOT).as_posix(), ast.parse(path.read_bytes())) for path in paths)


def _messages() -> Iterator[tuple[str, str]]:
    for name, tree in _trees():
        yield from ((name, text) for text in _from_python(name, tree))
    for pattern, fields in TOML_TEXTS.items():
        for path in sorted(ROOT.glob(pattern)):
            table = tomllib.loads(path.read_text(encoding="utf-8"))
            yield from ((path.relative_to(ROOT).as_posix(), text) for text in _from_toml(table, fields))


def _from_toml(value: Any, fields: frozenset[str], field: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _from_toml(item, fields, name)
    elif isinstance(value, list):
        for item in value:
            yield from _from_toml(item, fields, field)
    elif isinstance(value, str) and field in fields and value and (field != "next" or value[0].isupper()):
        # What to do next is a command, or a sentence with one in it.
        yield value


def _from_python(name: str, tree: ast.Module) -> Iterator[str]:
    tables = {table for file, table in PYTHON_TABLES if file == name}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and target.id in tables:
                values = node.value.values if isinstance(node.value, ast.Dict) else [node.value]
                for value in values:
                    yield from _literals(value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in CALLS:
                yield from _literals(node.args[CALLS[node.func.id]])
            elif node.func.id == "t" and isinstance(node.args[0], ast.Constant):
                # Babel's own reader of Python misses a t() inside an f-string.
                yield str(node.args[0].value)
    if name.startswith("wizard/cli/"):
        yield from _help_texts(tree)


def _help_texts(tree: ast.Module) -> Iterator[str]:
    """The texts of `--help`: docstrings of commands, `help=`, `epilog=`, and the table of commands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg in ("help", "short_help", "epilog"):
                    yield from _literals(keyword.value)
        elif isinstance(node, ast.FunctionDef) and any(_is_command(item) for item in node.decorator_list):
            text = ast.get_docstring(node)
            if text:
                yield text
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "COMMANDS":
            assert isinstance(node.value, ast.Dict)
            for value in node.value.values:
                assert isinstance(value, ast.Tuple)
                yield from _literals(value.elts[1])


def _is_command(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else node
    return isinstance(function, ast.Attribute) and function.attr in ("command", "group")


def _literals(node: ast.expr) -> Iterator[str]:
    for item in ast.walk(node):
        if isinstance(item, ast.Constant) and isinstance(item.value, str) and item.value:
            yield item.value


def indirect_places() -> dict[str, frozenset[str]]:
    """Every t(…) whose text is no literal: file -> the expressions."""
    places: dict[str, set[str]] = {}
    for name, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "t":
                text = node.args[0]
                if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
                    places.setdefault(name, set()).add(ast.unparse(text))
    return {file: frozenset(expressions) for file, expressions in places.items()}


def unmarked_texts() -> list[str]:
    """Texts that people read and that are literals outside t(): "file:line: text"."""
    found = []
    for file, tree in _trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            places, names = SHOWN.get(name, ((), frozenset()))
            given = [node.args[place] for place in places if place < len(node.args)]
            given += [keyword.value for keyword in node.keywords if keyword.arg in names]
            for text in given:
                for branch in (text.body, text.orelse) if isinstance(text, ast.IfExp) else (text,):
                    if _is_sentence(branch):
                        found.append(f"{file}:{branch.lineno}: {ast.unparse(branch)}")
    return found


def _is_sentence(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        parts = [part.value for part in node.values if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        return bool(re.search(r"[A-Za-z]{2}", " ".join(parts)))
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(re.search("[A-Za-z]", node.value))


def po_path(language: str) -> Path:
    """The catalogue of a language as people edit it."""
    return LOCALES / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def read_catalog(language: str) -> Catalog:
    """The catalogue of a language; empty where there is none."""
    if not po_path(language).exists():
        return Catalog(language, DOMAIN)
    with po_path(language).open("rb") as file:
        return read_po(file, language, DOMAIN)


def build_catalog(language: str | None, translations: dict[str, str]) -> Catalog:
    """A catalogue of exactly the messages of today, with the translations that there are."""
    catalog = Catalog(
        language,
        DOMAIN,
        header_comment=_HEADER.format(language=language or "English"),
        project=DOMAIN,
        version="1",
        creation_date=_NO_DATE,
        revision_date=_NO_DATE,
        last_translator=None,
        language_team=None,
        fuzzy=False,
    )
    for text, files in extract_messages().items():
        catalog.add(text, translations.get(text, ""), [(file, 0) for file in files])
    return catalog


def translations_of(catalog: Catalog) -> dict[str, str]:
    """Message -> translation, without the header and without what is empty."""
    return {str(m.id): str(m.string) for m in catalog if m.id and m.string and not m.fuzzy}


def placeholders(text: str) -> list[str]:
    """The `{names}` of a text, sorted: a translation must have the same."""
    return sorted(re.findall(r"\{[^{}\s]*\}", text))


def write_all(more: dict[str, str] | None = None) -> list[str]:
    """Write every file; the messages without a translation."""
    LOCALES.mkdir(exist_ok=True)
    with (LOCALES / f"{DOMAIN}.pot").open("wb") as file:
        write_po(file, build_catalog(None, {}), width=110, include_lineno=False)
    missing: list[str] = []
    for language in LANGUAGES:
        known = translations_of(read_catalog(language)) | (more or {})
        catalog = build_catalog(language, known)
        po_path(language).parent.mkdir(parents=True, exist_ok=True)
        with po_path(language).open("wb") as file:
            write_po(file, catalog, width=110, include_lineno=False)
        with po_path(language).with_suffix(".mo").open("wb") as file:
            write_mo(file, catalog)
        missing += [str(message.id) for message in catalog if message.id and not message.string]
    return missing


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["update", "missing", "fill"], default="update")
    parser.add_argument("file", nargs="?", type=Path)
    options = parser.parse_args(argv)
    if options.what == "missing":
        known = translations_of(read_catalog(LANGUAGES[0]))
        print(json.dumps({m: "" for m in extract_messages() if m not in known}, ensure_ascii=False, indent=1))
        return 0
    more: dict[str, str] = {}
    if options.what == "fill":
        more = {k: v for k, v in json.loads(options.file.read_text(encoding="utf-8")).items() if v}
        wrong = [k for k, v in more.items() if placeholders(k) != placeholders(v)]
        for text in wrong:
            print(f"other placeholders, not taken: {text!r} -> {more.pop(text)!r}", file=sys.stderr)
    missing = write_all(more)
    for text in missing:
        print(f"not translated: {text!r}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
