"""Random documents through every merge engine: nothing of the user's is lost, ours is there, twice is once.

`LLM_SETUP_PROPERTY_EXAMPLES` sets the number of documents a format; the full check runs 10,000.
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
import string
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from wizard.clients.formats import merge, parse, take_out
from wizard.clients.formats.json_text import parse_json
from wizard.clients.formats.ops import same
from wizard.clients.formats.yaml_text import parse_yaml
from wizard.problems import ProblemError

EXAMPLES = int(os.environ.get("LLM_SETUP_PROPERTY_EXAMPLES", "25"))
# Many documents are shared out, so that several workers can take them.
PARTS = 8 if EXAMPLES > 100 else 1
PATH = Path("file")

pytestmark = [pytest.mark.timeout(3600), pytest.mark.parametrize("part", range(PARTS))]

many = settings(
    max_examples=-(-EXAMPLES // PARTS),
    deadline=None,
    derandomize=EXAMPLES <= 100,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

# A document is drawn from a seed: hypothesis chooses seeds, a plain generator makes ten thousand documents in a minute.
seeds = st.integers(0, 2**48)

NAMES = ["env", "model", "a b", "provider", "x.y", "ключ", "models", "k", 'q"uote', "nested"]
ALPHABET = string.ascii_letters + string.digits + " #/*,:{}[]'\"\\=-_ключ模型é"


class Draw(random.Random):
    """Random pieces of documents."""

    def text(self) -> str:
        return "".join(self.choices(ALPHABET, k=self.randrange(12)))

    def scalar(self) -> Any:
        kind = self.randrange(5)
        if kind < 2:
            return self.text()
        return [self.random() < 0.5, self.randrange(-(2**40), 2**40), round(self.uniform(-1e6, 1e6), 3)][kind - 2]

    def fragment(self, depth: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self.sample(NAMES, self.randrange(1, 4)):
            kind = self.randrange(6)
            if kind == 0:
                found[name] = [self.scalar() for _ in range(self.randrange(3))]
            elif kind < 3 and depth < 3:
                found[name] = self.fragment(depth + 1)
            else:
                found[name] = self.scalar()
        return found


def deep_merge(old: Any, new: Any) -> Any:
    """What a merge means, written a second time and simply."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return copy.deepcopy(new)
    return {
        **old,
        **{key: deep_merge(old[key], value) if key in old else copy.deepcopy(value) for key, value in new.items()},
    }


def conflicts(old: Any, new: dict[str, Any]) -> bool:
    """Whether a table of one side meets a plain value of the other, where neither may be lost."""
    for key, value in new.items():
        if key not in old:
            continue
        if isinstance(value, dict):
            if old[key] is None:
                continue
            if not isinstance(old[key], dict) or conflicts(old[key], value):
                return True
        elif isinstance(old[key], dict):
            return True
    return False


# --- JSON with comments, in every layout

COMMENTS = ["// keep 1\n", "/* keep 2 */", "/* two\n lines */", "// } , ] {\r\n", '/* "x": [ */', ""]


def gap(draw: Draw, comments: bool) -> str:
    blank = draw.choice(["", "", " ", "\n", "\n  ", "\r\n\t", "  \n\n"])
    if comments and draw.randrange(6) == 0:
        return blank + draw.choice(COMMENTS) + draw.choice(["", " ", "\n    "])
    return blank


def json_text(draw: Draw, comments: bool, bracket: str = "{", depth: int = 0) -> str:
    items = []
    for _ in range(draw.randrange(4)):
        head = ""
        if bracket == "{":
            head = f"{json.dumps(draw.choice(NAMES))}{gap(draw, comments)}:{gap(draw, comments)}"
        kind = draw.randrange(8)
        if kind < 5 or depth > 3:
            value = json.dumps(draw.choice([draw.scalar(), None]), ensure_ascii=draw.random() < 0.5)
        else:
            value = json_text(draw, comments, "{" if kind < 7 else "[", depth + 1)
        items.append(gap(draw, comments) + head + value + gap(draw, comments))
    tail = "," if comments and items and draw.random() < 0.5 else ""
    text = bracket + ",".join(items) + tail + gap(draw, comments) + {"{": "}", "[": "]"}[bracket]
    return text if depth else gap(draw, comments) + text + gap(draw, comments)


def json_comments(text: str) -> list[str]:
    return [m for m in re.findall(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*[\s\S]*?\*/', text) if m.startswith("/")]


@pytest.mark.parametrize("kind", ["json", "jsonc"])
def test_json_keeps_everything_else(kind: str, part: int) -> None:
    comments = kind == "jsonc"

    @many
    @given(seeds)
    def check(seed: int) -> None:
        draw = Draw(seed)
        text, fragment, bom = json_text(draw, comments), draw.fragment(), draw.random() < 0.2
        old = parse_json(text, comments=comments)
        assume(not conflicts(old, fragment))
        before = (b"\xef\xbb\xbf" if bom else b"") + text.encode()
        after = merge(before, json.dumps(fragment), kind, PATH)
        check_result(before, after, old, fragment, kind)
        # A comment inside a value that was replaced goes with the value; none else does.
        if not replaced(old, fragment):
            assert json_comments(after.decode("utf-8-sig")) == json_comments(text)

    check()


def replaced(old: Any, new: dict[str, Any]) -> bool:
    """Whether some value gives way to another."""
    return any(
        replaced(old[key], value)
        if isinstance(value, dict) and isinstance(old[key], dict)
        else not same(old[key], value)
        for key, value in new.items()
        if key in old
    )


def check_result(before: bytes, after: bytes, old: Any, fragment: Any, kind: str) -> None:
    expected = deep_merge(old, fragment)
    got = parse(after, kind, PATH)
    assert same(got, expected)
    assert after.startswith(b"\xef\xbb\xbf") == before.startswith(b"\xef\xbb\xbf")
    again = merge(after, render(fragment, kind), kind, PATH)
    assert again == after
    if kind == "yaml":
        return  # no client writes its YAML itself, so nothing is ever taken out of one
    undone = take_out(after, before, after, kind, PATH)
    # An empty table that had to be made may stay behind; every value of the user's is back.
    assert same(without_empty(parse(undone, kind, PATH)), without_empty(old))


def without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: w for k, v in value.items() if (w := without_empty(v)) not in ({}, None)}
    return value


def render(fragment: Any, kind: str) -> str:
    if kind == "toml":
        from wizard.clients.formats.toml_text import render_key, render_value

        return "\n".join(f"{render_key(key)} = {render_value(value)}" for key, value in fragment.items()) + "\n"
    return json.dumps(fragment)  # also YAML


def valid(make: Callable[[], str], read: Callable[[str], Any]) -> str:
    """The first text that the format's own parser takes."""
    while True:
        text = make()
        try:
            read(text)
        except ValueError:
            continue
        return text


# --- TOML


TOML_KEYS = [
    *("env", "model", "provider", '"a b"', "'x.y'", "k", "models", "nested"),
    "env . k",
    "provider.k",
    "nested.k.x",
]
TOML_VALUES = [
    *("true", "1_000", "0x1F", "3.5", "1979-05-27T07:32:00Z", "inf", "'lit # x'", '""', '"# not a comment"'),
    *('"""\na "quoted" # no comment\n[no.table]\n"""', "'''x\n[y]\n'''", '"""a"""""'),
]


def toml_value(draw: Draw, newline: str, depth: int = 0) -> str:
    from wizard.clients.formats.toml_text import render_string

    kind = draw.randrange(8 if depth < 2 else 4)
    if kind == 0:
        return render_string(draw.text())
    if kind < 4:
        return draw.choice(TOML_VALUES)
    if kind == 4:
        return str(draw.randrange(-99, 99))
    if kind < 7:
        items = [toml_value(draw, newline, depth + 1) for _ in range(draw.randrange(4))]
        between = draw.choice(["", " ", newline + "  ", f" # in array{newline}  "])
        tail = "," if items and draw.random() < 0.5 else ""
        return "[" + ",".join(between + item for item in items) + tail + between + "]"
    pairs = [f"{draw.choice(TOML_KEYS)} = {toml_value(draw, newline, depth + 1)}" for _ in range(draw.randrange(3))]
    return "{ " + ", ".join(pairs) + " }"


def toml_text(draw: Draw) -> str:
    newline = draw.choice(["\n", "\r\n"])
    lines = []
    for _ in range(draw.randrange(10)):
        kind = draw.randrange(10)
        if kind == 0:
            lines.append(draw.choice(["# a comment", "", "   # indented", "#[not.a.table]"]))
        elif kind == 1:
            lines.append(f"[{draw.choice(TOML_KEYS)}]" + draw.choice(["", " # behind a table"]))
        elif kind == 2:
            lines.append(f"[[{draw.choice(TOML_KEYS)}]]")
        elif kind == 3:
            lines.append(f"[{draw.choice(TOML_KEYS)}.{draw.choice(TOML_KEYS)}]")
        else:
            behind = draw.choice(["", "  # behind"])
            lines.append(draw.choice(["", "  "]) + f"{draw.choice(TOML_KEYS)} = {toml_value(draw, newline)}{behind}")
    return newline.join(lines) + draw.choice(["", newline])


@many
@given(seed=seeds)
def test_toml_keeps_everything_else(part: int, seed: int) -> None:
    draw = Draw(seed)
    text, fragment = valid(lambda: toml_text(draw), tomllib.loads), draw.fragment()
    old = tomllib.loads(text)
    assume(not conflicts(old, fragment))
    try:
        after = merge(text.encode(), render(fragment, "toml"), "toml", PATH)
    except ProblemError as error:
        # A table inside an array of tables or an array has no address of its own: refused, never half done.
        assert error.problem.code == "client-file-conflict"
        assert has_lists(old)
        return
    check_result(text.encode(), after, old, fragment, "toml")
    if not replaced(old, fragment):
        for comment in re.findall(r"# behind a table|#\[not\.a\.table\]|# a comment|# indented", text):
            assert comment in after.decode()


def has_lists(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, dict) and any(map(has_lists, value.values())))


# --- YAML


YAML_KEYS = ["env", "model", '"a b"', "provider", "models", "k", "nested", "'x.y'"]
YAML_SCALARS = [
    *("plain text", "'single ''quoted'", '"double \\" quoted"', "12", "yes", "~", "2026-11-30", "a:b", "#no"[1:]),
    *("{}", "[]", "[1, two]", '{k: 1, "z": [2]}', "&anchor x", "!!str 12", "a # b"[:1]),
]


def yaml_block(draw: Draw, indent: str, depth: int) -> list[str]:
    lines: list[str] = []
    for key in draw.sample(YAML_KEYS, draw.randrange(1, 5)):
        if draw.randrange(4) == 0:
            lines.append(draw.choice(["", indent]) + "# above")
        note = draw.choice(["", "  # behind"])
        kind = draw.randrange(7)
        if kind <= 2 or depth > 2:
            lines.append(f"{indent}{key}: {draw.choice(YAML_SCALARS)}{note}")
        elif kind == 3:
            style = draw.choice(["|", ">-", "|+", "|2"])
            lines += [f"{indent}{key}: {style}{note}", f"{indent}  a line", f"{indent}  # text, no comment"]
        elif kind == 4:
            lines += [f"{indent}{key}:{note}", *yaml_block(draw, indent + draw.choice(["  ", "    "]), depth + 1)]
        elif kind == 5:
            step = draw.choice(["", "  "])
            lines.append(f"{indent}{key}:{note}")
            lines += [f"{indent}{step}- {draw.choice(YAML_SCALARS)}" for _ in range(draw.randrange(1, 4))]
        else:
            lines += [f"{indent}{key}:{note}", f"{indent}  - name: x", *yaml_block(draw, indent + "    ", depth + 1)]
    return lines


def yaml_text(draw: Draw) -> str:
    newline = draw.choice(["\n", "\r\n"])
    head = draw.choice([[], ["# head"], ["---"], ["%YAML 1.2", "---"]])
    body = yaml_block(draw, "", 0) if draw.randrange(10) else []
    tail = draw.choice([[], ["# tail"], [""]])
    text = newline.join([*head, *body, *tail])
    # A block scalar that ends the file without a line end means another text once something follows.
    return text + ("" if tail and draw.random() < 0.5 else newline)


@many
@given(seed=seeds)
def test_yaml_keeps_everything_else(part: int, seed: int) -> None:
    draw = Draw(seed)
    text, fragment = valid(lambda: yaml_text(draw), parse_yaml), draw.fragment()
    old = parse_yaml(text)
    assume(isinstance(old, dict) and not conflicts(old, fragment))
    after = merge(text.encode(), render(fragment, "yaml"), "yaml", PATH)
    check_result(text.encode(), after, old, fragment, "yaml")
    for comment in ("# head", "# tail"):
        assert after.decode().count(comment) == text.count(comment)


# --- dotenv

variables = st.sampled_from(["OPENAI_API_KEY", "OPENAI_BASE_URL", "OTHER", "PATH_X"])
values = st.text(st.sampled_from(string.ascii_letters + string.digits + " '\"$#\\/:.="), max_size=12)


@many
@given(
    lines=st.lists(
        st.one_of(
            st.sampled_from(["# comment", "", "not a variable", "  # x=y"]),
            st.tuples(
                st.sampled_from(["", "export ", "  "]),
                variables,
                st.sampled_from(["plain", "'a b'", '"c # d"', "x # y"]),
            ).map(lambda t: f"{t[0]}{t[1]}={t[2]}"),
        ),
        max_size=8,
    ),
    wanted=st.dictionaries(variables, values, min_size=1, max_size=3),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_dotenv_keeps_everything_else(part: int, lines: list[str], wanted: dict[str, str], newline: str) -> None:
    from wizard.clients.formats.lines import parse_dotenv, quote_dotenv

    text = newline.join(lines)
    fragment = "".join(f"{name}={quote_dotenv(value)}\n" for name, value in wanted.items())
    assume(text.strip())
    after = merge(text.encode(), fragment, "dotenv", PATH)
    assert parse_dotenv(after.decode()) == {**parse_dotenv(text), **wanted}
    assert merge(after, fragment, "dotenv", PATH) == after
    kept = [line for line in lines if line and not any(re.match(rf"\s*(export )?{name}=", line) for name in wanted)]
    assert [line for line in after.decode().splitlines() if line in kept][: len(kept)] == kept
