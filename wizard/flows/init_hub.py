"""Where models are fetched from: measured by a short download, changed to a mirror where that is faster, remembered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from wizard.effects.hub import Hub, HubCache
from wizard.effects.paths import HUB_VARIABLES, hub_file
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpFailure, HttpReply
from wizard.endpoint.urls import check_base_url
from wizard.flows.init_model import NARROW
from wizard.i18n import t
from wizard.planning.hub import HUGGING_FACE, MIRROR, HubSource, hub_source
from wizard.ui.questions import Choice

# The answers that are no URL, and what each means to vLLM and to the hub's own client.
HUBS: dict[str, dict[str, str]] = {
    "huggingface": {},
    "hf-mirror": {"HF_ENDPOINT": MIRROR},
    "modelscope": {"VLLM_USE_MODELSCOPE": "True"},
}
# Rows of the question that are no hub; no answer of ours begins so.
MIRROR_URL, FOLDER, ANOTHER_MODEL, ELSEWHERE, AGAIN = "\0mirror", "\0folder", "\0model", "\0elsewhere", "\0again"
# What is fetched to measure: a file that nearly every model has, of some MiB, and no more of it than this.
_FILE = "tokenizer.json"
_MOST_BYTES = 2**20
TIME_LIMIT_S = 4.0
# Slower than this, a model of 10 GiB takes more than an hour and a half.
_SLOW_MIB_S = 2.0
_SLOW_FIRST_BYTE_S = 2.5
# Less than this was too little to tell a speed from.
_TELLING_BYTES = 100_000

# How a connection fails, in words that fit a row; a status is a number.
_FAILURES = {
    "refused": "refused",
    "timeout": "too slow",
    "dns": "name unknown",
    "tls": "certificate",
    "reset": "cut off",
    "proxy": "proxy",
    "unreachable": "unreachable",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One hub. first_byte_s None: no answer within the limit, `failure` says why. mib_per_s None: too little came."""

    name: str
    host: str
    first_byte_s: float | None
    mib_per_s: float | None = None
    failure: str = ""

    @property
    def answers(self) -> bool:
        """Whether the hub can be used."""
        return self.first_byte_s is not None

    @property
    def slow(self) -> bool:
        """Whether a mirror is worth a question."""
        if self.first_byte_s is None or self.first_byte_s > _SLOW_FIRST_BYTE_S:
            return True
        return self.mib_per_s is not None and self.mib_per_s < _SLOW_MIB_S

    @property
    def said(self) -> str:
        """The measurement, for people."""
        if self.first_byte_s is None:
            return t("no answer ({why})", why=t(_FAILURES.get(self.failure, self.failure)))
        if self.mib_per_s is None:
            return t("answers after {seconds:.1f} s", seconds=self.first_byte_s)
        return t("{speed:.1f} MiB/s, answers after {seconds:.1f} s", speed=self.mib_per_s, seconds=self.first_byte_s)

    @property
    def said_shortly(self) -> str:
        """The same for a narrow terminal."""
        if self.first_byte_s is None:
            return t("no answer")
        if self.mib_per_s is None:
            return f"{self.first_byte_s:.1f} s"
        return f"{self.mib_per_s:.1f} MiB/s"


def hub_environment(env: Mapping[str, str], answer: str) -> dict[str, str]:
    """The environment with the hub of an answer: a name of HUBS, or a mirror's URL."""
    given = HUBS.get(answer, {"HF_ENDPOINT": answer})
    return {name: value for name, value in env.items() if name not in HUB_VARIABLES} | given


def check_hub(answer: str) -> str:
    """The answer as it is remembered. Raises a usage problem for what is neither a known name nor a URL."""
    return answer if answer in HUBS else check_base_url(answer)


def hub_name(env: Mapping[str, str]) -> str:
    """The answer that stands for the hub of an environment."""
    source = hub_source(env)
    if source.kind == "modelscope":
        return "modelscope"
    return {HUGGING_FACE: "huggingface", MIRROR: "hf-mirror"}.get(source.endpoint, source.endpoint)


def measure_hub(world: World, answer: str, model: str) -> Measured:
    """Fetch the beginning of a file of the model, for at most TIME_LIMIT_S seconds."""
    source = hub_source(hub_environment(world.env, answer))
    token = HubCache(world.env, world.home).token() if answer == hub_name(world.env) else None
    reply = Hub(world.http, token).get(
        source.file_url(model, _FILE), timeout_s=TIME_LIMIT_S, max_bytes=_MOST_BYTES, span=(0, _MOST_BYTES - 1)
    )
    return judge_speed(answer, source, reply)


def judge_speed(answer: str, source: HubSource, reply: HttpReply | HttpFailure) -> Measured:
    """What a reply says of the hub's speed. A refusal tells how soon it answers, and nothing of its speed."""
    if isinstance(reply, HttpFailure):
        return Measured(answer, source.host, None, failure=reply.kind)
    if reply.status >= 500:
        return Measured(answer, source.host, None, failure=str(reply.status))
    size, took_s = len(reply.body), reply.elapsed_s - reply.first_byte_s
    if reply.status not in (200, 206) or size < _TELLING_BYTES or took_s <= 0:
        return Measured(answer, source.host, reply.first_byte_s)
    return Measured(answer, source.host, reply.first_byte_s, size / 2**20 / took_s)


def measure_hubs(world: World, model: str, first: Measured) -> tuple[Measured, ...]:
    """The hub that was measured, and the others, all at once; the fastest first."""
    others = [name for name in HUBS if name != first.name]
    with ThreadPoolExecutor(len(others)) as pool:
        measured = [first, *pool.map(lambda name: measure_hub(world, name, model), others)]
    return tuple(sorted(measured, key=_order))


def offer_hubs(measured: Sequence[Measured], columns: int) -> tuple[Choice, ...]:
    """The rows of the question, what can be done first: where no hub answers, all that needs none comes before them."""
    hubs = [Choice(hub.name, f"{hub.host}  {hub.said if columns >= NARROW else hub.said_shortly}") for hub in measured]
    mirror = Choice(MIRROR_URL, t("Another mirror, by its URL"))
    if any(hub.answers for hub in measured):
        return (*hubs, mirror)
    return (
        Choice(FOLDER, t("A folder here that holds a model")),
        mirror,
        Choice(ANOTHER_MODEL, t("Take another model")),
        Choice(ELSEWHERE, t("Take a gateway or another server")),
        Choice(AGAIN, t("Measure again")),
        *hubs,
    )


def _order(measured: Measured) -> tuple[bool, bool, float]:
    return not measured.answers, measured.slow, -(measured.mib_per_s or 0.0)


def with_hub(world: World, answer: str) -> World:
    """The surroundings with that hub, for everything that is fetched from now on."""
    return replace(world, env=hub_environment(world.env, answer))


def remember_hub(world: World, answer: str) -> bool:
    """Keep the choice for every later command; the default is kept by forgetting. Whether the file changed."""
    path = hub_file(world.paths)
    given = HUBS.get(answer, {"HF_ENDPOINT": answer})
    content = "".join(f"{name}={value}\n" for name, value in given.items()).encode()
    if (world.files.read_bytes(path) or b"") == content:
        return False
    if content:
        world.files.write_private(path, content)
    else:
        world.files.remove(path)
    return True
