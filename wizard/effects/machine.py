"""Reads what this machine says about itself: /proc, /sys, sysctl. The meaning of the texts is wizard.hardware's."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from wizard.hardware.machine import GIB

# A device folder's files that tell about a GPU; all are small.
GPU_ATTRIBUTES = (
    "vendor",
    "device",
    "revision",
    "class",
    "numa_node",
    "unique_id",
    "product_name",
    "mem_info_vram_total",
    "mem_info_vram_used",
    "current_compute_partition",
    "resource",
)
_MOST_BYTES = 4 * 2**20


class Host:
    """One machine's files below `root`, read and never written; tests give a folder with a recorded tree."""

    def __init__(self, root: Path = Path("/"), env: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.env = os.environ if env is None else env

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    @property
    def is_here(self) -> bool:
        """Whether this is the machine we run on, and so system calls tell of it, too."""
        return self.root == Path("/")

    def bytes(self, path: str) -> bytes | None:
        """A file's content, or None where it is missing or may not be read. Kernel files have no size of their own."""
        try:
            with self._at(path).open("rb") as file:
                return file.read(_MOST_BYTES)
        except OSError:
            return None

    def text(self, path: str) -> str | None:
        """As bytes, decoded; a trailing NUL (device tree) is dropped."""
        content = self.bytes(path)
        return None if content is None else content.decode("utf-8", "replace").rstrip("\0")

    def names(self, path: str) -> tuple[str, ...]:
        """The names in a folder, sorted, numbers by value; none where it is missing or may not be read."""
        try:
            found = os.listdir(self._at(path))  # noqa: PTH208 (a Path for each of a thousand processes is not free)
        except OSError:
            return ()
        return tuple(sorted(found, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name)))

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        return self._at(path).exists()

    def may_use(self, path: str) -> bool:
        """Whether this user may read and write what is there."""
        return os.access(self._at(path), os.R_OK | os.W_OK)

    def link(self, path: str) -> str | None:
        """Where a symlink points, or None."""
        try:
            return os.readlink(self._at(path))  # noqa: PTH115
        except OSError:
            return None

    def open_files(self, pid: int) -> tuple[str, ...] | None:
        """What a process has open, as paths; None where that is another user's business."""
        folder = self._at(f"proc/{pid}/fd")
        try:
            names = os.listdir(folder)  # noqa: PTH208
        except OSError:
            return None
        return tuple(target for name in names if (target := self.link(f"proc/{pid}/fd/{name}")) is not None)

    def pids(self) -> tuple[int, ...]:
        """All processes that /proc shows."""
        return tuple(int(name) for name in self.names("proc") if name.isdigit())

    def user_name(self, uid: int) -> str | None:
        """A user's name; the number as text where nobody has it."""
        if self.is_here:
            import pwd

            try:
                return pwd.getpwuid(uid).pw_name
            except KeyError:
                return str(uid)
        for line in (self.text("etc/passwd") or "").splitlines():
            words = line.split(":")
            if len(words) > 2 and words[2] == str(uid):
                return words[0]
        return str(uid)

    def usable_cores(self) -> int | None:
        """CPUs this process may run on, or None where the system does not tell."""
        if self.is_here and hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return None

    def architecture(self) -> str:
        """x86_64, aarch64, arm64, ...; a recorded tree tells it in /proc/sys/kernel/arch (Linux 6.1)."""
        told = None if self.is_here else self.text("proc/sys/kernel/arch")
        return (told or platform.machine()).strip()

    def size_gib(self, path: str) -> float | None:
        """The size of the file system at a path, GiB; None where there is none."""
        try:
            return shutil.disk_usage(self._at(path)).total / GIB
        except OSError:
            return None

    def free_gib(self, path: Path) -> float | None:
        """Free space, GiB, for a normal user at a path that need not exist yet: of its nearest existing parent."""
        for folder in (path, *path.parents):
            try:
                return shutil.disk_usage(folder).free / GIB
            except OSError:
                continue
        return None

    def drm_cards(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        """Graphics devices: (card folder, PCI address, texts of its files by name)."""
        for card in self.names("sys/class/drm"):
            if not card.startswith("card") or not card[4:].isdigit():
                continue
            folder = f"sys/class/drm/{card}"
            device = f"{folder}/device"
            texts = {name: text for name in GPU_ATTRIBUTES if (text := self.text(f"{device}/{name}")) is not None}
            for name in ("lmem_total_bytes", "lmem_avail_bytes"):
                if (text := self.text(f"{folder}/{name}")) is not None:
                    texts[name] = text
            for tile in self.names(device):
                if tile.startswith("tile") and (text := self.text(f"{device}/{tile}/physical_vram_size_bytes")):
                    texts[f"{tile}/physical_vram_size_bytes"] = text
            address = ""
            for line in (self.text(f"{device}/uevent") or "").splitlines():
                key, _, value = line.partition("=")
                if key == "PCI_SLOT_NAME":
                    address = value.strip().lower()
                elif key == "DRIVER":
                    texts["driver"] = value.strip()
            yield folder, address, texts

    def first_text(self, *paths: str) -> str | None:
        """The first of several files that is there."""
        return next((text for path in paths if (text := self.text(path)) is not None), None)

    def run(self, *command: str, time_limit_s: float = 2.0) -> str:
        """What a system tool prints; empty where it is missing, fails to start or takes too long."""
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=time_limit_s, check=False, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.decode("utf-8", "replace")
