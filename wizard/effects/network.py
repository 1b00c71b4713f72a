"""The way to a host, below HTTP: names, every address, TLS with both trust stores."""

from __future__ import annotations

import contextlib
import importlib
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from wizard.doctor.observations import AddressResult, NetworkFacts, ProxyRoute, TcpOutcome, TlsResult
from wizard.effects.http import resolve

_MAX_ADDRESSES = 8


class Network:
    """Sockets, straight past every proxy. Safe to use from several threads."""

    def look(self, scheme: str, host: str, port: int, *, ca_file: str = "", timeout_s: float = 4.0) -> NetworkFacts:
        """Resolve the name, connect to each of its addresses at once, and shake hands where TLS is meant.

        ca_file: what a CA variable names; without one, certifi's bundle is the second trust store, where installed.
        Takes no longer than `timeout_s` for the connections and as much again for TLS.
        """
        deadline = time.monotonic() + timeout_s
        try:
            found = resolve(host, port, timeout_s)
        except OSError as error:
            return NetworkFacts(scheme, host, port, resolve_error=str(error))
        unique = list(dict.fromkeys((family, address[0], address) for family, _, _, _, address in found))
        unique = unique[:_MAX_ADDRESSES]
        with ThreadPoolExecutor(len(unique)) as pool:
            tcp = tuple(pool.map(lambda row: _try(row[0], row[2], deadline), unique))
        tls = None
        reached = next(
            (row for row, result in zip(unique, tcp, strict=True) if result.outcome == "open"),
            None,
        )
        if scheme == "https" and reached is not None:
            tls = _shake_hands(reached[0], reached[2], host, ca_file, timeout_s)
        return NetworkFacts(scheme, host, port, tuple(row[1] for row in unique), tcp=tcp, tls=tls, proxy=ProxyRoute())

    def knock(self, host: str, port: int, timeout_s: float = 1.0) -> AddressResult:
        """One connection to the first address of a host. A name that does not resolve is `unreachable`."""
        try:
            family, _, _, _, address = resolve(host, port, timeout_s)[0]
        except OSError as error:
            return AddressResult(host, port, "unreachable", 0.0, str(error))
        return _try(family, address, time.monotonic() + timeout_s)

    def own_addresses(self) -> tuple[str, ...]:
        """This machine's addresses other than loopback, as far as the resolver and the default route tell."""
        found: list[str] = []
        with contextlib.suppress(OSError):
            found += [str(row[4][0]) for row in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket sends nothing; it only makes the kernel choose the source address.
            probe.connect(("192.0.2.1", 9))
            found.append(str(probe.getsockname()[0]))
        return tuple(dict.fromkeys(address for address in found if not address.startswith("127.")))


def _try(family: int, address: tuple[object, ...], deadline: float) -> AddressResult:
    begun = time.monotonic()
    outcome: TcpOutcome
    text = ""
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(max(deadline - begun, 0.05))
        try:
            sock.connect(address)
            outcome = "open"
        except ConnectionRefusedError as error:
            outcome, text = "refused", str(error)
        except TimeoutError as error:
            outcome, text = "timeout", str(error)
        except OSError as error:
            outcome, text = "unreachable", str(error)
    port = address[1]
    assert isinstance(port, int)
    return AddressResult(str(address[0]), port, outcome, time.monotonic() - begun, text)


def _handshake(
    context: ssl.SSLContext, family: int, address: tuple[object, ...], host: str, timeout_s: float
) -> tuple[str, str]:
    """(error, issuer): the error is empty when the handshake succeeded."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            sock.connect(address)
            with context.wrap_socket(sock, server_hostname=host) as secure:
                certificate: dict[str, Any] = secure.getpeercert() or {}
                names = [str(value) for part in certificate.get("issuer", ()) for _, value in part]
                return "", ", ".join(names)
    except (OSError, ValueError) as error:
        return str(error) or type(error).__name__, ""


def _shake_hands(family: int, address: tuple[object, ...], host: str, ca_file: str, timeout_s: float) -> TlsResult:
    system = _system_store()
    blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    blind.check_hostname = False
    blind.verify_mode = ssl.CERT_NONE
    bundle = _bundle(ca_file)
    contexts = [system, blind, *([bundle] if bundle else [])]
    with ThreadPoolExecutor(len(contexts) + 1) as pool:
        plain = pool.submit(_speaks_plain_http, family, address, host, timeout_s)
        done = list(pool.map(lambda context: _handshake(context, family, address, host, timeout_s), contexts))
    error = done[0][0] or (done[2][0] if bundle else "")
    return TlsResult(
        system_trusts=not done[0][0],
        bundle_trusts=not done[2][0] if bundle else None,
        error=error,
        accepted_unverified=not done[1][0],
        plain_http=plain.result(),
        issuer=done[0][1],
    )


def _system_store() -> ssl.SSLContext:
    """OpenSSL's compiled-in paths, whatever SSL_CERT_FILE says: that file is the second store."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    paths = ssl.get_default_verify_paths()
    cafile, capath = Path(paths.openssl_cafile), Path(paths.openssl_capath)
    if cafile.is_file() or capath.is_dir():
        context.load_verify_locations(cafile if cafile.is_file() else None, capath if capath.is_dir() else None)
    return context


def _bundle(ca_file: str) -> ssl.SSLContext | None:
    """The roots in the file that a CA variable names, else those that come with Python packages (certifi)."""
    try:
        return ssl.create_default_context(cafile=ca_file or importlib.import_module("certifi").where())
    except (ImportError, OSError):
        return None


def _speaks_plain_http(family: int, address: tuple[object, ...], host: str, timeout_s: float) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            sock.connect(address)
            name = f"[{host}]" if ":" in host else host
            sock.sendall(f"HEAD / HTTP/1.1\r\nhost: {name}:{address[1]}\r\nconnection: close\r\n\r\n".encode())
            begin = sock.recv(16)
            # A TLS server answers plain text with an alert, or with a 400 that says so.
            return begin.startswith(b"HTTP/") and b" 400" not in begin
    except (OSError, UnicodeError):
        return False
