"""A model is fetched once, with room checked first; a gated one asks for a token, which is kept."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from wizard.effects.clock import Clock
from wizard.effects.files import Files
from wizard.effects.http import Http
from wizard.effects.paths import state_paths
from wizard.effects.processes import Processes
from wizard.effects.world import World
from wizard.flows.download import ensure_model, token_environment
from wizard.problems import ProblemError
from wizard.secret import Secret
from wizard.serving.download import DownloadProgress, advance_download
from wizard.serving.runtime import Runtime
from wizard.ui.screen import Screen

RUNTIME = Runtime("own", "/v/bin/python", "0.32.0", "cuda", "2.13.0", ("/v/bin/python",), "own", "/v")
MODEL = "someone/model"
GATED = [
    "huggingface_hub.errors.GatedRepoError: 401 Client Error. Cannot access gated repo for url "
    "https://huggingface.co/someone/model/resolve/main/config.json."
]


class Hub(Processes):
    """Stands in for the script: answers in turn, and notes the environment that it was given."""

    def __init__(self, *answers: tuple[int, list[str]]) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[Mapping[str, str]] = []

    def stream(
        self, argv: Sequence[str], *, env: Mapping[str, str], on_line: Callable[[str], None], cwd: Path | None = None
    ) -> int:
        self.asked.append(env)
        code, lines = self.answers.pop(0)
        for line in lines:
            on_line(line)
        return code


def _world(tmp_path: Path, hub: Hub, **env: str) -> World:
    variables = {"LLM_SETUP_HOME": str(tmp_path / "own")} | env
    return World(variables, tmp_path, tmp_path, "linux", state_paths(variables), Files(), Http(), Clock(), hub)


@pytest.fixture
def screen() -> Screen:
    return Screen(out=io.StringIO(), err=io.StringIO(), env={}, plain=True)


FETCHED = (0, ["sizes 1000 400", "done 700", "folder /cache/snapshot"])


def test_a_model_that_is_not_here_is_fetched(tmp_path: Path, screen: Screen) -> None:
    hub = Hub(FETCHED)
    ensure_model(_world(tmp_path, hub), screen, RUNTIME, MODEL)
    assert len(hub.asked) == 1


def test_nothing_is_asked_offline(tmp_path: Path, screen: Screen) -> None:
    assert ensure_model(_world(tmp_path, Hub(), HF_HUB_OFFLINE="1"), screen, RUNTIME, MODEL) == MODEL


def test_modelscopes_client_is_fetched_once_and_its_models_lie_in_folders(tmp_path: Path, screen: Screen) -> None:
    hub = Hub((0, []), FETCHED, FETCHED)
    world = _world(tmp_path, hub, VLLM_USE_MODELSCOPE="1")
    folder = ensure_model(world, screen, RUNTIME, MODEL)
    assert Path(folder).is_relative_to(tmp_path / "own")
    assert ensure_model(world, screen, RUNTIME, MODEL) == folder
    ensure_model(world, screen, RUNTIME, "someone/else")
    assert hub.answers == []


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("models/someone--model-1.5/snapshots/master", id="as of 1.38"),
        pytest.param("hub/models/someone/model-1___5", id="before"),
        pytest.param("hub/someone/model-1___5", id="older"),
    ],
)
def test_a_model_that_modelscopes_client_fetched_before_is_used(tmp_path: Path, screen: Screen, place: str) -> None:
    folder = tmp_path / ".cache" / "modelscope" / place
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text("")
    for hub in ({"VLLM_USE_MODELSCOPE": "1"}, {}):
        assert ensure_model(_world(tmp_path, Hub(), **hub), screen, RUNTIME, "someone/model-1.5") == str(folder)


def test_modelscope_asks_once_for_a_token_of_its_own(tmp_path: Path, screen: Screen) -> None:
    hub = Hub((0, []), (41, ["PermissionDeniedError: [403] no access"]), FETCHED)
    world = _world(tmp_path, hub, VLLM_USE_MODELSCOPE="1")
    ensure_model(world, screen, RUNTIME, MODEL, ask_token=lambda question: "ms-" + "secret" * 5)
    assert "MODELSCOPE_API_TOKEN" not in hub.asked[1]
    assert hub.asked[2]["MODELSCOPE_API_TOKEN"] == "ms-" + "secret" * 5
    assert token_environment(world) == {}


def test_nothing_is_asked_for_a_folder(tmp_path: Path, screen: Screen) -> None:
    ensure_model(_world(tmp_path, Hub()), screen, RUNTIME, str(tmp_path))


@pytest.mark.parametrize("whole", [True, False])
def test_what_the_cache_has_is_used_when_it_is_whole(tmp_path: Path, screen: Screen, whole: bool) -> None:
    snapshot = tmp_path / "hub" / "models--someone--model" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    for number in (1, 2) if whole else (1,):
        (snapshot / f"model-{number}.safetensors").write_text("")
    hub = Hub(FETCHED)
    ensure_model(_world(tmp_path, hub, HF_HUB_CACHE=str(tmp_path / "hub")), screen, RUNTIME, MODEL)
    assert len(hub.asked) == (0 if whole else 1)


def test_too_little_room_is_said_with_what_is_missing(tmp_path: Path, screen: Screen) -> None:
    hub = Hub((28, [f"sizes {90 * 2**30} {60 * 2**30}"]))
    with pytest.raises(ProblemError) as caught:
        ensure_model(_world(tmp_path, hub), screen, RUNTIME, MODEL)
    assert caught.value.problem.code == "disk-space"
    assert "60.0 GiB" in caught.value.problem.why


def test_a_gated_model_asks_once_for_a_token_which_is_kept_and_not_shown(tmp_path: Path, screen: Screen) -> None:
    hub = Hub((1, GATED), FETCHED)
    world = _world(tmp_path, hub)
    ensure_model(world, screen, RUNTIME, MODEL, ask_token=lambda question: "hf_" + "secret" * 5)
    assert "HF_TOKEN" not in hub.asked[0]
    assert hub.asked[1]["HF_TOKEN"] == "hf_" + "secret" * 5
    assert token_environment(world) == {"HF_TOKEN": "hf_" + "secret" * 5}


def test_without_anyone_to_ask_a_gated_model_is_a_problem(tmp_path: Path, screen: Screen) -> None:
    with pytest.raises(ProblemError) as caught:
        ensure_model(_world(tmp_path, Hub((1, GATED))), screen, RUNTIME, MODEL)
    assert caught.value.problem.code == "hf-gated-401"


def test_the_users_own_token_comes_first(tmp_path: Path) -> None:
    world = _world(tmp_path, Hub(), HF_TOKEN="hf_own_token_0000")
    world.secrets.put("hub-token", Secret("hf_kept_token_0000"))
    assert token_environment(world) == {}


def test_another_failure_says_its_last_line(tmp_path: Path, screen: Screen) -> None:
    with pytest.raises(ProblemError) as caught:
        ensure_model(_world(tmp_path, Hub((1, ["OddError: the moon"]))), screen, RUNTIME, MODEL)
    assert caught.value.problem.code == "model-download-failed"
    assert caught.value.problem.saw[0] == "OddError: the moon"


def test_progress_counts_what_was_here_before() -> None:
    progress = DownloadProgress()
    assert progress.fraction is None
    for line, fraction in (("sizes 1000 400", 0.6), ("done 800", 0.8), ("done 700", 0.8), ("noise", 0.8)):
        progress = advance_download(progress, line)
        assert progress.fraction == fraction
    assert advance_download(progress, "folder /x").folder == "/x"
