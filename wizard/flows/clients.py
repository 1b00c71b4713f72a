"""Client files: what is there, what would change, applying, and taking it back."""

from __future__ import annotations

import contextlib
import difflib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from wizard.clients.edit import Edit, Receipt, register_secrets, show_difference
from wizard.clients.fit import judge_fit
from wizard.clients.formats import parse, take_out, take_out_block
from wizard.clients.places import Places, marker_paths
from wizard.clients.read import Triple, files_to_read, judge_overridden, judge_traps, read_triple
from wizard.clients.render import plan_edits, render_client
from wizard.clients.spec import SPEC_NAME, ClientSpec, Scope, parse_spec
from wizard.effects.edits import Change, EditStore, missing_folders, private_mode
from wizard.effects.installed import find_program, installed_version, library_version
from wizard.effects.running import running_programs
from wizard.effects.templates import read_client_folders
from wizard.effects.worktree import Exposed, exposed_in_git
from wizard.effects.world import World
from wizard.endpoint.model import Capability, Endpoint
from wizard.flows.endpoints import find_lacking
from wizard.flows.profiles import resolve_key
from wizard.flows.state import check_own_folders
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, usage_error
from wizard.secret import Secret
from wizard.text import display_width, pad
from wizard.ui.screen import Screen

__all__ = ["apply_clients", "installed_clients", "load_clients", "read_triples", "resolve_key", "restore_clients"]

ApplyStatus = Literal["applied", "unchanged", "would-apply"]
RestoreStatus = Literal["restored", "removed", "would-restore"]
Confirm = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Client:
    """A client's spec with the texts of its templates."""

    spec: ClientSpec
    templates: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Applied:
    """What applying did, or would do, for one client. problems: warnings; errors are raised instead."""

    client: str
    title: str
    status: ApplyStatus
    edits: tuple[Edit, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For `clients apply --json`."""
        return {
            "client": self.client,
            "status": self.status,
            "files": [{"path": str(edit.path), "change": edit.change, "diff": edit.diff()} for edit in self.edits],
            "problems": [problem.as_json() for problem in self.problems],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Restored:
    """What restoring did, or would do, for one file. changed_since: a diff of what others changed; kept: its place.

    changes_stay: what others changed stays in the file, and only our part, if it still has one, goes.
    """

    path: Path
    clients: tuple[str, ...]
    status: RestoreStatus
    changed_since: str = ""
    kept: Path | None = None
    changes_stay: bool = False

    def as_json(self) -> dict[str, Any]:
        """For `clients restore --json`."""
        return {
            "path": str(self.path),
            "clients": list(self.clients),
            "status": self.status,
            "changed_since": self.changed_since,
            "kept": str(self.kept) if self.kept else None,
            "changes_stay": self.changes_stay,
        }


def load_clients(world: World) -> dict[str, Client]:
    """Every client by name: ours, with folders of the user's own in the config folder over them."""
    folders = read_client_folders(world.paths.config / "templates")
    return {
        name: Client(parse_spec(name, texts[SPEC_NAME]), texts) for name, texts in folders.items() if SPEC_NAME in texts
    }


def choose_clients(clients: Mapping[str, Client], names: Sequence[str]) -> tuple[Client, ...]:
    """The named clients; a name that is none is a usage error with the nearest."""
    for name in names:
        if name not in clients:
            near = difflib.get_close_matches(name, clients, n=1)
            raise usage_error(
                "unknown-client",
                t("There is no client `{name}`.", name=name),
                t("Did you mean `{near}`?", near=near[0]) if near else t("Clients: {names}.", names=", ".join(clients)),
            )
    return tuple(clients[name] for name in dict.fromkeys(names))


def places_of(world: World) -> Places:
    """Paths of this process's surroundings."""
    return Places(
        world.env,
        world.home,
        world.cwd,
        world.platform,
        world.paths.config,
        lambda program: find_program(program, world.env) is not None,
    )


def edit_store(world: World) -> EditStore:
    """Receipts and transactions of this user."""
    return EditStore(world.files, world.paths.originals)


@dataclass(frozen=True, slots=True)
class ClientRow:
    """One line of `clients list`. problems: the installed version is outside what is written for it."""

    spec: ClientSpec
    installed: bool
    version: str
    files: tuple[Path, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def applied(self) -> bool:
        """Whether files of it are changed by llm-setup now."""
        return bool(self.files)

    def as_json(self) -> dict[str, Any]:
        """For `clients list --json`."""
        return {
            "client": self.spec.name,
            "title": self.spec.title,
            "installed": self.installed,
            "version": self.version,
            "applied": self.applied,
            "files": [str(path) for path in self.files],
            "needs": list(self.spec.needs),
            "protocol": self.spec.protocol,
            "minimum_context_tokens": self.spec.minimum_context_tokens,
            "first_request_tokens": self.spec.first_request_tokens,
            "scopes": sorted({file.scope for file in self.spec.files}),
            "versions": self.spec.versions,
            "checked": self.spec.checked,
            "evidence": self.spec.evidence,
            "docs": self.spec.docs,
            "problems": [problem.as_json() for problem in self.problems],
        }

    def row(self) -> tuple[str, str]:
        """For people: columns, and what it needs."""
        state = t("applied") if self.applied else t("installed") if self.installed else t("not installed")
        title = "" if self.spec.title.casefold() == self.spec.name else self.spec.title
        needs = ", ".join(self.spec.needs)
        wanted = t("needs {needs}; context {minimum:,}+", needs=needs, minimum=self.spec.minimum_context_tokens)
        return f"{pad(self.spec.name, 14)} {pad(title, 16)} {pad(state, 14)} ", wanted if needs else ""


def list_clients(world: World) -> tuple[ClientRow, ...]:
    """Every client that has a folder: installed or not, and which of its files are changed now."""
    installed = {spec.name for spec in installed_clients(world)}
    receipts = edit_store(world).receipts().values()
    rows = []
    for name, client in load_clients(world).items():
        version = _installed_version(world, client.spec)
        files = tuple(receipt.path for receipt in receipts if name in receipt.clients)
        problems = _judge_version(client.spec, version)
        rows.append(ClientRow(client.spec, name in installed, version or "", files, problems))
    return tuple(rows)


def installed_clients(world: World) -> tuple[ClientSpec, ...]:
    """Clients whose program is on the PATH, or whose folder is in the home with more in it than what we wrote."""
    places, receipts = places_of(world), edit_store(world).receipts()
    ours = {path for path, receipt in receipts.items() if receipt.original is None}
    made = {folder for receipt in receipts.values() for folder in receipt.folders}

    def used(marker: Path) -> bool:
        if marker in made:
            return any(path not in ours and not path.is_dir() for path in marker.rglob("*"))
        return marker not in ours and marker.exists()

    return tuple(
        client.spec
        for client in load_clients(world).values()
        if any(find_program(program, world.env) for program in client.spec.programs)
        or any(map(used, marker_paths(client.spec, places)))
    )


def read_contents(world: World, paths: Iterable[Path]) -> dict[Path, bytes | None]:
    """Contents by path; what cannot be read counts as missing here (writing says so in full)."""
    contents: dict[Path, bytes | None] = {}
    for path in paths:
        try:
            contents[path] = world.files.read_regular(path)
        except OSError:
            contents[path] = None
    return contents


def read_triples(world: World, names: Sequence[str] = ()) -> tuple[Triple, ...]:
    """What each configured client would use now, from its files and the environment."""
    places = places_of(world)
    clients = load_clients(world)
    found: list[Triple] = []
    for client in choose_clients(clients, names) if names else clients.values():
        contents = read_contents(world, files_to_read(client.spec, places))
        triple = read_triple(client.spec, places, contents)
        if triple is not None:
            found.append(with_our_key(world, triple))
    return tuple(found)


def with_our_key(world: World, triple: Triple) -> Triple:
    """The triple with the key that the client would get from our own command (`profiles key NAME`), where that is how
    it gets it. Commands of others are not run."""
    command = triple.key_sources[0].command if triple.key_sources else ()
    profile = world.profiles.load().by_name.get(command[-1]) if command[-3:-1] == ("profiles", "key") else None
    if profile is None:
        return triple
    return replace(triple, keys=(world.secrets.get(profile.key_reference), *triple.keys[1:]))


def client_traps(world: World, client: Client) -> tuple[Problem, ...]:
    """Harmful shapes in the client's present files."""
    places = places_of(world)
    return judge_traps(client.spec, places, read_contents(world, files_to_read(client.spec, places)))


@dataclass(frozen=True, slots=True)
class Target:
    """A client in a scope; project: the project's folder, None for the user's own files. by_command: it asks a command
    for the key already, and goes on with that."""

    client: Client
    scope: Scope
    project: Path | None = None
    by_command: bool = False


def plan_client(
    world: World, target: Target, endpoint: Endpoint, key_command: tuple[str, ...] = ()
) -> tuple[Edit, ...]:
    """The edits that applying would make. Every file is parsed; raises ProblemError for one that cannot be."""
    client, scope = target.client, target.scope
    places, store = places_of(world), edit_store(world)
    if target.project is not None:
        places = replace(places, cwd=target.project)
    rendered = render_client(
        client.spec,
        client.templates,
        endpoint,
        scope,
        places,
        lambda path: store.observe(path).content is not None,
        key_command,
    )
    contents = {item.path: store.observe(item.path).content for item in rendered}
    keys = (*((endpoint.key,) if endpoint.key else ()), *held_keys(client.spec, places, contents))
    edits = plan_edits(client.spec, rendered, contents, bool(endpoint.key), places.cwd, keys)
    return tuple(replace(edit, by_command=bool(key_command)) for edit in edits)


def held_keys(spec: ClientSpec, places: Places, contents: Mapping[Path, bytes | None]) -> tuple[Secret, ...]:
    """The keys that the client's files hold, for diffs to leave out."""
    triple = read_triple(spec, places, contents)
    return tuple(key for key in triple.keys if key) if triple else ()


def _receipt_keys(world: World, clients: Mapping[str, Client], receipt: Receipt, current: bytes | None) -> list[Secret]:
    """The keys in a changed file: as it was, as it was written, and as it is now."""
    places = places_of(world)
    if receipt.project is not None:
        places = replace(places, cwd=receipt.project)
    for content in (receipt.original, receipt.base, receipt.written, current):
        if content and receipt.format not in ("text", "block"):
            with contextlib.suppress(ProblemError):  # what does not parse is told where it is acted on
                register_secrets(parse(content, receipt.format, receipt.path))
    return [
        key
        for name in receipt.clients
        if name in clients
        for content in (receipt.original, receipt.base, receipt.written, current)
        for key in held_keys(clients[name].spec, places, {receipt.path: content})
    ]


def apply_clients(
    world: World,
    screen: Screen,
    endpoint: Endpoint,
    names: Sequence[str],
    *,
    scope: Scope = "user",
    yes: bool = False,
    dry_run: bool = False,
    confirm: Confirm | None = None,
    offline: bool = False,
    key_by_command: bool = False,
) -> tuple[Applied, ...]:
    """Write the endpoint into the named clients' files: all of them, or none.

    Shows each diff first and asks `confirm`, unless `yes`. Without both it is a usage error that names `--yes`.
    Raises ProblemError, with every file as it was. offline: do not ask which protocols the endpoint has.
    key_by_command: clients that can run a command for the key get one, and hold no key themselves; the endpoint has to
    be a profile then.
    """
    clients = choose_clients(load_clients(world), names)
    _check_scope(clients, scope)
    targets = [Target(client, scope) for client in clients]
    return apply_plans(
        world,
        screen,
        endpoint,
        targets,
        yes=yes,
        dry_run=dry_run,
        confirm=confirm,
        offline=offline,
        key_by_command=key_by_command,
    )


def apply_plans(
    world: World,
    screen: Screen,
    endpoint: Endpoint,
    targets: Sequence[Target],
    *,
    yes: bool = False,
    dry_run: bool = False,
    confirm: Confirm | None = None,
    offline: bool = False,
    diffs: bool = True,
    key_by_command: bool = False,
    also: Callable[[], Sequence[Change]] = tuple,
) -> tuple[Applied, ...]:
    """As apply_clients, for clients in scopes that may differ.

    diffs: show them (a dry run always does), and the warnings of clients in which nothing changes. also: changes of our
    own files that belong to the same transaction, last.
    """
    if not dry_run:
        check_own_folders(world.paths.state)
        edit_store(world).settle()
    asking = [target for target in targets if key_by_command or target.by_command]
    key_command = _key_command(world, endpoint) if asking else ()
    plans = [
        (target.client, plan_client(world, target, endpoint, key_command if target in asking else ()))
        for target in targets
    ]
    needs = {need for target in targets for need in target.client.spec.needs}
    lacking = frozenset[Capability]() if offline else find_lacking(world, endpoint, needs)
    results = [_planned(world, client, edits, endpoint, lacking) for client, edits in plans]
    _show_plans(screen, results, dry_run, diffs)
    to_write = [edit for _, edits in plans for edit in edits]
    if dry_run:
        return tuple(results)
    if any(result.status == "would-apply" for result in results) and not yes:
        if confirm is None:
            raise usage_error(
                "confirmation-missing",
                t("Nothing was written: there is no terminal to ask on. Give `--yes` to write, `--dry-run` to see."),
                t("Add `--yes`."),
            )
        screen.line(_summary(edit_store(world), to_write))
        if not confirm(t("Write these files?")):
            return tuple(results)
    _write(world, to_write, also)
    done = tuple(
        replace(result, status="applied" if result.status == "would-apply" else result.status) for result in results
    )
    _show_done(screen, done)
    return done


def _summary(store: EditStore, edits: Sequence[Edit]) -> str:
    """How many files would be made and changed, beside the question: the diffs are longer than a screen."""
    changes: dict[Path, str] = {edit.path: "mode" for edit in edits if _mode_to_set(store, edit) is not None}
    changes |= {edit.path: edit.change for edit in edits if edit.change != "none"}
    kinds = (
        ("create", t("new")),
        ("change", t("changed")),
        ("remove", t("removed")),
        ("mode", t("made private, nothing else")),
    )
    counts = [(word, sum(change == kind for change in changes.values())) for kind, word in kinds]
    said = ", ".join(f"{count} {word}" for word, count in counts if count)
    return t("Files in all: {count} ({said}).", count=len(changes), said=said)


def _key_command(world: World, endpoint: Endpoint) -> tuple[str, ...]:
    """What prints the key of the endpoint's profile: the installed command, else this Python with the package."""
    if endpoint.name not in world.profiles.load().by_name:
        raise usage_error(
            "profile-missing",
            t("A command can give the key of a profile only, and this endpoint is none."),
            t("Remember it first, then apply it by name."),
            f"llm-setup profiles add NAME --base-url {endpoint.openai_base_url} --model {endpoint.model}",
        )
    installed = find_program("llm-setup", world.env)
    start = (str(installed),) if installed else (sys.executable, "-m", "wizard")
    return (*start, "profiles", "key", endpoint.name)


def _check_scope(clients: Sequence[Client], scope: Scope) -> None:
    for client in clients:
        if not client.spec.has_scope(scope):
            raise usage_error(
                "scope-not-supported",
                t("{title} has no settings of scope `{scope}`.", title=client.spec.title, scope=scope),
                t("Leave `--scope` out, or leave `{name}` out.", name=client.spec.name),
            )


def _planned(
    world: World, client: Client, edits: tuple[Edit, ...], endpoint: Endpoint, lacking: frozenset[Capability]
) -> Applied:
    store = edit_store(world)
    changes = any(edit.change != "none" or _mode_to_set(store, edit) is not None for edit in edits)
    problems = (
        *client_traps(world, client),
        *judge_fit(client.spec, endpoint, lacking),
        *_judge_overridden(world, client, edits, endpoint),
        *_judge_version(client.spec, _installed_version(world, client.spec)),
        *_judge_git(edits),
        *_judge_links(store, edits),
        *(_judge_running(world, client.spec) if changes else ()),
    )
    return Applied(
        client.spec.name,
        client.spec.title,
        "would-apply" if changes else "unchanged",
        edits,
        problems,
        tuple(t(note) for note in client.spec.notes),
    )


def _judge_overridden(world: World, client: Client, edits: Sequence[Edit], endpoint: Endpoint) -> tuple[Problem, ...]:
    """What the client would read after the change, where that is not what was just written: another file or a
    variable comes before ours."""
    places = places_of(world)
    contents = read_contents(world, files_to_read(client.spec, places))
    contents |= {edit.path: edit.after for edit in edits}
    return judge_overridden(client.spec, places, contents, endpoint)


def _installed_version(world: World, spec: ClientSpec) -> str | None:
    found = next((v for program in spec.programs if (v := installed_version(program, world.env))), None)
    return found or (library_version(spec.library, world.env, world.cwd) if spec.library else None)


def _judge_version(spec: ClientSpec, version: str | None) -> tuple[Problem, ...]:
    if not spec.versions or not version:
        return ()
    from wizard.clients.versions import judge_version

    return judge_version(spec, version)


def _judge_running(world: World, spec: ClientSpec) -> tuple[Problem, ...]:
    at_it = sorted(set(spec.rewritten_by) & running_programs(world.home)) if spec.rewritten_by else []
    if not at_it:
        return ()
    return (
        Problem(
            "client-running",
            t("{title} is running and may write its old settings back.", title=spec.title),
            t("It holds its settings in memory and saves them when something in them changes."),
            (", ".join(at_it),),
            Fix(t("Close it, then see whether anything changed back."), (f"llm-setup clients diff {spec.name}",)),
            "warning",
        ),
    )


def _judge_git(edits: Sequence[Edit]) -> tuple[Problem, ...]:
    return tuple(
        _exposed(edit.path, where)
        for edit in edits
        if edit.private and (where := exposed_in_git(edit.path)) is not None
    )


def _exposed(path: Path, where: Exposed) -> Problem:
    # What has a meaning of its own in a rule of what to ignore stands for itself behind a backslash.
    rule = "/" + re.sub(r"([\\*?\[\] ])", r"\\\1", where.name)
    ignore = f"echo {quote(rule)} >> {quote(str(where.root / '.gitignore'))}"
    forget = f"git -C {quote(str(where.root))} rm --cached --force --quiet -- {quote(where.name)}"
    return Problem(
        "key-in-git-work-tree",
        t("`{path}` holds a key and lies in a git work tree that does not ignore it.", path=path),
        t("The next commit would publish the key.")
        if where.tracked
        else t("The next `git add` would publish the key."),
        () if path == where.root / where.name else (f"{path} -> {where.root / where.name}",),
        Fix(
            t("Take the file out of what is committed, and ignore it.") if where.tracked else t("Ignore the file."),
            (*((forget,) if where.tracked else ()), ignore),
        ),
        "warning",
    )


def _judge_links(store: EditStore, edits: Sequence[Edit]) -> tuple[Problem, ...]:
    return tuple(
        Problem(
            "client-file-hard-linked",
            t("`{path}` is one of {count} names of the same file.", path=edit.path, count=names),
            t("A new file takes this name, so that a crash loses nothing; the other names keep the old content."),
            fix=Fix(t("Make the other names symbolic links, or copy the new content there.")),
            severity="warning",
        )
        for edit in edits
        if edit.change != "none" and edit.before is not None and (names := store.observe(edit.path).names) > 1
    )


def _mode_to_set(store: EditStore, edit: Edit) -> int | None:
    """The mode that a file with a key inside needs and does not have; None: leave it."""
    if not edit.private:
        return None
    mode = store.observe(edit.path).mode
    wanted = private_mode(mode)
    return None if mode == wanted else wanted


def _write(world: World, edits: Sequence[Edit], also: Callable[[], Sequence[Change]]) -> None:
    store = edit_store(world)
    if not also() and not any(edit.change != "none" or _mode_to_set(store, edit) is not None for edit in edits):
        return
    with store.locked():
        receipts = store.receipts()
        now = world.clock.now().isoformat(timespec="seconds")
        changes: list[Change] = []
        for edit in edits:
            mode = _mode_to_set(store, edit)
            if edit.change == "none" and mode is None:
                if edit.path in receipts:  # the client asks a command now, or does so no longer
                    receipts[edit.path] = replace(receipts[edit.path], by_command=edit.by_command)
                continue
            changes.append(Change(edit.path, edit.before, edit.after, mode))
            receipts[edit.path] = _receipt(store, receipts.get(edit.path), edit, now)
        store.transact([*changes, *also()], receipts)


def _receipt(store: EditStore, old: Receipt | None, edit: Edit, now: str) -> Receipt:
    if old is None:
        return Receipt(
            path=edit.path,
            original=edit.before,
            base=edit.before,
            original_mode=store.observe(edit.path).mode,
            written=edit.after,
            clients=(edit.client,),
            live=edit.live,
            format=edit.format,
            project=edit.project,
            folders=tuple(missing_folders(edit.path)),
            first_applied=now,
            last_applied=now,
            by_command=edit.by_command,
        )
    return replace(
        old,
        written=edit.after,
        base=_without_ours(old, edit.before),
        clients=tuple(dict.fromkeys((*old.clients, edit.client))),
        edited_between=old.edited_between or edit.before != old.written,
        last_applied=now,
        by_command=edit.by_command,
    )


def _without_ours(receipt: Receipt, current: bytes | None) -> bytes | None:
    """The file as it would be now without us: what undoing the next change of ours has to leave."""
    if current == receipt.written:
        return receipt.base
    if current is None or receipt.written is None or receipt.format == "text":
        return current
    try:
        return _part_out(receipt, current, receipt.written)
    except ProblemError:
        return receipt.original  # the version with their part is kept aside when it is restored


def _part_out(receipt: Receipt, current: bytes, written: bytes) -> bytes:
    if receipt.format == "block":
        return take_out_block(current, receipt.path)
    return take_out(current, receipt.base, written, receipt.format, receipt.path)


def _show_plans(screen: Screen, results: Sequence[Applied], dry_run: bool, diffs: bool) -> None:
    explained: set[tuple[str, str]] = set()
    told: set[tuple[str, str, tuple[str, ...], Fix | None]] = set()
    for result in results:
        if diffs or result.status != "unchanged":
            for problem in result.problems:
                # What stands in the way of several clients is explained once; the way out, wherever it is another.
                reason = (problem.code, problem.why)
                whole = (*reason, problem.saw, problem.fix)
                if problem.severity == "warning" and whole in told:
                    screen.step("warning", problem.what, f"[{problem.code}]")
                elif problem.severity == "warning" and reason in explained:
                    screen.problem(replace(problem, why=""))
                else:
                    screen.problem(problem)
                explained.add(reason)
                told.add(whole)
        # The document of --json holds every diff.
        if (diffs or dry_run) and not screen.as_json:
            changed = {edit.path for edit in result.edits if edit.change != "none"}
            for edit in result.edits:
                if edit.path in changed and edit.same_as in changed:
                    screen.say(t("{path}: the same values in another syntax", path=edit.path), "", "  ")
                elif edit.path in changed:
                    screen.line(edit.diff())
        if result.status == "unchanged":
            screen.step("ok", t("{title}: nothing to change", title=result.title))
        elif dry_run:
            screen.step("info", t("{title}: would be written", title=result.title))


def _show_done(screen: Screen, results: Sequence[Applied]) -> None:
    for result in results:
        if result.status == "applied":
            screen.step("ok", t("{title}: written", title=result.title))
            for note in result.notes:
                screen.step("info", note)


def restore_clients(
    world: World,
    screen: Screen,
    names: Sequence[str],
    *,
    every: bool = False,
    yes: bool = False,
    dry_run: bool = False,
    confirm: Confirm | None = None,
    keep_changes: bool = False,
) -> tuple[Restored, ...]:
    """Give back the exact bytes from before the first change; a file that did not exist is removed.

    A version that somebody changed since is kept aside and shown; in files which the client itself writes, only our
    values are taken out then, and with keep_changes in every file. All files or none. Raises ProblemError.
    """
    store = edit_store(world)
    if not dry_run:
        store.settle()
    known = load_clients(world)
    receipts = store.receipts()
    if not every:
        unknown = [
            name for name in names if name not in known and not any(name in r.clients for r in receipts.values())
        ]
        choose_clients(known, unknown)
    chosen = [r for r in receipts.values() if every or any(name in r.clients for name in names)]
    for receipt in chosen:
        others = [client for client in receipt.clients if not every and client not in names]
        if others:
            raise usage_error(
                "file-shared-by-clients",
                t("`{path}` was also changed for {others}.", path=receipt.path, others=", ".join(others)),
                t("Restore them together."),
                f"llm-setup clients restore {' '.join(dict.fromkeys((*names, *others)))}",
            )
    if not chosen:
        screen.step("ok", t("Nothing to restore."))
        return ()
    planned = [_plan_restore(world, known, receipt, keep_changes) for receipt in chosen]
    for receipt, (result, change) in zip(chosen, planned, strict=True):
        screen.step("info", _restore_text(receipt, result, change))
        if result.changed_since:
            screen.line(t("Changed since it was written:"))
            screen.line(result.changed_since)
    if not keep_changes and any(result.changed_since and not result.changes_stay for result, _ in planned):
        screen.step("info", t("`--keep-changes` takes only llm-setup's part out, and leaves what others changed."))
    if dry_run:
        return tuple(replace(result, status="would-restore") for result, _ in planned)
    if not yes:
        if confirm is None:
            raise usage_error(
                "confirmation-missing",
                t("Nothing was restored: there is no terminal to ask on. Give `--yes` to restore, `--dry-run` to see."),
                t("Add `--yes`."),
            )
        if not confirm(t("Restore these files?")):
            return tuple(replace(result, status="would-restore") for result, _ in planned)
    return _restore(world, screen, store, chosen, planned)


def _restore_text(receipt: Receipt, result: Restored, change: Change) -> str:
    if result.changes_stay:
        if change.after == change.before:
            return t("{path}: is no longer what llm-setup wrote, and is left as it is", path=receipt.path)
        return t("{path}: llm-setup's part is taken out; the rest stays", path=receipt.path)
    if change.after is None:
        return t("{path}: will be removed; it did not exist before", path=receipt.path)
    return t("{path}: gets back what it was on {when}", path=receipt.path, when=receipt.first_applied)


def _plan_restore(
    world: World, clients: Mapping[str, Client], receipt: Receipt, keep_changes: bool
) -> tuple[Restored, Change]:
    state = edit_store(world).observe(receipt.path)
    current, target = state.content, receipt.original
    changed = current != receipt.written or receipt.edited_between
    since, stay = "", False
    if changed and current != target:
        keys = _receipt_keys(world, clients, receipt, current)
        since = (
            show_difference(receipt.written, current, str(receipt.path), keys=keys)
            or show_difference(receipt.original, receipt.base, str(receipt.path), keys=keys)
            or t("(changed between two changes of llm-setup; the present version is kept)")
        )
        if (receipt.live or keep_changes) and current is not None and receipt.written is not None:
            if receipt.format != "text":
                target = _part_out(receipt, current, receipt.written)
            elif current != receipt.written:
                target = current
            stay = target != receipt.original
    status: RestoreStatus = "removed" if target is None else "restored"
    result = Restored(receipt.path, receipt.clients, status, since, changes_stay=stay)
    mode = receipt.original_mode if receipt.original is not None else state.mode
    return result, Change(receipt.path, current, target, mode)


def _restore(
    world: World,
    screen: Screen,
    store: EditStore,
    chosen: Sequence[Receipt],
    planned: Sequence[tuple[Restored, Change]],
) -> tuple[Restored, ...]:
    stamp = world.clock.now().strftime("%Y%m%dT%H%M%S")
    done: list[Restored] = []
    with store.locked():
        left = {path: r for path, r in store.receipts().items() if path not in {c.path for c in chosen}}
        for receipt, (result, change) in zip(chosen, planned, strict=True):
            theirs = _at_risk(receipt, result, change)
            if theirs is not None:
                result = replace(result, kept=store.keep_replaced(change.path, theirs, stamp))
            done.append(result)
        store.transact([change for _, change in planned], left)
        store.remove_empty_folders(folder for receipt in chosen for folder in receipt.folders)
    left_alone = {change.path for result, change in planned if result.changes_stay and change.before == change.after}
    for result in done:
        detail = t("the replaced version is kept in {path}", path=result.kept) if result.kept else ""
        told = t("removed") if result.status == "removed" else t("restored")
        if result.changes_stay:
            told = t("llm-setup's part is out; the rest is as it was a moment ago")
        if result.path in left_alone:
            told = t("left as it is; llm-setup forgets it")
        screen.step("ok", f"{result.path}: {told}", detail)
    return tuple(done)


def _at_risk(receipt: Receipt, result: Restored, change: Change) -> bytes | None:
    """The version to keep aside, since something of others goes with it; None where nothing does.

    Where our part alone is taken out nothing of theirs is lost, and a copy would keep our key; unless what they changed
    between two changes of ours cannot be told from ours.
    """
    if not result.changed_since or change.before == change.after:
        return None
    if result.changes_stay and not (receipt.edited_between and receipt.base == receipt.original):
        return None
    if receipt.format == "text" and change.before == receipt.written:
        return receipt.base  # a file that is ours as a whole: their version was replaced with the second change
    return change.before


def diff_clients(world: World, endpoint: Endpoint | None, names: Sequence[str]) -> list[dict[str, Any]]:
    """For each applied file: whether it is still as written, and the diff since; with an endpoint, the diff to it."""
    store = edit_store(world)
    known = load_clients(world)
    rows: list[dict[str, Any]] = []
    for receipt in store.receipts().values():
        if names and not any(name in receipt.clients for name in names):
            continue
        current = store.observe(receipt.path).content
        rows.append(
            {
                "path": str(receipt.path),
                "clients": list(receipt.clients),
                "state": "same" if current == receipt.written else "missing" if current is None else "changed",
                "diff": show_difference(
                    receipt.written,
                    current,
                    str(receipt.path),
                    keys=_receipt_keys(world, known, receipt, current),
                ),
                "applied": receipt.last_applied,
            }
        )
    if endpoint is not None:
        for client in choose_clients(known, names):
            for edit in plan_client(world, Target(client, "user"), endpoint):
                if not any(row["path"] == str(edit.path) for row in rows):
                    rows.append(
                        {
                            "path": str(edit.path),
                            "clients": [client.spec.name],
                            "state": "not-applied" if edit.change != "none" else "same",
                            "diff": edit.diff(),
                            "applied": "",
                        }
                    )
    return rows


def show_clients(world: World, screen: Screen, names: Sequence[str]) -> dict[str, Any]:
    """What each configured client would use now, with what is wrong in its files. Shows it; returns the document."""
    clients = load_clients(world)
    rows: list[dict[str, Any]] = []
    for triple in read_triples(world, names):
        problems = (*triple.problems, *client_traps(world, clients[triple.client]))
        key = triple.key.hint if triple.key else "none"
        rows.append(
            {
                "client": triple.client,
                "base_url": triple.base_url,
                "model": triple.model,
                "key": key,
                "source": triple.file,
                "key_source": triple.key_source,
                "overridden": [found.source for found in (*triple.base_urls[1:], *triple.models[1:])],
                "problems": [problem.as_json() for problem in problems],
            }
        )
        screen.title(clients[triple.client].spec.title)
        facts = (
            (t("base URL"), triple.base_url or "-"),
            (t("model"), triple.model or "-"),
            (t("key"), f"{triple.key.hint if triple.key else t('none')}  {triple.key_source}"),
            (t("from"), triple.file),
        )
        width = max(display_width(label) for label, _ in facts)
        for label, fact in facts:
            screen.line(f"  {pad(label, width)}  {fact}")
        for problem in problems:
            screen.problem(problem)
    if not rows:
        screen.line(t("No client is configured here."))
    return {"status": "ok", "clients": rows}


def applied_targets(world: World) -> tuple[Target, ...]:
    """What is applied now, client by client and project by project. A client whose folder is gone is left out."""
    clients = load_clients(world)
    found: dict[tuple[str, Path | None], bool] = {}
    for receipt in edit_store(world).receipts().values():
        for name in receipt.clients:
            if name in clients:
                at = (name, receipt.project)
                found[at] = found.get(at, False) or receipt.by_command
    return tuple(
        Target(clients[name], "project" if project else "user", project, by_command)
        for (name, project), by_command in found.items()
    )


def clients_asking_for(world: World, profile: str) -> tuple[str, ...]:
    """Titles of the applied clients that get their key from `profiles key` of this profile."""
    asking = [target for target in applied_targets(world) if target.by_command and _asks_for(world, target, profile)]
    return tuple(dict.fromkeys(target.client.spec.title for target in asking))


def _asks_for(world: World, target: Target, profile: str) -> bool:
    spec, places = target.client.spec, places_of(world)
    if target.project is not None:
        places = replace(places, cwd=target.project)
    receipts = edit_store(world).receipts().values()
    ours = [r.path for r in receipts if spec.name in r.clients and r.project == target.project]
    contents = read_contents(world, ours)
    if spec.read.key:
        triple = read_triple(spec, places, contents)
        # A variable of this shell may win here and now; the file is what stays.
        sources = [found for found in triple.key_sources if found.path is not None] if triple else []
        return bool(sources) and sources[0].command[-3:] == ("profiles", "key", profile)
    command = re.escape(f"profiles key {quote(profile)}") + r"(?![\w.-])"
    return any(re.search(command, (content or b"").decode("utf-8", "replace")) for content in contents.values())


def applied_names(world: World) -> tuple[str, ...]:
    """Clients whose files are changed now."""
    return tuple(dict.fromkeys(name for receipt in edit_store(world).receipts().values() for name in receipt.clients))
