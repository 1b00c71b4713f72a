"""The guided flow on machines that are not here: a GPU on which nothing fits, a model that is too large."""

import json
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any, get_args

import pytest

from wizard.effects.paths import remembered_hub
from wizard.effects.secrets import SecretStore
from wizard.endpoint.exchange import HttpFailure, HttpReply
from wizard.flows.init import InitFlow, LeftError, _way_title
from wizard.flows.init_road import Answer, WayOut
from wizard.flows.models import show_models
from wizard.hardware.describe import describe_machine
from wizard.problems import ProblemError
from wizard.text import display_width
from wizard.ui.language import use_language
from wizard.ui.questions import Choice, Questions
from wizard.ui.screen import Screen


class Scripted(Questions):
    """Answers by a script of (words of the question, how to answer); what was offered is kept."""

    def __init__(self, screen: Any, script: Sequence[tuple[str, Callable[[list[str]], Any]]]) -> None:
        super().__init__(screen, yes=False, may_ask=True)
        self.script = list(script)
        self.offered: dict[str, list[str]] = {}

    def _next(self, question: str, rows: list[str]) -> Any:
        assert self.script, f"asked beyond the script: {question} {rows}"
        words, answer = self.script.pop(0)
        assert words in question, (words, question, rows)
        self.offered[words] = rows
        return answer(rows)

    def choose(self, flag: str, question: str, choices: Sequence[Choice], recommended: str | None, **more: Any) -> str:
        titles = [choice.title for choice in choices]
        assert recommended in [choice.value for choice in choices]
        return choices[titles.index(self._next(question, titles))].value

    def text(self, flag: str, question: str, recommended: str | None = None, **more: Any) -> str:
        said: str = self._next(question, [recommended or ""])
        assert not more["check"](said), more["check"](said)
        return said


SHAPE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "dtype": "bfloat16",
}


def row(words: str) -> Callable[[list[str]], str]:
    """Take the row that has these words."""
    return lambda rows: next(title for title in rows if words in title)


def first(rows: list[str]) -> str:
    return rows[0]


def leave(rows: list[str]) -> str:
    return rows[-1]


@pytest.fixture
def start(world: Any, screen: Any) -> Callable[..., Any]:
    def begin(gpu: tuple[Any, ...], script: Any, **given: Answer) -> Any:
        """The questions of a run on this GPU, until the user leaves."""
        questions = Scripted(screen, script)
        given = {"clients": ("codex",), "source": "serve", **given}
        flow = InitFlow(world, screen, questions, given, machine=describe_machine(*gpu))
        with pytest.raises((LeftError, KeyboardInterrupt, ProblemError)):
            flow.run()
        assert not questions.script
        return flow, questions

    return begin


def interrupt(rows: list[str]) -> str:
    raise KeyboardInterrupt


TINY = ("RTX 4090", 1, 2.0, 0.4, "8.9")
USUAL = ("RTX 4090", 1, None, None, None)


def test_where_nothing_fits_a_gateway_is_the_recommended_way(start: Any, shown: Callable[[], str], screen: Any) -> None:
    flow, questions = start(TINY, [("Which model?", first), ("Which one?", interrupt)])
    assert "gateway" in questions.offered["Which model?"][0]
    assert flow.road.text("source") == "gateway"
    assert "[no-model-suits]" in screen._err.getvalue()


def test_models_are_in_the_order_in_which_models_lists_them_for_the_same_clients(
    start: Any, world: Any, shown: Callable[[], str]
) -> None:
    _, questions = start(USUAL, [("Which model?", interrupt)])
    out = StringIO()
    screen = Screen(as_json=True, out=out, err=StringIO(), env={})
    show_models(world, screen, describe_machine(*USUAL), clients=("codex",))
    listed = [row["serve"] for row in json.loads(out.getvalue())["models"] if row["suits"]]
    # The last row names another model.
    offered = [title.split()[0].rstrip("…") for title in questions.offered["Which model?"][:-1]]
    assert len(offered) == 8
    assert all(name.startswith(begun) for name, begun in zip(listed, offered, strict=False))
    assert "For Codex CLI: at least 32,768 tokens of context." in shown()


def test_a_model_that_is_too_large_is_offered_in_its_variants(start: Any) -> None:
    flow, questions = start(
        USUAL, [("What now?", row("int4")), ("Go on?", interrupt)], model="Qwen/Qwen3-32B", hub="huggingface"
    )
    assert flow.road.text("model") == "Qwen/Qwen3-32B-AWQ"
    offered = questions.offered["What now?"]
    assert any("ordinary memory" in title for title in offered)
    assert not any("4 such GPUs" in title for title in offered)
    assert any("gateway" in title for title in offered)


def test_another_way_to_serve_sets_its_flags(start: Any) -> None:
    flow, _ = start(
        USUAL,
        [("Go on?", row("another way")), ("Which way?", row("Half the context")), ("Go on?", interrupt)],
        model="Qwen/Qwen3-8B",
        hub="huggingface",
    )
    assert any(pin.startswith("max-model-len=") for pin in flow.road.words("set"))
    assert flow.plan is not None
    assert {"--max-model-len"} <= {flag.flag for flag in flow.plan.flags if flag.source == "you"}


def test_a_word_finds_models_to_choose_from(start: Any) -> None:
    flow, questions = start(
        USUAL,
        [
            ("Which model?", row("Another")),
            ("A word to search for", lambda rows: "coder"),
            ("Which of these?", first),
            ("Go on?", interrupt),
        ],
        hub="huggingface",
    )
    assert all("oder" in title for title in questions.offered["Which of these?"])
    assert "oder" in flow.road.text("model")


def test_where_all_that_is_found_does_not_fit_each_row_says_so(start: Any) -> None:
    script = [("Which model?", row("Another")), ("A word to search for", lambda rows: "coder")]
    _, questions = start(TINY, [*script, ("Which of these?", interrupt)], hub="huggingface")
    rows = questions.offered["Which of these?"]
    assert rows
    assert all("GiB" in title.partition("GiB")[2] for title in rows), rows


def test_a_folder_of_ones_own_is_taken(start: Any, tmp_path: Any) -> None:
    folder = tmp_path / "my model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SHAPE))
    flow, _ = start(
        USUAL,
        [
            ("Which model?", row("Another")),
            ("A word to search for", lambda rows: str(folder)),
            ("Go on?", interrupt),
        ],
    )
    assert flow.plan is not None
    assert flow.plan.serve_as == str(folder)


def test_a_folder_that_is_not_there_leads_to_another_model(start: Any) -> None:
    flow, _ = start(
        USUAL,
        [("What now?", row("another model")), ("Which model?", first), ("Go on?", interrupt)],
        model="/no/such/folder",
        hub="huggingface",
    )
    assert flow.road.text("model") != "/no/such/folder"


class OnlyTheMirrorAnswers:
    """Hugging Face and ModelScope are out of reach; hf-mirror.com has the model, and is quick."""

    def send(self, request: Any) -> Any:
        if "//hf-mirror.com/" not in request.url:
            return HttpFailure("timeout", "", 4.0)
        if request.url.endswith("/config.json"):
            return HttpReply(200, (), json.dumps(SHAPE).encode(), 0.1, 0.1)
        if request.url.endswith("/tokenizer.json"):
            return HttpReply(206, (), bytes(2**20), 0.2, 0.4)
        return HttpReply(404, (), b"{}", 0.1, 0.1)


def test_a_hub_out_of_reach_is_replaced_by_the_mirror_that_answers(
    start: Any, world: Any, shown: Callable[[], str]
) -> None:
    object.__setattr__(world, "http", OnlyTheMirrorAnswers())
    flow, questions = start(
        USUAL,
        [("Where should models be fetched from?", first), ("Go on?", interrupt)],
        model="org/not-in-the-catalogue",
    )
    offered = questions.offered["Where should models be fetched from?"]
    assert offered[0].startswith("hf-mirror.com") and "5.0 MiB/s" in offered[0]
    assert "no answer (too slow)" in shown()
    assert flow.plan is not None
    assert flow.road.text("hub") == "hf-mirror"
    # Nothing was agreed to yet.
    assert remembered_hub(world.paths, {}) == {}


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_the_ways_on_are_whole_on_forty_columns(language: str) -> None:
    use_language(language, {})
    try:
        titles = [_way_title(way) for way in get_args(WayOut)]
    finally:
        use_language("en", {})
    assert all(display_width(title) <= 34 for title in titles), titles


class NobodysKeyring(SecretStore):
    """Asked for a key, it would ask somebody to unlock it."""

    def get(self, reference: str) -> Any:
        raise AssertionError(f"the keyring was asked for {reference}")


def test_a_road_without_a_key_asks_no_keyring(start: Any, world: Any) -> None:
    world.__dict__["secrets"] = NobodysKeyring(world.files, world.paths.state / "secrets.json", world.env)
    flow, _ = start(USUAL, [("Which model?", first), ("Go on?", interrupt)], hub="huggingface")
    assert flow.plan is not None


def test_leaving_at_a_problem_keeps_the_answers(start: Any, world: Any) -> None:
    start(USUAL, [("What now?", leave)], model="/no/such/folder", hub="huggingface")
    assert "/no/such/folder" in (world.paths.state / "init-answers.toml").read_text()


def test_without_anybody_to_ask_the_problem_itself_is_raised(world: Any, screen: Any) -> None:
    questions = Questions(screen, yes=True, may_ask=False)
    given: dict[str, Answer] = {"clients": (), "source": "serve"}
    flow = InitFlow(world, screen, questions, given, machine=describe_machine(*TINY))
    with pytest.raises(ProblemError) as raised:
        flow.run()
    assert raised.value.problem.code == "no-model-suits"
