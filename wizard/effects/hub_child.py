"""Fetches a model's files from a hub; run by the Python of a vLLM, whose hub client is imported here and not by us.

    hub_child.py huggingface MODEL FREE-BYTES
    hub_child.py modelscope MODEL FREE-BYTES ENDPOINT FOLDER

It prints `sizes WHOLE MISSING`, then each second `done BYTES`, and `folder PATH` at the end. Exit status 28: no room;
41: the hub wants a login; else what the client said is the last thing printed.

Weights come as safetensors where the repository has them; copies for other programs (`original/`, GGUF, ONNX) stay.
What is on the disk is counted from outside, because bars change with each version of a client.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

NO_ROOM = 28
NO_ACCESS = 41
_OTHERS = (".json", ".txt", ".model", ".jinja", ".tiktoken", ".py")
# Below it, a file that was cut is quickly fetched again by the hub's client.
_LARGE_BYTES = 8 * 2**20
_AT_ONCE = 4
_TRIES = 5
_PIECE = 2**20


def wanted(files: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Of a repository's files, those that vLLM loads."""
    has_safe = any(name.endswith(".safetensors") and "/" not in name for name, _ in files)
    ends = ((".safetensors",) if has_safe else (".bin", ".pt", ".pth")) + _OTHERS
    return [(name, size) for name, size in files if name.endswith(ends) and not name.startswith(("original/", "onnx/"))]


def begin(files: Sequence[tuple[str, int]], is_here: Callable[[str, int], bool], free: int, folder: Path) -> None:
    """Say what there is to fetch, end where there is no room for it, and tell from now on what is on the disk."""
    missing = sum(size for name, size in files if not is_here(name, size))
    print(f"sizes {sum(size for _, size in files)} {missing}", flush=True)
    if missing > free:
        sys.exit(NO_ROOM)
    threading.Thread(target=_tell, args=(folder,), daemon=True).start()


def _tell(folder: Path) -> None:
    while True:
        time.sleep(1)
        done = 0
        for root, _, names in os.walk(folder):
            for name in names:
                try:
                    done += Path(root, name).lstat().st_blocks * 512
                except OSError:
                    continue
        print(f"done {done}", flush=True)


def from_hugging_face(model: str, free: int) -> None:
    """Into the hub's own cache."""
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    import huggingface_hub as hub  # type: ignore[import-not-found,unused-ignore]
    from huggingface_hub import constants  # type: ignore[import-not-found,unused-ignore]

    about = hub.HfApi().model_info(model, files_metadata=True)
    files = wanted([(file.rfilename, file.size or 0) for file in about.siblings])
    blobs = Path(constants.HF_HUB_CACHE) / ("models--" + model.replace("/", "--")) / "blobs"

    def is_here(name: str, size: int) -> bool:
        return isinstance(hub.try_to_load_from_cache(model, name, revision=about.sha), str)

    begin(files, is_here, free, blobs)
    # The client of today throws a half fetched file away when it is ended, and weights are large: they are fetched so
    # that the next run goes on. The client then finds them in its cache, and does the rest.
    large = [name for name, size in files if size >= _LARGE_BYTES and not is_here(name, size)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for job in [pool.submit(_fetch, hub, model, name, about.sha, blobs) for name in large]:
            job.result()
    print(
        "folder " + hub.snapshot_download(model, revision=about.sha, allow_patterns=[n for n, _ in files]), flush=True
    )


def _fetch(hub: Any, model: str, name: str, revision: str, blobs: Path) -> None:
    """One large file into the cache, from where an earlier run ended. What cannot be had this way is left to the hub's
    client. What is not what the hub says it is ends the program: that client looks at the size alone."""
    url = hub.hf_hub_url(model, name, revision=revision)
    tries, afresh = _TRIES, False
    while tries:
        about = hub.get_hf_file_metadata(url)
        etag, size = (about.etag or "").strip('"'), about.size
        if len(etag) != 64 or not size:
            return
        half = blobs / f"{etag}.incomplete"
        blobs.mkdir(parents=True, exist_ok=True)
        here = half.stat().st_size if half.exists() else 0
        try:
            if here < size:
                # A redirect leads to a CDN, which is not shown the token.
                own = urlsplit(about.location)[:2] == urlsplit(url)[:2]
                _append(about.location, hub.utils.build_hf_headers() if own else {}, half, here)
        except urllib.error.HTTPError as error:
            if error.code not in (403, 408, 429) and error.code < 500:  # 403: the signed URL is too old
                return
        except (OSError, ValueError, http.client.HTTPException) as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
        now = half.stat().st_size if half.exists() else 0
        if now >= size:
            if now == size and _sha256(half) == etag:
                half.replace(blobs / etag)
                return
            half.unlink()
            if afresh:
                sys.exit(f"{name}: what came is not what the hub says it is (SHA-256 {etag})")
            afresh = True  # the beginning may have been another's
        tries = _TRIES if now > here else tries - 1
        time.sleep(1)


def _append(url: str, headers: dict[str, str], half: Path, start: int) -> None:
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-", "Accept-Encoding": "identity"})
    for name, value in headers.items():
        request.add_unredirected_header(name, value)  # wherever this leads, the token stays
    with urllib.request.urlopen(request, timeout=60, context=_trust()) as reply:
        file = half.open("ab" if reply.status == 206 else "wb")  # a server that knows no ranges sends all of it
        with file:
            while piece := reply.read(_PIECE):
                file.write(piece)


def _trust() -> ssl.SSLContext:
    named = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE")
    if named:
        return ssl.create_default_context(cafile=named)
    try:
        import certifi  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return ssl.create_default_context()
    return ssl.create_default_context(cafile=certifi.where())


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def from_modelscope(model: str, free: int, endpoint: str, folder: Path) -> None:
    """Into that folder; the client resumes."""
    from modelscope_hub import HubApi  # type: ignore[import-not-found,unused-ignore]

    hub = HubApi(endpoint=endpoint, token=os.environ.get("MODELSCOPE_API_TOKEN") or None)
    try:
        listed = hub.list_repo_files(model, "model")
        files = wanted([(file.path, file.size or 0) for file in listed if not file.is_dir])

        def is_here(name: str, size: int) -> bool:
            return (folder / name).is_file() and (folder / name).stat().st_size == size

        begin(files, is_here, free, folder)
        hub.download_repo(model, "model", local_dir=folder, allow_patterns=[name for name, _ in files])
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        sys.exit(NO_ACCESS if getattr(error, "status_code", None) in (401, 403) else 1)
    print(f"folder {folder}", flush=True)


if __name__ == "__main__":
    kind, model, free, *rest = sys.argv[1:]
    if kind == "modelscope":
        from_modelscope(model, int(free), rest[0], Path(rest[1]))
    else:
        from_hugging_face(model, int(free))
