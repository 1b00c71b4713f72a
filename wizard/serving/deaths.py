"""From a server's log to the reason why it died: what was seen, why it happens, and which flags to change.

The known deaths are rows of `deaths.toml`. A log is read once, front to back, in bounded memory, and only its last
start counts: what came before the server was up, or after it was stopped on purpose, explains nothing.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any, AnyStr, Literal, cast

from wizard.i18n import t
from wizard.problems import Fix, Problem, Severity
from wizard.secret import redact

Role = Literal["cause", "generic", "hint", "consequence", "wrapper", "request"]

# Longer lines are cut: the list of architectures that vLLM prints has about 12,000 characters.
MAX_LINE_CHARACTERS = 32_768
_SAW_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class FlagChange:
    """A flag of `vllm serve` and its new value: "" for a flag without value, None to leave the flag out."""

    flag: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that lets the server start. env: variables, "" to unset. safe: may be applied without asking."""

    changes: tuple[FlagChange, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    gives_up: str = ""
    safe: bool = False


@dataclass(frozen=True, slots=True)
class Death:
    """One known death as it was found in a log. position: characters before its line."""

    problem: Problem
    remedies: tuple[Remedy, ...]
    role: Role
    position: int


@dataclass(frozen=True, slots=True)
class DeathLine:
    """One wording, as described at the top of the table. raw: matched with the log's prefix."""

    pattern: re.Pattern[str]
    words: frozenset[str]
    after: re.Pattern[str] | None
    unless: re.Pattern[str] | None
    any_level: bool
    raw: bool
    alone: bool
    derive: str
    what: str
    fix: str
    commands: tuple[str, ...]
    remedies: tuple[Mapping[str, Any], ...]
    source: str
    example: str


@dataclass(frozen=True, slots=True)
class DeathKind:
    """A row of the table: a cause with its texts and its wordings."""

    code: str
    role: Role
    what: str
    why: str
    fix: str
    commands: tuple[str, ...]
    explained_by: frozenset[str]
    over: frozenset[str]
    masked_by: frozenset[str]
    masked_code: str
    runtime: bool
    lines: tuple[DeathLine, ...] = field(repr=False)


@cache
def all_deaths() -> tuple[DeathKind, ...]:
    """Every known death, in the table's order (the strictest wording of a line first)."""
    text = resources.files("wizard.serving").joinpath("deaths.toml").read_text("utf-8")
    return tuple(_parse_kind(row) for row in tomllib.loads(text)["death"])


def find_death(code: str) -> DeathKind | None:
    """The row of a code."""
    return next((kind for kind in all_deaths() if kind.code == code), None)


def _parse_kind(row: dict[str, Any]) -> DeathKind:
    row = dict(row)
    lines = tuple(_parse_line(line) for line in row.pop("line", []))
    kind = DeathKind(
        code=row.pop("code"),
        role=cast(Role, row.pop("role", "cause")),
        what=row.pop("what"),
        why=row.pop("why"),
        fix=row.pop("fix"),
        commands=tuple(row.pop("commands", ())),
        explained_by=frozenset(row.pop("explained_by", ())),
        over=frozenset(row.pop("over", ())),
        masked_by=frozenset(row.pop("masked_by", ())),
        masked_code=row.pop("masked_code", ""),
        runtime=row.pop("runtime", False),
        lines=lines,
    )
    if row:
        raise ValueError(f"deaths.toml: {kind.code}: unknown keys {sorted(row)}")
    return kind


def _parse_line(row: dict[str, Any]) -> DeathLine:
    row = dict(row)
    words = row.pop("words", None) or [row.pop("word")]
    line = DeathLine(
        pattern=re.compile(row.pop("pattern"), re.IGNORECASE if row.pop("ignore_case", False) else 0),
        words=frozenset(words),
        after=re.compile(row.pop("after")) if "after" in row else None,
        unless=re.compile(row.pop("unless")) if "unless" in row else None,
        any_level=row.pop("level", "") == "any",
        raw=row.pop("raw", False),
        alone=row.pop("alone", False),
        derive=row.pop("derive", ""),
        what=row.pop("what", ""),
        fix=row.pop("fix", ""),
        commands=tuple(row.pop("commands", ())),
        remedies=tuple(row.pop("remedies", ())),
        source=row.pop("source"),
        example=row.pop("example"),
    )
    if row:
        raise ValueError(f"deaths.toml: unknown keys {sorted(row)} at {line.pattern.pattern!r}")
    return line


# ---------------------------------------------------------------- numbers


def _context_by_ratio(values: dict[str, str]) -> dict[str, str]:
    """The KV cache grows with the context, so what fits is the same share of it; whole blocks of 16 tokens.

    vLLM rounds both sizes to hundredths of a GiB, so the least that they can mean is taken.
    """
    share = (float(values["available_gib"]) - 0.005) / (float(values["needed_gib"]) + 0.005)
    tokens = int(int(values["wanted"]) * share)
    return {"fitting": str(tokens // 16 * 16)} if tokens >= 16 else {}


def _cpu_cache_space(values: dict[str, str]) -> dict[str, str]:
    """Half of what is free, in whole GiB, as vLLM reads it; the weights are loaded by then."""
    return {"space_gib": str(max(1, int(float(values["free_gib"]) / 2)))}


def _utilization_that_fits(values: dict[str, str]) -> dict[str, str]:
    """The free share of the device, less one percent; nothing below 5%, which no model fits in."""
    hundredths = int(float(values["free_gib"]) / float(values["total_gib"]) * 100) - 1
    return {"utilization": f"{hundredths / 100:.2f}"} if hundredths >= 5 else {}


def _half_the_requests(values: dict[str, str]) -> dict[str, str]:
    return {"fewer_requests": str(max(1, int(values["requests"]) // 2))}


def _less_memory(values: dict[str, str]) -> dict[str, str]:
    """Below what the log says was given, else below vLLM's defaults (0.92 and 256)."""
    share = float(values.get("given_gpu_memory_utilization", "0.92"))
    requests = int(values.get("given_max_num_seqs", "256"))
    lower = 0.85 if share > 0.85 else max(0.3, share - 0.05)
    return {"utilization": f"{lower:.2f}", "fewer_requests": str(max(1, min(64, requests // 2)))}


def _largest_divisor(values: dict[str, str]) -> dict[str, str]:
    if "heads" not in values:
        return {}
    heads, size = int(values["heads"]), int(values["size"])
    return {"divisor": str(max(d for d in range(1, max(size, 2)) if heads % d == 0))} if size < 1000 else {}


def _gpus_available(values: dict[str, str]) -> dict[str, str]:
    """Rounded down to a power of two, since heads are rarely divisible by anything else."""
    wanted = values.get("wanted") or values["wanted2"]
    available = int(values.get("available") or values["available2"])
    return {"wanted": wanted, "available": str(1 << (available.bit_length() - 1))} if available else {}


def _next_port(values: dict[str, str]) -> dict[str, str]:
    port = int(values["port"])
    return {"next_port": str(port + 1)} if port < 65535 else {}


def _unknown_flags(values: dict[str, str]) -> dict[str, str]:
    flags = [word.split("=", 1)[0] for word in values["arguments"].split() if word.startswith("-")]
    return {"first_flag": flags[0]} if flags else {}


# The names under which PyPI has modules of other names.
_PACKAGES = {"cv2": "opencv-python-headless", "PIL": "pillow", "yaml": "pyyaml", "flash_attn": "flash-attn"}


def _package(values: dict[str, str]) -> dict[str, str]:
    name = next((values[key] for key in values if key.startswith("package")), "")
    if not name:
        return {}
    root = name.strip(" .`'\"").split(".")[0] if "=" not in name else name
    return {"package": _PACKAGES.get(root, root)}


def _architecture_known(values: dict[str, str]) -> dict[str, str]:
    """An architecture that stands in the printed list of supported ones failed to import: another cause."""
    wanted = re.findall(r"\w+", values.get("architectures", ""))
    known = set(re.findall(r"\w+", values.get("known", "")))
    if known.intersection(wanted):
        return {"code": "unsupported-arch-masked-import"}
    return {}


_DERIVE: Mapping[str, Callable[[dict[str, str]], dict[str, str]]] = {
    "context_by_ratio": _context_by_ratio,
    "cpu_cache_space": _cpu_cache_space,
    "utilization_that_fits": _utilization_that_fits,
    "half_the_requests": _half_the_requests,
    "less_memory": _less_memory,
    "largest_divisor": _largest_divisor,
    "gpus_available": _gpus_available,
    "next_port": _next_port,
    "unknown_flags": _unknown_flags,
    "package": _package,
    "architecture_known": _architecture_known,
}


def _fill(template: str, values: Mapping[str, str]) -> str | None:
    """The translated text with its values, or None where one is missing."""
    try:
        return t(template).format(**values)
    except (KeyError, IndexError, ValueError):
        return None


def _describe(kind: DeathKind, line: DeathLine, groups: Mapping[str, str], saw: str, severity: Severity) -> Problem:
    values = _values(line, groups)
    code = values.get("code", kind.code)
    if code != kind.code:
        kind, line = find_death(code) or kind, _without_texts(line)
    what = _fill(line.what, values) if line.what else None
    fix = _fill(line.fix, values) if line.fix else None
    commands = [_fill(command, values) for command in (line.commands or kind.commands)]
    return Problem(
        code=code,
        what=what or _fill(kind.what, values) or kind.what,
        why=t(kind.why),
        saw=(saw,),
        fix=Fix(fix or _fill(kind.fix, values) or kind.fix, tuple(c for c in commands if c)),
        severity=severity,
    )


def _without_texts(line: DeathLine) -> DeathLine:
    return replace(line, derive="", what="", fix="", commands=(), remedies=())


def _values(line: DeathLine, groups: Mapping[str, str]) -> dict[str, str]:
    values = {name: value for name, value in groups.items() if value is not None}
    if line.derive:
        values |= _DERIVE[line.derive](values)
    return values


def _remedies(line: DeathLine, groups: Mapping[str, str]) -> tuple[Remedy, ...]:
    values = _values(line, groups)
    found = []
    for row in line.remedies:
        texts = [*row.get("set", {}).values(), *row.get("drop", ()), *row.get("env", {}).values()]
        if any(_fill(text, values) is None for text in texts):
            continue
        changes = [FlagChange(flag, value.format(**values)) for flag, value in row.get("set", {}).items()]
        changes += [FlagChange(flag.format(**values), None) for flag in row.get("drop", ())]
        env = tuple((name, value.format(**values)) for name, value in row.get("env", {}).items())
        found.append(Remedy(tuple(changes), env, _fill(row["gives_up"], values) or "", row["safe"]))
    return tuple(found)


# ---------------------------------------------------------------- lines

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f]")

# What programs between vLLM and the reader put before a line. Tried again after each hit: they are stacked.
_PREFIX = re.compile(
    r"\s*(?:"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"  # docker
    r"(?: (?:stdout|stderr) [FP])?(?: -)?\s+"  # CRI
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [\w./@-]+(?:\[\d+\])?: "  # journald, syslog
    r"|\[pod/[^\]]+\]\s+"  # kubectl logs --prefix
    r"|[\w.-]*\s*\| "  # docker compose, Grafana
    r"|(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL) +(?=\d{4}-\d\d-\d\dT)|\[[\w.]+: [^\]]*\]\s+"  # Google Cloud
    r"|\[\d+,\d+\]<std(?:out|err)>:|\d{1,4}: (?=[(\[A-Z])"  # mpirun, srun
    r"|\([^()]{0,60}\bpid=\d+[^)]{0,60}\)\s*|\((?:EngineCore|APIServer|Worker|VllmWorker|RayWorker)\w*\)\s*"
    r"|\[(?:rank|Rank )\d+\]:\s?"
    r"|\[[\w]+\.py:\d+\]\s+"
    r")"
)
_LEVEL = re.compile(
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d\d-\d\d )?(?:\d\d:\d\d:\d\d )?\[?[\w./-]+:\d+\] ?"
    r"|(?P<plain>DEBUG|INFO|WARNING|ERROR|CRITICAL)(?::\s+|:[\w.]+:| - | \[[\w.]+:\d+\] )"
    r"|\[(?P<torch>[WEI])\d{0,4}[ :])"
)
# vLLM's own beginnings of a line, wherever they stand: before them is what a collector of logs put there.
_OWN_BEGINNING = re.compile(
    r"\((?:\w+ )*\w+ pid=\d+\)|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+:\d+\]"
)
_COLLECTED_CHARACTERS = 300
_LOGFMT = re.compile(r'(?:^|\s)msg="(?P<text>(?:[^"\\]|\\.)*)"')
_LOGFMT_LEVEL = re.compile(r"(?:^|\s)(?:level|lvl|severity)=\"?(?P<level>\w+)")
# What a collector puts before a line names no exception; what stands behind one is a part of its text.
_EXCEPTION = re.compile(r"\b\w*(?:Error|Exception)\b")
_QUIET = {"DEBUG", "INFO", "WARNING"}
_PYTHON_WARNING = re.compile(r"\b(?:User|Future|Deprecation|Runtime)Warning: ")


def split_prefix(line: str) -> tuple[str, str]:
    """A log line without colours, time stamps, process names and level; and the level, or "" where it has none.

    Lines wrapped in JSON (Docker's json-file, structured logs) or logfmt are unwrapped.
    """
    if "\x1b" in line or not line.isprintable():
        line = _ANSI.sub("", line)
    if line.startswith("{"):
        line = _unwrap_json(line)
    elif 'msg="' in line and (told := _LOGFMT.search(line)) and not _EXCEPTION.search(line, 0, told.start()):
        line = _with_level(told["text"].replace('\\"', '"'), (_LOGFMT_LEVEL.search(line) or {"level": ""})["level"])
    own = _OWN_BEGINNING.search(line, 0, _COLLECTED_CHARACTERS)
    level, end = "", own.start() if own and not _EXCEPTION.search(line, 0, own.start()) else 0
    for _ in range(8):
        match = _PREFIX.match(line, end)
        if match and match.end() > end:
            end = match.end()
            continue
        found = _LEVEL.match(line, end)
        if not found:
            break
        level = level or found["level"] or found["plain"] or {"W": "WARNING", "E": "ERROR", "I": "INFO"}[found["torch"]]
        end = found.end()
    message = line[end:]
    if not level and _PYTHON_WARNING.search(message):
        level = "WARNING"
    return message, level


def _unwrap_json(line: str) -> str:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(fields, dict):
        return line
    text = next((fields[key] for key in ("log", "message", "msg", "MESSAGE") if isinstance(fields.get(key), str)), None)
    if text is None:
        return line
    return _with_level(text.rstrip("\n"), str(fields.get("levelname") or fields.get("level") or ""))


def _with_level(text: str, level: str) -> str:
    level = level.upper()
    # A collector calls all that came from one pipe INFO: where the line has a level of its own, that one counts.
    own = _OWN_BEGINNING.search(text, 0, _COLLECTED_CHARACTERS)
    return f"{level}: {text}" if level in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"} and not own else text


# ---------------------------------------------------------------- reading

# A new start forgets what was before. vLLM before 0.14 prints the first, later ones their name in block letters.
_NEW_START = re.compile(r"API server version \S|█  version \d|non-default args: \{|^args: Namespace\(")
_GIVEN = re.compile(r"'?\b(gpu_memory_utilization|max_num_seqs)'?[:=] ?([\d.]+)")
_CAME_UP = re.compile(r"Application startup complete")
# From here to the next start, errors are the noise of a stop that was asked for.
_STOPPED = re.compile(
    r"\[shutdown\] .*(?:signal=SIG(?:TERM|INT)|shutdown triggered)|^Shutting down$|^KeyboardInterrupt$"
)
_OF_A_STOP = re.compile(r"^(?:[\w.]+\.)?(?:CancelledError|KeyboardInterrupt|SystemExit|ConnectionResetError)\b")
_EXCEPTION = re.compile(r"^(?:[\w.]+\.)?(?P<name>\w*(?:Error|Exception|Interrupt|Exit|Fault))\b(?:: ?(?P<text>.*))?$")
_WORD = re.compile(r"\w+")
_LIFE_WORDS = frozenset({"version", "default", "Namespace", "startup", "shutdown", "Shutting", "KeyboardInterrupt"})

# Large logs: the beginning and the end are read line by line, between them only lines that hold one of these.
_LIFE_TRIGGERS = ("startup complete", "API server version", "non-default args")
_TRIGGERS = (*_LIFE_TRIGGERS, "Error", 'HTTP/1.1" 404 Not Found')
# A log that is nothing but errors, all different, is given up on after this many of one start, until its end.
_LINES_LOOKED_AT = 50_000
_HEAD_CHARACTERS = 4 << 20
_BLOCK_CHARACTERS = 1 << 20
_REMEMBERED_LINES = 4096
_REMEMBERED_CHARACTERS = 512
_CONTEXT_LINES = 40

_Match = tuple[int, int, dict[str, str]]


@dataclass(slots=True)
class _Found:
    kind: DeathKind
    line: DeathLine
    groups: dict[str, str]
    text: str
    level: str
    position: int


def _trigger_lines(block: AnyStr, triggers: tuple[AnyStr, ...], newline: AnyStr) -> list[tuple[int, int]]:
    """Where the lines that hold a trigger begin and end."""
    found: dict[int, int] = {}
    for trigger in triggers:
        at = block.find(trigger)
        while at >= 0:
            end = block.find(newline, at)
            found[block.rfind(newline, 0, at) + 1] = end = len(block) if end < 0 else end
            at = block.find(trigger, end)
    return sorted(found.items())


class LogJudge:
    """Reads a log in pieces and says at the end why the server died. Memory does not grow with the log."""

    def __init__(self) -> None:
        self._kinds = all_deaths()
        self._rows = [(k, n) for k, kind in enumerate(self._kinds) for n in range(len(kind.lines))]
        self._by_word: dict[str, list[int]] = {}
        for index, (k, n) in enumerate(self._rows):
            for word in self._kinds[k].lines[n].words:
                self._by_word.setdefault(word, []).append(index)
        self._words = frozenset(self._by_word) | _LIFE_WORDS
        self._known: dict[str, tuple[str, str, tuple[_Match, ...]]] = {}
        self._recent: deque[str] = deque(maxlen=_CONTEXT_LINES)
        self._found: dict[tuple[int, int], _Found] = {}
        self._refuted: set[tuple[int, int]] = set()
        self._exceptions: list[tuple[str, int]] = []
        self._given: dict[str, str] = {}
        self._explaining = 0
        self._looked_at = 0
        self._up = self._stopped = self._leaving = self._begun = False
        self._position = 0
        self._held: str | bytes | None = None

    def read_lines(self, lines: Iterable[str]) -> None:
        """Read lines, with or without their ends."""
        iterator = iter(lines)
        block: list[str] = []
        size = 0
        while batch := list(islice(iterator, 64)):
            text = "".join(batch) if batch[0].endswith("\n") else "\n".join(batch) + "\n"
            block.append(text if text.endswith("\n") else text + "\n")
            size += len(text)
            if size >= _BLOCK_CHARACTERS:
                self._read_block("".join(block))
                block, size = [], 0
        if block:
            self._read_block("".join(block))

    def read_bytes(self, pieces: Iterable[bytes]) -> None:
        """Read pieces of any size, in UTF-8; what is not UTF-8 is replaced. Lines without end are cut."""
        rest = b""
        for piece in pieces:
            cut = piece.rfind(b"\n") + 1
            if cut:
                self._read_block(rest + piece[:cut])
                rest = piece[cut : cut + MAX_LINE_CHARACTERS]
            elif len(rest) < MAX_LINE_CHARACTERS:
                rest += piece[:MAX_LINE_CHARACTERS]
        if rest:
            self._read_block(rest + b"\n")

    def _read_block(self, block: str | bytes) -> None:
        """Take whole lines. The last block is held back, since the end of a log is read in full."""
        if self._position < _HEAD_CHARACTERS:
            self._read_all(block)
            return
        if self._held is not None:
            self._skim(self._held)
        self._held = block

    def _read_all(self, block: str | bytes) -> None:
        position = self._position
        self._position += len(block)
        text = block.decode("utf-8", "replace") if isinstance(block, bytes) else block
        for line in text.replace("\r", "\n").split("\n"):
            if line:
                self._read_line(line, position)
            position += len(line) + 1

    def _skim(self, block: str | bytes) -> None:
        """Only lines that hold a trigger; each trigger is one search through the block, which costs far less."""
        triggers = _TRIGGERS if self._looked_at < _LINES_LOOKED_AT else _LIFE_TRIGGERS
        if isinstance(block, bytes):
            places = _trigger_lines(block, tuple(trigger.encode() for trigger in triggers), b"\n")
            lines = [(start, block[start:end].decode("utf-8", "replace")) for start, end in places]
        else:
            lines = [(start, block[start:end]) for start, end in _trigger_lines(block, triggers, "\n")]
        for start, line in lines:
            self._read_line(line, self._position + start)
        self._position += len(block)

    def _read_line(self, line: str, position: int) -> None:
        if len(line) > MAX_LINE_CHARACTERS:
            line = line[:MAX_LINE_CHARACTERS]
        head, separator, tail = line.partition("] ")
        # The same message comes again with another time before it; its level must stay part of the key.
        key = ("w" if "WARN" in head or "INFO" in head else "e") + tail if separator else line
        known = self._known.get(key)
        if known is None:
            known = self._look_at(line)
            self._looked_at += 1
            if len(key) <= _REMEMBERED_CHARACTERS:
                if len(self._known) >= _REMEMBERED_LINES:
                    self._known.clear()
                self._known[key] = known
        message, level, matches = known
        if matches:
            self._take(message, level, matches, position)
        elif self._explaining and line.strip():
            self._explaining -= 1
            self._exceptions[-1] = (
                f"{self._exceptions[-1][0]} {split_prefix(line)[0].strip()[:200]}",
                self._exceptions[-1][1],
            )
        self._recent.append(line if len(line) < 300 else line[:300])

    def _line(self, kind: int, number: int) -> DeathLine:
        return self._kinds[kind].lines[number]

    def _look_at(self, line: str) -> tuple[str, str, tuple[_Match, ...]]:
        message, level = split_prefix(line)
        words = self._words.intersection(_WORD.findall(line))
        matches: list[_Match] = []
        if words & _LIFE_WORDS:
            for event, pattern in ((-1, _NEW_START), (-2, _CAME_UP), (-3, _STOPPED)):
                if pattern.search(message):
                    return message[:4000], level, ((event, 0, {}),)
        rows = sorted({index for word in words for index in self._by_word.get(word, ())})
        for index in rows:
            k, n = self._rows[index]
            kind, row = self._kinds[k], self._line(k, n)
            if level in _QUIET and not row.any_level:
                continue
            if row.unless and row.unless.search(message):
                matches.append((-5, index, {}))
                continue
            match = row.pattern.search(line if row.raw else message)
            if match:
                matches.append((k, n, {name: value for name, value in match.groupdict().items() if value is not None}))
                if kind.role != "hint" and not row.after:
                    break
        certain = any(k >= 0 and not self._line(k, n).after and self._kinds[k].role != "hint" for k, n, _ in matches)
        if not certain and level not in _QUIET and message[:1].strip() and _EXCEPTION.match(message):
            matches.append((-4, 0, {}))
        if not matches:
            return "", level, ()
        return message[: _SAW_CHARACTERS * 2], level, tuple(matches)

    def _take(self, message: str, level: str, matches: tuple[_Match, ...], position: int) -> None:
        for k, n, groups in matches:
            if k == -1:
                self._start_anew()
                self._given |= {f"given_{name}": value for name, value in _GIVEN.findall(message)}
            elif k == -2:
                self._forget()
                self._up = True
            elif k == -3:
                # Before the server was up, a stop may as well follow from the error that is shown afterwards.
                self._stopped = self._up
                self._leaving = True
            elif k == -5:
                self._refuted.add(self._rows[n])
            elif self._stopped or (self._leaving and k >= 0 and self._kinds[k].role in ("wrapper", "consequence")):
                continue
            elif k == -4:
                if len(self._exceptions) < 8 and not (self._leaving and _OF_A_STOP.match(message)):
                    self._exceptions.append((self._with_code(message), position))
                    # Pydantic says what is wrong in the lines below.
                    self._explaining = 2 if "validation error" in message else 0
            else:
                kind, line = self._kinds[k], self._line(k, n)
                if line.after and not any(line.after.search(text) for text in self._recent):
                    continue
                if line.alone and (self._exceptions or self._found):
                    continue
                if (k, n) not in self._found:
                    message = self._with_field(message)
                    self._found[k, n] = _Found(kind, line, groups | self._given, message, level, position)
                if line.after:
                    break

    def _with_field(self, message: str) -> str:
        """Pydantic names the field in a line of its own, before the indented one that says what is wrong with it."""
        before = self._recent[-1].strip() if self._recent and message.startswith("  ") else ""
        return f"{before}: {message.strip()}" if re.fullmatch(r"[\w.]+", before) else message

    def _with_code(self, message: str) -> str:
        """An exception that says nothing (a bare AssertionError): the line of code above it says more."""
        if ":" in message or not message.strip():
            return message
        for line in reversed(self._recent):
            code = split_prefix(line)[0].strip()
            if code.strip("^~ "):
                return message if code.startswith(("File ", "Traceback")) else f"{message.strip()}: {code[:160]}"
        return message

    def _start_anew(self) -> None:
        """A start's own first lines come before its banner, so hints after the last cause are kept."""
        last = max(
            (f.position for f in self._found.values() if f.kind.role != "hint" and f.level not in _QUIET), default=-1
        )
        kept = {key: f for key, f in self._found.items() if f.level in _QUIET and f.position > last}
        self._forget()
        if not self._up:
            self._found = kept
        self._up = self._stopped = self._leaving = False
        self._begun = True
        self._given = {}

    def _forget(self) -> None:
        self._found.clear()
        self._exceptions.clear()
        self._explaining = self._looked_at = 0

    @property
    def starting(self) -> bool:
        """Whether a start was seen that neither came up nor was stopped."""
        return self._begun and not (self._up or self._leaving)

    def deaths(self) -> tuple[Death, ...]:
        """What killed the server, root cause first; then other causes seen, and errors of single requests."""
        if self._held is not None:
            self._read_all(self._held)
            self._held = None
        found = [item for row, item in self._found.items() if row not in self._refuted]
        return _conclude(found, self._exceptions, up=self._up, begun=self._begun)

    def problems(self) -> tuple[Problem, ...]:
        """The problems of `deaths`; of a log that ends while the server starts, that it does."""
        deaths = self.deaths()
        if not deaths and self.starting:
            kind = find_death("server-not-ready")
            assert kind is not None
            return (Problem(kind.code, t(kind.what), t(kind.why), (), Fix(t(kind.fix), kind.commands), "info"),)
        return tuple(death.problem for death in deaths)


# ---------------------------------------------------------------- judging

_ORDER: Mapping[str, int] = {"cause": 0, "generic": 1, "consequence": 2, "wrapper": 3, "hint": 4, "request": 5}
_MAX_OTHERS = 4


def _effective_role(found: _Found) -> Role:
    """A warning alone kills nobody: it only explains what comes after it."""
    if found.kind.role in ("cause", "generic") and found.level in _QUIET:
        return "hint"
    return found.kind.role


def _conclude(found: list[_Found], exceptions: list[tuple[str, int]], *, up: bool, begun: bool) -> tuple[Death, ...]:
    roles = {id(item): _effective_role(item) for item in found}
    if up and not any(role in ("wrapper", "consequence") for role in roles.values()):
        # The engine lives: an error that belongs to a start, or to one request, killed nobody.
        roles |= {
            id(item): "hint" for item in found if roles[id(item)] in ("cause", "generic") and not item.kind.runtime
        }
    ordered = sorted(found, key=lambda item: (_ORDER[roles[id(item)]], item.position))
    ordered = _explained_first(ordered)
    codes = {item.kind.code for item in found}
    deaths: list[Death] = []
    seen: set[str] = set()
    dead = [item for item in ordered if roles[id(item)] not in ("hint", "request")]
    for item in ordered:
        role = roles[id(item)]
        first = not deaths
        if role in ("wrapper", "consequence") and not first:
            continue
        if role == "wrapper" and item.kind.code == "startup-failed":
            deaths.append(_unknown_death(item, exceptions, up))
            continue
        severity: Severity = "error" if first and dead and role != "request" else "warning"
        problem = _describe(item.kind, item.line, item.groups, _saw(item.text), severity)
        if item.kind.masked_by & codes and item.kind.masked_code:
            masked = find_death(item.kind.masked_code)
            if masked:
                problem = Problem(
                    masked.code,
                    t(masked.what),
                    t(masked.why),
                    problem.saw,
                    Fix(t(masked.fix), masked.commands),
                    severity,
                )
        if problem.code not in seen and len(deaths) <= _MAX_OTHERS:
            seen.add(problem.code)
            deaths.append(Death(problem, _remedies(item.line, item.groups), role, item.position))
    # A part of a log that begins after the start, with an error of one request: who answers requests is up.
    serves = up or (not begun and "request" in roles.values())
    if not dead and exceptions and not serves:
        deaths.insert(0, _unknown_death(None, exceptions, up))
    return tuple(deaths)


def _explained_first(ordered: list[_Found]) -> list[_Found]:
    """Move what explains another before it; each pair once, so that circles end."""
    result = list(ordered)
    for item in ordered:
        for other in ordered:
            explains = other.kind.code in item.kind.explained_by or item.kind.code in other.kind.over
            if explains and result.index(other) > result.index(item):
                result.remove(other)
                result.insert(result.index(item), other)
    masks = [item for item in result if item.kind.masked_by & {other.kind.code for other in result}]
    return masks + [item for item in result if item not in masks]


def _unknown_death(wrapper: _Found | None, exceptions: list[tuple[str, int]], up: bool) -> Death:
    kind = find_death("startup-failed")
    assert kind is not None
    wrapping = kind.lines[0].pattern
    own = [(text, at) for text, at in exceptions if not wrapping.search(text)]
    if own:
        text, position = own[0]
        what = t("The server died of an error that is not in our table: `{error}`", error=_saw(text)[:200])
        saw: tuple[str, ...] = tuple(_saw(line) for line, _ in own[:2])
    else:
        assert wrapper is not None or exceptions
        text, position = (wrapper.text, wrapper.position) if wrapper else exceptions[0]
        saw = (_saw(text),)
        what = (
            t("The server's engine stopped while it was running, and its log does not say why.") if up else t(kind.what)
        )
    return Death(Problem(kind.code, what, t(kind.why), saw, Fix(t(kind.fix), kind.commands)), (), "wrapper", position)


def _saw(text: str) -> str:
    text = redact(text.strip())
    return text if len(text) <= _SAW_CHARACTERS else text[:_SAW_CHARACTERS] + "…"


def find_deaths(lines: Iterable[str]) -> tuple[Death, ...]:
    """Why the server whose log this is died, with remedies; empty for a healthy, running or cleanly stopped one."""
    judge = LogJudge()
    judge.read_lines(lines)
    return judge.deaths()


def find_deaths_in_bytes(pieces: Iterable[bytes]) -> tuple[Death, ...]:
    """The same from pieces of a file, of any size; the faster way for large logs, and safe for lines without end."""
    judge = LogJudge()
    judge.read_bytes(pieces)
    return judge.deaths()


def judge_log(lines: Iterable[str]) -> tuple[Problem, ...]:
    """The problems in a server's log, the root cause first with severity error; others are warnings.

    A log that ends while the server starts says so, as an information.
    """
    judge = LogJudge()
    judge.read_lines(lines)
    return judge.problems()


def judge_log_in_bytes(pieces: Iterable[bytes]) -> tuple[Problem, ...]:
    """The same from pieces of a file, of any size: safe for lines without end."""
    judge = LogJudge()
    judge.read_bytes(pieces)
    return judge.problems()
