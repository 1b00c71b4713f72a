"""A model's files: in a folder, and on a hub. Reads only, bounded in size and time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from wizard.effects.http import Http
from wizard.endpoint.exchange import HttpFailure, HttpReply, HttpRequest
from wizard.secret import Secret

_REDIRECTS = 4


class ModelFolder:
    """A folder with a model (or one config.json). Missing and unreadable files are None."""

    def __init__(self, folder: Path, config: Path | None = None) -> None:
        self.folder = folder
        self.config = config or folder / "config.json"

    def read(self, name: str, limit: int) -> bytes | None:
        """At most `limit` bytes of a file."""
        return self.read_range(name, 0, limit)

    def read_range(self, name: str, start: int, count: int) -> bytes | None:
        """`count` bytes of a file from `start` on."""
        path = self.config if name == "config.json" else self.folder / name
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(count)
        except OSError:
            return None

    def size(self, name: str) -> int | None:
        """A file's size in bytes."""
        try:
            return (self.config if name == "config.json" else self.folder / name).stat().st_size
        except OSError:
            return None

    def names(self) -> tuple[str, ...]:
        """Names of the files directly in the folder, sorted."""
        with contextlib.suppress(OSError):
            return tuple(sorted(entry.name for entry in self.folder.iterdir() if entry.is_file()))
        return ()


def hugging_face_home(env: Mapping[str, str], home: Path) -> Path:
    """Where the hub's client keeps all that is its own, as huggingface_hub's constants.py reads it."""
    return Path(env.get("HF_HOME") or Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "huggingface").expanduser()


def hugging_face_models(env: Mapping[str, str], home: Path) -> Path:
    """Where the hub's client keeps models."""
    named = env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE")
    return Path(named).expanduser() if named else hugging_face_home(env, home) / "hub"


class HubCache:
    """Where the hubs' own clients keep what they fetched."""

    def __init__(self, env: Mapping[str, str], home: Path) -> None:
        self._env = env
        self._home = home

    def snapshot(self, model: str) -> Path | None:
        """The folder of a model that is here already, the newest snapshot; None where it is not."""
        root = hugging_face_models(self._env, self._home)
        snapshots = root / f"models--{model.replace('/', '--')}" / "snapshots"
        with contextlib.suppress(OSError):
            found = [folder for folder in snapshots.iterdir() if (folder / "config.json").exists()]
            if found:
                return max(found, key=lambda folder: folder.stat().st_mtime)
        for folder in self._modelscope_folders(model):
            with contextlib.suppress(OSError):
                if (folder / "config.json").exists():
                    return folder
        return None

    def _modelscope_folders(self, model: str) -> Iterator[Path]:
        """Where ModelScope's client keeps a model: snapshots as of 1.38; before, by its name, dots written as `___`."""
        named = self._env.get("MODELSCOPE_CACHE")
        root = Path(named).expanduser() if named else self._home / ".cache" / "modelscope"
        owner, _, name = model.rpartition("/")
        with contextlib.suppress(OSError):
            yield from sorted((root / "models" / model.replace("/", "--") / "snapshots").iterdir())
        for base in (root / "models", root, root / "hub" / "models", root / "hub"):
            yield base / model
            yield base / owner / name.replace(".", "___")

    def token(self) -> Secret | None:
        """The hub's token: `HF_TOKEN`, else the file that its login writes."""
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            if self._env.get(name, "").strip():
                return Secret(self._env[name].strip())
        home = hugging_face_home(self._env, self._home)
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = (home / "token").read_text(encoding="ascii").strip()
            return Secret(text) if text else None
        return None


class Hub:
    """Requests to a hub. The token goes to the hub's own host and no other."""

    def __init__(self, http: Http, token: Secret | None) -> None:
        self._http = http
        self._token = token

    @property
    def has_token(self) -> bool:
        """Whether requests carry a token."""
        return self._token is not None

    def get(
        self, url: str, *, timeout_s: float, max_bytes: int, span: tuple[int, int] | None = None
    ) -> HttpReply | HttpFailure:
        """One file, or the bytes `span` (first, last) of it; redirects are followed."""
        home = url
        answer: HttpReply | HttpFailure = HttpFailure("invalid-request", "no request", 0.0)
        for _ in range(_REDIRECTS):
            headers: list[tuple[str, str]] = []
            if self._token and _may_know(url, home):
                headers.append(("authorization", f"Bearer {self._token.reveal()}"))
            if span:
                headers.append(("range", f"bytes={span[0]}-{span[1]}"))
            answer = self._http.send(
                HttpRequest(
                    "GET",
                    url,
                    headers=tuple(headers),
                    timeout_s=timeout_s,
                    connect_timeout_s=min(4.0, timeout_s),
                    max_body_bytes=max_bytes,
                )
            )
            if isinstance(answer, HttpFailure) or answer.status not in (301, 302, 303, 307, 308):
                return answer
            target = urljoin(url, answer.header("location"))
            if not target or urlsplit(target).scheme not in ("http", "https"):
                return answer
            url = target
        return answer


def _may_know(url: str, home: str) -> bool:
    """Whether a token for `home` may go to `url`: the same host, and never from TLS to none."""
    to, at = urlsplit(url), urlsplit(home)
    return to.netloc == at.netloc and to.scheme in (at.scheme, "https")
