"""Where a model's facts come from, and the command as a whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from wizard.catalog.models import all_models
from wizard.clients.fit import judge_fit
from wizard.effects.world import World
from wizard.endpoint.model import Endpoint
from wizard.flows.clients import choose_clients, load_clients
from wizard.flows.plan import ModelSource, PlanQuestion, observe_model, plan_command, plan_for, remember_start
from wizard.hardware.describe import describe_machine
from wizard.planning.intent import Intent
from wizard.problems import ExitCode, ProblemError
from wizard.ui.screen import Screen

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 1000,
    "intermediate_size": 128,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": True,
}


def weights(*sizes: int) -> bytes:
    """A safetensors file of byte tensors; its data is left out of the head's promise only where a test cuts it."""
    table, at = {}, 0
    for number, size in enumerate(sizes):
        table[f"model.layers.{number}.w"] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(table).encode()
    return len(head).to_bytes(8, "little") + head + b"\0" * at


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "with spaces und Ümlaute 模型"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    return path


class TinyHub:
    """Files under a path, with ranges; a status answers for everything that is not there."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.status = 404
        self.body = b"{}"
        self.seen: list[tuple[str, str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                span = self.headers.get("range", "")
                outer.seen.append((self.path, span, self.headers.get("authorization", "")))
                found = outer.files.get(self.path)
                body, status = (outer.body, outer.status) if found is None else (found, 200)
                if found is not None and span:
                    first, last = span.removeprefix("bytes=").split("-")
                    body, status = found[int(first) : int(last) + 1], 206
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hub() -> Iterator[TinyHub]:
    made = TinyHub()
    yield made
    made.close()


@pytest.fixture
def hub_world(world: World, hub: TinyHub) -> World:
    return replace(world, env={**world.env, "HF_ENDPOINT": hub.url, "NO_PROXY": "*"})


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(ProblemError) as caught:
        call()
    assert caught.value.problem.what
    return caught.value.problem.code


def test_a_folder_is_read_with_the_exact_bytes_of_its_tensors(world: World, folder: Path) -> None:
    (folder / "a.safetensors").write_bytes(weights(1000, 24))
    (folder / "b.safetensors").write_bytes(weights(500))
    (folder / "chat_template.jinja").write_text("x")
    facts = observe_model(world, str(folder), ModelSource())
    assert facts.checkpoint_bytes == 1524
    assert facts.serve_as == str(folder)
    assert facts.has_chat_template is True
    assert facts.source == "local"


def test_a_folder_may_be_named_from_where_one_is(world: World, folder: Path) -> None:
    here = replace(world, cwd=folder.parent)
    assert observe_model(here, folder.name, ModelSource()).serve_as == str(folder)
    assert observe_model(here, f"./{folder.name}", ModelSource()).serve_as == str(folder)


def test_an_index_counts_where_the_weights_are_not_here(world: World, folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 123456}, "weight_map": {}}')
    facts = observe_model(world, "acme/model", ModelSource(config=folder))
    assert (facts.checkpoint_bytes, facts.serve_as) == (123456, "acme/model")


def test_a_file_that_was_cut_off_is_said(world: World, folder: Path) -> None:
    (folder / "a.safetensors").write_bytes(weights(1000)[:-300])
    assert code_of(lambda: observe_model(world, str(folder), ModelSource())) == "checkpoint-broken"


def test_a_configuration_file_alone_is_enough(world: World, folder: Path) -> None:
    facts = observe_model(world, "acme/model", ModelSource(config=folder / "config.json"))
    assert facts.layers == 2
    assert facts.checkpoint_bytes is None


@pytest.mark.parametrize(
    ("content", "code"),
    [
        pytest.param(b"", "model-config-invalid", id="empty"),
        pytest.param(b"{" + b" " * (100 * 10**6), "model-config-invalid", id="a-hundred-megabytes"),
        pytest.param(b"\x00\x01", "model-config-invalid", id="binary"),
        pytest.param(b'{"architectures": ["NoSuchForCausalLM"]}', "unknown-architecture", id="unknown-architecture"),
    ],
)
def test_a_configuration_that_is_none_is_said(world: World, folder: Path, content: bytes, code: str) -> None:
    (folder / "config.json").write_bytes(content)
    assert code_of(lambda: observe_model(world, str(folder), ModelSource())) == code


@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("/no/such/folder", "model-folder-missing"),
        ("~/none", "model-folder-missing"),
        ("a b c", "model-not-found"),
        ("", "missing-model"),
        ("x\0y", "missing-model"),
    ],
)
def test_a_name_that_is_nothing_is_said(world: World, model: str, code: str) -> None:
    assert code_of(lambda: observe_model(world, model, ModelSource())) == code


def test_a_folder_with_gguf_says_what_is_missing(world: World, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    with pytest.raises(ProblemError) as caught:
        observe_model(world, str(tmp_path), ModelSource())
    assert "GGUF" in caught.value.problem.saw[0]


def test_the_catalogue_answers_before_any_hub_is_asked(hub_world: World, hub: TinyHub) -> None:
    facts = observe_model(hub_world, "qwen/qwen3-8b", ModelSource())
    assert (facts.source, facts.serve_as) == ("catalogue", "Qwen/Qwen3-8B")
    assert hub.seen == []


def test_a_quantised_variant_of_the_catalogue_weighs_less(world: World) -> None:
    plain = plan_for(world, "Qwen/Qwen3-8B", machine=describe_machine("L40S"))
    awq = plan_for(world, "Qwen/Qwen3-8B-AWQ", machine=describe_machine("L40S"))
    assert awq.memory.weights_gib < plain.memory.weights_gib / 2


def test_what_the_hubs_client_fetched_before_is_found(world: World) -> None:
    snapshot = world.home / ".cache/huggingface/hub/models--acme--model/snapshots/abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(CONFIG))
    facts = observe_model(world, "acme/model", ModelSource())
    assert (facts.source, facts.serve_as) == ("cache", "acme/model")


def test_a_hub_tells_the_exact_bytes_by_ranges(hub_world: World, hub: TinyHub) -> None:
    base = "/acme/model/resolve/main/"
    index = {"metadata": {"total_size": 99}, "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}
    hub.files = {
        f"{base}config.json": json.dumps(CONFIG).encode(),
        f"{base}model.safetensors.index.json": json.dumps(index).encode(),
        f"{base}a.safetensors": weights(700_000, 50),
        f"{base}b.safetensors": weights(10),
    }
    facts = observe_model(hub_world, "acme/model", ModelSource())
    assert (facts.source, facts.checkpoint_bytes) == ("hub", 700_060)
    assert all(span for path, span, _ in hub.seen if path.endswith(".safetensors"))


def test_a_hub_that_hides_its_weights_leaves_what_the_index_tells(hub_world: World, hub: TinyHub) -> None:
    base = "/acme/model/resolve/main/"
    hub.files = {
        f"{base}config.json": json.dumps(CONFIG).encode(),
        f"{base}model.safetensors.index.json": (
            b'{"metadata": {"total_size": 4242}, "weight_map": {"a": "a.safetensors"}}'
        ),
    }
    assert observe_model(hub_world, "acme/model", ModelSource()).checkpoint_bytes == 4242


def test_a_token_is_sent_and_never_shown(hub_world: World, hub: TinyHub) -> None:
    token = "hf_" + "q" * 20
    world = replace(hub_world, env={**hub_world.env, "HF_TOKEN": token})
    hub.status = 403
    with pytest.raises(ProblemError) as caught:
        observe_model(world, "acme/model", ModelSource())
    assert hub.seen[0][2] == f"Bearer {token}"
    assert token not in json.dumps(caught.value.problem.as_json())


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        pytest.param(401, b"{}", "hub-denied", id="401"),
        pytest.param(404, b"{}", "model-not-found", id="404"),
        pytest.param(429, b"{}", "hub-rate-limited", id="429"),
        pytest.param(200, b"<html>log in</html>", "hub-answer-not-json", id="html"),
        pytest.param(200, b"", "hub-answer-not-json", id="nothing-in-it"),
        pytest.param(500, b"", "hub-error", id="500"),
    ],
)
def test_each_answer_of_a_hub_is_one_problem(
    hub_world: World, hub: TinyHub, status: int, body: bytes, code: str
) -> None:
    hub.status, hub.body = status, body
    assert code_of(lambda: observe_model(hub_world, "acme/model", ModelSource())) == code


def test_a_hub_that_is_not_there_is_one_problem(hub_world: World, hub: TinyHub) -> None:
    hub.close()
    assert code_of(lambda: observe_model(hub_world, "acme/model", ModelSource())) == "hub-unreachable"


def test_offline_no_hub_is_asked_and_near_names_are_offered(hub_world: World, hub: TinyHub) -> None:
    world = replace(hub_world, env={**hub_world.env, "HF_HUB_OFFLINE": "1"})
    with pytest.raises(ProblemError) as caught:
        observe_model(world, "Qwen/Qwen3-8BB", ModelSource())
    assert hub.seen == []
    assert "Qwen/Qwen3-8B" in (caught.value.problem.fix.text if caught.value.problem.fix else "")


def test_every_model_of_the_catalogue_is_planned_without_a_hub_or_refused_with_what_to_do(hub_world: World) -> None:
    world = replace(hub_world, env={**hub_world.env, "HF_HUB_OFFLINE": "1"})
    refused = set()
    for entry in all_models():
        try:
            assert observe_model(world, entry.id, ModelSource()).layers > 0
        except ProblemError as error:
            refused.add(entry.id)
            assert error.problem.code == "model-not-found"
            assert error.problem.what == f"The catalogue knows `{entry.id}`, but not its layers and sizes."
            assert error.problem.fix is not None
            assert error.problem.fix.commands == (f"llm-setup plan {entry.id} --model-config DIR",)
    assert len(refused) <= 17, "the catalogue lost a shape"


def test_a_hub_that_is_away_is_not_told_to_be_spared_by_what_the_catalogue_lacks(
    hub_world: World, hub: TinyHub
) -> None:
    hub.status = 503
    with pytest.raises(ProblemError) as caught:
        observe_model(hub_world, "inclusionAI/Ling-2.6-1T", ModelSource())
    text = caught.value.problem.fix.text if caught.value.problem.fix else ""
    assert "but not its layers and sizes" in text
    assert "can plan" not in text


def test_the_hub_is_asked_first_where_the_user_wants_it(hub_world: World, hub: TinyHub) -> None:
    hub.files = {"/Qwen/Qwen3-8B/resolve/v1/config.json": json.dumps(CONFIG).encode()}
    facts = observe_model(hub_world, "Qwen/Qwen3-8B", ModelSource(ask_hub=True, revision="v1"))
    assert (facts.layers, facts.source) == (2, "hub")


@pytest.mark.parametrize("length", [8192, 16_384, 32_768])
def test_a_plan_says_of_a_client_what_is_said_before_its_files_are_written(
    world: World, folder: Path, length: int
) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, "max_position_embeddings": length}))
    plan = plan_for(world, str(folder), machine=describe_machine("L4"), intent=Intent(clients=("codex", "aider")))
    assert plan.max_model_len == length
    endpoint = Endpoint("e", "http://127.0.0.1:8000/v1", None, "m", max_model_len=length)
    specs = [client.spec for client in choose_clients(load_clients(world), ("codex", "aider"))]
    lacking = [problem for spec in specs for problem in judge_fit(spec, endpoint)]
    said = [problem.what for problem in lacking if problem.code == "context-too-small-for-client"]
    assert [warning for warning in plan.warnings if "Codex" in warning or "aider" in warning] == said
    assert len(said) == (1 if length < 32_768 else 0)


@pytest.mark.parametrize("length", [8192, 32_768])
def test_a_plan_without_room_for_a_client_leads_to_models_that_have_it(
    world: World, folder: Path, screen: Screen, shown: Callable[[], str], length: int
) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, "max_position_embeddings": length}))
    plan_command(world, screen, asked(folder, clients=("codex", "aider")))
    assert ("llm-setup models --for codex\n" in shown()) == (length == 8192)


def asked(folder: Path, **changes: Any) -> PlanQuestion:
    return replace(PlanQuestion(str(folder), gpu="L4"), **changes)


def test_the_command_shows_bar_flags_and_command(
    world: World, folder: Path, screen: Screen, shown: Callable[[], str]
) -> None:
    assert plan_command(world, screen, asked(folder)) is True
    text = shown()
    assert "NVIDIA L4" in text
    assert "weights" in text
    assert "A short name without a slash works in every client." in text
    assert "vllm serve" in text


def test_json_is_one_document_alone_on_stdout(world: World, folder: Path) -> None:
    out, err = StringIO(), StringIO()
    plan_command(world, Screen(as_json=True, out=out, err=err, env={}), asked(folder, form="json"))
    assert json.loads(out.getvalue())["schema_version"] == 1
    assert err.getvalue() == ""


@pytest.mark.parametrize(
    ("form", "word"), [("command", "vllm serve"), ("yaml", "max-model-len:"), ("env", "VLLM_MODEL=")]
)
def test_other_forms_print_only_that(
    world: World, folder: Path, screen: Screen, shown: Callable[[], str], form: str, word: str
) -> None:
    plan_command(world, screen, asked(folder, form=form))
    assert word in shown()
    assert "Other ways" not in shown()


def test_the_bar_is_drawn_into_a_file(world: World, folder: Path, screen: Screen, tmp_path: Path) -> None:
    target = tmp_path / "new" / "bar.svg"
    plan_command(world, screen, asked(folder, svg=target))
    assert target.read_text().startswith("<svg")


def test_a_flag_that_does_not_exist_is_refused_with_near_names(world: World, folder: Path, screen: Screen) -> None:
    with pytest.raises(ProblemError) as caught:
        plan_command(world, screen, asked(folder, pins=("max-modle-len=4096",), vllm_version="0.32.0"))
    assert caught.value.exit_code == ExitCode.USAGE
    assert "--max-model-len" in (caught.value.problem.fix.text if caught.value.problem.fix else "")


def test_a_model_that_does_not_fit_ends_with_false(world: World, folder: Path, screen: Screen) -> None:
    assert plan_command(world, screen, asked(folder, pins=("max-model-len=16384",))) is False


def test_a_plan_writes_nothing(world: World, folder: Path, screen: Screen) -> None:
    before = sorted(path for path in world.home.parent.rglob("*"))
    plan_command(world, screen, asked(folder))
    assert sorted(path for path in world.home.parent.rglob("*")) == before


def test_a_start_is_remembered_for_the_machine_it_was_on(world: World, folder: Path) -> None:
    here = replace(describe_machine("L4"), described=False)
    plan = plan_for(world, str(folder), machine=here)
    remember_start(world, plan, kv_gib=12.5, weights_gib=1.0)
    assert plan_for(world, str(folder), machine=here).memory.kv_gib == pytest.approx(12.5, abs=0.001)
    assert not plan_for(world, str(folder), machine=describe_machine("L4")).memory.measured
    remember_start(world, plan, kv_gib=None, weights_gib=None)


@pytest.mark.parametrize(
    ("content", "rank"),
    [('{"r": 100}', "128"), ('{"r": 8}', None), ("[]", None), ("\xff", None), ('{"r": true}', None)],
)
def test_the_rank_of_adapters_is_read_from_their_folders(
    content: str, rank: str | None, world: World, folder: Path, tmp_path: Path
) -> None:
    adapter = tmp_path / "my adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_bytes(content.encode("latin-1"))
    machine = describe_machine("L4", 1)
    plan = plan_for(world, str(folder), machine=machine, intent=Intent(lora_modules=(f"a={adapter}", "b=acme/other")))
    chosen = plan.flag("--max-lora-rank")
    assert (chosen and chosen.value) == rank


def test_a_plan_that_does_not_fit_shows_the_command_of_a_way_that_does(world: World) -> None:
    out = StringIO()
    question = PlanQuestion("Qwen/Qwen3-8B", gpu="RTX 4090", context_tokens=500_000)
    assert plan_command(world, Screen(plain=True, out=out, err=StringIO(), env={}), question) is False
    text = out.getvalue()
    assert "does not fit" in text
    assert "500000 \\" not in text, "the command that would not start"
    command = text.partition("Command of the first other way")[2]
    assert "vllm serve Qwen/Qwen3-8B" in command
    assert "--max-model-len 500000" not in command


def test_a_plan_that_nothing_helps_shows_no_command(world: World) -> None:
    out = StringIO()
    question = PlanQuestion("deepseek-ai/DeepSeek-V3.1", gpu="RTX 2080 Ti")
    assert plan_command(world, Screen(plain=True, out=out, err=StringIO(), env={}), question) is False
    assert "does not fit" in out.getvalue()
    assert "vllm serve" not in out.getvalue()


def test_of_a_download_that_is_not_complete_the_index_tells_the_size(world: World, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    head = json.dumps({"a": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(8))
    index: dict[str, Any] = {
        "metadata": {"total_size": 300_000},
        "weight_map": {"a": "model-00001-of-00002.safetensors"},
    }
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert observe_model(world, str(tmp_path), ModelSource()).checkpoint_bytes == 8
    index["weight_map"] = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert observe_model(world, str(tmp_path), ModelSource()).checkpoint_bytes == 300_000
