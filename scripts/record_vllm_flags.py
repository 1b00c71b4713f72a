#!/usr/bin/env python3
"""Write wizard/catalog/vllm_flags.toml: which flags, and values of some, each vLLM release has.

    record_vllm_flags.py FOLDER

FOLDER has a folder a release, named by its version, with that release's `vllm` package in it (from its wheel; nothing
is imported). Names are read from the sources: `add_argument("--x", ...)` in engine/arg_utils.py and in the front end's
cli_args.py, whose dataclass fields are flags too. For 0.32.0 this gives exactly what the parser itself holds.
Afterwards run scripts/generate_catalogue_index.py.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "wizard" / "catalog" / "vllm_flags.toml"
ARGUMENTS = (
    "engine/arg_utils.py",
    "entrypoints/openai/cli_args.py",
    "entrypoints/launchers/cli_args.py",
    "entrypoints/common/cli_args.py",
    "entrypoints/cli/serve.py",
)
FRONT_END = ("FrontendArgs", "BaseFrontendArgs")
LITERALS = {"CacheDType": "--kv-cache-dtype", "ModelDType": "--dtype"}


def main() -> None:
    """Read every release, write one table."""
    releases = sorted((p for p in Path(sys.argv[1]).iterdir() if (p / "vllm").is_dir()), key=lambda p: numbers(p.name))
    flags: dict[str, list[str]] = {}
    aliases: dict[str, str] = {}
    values: dict[str, dict[str, list[str]]] = {}
    for release in releases:
        package = release / "vllm"
        for name, also in sorted(flag_names(package).items()):
            flags.setdefault(name, []).append(release.name)
            aliases |= dict.fromkeys(also, name)
        for flag, choices in flag_values(package):
            for choice in choices:
                values.setdefault(flag, {}).setdefault(choice, []).append(release.name)
    versions = [release.name for release in releases]
    lines = [
        "# Which release of vLLM has which flag, and which values of some: [first, gone], the first with it and,",
        "# where it is gone, the first without. Made by scripts/record_vllm_flags.py from the releases' sources.",
        f"# What is as old as {versions[0]} may be older.",
        "",
        f"versions = {json.dumps(versions)}",
        "",
        "[flags]",
        *(f"{json.dumps(name)} = {span(seen, versions)}" for name, seen in sorted(flags.items())),
        "",
        "[aliases]",
        *(f"{json.dumps(alias)} = {json.dumps(name)}" for alias, name in sorted(aliases.items())),
    ]
    for flag, known in sorted(values.items()):
        lines += ["", f"[values.{json.dumps(flag)}]"]
        lines += [f"{json.dumps(value)} = {span(seen, versions)}" for value, seen in sorted(known.items())]
    OUT.write_text("\n".join(lines) + "\n", "utf-8")


def flag_names(package: Path) -> dict[str, list[str]]:
    """Each flag with the other spellings that it is given."""
    found: dict[str, list[str]] = {}
    for relative in ARGUMENTS:
        path = package / relative
        if not path.exists():
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
                given = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                names = [name for name in given if name.startswith("-")]
                long = [name.replace("_", "-") for name in names if name.startswith("--")]
                if long:
                    found.setdefault(long[0], []).extend(dict.fromkeys([*long[1:], *(n for n in names if n[1] != "-")]))
            if isinstance(node, ast.ClassDef) and node.name in FRONT_END:
                for field in node.body:
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                        found.setdefault("--" + field.target.id.replace("_", "-"), [])
    return found


def flag_values(package: Path) -> Iterator[tuple[str, list[str]]]:
    """The values that a release knows, for flags whose values change often."""
    for flag, folder, table in (
        ("--tool-call-parser", "tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
        ("--tool-call-parser", "entrypoints/openai/tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
        ("--reasoning-parser", "reasoning", "_REASONING_PARSERS_TO_REGISTER"),
    ):
        names: set[str] = set()
        for path in (package / folder).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                    if any(isinstance(t, ast.Name) and t.id == table for t in node.targets):
                        names |= set(strings([key for key in node.value.keys if key is not None]))
                elif isinstance(node, ast.ClassDef):
                    for mark in node.decorator_list:
                        if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("register_module"):
                            names |= set(strings([*mark.args, *(k.value for k in mark.keywords)]))
        if names:
            yield flag, sorted(names)
    for path in (package / "config.py", *(package / "config").glob("*.py")):
        if not path.exists():
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
                for target in node.targets:
                    if isinstance(target, ast.Name) and target.id in LITERALS:
                        yield LITERALS[target.id], sorted(set(strings([node.value.slice])))


def strings(nodes: list[ast.expr]) -> list[str]:
    """String constants in expressions, also within lists and tuples."""
    return [
        n.value for node in nodes for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]


def span(seen: list[str], versions: list[str]) -> str:
    """[first] or [first, first release without it]."""
    last = versions.index(seen[-1])
    return json.dumps([seen[0]] if last == len(versions) - 1 else [seen[0], versions[last + 1]])


def numbers(version: str) -> tuple[int, ...]:
    """ "0.10.1.1" -> (0, 10, 1, 1)."""
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    main()
