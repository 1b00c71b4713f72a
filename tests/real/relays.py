"""What stands between a client and a server: a relay that cuts or wraps the stream, a hole, a reverse proxy."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from .processes import environment, free_port


@contextmanager
def relay(
    root: str,
    *,
    tls: ssl.SSLContext | None = None,
    cut_at: bytes = b"",
    then: Callable[[], None] | None = None,
) -> Iterator[str]:
    """A TCP relay to `root` on loopback; its own root. tls: it speaks TLS. cut_at: it hangs up once the server has
    said this, and does what `then` says."""
    target = (urlsplit(root).hostname or "", urlsplit(root).port or 80)
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            inside = tls.wrap_socket(client, server_side=True) if tls else client
            with inside, socket.create_connection(target) as server:
                up = threading.Thread(target=_copy, args=(inside, server, b""))
                up.start()
                if _copy(server, inside, cut_at) and then:
                    then()
                for end in (server, inside):
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                up.join()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(client,), daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        # Closing alone does not wake a thread in accept().
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for thread in threads:
            thread.join(timeout=10)


def _copy(source: socket.socket, target: socket.socket, cut_at: bytes) -> bool:
    """Until one of the two ends; whether the mark was met."""
    said = b""
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            # On a busy machine one piece holds the whole answer: what follows the mark must not get through with it.
            before, said = len(said), said + piece
            found = said.find(cut_at) if cut_at else -1
            if found >= 0:
                target.sendall(piece[: found + len(cut_at) - before])
                return True
            target.sendall(piece)
            said = said[-65536:]
    return False


@contextmanager
def black_hole() -> Iterator[str]:
    """A loopback port where connections are neither taken nor refused: its queue is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def nginx(program: Path, work: Path, locations: str) -> Iterator[str]:
    """A real nginx on loopback with these location blocks; its root."""
    work.mkdir(parents=True, exist_ok=True)
    port = free_port()
    configuration = work / "nginx.conf"
    temporary = "".join(
        f"{kind}_temp_path {work}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration.write_text(
        f"daemon off;\nmaster_process off;\npid {work}/pid;\nerror_log {work}/error.log;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{temporary}"
        f"server {{\nlisten 127.0.0.1:{port};\n{locations}\n}}\n}}\n"
    )
    process = subprocess.Popen(
        [program, "-p", work, "-c", configuration, "-e", work / "error.log"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(work),
    )
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=10)


def private_certificate(openssl: Path, folder: Path) -> ssl.SSLContext:
    """TLS for 127.0.0.1 by a certificate of nobody's authority."""
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / "cert.pem", folder / "key.pem"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", key, "-out", certificate]
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
