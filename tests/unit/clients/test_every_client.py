"""What holds for every client that has a folder, found and not listed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from wizard.clients.formats import parse
from wizard.clients.spec import SPEC_NAME, FileSpec, parse_spec
from wizard.clients.versions import judge_version
from wizard.effects.templates import read_client_folders
from wizard.problems import ProblemError

SPECS = {name: parse_spec(name, texts[SPEC_NAME]) for name, texts in read_client_folders(Path("/nowhere")).items()}
NAMES = list(SPECS)
WITH_USER_FILES = [name for name, spec in SPECS.items() if any(file.write != "own" for file in spec.files)]
READ_BACK = [name for name, spec in SPECS.items() if spec.read.base_url]

# What someone had in the file before, in its format.
LIVED_IN = {
    "json": '{\n    "theme": "dark",\n    "env": {"KEEP": "1"},\n    "a list": [1, 2]\n}\n',
    "jsonc": '{\n  // my comment\n  "theme": "dark", /* and another */\n  "a list": [1, 2,],\n}\n',
    "json-comments": '{\n  // my comment\n  "theme": "dark" /* and another */\n}\n',
    "toml": '# my comment\napproval = "never" # behind\n\n[mine]\nkeep = [1, 2]\n',
    "yaml": "# my comment\nkeep:   [1, 2]  # behind\nother: 'yes'\n",
    "dotenv": "# my comment\nKEEP='a b'\n",
    "text": "# my comment\nalias ll='ls -l'\n",
}
BROKEN: dict[str, str | bytes] = {
    "json": '{"theme": "dark"',
    "jsonc": '{"theme": // no end',
    "json-comments": '{"theme": // no end',
    "toml": "[mine\nkeep = 1\n",
    "yaml": "keep: [1, 2\nother: }\n",
    "dotenv": b"\xff\xfe\x00bad",
    "text": b"\xff\xfe\x00bad",
}


def user_files(home: Any, name: str) -> list[tuple[FileSpec, Path]]:
    """Files of the client that belong to the user and are written into, with their places."""
    from wizard.flows.clients import places_of

    places = places_of(home.world)
    chosen = [
        (file, places.candidates(file)[0])
        for file in SPECS[name].files
        if file.scope == "user" and file.write != "own" and (not file.on or "linux" in file.on)
    ]
    return [(file, path) for file, path in chosen if not file.shell or file.shell == "bash"]


def live_in(home: Any, name: str) -> dict[Path, bytes]:
    """Give each of these files an earlier life; a list at the root gets one."""
    before: dict[Path, bytes] = {}
    for file, path in user_files(home, name):
        root_list = ("", "model_id") in file.list_keys
        text = "- model_id: mine\n  model_name: x # keep\n" if root_list else LIVED_IN[file.format]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        path.chmod(0o644)
        before[path] = text.encode()
    return before


@pytest.mark.parametrize("name", NAMES)
def test_from_nothing_it_writes_files_that_parse(name: str, home: Any) -> None:
    (applied,) = home.apply(name)
    assert applied.status == "applied"
    assert applied.edits
    for edit in applied.edits:
        assert edit.path.read_bytes() == edit.after


@pytest.mark.parametrize("name", READ_BACK)
def test_what_is_written_reads_back_as_the_triple(name: str, home: Any, endpoint: Any) -> None:
    from wizard.flows.clients import read_triples

    home.apply(name)
    (triple,) = read_triples(home.world, [name])
    assert triple.base_url in (endpoint.openai_base_url, endpoint.anthropic_base_url)
    assert (triple.base_url == endpoint.anthropic_base_url) == (SPECS[name].protocol == "messages")
    assert triple.model == endpoint.model
    if name != "zed":  # its key is in a keychain or a variable, never in a file
        assert triple.key == endpoint.key


@pytest.mark.parametrize("name", NAMES)
def test_files_with_the_key_are_private(name: str, home: Any, planted_key: str) -> None:
    (applied,) = home.apply(name)
    for edit in applied.edits:
        holds_key = planted_key in edit.path.read_text()
        assert stat.S_IMODE(edit.path.stat().st_mode) == 0o600 if holds_key else True


@pytest.mark.parametrize("name", WITH_USER_FILES)
def test_a_file_that_gets_the_key_becomes_private_and_public_again(name: str, home: Any, planted_key: str) -> None:
    before = live_in(home, name)
    home.apply(name)
    for path in before:
        if planted_key in path.read_text():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    home.restore(name)
    assert {stat.S_IMODE(path.stat().st_mode) for path in before} <= {0o644}


@pytest.mark.parametrize("name", NAMES)
def test_twice_is_once(name: str, home: Any) -> None:
    live_in(home, name)
    home.apply(name)
    once = {path: (Path(path).stat().st_mtime_ns, content) for path, content in home.tree().items()}
    (applied,) = home.apply(name)
    assert applied.status == "unchanged"
    assert {path: (Path(path).stat().st_mtime_ns, content) for path, content in home.tree().items()} == once


@pytest.mark.parametrize("name", WITH_USER_FILES)
def test_the_users_keys_and_comments_stay(name: str, home: Any) -> None:
    before = live_in(home, name)
    home.apply(name)
    for file, path in user_files(home, name):
        old, new = before[path].decode(), path.read_text()
        for comment in ("# my comment", "// my comment", "/* and another */", "# behind", "# keep"):
            assert new.count(comment) == old.count(comment)
        if file.write == "block":
            assert new.startswith(old)
            continue
        was, now = parse(before[path], file.format, path), parse(path.read_bytes(), file.format, path)
        if isinstance(was, dict):
            assert {key: now[key] for key in was if key != "env"} == {key: was[key] for key in was if key != "env"}
            assert was.get("env", {}).items() <= now.get("env", {}).items()
        else:
            assert was[0] in now


@pytest.mark.parametrize("name", WITH_USER_FILES)
@pytest.mark.parametrize(("bom", "newline"), [(True, "\n"), (False, "\r\n"), (True, "\r\n")])
def test_line_ends_and_byte_order_mark_stay(name: str, bom: bool, newline: str, home: Any) -> None:
    for path, content in live_in(home, name).items():
        path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + content.replace(b"\n", newline.encode()))
    home.apply(name)
    for _, path in user_files(home, name):
        content = path.read_bytes()
        assert content.startswith(b"\xef\xbb\xbf") == bom
        assert content.count(b"\r\n") == (content.count(b"\n") if newline == "\r\n" else 0)


@pytest.mark.parametrize("name", WITH_USER_FILES)
def test_restore_gives_the_exact_bytes(name: str, home: Any) -> None:
    live_in(home, name)
    before = home.tree()
    home.apply(name)
    home.apply(name, endpoint=home_endpoint(model="another", max_model_len=None))
    assert home.tree() != before
    home.restore(name)
    assert home.tree() == before


@pytest.mark.parametrize("name", NAMES)
def test_restore_removes_what_did_not_exist_and_the_folders_made_for_it(name: str, home: Any) -> None:
    home.apply(name)
    home.restore()
    assert not any(path.is_file() for path in home.path.rglob("*"))
    assert not list(home.path.iterdir())


@pytest.mark.parametrize("name", WITH_USER_FILES)
def test_a_broken_file_is_left_alone_and_nothing_else_is_written(name: str, home: Any) -> None:
    live_in(home, name)
    file, path = user_files(home, name)[0]
    content = BROKEN[file.format]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = home.tree()
    with pytest.raises(ProblemError) as caught:
        home.apply("shell" if name != "shell" else "curl", name)
    assert caught.value.problem.code == "client-file-broken"
    assert str(path) in caught.value.problem.what
    assert home.tree() == before


@pytest.mark.parametrize("name", WITH_USER_FILES)
def test_a_symlink_stays_a_symlink(name: str, home: Any) -> None:
    before = live_in(home, name)
    dotfiles = home.path / "dotfiles"
    dotfiles.mkdir()
    for number, path in enumerate(before):
        path.rename(dotfiles / str(number))
        path.symlink_to(os.path.relpath(dotfiles / str(number), path.parent))
    home.apply(name)
    assert all(path.is_symlink() for path in before)
    assert any(path.read_bytes() != content for path, content in before.items())
    home.restore(name)
    assert all(path.is_symlink() and path.read_bytes() == content for path, content in before.items())


@pytest.mark.parametrize("name", WITH_USER_FILES)
def test_a_read_only_file_is_one_clear_problem_and_nothing_half_done(name: str, home: Any) -> None:
    live_in(home, name)
    _, path = user_files(home, name)[0]
    path.chmod(0o444)
    before = home.tree()
    with pytest.raises(ProblemError) as caught:
        home.apply("curl", name)
    assert caught.value.problem.code == "client-file-read-only"
    assert home.tree() == before


@pytest.mark.parametrize("name", NAMES)
def test_no_output_shows_the_key(name: str, home: Any, planted_key: str) -> None:
    live_in(home, name)
    (applied,) = home.apply(name)
    (changed,) = home.apply(name, endpoint=home_endpoint(model="another"))
    assert planted_key not in home.said
    assert planted_key not in json.dumps([applied.as_json(), changed.as_json()])
    home.restore()
    assert planted_key not in home.said


@pytest.mark.parametrize("name", NAMES)
def test_an_endpoint_without_a_key_and_a_known_context_works_too(name: str, home: Any) -> None:
    (applied,) = home.apply(name, endpoint=home_endpoint(key=None, max_model_len=None))
    assert applied.status == "applied"
    for edit in applied.edits:
        assert b"None" not in (edit.after or b"")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", ["a'b\"c", "模型/é", "a#b: c", "$HOME`id`%PATH%", "-dash"])
def test_any_model_name_is_quoted_exactly(name: str, model: str, home: Any) -> None:
    from wizard.flows.clients import read_triples

    home.apply(name, endpoint=home_endpoint(model=model))
    for triple in read_triples(home.world, [name]):
        assert triple.model == model or not SPECS[name].read.model


@pytest.mark.parametrize("name", NAMES)
def test_the_key_never_is_an_argument_of_run(name: str) -> None:
    arguments = " ".join((*SPECS[name].run.args, *SPECS[name].run.headless))
    assert "key" not in arguments


@pytest.mark.parametrize("name", NAMES)
def test_the_spec_names_its_evidence(name: str) -> None:
    spec = SPECS[name]
    assert spec.docs.startswith("https://")
    assert spec.checked
    assert spec.minimum_context_tokens >= spec.first_request_tokens


@pytest.mark.parametrize("name", [name for name in NAMES if SPECS[name].install])
def test_a_client_that_is_installed_is_told_apart_by_its_version(name: str) -> None:
    spec = SPECS[name]
    assert ">=" in spec.versions
    assert "<" in spec.versions.split(",")[-1]
    if not spec.checked.startswith("source"):
        assert judge_version(spec, spec.checked) == ()
    (too_old,), (too_new,) = judge_version(spec, "0.0.1"), judge_version(spec, "1000.0")
    assert "too old" in too_old.what
    assert "newer" in too_new.what


def home_endpoint(**changes: Any) -> Any:
    from dataclasses import replace

    from wizard.endpoint.model import Endpoint
    from wizard.secret import Secret

    return replace(
        Endpoint(
            "local",
            "http://127.0.0.1:8000/v1",
            "http://127.0.0.1:8000",
            "Qwen/Qwen3-8B",
            Secret("sk-planted-0123456789abcdefXYZ"),
            65536,
        ),
        **changes,
    )
