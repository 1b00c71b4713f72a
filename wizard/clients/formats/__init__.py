"""Formats of client files: parse, merge a rendered fragment in, and take it out again.

Whatever an engine did to the text, the result is parsed again and has to equal the planned value; otherwise the file is
left alone. Comments, order, unknown keys, indentation, line ends and byte-order marks of the rest stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any

from wizard.clients.formats.lines import BrokenBlock, edit_dotenv, parse_dotenv, put_block, take_block
from wizard.clients.formats.ops import Conflict, Op, overlay, plan_merge, plan_undo, same
from wizard.clients.formats.text import FileText, decode, line_of
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, move_away

JSONS = ("json", "json-comments", "jsonc")

__all__ = ["merge", "parse", "put_into_block", "take_out", "take_out_block"]


def _broken(path: FilePath, detail: str) -> ProblemError:
    return ProblemError(
        Problem(
            "client-file-broken",
            t("The file `{path}` does not parse; it was left as it is.", path=path),
            t("Writing into a file that nobody can read could lose what is in it."),
            (f"{path}: {detail}",),
            Fix(t("Correct the file or move it away, then run the command again."), (move_away(path),)),
        )
    )


def parse(raw: bytes, kind: str, path: FilePath) -> Any:
    """The value of a file. Strict JSON refuses comments, as the clients that read it do. Raises ProblemError."""
    try:
        return _value(decode(raw), kind)
    except (ValueError, RecursionError) as error:
        if kind == "yaml" and _is_pathological(error):
            raise _no_place(path, f"{path}: {error}") from error
        loose = None
        if kind in ("json", "json-comments"):
            loose = _loose_only(raw, comments=kind == "json")
        if loose is None:
            raise _broken(path, str(error).splitlines()[0] if str(error) else type(error).__name__) from error
        line, what = loose
        raise ProblemError(
            Problem(
                "client-file-ignored",
                t(
                    "The client ignores the whole file `{path}`, because it has a {what}.",
                    path=path,
                    what=what,
                ),
                t("One comment or trailing comma makes the client drop every setting in the file, ours included."),
                (t("{path}: line {line}: {what}", path=path, line=line, what=what),),
                Fix(
                    t(
                        "Remove the {what} in line {line} (and any other), then run the command again.",
                        what=what,
                        line=line,
                    )
                ),
            )
        ) from error


def _is_pathological(error: Exception) -> bool:
    from wizard.clients.formats.yaml_text import Pathological

    return isinstance(error, Pathological)


def _loose_only(raw: bytes, *, comments: bool) -> tuple[int, str] | None:
    """(line, kind) of the first comment or trailing comma, where these are all that keeps it from being JSON."""
    from wizard.clients.formats.json_text import first_loose, parse_json

    try:
        content = decode(raw)
        parse_json(content.text, comments=True)
    except (ValueError, RecursionError):
        return None
    loose = first_loose(content.text, comments=comments)
    return (line_of(content.text, loose.position), loose.kind) if loose else None


# Each format's reader is imported when a file of it is met: `env`, which needs none, runs whenever a shell starts.
def _value(content: FileText, kind: str) -> Any:
    if kind == "toml":
        import tomllib

        return tomllib.loads(content.text)
    if kind in JSONS:
        from wizard.clients.formats.json_text import parse_json

        return parse_json(content.text, comments=kind != "json", trailing_commas=kind == "jsonc")
    if kind == "yaml":
        from wizard.clients.formats.yaml_text import parse_yaml

        return parse_yaml(content.text)
    if kind == "dotenv":
        return parse_dotenv(content.text)
    return content.text


def _edit(content: FileText, kind: str, ops: Sequence[Op]) -> str:
    if kind == "toml":
        from wizard.clients.formats.toml_text import edit_toml

        return edit_toml(content.text, ops, content.newline)
    if kind in JSONS:
        from wizard.clients.formats.json_text import edit_json

        return edit_json(content.text, ops, content.newline)
    if kind == "yaml":
        from wizard.clients.formats.yaml_text import edit_yaml

        return edit_yaml(content.text, ops, content.newline)
    return edit_dotenv(content.text, ops, content.newline)


def parse_fragment(text: str, kind: str) -> Any:
    """The value of a rendered template. JSON templates may have trailing commas, which conditions leave behind."""
    return _value(decode(text.encode()), "jsonc" if kind in JSONS else kind)


def merge(
    before: bytes | None,
    fragment: str,
    kind: str,
    path: FilePath,
    *,
    own: Sequence[str] = (),
    list_keys: Sequence[tuple[str, str]] = (),
    defaults: Sequence[str] = (),
    list_first: bool = False,
) -> bytes:
    """The file with every leaf of the rendered fragment in it. Raises ProblemError, never returns a half-right file."""
    ours = parse_fragment(fragment, kind)
    if before is None or not before.strip(b"\xef\xbb\xbf \t\r\n"):
        if kind in JSONS:
            return json.dumps(ours, indent=2, ensure_ascii=False).encode() + b"\n"
        return fragment.encode()
    there = parse(before, kind, path)
    content = decode(before)
    if kind == "yaml" and there == {} and isinstance(ours, list):
        there = []
    try:
        ops = plan_merge(there, ours, own, list_keys, defaults=defaults, list_first=list_first)
    except Conflict as conflict:
        raise _conflict(path, conflict.where) from conflict
    return _carry_out(content, kind, there, ops, path)


def _carry_out(content: FileText, kind: str, there: Any, ops: Sequence[Op], path: FilePath) -> bytes:
    """The edited file, after it was parsed back and compared with the plan."""
    if not ops:
        return content.encode(content.text)
    expected = overlay(there, ops)
    try:
        text = _edit(content, kind, ops)
        got = _value(decode(content.encode(text)), kind)
    except Conflict as conflict:
        raise _conflict(path, conflict.where) from conflict
    except (ValueError, KeyError, IndexError) as error:
        raise _no_place(path) from error
    if not same(got, expected):
        raise _no_place(path)
    return content.encode(text)


def _no_place(path: FilePath, *saw: str) -> ProblemError:
    return ProblemError(
        Problem(
            "client-file-unusual",
            t(
                "The file `{path}` is written in a way that llm-setup cannot edit safely; it was left as it is.",
                path=path,
            ),
            t(
                "It nests or repeats itself almost without end, or the edited text, read back, did not say exactly what"
                " was there before plus our values."
            ),
            saw,
            fix=Fix(t("Add the lines by hand; `--dry-run` on an empty folder shows them.")),
        )
    )


def _conflict(path: FilePath, where: str) -> ProblemError:
    return ProblemError(
        Problem(
            "client-file-conflict",
            t(
                "In `{path}` something else stands at `{where}`; the file was left as it is.",
                path=path,
                where=where or "/",
            ),
            t("Our values need a table there, and overwriting yours could lose it."),
            fix=Fix(t("Rename or remove `{where}`, then run the command again.", where=where or "/")),
        )
    )


def take_out(current: bytes, original: bytes | None, written: bytes, kind: str, path: FilePath) -> bytes:
    """The current file without what `written` added to `original`: for files which their client also writes."""
    if kind == "text":
        return current
    there = parse(current, kind, path)
    before = parse(original, kind, path) if original is not None else {}
    ops = plan_undo(there, before, parse(written, kind, path))
    return _carry_out(decode(current), kind, there, ops, path)


def put_into_block(before: bytes | None, block: str, path: FilePath, comment: str = "#") -> bytes:
    """The file with our marked block; bytes of the rest that are no UTF-8 stay. Raises ProblemError where the marks do
    not pair up or it is not text."""
    try:
        content = _lines_of(before or b"")
        return _bytes_of(content, put_block(content.text, block, content.newline, comment))
    except (BrokenBlock, UnicodeError) as error:
        raise _broken(path, str(error)) from error


def take_out_block(current: bytes, path: FilePath) -> bytes:
    """The file without our marked block."""
    try:
        content = _lines_of(current)
        return _bytes_of(content, take_block(content.text))
    except (BrokenBlock, UnicodeError) as error:
        raise _broken(path, str(error)) from error


def _lines_of(raw: bytes) -> FileText:
    """Text in whatever encoding that has ASCII in it as it is; UTF-16 has not, and is refused."""
    if b"\0" in raw:
        raise BrokenBlock("a NUL byte: this is no plain text")
    return decode(raw, errors="surrogateescape")


def _bytes_of(content: FileText, text: str) -> bytes:
    return content.encode(text, errors="surrogateescape")
