"""A run that was ended at a question, by a closed window or by `kill -9`, goes on at that question: what was answered
before is kept, no key lies open, and no file of a client was touched."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

DOWN, UP, ESC, ENTER = "\x1b[B", "\x1b[A", "\x1b", "\r"
KEY = "sk-typed-by-hand-0123456789"
TOKEN = "hf_typedbyhand0123456789"


@dataclass(frozen=True)
class Stop:
    """Where a run is ended. on_the_way: what is seen and answered before; at: the question; again: the one with which
    the next run goes on, where that is the question which led to it. typed: what must not be asked for again."""

    on_the_way: tuple[tuple[str, str], ...]
    at: str
    again: str = ""
    typed: str = ""
    mode: str = "ok"


CLIENTS = ("Which coding clients do you want to set up?", ENTER)
HERE = (CLIENTS, ("Where should the model run?", ENTER))
SMALL = (*HERE, ("Which model?", ENTER))
URL = (CLIENTS, ("Where should the model run?", DOWN + ENTER), ("Base URL", "{endpoint}" + ENTER))
GATEWAY = (CLIENTS, ("Where should the model run?", DOWN + DOWN + ENTER))
FETCHED = (*HERE, ("Which model?", UP + UP + ENTER), ("A word to search for", "org/some-model" + ENTER))
GATED = (*HERE, ("Which model?", UP + UP + ENTER), ("A word to search for", "org/gated" + ENTER))

STOPS = {
    "clients": Stop((), CLIENTS[0]),
    "source": Stop((CLIENTS,), "Where should the model run?"),
    "gateway": Stop(GATEWAY, "Which one?"),
    "base-url": Stop(URL[:2], "Base URL"),
    "key": Stop(URL, "Key (not shown"),
    "served-model": Stop((*URL, ("Key (not shown", KEY + ENTER)), "Which model?", typed="Key (not shown"),
    "model": Stop(HERE, "Which model?"),
    "search": Stop(FETCHED[:-1], "A word to search for", again="Which model?"),
    "hub": Stop(FETCHED, "Where should models be fetched from?"),
    "mirror": Stop(
        (*FETCHED, ("Where should models be fetched from?", DOWN + ENTER)),
        "URL of the mirror",
        again="Where should models be fetched from?",
    ),
    "token": Stop((*GATED, ("What now?", ENTER)), "Token of the hub", again="What now?"),
    "after-the-token": Stop(
        (*GATED, ("What now?", ENTER), ("Token of the hub", TOKEN + ENTER)), "Go on?", typed="Token of the hub"
    ),
    "agree": Stop(SMALL, "Go on?"),
    "which-flag": Stop((*SMALL, ("Go on?", DOWN + ENTER)), "Which flag?", again="Go on?"),
    "flag": Stop(
        (*SMALL, ("Go on?", DOWN + ENTER), ("Which flag?", UP + UP + ENTER)), "Flag, and its value", again="Go on?"
    ),
    "after-a-flag": Stop(
        (
            *SMALL,
            ("Go on?", DOWN + ENTER),
            ("Which flag?", UP + UP + ENTER),
            ("Flag, and its value", "max-num-seqs=3" + ENTER),
        ),
        "--max-num-seqs 3",
    ),
    "another-start": Stop((*SMALL, ("Go on?", ENTER)), "Start again with", mode="die"),
    "what-now": Stop(
        (*SMALL, ("Go on?", ENTER), ("Start again with", "n\r")), "What now?", again="Start again with", mode="die"
    ),
    "all-the-same": Stop((*SMALL, ("Go on?", ENTER)), "all the same?"),
    "write": Stop(
        (*SMALL, ("Go on?", ENTER), ("all the same?", " " + ENTER)), "Write these files?", again="all the same?"
    ),
}


@pytest.fixture
def lived_in(home: Path) -> Callable[[], dict[str, bytes]]:
    """A home with files of the clients; gives what is in it now, llm-setup's own folder apart."""
    for name, content in ((".codex/config.toml", b'model = "mine"\n'), (".claude/settings.json", b"{}\n")):
        (home / name).parent.mkdir()
        (home / name).write_bytes(content)

    def files() -> dict[str, bytes]:
        found = [path for path in home.rglob("*") if path.is_file() and not {"own", "venv"} & set(path.parts)]
        return {str(path): path.read_bytes() for path in found if path.name != "mode"}

    return files


@pytest.fixture
def hub(endpoint: Any) -> str:
    """A hub with one model, gated; it has nothing to measure a speed by. Its URL is the endpoint's, too."""
    two = {"data": [{"id": "tiny", "max_model_len": 65536}, {"id": "other"}]}
    small = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 1000,
        "max_position_embeddings": 2048,
        "torch_dtype": "bfloat16",
    }

    def config(headers: dict[str, str], body: Any) -> tuple[int, Any]:
        return (200, small) if headers.get("authorization") == f"Bearer {TOKEN}" else (401, {"error": "restricted"})

    endpoint.routes["GET /org/gated/resolve/main/config.json"] = config
    endpoint.routes["GET /v1/models"] = lambda headers, body: (200, two)
    return str(endpoint.url)


@pytest.mark.parametrize("name", STOPS)
def test_a_run_ended_at_a_question_goes_on_there(
    name: str, on_terminal: Any, machine: Any, hub: str, home: Path, lived_in: Callable[[], dict[str, bytes]]
) -> None:
    stop, before = STOPS[name], lived_in()
    machine.behave(stop.mode)
    # No hub is in reach but for the gated model, whose own answers.
    env = {"HF_ENDPOINT": hub if name.endswith("token") else "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    env |= {"HTTPS_PROXY": "http://127.0.0.1:9"}
    terminal = on_terminal("init", "--vllm", str(machine.vllm), **env)
    for question, answer in stop.on_the_way:
        terminal.sees(question).types(answer.format(endpoint=hub))
    terminal.sees(stop.at)
    for ended_by in (signal.SIGHUP, signal.SIGKILL):
        os.kill(terminal.child.pid, ended_by)
        terminal.child.wait()
        assert lived_in() == before
        open_keys = [path for path in (home / "own").rglob("*") if path.is_file() and _has_a_key(path)]
        assert [path.name for path in open_keys] == (["secrets.json"] if stop.typed else [])
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in open_keys)
        terminal = on_terminal("init", **env)
        if stop.on_the_way:
            terminal.sees("Go on where it was left?").enter()
        terminal.sees(stop.again or stop.at)
        shown = terminal.text.rpartition("Go on where it was left?")[2]
        way = [question for question, _ in stop.on_the_way]
        answered = way[: way.index(stop.again)] if stop.again in way else way
        assert [question for question in answered if question in shown] == []
        assert not stop.typed or stop.typed not in shown


def _has_a_key(path: Path) -> bool:
    content = path.read_bytes()
    return KEY.encode() in content or TOKEN.encode() in content
