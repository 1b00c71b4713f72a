"""A page for each code that a problem may carry, from the tables that the findings themselves are made of."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from wizard.clients.spec import SPEC_NAME, parse_spec
from wizard.doctor.causes import all_causes
from wizard.serving.deaths import all_deaths

ROOT = Path(__file__).resolve().parents[2]


class Page(NamedTuple):
    """One code: its title, why it happens, what to do, what tells it apart, where it is met."""

    code: str
    title: str
    why: str
    fix: str
    tells: str = ""
    met: str = ""
    lines: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()


def pages(say: Callable[[str], str]) -> dict[str, str]:
    """`problems/CODE.md` for each, and `problems/README.md`, which lists them."""
    found: dict[str, Page] = {}
    for page in (*_causes(), *_deaths(), *_traps(), *_raised()):
        found.setdefault(page.code, page)
    said = {
        code: page._replace(
            title=_plain(say(page.title)), why=_plain(say(page.why)), fix=_plain(say(page.fix)), tells=say(page.tells)
        )
        for code, page in found.items()
    }
    texts = {f"problems/{page.code}.md": _render(page, said, say) for page in said.values()}
    return {"problems/README.md": _index(said, say), **texts}


def _causes() -> Iterator[Page]:
    for cause in all_causes():
        yield Page(
            cause.code, cause.title, cause.why, cause.fix, cause.tells, "doctor", explains=tuple(sorted(cause.explains))
        )


def _deaths() -> Iterator[Page]:
    for death in all_deaths():
        lines = tuple(line.example for line in death.lines if line.example)
        yield Page(death.code, death.what, death.why, death.fix, "", "log", lines, death.commands)


def _traps() -> Iterator[Page]:
    for path in sorted((ROOT / "templates").glob(f"*/{SPEC_NAME}")):
        spec = parse_spec(path.parent.name, path.read_text(encoding="utf-8"))
        for trap in spec.traps:
            yield Page(trap.code, trap.what, trap.why, trap.fix, met="clients", commands=trap.commands)


@functools.cache
def _raised() -> tuple[Page, ...]:
    """What commands raise themselves: the literal texts where each problem is made."""
    return tuple(_raised_in_sources())


def _raised_in_sources() -> Iterator[Page]:
    for path in sorted((ROOT / "wizard").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for scope in (*(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)), tree):
            yield from _raised_in(scope)


def _raised_in(scope: ast.AST) -> Iterator[Page]:
    """The problems made in a function, or at the module's level; a text may stand in a name that is set there."""
    named: dict[str, str] = {}
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, _literal(node.value))

    def text(node: ast.expr) -> str:
        return _literal(node) or (named.get(node.id, "") if isinstance(node, ast.Name) else "")

    for call in ast.walk(scope):
        if not isinstance(call, ast.Call) or _name(call.func) not in ("Problem", "usage_error"):
            continue
        texts = [text(argument) for argument in call.args]
        if len(texts) < 2 or not isinstance(call.args[0], ast.Constant) or not texts[1]:
            continue
        by_name = {word.arg: word.value for word in call.keywords}
        why = text(by_name["why"]) if "why" in by_name else ""
        fix = ""
        if _name(call.func) == "Problem":
            why = why or (texts[2] if len(texts) > 2 else "")
            remedy = by_name.get("fix") or (call.args[4] if len(call.args) > 4 else None)
            fix = text(remedy) if remedy is not None else ""
        elif len(texts) > 2:
            fix = texts[2]
        yield Page(texts[0], texts[1], why, fix, met="commands")


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _literal(node: ast.expr) -> str:
    """The text of a literal, or of the literal inside `t(...)` or `Fix(...)`; empty for anything else."""
    while isinstance(node, ast.Call) and _name(node.func) in ("t", "Fix") and node.args:
        node = node.args[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _plain(text: str) -> str:
    """A message's placeholders as words in capitals: `{port}` becomes `PORT`."""
    out, rest = "", text
    while "{" in rest:
        before, _, after = rest.partition("{")
        name, closed, rest = after.partition("}")
        out += before + (name.split(":")[0].split(".")[0].upper() if closed else "{" + name)
    return out + rest


_MET = {
    "doctor": "`llm-setup doctor` finds it from what it sees of client, network and endpoint.",
    "log": "`llm-setup doctor --log FILE` and `llm-setup serve` find it in a server's log.",
    "clients": "`llm-setup doctor` and `llm-setup clients` find it in a client's files.",
    "commands": "A command says it when it cannot go on.",
}


def _render(page: Page, known: dict[str, Page], say: Callable[[str], str]) -> str:
    parts = [f"# {page.title.rstrip('.。')}", f"`{page.code}`. {say(_MET[page.met])}"]
    if page.why:
        parts += [f"## {say('Why')}", page.why]
    if page.tells:
        parts += [f"## {say('What tells it apart')}", page.tells]
    if page.lines:
        shown = "\n".join(line.strip()[:300] for line in page.lines[:6])
        parts += [f"## {say('Lines that tell it')}", f"```text\n{shown}\n```"]
    if page.fix:
        parts += [f"## {say('What to do')}", page.fix]
    if page.commands:
        commands = "\n".join(_plain(command) for command in page.commands)
        parts.append(f"```sh\n{commands}\n```")
    explained = [code for code in page.explains if code in known]
    if explained:
        listed = "\n".join(f"- [{known[code].title.rstrip('.。')}]({code}.md)" for code in explained)
        parts += [f"## {say('What follows from it')}", listed]
    return "\n\n".join(parts) + "\n"


_GROUPS = {
    "doctor": "Between client and endpoint",
    "clients": "In a client's files",
    "log": "In a server's log",
    "commands": "Said by commands",
}


def _index(known: dict[str, Page], say: Callable[[str], str]) -> str:
    parts = [
        f"# {say('Problems')}",
        say(
            "Every problem that llm-setup shows carries a code. Causes between client and endpoint stand in the order "
            "in which the doctor ranks them: nearest to the root first."
        ),
    ]
    for met, title in _GROUPS.items():
        rows = [page for page in known.values() if page.met == met]
        if met == "commands":
            rows.sort(key=lambda page: page.code)
        if rows:
            listed = "\n".join(f"| [`{page.code}`]({page.code}.md) | {_cell(page.title)} |" for page in rows)
            parts += [f"## {say(title)}", f"| {say('code')} | {say('what')} |\n|---|---|\n{listed}"]
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
