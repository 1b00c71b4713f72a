"""The guided flow: hardware, clients, source, model, plan, install, start, prove, write, prove as each client.

What comes next is decided by `init_road`; here each step is done: asked, or observed, shown and acted on. A step that
fails shows its cause and, where somebody can be asked, the ways on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from wizard.effects.world import World
from wizard.endpoint.exchange import HttpFailure
from wizard.endpoint.model import Endpoint, Profile
from wizard.endpoint.presets import all_presets
from wizard.endpoint.urls import check_base_url
from wizard.flows.init_road import (
    EMBEDDED,
    Answer,
    Road,
    Step,
    WayOut,
    check_road,
    next_step,
    parse_answers,
    render_answers,
    taken,
    ways_out,
)
from wizard.flows.prove import Proof, prove_endpoint
from wizard.hardware.machine import Machine
from wizard.hardware.usable import choose_build
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError, usage_error
from wizard.secret import Secret
from wizard.serving import embedded
from wizard.serving.record import DEFAULT_NAME, ServerRecord
from wizard.text import display_width, pad
from wizard.ui.questions import BackRequested, Choice, Questions
from wizard.ui.screen import Screen

if TYPE_CHECKING:
    from wizard.clients.spec import ClientSpec
    from wizard.flows.endpoints import Observed
    from wizard.flows.init_hub import Measured
    from wizard.flows.init_model import OtherWay
    from wizard.flows.serve_model import ServeAnswers
    from wizard.planning.model import ServePlan
    from wizard.planning.rank import Ranked
    from wizard.serving.runtime import Runtime

# Written when none of the clients is installed here: the clients of most guides, and the shell.
FIRST_CLIENTS = ("codex", "claude-code", "cline", "shell")
# Under which the keys of a run that was left are kept: of the endpoint, and of the hub.
_KEY_NAME = "init-key"
_HUB_TOKEN_NAME = "init-hub-token"


@dataclass(slots=True)
class Journey:
    """What happened so far, for the JSON document; filled in by the steps of one run."""

    seconds: dict[str, float] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Manner:
    """How a run goes. resume: go on with the answers of a run that was left; None: ask. save_to: where the answers are
    written in the end."""

    yes: bool = False
    dry_run: bool = False
    resume: bool | None = None
    save_to: Path | None = None


def read_answers(world: World, path: Path) -> dict[str, Answer]:
    """The answers of a file. Raises a usage problem: it is not there, or it says what is no answer."""
    try:
        raw = world.files.read_some(path.expanduser(), 2**20)
    except OSError as error:
        raw, why = None, error.strerror or str(error)
    else:
        why = t("there is no such file")
    if raw is None:
        raise usage_error(
            "answers-unreadable",
            t("The answers in `{file}` cannot be read: {why}.", file=path, why=why),
            t("`llm-setup init --save-answers FILE` writes one."),
        )
    return parse_answers(raw.decode("utf-8", "replace"), str(path))


class InitFlow:
    """One run of `init`.

    given: answers of flags and of a file, by the names of init_road.FIELDS. machine: None looks at this one.
    """

    def __init__(
        self,
        world: World,
        screen: Screen,
        questions: Questions,
        given: Mapping[str, Answer],
        *,
        key: Secret | None = None,
        manner: Manner | None = None,
        machine: Machine | None = None,
    ) -> None:
        self._world = world
        self.screen = screen
        self.questions = questions
        self.key = key
        self._given_key = key
        self._ask_for_key = False
        self._hub_token: Secret | None = None
        self.manner = manner or Manner()
        self.road = Road(dict(given))
        self.journey = Journey()
        self.machine = machine
        self.plan: ServePlan | None = None
        self.runtime: Runtime | None = None
        self.seen: Observed | None = None
        self.measured: Measured | None = None
        self.endpoint: Endpoint | None = None
        self.profile: Profile | None = None
        self.written: tuple[str, ...] = ()
        self.left_out: tuple[ClientSpec, ...] = ()
        self._with_hub: tuple[str, World] | None = None
        # What was done so far and outlives the run, in words; and the URL of the profile that is replaced unasked.
        self._stays: list[str] = []
        self._replaces = ""
        # What was chosen before Back, by question: the cursor is there when it is asked again.
        self._chosen: dict[str, str] = {}

    @property
    def world(self) -> World:
        """The surroundings, with the hub that was chosen."""
        hub = self.road.text("hub")
        if not hub:
            return self._world
        if self._with_hub is None or self._with_hub[0] != hub:
            from wizard.flows.init_hub import with_hub

            self._with_hub = (hub, with_hub(self._world, hub))
        return self._with_hub[1]

    @property
    def _room(self) -> int | None:
        """Tokens that the endpoint's model holds; None where it is not known."""
        return self.endpoint.max_model_len if self.endpoint is not None else None

    def run(self) -> Journey:
        """The whole road. Raises ProblemError where it ends early; what was done until then is said on the screen."""
        self._check_given()
        if not self.manner.dry_run:
            from wizard.flows.state import check_own_folders

            check_own_folders(self._world.paths.state)
        with self._station("hardware"):
            self._hardware()
        self._resume()
        self._adopt()
        try:
            while (step := next_step(self.road)) != "finish":
                try:
                    self._do(step)
                except BackRequested:
                    self.road = self.road.back()
                except ProblemError as error:
                    self.road = self._way_on(step, error)
                self._keep()
        except KeyboardInterrupt:
            if self._keeps:
                self._say_left()
            raise
        self._finish()
        return self.journey

    def _say_left(self) -> None:
        """What stays of a run that was interrupted, and how it goes on."""
        self.screen.line()
        if self._stays:
            self._keep(also_flags=True)
            for one in dict.fromkeys(self._stays):
                self.screen.step("info", t("stays: {what}", what=one))
        goes_on = bool(self._stays) or self.road.can_go_back
        self.screen.say(t("Left. `llm-setup init` goes on from here.") if goes_on else t("Left. Nothing was changed."))

    def _do(self, step: Step) -> None:
        todo: dict[Step, Callable[[], None]] = {
            "clients": self._ask_clients,
            "source": self._ask_source,
            "gateway": self._ask_gateway,
            "base-url": self._ask_base_url,
            "key": self._ask_key,
            "served-model": self._ask_served_model,
            "model": self._ask_model,
            "hub": self._ask_hub,
            "agree": self._ask_agreement,
            "discover": self._discover,
            "measure-hub": self._measure_hub,
            "plan": self._plan,
            "serve": self._serve,
            "connect": self._connect,
            "prove": self._prove,
            "apply": self._apply,
            "verify": self._verify,
        }
        todo[step]()

    def _answer(self, name: str, answer: Answer) -> None:
        self.road = self.road.answered(name, answer)

    def _did(self, step: Step) -> None:
        self.road = self.road.did(step)

    # -- what is given, and what is kept --------------------------------------------------------------------------

    def _check_given(self) -> None:
        given = dict(self.road.given)
        if "base_url" in given:
            check_base_url(str(given["base_url"]))
            given.setdefault("source", "url")
        if "gateway" in given:
            self._preset(str(given["gateway"]))
            given.setdefault("source", "gateway")
        if "profile" in given:
            from wizard.flows.profiles import check_profile_name

            check_profile_name(str(given["profile"]))
        named = [name for name in ("clients", "clients_anyway") if name in given]
        if named:
            from wizard.flows.clients import choose_clients, load_clients

            known = load_clients(self.world)
        for name in named:
            names = cast("tuple[str, ...]", given[name])
            chosen = () if names == ("none",) else choose_clients(known, names)
            given[name] = tuple(client.spec.name for client in chosen)
        if "hub" in given:
            from wizard.flows.init_hub import check_hub

            given["hub"] = check_hub(str(given["hub"]))
        self.road = replace(self.road, given=given)
        check_road(self.road)

    @property
    def _kept_in(self) -> Path:
        return self._world.paths.state / "init-answers.toml"

    @property
    def _keeps(self) -> bool:
        """Whether answers are kept for a later run: those that somebody gave, of a run that changes things."""
        return self.questions.may_ask and not self.manner.dry_run

    def _keep(self, *, also_flags: bool = False) -> None:
        """also_flags: also where nothing but flags answered."""
        if not self._keeps:
            return
        if not (self.road.can_go_back or also_flags or self._hub_token):
            self._forget()
            return
        kept = self.road.kept()
        self._keep_key(_KEY_NAME, self.key if kept.get("key") == "given" else None)
        self._keep_key(_HUB_TOKEN_NAME, self._hub_token)
        content = render_answers(kept).encode()
        if self._world.files.read_bytes(self._kept_in) != content:
            self._world.files.write_private(self._kept_in, content)

    def _keep_key(self, name: str, key: Secret | None) -> None:
        """None: an answer that was taken back takes its key with it."""
        if key is not None:
            self._world.secrets.put(name, key)
        elif name in self._world.secrets.names():  # which asks no keyring, and so nobody to unlock one
            left = self._world.secrets.forget(name)
            if left is not None:
                self.screen.step("warning", left.what)

    def _forget(self) -> None:
        if self._keeps or (self.manner.resume is not None and not self.manner.dry_run):
            self._world.files.remove(self._kept_in)
            self._keep_key(_KEY_NAME, None)
            self._keep_key(_HUB_TOKEN_NAME, None)

    def _resume(self) -> None:
        """Take up the answers of a run that was left, where the user wants that."""
        if self.manner.resume is False:
            self._forget()
            return
        if not (self._keeps or self.manner.resume):
            return
        raw = self._world.files.read_bytes(self._kept_in)
        if raw is None:
            if self.manner.resume:
                self.screen.step("info", t("no earlier run was left: this one begins anew"))
            return
        try:
            kept = parse_answers(raw.decode("utf-8", "replace"), str(self._kept_in), kept=True)
        except ProblemError as error:
            # Nobody else writes this file: what does not parse will not tomorrow either.
            self.screen.step("warning", error.problem.what, t("begun anew"))
            self._forget()
            return
        if self.manner.resume is None:
            said = "; ".join(
                f"{_called(name)}: {_called(answer) if name == 'source' else _said(answer)}"
                for name, answer in kept.items()
                if name not in ("key", "agree", "clients_anyway")
            )
            self.screen.title(t("An earlier run was left"))
            self.screen.say(said, "  ", "  ")
            rows = [Choice("on", t("Go on with these answers")), Choice("anew", t("Begin anew"))]
            if self.questions.choose("--resume", t("Go on where it was left?"), rows, "on") == "anew":
                self._forget()
                return
        if kept.get("key") == "given" and self.key is None:
            self.key = self._world.secrets.get(f"store:{_KEY_NAME}")
            if self.key is None:
                del kept["key"]
        if _HUB_TOKEN_NAME in self._world.secrets.names():
            token = self._world.secrets.get(f"store:{_HUB_TOKEN_NAME}")
            if token is not None:
                self._use_hub_token(token)
        self.road = self.road.resumed(kept)

    def _adopt(self) -> None:
        """A server that was asked for, and runs already, is not planned beside itself."""
        if self.road.text("source") == "serve" and self._healthy_server(show=True) is not None:
            self.road = self.road.reopened("source").answered("source", "running")

    # -- questions ------------------------------------------------------------------------------------------------

    def _ask_clients(self) -> None:
        from wizard.flows.clients import applied_names, installed_clients, load_clients

        known = load_clients(self.world)
        installed = {spec.name for spec in installed_clients(self.world)}
        applied = set(applied_names(self.world))
        # Coding agents call tools; SDKs and curl are there on most machines, and nobody asked for their files.
        agents = {name for name in installed if "tools" in known[name].spec.needs}
        recommended = tuple(name for name in known if name in agents | applied) or FIRST_CLIENTS
        rows = [
            Choice(name, f"{client.spec.title}{_state(name, installed, applied, self._on_path(client.spec))}")
            for name, client in known.items()
            if client.spec.has_scope(self._scope)
        ]
        # What is here comes first: on a small terminal the rest is below the edge.
        rows.sort(key=lambda row: (row.value not in recommended, row.value not in installed))
        self._answer(
            "clients",
            self.questions.several(
                "--client NAME",
                t("Which coding clients do you want to set up?"),
                rows,
                recommended,
                may_go_back=self.road.can_go_back,
            ),
        )

    def _on_path(self, spec: ClientSpec) -> bool:
        from wizard.effects.installed import find_program

        return not spec.programs or any(find_program(program, self.world.env) for program in spec.programs)

    def _ask_source(self) -> None:
        running = self._healthy_server(show=True)
        rows = []
        if running is not None:
            title = t("The server here: {model}", model=running.served_name)
            rows.append(Choice("running", title))
        not_here = t("vLLM runs in WSL, not on Windows itself") if self.world.platform == "windows" else ""
        rows.append(Choice("serve", t("Here: install and start vLLM"), not_here))
        rows.append(Choice("url", t("At a URL that I have, with its key")))
        rows.append(Choice("gateway", t("At a gateway or service, by name")))
        rows.sort(key=lambda row: bool(row.disabled))
        self._answer(
            "source",
            self.questions.choose(
                "--base-url URL`, `--gateway NAME`, `--here",
                t("Where should the model run?"),
                rows,
                rows[0].value,
                may_go_back=self.road.can_go_back,
            ),
        )

    def _ask_gateway(self) -> None:
        from wizard.flows.init_model import NARROW

        # Those with a host of their own are services; the others are programs on this machine.
        presets = sorted(all_presets(), key=lambda preset: (not preset.hosts, preset.id))
        narrow = self.screen.columns < NARROW
        rows = [
            Choice(preset.id, preset.title if narrow else f"{preset.title}  {preset.openai_base_url}")
            for preset in presets
        ]
        rows.append(Choice("", t("Another, by its URL")))
        chosen = self.questions.choose(
            "--gateway NAME",
            t("Which one?"),
            rows,
            # None of them is the usual one: nobody's key is sent to the first of a list.
            self._chosen.get("gateway", rows[0].value) if self.questions.may_ask else None,
            may_go_back=self.road.can_go_back,
        )
        self._chosen["gateway"] = chosen
        if chosen:
            self._answer("gateway", chosen)
        else:
            self.road = self.road.reopened("source").answered("source", "url")

    def _preset(self, name: str) -> str:
        from wizard.flows.endpoints import preset_url

        return preset_url(name)

    def _ask_base_url(self) -> None:
        suggested = self._preset(self.road.text("gateway")) if self.road.text("gateway") else None
        if suggested and "RESOURCE" not in suggested:
            self.road = self.road.assuming("base_url", suggested)
            return
        # A form with a place for one's own name in it is no answer that could be taken for somebody.
        suggested = suggested or self._chosen.get("base_url")
        suggested = suggested if self.questions.may_ask else None
        self._answer(
            "base_url",
            self.questions.text(
                "--base-url URL", t("Base URL"), suggested, check=_wrong_url, may_go_back=self.road.can_go_back
            ),
        )

    def _ask_key(self) -> None:
        from wizard.clients.keys import check_key, clean_key

        # A key goes to the address that it was given for, and to no other that is typed later.
        self.key = None if self._ask_for_key else self._given_key or self._remembered_key(self.road.text("base_url"))
        if self.key is None and self.questions.may_ask:
            question = t("Key (not shown; empty for none)")
            found = clean_key(
                self.questions.secret("LLM_SETUP_API_KEY", question, may_go_back=self.road.can_go_back)
            ).key
            try:
                if found is not None:
                    check_key(found, t("your answer"))
            except ProblemError as error:
                self.screen.problem(error.problem)
                return
            self.key = found
            self._answer("key", "given" if found else "none")
            # Another key is the same answer, since only that there is one is kept.
            self.road = self.road.undone("discover").undone("connect").undone("prove")
        else:
            self.road = self.road.assuming("key", "given" if self.key else "none")

    def _ask_served_model(self) -> None:
        from wizard.flows.endpoints import only_model

        assert self.seen is not None
        names = self.seen.names
        if self.seen.forms.model or len(names) == 1:
            self.road = self.road.assuming("model", self.seen.forms.model or names[0])
        elif not self.questions.may_ask:
            only_model(names)
        elif names:
            rows = [Choice(name, name) for name in names]
            self._answer(
                "model",
                self.questions.choose(
                    "--model MODEL", t("Which model?"), rows, names[0], may_go_back=self.road.can_go_back
                ),
            )
        else:
            question = t("Model ID (the endpoint lists none)")
            self._answer(
                "model",
                self.questions.text("--model MODEL", question, check=_not_empty, may_go_back=self.road.can_go_back),
            )

    def _ask_model(self) -> None:
        from wizard.flows.init_model import GATEWAY, OTHER, offer_models
        from wizard.flows.models import nothing_suits

        has_gpu = choose_build(self._here).build != "cpu"
        if not has_gpu and not self.questions.may_ask:
            self.road = self.road.assuming("model", EMBEDDED)
            return
        ranked = self._ranked()
        offer = offer_models(ranked, has_gpu=has_gpu, columns=self.screen.columns)
        if not offer.suits and has_gpu:
            problem = nothing_suits(ranked)
            if not self.questions.may_ask:
                raise ProblemError(problem)
            self.screen.problem(problem)
        self._say_whose_needs()
        if not has_gpu and self.questions.may_ask:
            told = t("Without a GPU answers come slowly; for daily work take a URL or a gateway (Back).")
            self.screen.say(told)
        chosen = self.questions.choose(
            "--model MODEL",
            t("Which model? (context and speed are estimated)"),
            offer.rows,
            offer.recommended,
            may_go_back=self.road.can_go_back,
        )
        if chosen == GATEWAY:
            self.road = self.road.reopened("source").answered("source", "gateway")
        elif chosen == OTHER:
            with suppress(BackRequested):
                self._answer("model", self._search(ranked))
        else:
            self._answer("model", chosen)

    def _say_whose_needs(self) -> None:
        """As `models --for` says it."""
        from wizard.flows.models import client_needs, say_whose_needs
        from wizard.planning.rank import AGENT_CONTEXT_TOKENS

        needs = client_needs(self.world, self.road.words("clients"))
        least = max((need.minimum_context_tokens for need in needs), default=AGENT_CONTEXT_TOKENS)
        say_whose_needs(self.screen, needs, least)

    def _ranked(self) -> tuple[Ranked, ...]:
        from wizard.flows.held import without_server
        from wizard.flows.models import client_needs
        from wizard.planning.intent import Intent
        from wizard.planning.rank import rank_models

        needs = client_needs(self.world, self.road.words("clients"))
        here, _ = without_server(self.world, self._here)
        return rank_models(here, needs, Intent(context_tokens=self.road.number("context")))

    def _search(self, ranked: tuple[Ranked, ...]) -> str:
        """A model by a word, its name on the hub, or its folder. Raises BackRequested."""
        from wizard.flows.init_model import FOUND_SHOWN, model_rows, search_models

        while True:
            said = self.questions.text(
                "--model MODEL",
                t("A word to search for, a hub id, or a folder"),
                check=lambda line: self._no_model(ranked, line),
                may_go_back=True,
            )
            found = search_models(ranked, said)
            if "/" in said or not found or (len(found) == 1 and found[0].variant.model == said):
                return said
            rows = model_rows(found[:FOUND_SHOWN], self.screen.columns)
            able = next((row.value for row in rows if not row.disabled), "")
            if not able:
                # One of them is what was searched for, all the same: with what stands against it, it can be taken.
                rows = tuple(replace(row, title=f"{row.title}  {row.disabled}", disabled="") for row in rows)
            with suppress(BackRequested):
                question = t("Which of these?")
                return self.questions.choose("--model MODEL", question, rows, able or rows[0].value, may_go_back=True)

    def _no_model(self, ranked: tuple[Ranked, ...], line: str) -> str:
        from wizard.flows.init_model import search_models

        if not line:
            return t("A name is needed.")
        if "/" in line or (self.world.cwd / line).exists() or search_models(ranked, line):
            return ""
        return t("Nothing in the catalogue has that in its name; a hub id has the form `owner/name`.")

    def _measure_hub(self) -> None:
        """Look whether the hub is quick enough, where something is to be fetched from it."""
        from wizard.effects.hub import HubCache
        from wizard.flows.init_hub import hub_name, measure_hub
        from wizard.planning.hub import is_hub_id, offline

        model = self.road.text("model")
        fetched = (
            model != EMBEDDED
            and is_hub_id(model)
            and not (self.world.cwd / model).is_dir()
            and not offline(self.world.env)
            and HubCache(self.world.env, self.world.home).snapshot(model) is None
        )
        slow = False
        if fetched and self.questions.may_ask and not self.road.text("hub"):
            self.screen.title(t("Where models come from"))
            self.measured = measure_hub(self.world, hub_name(self.world.env), model)
            slow = self.measured.slow
            self.screen.step("warning" if slow else "ok", self.measured.host, self.measured.said)
        self.road = replace(self.road, slow_hub=slow)
        self._did("measure-hub")

    def _ask_hub(self) -> None:
        from wizard.flows.init_hub import (
            AGAIN,
            ANOTHER_MODEL,
            ELSEWHERE,
            FOLDER,
            MIRROR_URL,
            hub_name,
            measure_hub,
            measure_hubs,
            offer_hubs,
        )

        model = self.road.text("model")
        first = self.measured or measure_hub(self._world, hub_name(self._world.env), model)
        measured = measure_hubs(self._world, model, first)
        rows = offer_hubs(measured, self.screen.columns)
        if not any(hub.answers for hub in measured):
            self.screen.step("failed", t("No hub answers from here, so nothing can be fetched from one."))
        chosen = self.questions.choose(
            "--hub NAME",
            t("Where should models be fetched from? (measured just now)"),
            rows,
            rows[0].value,
            may_go_back=self.road.can_go_back,
        )
        with suppress(BackRequested):
            if chosen == FOLDER:
                question = t("Folder of the model")
                check = self._no_model_folder
                said = self.questions.text("--model MODEL", question, check=check, may_go_back=True)
                self.road = self.road.reopened("model").answered("model", str(self._place(said)))
            elif chosen == MIRROR_URL:
                said = self.questions.text("--hub URL", t("URL of the mirror"), check=_wrong_url, may_go_back=True)
                self._answer("hub", check_base_url(said))
            elif chosen == ANOTHER_MODEL:
                self.road = taken(self.road, "another-model", "measure-hub")
            elif chosen == ELSEWHERE:
                self.road = taken(self.road, "gateway", "measure-hub")
            elif chosen == AGAIN:
                self.measured = None
            else:
                self._answer("hub", chosen)

    def _place(self, line: str) -> Path:
        """The path that somebody typed."""
        return (self.world.cwd / Path(line).expanduser()).absolute()

    def _no_model_folder(self, line: str) -> str:
        if (self._place(line) / "config.json").is_file():
            return ""
        return t("There is no config.json in that folder.")

    def _ask_agreement(self) -> None:
        if self.manner.dry_run or not self.questions.may_ask:
            self.road = self.road.assuming("agree", "yes")
            return
        go = t("Start") if self.runtime is not None else t("Install vLLM and start")
        rows = [
            Choice("yes", go),
            Choice("flag", t("Change a flag")),
            Choice("model", t("Take another model")),
        ]
        others = self._other_ways()
        if others:
            rows.insert(1, Choice("other", t("Take another way to serve it")))
        chosen = self.questions.choose("--yes", t("Go on?"), rows, "yes", may_go_back=self.road.can_go_back)
        if chosen == "flag":
            self._change_flag()
        elif chosen == "other":
            titles = [Choice(str(at), other.title) for at, other in enumerate(others)]
            with suppress(BackRequested):
                at = self.questions.choose("--set FLAG=VALUE", t("Which way?"), titles, "0", may_go_back=True)
                self._take(others[int(at)])
        elif chosen == "model":
            self.road = taken(self.road, "another-model", "plan")
        else:
            self._answer("agree", chosen)

    def _other_ways(self) -> tuple[OtherWay, ...]:
        from wizard.flows.init_model import other_ways
        from wizard.planning.recommend import serving_gpus

        if self.plan is None:
            return ()
        return other_ways(self.plan, self.road.words("set"), len(serving_gpus(self._here)))

    def _take(self, other: OtherWay) -> None:
        for name, answer in other.answers:
            self._answer(name, answer)

    def _change_flag(self) -> None:
        """Fix one flag of the plan; what is wrong with it is said at once."""
        assert self.plan is not None
        rows = [Choice(flag.flag, " ".join(flag.words)) for flag in self.plan.flags]
        rows.append(Choice("", t("Another flag of vLLM")))
        with suppress(BackRequested):
            flag = self.questions.choose("--set FLAG=VALUE", t("Which flag?"), rows, rows[0].value, may_go_back=True)
            if not flag:
                question = t("Flag, and its value after `=`")
                said = self.questions.text("--set FLAG=VALUE", question, check=self._wrong_pin, may_go_back=True)
            else:
                now = next((one.value for one in self.plan.flags if one.flag == flag), None)
                value = self.questions.text(
                    "--set FLAG=VALUE",
                    t("Value of {flag}", flag=flag),
                    now,
                    check=lambda line: self._wrong_pin(f"{flag}={line}" if line else flag),
                    may_go_back=True,
                )
                said = f"{flag}={value}" if value else flag
            said = said.removeprefix("--")
            name = said.partition("=")[0]
            kept = [pin for pin in self.road.words("set") if pin.partition("=")[0].removeprefix("--") != name]
            self._answer("set", (*kept, said))

    def _wrong_pin(self, text: str) -> str:
        from wizard.flows.plan import checked_pins
        from wizard.flows.serve_model import read_pin

        try:
            checked_pins((read_pin(text.removeprefix("--")),), self.plan.vllm_version if self.plan else None)
        except ProblemError as error:
            return error.problem.what
        return ""

    # -- where a step fails ---------------------------------------------------------------------------------------

    def _way_on(self, step: Step, error: ProblemError) -> Road:
        """The road after the user chose what to do about a problem. Raises it again where nobody can be asked, or the
        user leaves."""
        if not self.questions.may_ask or step not in _MENDABLE:
            raise error
        self.screen.line()
        self.screen.problem(error.problem)
        ways = [way for way in self._ways_out(step, error) if self._possible(way)]
        others = self._other_ways() if step == "plan" else ()
        rows = [Choice(str(at), other.title) for at, other in enumerate(others)]
        rows += [Choice(way, _way_title(way)) for way in ways]
        # Going back is one of the ways already, by name.
        chosen = self.questions.choose("--yes", t("What now?"), rows, rows[0].value)
        if chosen.isdecimal():
            self._take(others[int(chosen)])
            return self.road
        way = cast(WayOut, chosen)
        if way == "leave":
            self._keep(also_flags=True)
            self.screen.say(t("Left. `llm-setup init` goes on from here."))
            raise LeftError(error)
        road = taken(self.road, way, step)
        self.road = road
        if way == "change-flag":
            self._change_flag()
        elif way == "smaller-context":
            self._ask_context()
        elif (way == "token" and not self._ask_token()) or (way == "own-vllm" and not self._ask_vllm()):
            # Taken back: nothing is asked of a hub, or installed, once more for it.
            return self._way_on(step, error)
        self._ask_for_key = self._ask_for_key or way in ("another-key", "another-url", "gateway")
        return self.road

    def _ways_out(self, step: Step, error: ProblemError) -> tuple[WayOut, ...]:
        return ways_out(self.road, step, error.problem.code, has_vllm=self.runtime is not None)

    def _possible(self, way: WayOut) -> bool:
        if way in ("change-flag", "smaller-context") and self.plan is None:
            return False
        if way == "smaller-context" and self.plan is not None:
            # Weights that are larger than the memory leave room for no context at all.
            return self.plan.memory.weights_gib < self.plan.memory.total_gib
        return way != "serve-here" or self.world.platform != "windows"

    def _ask_context(self) -> None:
        assert self.plan is not None
        fitting = self.plan.memory.max_model_len_fitting
        usual = str(fitting if 0 < fitting < self.plan.max_model_len else max(1024, self.plan.max_model_len // 2))
        with suppress(BackRequested):
            said = self.questions.text(
                "--context TOKENS", t("Tokens of context"), usual, check=_no_number, may_go_back=True
            )
            self._answer("context", int(said))

    def _ask_token(self) -> bool:
        """Whether one was given."""
        token = ""
        with suppress(BackRequested):
            token = self.questions.secret("HF_TOKEN", t("Token of the hub (not shown)"), may_go_back=True).strip()
        if token:
            self._use_hub_token(Secret(token))
        return bool(token)

    def _ask_vllm(self) -> bool:
        """Whether one was named."""
        question = t("Its environment, command or Python")
        try:
            said = self.questions.text("--vllm PATH", question, check=self._no_vllm, may_go_back=True)
        except BackRequested:
            return False
        self._answer("vllm", str(self._place(said)))
        return True

    def _no_vllm(self, line: str) -> str:
        from wizard.flows.runtime import given_runtime

        try:
            given_runtime(self.world, str(self._place(line)))
        except ProblemError as error:
            return error.problem.what
        return ""

    def _use_hub_token(self, token: Secret) -> None:
        """For this run: the hub is asked for the model's facts before any download, and a token that is wrong is not
        one to remember."""
        self._hub_token = token
        self._world = replace(self._world, env={**self._world.env, "HF_TOKEN": token.reveal()})
        self._with_hub = None

    def _remember_choices(self) -> None:
        """What was chosen for downloads counts for later commands, too, from when a download was agreed to."""
        from wizard.flows.download import TOKEN_NAME
        from wizard.flows.init_hub import remember_hub

        if self._hub_token is not None:
            self._world.secrets.put(TOKEN_NAME, self._hub_token)
            self._stays.append(t("the token of the hub, for later downloads"))
        hub = self.road.text("hub")
        if hub and remember_hub(self._world, hub):
            self.screen.step("ok", t("remembered for later downloads"), "--hub")
            self._stays.append(t("the choice of the hub, for later downloads"))

    # -- work -----------------------------------------------------------------------------------------------------

    @property
    def _here(self) -> Machine:
        assert self.machine is not None
        return self.machine

    @property
    def _scope(self) -> Literal["user", "project"]:
        return "project" if self.road.text("scope") == "project" else "user"

    def _hardware(self) -> None:
        from wizard.flows.hardware import observe_machine
        from wizard.hardware.render import render_machine

        self.screen.title(t("llm-setup: from this machine, or a URL and a key, to a coding agent that answers"))
        self.screen.title(t("This machine"))
        self.machine = self.machine or observe_machine(self.world)
        for line in render_machine(self.machine, choose_build(self.machine), symbols=self.screen.symbols):
            # A label and what is behind it in its column, which stays where it is when the line breaks.
            found = _LABEL.match(line)
            label = found[0] if found else ""
            self.screen.say(line[len(label) :], label, "      ")

    def _discover(self) -> None:
        from wizard.flows.endpoints import observe_url, say_pasted

        url = self.road.text("base_url")
        self.screen.title(t("Endpoint"))
        with self._station("discover"):
            self.seen = observe_url(self.world, url, self.key)
            if self.seen.forms.pasted:
                say_pasted(self.screen, self.seen.forms.pasted)
            if self.seen.failure is not None:
                trial = self.seen.endpoint(self.road.text("model"), self.key)
                raise ProblemError(self._root_cause(trial) or no_answer(self.seen.openai_base_url, self.seen.failure))
            if self.seen.key_refused and not self.road.text("model"):
                # Which models there are would be asked in vain.
                cause = self._root_cause(self.seen.endpoint("", self.key))
                if cause is not None:
                    raise ProblemError(cause)
        self._did("discover")

    def _connect(self) -> None:
        assert self.seen is not None
        endpoint = self.seen.endpoint(self.road.text("model"), self.key)
        said = t("model {model}, key {key}", model=endpoint.model, key=t(endpoint.key_hint))
        # No tick before anything is proved.
        self.screen.step("info", endpoint.openai_base_url, said)
        name = self._profile_name(endpoint.openai_base_url)
        self.endpoint = replace(endpoint, name=name)
        self.profile = Profile(
            name, endpoint.openai_base_url, endpoint.anthropic_base_url, endpoint.model, kind=endpoint.kind
        )
        self._did("connect")

    def _profile_name(self, url: str, server: str = "") -> str:
        """Under which the endpoint is remembered. A name that was given and is another endpoint's is asked about.
        server: ours that is there, whose port may be another than last time."""
        known = self.world.profiles.load().by_name
        self._replaces = ""
        free = free_profile_name(url, known)
        wanted = self.road.text("profile")
        if not wanted:
            return free
        if wanted not in known or _same_base(known[wanted], url) or (server and known[wanted].server == server):
            return wanted
        old = known[wanted].openai_base_url
        if self.questions.may_ask:
            question = t("The profile `{name}` is {old}. What now?", name=wanted, old=old)
            rows = [
                Choice(free, t("Remember this one as `{name}`", name=free)),
                Choice(wanted, t("Replace it")),
            ]
            return self.questions.choose("--profile NAME", question, rows, free, may_go_back=self.road.can_go_back)
        # Said where it is done: a proof may fail before.
        self._replaces = old
        return wanted

    def _remembered_key(self, url: str) -> Secret | None:
        """The key of an earlier run with the same URL, so that `init` twice needs it once."""
        from wizard.endpoint import urls

        wanted = urls.without_version(urls.without_endpoint(url))
        for profile in self.world.profiles.load().by_name.values():
            if profile.key_reference and urls.without_version(profile.openai_base_url) == wanted:
                return self.world.secrets.get(profile.key_reference)
        return None

    def _healthy_server(self, *, show: bool = False) -> ServerRecord | None:
        """Our server, when it runs, answers, and is the one that was asked for: nothing is planned anew then, since a
        plan made beside a running server would see its memory as taken."""
        from wizard.flows.status import observe_server

        record = self.world.servers.load(DEFAULT_NAME)
        if record is None:
            return None
        seen = observe_server(self.world, record)
        road = self.road
        wanted = road.text("model")
        same = (
            (wanted in ("", record.model, record.served_name) or (wanted == EMBEDDED and _is_embedded(record)))
            and road.number("port") in (None, record.port)
            and not road.words("set")
            and road.number("context") in (None, record.max_model_len)
        )
        healthy = seen.state == "ready" and same
        if show and (healthy or seen.state == "dead"):
            self.screen.title(t("Server"))
            if healthy:
                self.screen.step("ok", t("already running at {url}", url=record.url), record.served_name)
            else:
                self.screen.step("warning", t("the server of an earlier run is not there any more"))
        return record if healthy else None

    def _wanted(self) -> ServeAnswers:
        """What is to be served, as `serve` would be told."""
        from wizard.flows.serve_model import ServeAnswers, read_pin

        road = self.road
        model = road.text("model")
        return ServeAnswers(
            model=None if model == EMBEDDED else model,
            host=road.text("host") or "127.0.0.1",
            port=road.number("port"),
            vllm=road.text("vllm") or None,
            context_tokens=road.number("context"),
            clients=road.words("clients"),
            pins=tuple(read_pin(text) for text in road.words("set")),
            replace_running=True,
        )

    def _plan(self) -> None:
        """What would be started, shown before anything is installed, fetched or started for it."""
        from wizard.flows.download import TOKEN_NAME, token_environment
        from wizard.flows.plan import machine_name, show_choice
        from wizard.flows.runtime import find_runtime, given_runtime
        from wizard.flows.serve_model import plan_ahead
        from wizard.serving.install_plan import TESTED_VERSION

        if self.manner.dry_run:
            self._did("plan")
            return
        # A token of an earlier run is asked for no second time, for the model's facts neither.
        known = token_environment(self._world) if TOKEN_NAME in self._world.secrets.names() else {}
        if known:
            self._world = replace(self._world, env={**self._world.env, **known})
            self._with_hub = None
        wanted = self._wanted()
        self.plan = None
        self.runtime = given_runtime(self.world, wanted.vllm) if wanted.vllm else None
        self.runtime = self.runtime or find_runtime(self.world, self.screen, self._here)
        version = self.runtime.vllm_version if self.runtime else TESTED_VERSION
        plan = plan_ahead(self.world, self._here, wanted, version)
        self.plan = plan
        # Flags of what does not fit would be read as advice.
        show_choice(self.screen, replace(plan, problems=()), machine_name(self._here), flags=plan.fits)
        self.journey.document["plan"] = plan.as_json()
        if plan.problems:
            raise ProblemError(plan.problems[0])
        self._did("plan")

    def _serve(self) -> None:
        record = None
        if self.road.text("source") == "running":
            record = self._healthy_server()
            if record is None:
                # It ended meanwhile, or since the run that is taken up here: another is planned.
                self.road = self.road.reopened("source").answered("source", "serve")
                return
        if record is None and self.manner.dry_run:
            self._would_serve()
            return
        if record is None:
            record = self._start_server()
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
        self.profile = Profile(
            name=self._profile_name(f"{record.url}/v1", record.name) if self.road.text("profile") else record.name,
            openai_base_url=f"{record.url}/v1",
            anthropic_base_url=record.url,
            model=record.served_name,
            key_reference=record.key_reference,
            max_model_len=record.max_model_len,
            kind="vllm",
            server=record.name,
        )
        self.endpoint = self.profile.endpoint(key)
        self._did("serve")

    def _would_serve(self) -> None:
        """The endpoint that a start would give, for `--dry-run`; its key is made at the start."""
        from wizard.flows.serve_dry import plan_dry_run, show_dry_run

        would = plan_dry_run(self.world, self.screen, self._here, self._wanted())
        show_dry_run(self.screen, would)
        self.journey.document["serve"] = would.as_json()
        root = f"http://{would.host}:{would.port}"
        self.profile = Profile(
            name=DEFAULT_NAME,
            openai_base_url=f"{root}/v1",
            anthropic_base_url=root,
            model=would.served_name,
            max_model_len=would.max_model_len,
            kind="vllm",
            server=DEFAULT_NAME,
        )
        self.endpoint = self.profile.endpoint(Secret("made-when-the-server-starts"))
        self._did("serve")

    def _start_server(self) -> ServerRecord:
        from wizard.flows.serve_model import prepare, serve_model

        wanted = self._wanted()
        with self._station("prepare"):
            self.screen.title(t("vLLM and model"))
            self._remember_choices()
            self._stays.append(t("what was installed and fetched until now"))
            prepared = prepare(
                self.world,
                self.screen,
                self._here,
                wanted,
                ask_token=lambda text: self.questions.secret("HF_TOKEN", text),
                runtime=self.runtime,
            )
        self.runtime = prepared.runtime
        if prepared.plan is not None:
            self.journey.document["plan"] = prepared.plan.as_json()
            if self.plan is not None and wanted.model is not None and prepared.plan.flags != self.plan.flags:
                version = prepared.plan.vllm_version
                self.screen.step("info", t("planned again for vLLM {version}", version=version))
            # The plan was shown with its warnings; only that of the embedded model is not among them.
            prepared = replace(prepared, warnings=prepared.warnings if wanted.model is None else ())
        with self._station("start"):
            self.screen.title(t("Start"))
            record = serve_model(self.world, self.screen, prepared, wanted, yes=self.manner.yes, agree=self._agree)
        self._stays.append(t("the server at {url}; `llm-setup stop` ends it", url=record.url))
        return record

    def _agree(self, question: str) -> bool:
        return self.questions.confirm("--yes", question)

    def _prove(self) -> None:
        from wizard.flows.profiles import key_name

        if self.manner.dry_run:
            if self._replaces and self.profile is not None:
                name, old = self.profile.name, self._replaces
                self.screen.step("warning", t("profile `{name}` would be replaced; it is {old}", name=name, old=old))
            self._did("prove")
            return
        assert self.endpoint is not None and self.profile is not None
        endpoint, profile = self.endpoint, self.profile
        self.screen.title(t("Proof: requests as clients send them"))
        with self._station("prove"):
            record = self.world.servers.load(profile.server) if profile.server else None
            small = record is not None and _is_embedded(record)
            proof = prove_endpoint(self.world, self.screen, endpoint, ours=record is not None, calls_tools=not small)
            self.journey.document["proof"] = [step.as_json() for step in proof.steps]
            if not proof.ok:
                raise ProblemError(self._why_unproved(endpoint, proof))
            length = proof.models.get(endpoint.model) or endpoint.max_model_len
            self.endpoint = endpoint = replace(endpoint, speaks=proof.speaks, max_model_len=length)
            reference = profile.key_reference
            if endpoint.key and not reference:
                reference = self.world.secrets.put(key_name(profile.name), endpoint.key)
            speaks = tuple(sorted(proof.speaks))
            self.profile = replace(profile, speaks=speaks, max_model_len=length, key_reference=reference)
            self.world.profiles.put(self.profile, activate=True)
            self._stays.append(t("the profile `{name}`, which is the active one now", name=profile.name))
            if self._replaces:
                said = t("profile `{name}` is replaced; it was {old}", name=profile.name, old=self._replaces)
                self.screen.step("warning", said)
        self.journey.document["endpoint"] = {
            "profile": profile.name,
            "openai_base_url": endpoint.openai_base_url,
            "anthropic_base_url": endpoint.anthropic_base_url,
            "model": endpoint.model,
            "key": endpoint.key_hint,
            "max_model_len": length,
            "speaks": sorted(proof.speaks),
        }
        self._did("prove")

    def _why_unproved(self, endpoint: Endpoint, proof: Proof) -> Problem:
        """The doctor's root cause, with what the proof saw; the proof's own lines where the doctor finds none."""
        saw = tuple(f"{step.title}: {step.detail}" if step.detail else step.title for step in proof.failed)
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
        options = DoctorOptions(
            base_url=endpoint.openai_base_url, model=endpoint.model, client_type="openai-sdk", by_itself=False
        )
        report = run_doctor(asked, self.screen, options)
        found = report.diagnosis.first_error
        if found is None or found.fix is None:
            return found
        # The request was sent as an SDK that nobody chose sends it: the endpoint that was found is taken by `init`.
        fixed, chosen = f"llm-setup clients apply {options.client_type} ", self.road.given.get("clients")
        clients = "".join(f" --client {name}" for name in chosen) if isinstance(chosen, tuple) else ""
        kept = tuple(
            f"llm-setup init {command.removeprefix(fixed)}{clients}" if command.startswith(fixed) else command
            for command in found.fix.commands
            if command.startswith(fixed) or options.client_type not in command
        )
        for command in kept:
            words = command.split()
            if command.startswith("llm-setup init ") and "--base-url" in words[:-1]:
                self._chosen["base_url"] = words[words.index("--base-url") + 1]
        return replace(found, fix=replace(found.fix, commands=kept))

    def _apply(self) -> None:
        """Show the changes of the clients' files and write them: none where the question is answered with no."""
        from wizard.flows.clients import apply_clients

        assert self.endpoint is not None
        self.written = ()
        if self.road.words("clients"):
            self.screen.title(t("Client files"))
        clients = self._with_an_answer(self.endpoint.max_model_len)
        if clients:
            with self._station("clients"):
                applied = apply_clients(
                    self.world,
                    self.screen,
                    self.endpoint,
                    clients,
                    scope=self._scope,
                    yes=self.manner.yes,
                    dry_run=self.manner.dry_run,
                    confirm=lambda text: self.questions.confirm("--yes", text, may_go_back=self.road.can_go_back),
                )
            self.journey.document["clients"] = [one.as_json() for one in applied]
            self.written = tuple(one.client for one in applied if one.status in ("applied", "unchanged"))
            if any(one.status == "applied" for one in applied) and not self.manner.dry_run:
                self._stays.append(
                    t("the written client files; `llm-setup clients restore --all --yes` takes them back")
                )
        self._did("apply")

    def _with_an_answer(self, room: int | None) -> tuple[str, ...]:
        """The chosen clients without those that cannot get one answer in this context, which may have worked with what
        their files say now: they were named, or are chosen once more after that was said."""
        from wizard.flows.init_room import nobody_answers, say_left_out, without_answer

        chosen = self.road.words("clients")
        named = self.road.words("clients_anyway")
        silent = without_answer(self.world, chosen, room)
        self.left_out = tuple(spec for spec in silent if spec.name not in named)
        self.journey.document.pop("left_out", None)
        if not self.left_out or room is None:
            return chosen
        say_left_out(self.screen, self.left_out, room)
        if self.questions.may_ask:
            rows = [Choice(spec.name, spec.title) for spec in self.left_out]
            question = t("Write the files of any of these all the same?")
            wanted = self.questions.several("--client NAME", question, rows, (), may_go_back=self.road.can_go_back)
            self._answer("clients_anyway", (*named, *wanted))
            self.left_out = tuple(spec for spec in self.left_out if spec.name not in wanted)
        out = {spec.name for spec in self.left_out}
        self.journey.document["left_out"] = sorted(out)
        rest = tuple(name for name in chosen if name not in out)
        if not rest and not self.manner.dry_run and not self.questions.may_ask:
            problem = nobody_answers(self.left_out, room)
            self.journey.problems.append(problem)
            self.screen.problem(problem)
        return rest

    def _verify(self) -> None:
        """Each client's own request, from the file just written. For one that fails: its cause, and ways on; the road
        ends well for the others."""
        from wizard.flows.verify import verify_clients

        if self.written and not self.manner.dry_run:
            self.screen.title(t("Proof as each client, from its own file"))
            with self._station("verify"):
                verified = verify_clients(self.world, self.screen, self.written)
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
                self.screen.line()
                self.screen.problem(problem)
                if not self._goes_on_after(tuple(one.client for one in failed)):
                    return
                self.journey.problems.append(problem)
            self._judge_room(
                tuple(one.client for one in verified if one.status == "context"),
                tuple(one.client for one in verified if one.status in ("ok", "failed")),
            )
        self._did("verify")

    def _judge_room(self, silent: tuple[str, ...], others: tuple[str, ...]) -> None:
        """silent: clients whose own first request the model does not hold; others: those whose it does. A warning for
        each, or, where no agent is left that answers and nobody was asked, the problem that none does."""
        from wizard.clients.fit import judge_room
        from wizard.flows.clients import choose_clients, load_clients
        from wizard.flows.init_room import nobody_answers

        room = self._room
        if not silent or room is None:
            return
        known = load_clients(self.world)
        specs = tuple(client.spec for client in choose_clients(known, silent))
        if self.questions.may_ask or any("tools" in known[name].spec.needs for name in others):
            # `clients apply` showed them beside the files, and who was asked wanted those.
            self.journey.problems += [problem for spec in specs for problem in judge_room(spec, room)]
            return
        problem = nobody_answers(specs, room, written=True)
        self.journey.problems.append(problem)
        self.screen.line()
        self.screen.problem(problem)

    def _goes_on_after(self, failed: tuple[str, ...]) -> bool:
        """What is to be done about clients that get no answer; False: their requests are to be sent again."""
        from wizard.flows.clients import restore_clients
        from wizard.flows.doctor import DoctorOptions, run_doctor

        if not self.questions.may_ask:
            return True
        self.screen.step("running", t("the doctor looks for the cause"))
        report = run_doctor(self.world, self.screen, DoctorOptions(client=failed[0]))
        cause = report.diagnosis.first_error
        if cause is not None:
            self.screen.line()
            self.screen.problem(cause)
        rows = [
            Choice("retry", t("Try again")),
            Choice("restore", t("Take their files back")),
            Choice("leave", t("Leave the files as they are")),
        ]
        chosen = self.questions.choose("--yes", t("What now?"), rows, "retry")
        if chosen == "restore":
            restore_clients(self.world, self.screen, failed, yes=True)
            self.written = tuple(name for name in self.written if name not in failed)
        return chosen != "retry"

    def _finish(self) -> None:
        self._forget()
        if self.manner.dry_run:
            return
        if self.road.text("source") == "running":
            self._remember_choices()
        if self.manner.save_to is not None:
            kept = {name: answer for name, answer in self.road.kept().items() if name not in ("key", "agree")}
            # What was left out is written by no replay either, and who was wanted all the same is, again.
            out = {spec.name for spec in self.left_out}
            kept["clients"] = tuple(name for name in self.road.words("clients") if name not in out)
            if not kept.get("clients_anyway"):
                kept.pop("clients_anyway", None)
            self._world.files.write_private(self.manner.save_to.expanduser(), render_answers(kept).encode())
            self.screen.step("ok", t("answers saved; `llm-setup init --answers FILE` gives them again"))
        self._say_outlook()
        self.screen.title(t("What now"))
        served = self.profile is not None and self.profile.server
        rows = (
            *self._programs(),
            ("llm-setup status", t("what the server does"))
            if served
            else ("llm-setup profiles", t("this endpoint, and others by name")),
            ("llm-setup doctor", t("when something does not work")),
            ("llm-setup clients restore --all --yes", t("every client file as it was")),
        )
        width = max(display_width(command) for command, _ in rows)
        for command, what in rows:
            if self.screen.interactive and 8 + width + display_width(what) > self.screen.columns:
                self.screen.line(f"    {command}")
                self.screen.line(f"      {what}")
            else:
                self.screen.line(f"    {pad(command, width)}   {what}")

    def _programs(self) -> tuple[tuple[str, str], ...]:
        """What starts the clients that were set up, answer, and are found here."""
        from wizard.effects.installed import find_program
        from wizard.flows.clients import choose_clients, load_clients
        from wizard.flows.init_room import without_answer

        silent = without_answer(self.world, self.written, self._room)
        specs = [client.spec for client in choose_clients(load_clients(self.world), self.written)]
        found = []
        for spec in specs:
            program = next((name for name in spec.programs if find_program(name, self.world.env) is not None), None)
            if program is not None and spec not in silent and "tools" in spec.needs:
                found.append((program, t("start {title}", title=spec.title)))
        return tuple(found)

    def _say_outlook(self) -> None:
        from wizard.flows.init_room import look_out, say_outlook

        told = any(problem.code == "no-client-answers" for problem in self.journey.problems)
        say_outlook(self.screen, look_out(self.world, self.written, self.left_out, self._room), told=told)

    @contextmanager
    def _station(self, name: str) -> Iterator[None]:
        begun = self.world.clock.monotonic_s()
        try:
            yield
        finally:
            spent = round(self.world.clock.monotonic_s() - begun, 3)
            self.journey.seconds[name] = round(self.journey.seconds.get(name, 0.0) + spent, 3)


class LeftError(Exception):
    """The user saw a problem, and left."""

    def __init__(self, error: ProblemError) -> None:
        super().__init__(str(error))
        self.exit_code = error.exit_code


# Where a failure is met with a question. At another step it is one of usage, or of files that are not ours.
_MENDABLE: tuple[Step, ...] = ("plan", "serve", "discover", "connect", "prove", "measure-hub", "apply")


def _way_title(way: WayOut) -> str:
    return {
        "retry": t("Try again"),
        "another-model": t("Take another model"),
        "change-flag": t("Change a flag"),
        "smaller-context": t("Take a smaller context"),
        "another-hub": t("Fetch from another hub"),
        "token": t("Enter a token of the hub"),
        "another-url": t("Enter another URL"),
        "another-key": t("Enter another key"),
        "gateway": t("Take a gateway or another server"),
        "serve-here": t("Serve on this machine instead"),
        "own-vllm": t("Use a vLLM that is here"),
        "other-clients": t("Choose other clients"),
        "leave": t("Leave; the answers are kept"),
    }[way]


def _state(client: str, installed: set[str], applied: set[str], on_path: bool) -> str:
    """on_path: its command is found; else only its folder is, as of a plug-in, or of what was installed once."""
    if client in installed:
        return t(" (installed)") if on_path else t(" (its settings are here)")
    return t(" (set up)") if client in applied else ""


def _is_embedded(record: ServerRecord) -> bool:
    return Path(record.model).name == embedded.FOLDER_NAME


_LABEL = re.compile(r"\s*(?:\S+(?:\s\S+)*?\s{2,})?")
# What people call the answers of the road, and the places where a model can run.
_WORDS = {
    "clients": "clients",
    "source": "source",
    "gateway": "gateway",
    "base_url": "base URL",
    "model": "model",
    "context": "context",
    "profile": "profile",
    "scope": "scope",
    "serve": "started here",
    "running": "runs here",
    "url": "at a URL",
}


def _called(word: Answer) -> str:
    return t(_WORDS.get(str(word), str(word)))


def _said(answer: Answer) -> str:
    return ", ".join(answer) if isinstance(answer, tuple) else str(answer)


def _wrong_url(line: str) -> str:
    try:
        check_base_url(line)
    except ProblemError as error:
        return f"{error.problem.what} {t('Example: {example}', example='http://127.0.0.1:8000/v1')}"
    return ""


def _not_empty(line: str) -> str:
    return "" if line else t("A name is needed.")


def _no_number(line: str) -> str:
    return "" if line.isdecimal() and int(line) > 0 else t("A whole number is needed.")


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


def free_profile_name(url: str, known: Mapping[str, Profile]) -> str:
    """A name for the endpoint at this base URL: its host, with the port or a number where that is another's already."""
    from urllib.parse import urlsplit

    from wizard.flows.profiles import free_name

    parts = urlsplit(url)
    host = (parts.hostname or "endpoint").removeprefix("www.").removeprefix("api.").replace(":", "-")
    names = [host, *([f"{host}-{parts.port}"] if parts.port else [])]
    return free_name(names, known, lambda profile: _same_base(profile, url))


def _same_base(profile: Profile, url: str) -> bool:
    from wizard.endpoint import urls

    return urls.without_version(profile.openai_base_url) == urls.without_version(url)
