"""The road of `init` as a value: order of questions, going back, taking up again, ways out of trouble."""

import pytest

from wizard.flows.init_road import (
    FIELDS,
    Answer,
    Road,
    Step,
    check_road,
    next_step,
    parse_answers,
    render_answers,
    taken,
    ways_out,
)
from wizard.problems import ProblemError

ANSWERS: dict[str, tuple[str, Answer]] = {
    "clients": ("clients", ("codex",)),
    "source": ("source", "serve"),
    "gateway": ("gateway", "taotoken"),
    "base-url": ("base_url", "http://h/v1"),
    "key": ("key", "given"),
    "served-model": ("model", "m"),
    "model": ("model", "org/m"),
    "hub": ("hub", "hf-mirror"),
    "agree": ("agree", "yes"),
}


def walk(road: Road) -> tuple[Road, list[Step]]:
    """Answer every question and do every step; which ones came, in order."""
    came: list[Step] = []
    while (step := next_step(road)) != "finish":
        came.append(step)
        assert len(came) < 30
        road = road.answered(*ANSWERS[step]) if step in ANSWERS else road.did(step)
    return road, came


QUESTIONS_HERE = ["clients", "source", "model", "measure-hub", "plan", "agree", "serve", "prove", "apply", "verify"]


def test_the_road_here_asks_four_questions_before_it_starts() -> None:
    assert walk(Road())[1] == QUESTIONS_HERE


def test_a_slow_hub_is_one_question_more() -> None:
    came = walk(Road(slow_hub=True))[1]
    assert came.index("hub") == came.index("measure-hub") + 1


def test_the_road_to_a_url() -> None:
    came = walk(Road({"source": "url"}))[1]
    assert came == ["clients", "base-url", "key", "discover", "served-model", "connect", "prove", "apply", "verify"]


def test_the_road_to_a_gateway_asks_which() -> None:
    assert walk(Road({"source": "gateway"}))[1][:3] == ["clients", "gateway", "base-url"]


def test_a_server_that_runs_is_not_planned() -> None:
    assert walk(Road({"source": "running"}))[1] == ["clients", "serve", "prove", "apply", "verify"]


def test_what_is_given_is_not_asked() -> None:
    given = {name: answer for name, answer in ANSWERS.values() if name not in ("gateway", "base_url", "key")}
    assert not {"clients", "source", "model", "hub", "agree"} & set(walk(Road(given))[1])


@pytest.mark.parametrize("road", [Road(), Road({"source": "url"}), Road({"source": "gateway"}), Road(slow_hub=True)])
def test_back_at_every_question_asks_the_one_before(road: Road) -> None:
    asked: list[Step] = []
    while (step := next_step(road)) != "finish":
        if step not in ANSWERS:
            road = road.did(step)
            continue
        if asked:
            before = road.back()
            while (again := next_step(before)) not in ANSWERS:
                before = before.did(again)
            assert again == asked[-1]
        asked.append(step)
        road = road.answered(*ANSWERS[step])
    assert len(asked) >= 4


def test_back_undoes_an_edit_of_a_flag_before_the_question_is_left() -> None:
    road = Road().answered("set", ("max-num-seqs=4",)).answered("set", ("max-num-seqs=8",))
    assert road.back().words("set") == ("max-num-seqs=4",)


def test_a_changed_answer_does_again_what_rests_on_it_and_nothing_else() -> None:
    road, _ = walk(Road())
    other = road.answered("model", "org/other")
    assert next_step(other) == "measure-hub"
    assert not other.has_done("serve")
    assert not other.has_done("prove")
    assert walk(road.answered("scope", "project"))[1] == ["apply", "verify"]


def test_what_followed_from_a_taken_back_answer_is_forgotten() -> None:
    road = Road().answered("base_url", "http://h").assuming("model", "m")
    assert road.text("model") == "m"
    assert road.back().text("model") == ""


def test_a_run_that_was_left_is_taken_up_at_its_question() -> None:
    road = Road().answered("clients", ("codex",)).answered("source", "serve").answered("model", "org/m")
    again = Road({"port": 9000}).resumed(parse_answers(render_answers(road.kept()), "f", kept=True))
    assert next_step(again) == "measure-hub"
    assert again.number("port") == 9000
    assert next_step(again.back()) == "model"


def test_clients_that_were_named_are_so_still_when_the_run_is_taken_up_without_the_flag() -> None:
    left = Road({"clients": ("codex",), "clients_anyway": ("codex",)}).answered("source", "serve")
    again = Road().resumed(parse_answers(render_answers(left.kept()), "kept", kept=True))
    assert again.words("clients_anyway") == ("codex",)


def test_flags_come_before_the_answers_of_a_run_that_was_left() -> None:
    again = Road({"model": "org/new"}).resumed({"clients": ("codex",), "model": "org/old", "vllm": "/v"})
    assert again.text("model") == "org/new"
    assert again.text("vllm") == "/v"
    assert again.asked == (("clients", ("codex",)),)


LEFT: dict[str, Answer] = {"clients": ("codex",), "source": "url", "base_url": "http://a", "key": "given", "model": "m"}


@pytest.mark.parametrize(
    "given",
    [{"source": "url", "base_url": "http://b"}, {"source": "gateway", "gateway": "openai"}, {"source": "serve"}],
)
def test_a_key_that_was_entered_for_one_address_is_not_taken_up_for_another(given: dict[str, Answer]) -> None:
    again = Road(given).resumed(LEFT)
    assert again.get("key") is None
    assert again.get("model") is None
    assert again.words("clients") == ("codex",)
    same = Road({"source": "url", "base_url": "http://a"}).resumed(LEFT)
    assert (same.get("key"), same.get("model")) == ("given", "m")


def test_what_was_agreed_to_is_the_plan_of_then() -> None:
    left: dict[str, Answer] = {"clients": ("codex",), "source": "serve", "model": "org/old", "agree": "yes"}
    assert Road().resumed(left).text("agree") == "yes"
    assert Road({"model": "org/old"}).resumed(left).text("agree") == "yes"
    assert Road({"model": "org/new"}).resumed(left).text("agree") == ""


@pytest.mark.parametrize(
    ("source", "step", "code", "first"),
    [
        pytest.param("serve", "serve", "cuda-oom", "smaller-context", id="out-of-memory"),
        pytest.param("serve", "serve", "hf-gated-401", "token", id="gated"),
        pytest.param("serve", "plan", "hub-unreachable", "retry", id="no-hub"),
        pytest.param("serve", "serve", "install-failed", "retry", id="install"),
        pytest.param("url", "prove", "key-invalid", "another-key", id="wrong-key"),
        pytest.param("url", "discover", "server-not-ready", "retry", id="not-there"),
    ],
)
def test_the_most_promising_way_out_comes_first_and_leaving_last(
    source: str, step: Step, code: str, first: str
) -> None:
    ways = ways_out(Road({"source": source}), step, code)
    assert ways[0] == first
    assert ways[-1] == "leave"
    assert len(set(ways)) == len(ways)


def test_every_way_out_leads_to_a_step_that_can_change_something() -> None:
    for source in ("serve", "running", "url"):
        road = walk(Road({"source": source}))[0]
        for way in ways_out(road, "prove", "proof-failed"):
            if way != "leave":
                assert next_step(taken(road, way, "prove")) != "finish", (source, way)


def test_trying_a_proof_again_looks_at_the_server_again() -> None:
    road = walk(Road())[0]
    assert next_step(taken(road, "retry", "prove")) == "serve"


def test_another_model_for_a_running_server_starts_one() -> None:
    road = taken(walk(Road({"source": "running"}))[0], "another-model", "prove")
    assert next_step(road) == "model"
    assert road.text("source") == "serve"


def test_a_gateway_instead_keeps_the_clients() -> None:
    road = taken(walk(Road())[0], "gateway", "serve")
    assert next_step(road) == "gateway"
    assert road.words("clients") == ("codex",)


def test_answers_are_read_back_as_they_were_written() -> None:
    answers: dict[str, Answer] = {
        "clients": ("codex", "claude-code"),
        "model": 'C:\\models\\"家"\x7f',
        "port": 8001,
        "set": (),
    }
    assert parse_answers(render_answers(answers), "f") == answers


def test_answers_may_be_json() -> None:
    assert parse_answers('{"model": "m", "clients": ["codex"]}', "f") == {"model": "m", "clients": ("codex",)}


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        pytest.param("model = [", "answers-broken", "", id="broken"),
        pytest.param('modle = "m"', "answers-unknown", "`model`", id="misspelt"),
        pytest.param('base_url = "u"\napi_key = "sk-1"', "answers-unknown", "LLM_SETUP_API_KEY", id="key"),
        pytest.param('agree = "yes"', "answers-unknown", "", id="no-answer-of-a-user"),
        pytest.param('port = "8000"', "answers-wrong", "8000", id="kind"),
        pytest.param("port = 65536", "answers-wrong", "8000", id="no-port"),
        pytest.param("context = 0", "answers-wrong", "", id="no-size"),
        pytest.param("port = true", "answers-wrong", "", id="truth-is-no-number"),
        pytest.param('clients = "codex"', "answers-wrong", "clients = [", id="list"),
        pytest.param('source = "serv"', "answers-wrong", "`serve`", id="value"),
    ],
)
def test_a_wrong_file_is_one_problem_with_the_nearest_name(text: str, code: str, says: str) -> None:
    with pytest.raises(ProblemError) as raised:
        parse_answers(text, "my.toml")
    assert raised.value.problem.code == code
    assert raised.value.exit_code == 2
    assert "my.toml" in raised.value.problem.what
    assert raised.value.problem.fix is not None and says in raised.value.problem.fix.text


def test_a_key_is_in_no_file() -> None:
    assert not {"key", "api_key", "token"} & set(FIELDS)


@pytest.mark.parametrize(("name", "flag"), [("base_url", "`--base-url`"), ("gateway", "`--gateway`")])
def test_here_and_elsewhere_at_once_is_wrong_usage(name: str, flag: str) -> None:
    with pytest.raises(ProblemError) as raised:
        check_road(Road({"source": "serve", name: "http://h"}))
    assert raised.value.problem.code == "answers-contradict"
    assert raised.value.problem.fix is not None and flag in raised.value.problem.fix.text
