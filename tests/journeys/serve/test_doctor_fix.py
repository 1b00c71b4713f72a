"""`doctor --fix` on a server of our own: it is started again where that mends, and left alone where nobody agreed."""

import json
import os
import signal
import socket

from .conftest import Place, wait_until


def killed(place: Place) -> int:
    """A server that was killed; the port it had."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    place.serve("--port", str(port))
    record = place.record()
    os.kill(record["pid"], signal.SIGKILL)
    wait_until(lambda: place.state() == "dead", what="the server is dead")
    return int(record["port"])


def test_a_server_that_died_is_started_again_where_it_was(place: Place) -> None:
    port = killed(place)
    ended = place.run("doctor", "--fix", "--yes", "--json", "--timeout", "5")
    document = json.loads(ended.stdout)
    assert document["mended"] == [{"server": "local", "outcome": "mended", "codes": ["server-not-ready"]}], ended.stderr
    assert (place.state(), place.record()["port"]) == ("ready", port)


def test_a_server_that_died_of_its_flags_is_started_with_those_that_its_log_proposes(place: Place) -> None:
    killed(place)
    ended = place.run("doctor", "--fix", "--yes", "--json", "--timeout", "5", standin="die-until=1024")
    assert json.loads(ended.stdout)["mended"][0]["outcome"] == "mended", ended.stderr
    arguments = place.record()["arguments"]
    assert int(arguments[arguments.index("--max-model-len") + 1]) <= 1024


def test_without_consent_a_dead_server_stays_dead(place: Place) -> None:
    killed(place)
    ended = place.run("doctor", "--fix", "--timeout", "5")
    assert ended.returncode == 2
    assert "--yes" in ended.stderr
    assert place.state() == "dead"
