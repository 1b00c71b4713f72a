"""Fetching a model from a hub before the server starts: what is fetched, how far it is, and why it failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wizard.i18n import t
from wizard.problems import Fix, Problem
from wizard.serving.deaths import find_deaths

NO_ROOM = 28  # ENOSPC, as the script's exit status

# Run by the runtime's own Python, whose huggingface_hub resumes, verifies and knows mirrors, tokens and proxies.
# Weights come as safetensors where the repository has them; copies for other programs (`original/`, GGUF, ONNX) stay.
# What is on disk is counted from outside: bars of a library that changes them with each version are not read.
DOWNLOAD_SCRIPT = """\
import os, sys, threading, time
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
from huggingface_hub import HfApi, constants, snapshot_download, try_to_load_from_cache
model, free = sys.argv[1], int(sys.argv[2])
found = [(f.rfilename, f.size or 0) for f in HfApi().model_info(model, files_metadata=True).siblings]
has_safe = any(name.endswith(".safetensors") and "/" not in name for name, _ in found)
weights = (".safetensors",) if has_safe else (".bin", ".pt", ".pth")
others = (".json", ".txt", ".model", ".jinja", ".tiktoken", ".py")
files = [(n, s) for n, s in found if n.endswith(weights + others) and not n.startswith(("original/", "onnx/"))]
missing = sum(s for n, s in files if not isinstance(try_to_load_from_cache(model, n), str))
print("sizes %d %d" % (sum(s for _, s in files), missing), flush=True)
if missing > free:
    sys.exit(28)
blobs = os.path.join(constants.HF_HUB_CACHE, "models--" + model.replace("/", "--"), "blobs")
def tell():
    while True:
        time.sleep(1)
        try:
            print("done %d" % sum(entry.stat().st_blocks * 512 for entry in os.scandir(blobs)), flush=True)
        except OSError:
            pass
threading.Thread(target=tell, daemon=True).start()
folder = snapshot_download(model, allow_patterns=[name for name, _ in files])
print("folder " + folder, flush=True)
"""

_SIZES = re.compile(r"^sizes (\d+) (\d+)$")
_DONE = re.compile(r"^done (\d+)$")


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """A download so far, in bytes. total 0: not known yet. missing: what was not here when it began."""

    total: int = 0
    missing: int = 0
    done: int = 0
    folder: str = ""

    @property
    def fraction(self) -> float | None:
        """How much of the whole is here, 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else None


def advance_download(progress: DownloadProgress, line: str) -> DownloadProgress:
    """The progress after one more line of the script."""
    if found := _SIZES.match(line):
        total, missing = int(found[1]), int(found[2])
        return replace(progress, total=total, missing=missing, done=total - missing)
    if found := _DONE.match(line):
        return replace(progress, done=max(progress.done, int(found[1])))
    if line.startswith("folder "):
        return replace(progress, folder=line.removeprefix("folder "), done=progress.total)
    return progress


def judge_download(model: str, code: int, lines: Sequence[str]) -> Problem:
    """Why a download failed: what the hub or the network said, as a server's death by the same would be named."""
    deaths = find_deaths(lines)
    if deaths and deaths[0].role == "cause":
        return deaths[0].problem
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return Problem(
        "model-download-failed",
        t("{model} could not be downloaded.", model=model),
        t("What is here already is kept; the next try goes on from there."),
        tuple(text for text in (last[:400], t("exit status {code}", code=code)) if text),
        fix=Fix(
            t("Try again, use a mirror, or name a local folder."),
            ("export HF_ENDPOINT=https://your.mirror", "llm-setup serve /path/to/a/model"),
        ),
    )
