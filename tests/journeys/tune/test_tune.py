"""`llm-setup tune` as a whole, against a stand-in whose best flags are known."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

CACHE = ("--only", "prefix-caching")
OFF = ("--no-enable-prefix-caching",)


def outcomes(place: Any) -> list[str]:
    """What came of each trial, as it is kept."""
    return [trial["outcome"] for trial in place.record["trials"]]


def test_prefix_caching_is_found_and_written_for_serve(place: Any) -> None:
    ran = place.tune(*CACHE, after=OFF)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^  \*  prefix-caching on .* helps$", ran.stdout, re.MULTILINE), ran.stdout
    warm = re.search(r"it had: ([\d.]+) times", ran.stdout)
    assert warm is not None
    assert float(warm[1]) > 3
    assert '"enable-prefix-caching" = true' in place.settings.read_text()
    assert place.states() == {}
    assert "--enable-prefix-caching" in place.would_serve()
    assert "--enable-prefix-caching" not in place.would_serve("--set", "no-enable-prefix-caching")
    assert "--enable-prefix-caching" not in place.would_serve("--name", "another")


def test_prefix_caching_that_is_on_is_kept_and_nothing_written(place: Any) -> None:
    document = place.document(place.tune(*CACHE, "--json"))
    assert [row["verdict"] for row in document["bought"]] == ["plan", "worse"]
    assert document["bought"][0]["chosen"]
    assert document["warm_against_cold"] > 3
    assert document["written"] is None
    assert not place.settings.exists()


def test_what_is_clearly_worse_ends_after_a_round(place: Any) -> None:
    place.tune(*CACHE)
    rounds = {trial["outcome"]: len(trial["rounds"]) for trial in place.record["trials"]}
    assert rounds == {"measured": 2, "pruned": 1}


def test_a_server_that_dies_is_recorded_by_its_death_and_not_tried_again(place: Any) -> None:
    first = place.tune("--only", "max-num-seqs")
    assert first.returncode == 0, first.stderr
    (dead,) = [trial for trial in place.record["trials"] if trial["outcome"] == "failed"]
    assert dead["setting"] == {"max-num-seqs": "8"}
    assert dead["code"] == "cuda-oom"
    starts = len(place.starts())
    assert place.tune("--only", "max-num-seqs").returncode == 0
    assert len(place.starts()) == starts


def test_other_answers_are_marked_and_not_chosen(place: Any) -> None:
    document = place.document(place.tune("--only", "max-num-batched-tokens", "--json"))
    verdicts = {row["setting"].get("max-num-batched-tokens", "plan"): row["verdict"] for row in document["bought"]}
    assert verdicts["4096"] == "different answers"
    assert document["best"]["setting"] != {"max-num-batched-tokens": "4096"}
    (marked,) = [trial for trial in document["trials"] if trial["answers"] == "different"]
    assert len(marked["differs"]) == 4


def test_a_run_that_was_killed_goes_on_where_it_was(place: Any) -> None:
    first = place.begin()
    until = time.monotonic() + 60
    while len(place.starts()) < 3:
        assert time.monotonic() < until
        assert first.poll() is None
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    done = len(place.record["trials"])
    assert done == 2
    ran = place.tune("--trials", "4")
    assert ran.returncode == 0, ran.stderr
    assert f"go on with {done} trials" in ran.stdout
    assert len(place.record["trials"]) == 4
    # The trial that was killed began once more, and its server is gone.
    assert len(place.starts()) == 5
    assert place.processes() == []


def test_ctrl_c_leaves_no_server_and_keeps_what_was_tried(place: Any) -> None:
    first = place.begin()
    until = time.monotonic() + 60
    while len(place.starts()) < 2:
        assert time.monotonic() < until
        assert first.poll() is None
        time.sleep(0.02)
    first.send_signal(signal.SIGINT)
    assert first.wait(30) == 130
    assert place.processes() == []
    assert outcomes(place) == ["measured"]


def test_the_budget_ends_a_search_and_a_larger_one_goes_on(place: Any) -> None:
    ran = place.tune("--budget", "0.1s")
    assert "the time is used up" in ran.stdout
    assert len(place.record["trials"]) == 1
    assert place.tune("--budget", "1h", "--trials", "2").returncode == 0
    assert len(place.record["trials"]) == 2


def test_another_question_begins_anew_and_keeps_the_first(place: Any) -> None:
    place.tune("--trials", "1")
    place.tune("--trials", "1", "--users", "2")
    assert place.record["about"]["users"] == 2
    kept = [path for path in (place.home / "state" / "tune").iterdir() if path.name.startswith("local.json.")]
    assert len(kept) == 1


def test_a_running_server_on_a_processor_is_left_as_it_is(place: Any) -> None:
    assert place.serve().returncode == 0
    before = place.states()["local"]
    ran = place.tune("--trials", "1")
    assert ran.returncode == 0, ran.stderr
    assert "figures are lower than alone" in ran.stdout
    assert place.states() == {"local": before}


def test_a_running_server_on_a_gpu_is_stopped_only_by_the_users_word(place: Any) -> None:
    place.env |= {"STANDIN_TORCH": "2.13.0+cu130", "STANDIN_CUDA": "13.0"}
    assert place.serve().returncode == 0
    before = place.states()["local"]
    refused = place.tune("--trials", "1", "--yes")
    assert refused.returncode == 1
    assert "[tune-needs-the-gpu]" in refused.stderr
    assert place.states() == {"local": before}
    allowed = place.tune("--trials", "1", "--stop-running")
    assert allowed.returncode == 0, allowed.stdout + allowed.stderr
    assert "local" in place.states(), allowed.stderr
    state, pid = place.states()["local"]
    assert state == "ready"
    assert pid != before[1]


def test_a_run_that_was_killed_owes_the_servers_that_it_stopped(place: Any) -> None:
    place.env |= {"STANDIN_TORCH": "2.13.0+cu130", "STANDIN_CUDA": "13.0"}
    place.serve()
    port = json.loads((place.home / "state" / "servers" / "local.json").read_text())["port"]
    first = place.begin("--stop-running", "--trials", "1")
    until = time.monotonic() + 60
    while len(place.starts()) < 2:
        assert time.monotonic() < until
        assert first.poll() is None
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    ran = place.tune("--trials", "1")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert place.states()["local"][0] == "ready"
    assert json.loads((place.home / "state" / "servers" / "local.json").read_text())["port"] == port


def test_a_run_that_was_killed_while_it_tuned_a_server_goes_on_with_that_server(place: Any) -> None:
    place.env |= {"STANDIN_TORCH": "2.13.0+cu130", "STANDIN_CUDA": "13.0"}
    assert place.serve(*OFF).returncode == 0
    state = place.home / "state"
    served = json.loads((state / "servers" / "local.json").read_text())
    assert place.run("stop", "local").returncode == 0
    # As a kill leaves it: the server is stopped, and owed.
    (state / "tune").mkdir()
    (state / "tune" / "stopped.json").write_text(json.dumps([served]))
    ran = place.run("tune", "--dry-run", "--json")
    document = json.loads(ran.stdout)
    assert document["model"] == str(place.model)
    assert "--no-enable-prefix-caching" in document["arguments"]


def test_a_server_that_could_not_be_started_again_is_owed_to_the_next_run(place: Any) -> None:
    assert place.serve().returncode == 0
    state = place.home / "state"
    served = json.loads((state / "servers" / "local.json").read_text())
    assert place.run("stop", "local").returncode == 0
    (state / "tune").mkdir()
    owed = state / "tune" / "stopped.json"
    owed.write_text(json.dumps([served]))
    with socket.create_server(("127.0.0.1", served["port"])):
        assert "[port-in-use]" in place.tune("--trials", "1").stderr
    assert [row["name"] for row in json.loads(owed.read_text())] == ["local"]
    assert place.tune("--trials", "1").returncode == 0
    assert place.states()["local"][0] == "ready"
    assert not owed.exists()


def test_a_server_in_a_container_is_not_stopped(place: Any) -> None:
    place.env |= {"STANDIN_TORCH": "2.13.0+cu130", "STANDIN_CUDA": "13.0"}
    assert place.serve().returncode == 0
    path = place.home / "state" / "servers" / "local.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"container": ["docker", "llm-setup-local"]}))
    ran = place.tune("--trials", "1", "--stop-running")
    assert ran.returncode == 1
    assert "[tune-needs-the-gpu]" in ran.stderr
    assert "llm-setup stop local" in ran.stderr
    assert len(place.processes()) == 1


def test_the_trials_server_is_asked_without_a_proxy(place: Any) -> None:
    ran = place.tune("--trials", "1", http_proxy="http://127.0.0.1:9", all_proxy="http://127.0.0.1:9")
    assert ran.returncode == 0, ran.stderr
    assert outcomes(place) == ["measured"]


def test_what_was_clearly_worse_for_another_target_has_its_trial_again(place: Any) -> None:
    place.tune(*CACHE)
    assert outcomes(place) == ["measured", "pruned"]
    starts = len(place.starts())
    assert place.tune(*CACHE).returncode == 0
    assert len(place.starts()) == starts
    assert place.tune(*CACHE, "--then", "first-token").returncode == 0
    assert len(place.starts()) == starts + 1


def test_settings_of_an_earlier_search_go_where_the_plan_is_best_now(place: Any) -> None:
    place.settings.parent.mkdir(parents=True)
    text = f'model = {json.dumps(str(place.model))}\n[set]\n"max-num-seqs" = "16"\n'
    place.settings.write_text(text)
    document = place.document(place.tune(*CACHE, "--json"))
    assert document["best"]["setting"] == {}
    assert Path(document["backup"]).read_text() == text
    assert not place.settings.exists()
    assert "--max-num-seqs" not in place.would_serve()


def test_the_best_setting_is_written_also_where_another_run_with_other_flags_found_it(place: Any) -> None:
    place.tune(*CACHE, after=OFF)
    place.settings.unlink()
    # However busy this machine is, it was the best.
    record = place.record
    best = {"tokens_per_s": 1e6, "ttft_p50_ms": 1.0}
    record["trials"][1] |= {"outcome": "measured", "answers": "same", "rounds": [best]}
    (place.home / "state" / "tune" / "local.json").write_text(json.dumps(record))
    ran = place.tune("--only", "max-num-seqs", "--trials", "2", after=OFF)
    assert "go on with 2 trials" in ran.stdout
    assert ran.returncode == 0, ran.stderr
    assert '"enable-prefix-caching" = true' in place.settings.read_text()


def test_without_a_model_the_server_of_that_name_is_tuned_as_it_runs(place: Any) -> None:
    served = place.serve(*OFF, "--max-num-seqs", "32")
    assert served.returncode == 0, served.stderr
    ran = place.run("tune", "--set", "max-num-seqs=32", "--dry-run", "--json")
    document = json.loads(ran.stdout)
    assert document["model"] == str(place.model)
    assert "--no-enable-prefix-caching" in document["arguments"]
    assert document["arguments"].count("--max-num-seqs") == 1
    (knob,) = [knob for knob in document["knobs"] if knob["name"] == "prefix-caching"]
    assert (knob["now"], knob["choices"]) == ("off", ["on"])
    assert "max-num-seqs" not in [knob["name"] for knob in document["knobs"]]


def test_settings_that_were_there_are_kept_beside_the_new(place: Any) -> None:
    place.settings.parent.mkdir(parents=True)
    place.settings.write_text('model = "another"\n[set]\n')
    ran = place.tune(*CACHE, "--json", after=OFF)
    backup = Path(json.loads(ran.stdout)["backup"])
    assert backup.read_text() == 'model = "another"\n[set]\n'


def test_no_write_writes_nothing_and_says_what_to_type(place: Any) -> None:
    ran = place.tune(*CACHE, "--no-write", after=OFF)
    assert "--set enable-prefix-caching" in ran.stdout
    assert not place.settings.exists()


def test_a_dry_run_starts_nothing(place: Any) -> None:
    document = place.document(place.tune("--dry-run", "--json"), "tune-dry-run")
    assert "prefix-caching" in [knob["name"] for knob in document["knobs"]]
    assert place.starts() == []


@pytest.mark.parametrize("words", [(), ("Qwen/Qwen2.5-0.5B-Instruct",)], ids=["embedded", "from-the-hub"])
def test_a_dry_run_installs_and_fetches_nothing(words: tuple[str, ...], place: Any) -> None:
    ran = place.run("tune", *words, "--dry-run", "--json", PATH="/nowhere", HF_HUB_OFFLINE="1")
    assert "prefix-caching" in [knob["name"] for knob in json.loads(ran.stdout)["knobs"]], ran.stderr
    assert not (place.home / "data").exists()


def test_a_pinned_flag_is_not_turned(place: Any) -> None:
    ran = place.tune("--dry-run", "--json", "--set", "no-enable-prefix-caching")
    assert "prefix-caching" not in [knob["name"] for knob in json.loads(ran.stdout)["knobs"]]


def test_the_key_of_a_trial_is_shown_nowhere_and_forgotten(place: Any) -> None:
    ran = place.tune("--trials", "1", "--json")
    secrets = place.home / "state" / "secrets.json"
    kept = secrets.read_text() if secrets.exists() else ""
    assert "tune-local" not in kept
    assert "sk-" not in ran.stdout + ran.stderr + json.dumps(place.record)


def test_a_target_that_is_none_is_wrong_usage(place: Any) -> None:
    ran = place.tune("--target", "fast please")
    assert ran.returncode == 2
    assert "[bad-target]" in ran.stderr
