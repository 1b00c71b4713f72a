"""The doctor's journey: gather evidence, probe, judge, show; and where it is asked to, mend."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Any, Literal, TextIO, cast
from urllib.parse import urlsplit

from wizard.clients.read import ClientLimits
from wizard.doctor.checks.way import BASE_URL_CHECK
from wizard.doctor.engine import CheckResult, Diagnosis, all_checks, conclude, examine, run_check
from wizard.doctor.manners import manner_of, wire_of
from wizard.doctor.observations import (
    AuthStyle,
    ClientFile,
    Context,
    Observations,
    Place,
    ServerSeen,
    Target,
)
from wizard.doctor.places import PLACES
from wizard.effects.world import World
from wizard.endpoint.model import Profile
from wizard.flows.probe import Limits, Prober, estimate_cost
from wizard.i18n import t
from wizard.problems import Problem, ProblemError, usage_error
from wizard.secret import Secret
from wizard.ui.screen import Screen

KEY_VARIABLE = "LLM_SETUP_API_KEY"
_MAX_FILE_BYTES = 2**20
_LOG_PIECE_BYTES = 1 << 20
_MAX_ENDPOINTS_AT_ONCE = 20
# Without `--all`: as many as a person has, not all that somebody collected.
_MAX_ENDPOINTS_UNASKED = 4


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What was asked for. base_url, model, client_type: an explicit triple. client: only this installed client.

    every: all endpoints of clients and profiles, not only the first few. log, error: `-` is stdin. full: send a prompt
    of the client's size also to others' servers. by_itself: its own command runs it, and its flags can be given.
    """

    base_url: str = ""
    model: str = ""
    client_type: str = ""
    api_key_file: str = ""
    max_tokens: int | None = None
    context_tokens: int | None = None
    log: str = ""
    error: str = ""
    offline: bool = False
    assume: Place | None = None
    client: str = ""
    every: bool = False
    cheap: bool = False
    full: bool = False
    timeout_s: float = 20.0
    only: tuple[str, ...] = ()
    by_itself: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """What the doctor found. seen: the evidence of each endpoint, for `--report`."""

    diagnosis: Diagnosis
    targets: tuple[Target, ...]
    shared: Observations
    seen: tuple[Observations, ...] = field(default=(), repr=False)
    options: DoctorOptions = DoctorOptions()

    def as_json(self) -> dict[str, Any]:
        """The document of `doctor --json`."""
        return {
            "status": self.diagnosis.status,
            "endpoints": [
                {
                    "client": target.client or None,
                    "base_url": target.base_url,
                    "model": target.model,
                    "key": target.key_hint,
                    "source": target.source,
                }
                for target in self.targets
            ],
            "checks": [_check_json(result) for result in self.diagnosis.results],
            "findings": [finding.as_json() for finding in self.diagnosis.findings],
            "consequences": [
                {"cause": cause, "code": finding.code, "what": finding.what} for cause, finding in self.diagnosis.folded
            ],
        }


def _check_json(result: CheckResult) -> dict[str, Any]:
    return {
        "id": result.id,
        "title": t(result.title),
        "status": result.status,
        "duration_ms": round(result.duration_ms, 2),
        "detail": result.detail or None,
        "endpoint": result.target or None,
    }


def run_doctor(world: World, screen: Screen, options: DoctorOptions) -> Report:
    """Examine and judge. Writes nothing; sends nothing with `offline`. ProblemError: a check was named that is none."""
    known = [check.id for check in all_checks()]
    unknown = [name for name in options.only if name not in known]
    if unknown:
        raise usage_error(
            "unknown-check",
            t("There is no check `{name}`.", name=unknown[0]),
            t("Checks: {names}.", names=", ".join(sorted(known))),
        )
    shared = observe(world, options)
    targets = shared.targets if options.every else shared.targets[:_MAX_ENDPOINTS_UNASKED]
    endpoints: tuple[Observations, ...]
    if options.offline:
        endpoints = tuple(shared.at(target) for target in targets)
    elif targets:
        limits = Limits(options.timeout_s, options.cheap, options.full)
        _say_what_it_costs(screen, tuple(filter(_can_be_asked, targets)), limits, options.by_itself)
        prober = Prober(world, limits)

        def ask(target: Target) -> Observations:
            if not _can_be_asked(target):
                return shared.at(target)
            begun = time.perf_counter()
            _say_progress(screen, "running", target)
            seen = prober.examine(shared, target)
            _say_progress(screen, "ok", target, time.perf_counter() - begun)
            return seen

        with ThreadPoolExecutor(min(len(targets), _MAX_ENDPOINTS_AT_ONCE)) as pool:
            endpoints = tuple(pool.map(ask, targets))
        shared = replace(shared, probed=True)
    else:
        endpoints = ()
    asked = tuple(seen for seen in endpoints if seen.target is None or _can_be_asked(seen.target))
    diagnosis = examine(shared, asked, now_s=time.perf_counter)
    # Of a URL that does not parse there is one thing to say.
    broken = [seen for seen in endpoints if seen not in asked]
    if broken:
        told = (run_check(BASE_URL_CHECK, seen, time.perf_counter) for seen in broken)
        diagnosis = conclude((*diagnosis.results, *told))
    if options.only:
        diagnosis = conclude(result for result in diagnosis.results if result.id in options.only)
    return Report(diagnosis, targets, shared, endpoints, options)


def _can_be_asked(target: Target) -> bool:
    """Whether the URL parses at all; that it does not is a finding, and there is nothing to send."""
    try:
        parts = urlsplit(target.base_url.strip())
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _say_progress(screen: Screen, mark: Literal["running", "ok"], target: Target, seconds: float | None = None) -> None:
    """On a terminal somebody waits: say who is being asked, and when that is through."""
    if screen.as_json or not screen.interactive:
        return
    generic = {"openai-sdk": t("the OpenAI SDK"), "shell": t("the shell")}
    client = generic.get(target.client) or manner_of(target.client).title
    text = (
        t("Asking {url} as {client} does", url=target.base_url, client=client)
        if mark == "running"
        else t("Asked {url} as {client} does", url=target.base_url, client=client)
    )
    screen.step(mark, text, seconds=seconds)


def _say_what_it_costs(screen: Screen, targets: tuple[Target, ...], limits: Limits, by_itself: bool) -> None:
    """Somebody may pay for each token: say beforehand how many there may be. Own servers cost nothing."""
    for target in targets:
        requests, tokens = estimate_cost(target, limits)
        if requests and not screen.as_json:
            text = t(
                "Asking {url}: up to {requests} short requests, about {tokens} tokens.",
                url=target.base_url,
                requests=requests,
                tokens=f"{tokens:,}",
            )
            screen.say(f"{text} {t('`--cheap` sends none.')}" if by_itself else text)


# ---- evidence ----------------------------------------------------------------------------------------------------


def observe(world: World, options: DoctorOptions) -> Observations:
    """Everything but the network: files, environment, context, log, error text, and the endpoints they name."""
    targets = tuple(_targets(world, options))
    return Observations(
        context=_context(world, options.assume),
        environment=tuple(sorted(world.env.items())),
        files=tuple(_files(world)),
        targets=targets,
        servers=tuple(_servers(world)) if not options.offline else (),
        log_findings=_log(options.log) if options.log else None,
        error_text=_text(options.error) if options.error else None,
        offline=options.offline,
        explicit=bool(options.base_url),
        client_type=options.client_type or options.client,
    )


def _context(world: World, assumed: Place | None) -> Context:
    container, wsl = None, False
    if world.platform == "linux":
        from wizard.hardware.linux import is_wsl, parse_container

        marks = ("/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io")
        container = parse_container(
            world.env, [mark for mark in marks if Path(mark).exists()], _small_file("/proc/self/cgroup")
        )
        wsl = is_wsl(_small_file("/proc/sys/kernel/osrelease"))
    ssh = any(world.env.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"))
    return Context(world.platform, container, wsl, ssh, assumed)


def _small_file(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace")[:4096]
    except OSError:
        return None


def _files(world: World) -> Iterator[ClientFile]:
    seen: set[str] = set()
    for place in PLACES:
        folder = world.home if place.path.startswith("~/") else world.cwd
        path = folder / place.path[2:]
        if str(path) in seen:
            continue
        seen.add(str(path))
        try:
            raw = world.files.read_bytes(path)
        except OSError as error:
            yield ClientFile(place.client, str(path), None, str(error), place.scope)
            continue
        if raw is not None:
            text = raw[:_MAX_FILE_BYTES].decode("utf-8-sig", "replace")
            yield ClientFile(place.client, str(path), text, scope=place.scope)


def _log(path: str) -> tuple[Problem, ...]:
    try:
        if path == "-":
            return _given_log(cast(BufferedReader, _stdin("--log").buffer), "stdin")
        with Path(path).expanduser().open("rb") as log:
            return _given_log(log, path)
    except (OSError, EOFError, zlib.error) as error:
        raise usage_error(
            "log-missing",
            t("The log `{path}` cannot be read: {error}", path=path, error=getattr(error, "strerror", "") or error),
            t("For a server that llm-setup started, this says where its log is."),
            "llm-setup logs --path",
        ) from error


def _given_log(log: BufferedReader, path: str) -> tuple[Problem, ...]:
    """A log of whatever origin: PowerShell writes UTF-16, log folders keep gzip. ProblemError: it is empty."""
    begin = log.peek(2)
    if not begin:
        raise usage_error(
            "log-empty",
            t("The log `{path}` is empty.", path=path),
            t("Start the server with its output kept: `vllm serve … > server.log 2>&1`."),
        )
    if begin.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=log) as unpacked:
            return _judge_log(unpacked.read)
    if begin.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = TextIOWrapper(log, "utf-16", "replace")
        try:
            return _judge_log(lambda size: text.read(size).encode())
        finally:
            text.detach()  # else it closes the file that its owner closes
    return _judge_log(log.read)


def _judge_log(read: Callable[[int], bytes]) -> tuple[Problem, ...]:
    """In pieces, since a log may be larger than memory and a line in it without end."""
    from wizard.serving.deaths import judge_log_in_bytes

    return judge_log_in_bytes(iter(lambda: read(_LOG_PIECE_BYTES), b""))


def _text(value: str) -> str:
    return _stdin("--error").read() if value == "-" else value


def _stdin(option: str) -> TextIO:
    import sys

    if sys.stdin is None:  # closed by whoever started us
        raise usage_error(
            "stdin-closed",
            t("Nothing can be read from stdin: it is closed."),
            t("Give `{option}` a value, or pipe it in.", option=option),
        )
    return sys.stdin


def _servers(world: World) -> Iterator[ServerSeen]:
    """Those of the records, and those that only a profile still names: `stop` takes the record away."""
    recorded = list(_recorded_servers(world))
    yield from recorded
    names = {server.name for server in recorded}
    for profile in world.profiles.load().by_name.values():
        if profile.server and profile.server not in names:
            try:
                port = urlsplit(profile.openai_base_url).port
            except ValueError:
                continue  # such a profile is an endpoint to judge, not a server
            if port is not None:
                names.add(profile.server)
                yield ServerSeen(profile.server, port, alive=False, log="", ready=False)


def _recorded_servers(world: World) -> Iterator[ServerSeen]:
    from wizard.effects.processes import Processes
    from wizard.effects.servers import ServerStore

    store = ServerStore(world.files, Processes(), world.paths.servers)
    for name in store.names():
        try:
            record = store.load(name)
        except ProblemError:
            continue  # `status` says what is wrong with the record
        if record is None:
            continue
        alive = store.life(record).alive
        findings: tuple[Problem, ...] = ()
        if not alive:
            try:
                with Path(record.log).open("rb") as log:
                    # Its access lines are of no use: the wrong paths among them were asked by probes of ours.
                    findings = tuple(f for f in _judge_log(log.read) if f.severity == "error")
            except OSError:
                findings = ()
        yield ServerSeen(
            name,
            record.port,
            alive,
            record.log,
            record.ready_at is not None,
            findings,
            record.model,
            record.served_name,
            record.arguments,
            world.secrets.get(record.key_reference) if record.key_reference else None,
        )


# ---- endpoints ---------------------------------------------------------------------------------------------------


def _targets(world: World, options: DoctorOptions) -> Iterator[Target]:
    if options.base_url:
        yield _explicit(world, options)
        return
    found = list(_configured(world, options))
    yield from found
    if not options.client and (options.every or not found):
        have = {(target.base_url, target.model) for target in found}
        yield from (one for one in _profiles(world, options) if (one.base_url, one.model) not in have)


def _explicit(world: World, options: DoctorOptions) -> Target:
    key, source = _given_key(world, options)
    anthropic = wire_of(options.client_type) == "messages"
    # Claude Code sends a key from this variable as x-api-key; with both variables it sends both headers.
    auth = "x-api-key" if anthropic and world.env.get("ANTHROPIC_API_KEY") else "bearer"
    if auth == "x-api-key" and world.env.get("ANTHROPIC_AUTH_TOKEN"):
        auth = "both"
    return _target(
        world,
        options,
        client=options.client_type,
        base_url=options.base_url,
        model=options.model,
        key=key,
        source="--base-url",
        key_source=source,
        auth=auth,
    )


def _given_key(world: World, options: DoctorOptions) -> tuple[Secret | None, str]:
    if options.api_key_file:
        raw = world.files.read_bytes(Path(options.api_key_file).expanduser())
        if raw is None:
            raise usage_error("key-file-missing", t("There is no key file `{path}`.", path=options.api_key_file))
        text = raw.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
        return (Secret(text) if text else None), options.api_key_file
    text = world.env.get(KEY_VARIABLE, "")
    return (Secret(text) if text else None), KEY_VARIABLE


def _target(
    world: World,
    options: DoctorOptions,
    *,
    client: str,
    auth: str = "bearer",
    limits: ClientLimits | None = None,
    **fields: Any,
) -> Target:
    """A target whose protocol and prompt are those of the client's own folder, where it has one.

    limits: from the client's files; None: only the environment counts, because the triple is not from those files.
    """
    from wizard.clients.read import read_limits
    from wizard.flows.clients import load_clients, places_of

    known = load_clients(world).get(client)
    if limits is None:
        limits = read_limits(known.spec, places_of(world), {}) if known else ClientLimits()
    return Target(
        client=client,
        wire=known.spec.protocol if known else wire_of(client),
        auth=cast(AuthStyle, auth),
        small_model=limits.small_model,
        max_tokens=options.max_tokens or limits.max_tokens,
        context_tokens=options.context_tokens or limits.context_tokens,
        prompt_tokens=known.spec.first_request_tokens if known else None,
        **fields,
    )


def _configured(world: World, options: DoctorOptions) -> Iterable[Target]:
    from wizard.flows.clients import read_triples

    names = (options.client,) if options.client else ()
    unique: dict[tuple[str, str, str, str, ClientLimits], Target] = {}
    for triple in read_triples(world, names):
        if not triple.base_url:
            continue
        auth = "x-api-key" if "ANTHROPIC_API_KEY" in triple.key_source else "bearer"
        target = _target(
            world,
            options,
            client=triple.client,
            base_url=triple.base_url,
            model=options.model or triple.model or "",
            key=triple.key,
            source=triple.base_urls[0].source,
            key_source=triple.key_source,
            auth=auth,
            limits=triple.limits,
        )
        # Two clients of one protocol with one triple and the same limits are one endpoint to ask.
        value = target.key.reveal() if target.key else ""
        unique.setdefault((target.base_url, target.model, value, target.wire, triple.limits), target)
    return unique.values()


def _profiles(world: World, options: DoctorOptions) -> Iterator[Target]:
    """The active profile; with `every` all of them."""
    profiles = world.profiles.load()
    for name, profile in profiles.by_name.items():
        if options.every or name == profiles.active:
            yield _of_profile(world, options, profile)


def _of_profile(world: World, options: DoctorOptions, profile: Profile) -> Target:
    client = options.client_type or "openai-sdk"
    wire = wire_of(client)
    base = profile.anthropic_base_url if wire == "messages" and profile.anthropic_base_url else profile.openai_base_url
    # As in `resolve_endpoint`: a profile's own key, and that of the variable only where it has none.
    given, source = (None, "") if profile.key_reference and not options.api_key_file else _given_key(world, options)
    return _target(
        world,
        options,
        client=client,
        base_url=base,
        model=options.model or profile.model,
        key=given or (world.secrets.get(profile.key_reference) if profile.key_reference else None),
        source=t("profile {name}", name=profile.name),
        key_source=source if given else profile.key_reference,
        profile=profile.name,
    )


# ---- showing -----------------------------------------------------------------------------------------------------

_MARKS = {
    "ok": "ok",
    "warning": "warning",
    "error": "failed",
    "skipped": "skipped",
    "unknown": "warning",
    "crashed": "failed",
}


def show_report(screen: Screen, report: Report, *, verbose: bool = False) -> None:
    """The screen for people: which endpoint, what was found with its fix, and what could not be seen."""
    for target in report.targets:
        told = t(
            "{client}: {url}, model {model}, key {key} ({source})",
            client=target.client or t("endpoint"),
            url=target.base_url,
            model=target.model or t("none"),
            key=t(target.key_hint),
            source=target.source,
        )
        screen.say(told, "", "  ")
    given = report.shared.log_findings is not None or report.shared.error_text is not None
    if not report.targets and not report.diagnosis.findings and not given:
        screen.line(t("No endpoint is configured here: `llm-setup init` sets one up, `--base-url` names one."))
    # Where a cause was found, what could not be seen because of it is no news.
    telling = ("crashed",) if report.diagnosis.status == "error" else ("crashed", "unknown")
    for result in report.diagnosis.results:
        if verbose or result.status in telling:
            mark = _MARKS[result.status]
            screen.step(cast(Any, mark), t(result.title), result.detail, result.duration_ms / 1000 if verbose else None)
    notes = [finding for finding in report.diagnosis.findings if finding.severity == "info"]
    for finding in report.diagnosis.findings:
        if finding in notes and not verbose:
            continue
        screen.line()
        for line in screen.problem_lines(finding):
            screen.line(line)
        follow = [folded.what for cause, folded in report.diagnosis.folded if cause == finding.code]
        for what in follow:
            screen.line("  " + t("explains: {what}", what=what))
    if notes and not verbose:
        screen.line()
        for note in notes:
            screen.step("info", f"{note.what} [{note.code}]")
    screen.line()
    screen.line(_verdict(report))


def _verdict(report: Report) -> str:
    """The last line: all is well only where key, model and path were looked at and nothing was left out."""
    diagnosis = report.diagnosis
    errors = [finding for finding in diagnosis.findings if finding.severity == "error"]
    if errors:
        return _what_to_mend(report, errors)
    if not report.shared.anything:
        return t("Nothing was examined.")
    if diagnosis.status == "unknown":
        left = dict.fromkeys(t(result.title) for result in diagnosis.results if result.status in ("unknown", "crashed"))
        return t("Nothing wrong was found, but not everything was checked. Not checked: {left}.", left="; ".join(left))
    if diagnosis.status == "warning":
        return t("Nothing stands in the way; see the notes above.")
    if report.options.only:
        return t("The checks that were asked for found nothing wrong.")
    if not report.targets:
        return t("Nothing wrong was found in what was given; no endpoint was asked.")
    if report.options.offline:
        return t("Nothing wrong was found in files and variables; no endpoint was asked (`--offline`).")
    if report.options.cheap:
        return t("Key, model and URL are right. What only an answer of the model shows was not asked (`--cheap`).")
    return t("All is well.")


def _what_to_mend(report: Report, errors: list[Problem]) -> str:
    """A text that a client showed has several causes of which one is meant; the others are there to be tried next."""
    from wizard.doctor.causes import find_cause

    guesses = next((result.findings for result in report.diagnosis.results if result.id == "client-error"), ())
    codes = {finding.code for finding in guesses}
    if len(guesses) > 1 and all(finding.code in codes for finding in errors):
        shown = [finding for finding in report.diagnosis.findings if finding.code in codes]
        first, *others = [f"{t(find_cause(finding.code).title)} [{finding.code}]" for finding in shown]
        if others:
            return t("Most likely: {first}; or: {others}.", first=first, others="; ".join(others))
    return (
        t("{count} to mend; begin with the first.", count=len(errors)) if len(errors) > 1 else t("One cause to mend.")
    )


def write_report(world: World, screen: Screen, report: Report, path: str) -> None:
    """Write the report: HTML for `.html`, else Markdown. Raises ProblemError where it cannot be written."""
    import platform

    from wizard import __version__
    from wizard.doctor.report import render_html, render_markdown

    versions = (("llm-setup", __version__), ("Python", platform.python_version()), ("system", platform.platform()))
    text = render_markdown(report.diagnosis, report.shared, report.seen, versions)
    target = world.cwd / Path(path).expanduser()
    try:
        world.files.write_private(target, (render_html(text) if target.suffix == ".html" else text).encode())
    except OSError as error:
        raise ProblemError(
            Problem(
                "report-not-written",
                t("The report cannot be written."),
                saw=(f"{target}: {error.strerror or error}",),
            )
        ) from error
    screen.step("ok", t("Report: {path}", path=target))
