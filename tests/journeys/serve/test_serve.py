"""A server's life by the command line: start, adopt, die, stop; with real processes and a stand-in for vLLM."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import stat
import time
from pathlib import Path
from typing import IO

import pytest

from .conftest import Place, wait_until


def test_a_server_starts_answers_and_stops_with_nothing_left(place: Place) -> None:
    ended = place.serve()
    assert ended.returncode == 0, ended.stderr
    assert "load weights" in ended.stdout
    row = place.status()["servers"][0]
    assert (row["state"], row["requests_running"], row["requests_waiting"]) == ("ready", 2, 1)
    assert (row["kv_cache_usage"], row["prefix_cache_hit_rate"], row["kv_cache_tokens"]) == (0.25, 0.25, 46592)
    assert row["processes"] == 2
    stopped = place.run("stop")
    assert stopped.returncode == 0
    assert f"port {row['url'].rpartition(':')[2]} is free" in stopped.stdout
    assert place.processes() == []
    assert place.state() == "none"


def test_the_key_is_made_kept_private_and_never_in_a_command_or_on_the_screen(place: Place) -> None:
    ended = place.serve()
    secrets_file = place.home / "state" / "secrets.json"
    key = json.loads(secrets_file.read_text())["server-local"]
    assert len(key) > 30
    assert stat.S_IMODE(secrets_file.stat().st_mode) == 0o600
    assert key not in ended.stdout + ended.stderr
    for path in place.servers.iterdir():
        assert key.encode() not in path.read_bytes()
    for pid in place.processes():
        assert key.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_second_serve_adopts_the_first_and_changes_nothing(place: Place) -> None:
    place.serve()
    before = place.record()
    begun = time.monotonic()
    again = place.serve()
    assert again.returncode == 0
    assert "is running already" in again.stdout
    assert time.monotonic() - begun < 5
    assert place.record() == before


def test_another_model_under_the_same_name_is_refused_and_replaced_on_demand(place: Place) -> None:
    place.serve()
    pid = place.record()["pid"]
    refused = place.serve("--set", "max-model-len=2048")
    assert refused.returncode == 1
    assert "[server-name-taken]" in refused.stderr
    assert "--max-model-len 8192" in refused.stderr
    assert place.record()["pid"] == pid
    assert place.serve("--set", "max-model-len=2048", "--replace").returncode == 0
    assert place.record()["pid"] != pid
    assert len(place.processes()) == 2


def test_a_port_that_was_asked_for_and_is_taken_is_named(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = place.serve("--port", str(port))
        assert ended.returncode == 1
        assert "[port-in-use]" in ended.stderr
        assert str(os.getpid()) in ended.stderr
        assert place.serve("--port", str(port), "--yes").returncode == 0
        assert place.record()["port"] != port


def test_a_chosen_port_that_is_taken_meanwhile_is_replaced_and_one_that_was_asked_for_is_not(place: Place) -> None:
    once = place.root / "once"
    ended = place.serve(standin=f"port-taken-once={once}")
    assert ended.returncode == 0, ended.stderr
    assert "meanwhile" in ended.stdout
    first, second = re.findall(r"port (\d+), log", ended.stdout)
    assert first != second
    place.run("stop")
    once.unlink()
    ended = place.serve("--port", str(place_port()), standin=f"port-taken-once={once}")
    assert ended.returncode == 1
    assert "[port-in-use]" in ended.stderr


def place_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_stopped_server_comes_back_at_the_port_that_its_clients_have(place: Place) -> None:
    port = place_port()
    assert place.serve("--port", str(port)).returncode == 0
    place.run("stop")
    would = json.loads(place.run("serve", "--dry-run", "--vllm", str(place.vllm), "--json").stdout)["command"]
    assert would[would.index("--port") + 1] == str(port)
    assert place.serve().returncode == 0
    assert place.record()["port"] == port
    place.run("stop")
    with socket.create_server(("127.0.0.1", port)):
        assert place.serve().returncode == 0
    assert place.record()["port"] != port


def test_two_servers_on_one_port_are_told_apart_and_ours_is_stopped(place: Place) -> None:
    ended = place.serve("--port", str(place_port()), standin="ok;shares-port")
    assert "[port-in-use]" in ended.stderr
    (stranger,) = place.processes()
    assert str(stranger) in ended.stderr
    assert place.state() == "none"


def test_a_death_is_named_from_its_log(place: Place) -> None:
    text = "ValueError: Total number of attention heads (9) must be divisible by tensor parallel size (8)."
    ended = place.serve(standin=f"die={text}")
    assert ended.returncode == 1
    assert "[tp-heads-not-divisible]" in ended.stderr
    assert place.processes() == []
    row = place.status()["servers"][0]
    assert row["state"] == "dead"
    assert "tp-heads-not-divisible" in row["last_error"]
    assert list(place.temporary.iterdir()) == []


def test_an_unknown_death_shows_its_last_error_and_its_log(place: Place) -> None:
    ended = place.serve(standin="die=OddError: the moon is in the way")
    assert ended.returncode == 1
    assert "OddError: the moon is in the way" in ended.stderr
    assert str(place.servers / "local.log") in ended.stderr


def test_with_yes_a_safe_remedy_is_applied_and_said(place: Place) -> None:
    ended = place.serve("--yes", standin="die-until=1024")
    assert ended.returncode == 0, ended.stderr
    assert "--max-model-len 1024" in ended.stdout
    assert "gives up" in ended.stdout
    assert place.record()["max_model_len"] == 1024


def test_without_yes_a_remedy_is_told_and_nothing_is_started_again(place: Place) -> None:
    ended = place.serve(standin="die-until=1024")
    assert ended.returncode == 1
    assert "[kv-cache-too-small]" in ended.stderr
    assert "1024" in ended.stderr
    assert place.processes() == []


def test_a_server_that_does_nothing_is_stopped_in_time(place: Place) -> None:
    ended = place.serve("--timeout", "2", standin="silent")
    assert ended.returncode == 1
    assert "[server-start-stalled]" in ended.stderr
    assert place.processes() == []


def test_readiness_is_an_answer_not_a_line_in_a_log(place: Place) -> None:
    ended = place.serve("--timeout", "3", standin="unready")
    assert ended.returncode == 1
    assert place.processes() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_start_leaves_no_process_and_no_record(place: Place, number: int) -> None:
    starting = place.start("serve", "--detach", "--vllm", str(place.vllm), standin="silent")
    wait_until(lambda: len(place.processes()) == 2, what="server and engine")
    starting.send_signal(number)
    output, _ = starting.communicate(timeout=20)
    assert starting.returncode == 130, output
    assert place.processes() == []
    assert place.state() == "none"


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05, 0.1, 0.2, 0.4])
def test_an_interrupt_right_after_the_launch_leaves_no_process(place: Place, after_s: float) -> None:
    starting = place.start("serve", "--detach", "--vllm", str(place.vllm), standin="silent")
    wait_until(lambda: place.processes() != [], what="server")
    time.sleep(after_s)
    starting.send_signal(signal.SIGTERM)
    output, _ = starting.communicate(timeout=20)
    assert starting.returncode == 130, output
    assert place.processes() == []
    assert place.state() == "none"


def test_an_attached_server_ends_with_ctrl_c(place: Place) -> None:
    attached = place.start("serve", "--vllm", str(place.vllm))
    assert attached.stdout is not None
    assert any("Ctrl-C stops the server" in line for line in attached.stdout)
    attached.send_signal(signal.SIGINT)
    output, _ = attached.communicate(timeout=30)
    assert attached.returncode == 130
    assert "is stopped" in output
    assert place.processes() == []


def test_who_only_watches_a_running_server_leaves_it_running(place: Place) -> None:
    place.serve()
    watching = place.start("serve", "--vllm", str(place.vllm))
    assert watching.stdout is not None
    assert any("leaves it running" in line for line in watching.stdout)
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=30)
    assert place.state() == "ready"


def test_an_attached_server_that_another_run_replaces_is_no_crash(place: Place) -> None:
    attached = place.start("serve", "--vllm", str(place.vllm))
    assert attached.stdout is not None
    assert any("Ctrl-C stops the server" in line for line in attached.stdout)
    assert place.serve("--set", "max-model-len=2048", "--replace").returncode == 0
    output, _ = attached.communicate(timeout=30)
    assert "was stopped elsewhere" in output
    assert attached.returncode == 0
    assert place.state() == "ready"


def test_an_attached_server_that_crashes_is_a_problem_with_its_cause(place: Place) -> None:
    ended = place.run("serve", "--vllm", str(place.vllm), standin="crash-after=1;last=CudaError: CUDA out of memory.")
    assert ended.returncode == 1
    assert "out of memory" in ended.stderr.lower()
    assert place.processes() == []


def test_with_restart_a_crashed_server_comes_back(place: Place) -> None:
    attached = place.start("serve", "--vllm", str(place.vllm), "--restart", standin="crash-after=1.5")
    wait_until(lambda: place.state() == "ready", what="ready")
    first = place.record()["pid"]
    wait_until(lambda: place.record()["pid"] not in (0, first), what="another process")
    attached.send_signal(signal.SIGINT)
    attached.communicate(timeout=30)
    assert place.processes() == []


def test_a_stop_that_is_interrupted_is_finished(place: Place) -> None:
    place.serve(standin="stubborn")
    stopping = place.start("stop", "--timeout", "3")
    with (place.servers / "local.lock").open() as lock:
        wait_until(lambda: _is_locked(lock), what="the stop has begun")
    time.sleep(0.5)
    stopping.send_signal(signal.SIGINT)
    assert stopping.wait(timeout=60) == 130
    assert place.processes() == []
    assert place.state() == "none"


def _is_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def test_a_stubborn_server_is_killed_with_its_children(place: Place) -> None:
    place.serve(standin="stubborn")
    assert len(place.processes()) == 2
    stopped = place.run("stop", "--timeout", "1")
    assert stopped.returncode == 0
    assert "killing it" in stopped.stdout
    assert place.processes() == []


def test_a_killed_server_is_dead_and_what_it_left_is_ended_by_the_next_start(place: Place) -> None:
    place.serve()
    os.kill(place.record()["pid"], signal.SIGKILL)
    wait_until(lambda: len(place.processes()) == 1, what="only the engine")
    row = place.status()["servers"][0]
    assert (row["state"], row["processes"]) == ("dead", 1)
    assert place.serve().returncode == 0
    assert len(place.processes()) == 2
    assert place.state() == "ready"


def test_a_reused_pid_is_never_taken_for_the_server(place: Place) -> None:
    place.serve()
    record = place.record()
    os.kill(record["pid"], signal.SIGKILL)
    for pid in place.processes():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not place.processes(), what="all dead")
    # The record now names a process that is not the server: this test itself.
    path = place.servers / "local.json"
    path.write_text(json.dumps(record | {"pid": os.getpid()}))
    assert place.state() == "dead"
    assert place.run("stop").returncode == 0
    assert place.state() == "none"


def test_a_reboot_makes_a_record_stale(place: Place) -> None:
    place.serve()
    record = place.record()
    boot, _, ticks = record["pid_started"].partition(":")
    path = place.servers / "local.json"
    path.write_text(json.dumps(record | {"pid_started": f"another-boot:{ticks}"}))
    assert place.state() == "dead"
    path.write_text(json.dumps(record))
    assert boot
    assert place.state() == "ready"


def test_two_runs_that_start_the_same_name_make_one_server(place: Place) -> None:
    runs = [place.start("serve", "--detach", "--vllm", str(place.vllm), standin="slow") for _ in range(3)]
    outputs = [run.communicate(timeout=60)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], outputs
    assert len(place.processes()) == 2


def test_several_servers_have_names_and_ports_of_their_own(place: Place) -> None:
    assert place.serve("--name", "one").returncode == 0
    assert place.serve("--name", "two").returncode == 0
    assert place.record("one")["port"] != place.record("two")["port"]
    assert [row["state"] for row in place.status()["servers"]] == ["ready", "ready"]
    stopped = place.run("stop", "--all", "--json")
    assert sorted(json.loads(stopped.stdout)["stopped"]) == ["one", "two"]
    assert place.processes() == []


def test_a_log_stays_bounded_while_its_server_runs(place: Place) -> None:
    place.serve(standin="ok;chatty=80")
    assert len(place.log_keepers()) == 1
    log = place.servers / "local.log"
    cut = place.servers / "local.log.1"
    wait_until(lambda: cut.exists() and cut.stat().st_size > 60 * 2**20, timeout_s=30, what="the log is cut")
    assert log.stat().st_blocks * 512 < 20 * 2**20
    assert place.run("logs", "-n", "1", "--plain").stdout.strip()
    assert place.state() == "ready"
    place.run("stop")
    wait_until(lambda: not place.log_keepers(), what="the keeper ends with its server")


def test_logs_shows_the_last_lines_and_follows_until_the_end(place: Place) -> None:
    place.serve()
    shown = place.run("logs", "-n", "2")
    assert len(shown.stdout.splitlines()) == 2
    following = place.start("logs", "-f", "-n", "1")
    time.sleep(1)
    place.status()
    place.run("stop")
    output, _ = following.communicate(timeout=20)
    assert "GET /health" in output


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        pytest.param(["stop", "nobody"], "server-unknown", 1, id="unknown server"),
        pytest.param(["status", "nobody"], "server-unknown", 1, id="status of none"),
        pytest.param(["logs", "nobody"], "log-missing", 1, id="no log"),
        pytest.param(["stop", "../x"], "bad-server-name", 2, id="a path as a name"),
        pytest.param(["serve", "--vllm", "/nowhere"], "vllm-not-found", 1, id="no vLLM there"),
        pytest.param(["serve", "--api-key-file", "/nowhere"], "key-file-unreadable", 2, id="no key file"),
        pytest.param(["serve", "--", "--api-key", "sk-1"], "key-in-arguments", 2, id="key in argv"),
        pytest.param(["serve", "--set", "api-key=sk-1"], "bad-pin", 2, id="key as a pin"),
        pytest.param(["serve", "--set", "="], "bad-pin", 2, id="empty pin"),
        pytest.param(["serve", "--detach", "--restart"], "wrong-usage", 2, id="restart without anyone"),
    ],
)
def test_bad_input_is_one_clear_error(place: Place, arguments: list[str], code: str, exit_code: int) -> None:
    ended = place.run(*arguments)
    assert ended.returncode == exit_code
    assert f"[{code}]" in ended.stderr
    assert ended.stderr.count("error:") == 1


def test_a_host_that_is_not_ours_is_named(place: Place) -> None:
    ended = place.serve("--host", "192.0.2.77")
    assert ended.returncode == 1
    assert "[bad-host]" in ended.stderr


def test_a_broken_record_is_left_alone_and_said(place: Place) -> None:
    place.servers.mkdir(parents=True)
    (place.servers / "local.json").write_text("{broken")
    assert place.status()["problems"][0]["code"] == "state-file-broken"
    assert "[state-file-broken]" in place.serve().stderr
    assert (place.servers / "local.json").read_text() == "{broken"


@pytest.mark.parametrize("command", [["serve", "--detach"], ["stop"]])
def test_a_home_that_cannot_be_written_is_named(place: Place, command: list[str]) -> None:
    place.env["LLM_SETUP_HOME"] = "/dev/null/home"
    more = ["--vllm", str(place.vllm)] if "serve" in command else []
    ended = place.run(*command, *more)
    assert ended.returncode == 1
    assert "[not-writable]" in ended.stderr


def test_a_dry_run_starts_and_writes_nothing(place: Place) -> None:
    ended = place.run("serve", "--dry-run", "--vllm", str(place.vllm), "--json")
    assert ended.returncode == 0
    document = json.loads(ended.stdout)
    assert document["command"][:3] == [str(place.vllm / "bin" / "python"), "-m", "vllm.entrypoints.cli.main"]
    assert not place.servers.exists()


def test_flags_after_two_dashes_replace_planned_ones(place: Place) -> None:
    assert place.serve("--", "--max-model-len", "512", "--seed", "1").returncode == 0
    command = place.record()["command"]
    assert command[-4:] == ["--max-model-len", "512", "--seed", "1"]
    assert command.count("--max-model-len") == 1


def test_a_server_takes_no_profile_of_another_endpoint(place: Place) -> None:
    gateway = ("--base-url", "https://gateway.test/v1", "--model", "m", "--offline")
    assert place.run("profiles", "add", "local", *gateway).returncode == 0
    place.serve()
    profiles = json.loads(place.run("profiles", "list", "--json").stdout)["profiles"]
    assert {(row["name"], "gateway.test" in row["openai_base_url"]) for row in profiles} == {
        ("local", True),
        ("local-2", False),
    }
    place.run("stop")
    place.serve()
    assert len(json.loads(place.run("profiles", "list", "--json").stdout)["profiles"]) == 2
