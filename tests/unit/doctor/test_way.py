"""Nothing answers: whose fault it is, told from addresses, places and servers."""

from __future__ import annotations

import pytest

from wizard.doctor.checks.way import connection, is_local, slow_answer, tls
from wizard.doctor.observations import (
    AddressResult,
    Context,
    Exchange,
    NetworkFacts,
    Observations,
    RequestSummary,
    ServerSeen,
    Target,
    TlsResult,
)
from wizard.endpoint.exchange import HttpFailure
from wizard.problems import Problem

HOST = Context("linux", assumed="host")


def refused(host: str = "127.0.0.1", outcome: str = "refused") -> AddressResult:
    return AddressResult(host, 8000, outcome, 0.1)  # type: ignore[arg-type]


def seen(
    host: str = "127.0.0.1",
    *,
    context: Context = HOST,
    tcp: tuple[AddressResult, ...] | None = None,
    elsewhere: tuple[tuple[str, AddressResult], ...] = (),
    servers: tuple[ServerSeen, ...] = (),
    resolve_error: str = "",
    scheme: str = "http",
    handshake: TlsResult | None = None,
) -> Observations:
    tcp = (refused(host),) if tcp is None else tcp
    network = NetworkFacts(
        scheme, host, 8000, (host,), resolve_error, () if resolve_error else tcp, handshake, elsewhere=elsewhere
    )
    target = Target("openai-sdk", f"{scheme}://{host}:8000/v1", "m", None, "--base-url")
    failed = Exchange("main", RequestSummary("POST", target.base_url), HttpFailure("refused", "refused", 0.1))
    return Observations(context=context, servers=servers).at(target, (failed,), network)


def server(*, alive: bool, ready: bool, port: int = 8000) -> ServerSeen:
    return ServerSeen("mine", port, alive, "/log", ready)


@pytest.mark.parametrize(
    ("observations", "code"),
    [
        pytest.param(seen(), "server-not-ready", id="refused"),
        pytest.param(seen("10.0.0.9", tcp=(refused("10.0.0.9", "timeout"),)), "server-unreachable", id="black-hole"),
        pytest.param(seen(context=Context("linux", assumed="container")), "wrong-host-in-container", id="container"),
        pytest.param(seen(context=Context("linux", "docker")), "wrong-host-in-container", id="container-seen"),
        pytest.param(
            seen(context=Context("linux", wsl=True), elsewhere=(("172.20.0.1", refused("172.20.0.1", "open")),)),
            "wsl-network",
            id="wsl-other-side",
        ),
        pytest.param(
            seen("192.168.1.7", elsewhere=(("127.0.0.1", refused("127.0.0.1", "open")),)),
            "server-bound-loopback",
            id="bound-to-loopback",
        ),
        pytest.param(seen(servers=(server(alive=True, ready=False),)), "server-not-ready", id="own-server-loads"),
        pytest.param(seen(servers=(server(alive=True, ready=True, port=8001),)), "stale-profile", id="other-port"),
        pytest.param(seen("nowhere", resolve_error="Name or service not known"), "name-not-resolved", id="no-name"),
        pytest.param(
            seen("host.docker.internal", context=Context("linux", "docker"), resolve_error="unknown"),
            "wrong-host-in-container",
            id="no-host-gateway",
        ),
        pytest.param(
            seen("localhost", tcp=(refused("::1"), refused("127.0.0.1", "open"))), "localhost-ipv6", id="ipv6-first"
        ),
    ],
)
def test_why_no_connection_comes_about(observations: Observations, code: str) -> None:
    verdict = connection(observations)
    assert isinstance(verdict, Problem)
    assert verdict.code == code


def test_in_a_container_both_places_of_a_server_are_thought_of() -> None:
    verdict = connection(seen(context=Context("linux", "docker")))
    assert isinstance(verdict, Problem)
    assert verdict.fix is not None
    inside, outside = verdict.fix.text.split(". If")
    assert "start it" in inside
    assert "host.docker.internal" in outside


def test_a_running_server_of_ours_comes_before_the_container_that_holds_client_and_server() -> None:
    running = (server(alive=True, ready=True, port=8001),)
    verdict = connection(seen(context=Context("linux", "docker"), servers=running))
    assert isinstance(verdict, Problem)
    assert verdict.code == "stale-profile"
    assert verdict.fix is not None
    assert verdict.fix.commands == ("llm-setup use mine",)


def test_a_client_that_is_said_to_sit_in_a_container_does_not_reach_the_servers_beside_it() -> None:
    running = (server(alive=True, ready=True, port=8001),)
    verdict = connection(seen(context=Context("linux", assumed="container"), servers=running))
    assert isinstance(verdict, Problem)
    assert verdict.code == "wrong-host-in-container"


def test_a_server_that_loads_is_told_with_its_log() -> None:
    verdict = connection(seen(servers=(server(alive=True, ready=False),)))
    assert isinstance(verdict, Problem)
    assert verdict.fix is not None
    assert verdict.fix.commands == ("llm-setup logs mine --follow",)


@pytest.mark.parametrize(
    ("handshake", "code"),
    [
        pytest.param(TlsResult(False, None, "self-signed certificate", True, False), "tls-untrusted-ca", id="own-ca"),
        pytest.param(TlsResult(False, None, "WRONG_VERSION_NUMBER", False, True), "tls-on-plain-http-port", id="plain"),
        pytest.param(TlsResult(False, None, "certificate has expired", True, False), "tls-handshake-failed", id="old"),
        pytest.param(TlsResult(False, True, "self-signed", True, False), "tls-untrusted-ca", id="only-by-variable"),
    ],
)
def test_why_tls_fails(handshake: TlsResult, code: str) -> None:
    verdict = tls(seen(scheme="https", tcp=(refused(outcome="open"),), handshake=handshake))
    assert isinstance(verdict, Problem)
    assert verdict.code == code


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "10.1.2.3", "gpu-box", "a.local", "192.168.0.1"])
def test_a_local_host(host: str) -> None:
    assert is_local(host)


@pytest.mark.parametrize("host", ["api.openai.com", "8.8.8.8", "gateway.example.org"])
def test_a_host_in_the_internet(host: str) -> None:
    assert not is_local(host)


@pytest.mark.parametrize("context", [HOST, Context("linux", "docker"), Context("linux", wsl=True)])
def test_a_stopped_server_of_ours_is_named_wherever_the_client_sits(context: Context) -> None:
    stopped = ServerSeen("local", 8000, alive=False, log="", ready=False)
    verdict = connection(seen(context=context, servers=(stopped,)))
    assert isinstance(verdict, Problem)
    assert verdict.code == "server-not-ready"
    assert "`local`" in verdict.what
    assert verdict.fix is not None
    assert verdict.fix.commands == ("llm-setup init --yes",)


def test_a_server_of_ours_that_lives_and_does_not_listen_is_not_said_to_run_elsewhere() -> None:
    verdict = connection(seen(servers=(server(alive=True, ready=True),)))
    assert isinstance(verdict, Problem)
    assert verdict.code == "server-not-ready"


def test_another_program_on_the_port_of_a_stopped_server_is_told() -> None:
    stopped = ServerSeen("local", 8000, alive=False, log="", ready=False)
    verdict = slow_answer(seen(tcp=(refused(outcome="open"),), servers=(stopped,)))
    assert isinstance(verdict, Problem)
    assert verdict.code == "server-not-ready"
    assert any("Another program" in line for line in verdict.saw)
