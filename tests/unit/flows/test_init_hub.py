"""Mirrors are offered where the hub is slow, with a measurement, and the choice is remembered."""

from typing import Any

import pytest

from wizard.effects.paths import remembered_hub
from wizard.endpoint.exchange import HttpFailure, HttpReply
from wizard.flows.init_hub import (
    Measured,
    check_hub,
    hub_environment,
    hub_name,
    judge_speed,
    measure_hub,
    measure_hubs,
    offer_hubs,
    remember_hub,
    with_hub,
)
from wizard.planning.hub import HubSource, hub_source
from wizard.problems import ProblemError
from wizard.text import display_width

SOURCE = HubSource("huggingface", "https://huggingface.co")


def reply(size: int, *, first_byte_s: float = 0.3, took_s: float = 0.5, status: int = 206) -> HttpReply:
    return HttpReply(status, (), b"x" * size, first_byte_s, first_byte_s + took_s)


@pytest.mark.parametrize(
    ("answer", "slow", "answers"),
    [
        pytest.param(reply(2**20, took_s=0.1), False, True, id="quick"),
        pytest.param(reply(2**20, took_s=3.0), True, True, id="slow"),
        pytest.param(reply(2**20, first_byte_s=3.0, took_s=0.1), True, True, id="late"),
        pytest.param(reply(400, status=404), False, True, id="no-such-file-tells-only-that-it-answers"),
        pytest.param(reply(400, status=401), False, True, id="gated"),
        pytest.param(reply(400, status=503), True, False, id="down"),
        pytest.param(HttpFailure("timeout", "", 4.0), True, False, id="no-answer"),
    ],
)
def test_a_hub_is_slow_when_a_mirror_is_worth_a_question(answer: Any, slow: bool, answers: bool) -> None:
    measured = judge_speed("huggingface", SOURCE, answer)
    assert (measured.slow, measured.answers) == (slow, answers)


def test_a_speed_is_of_the_bytes_after_the_first() -> None:
    measured = judge_speed("huggingface", SOURCE, reply(2**20, took_s=0.5))
    assert measured.mib_per_s == pytest.approx(2.0)
    assert "2.0 MiB/s" in measured.said


class SomeHubs:
    """Answers by host."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[Any] = []

    def send(self, request: Any) -> Any:
        self.asked.append(request)
        return next((a for host, a in self.answers.items() if host in request.url), HttpFailure("dns", "", 0.1))


def test_the_fastest_hub_comes_first(world: Any) -> None:
    from dataclasses import replace

    http = SomeHubs(hf=reply(2**20, took_s=0.1), modelscope=reply(2**20, took_s=0.05))
    there = replace(world, http=http)
    first = measure_hub(there, "huggingface", "org/m")
    assert not first.answers
    assert [hub.name for hub in measure_hubs(there, "org/m", first)] == ["modelscope", "hf-mirror", "huggingface"]
    assert all(dict(request.headers)["range"] == "bytes=0-1048575" for request in http.asked)


@pytest.mark.parametrize("columns", [40, 80])
def test_rows_are_whole_on_a_narrow_terminal(columns: int) -> None:
    measured = [
        Measured("huggingface", "huggingface.co", None, failure="unreachable"),
        Measured("modelscope", "www.modelscope.cn", 0.31, 123.45),
        Measured("hf-mirror", "hf-mirror.com", 0.31),
    ]
    for some in (measured, measured[:1]):
        assert all(display_width(row.title) <= columns - 6 for row in offer_hubs(some, columns))


def test_where_no_hub_answers_all_that_needs_none_comes_first() -> None:
    none = [Measured(name, f"{name}.host", None, failure="timeout") for name in ("huggingface", "hf-mirror")]
    titles = [row.title for row in offer_hubs(none, 80)]
    assert titles[0] == "A folder here that holds a model"
    assert titles[-2:] == ["huggingface.host  no answer (too slow)", "hf-mirror.host  no answer (too slow)"]


def test_a_token_goes_to_no_mirror(world: Any) -> None:
    from dataclasses import replace

    http = SomeHubs()
    there = replace(world, http=http, env={**world.env, "HF_TOKEN": "hf_0123456789abcdef"})
    measure_hubs(there, "org/m", measure_hub(there, "huggingface", "org/m"))
    with_token = {request.url.split("/")[2] for request in http.asked if "authorization" in dict(request.headers)}
    assert with_token == {"huggingface.co"}


@pytest.mark.parametrize(
    ("answer", "host"),
    [("hf-mirror", "hf-mirror.com"), ("modelscope", "www.modelscope.cn"), ("https://mirror.corp/hf", "mirror.corp")],
)
def test_a_choice_is_remembered_for_every_later_command(world: Any, answer: str, host: str) -> None:
    assert remember_hub(world, answer)
    assert not remember_hub(world, answer)
    later = world.env | remembered_hub(world.paths, world.env)
    assert hub_source(later).host == host
    assert hub_name(later) == answer
    assert hub_source(with_hub(world, answer).env).host == host


def test_the_environment_comes_before_what_is_remembered(world: Any) -> None:
    remember_hub(world, "hf-mirror")
    assert remembered_hub(world.paths, {"HF_ENDPOINT": "https://mine"}) == {}


def test_back_to_the_default_leaves_no_file(world: Any) -> None:
    remember_hub(world, "hf-mirror")
    remember_hub(world, "huggingface")
    assert remembered_hub(world.paths, {}) == {}
    assert list(world.paths.config.iterdir()) == []


def test_a_chosen_hub_replaces_the_environment_of_a_run() -> None:
    env = {"HF_ENDPOINT": "https://slow", "PATH": "/bin"}
    assert hub_environment(env, "modelscope") == {"PATH": "/bin", "VLLM_USE_MODELSCOPE": "True"}


def test_what_is_no_hub_is_wrong_usage() -> None:
    assert check_hub("hf-mirror.example") == "https://hf-mirror.example"
    with pytest.raises(ProblemError):
        check_hub("not a hub")
