"""Files: read, and write so that a crash leaves the old content or the new, never half of it."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

PRIVATE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Staged:
    """New content beside its target, complete on disk and not yet visible."""

    temporary: Path
    target: Path

    def commit(self) -> None:
        """Make it the file, at once; on failure the old file stays and the new content is removed."""
        try:
            self.temporary.replace(self.target)
        except BaseException:
            self.discard()
            raise
        _sync_folder(self.target.parent)

    def discard(self) -> None:
        """Give the new content up."""
        with contextlib.suppress(OSError):
            self.temporary.unlink()


class Files:
    """The file system. Every write goes beside the target and is renamed over it, through symlinks."""

    def read_bytes(self, path: Path) -> bytes | None:
        """The content, or None where there is no such file. Other errors are raised as OSError."""
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_regular(self, path: Path) -> bytes | None:
        """As read_bytes; what is no regular file (a pipe, a device, a folder) is an OSError instead of a long wait.

        A file where one of the path's folders should be is one, too: nothing can be written there.
        """
        try:
            kind = path.stat().st_mode
        except FileNotFoundError:
            return None
        except NotADirectoryError as error:
            blocking = next(folder for folder in path.parents if folder.exists())
            raise NotADirectoryError(error.errno, f"{blocking} is not a folder", str(path)) from error
        if not stat.S_ISREG(kind):
            raise OSError(f"{path} is not a regular file")
        return self.read_bytes(path)

    def read_some(self, path: Path, limit_bytes: int) -> bytes | None:
        """The beginning of anything that can be read, pipes and devices too; None where there is no such file."""
        try:
            with path.open("rb") as source:
                return source.read(limit_bytes)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_bytes(self, path: Path, content: bytes, *, mode: int | None = None) -> None:
        """Replace the file's content atomically.

        A symlink stays one: its final target is replaced. An existing file keeps its mode and, where possible, its
        owner, unless `mode` is given; a new file gets `mode` or what the umask leaves. Missing folders are made.
        Raises OSError, with the old file untouched.
        """
        self.stage(path, content, mode=mode).commit()

    def stage(self, path: Path, content: bytes, *, mode: int | None = None) -> Staged:
        """The first half of write_bytes: everything that can fail for want of space or rights, with nothing visible.

        Several files change together when all are staged before the first is committed.
        """
        import tempfile  # 4 ms, and most commands only read

        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            before: os.stat_result | None = target.stat()
        except FileNotFoundError:
            before = None
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise OSError(f"{target} is not a regular file")
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".llm-setup", dir=target.parent)
        staged = Staged(Path(name), target)
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            if mode is not None:
                staged.temporary.chmod(mode)
            elif before is not None:
                staged.temporary.chmod(stat.S_IMODE(before.st_mode))
            else:
                staged.temporary.chmod(0o666 & ~_umask())
            if before is not None and hasattr(os, "chown"):
                with contextlib.suppress(PermissionError):
                    os.chown(name, before.st_uid, before.st_gid)
        except BaseException:
            staged.discard()
            raise
        return staged

    def write_private(self, path: Path, content: bytes) -> None:
        """As write_bytes, readable by the user alone."""
        self.write_bytes(path, content, mode=PRIVATE_MODE)

    def remove(self, path: Path) -> None:
        """Delete a file; fine when it is not there."""
        path.unlink(missing_ok=True)


def measure_folder(folder: Path) -> tuple[int, int]:
    """How many files are below a folder, and their bytes together. What goes away meanwhile counts nothing."""
    files, size = 0, 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += Path(root, name).lstat().st_size
                files += 1
    return files, size


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """A rename is durable only when its folder is."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
