"""Models fetched by the hubs' own clients from a hub on loopback: whole, interrupted, gated, without room, mirrored."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from wizard.effects.clock import Clock
from wizard.effects.files import Files
from wizard.effects.http import Http
from wizard.effects.paths import state_paths
from wizard.effects.processes import Processes
from wizard.effects.world import World
from wizard.flows import download
from wizard.flows.download import ensure_model
from wizard.flows.runtime import given_runtime
from wizard.problems import ProblemError
from wizard.ui.screen import Screen

from .hub_standin import StandinHub
from .installing import cache_folder
from .processes import environment, free_port, run
from .vllm_servers import CPU_ENVIRONMENT

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]
MODEL = "someone/model"
WEIGHTS = random.Random(4).randbytes(32_000_000)
FILES = {
    "config.json": json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama"}).encode(),
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"\0" * 200_000,
    "original/consolidated.00.pth": b"\0" * 200_000,
    "README.md": b"# a model",
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "vocab_size": 1024,
    "torch_dtype": "bfloat16",
}
TOKEN = "hf_token_of_this_test_0000"


def refuse(question: str) -> str:
    raise AssertionError(f"asked: {question}")


class Place:
    """A home, a hub, and the runtime's Python."""

    def __init__(self, home: Path, runtime: Path, hub: str, url: str) -> None:
        own = {"HF_ENDPOINT": url} if hub == "huggingface" else {"VLLM_USE_MODELSCOPE": "1", "MODELSCOPE_DOMAIN": url}
        # The clients' own retries wait for seconds between attempts.
        env = environment(home, LLM_SETUP_HOME=str(home / "own"), NO_PROXY="*", HF_HUB_DISABLE_XET="1", **own)
        self.world = World(env, home, home, "linux", state_paths(env), Files(), Http(), Clock(), Processes())
        self.said = io.StringIO()
        self.screen = Screen(out=self.said, err=self.said, env={}, plain=True)
        self.runtime = given_runtime(self.world, str(runtime))
        self.hub = hub
        # ModelScope's client is fetched by the first test that needs it.
        tools = self.world.paths.runtimes.parent / "tools"
        tools.parent.mkdir(parents=True, exist_ok=True)
        (cache_folder() / "hub-clients").mkdir(parents=True, exist_ok=True)
        if not tools.exists():
            tools.symlink_to(cache_folder() / "hub-clients")

    def fetch(self, ask_token: Callable[[str], str] | None = refuse) -> str:
        return ensure_model(self.world, self.screen, self.runtime, MODEL, ask_token=ask_token)

    def files(self, served: str) -> dict[str, bytes]:
        """What vLLM will find, by name."""
        if served == MODEL:
            (snapshots,) = self.world.home.glob(".cache/huggingface/hub/models--*/snapshots")
            (folder,) = snapshots.iterdir()
        else:
            folder = Path(served)
        names = [name for name in FILES if (folder / name).exists()]
        return {name: (folder / name).read_bytes() for name in names}

    def written(self) -> int:
        """Bytes on the disk of half fetched files."""
        return sum(path.stat().st_size for path in self.world.home.rglob("*.incomplete") if path.is_file())


@pytest.fixture(params=["huggingface", "modelscope"])
def hub_kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def hub() -> Iterator[StandinHub]:
    with StandinHub(FILES, MODEL) as standin:
        yield standin


@pytest.fixture
def place(tmp_path: Path, vllm_runtime: Path, hub: StandinHub, hub_kind: str) -> Place:
    made = Place(tmp_path, vllm_runtime, hub_kind, hub.url)
    return made


WANTED = {name: FILES[name] for name in ("config.json", "tokenizer.json", "model.safetensors")}


def test_what_vllm_needs_is_fetched_once_and_whole(place: Place, hub: StandinHub) -> None:
    served = place.fetch()
    assert place.files(served) == WANTED
    assert (served == MODEL) == (place.hub == "huggingface")
    asked = len(hub.asked)
    assert place.fetch() == served
    assert len(hub.asked) == asked


def test_a_cut_connection_is_taken_up_where_it_broke(place: Place, hub: StandinHub) -> None:
    hub.cut_after, hub.cuts = 15_000_000, 1
    assert place.files(place.fetch()) == WANTED
    begun = hub.starts("model.safetensors")
    assert any(start > 0 for start in begun), begun


def test_a_killed_download_goes_on_from_what_is_on_the_disk(place: Place, hub: StandinHub) -> None:
    hub.bytes_per_s = 10_000_000

    def interrupt_when_half_is_here() -> None:
        until = time.monotonic() + 60
        while place.written() < 10_000_000 and time.monotonic() < until:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    interrupted = threading.Thread(target=interrupt_when_half_is_here)
    interrupted.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            place.fetch()
    finally:
        with suppress(KeyboardInterrupt):
            interrupted.join()
    hub.bytes_per_s, hub.asked[:] = 0, []
    assert place.files(place.fetch()) == WANTED
    assert max(hub.starts("model.safetensors")) >= 9_000_000


def test_a_gated_model_asks_once_for_a_token_that_the_cdn_never_sees(place: Place, hub: StandinHub) -> None:
    hub.token = TOKEN
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return TOKEN

    served = place.fetch(answer)
    assert place.files(served) == WANTED
    assert len(asked) == 1
    assert MODEL in asked[0]
    assert TOKEN not in place.said.getvalue()
    assert {each.token for each in hub.asked if each.by_cdn} <= {""}
    # Another model of that hub later, another run: the token is kept.
    again = Place(place.world.home, Path(place.runtime.python), place.hub, hub.url)
    for path in (*place.world.home.rglob("model.safetensors"), *place.world.home.rglob(".llm-setup-whole")):
        if "tools" not in path.parts:
            path.unlink()
    assert again.files(again.fetch(refuse)) == WANTED


def test_without_a_token_a_gated_model_is_named(place: Place, hub: StandinHub) -> None:
    hub.token = TOKEN
    with pytest.raises(ProblemError) as caught:
        place.fetch(None)
    assert caught.value.problem.code == "hf-gated-401"
    assert caught.value.problem.fix is not None


def test_too_little_room_is_said_before_any_weight_is_fetched(
    place: Place, hub: StandinHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "free_gib", lambda folder: 0.001)
    with pytest.raises(ProblemError) as caught:
        place.fetch()
    assert caught.value.problem.code == "disk-space"
    assert hub.starts("model.safetensors") == []


def test_a_model_that_the_hub_does_not_know_is_named(tmp_path: Path, vllm_runtime: Path, hub: StandinHub) -> None:
    place = Place(tmp_path, vllm_runtime, "huggingface", hub.url)
    with pytest.raises(ProblemError) as caught:
        ensure_model(place.world, place.screen, place.runtime, "someone/else")
    assert caught.value.problem.code == "model-not-found"


def test_a_hub_that_is_not_there_is_named(tmp_path: Path, vllm_runtime: Path, hub: StandinHub) -> None:
    place = Place(tmp_path, vllm_runtime, "huggingface", hub.url)
    place.world = replace(place.world, env={**place.world.env, "HF_ENDPOINT": "http://127.0.0.1:9"})
    with pytest.raises(ProblemError) as caught:
        place.fetch()
    assert caught.value.problem.code in ("hf-offline", "network-unreachable")


def test_a_start_from_modelscope_is_planned_from_the_models_own_files(
    tmp_path: Path, vllm_runtime: Path, hub: StandinHub
) -> None:
    place = Place(tmp_path, vllm_runtime, "modelscope", hub.url)
    hub.files = {**FILES, "config.json": json.dumps(LLAMA).encode()}
    env = {**place.world.env, "MODELSCOPE_DOMAIN": hub.url, "VLLM_USE_MODELSCOPE": ""}
    command = (sys.executable, "-m", "wizard", "serve", MODEL, "--from", "modelscope", "--vllm", place.runtime.python)
    ended = run((*command, "--dry-run", "--json"), env=env, cwd=place.world.home, within_s=60)
    assert ended.code == 0, ended.text
    assert MODEL in json.loads(ended.stdout)["command"]
    assert all(asked.path.startswith(f"/models/{MODEL}/resolve/master/") for asked in hub.asked if not asked.by_cdn)


@pytest.mark.timeout(400)
def test_vllm_serves_what_the_hub_gave(place: Place, hub: StandinHub, scripted_model: Path) -> None:
    """From one command: the plan by the model's own files, the download, the start, an answer."""
    hub.files = {path.name: path.read_bytes() for path in scripted_model.iterdir() if not path.name.startswith(".")}
    online = {name: value for name, value in CPU_ENVIRONMENT.items() if "OFFLINE" not in name}
    env = {**place.world.env, **online, "MODELSCOPE_DOMAIN": hub.url, "VLLM_USE_MODELSCOPE": ""}
    home = place.world.home
    wizard = (sys.executable, "-m", "wizard")
    given = (
        "serve",
        MODEL,
        "--from",
        place.hub,
        "--detach",
        "--vllm",
        place.runtime.python,
        "--port",
        str(free_port()),
    )
    try:
        ended = run(
            (*wizard, *given, "--set", "enforce-eager", "--set", "max-model-len=2048"), env=env, cwd=home, within_s=300
        )
        assert ended.code == 0, ended.text
        (server,) = json.loads(run((*wizard, "status", "--json"), env=env, cwd=home, within_s=30).stdout)["servers"]
        assert server["state"] == "ready"
        key = json.loads((home / "own" / "state" / "secrets.json").read_text())["server-local"]
        body = json.dumps(
            {"model": server["served_name"], "messages": [{"role": "user", "content": "say hi"}]}
        ).encode()
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        asked = urllib.request.Request(f"{server['base_url']}/chat/completions", body, headers)
        with urllib.request.urlopen(asked, timeout=120) as reply:
            assert json.load(reply)["choices"][0]["message"]["content"] == "Ready."
    finally:
        run((*wizard, "stop", "--all"), env=env, cwd=home, within_s=60)
