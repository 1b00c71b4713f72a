"""A hub on loopback that speaks as huggingface.co and modelscope.cn do: metadata, ranges, gated models, a CDN to which
large files are redirected. Connections can be cut in the middle of a file."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
# Larger ones lie in LFS, on the CDN.
LARGE = 100_000


@dataclass(frozen=True)
class Asked:
    """A request that arrived. start: the first byte that was asked for."""

    method: str
    path: str
    start: int
    token: str
    by_cdn: bool


@dataclass
class StandinHub:
    """One model of that name. token: who does not send it is refused, as for a gated model. cut_after: bytes of a large
    file after which connections are cut, until `cuts` of them were; 0: never. slow: bytes a second of large files."""

    files: Mapping[str, bytes]
    model: str = "someone/model"
    token: str = ""
    cut_after: int = 0
    cuts: int = 0
    bytes_per_s: int = 0
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> StandinHub:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                hub._answer(self)

            def do_GET(self) -> None:
                hub._answer(self)

            def log_message(self, *words: Any) -> None:
                return

        self._over = threading.Event()
        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
        for server in self._servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.url, self.cdn = (f"http://127.0.0.1:{server.server_address[1]}" for server in self._servers)
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def starts(self, file: str) -> list[int]:
        """Where each request for a file's content began."""
        return [asked.start for asked in self.asked if asked.method == "GET" and file in asked.path]

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        split = urlsplit(request.path)
        path = unquote(split.path)
        by_cdn = request.server is self._servers[1]
        said = request.headers.get("range", "")
        start = int(said.removeprefix("bytes=").partition("-")[0] or 0)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        cookie = request.headers.get("cookie", "")
        self.asked.append(Asked(request.command, request.path, start, token, by_cdn))
        if by_cdn:
            return self._content(request, path.removeprefix("/"), start, ranged=bool(said))
        allowed = not self.token or self.token in (token, cookie.partition("m_session_id=")[2].partition(";")[0])
        if path.startswith("/api/v1/"):
            return self._modelscope(request, path, parse_qs(split.query), start, bool(said), allowed)
        if path.startswith(f"/api/models/{self.model}/tree/"):
            return _json(request, 200, [_tree_row(name, body) for name, body in self.files.items()])
        if path.startswith(f"/api/models/{self.model}"):
            siblings = [{"rfilename": name, "size": len(body)} for name, body in self.files.items()]
            about = {"id": self.model, "modelId": self.model, "sha": COMMIT, "siblings": siblings, "tags": []}
            return _json(request, 200, about | {"private": False, "gated": "manual" if self.token else False})
        # Both hubs give single files so; ModelScope below /models.
        before, _, rest = path.removeprefix("/models").partition("/resolve/")
        name = rest.partition("/")[2]
        if before != f"/{self.model}" or name not in self.files:
            missing = "RepoNotFound" if before != f"/{self.model}" else "EntryNotFound"
            return _json(request, 404, {"error": missing}, {"X-Error-Code": missing, "X-Repo-Commit": COMMIT})
        if not allowed:
            text = f"Access to model {self.model} is restricted. You must be authenticated to access it."
            return _json(request, 401, {"error": text}, {"X-Error-Code": "GatedRepo", "X-Error-Message": text})
        body = self.files[name]
        named = {"X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if len(body) < LARGE:
            return self._content(request, name, start, named | {"ETag": f'"{_git_id(body)}"'}, ranged=bool(said))
        linked = {"X-Linked-Size": str(len(body)), "X-Linked-ETag": f'"{hashlib.sha256(body).hexdigest()}"'}
        return _empty(request, 302, named | linked | {"Location": f"{self.cdn}/{name}"})

    def _modelscope(
        self,
        request: BaseHTTPRequestHandler,
        path: str,
        query: dict[str, list[str]],
        start: int,
        ranged: bool,
        allowed: bool,
    ) -> None:
        rest = path.removeprefix(f"/api/v1/models/{self.model}")
        if rest == path or not allowed:
            return _json(
                request, 404 if rest == path else 403, {"Code": 10010205001, "Message": "no access", "Success": False}
            )
        if rest == "/repo/files":
            rows = [
                {
                    "Path": name,
                    "Name": name,
                    "Type": "blob",
                    "Size": len(body),
                    "Sha256": hashlib.sha256(body).hexdigest(),
                    "Revision": COMMIT,
                    "IsLFS": len(body) >= LARGE,
                }
                for name, body in self.files.items()
            ]
            return _json(request, 200, {"Code": 200, "Success": True, "Data": {"Files": rows}})
        if rest == "/repo":
            return self._content(request, query["FilePath"][0], start, {"Accept-Ranges": "bytes"}, ranged=ranged)
        if rest == "/revisions":
            revisions = {"RevisionMap": {"Branches": [{"Revision": "master"}], "Tags": []}}
            return _json(request, 200, {"Code": 200, "Success": True, "Data": revisions})
        return _json(request, 200, {"Code": 200, "Success": True, "Data": {"Name": self.model, "Visibility": 5}})

    def _content(
        self, request: BaseHTTPRequestHandler, name: str, start: int, headers: Mapping[str, str] = {}, *, ranged: bool
    ) -> None:
        whole = self.files[name]
        end = len(whole)
        if ranged and (last := request.headers["range"].rpartition("-")[2]):
            end = min(end, int(last) + 1)
        body = whole[start:end]
        request.send_response(206 if ranged else 200)
        for key, value in headers.items():
            request.send_header(key, value)
        if ranged:
            request.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(whole)}")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "HEAD":
            return
        try:
            if len(whole) < LARGE:
                request.wfile.write(body)
                return
            if self.cuts and self.cut_after < len(body):
                self.cuts -= 1
                request.wfile.write(body[: self.cut_after])
                request.close_connection = True
                return
            step = max(1, self.bytes_per_s // 20) if self.bytes_per_s else len(body) or 1
            for at in range(0, len(body), step):
                request.wfile.write(body[at : at + step])
                request.wfile.flush()
                if self.bytes_per_s and self._over.wait(0.05):
                    return
        except (BrokenPipeError, ConnectionResetError):
            request.close_connection = True


def _tree_row(name: str, body: bytes) -> dict[str, Any]:
    row: dict[str, Any] = {"type": "file", "path": name, "size": len(body), "oid": _git_id(body)}
    if len(body) >= LARGE:
        row["lfs"] = {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 134}
    return row


def _git_id(body: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()


def _empty(request: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str]) -> None:
    request.send_response(status)
    for key, value in headers.items():
        request.send_header(key, value)
    request.send_header("Content-Length", "0")
    request.end_headers()


def _json(request: BaseHTTPRequestHandler, status: int, body: object, headers: Mapping[str, str] = {}) -> None:
    raw = json.dumps(body).encode()
    request.send_response(status)
    for key, value in headers.items():
        request.send_header(key, value)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(raw)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(raw)
