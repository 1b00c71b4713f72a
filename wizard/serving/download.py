"""Fetching a model from a hub before the server starts: what is fetched, how far it is, and why it failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wizard.i18n import t
from wizard.problems import Fix, Problem
from wizard.serving.deaths import find_deaths

NO_ROOM = 28  # exit statuses of what fetches: ENOSPC
NO_ACCESS = 41  # the hub wants a login
# vLLM's own way to ModelScope would need its client inside the runtime; this one lies beside.
MODELSCOPE_PACKAGES = ("modelscope-hub==0.5.1",)

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


def modelscope_gated(model: str, endpoint: str, lines: Sequence[str]) -> Problem:
    """ModelScope wants a token for this model, or knows no such model: it answers both alike."""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return Problem(
        "hf-gated-401",
        t("ModelScope gives {model} only to who logs in.", model=model),
        t("The model is private or gated, or its name is misspelt; the hub does not say which."),
        (last[:400], endpoint),
        fix=Fix(
            t("Ask for access on the model's page, and give a token of yours."),
            ("export MODELSCOPE_API_TOKEN=...",),
        ),
    )


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
