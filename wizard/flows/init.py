"""The guided flow: hardware, clients, source, model, plan, install, start, prove, write, prove as each client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wizard.effects.world import World
from wizard.endpoint.exchange import HttpFailure
from wizard.endpoint.model import Endpoint, Profile
from wizard.endpoint.urls import check_base_url
from wizard.flows.prove import Proof, prove_endpoint
from wizard.hardware.machine import Machine
from wizard.hardware.usable import choose_build
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError
from wizard.secret import Secret
from wizard.serving import embedded
from wizard.serving.record import DEFAULT_NAME, ServerRecord
from wizard.ui.questions import Choice, Questions
from wizard.ui.screen import Screen

if TYPE_CHECKING:
    from wizard.flows.serve_model import ServeAnswers

Source = Literal["serve", "url"]

_MODELS_OFFERED = 8

# Written when none of the clients is installed here: the clients of most guides, and the shell.
FIRST_CLIENTS = ("codex", "claude-code", "cline", "shell")


@dataclass(frozen=True, slots=True)
class InitAnswers:
    """What flags have answered already; None or empty asks (or takes what is recommended).

    base_url: use this endpoint, start nothing. vllm: path of an installed vLLM. pins: `FLAG=VALUE` for vLLM.
    clients: names; `("none",)` writes no client file. profile: the name under which the endpoint is remembered.
    """

    base_url: str | None = None
    model: str | None = None
    key: Secret | None = None
    clients: tuple[str, ...] = ()
    vllm: str | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    context_tokens: int | None = None
    pins: tuple[str, ...] = ()
    profile: str | None = None
    scope: Literal["user", "project"] = "user"


@dataclass(slots=True)
class Journey:
    """What happened so far, for the JSON document; filled in by the stations of one run."""

    seconds: dict[str, float] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


class InitFlow:
    """One run of `init`. Stations are methods; each takes what it needs and returns what the next one needs."""

    def __init__(
        self, world: World, screen: Screen, questions: Questions, answers: InitAnswers, *, yes: bool, dry_run: bool
    ) -> None:
        self.world = world
        self.screen = screen
        self.questions = questions
        self.answers = answers
        self.yes = yes
        self.dry_run = dry_run
        self.journey = Journey()

    def run(self) -> Journey:
        """The whole road. Raises ProblemError where it ends early; what was done until then is said on the screen."""
        with self._station("hardware"):
            machine = self._hardware()
        clients = self._choose_clients()
        if self._source() == "url":
            with self._station("discover"):
                endpoint, profile = self._given_endpoint()
        else:
            endpoint, profile = self._serve_here(machine, clients)
        if not self.dry_run:
            with self._station("prove"):
                endpoint = self._prove(endpoint, profile)
        with self._station("clients"):
            written = self._write_clients(endpoint, clients)
        if not self.dry_run:
            with self._station("verify"):
                self._verify(written)
            self._what_now(endpoint)
        return self.journey

    # -- stations -------------------------------------------------------------------------------------------------

    def _hardware(self) -> Machine:
        from wizard.flows.hardware import observe_machine

        self.screen.title(t("This machine"))
        machine = observe_machine(self.world)
        for gpu in machine.gpus:
            total = t("unknown") if gpu.memory_total_gib is None else f"{gpu.memory_total_gib:.1f} GiB"
            free = t("unknown") if gpu.memory_free_gib is None else f"{gpu.memory_free_gib:.1f} GiB"
            self.screen.step("ok", gpu.name, t("{total}, {free} free", total=total, free=free))
        if not machine.gpus:
            self.screen.step("info", t("no GPU"), machine.unknown[0] if machine.unknown else "")
        ram = t("unknown") if machine.ram_total_gib is None else f"{machine.ram_total_gib:.1f} GiB"
        cores = machine.cpu.logical_cores or t("unknown")
        self.screen.step("ok", machine.cpu.name or machine.cpu.architecture, t("{n} cores, {ram}", n=cores, ram=ram))
        return machine

    def _choose_clients(self) -> tuple[str, ...]:
        from wizard.flows.clients import applied_names, choose_clients, installed_clients, load_clients

        known = load_clients(self.world)
        if self.answers.clients == ("none",):
            return ()
        if self.answers.clients:
            return tuple(client.spec.name for client in choose_clients(known, self.answers.clients))
        installed = {spec.name for spec in installed_clients(self.world)}
        applied = set(applied_names(self.world))
        # Coding agents call tools; SDKs and curl are there on most machines, and nobody asked for their files.
        agents = {name for name in installed if "tools" in known[name].spec.needs}
        recommended = tuple(name for name in known if name in agents | applied) or FIRST_CLIENTS
        rows = [
            Choice(name, f"{client.spec.title}{t(' (installed)') if name in installed else ''}")
            for name, client in known.items()
            if client.spec.has_scope(self.answers.scope)
        ]
        return self.questions.several("--client NAME", t("Which clients should use it?"), rows, recommended)

    def _source(self) -> Source:
        if self.answers.base_url is not None:
            return "url"
        chosen = self.questions.choose(
            "--base-url URL",
            t("Where should the model run?"),
            [
                Choice("serve", t("Here: install and start vLLM on this machine")),
                Choice("url", t("Somewhere else: I have a URL and a key")),
            ],
            "serve",
        )
        if chosen == "url":
            url = self.questions.text("--base-url URL", t("Base URL"))
            key = Secret(self.questions.secret("LLM_SETUP_API_KEY", t("Key (not shown; empty for none)")))
            self.answers = replace(self.answers, base_url=url, key=key or self.answers.key)
            return "url"
        return "serve"

    def _given_endpoint(self) -> tuple[Endpoint, Profile]:
        from wizard.flows.endpoints import EndpointOptions, observe_endpoint, observe_url

        assert self.answers.base_url is not None
        check_base_url(self.answers.base_url)
        self.screen.title(t("Endpoint"))
        key = self.answers.key or self._remembered_key(self.answers.base_url)
        seen = observe_url(self.world, self.answers.base_url, key)
        if seen.failure is not None:
            trial = seen.endpoint(self.answers.model or "", key)
            raise ProblemError(self._root_cause(trial) or no_answer(seen.openai_base_url, seen.failure))
        options = EndpointOptions(base_url=self.answers.base_url, model=self.answers.model or "")
        endpoint = observe_endpoint(self.world, self.screen, options, key)
        name = self.answers.profile or _profile_name(endpoint.openai_base_url)
        self.screen.step(
            "ok",
            endpoint.openai_base_url,
            t("model {model}, key {key}", model=endpoint.model, key=t(endpoint.key_hint)),
        )
        profile = Profile(
            name, endpoint.openai_base_url, endpoint.anthropic_base_url, endpoint.model, kind=endpoint.kind
        )
        return replace(endpoint, name=name), profile

    def _remembered_key(self, url: str) -> Secret | None:
        """The key of an earlier run with the same URL, so that `init` twice needs it once."""
        from wizard.endpoint import urls

        wanted = urls.without_version(urls.without_endpoint(url))
        for profile in self.world.profiles.load().by_name.values():
            if profile.key_reference and urls.without_version(profile.openai_base_url) == wanted:
                return self.world.secrets.get(profile.key_reference)
        return None

    def _serve_here(self, machine: Machine, clients: tuple[str, ...]) -> tuple[Endpoint, Profile]:
        record = self._healthy_server()
        if record is None and self.dry_run:
            return self._would_serve(machine, clients)
        if record is None:
            record = self._start_server(machine, clients)
        key = self.world.secrets.get(record.key_reference) if record.key_reference else None
        self.journey.document["server"] = {
            "name": record.name,
            "url": record.url,
            "pid": record.pid,
            "model": record.model,
            "served_name": record.served_name,
            "vllm_version": record.vllm_version,
            "log": record.log,
        }
        profile = Profile(
            name=self.answers.profile or record.name,
            openai_base_url=f"{record.url}/v1",
            anthropic_base_url=record.url,
            model=record.served_name,
            key_reference=record.key_reference,
            max_model_len=record.max_model_len,
            kind="vllm",
            server=record.name,
        )
        return profile.endpoint(key), profile

    def _healthy_server(self) -> ServerRecord | None:
        """Our server, when it runs, answers, and is the one that was asked for: nothing is planned anew then, since a
        plan made beside a running server would see its memory as taken."""
        from wizard.flows.status import observe_server

        record = self.world.servers.load(DEFAULT_NAME)
        if record is None:
            return None
        seen = observe_server(self.world, record)
        wanted = self.answers
        same = (
            wanted.model in (None, record.model, record.served_name)
            and wanted.port in (None, record.port)
            and not wanted.pins
            and wanted.context_tokens in (None, record.max_model_len)
        )
        if seen.state == "ready" and same:
            self.screen.title(t("Server"))
            self.screen.step("ok", t("already running at {url}", url=record.url), record.served_name)
            return record
        if seen.state == "dead":
            self.screen.title(t("Server"))
            self.screen.step("warning", t("the server of an earlier run is not there any more"))
        return None

    def _wanted(self, machine: Machine, clients: tuple[str, ...]) -> ServeAnswers:
        """What is to be served, as `serve` would be told."""
        from wizard.flows.serve_model import ServeAnswers, read_pin

        given = self.answers
        return ServeAnswers(
            model=given.model or self._recommended_model(machine, clients),
            host=given.host,
            port=given.port,
            vllm=given.vllm,
            context_tokens=given.context_tokens,
            clients=clients,
            pins=tuple(read_pin(text) for text in given.pins),
            replace_running=True,
        )

    def _would_serve(self, machine: Machine, clients: tuple[str, ...]) -> tuple[Endpoint, Profile]:
        """The endpoint that a start would give, for `--dry-run`; its key is made at the start."""
        from wizard.flows.serve_dry import plan_dry_run, show_dry_run

        would = plan_dry_run(self.world, self.screen, machine, self._wanted(machine, clients))
        show_dry_run(self.screen, would)
        self.journey.document["serve"] = would.as_json()
        root = f"http://{would.host}:{would.port}"
        profile = Profile(
            name=DEFAULT_NAME,
            openai_base_url=f"{root}/v1",
            anthropic_base_url=root,
            model=would.served_name,
            max_model_len=would.max_model_len,
            kind="vllm",
            server=DEFAULT_NAME,
        )
        return profile.endpoint(Secret("made-when-the-server-starts")), profile

    def _start_server(self, machine: Machine, clients: tuple[str, ...]) -> ServerRecord:
        from wizard.flows.serve_model import prepare, serve_model

        wanted = self._wanted(machine, clients)
        with self._station("prepare"):
            self.screen.title(t("vLLM and model"))
            prepared = prepare(
                self.world,
                self.screen,
                machine,
                wanted,
                ask_token=lambda text: self.questions.secret("HF_TOKEN", text),
            )
        if prepared.plan is not None:
            from wizard.flows.plan import machine_name, show_choice

            show_choice(self.screen, prepared.plan, machine_name(machine))
            self.journey.document["plan"] = prepared.plan.as_json()
            prepared = replace(prepared, warnings=prepared.warnings if wanted.model is None else ())
        with self._station("start"):
            self.screen.title(t("Start"))
            return serve_model(self.world, self.screen, prepared, wanted, yes=self.yes, agree=self._agree)

    def _agree(self, question: str) -> bool:
        return self.questions.confirm("--yes", question)

    def _recommended_model(self, machine: Machine, clients: tuple[str, ...]) -> str | None:
        """The best for this machine and these clients; None, which is the embedded one, where there is no GPU."""
        if choose_build(machine).build == "cpu":
            return None
        from wizard.catalog.rank import rank_models
        from wizard.flows.models import client_needs, nothing_suits
        from wizard.planning.intent import Intent

        needs = client_needs(self.world, clients)
        ranked = rank_models(machine, needs, Intent(context_tokens=self.answers.context_tokens))
        best = [row for row in ranked if row.suits][:_MODELS_OFFERED]
        if not best:
            raise ProblemError(nothing_suits(ranked))
        rows = [
            Choice(
                row.variant.model,
                t(
                    "{model}  ~{context} tokens of context, {size:.1f} GiB",
                    model=row.variant.model,
                    context=f"{row.context_tokens or 0:,}",
                    size=row.download_gib,
                ),
            )
            for row in best
        ]
        rows.append(Choice("", t("another one")))
        chosen = self.questions.choose("--model MODEL", t("Which model?"), rows, best[0].variant.model)
        return chosen or self.questions.text("--model MODEL", t("Hub id or folder"))

    def _prove(self, endpoint: Endpoint, profile: Profile) -> Endpoint:
        self.screen.title(t("Proof: requests as clients send them"))
        record = self.world.servers.load(profile.server) if profile.server else None
        small = record is not None and Path(record.model).name == embedded.FOLDER_NAME
        proof = prove_endpoint(self.world, self.screen, endpoint, ours=record is not None, calls_tools=not small)
        self.journey.document["proof"] = [step.as_json() for step in proof.steps]
        if not proof.ok:
            raise ProblemError(self._why_unproved(endpoint, proof))
        length = proof.models.get(endpoint.model) or endpoint.max_model_len
        endpoint = replace(endpoint, speaks=proof.speaks, max_model_len=length)
        reference = profile.key_reference
        if endpoint.key and not reference:
            reference = self.world.secrets.put(f"profile-{profile.name}", endpoint.key)
        profile = replace(profile, speaks=tuple(sorted(proof.speaks)), max_model_len=length, key_reference=reference)
        self.world.profiles.put(profile, activate=True)
        self.journey.document["endpoint"] = {
            "profile": profile.name,
            "openai_base_url": endpoint.openai_base_url,
            "anthropic_base_url": endpoint.anthropic_base_url,
            "model": endpoint.model,
            "key": endpoint.key_hint,
            "max_model_len": length,
            "speaks": sorted(proof.speaks),
        }
        return endpoint

    def _why_unproved(self, endpoint: Endpoint, proof: Proof) -> Problem:
        """The doctor's root cause, with what the proof saw; the proof's own lines where the doctor finds none."""
        saw = tuple(f"{step.title}: {step.detail}" for step in proof.failed)
        found = self._root_cause(endpoint)
        if found is not None:
            return found.seen(*(line for line in saw if line not in found.saw))
        return Problem(
            "proof-failed",
            t("The endpoint at {url} does not do what clients need.", url=endpoint.openai_base_url),
            saw=saw,
            fix=Fix(t("Let the doctor look closer."), ("llm-setup doctor",)),
        )

    def _root_cause(self, endpoint: Endpoint) -> Problem | None:
        """What the doctor finds first at an endpoint that does not do; None where it finds no error."""
        from wizard.flows.doctor import KEY_VARIABLE, DoctorOptions, run_doctor

        self.screen.step("running", t("the doctor looks for the cause"))
        key = endpoint.key.reveal() if endpoint.key else ""
        asked = replace(self.world, env={**self.world.env, KEY_VARIABLE: key})
        options = DoctorOptions(base_url=endpoint.openai_base_url, model=endpoint.model, client_type="openai-sdk")
        report = run_doctor(asked, self.screen, options)
        return next((found for found in report.diagnosis.findings if found.severity == "error"), None)

    def _write_clients(self, endpoint: Endpoint, clients: tuple[str, ...]) -> tuple[str, ...]:
        """The clients whose files now hold this endpoint: none when the question was answered with no."""
        from wizard.flows.clients import apply_clients

        if not clients:
            return ()
        self.screen.title(t("Client files"))
        applied = apply_clients(
            self.world,
            self.screen,
            endpoint,
            clients,
            scope=self.answers.scope,
            yes=self.yes,
            dry_run=self.dry_run,
            confirm=lambda text: self.questions.confirm("--yes", text),
        )
        self.journey.document["clients"] = [one.as_json() for one in applied]
        return tuple(one.client for one in applied if one.status in ("applied", "unchanged"))

    def _verify(self, clients: tuple[str, ...]) -> None:
        """Each client's own request, from the file just written. One that fails is a problem, and the road ends well
        for the others."""
        from wizard.flows.verify import verify_clients

        if not clients:
            return
        self.screen.title(t("Proof as each client, from its own file"))
        verified = verify_clients(self.world, self.screen, clients)
        self.journey.document["verified"] = [one.as_json() for one in verified]
        failed = [one for one in verified if one.status == "failed"]
        if failed:
            problem = Problem(
                "client-not-proved",
                t("{count} of {total} clients would not get an answer.", count=len(failed), total=len(verified)),
                t("Their own request, sent from the file as written, did not bring what they need."),
                tuple(f"{one.client}: {one.request}: {one.detail}" for one in failed),
                Fix(t("Look closer at one of them."), (f"llm-setup doctor --client {failed[0].client}",)),
            )
            self.journey.problems.append(problem)
            self.screen.problem(problem)

    def _what_now(self, endpoint: Endpoint) -> None:
        self.screen.title(t("What now"))
        rows = (
            ("llm-setup status", t("what the server does")),
            ("llm-setup doctor", t("when something does not work")),
            ("llm-setup clients restore --all --yes", t("every client file as it was")),
        )
        for command, what in rows:
            self.screen.line(f"    {command:<40} {what}")

    @contextmanager
    def _station(self, name: str) -> Iterator[None]:
        begun = self.world.clock.monotonic_s()
        try:
            yield
        finally:
            self.journey.seconds[name] = round(self.world.clock.monotonic_s() - begun, 3)


def no_answer(base: str, failure: HttpFailure) -> Problem:
    """That nothing answers at a base URL."""
    return Problem(
        "tls-untrusted-ca" if failure.kind == "tls" else "server-unreachable",
        t("Nothing answers at {url}.", url=base),
        t("The connection itself failed, so neither the key nor the model was looked at."),
        (f"GET {base}/models: {failure.kind}: {failure.text}",),
        Fix(
            t("Check the address and that the server runs; the doctor looks closer."),
            (f"llm-setup doctor --base-url {base}",),
        ),
    )


def _profile_name(url: str) -> str:
    from urllib.parse import urlsplit

    host = urlsplit(url).hostname or "endpoint"
    return host.removeprefix("www.").removeprefix("api.").replace(":", "-")
