"""Ports: free, taken, and by whom."""

from __future__ import annotations

import os
import socket

import pytest

from wizard.effects.ports import first_free_port, free_port, port_holders, port_is_free


def test_a_port_in_use_is_not_free_and_its_holder_is_known() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not port_is_free("127.0.0.1", port)
        assert os.getpid() in port_holders(port)
    assert port_is_free("127.0.0.1", port)


def test_a_listener_on_all_addresses_takes_loopback_too() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert not port_is_free("127.0.0.1", server.getsockname()[1])


def test_a_free_port_is_free() -> None:
    assert port_is_free("127.0.0.1", free_port("127.0.0.1"))
    assert port_holders(free_port("127.0.0.1")) == ()


def test_the_first_free_port_is_behind_those_that_are_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        found = first_free_port("127.0.0.1", taken, 50)
        assert found is not None
        assert found > taken
        assert first_free_port("127.0.0.1", taken, 1) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_holder_is_known_by_its_address(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        assert port_holders(port, host) == (os.getpid(),)
        assert port_holders(port, "127.0.0.2") == ()


def test_a_port_that_a_vllm_bound_and_does_not_listen_on_yet_is_not_free() -> None:
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(("127.0.0.1", 0))
        assert not port_is_free("127.0.0.1", bound.getsockname()[1])


def test_a_port_with_connections_that_only_linger_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = server.accept()
            accepted.close()  # the side that closes first lingers
    assert port_is_free("127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.77", "no.such.name.invalid"])
def test_an_address_that_is_not_ours_is_an_error(host: str) -> None:
    with pytest.raises(OSError):
        port_is_free(host, 8000)
