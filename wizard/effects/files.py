"""Files: read, and write so that a crash leaves the old content or the new, never half of it."""

from __future__ import annotations

import contextlib
import errno
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

        A symlink stays one: its final target is replaced. An existing file keeps its owner, its extended attributes
        (access lists among them) and, unless `mode` is given, its mode; a new file gets `mode` or what the umask
        leaves. Missing folders are made. Raises OSError, with the old file untouched: also where the file belongs to
        another user, to whom the new one could not be given.
        """
        self.stage(path, content, mode=mode).commit()

    def stage(self, path: Path, content: bytes, *, mode: int | None = None) -> Staged:
        """The first half of write_bytes: everything that can fail for want of space or rights, with nothing visible.

        Several files change together when all are staged before the first is committed.
        """
        import tempfile  # 4 ms, and most commands only read

        target = Path(os.path.realpath(path))
        make_folders(target.parent)
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
            if before is None:
                _own_like_folder(staged.temporary)
                staged.temporary.chmod(0o666 & ~_umask() if mode is None else mode)
            else:
                _own_like(staged.temporary, before, target)
                _copy_attributes(target, staged.temporary)
                # Last: an access list brings permission bits of its own, and a change of owner takes some away.
                staged.temporary.chmod(stat.S_IMODE(before.st_mode) if mode is None else mode)
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


def make_folders(folder: Path, mode: int = 0o777) -> None:
    """Make a folder, with `mode` less the umask, and those above it that are not there, as usual; all are durable then.

    What root makes in somebody's home belongs to that somebody: `sudo` must not lock the user out of it.
    """
    for made in reversed(_missing(folder)):
        try:
            made.mkdir(mode=mode if made == folder else 0o777)
        except FileExistsError:
            if not made.is_dir():
                raise
            continue  # another process made it just now
        _own_like_folder(made)
        _sync_folder(made.parent)


def _missing(folder: Path) -> list[Path]:
    """The folder and those above it that are not there, innermost first."""
    missing: list[Path] = []
    while not folder.exists():
        missing.append(folder)
        if folder.parent == folder:  # a drive that is not there
            break
        folder = folder.parent
    return missing


def make_file(path: Path, mode: int = 0o666) -> None:
    """Make an empty file with `mode` less the umask; one that is there, be it a link, is left alone.

    As with folders, it belongs to whom its folder belongs.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        _own_like_folder(path)


def try_folder(folder: Path) -> None:
    """Raise the OSError that making a folder, or writing into it, would meet; what is made for that is taken away."""
    if folder.exists():
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        return
    first = _missing(folder)[-1]
    with contextlib.suppress(FileExistsError):  # another process makes it just now
        first.mkdir()
        with contextlib.suppress(OSError):  # or puts something into it
            first.rmdir()


def _own_like_folder(path: Path) -> None:
    """For root: the owner of a file or folder that was made just now is that of the folder it is in.

    Never for one that was there already: the folder's owner could have put a link to somebody else's file in its place.
    """
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        around = path.parent.stat()
        if around.st_uid:
            with contextlib.suppress(PermissionError):  # a container without CAP_CHOWN: the file serves all the same
                os.chown(path, around.st_uid, around.st_gid, follow_symlinks=False)


def _own_like(new: Path, before: os.stat_result, target: Path) -> None:
    """The owner and, where possible, the group of the file that is replaced. Raises PermissionError for the owner."""
    if not hasattr(os, "chown"):
        return
    made = new.stat()
    if made.st_uid != before.st_uid:
        try:
            os.chown(new, before.st_uid, -1)
        except PermissionError as error:
            raise PermissionError(error.errno, "it belongs to another user", str(target)) from error
    if made.st_gid != before.st_gid:
        with contextlib.suppress(PermissionError):  # a group of which one is no member
            os.chown(new, -1, before.st_gid)


def _copy_attributes(source: Path, to: Path) -> None:
    """Extended attributes, as far as the file system and one's rights allow."""
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(source):
                with contextlib.suppress(OSError):
                    os.setxattr(to, name, os.getxattr(source, name))


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
