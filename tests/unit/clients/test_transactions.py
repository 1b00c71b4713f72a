"""All files or none, whatever fails and wherever it is cut."""

from __future__ import annotations

import contextlib
import errno
import json
import multiprocessing
import os
import stat
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wizard.effects import edits, lock
from wizard.effects.files import Files
from wizard.endpoint.model import Profile
from wizard.flows.use import choose_profile, use_profile
from wizard.problems import ProblemError

NAMES = ("codex", "claude-code", "continue")
# Every n-th call; 1 in the full check.
STEP = int(os.environ.get("LLM_SETUP_FAULT_STEP", "5"))


class Fault:
    """Counts the calls that change a disk; the one with the given number does something else."""

    def __init__(self, at: int, act: Callable[[], None], forever: bool = False) -> None:
        self.at, self.act, self.forever, self.count = at, act, forever, 0
        self.names: list[str] = []

    def call(self, name: str) -> None:
        self.count += 1
        self.names.append(name)
        if self.count == self.at or (self.forever and self.count > self.at):
            self.act()


@contextlib.contextmanager
def faults(fault: Fault) -> Iterator[None]:
    """Put the fault before every write, rename, fsync, chmod, mkdir, unlink and temporary file."""
    patch = pytest.MonkeyPatch()

    def before(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def wrapped(*args: Any, **options: Any) -> Any:
            fault.call(name)
            # A real fsync takes its time and proves nothing here.
            return None if name == "fsync" else real(*args, **options)

        patch.setattr(owner, name, wrapped)

    for owner, name in (
        (os, "fsync"),
        (os, "fdopen"),
        (Path, "replace"),
        (Path, "chmod"),
        (Path, "mkdir"),
        (Path, "unlink"),
        (tempfile, "mkstemp"),
    ):
        before(owner, name)
    try:
        yield
    finally:
        patch.undo()


def no_space() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def lived_in(home: Any) -> None:
    home.write(".codex/config.toml", "# mine\nmodel = 'old'\n")
    home.write(".claude/settings.json", '{"theme": "dark"}')
    home.write(".continue/config.yaml", "name: mine\nmodels: []\n")
    home.write(".bashrc", "alias ll='ls -l'\n")


def count_of_calls(make_home: Any, folder: Path) -> int:
    home = make_home(folder)
    lived_in(home)
    fault = Fault(-1, no_space)
    with faults(fault):
        home.apply(*NAMES)
    assert {"fsync", "replace", "chmod", "mkstemp", "fdopen"} <= set(fault.names)
    return fault.count


def check_old_or_new(home: Any, before: dict[str, bytes], new: dict[str, bytes], what: str) -> None:
    for path, content in home.tree().items():
        assert path.endswith(".llm-setup") or content in (before.get(path), new.get(path)), f"half of {path}: {what}"
    # The next run, whatever it is, settles what was cut: no mixture, nothing left over, every byte still there.
    home.apply(*NAMES)
    assert home.tree() == new, what
    home.restore()
    assert home.tree() == before, what


@pytest.fixture
def wanted(make_home: Any, tmp_path: Path) -> Callable[[Any], dict[str, bytes]]:
    """What the home is to hold after a whole apply."""

    def find(home: Any) -> dict[str, bytes]:
        planned = {str(edit.path): edit.after for r in home.apply(*NAMES, dry_run=True) for edit in r.edits}
        return {**home.tree(), **{path: after for path, after in planned.items() if after is not None}}

    return find


@pytest.mark.parametrize("forever", [False, True], ids=["once", "disk-stays-full"])
def test_a_fault_at_any_call_loses_nothing(forever: bool, make_home: Any, wanted: Any, tmp_path: Path) -> None:
    total = count_of_calls(make_home, tmp_path / "counted")
    for at in range(1, total + 1, STEP):
        home = make_home(tmp_path / str(at))
        lived_in(home)
        before, new = home.tree(), wanted(home)
        fault = Fault(at, no_space, forever)
        with faults(fault), contextlib.suppress(ProblemError, OSError):
            home.apply(*NAMES)
        assert forever or home.tree() in (before, new)
        check_old_or_new(home, before, new, f"call {at}: {fault.names[at - 1]}")


def test_a_kill_at_any_call_is_rolled_back_by_the_next_run(make_home: Any, wanted: Any, tmp_path: Path) -> None:
    total = count_of_calls(make_home, tmp_path / "counted")
    fork = multiprocessing.get_context("fork")
    for at in range(2, total + 1, STEP):
        home = make_home(tmp_path / str(at))
        lived_in(home)
        before, new = home.tree(), wanted(home)

        def cut(home: Any = home, at: int = at) -> None:
            with faults(Fault(at, lambda: os._exit(9))):
                home.apply(*NAMES)

        child = fork.Process(target=cut)
        child.start()
        child.join()
        assert child.exitcode == 9
        check_old_or_new(home, before, new, f"call {at}")


def two_profiles(home: Any, endpoint: Any) -> None:
    """`old` is applied and active; `new` is known."""
    for name, model in (("old", "model-old"), ("new", "model-new")):
        profile = Profile(name, endpoint.openai_base_url, endpoint.anthropic_base_url, model, "")
        home.world.profiles.put(profile, activate=name == "old")
    home.apply(*NAMES, endpoint=home.world.profiles.load().by_name["old"].endpoint(None))


def switch(home: Any, name: str) -> None:
    world = home.world
    use_profile(world, home.screen, choose_profile(world, home.screen, name, ""), yes=True)


def test_a_kill_at_any_call_of_a_switch_leaves_clients_and_active_profile_together(
    make_home: Any, endpoint: Any, tmp_path: Path
) -> None:
    counted = make_home(tmp_path / "counted")
    lived_in(counted)
    two_profiles(counted, endpoint)
    fault = Fault(-1, no_space)
    with faults(fault):
        switch(counted, "new")
    fork = multiprocessing.get_context("fork")
    seen = set()
    for at in sorted({*range(1, fault.count + 1, STEP), fault.count}):
        home = make_home(tmp_path / str(at))
        lived_in(home)
        two_profiles(home, endpoint)
        old = home.tree()

        def cut(home: Any = home, at: int = at) -> None:
            with faults(Fault(at, lambda: os._exit(9))):
                switch(home, "new")

        child = fork.Process(target=cut)
        child.start()
        child.join()
        assert child.exitcode == 9
        edits.EditStore(home.world.files, home.world.paths.originals).settle()
        active = home.world.profiles.load().active
        assert (active == "old") is (home.tree() == old), f"call {at}: {fault.names[at - 1]}"
        assert (active == "new") is (b"model-new" in home.tree()[str(home.path / ".codex/config.toml")])
        seen.add(active)
        switch(home, "new")
        switch(home, "-")
        assert home.tree() == old
    assert seen == {"old", "new"}


def test_a_disk_that_is_full_at_any_call_of_a_switch_moves_nothing_by_halves(
    make_home: Any, endpoint: Any, tmp_path: Path
) -> None:
    home = make_home(tmp_path)
    lived_in(home)
    two_profiles(home, endpoint)
    old = home.tree()
    at = 1
    while True:
        with faults(Fault(at, no_space)), contextlib.suppress(ProblemError, OSError):
            switch(home, "new")
        if home.world.profiles.load().active == "new":
            assert home.tree() != old
            return
        assert home.tree() == old, f"call {at}"
        at += 1


def test_an_interrupt_leaves_everything_as_it_was(make_home: Any, tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    counted = make_home(tmp_path / "counted")
    lived_in(counted)
    fault = Fault(-1, interrupt)
    with faults(fault):
        counted.apply(*NAMES)
    home = make_home(tmp_path / "cut")
    lived_in(home)
    before = home.tree()
    renames = [n for n, name in enumerate(fault.names, 1) if name == "replace"]
    with faults(Fault(renames[-2], interrupt)), pytest.raises(KeyboardInterrupt):
        home.apply(*NAMES)
    assert home.tree() == before


def test_a_file_that_changes_under_our_hands_stops_everything(home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lived_in(home)
    real = edits.EditStore.transact

    def transact(store: Any, changes: Any, receipts: Any) -> None:
        home.write(".claude/settings.json", '{"theme": "light"}')
        real(store, changes, receipts)

    monkeypatch.setattr(edits.EditStore, "transact", transact)
    with pytest.raises(ProblemError) as caught:
        home.apply(*NAMES)
    assert caught.value.problem.code == "client-file-changed"
    assert (home.path / ".claude/settings.json").read_text() == '{"theme": "light"}'
    assert (home.path / ".codex/config.toml").read_text() == "# mine\nmodel = 'old'\n"


def test_two_wizards_do_not_mix(home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_WAIT_S", 0.1)
    store = edits.EditStore(home.world.files, home.world.paths.originals)
    with store.locked(), pytest.raises(ProblemError) as caught:
        home.apply("codex")
    assert caught.value.problem.code == "another-llm-setup"
    assert not (home.path / ".codex").exists()
    home.apply("codex")


def test_a_home_that_cannot_be_written_is_one_clear_problem(home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lived_in(home)
    before = home.tree()
    real = os.access

    def access(path: Any, mode: int, **options: Any) -> bool:
        return False if str(path).startswith(str(home.path)) and mode & os.W_OK else real(path, mode, **options)

    monkeypatch.setattr(os, "access", access)
    with pytest.raises(ProblemError) as caught:
        home.apply(*NAMES)
    assert caught.value.problem.code == "client-file-read-only"
    assert home.tree() == before


def test_originals_are_private_and_gone_after_restore(home: Any, planted_key: str) -> None:
    home.write(".claude/settings.json", json.dumps({"env": {"ANTHROPIC_API_KEY": planted_key}}), mode=0o644)
    home.apply("claude-code")
    originals = home.world.paths.originals
    assert stat.S_IMODE(originals.stat().st_mode) == 0o700
    assert all(
        stat.S_IMODE(p.stat().st_mode) == 0o600 for p in originals.rglob("*") if p.is_file() and p.name != "lock"
    )
    home.restore()
    assert not [p for p in originals.rglob("*") if p.is_file() and planted_key in p.read_text()]


def test_restore_says_what_changed_since_and_keeps_it(home: Any) -> None:
    path = home.write(".codex/config.toml", "# mine\n")
    home.apply("codex")
    path.write_text(path.read_text() + "[later]\nadded = true\n")
    (restored,) = home.restore("codex")
    assert path.read_text() == "# mine\n"
    assert "+added = true" in restored.changed_since
    assert restored.kept is not None
    assert "added = true" in restored.kept.read_text()
    assert stat.S_IMODE(restored.kept.stat().st_mode) == 0o600


def test_an_edit_between_two_applies_is_kept_at_restore(home: Any, endpoint: Any) -> None:
    path = home.write(".codex/config.toml", "# mine\n")
    home.apply("codex")
    path.write_text(path.read_text() + "[later]\nadded = true\n")
    home.apply("codex", endpoint=endpoint.with_key(None))
    (restored,) = home.restore("codex")
    assert path.read_text() == "# mine\n"
    assert restored.kept is not None
    assert "added = true" in restored.kept.read_text()


def test_changes_of_others_stay_where_that_is_wanted(home: Any, planted_key: str) -> None:
    before = {
        ".codex/config.toml": '# mine\nmodel = "old"\n',
        ".bashrc": "alias ll='ls -l'\n",
        ".continue/config.yaml": "name: mine\nmodels:\n  - name: a\n    provider: openai\n    model: b\n",
        ".claude/settings.json": '{"theme": "dark"}',
    }
    later = {
        ".codex/config.toml": "[later]\nadded = true\n",
        ".bashrc": "alias later=true\n",
        ".continue/config.yaml": "later: true\n",
        ".claude/settings.json": "",
    }
    for path, text in before.items():
        home.write(path, text)
    home.apply("codex", "shell", "continue", "claude-code")
    for path, text in later.items():
        home.write(path, (home.path / path).read_text() + text)
    assert {r.kept for r in home.restore(keep_changes=True)} == {None}
    for path, text in before.items():
        left = [line for line in (home.path / path).read_text().splitlines() if line]
        assert left == (text + later[path]).splitlines(), path
    assert planted_key.encode() not in b"".join(p.read_bytes() for p in home.state.rglob("*") if p.is_file())


def test_a_model_of_ours_alone_in_a_list_takes_the_list_along(home: Any) -> None:
    path = home.write(".continue/config.yaml", "name: mine\n")
    home.apply("continue")
    path.write_text(path.read_text() + "later: true\n")
    home.restore("continue", keep_changes=True)
    assert path.read_text() == "name: mine\nlater: true\n"


def test_a_file_that_its_client_writes_too_loses_only_our_part(home: Any) -> None:
    path = home.write(".claude.json", '{"numStartups": 1}')
    home.apply("claude-code")
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "numStartups": 2, "oauthAccount": {"id": 1}}))
    home.restore("claude-code")
    assert json.loads(path.read_text()) == {"numStartups": 2, "oauthAccount": {"id": 1}}


def test_what_others_wrote_between_two_changes_stays_in_their_own_file(home: Any, endpoint: Any) -> None:
    path = home.write(".cline/data/globalState.json", '{"a": 1, "openAiBaseUrl": "http://old"}')
    home.apply("cline")
    theirs: dict[str, Any] = {}
    for number, model in enumerate(("m2", "m3")):
        theirs[f"task{number}"] = "precious"
        path.write_text(json.dumps({**json.loads(path.read_text()), **theirs}))
        home.apply("cline", endpoint=replace(endpoint, model=model))
    path.write_text(json.dumps({**json.loads(path.read_text()), "later": "y"}))
    (restored,) = (r for r in home.restore() if r.path == path)
    assert json.loads(path.read_text()) == {"a": 1, "openAiBaseUrl": "http://old", **theirs, "later": "y"}
    assert restored.kept is None
    assert restored.as_json()["changes_stay"] is True


def test_an_edit_between_two_changes_stays_where_that_is_wanted(home: Any, endpoint: Any) -> None:
    path = home.write(".codex/config.toml", "# mine\n")
    home.apply("codex")
    path.write_text(path.read_text().replace('model = "', 'model = "mine-') + "[later]\nadded = true\n")
    home.apply("codex", endpoint=replace(endpoint, model="m2"))
    (restored,) = home.restore("codex", keep_changes=True)
    assert tomllib.loads(path.read_text()) == {"model": "mine-Qwen/Qwen3-8B", "later": {"added": True}}
    assert "+added = true" in restored.changed_since
    assert restored.changes_stay


def test_a_receipt_that_knows_nothing_of_an_edit_between_keeps_the_version(home: Any) -> None:
    path = home.write(".claude.json", '{"numStartups": 1}')
    home.apply("claude-code")
    written = json.loads(path.read_text())
    receipts = home.world.paths.originals / "receipts.json"
    document = json.loads(receipts.read_text())
    for row in document["files"]:
        row["edited_between"] = True
        del row["base"]
    receipts.write_text(json.dumps(document))
    path.write_text(json.dumps({**written, "numStartups": 2}))
    restored = next(r for r in home.restore("claude-code") if r.path == path)
    assert restored.kept is not None
    assert json.loads(restored.kept.read_text())["numStartups"] == 2


@pytest.mark.parametrize("keep_changes", [True, False])
def test_a_whole_file_of_ours_that_is_another_s_now_is_left_where_that_is_wanted(home: Any, keep_changes: bool) -> None:
    path = home.write(".config/io.datasette.llm/default_model.txt", "gpt-4o\n")
    home.apply("llm")
    path.write_text("theirs\n")
    restored = next(r for r in home.restore("llm", keep_changes=keep_changes) if r.path == path)
    assert path.read_text() == ("theirs\n" if keep_changes else "gpt-4o\n")
    assert restored.changes_stay is keep_changes
    assert ("is no longer what llm-setup wrote, and is left as it is" in home.said) is keep_changes
    assert (restored.kept is None) is keep_changes


def test_a_whole_file_that_was_another_s_between_two_changes_is_kept_aside(home: Any, endpoint: Any) -> None:
    path = home.write(".config/io.datasette.llm/default_model.txt", "gpt-4o\n")
    home.apply("llm")
    path.write_text("theirs\n")
    home.apply("llm", endpoint=replace(endpoint, model="m2"))
    restored = next(r for r in home.restore("llm", keep_changes=True) if r.path == path)
    assert path.read_text() == "gpt-4o\n"
    assert restored.kept is not None
    assert restored.kept.read_text() == "theirs\n"


def test_models_of_llm_lose_ours_where_another_was_added(home: Any) -> None:
    path = home.write(".config/io.datasette.llm/extra-openai-models.yaml", "- model_id: a\n  model_name: x\n")
    home.apply("llm")
    later = "- model_id: b\n  model_name: y\n"
    path.write_text(path.read_text() + later)
    home.restore("llm", keep_changes=True)
    assert path.read_text() == "- model_id: a\n  model_name: x\n" + later


def test_the_way_to_keep_changes_is_told_where_they_would_go(home: Any) -> None:
    path = home.write(".claude.json", '{"numStartups": 1}')
    home.apply("claude-code")
    path.write_text(json.dumps({**json.loads(path.read_text()), "numStartups": 2}))
    home.restore("claude-code", dry_run=True)
    assert "--keep-changes" not in home.said
    settings = home.path / ".claude/settings.json"
    settings.write_text(settings.read_text() + "\n")
    home.restore("claude-code", dry_run=True)
    assert "--keep-changes" in home.said


def test_restoring_twice_restores_once(home: Any) -> None:
    home.apply("codex")
    assert len(home.restore("codex")) == 1
    assert home.restore("codex") == ()


def test_a_dry_run_writes_nothing_at_all(home: Any) -> None:
    (applied,) = home.apply("codex", dry_run=True, yes=False)
    assert applied.status == "would-apply"
    assert "+model =" in home.said
    assert home.tree() == {}
    assert not home.state.exists()


def test_without_an_answer_nothing_is_written(home: Any) -> None:
    with pytest.raises(ProblemError) as caught:
        home.apply("codex", yes=False)
    assert caught.value.exit_code == 2
    assert "--yes" in caught.value.problem.what
    assert home.tree() == {}
    (declined,) = home.apply("codex", yes=False, confirm=lambda _: False)
    assert declined.status == "would-apply"
    assert home.tree() == {}


def test_versions_of_two_files_with_one_name_are_both_kept(tmp_path: Path) -> None:
    store = edits.EditStore(Files(), tmp_path)
    one, other = (store.keep_replaced(Path(f"/{c}/settings.json"), c.encode(), "20260101T000000") for c in "ab")
    assert (one.read_bytes(), other.read_bytes()) == (b"a", b"b")
    assert set(store.replaced()) == {one, other}
