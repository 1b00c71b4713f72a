"""What a starting server is doing, from its log lines: resolve, download, load, compile, profile, graphs, ready.

Lines are vLLM's own, 0.6 to 0.33, CUDA, ROCm and CPU builds. A phase is entered by its first line and never left
backwards: several processes write into one log, and their lines cross.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from wizard.i18n import t

Phase = Literal["start", "resolve", "download", "load", "compile", "profile", "graphs", "serve"]
PHASES: tuple[Phase, ...] = ("start", "resolve", "download", "load", "compile", "profile", "graphs", "serve")

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
MAX_LINE_CHARACTERS = 4000

# First line that says the phase began.
_BEGINS: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    ("serve", re.compile(r"Starting vLLM (?:API )?server|Application startup complete|Uvicorn running on")),
    ("graphs", re.compile(r"Capturing (?:CUDA|HIP|cuda) ?graph|Capturing the model for CUDA graphs|Graph capturing")),
    (
        "profile",
        re.compile(
            r"Available KV cache memory|KV cache size: [\d,]+ tokens|for KV cache on node|Memory profiling takes"
            r"|Initial (?:free|profiling)|Warming up|warmup run took|# (?:GPU|CPU|cuda) blocks:"
        ),
    ),
    (
        "compile",
        re.compile(
            r"torch\.compile cache|for vLLM's torch\.compile|Dynamo bytecode transform|Compiling a graph"
            r"|Start compiling function|torch\.compile t(?:akes|ook)|Directly load the compiled graph"
        ),
    ),
    (
        "load",
        re.compile(
            r"Starting to load model|Loading \S+ checkpoint shards|Loading weights took|Checkpoint size:"
            r"|Model loading took|Loading model weights took"
        ),
    ),
    (
        "download",
        re.compile(
            r"Fetching \d+ files|Downloading (?:shards|\S+\.(?:safetensors|bin|json))|\.safetensors: +\d+%\|"
            r"|Using model weights format|Time spent downloading weights|Downloading Model"
        ),
    ),
    (
        "resolve",
        re.compile(r"non-default args:|vLLM API server version|version \d+\.\d+\.\d+|Resolved architecture"),
    ),
)

# How far within the phase: done and total.
_COUNTS = re.compile(
    r"checkpoint shards: +\d+% Completed \| (\d+)/(\d+)"
    r"|Capturing [^:]*graphs?[^:]*: +\d+%\|[^|]*\| (\d+)/(\d+)"
    r"|Fetching \d+ files: +\d+%\|[^|]*\| (\d+)/(\d+)"
)
_PERCENT = re.compile(r"(?:\.safetensors|\.bin|Downloading \S+): +(\d+)%\|")
_READY = re.compile(r"Application startup complete")


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """A phase that was entered: seconds after the start when it began and ended (None: it is the current one)."""

    phase: Phase
    began_s: float
    ended_s: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What the server measured and printed. Sizes in GiB (2**30), counts in tokens; None: not printed."""

    kv_tokens: int | None = None
    kv_gib: float | None = None
    weights_gib: float | None = None
    max_concurrency: float | None = None
    max_model_len: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """A start so far. fraction: how far within the current phase, 0 to 1, where the log says it."""

    phases: tuple[PhaseTime, ...] = (PhaseTime("start", 0.0),)
    fraction: float | None = None
    measured: Measured = Measured()
    announced_ready: bool = False
    last_line: str = ""

    @property
    def phase(self) -> Phase:
        """The phase it is in."""
        return self.phases[-1].phase


def clean_line(line: str) -> str:
    """The line without colours, control characters and excess; a progress bar's last state is what counts."""
    if len(line) > 4 * MAX_LINE_CHARACTERS:
        line = line[: 2 * MAX_LINE_CHARACTERS] + line[-2 * MAX_LINE_CHARACTERS :]
    line = _ANSI.sub("", line).rstrip("\r\n").rpartition("\r")[2]
    return _CONTROL.sub("", line)[:MAX_LINE_CHARACTERS]


def advance(progress: Progress, line: str, at_s: float) -> Progress:
    """The progress after one more log line, seen `at_s` seconds after the start."""
    line = clean_line(line)
    if not line.strip():
        return progress
    progress = replace(progress, last_line=line, measured=_measure(progress.measured, line))
    for phase, begins in _BEGINS:
        if begins.search(line):
            progress = _enter(progress, phase, at_s)
            break
    fraction = _fraction(line)
    if fraction is not None:
        progress = replace(progress, fraction=fraction)
    if _READY.search(line):
        progress = replace(progress, announced_ready=True)
    return progress


def _enter(progress: Progress, phase: Phase, at_s: float) -> Progress:
    if PHASES.index(phase) <= PHASES.index(progress.phase):
        return progress
    *before, current = progress.phases
    return replace(progress, phases=(*before, replace(current, ended_s=at_s), PhaseTime(phase, at_s)), fraction=None)


def _fraction(line: str) -> float | None:
    counts = _COUNTS.search(line)
    if counts:
        done, total = (int(group) for group in counts.groups() if group is not None)
        return done / total if total else None
    percent = _PERCENT.search(line)
    return int(percent[1]) / 100 if percent else None


def _number(text: str) -> float:
    return float(text.replace(",", ""))


_KV_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")
_KV_GIB = re.compile(r"Available KV cache memory: ([\d.]+) GiB|Explicitly set \(([\d.]+)/[\d.]+\) GiB for KV cache")
_WEIGHTS = re.compile(
    r"Model loading took ([\d.]+) Gi?B|Loading model weights took ([\d.]+) GB|Checkpoint size: ([\d.]+) GiB"
)


def _measure(measured: Measured, line: str) -> Measured:
    if found := _KV_TOKENS.search(line):
        measured = replace(measured, kv_tokens=int(_number(found[1])))
    if found := _CONCURRENCY.search(line):
        measured = replace(measured, max_model_len=int(_number(found[1])), max_concurrency=float(found[2]))
    if found := _KV_GIB.search(line):
        measured = replace(measured, kv_gib=float(found[1] or found[2]))
    # "Model loading took" is what the device holds; the checkpoint's size on disk is only the next best.
    if (found := _WEIGHTS.search(line)) and (found[3] is None or measured.weights_gib is None):
        measured = replace(measured, weights_gib=float(found[1] or found[2] or found[3]))
    return measured


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a start may take. stall_s: without a log line and without CPU work."""

    total_s: float
    stall_s: float


def patience_for(weights_gib: float | None, *, downloaded: bool) -> Patience:
    """Limits that grow with the weights' size.

    20 min for imports, compilation and graphs (torch.compile alone took 207 to 286 s on two cores with 135 M
    parameters); 20 s a GiB to read weights from a slow disk (50 MB/s); 200 s a GiB to download them at 5 MB/s.
    """
    size = weights_gib or 20.0
    total = 1200.0 + 20.0 * size + (0.0 if downloaded else 200.0 * size)
    return Patience(total_s=total, stall_s=300.0 + 4.0 * size)


def phase_title(phase: Phase) -> str:
    """The phase for people."""
    titles: dict[Phase, Callable[[], str]] = {
        "start": lambda: t("start the process"),
        "resolve": lambda: t("read the model's configuration"),
        "download": lambda: t("download the model"),
        "load": lambda: t("load weights"),
        "compile": lambda: t("compile"),
        "profile": lambda: t("measure memory, make the KV cache, warm up"),
        "graphs": lambda: t("capture graphs"),
        "serve": lambda: t("open the port and answer"),
    }
    return titles[phase]()
