"""Runs the checks and ranks what they found: root causes first, consequences folded under them.

A check is a function of what was seen: `None` is fine, `Unseen(reason)` is skipped, a finding is a `Problem`. Checks
live in the modules of `wizard.doctor.checks`, each with a `CHECKS` tuple; a new module needs no list to be added to.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from wizard.doctor.observations import Observations
from wizard.problems import Problem

CheckStatus = Literal["ok", "warning", "error", "skipped", "unknown", "crashed"]
ReportStatus = Literal["ok", "warning", "error", "unknown"]
Scope = Literal["once", "target"]


@dataclass(frozen=True, slots=True)
class Unseen:
    """The check could not look. `unknown`: a probe that it needs got no answer; else the check does not apply."""

    reason: str
    unknown: bool = False


Verdict = Problem | tuple[Problem, ...] | Unseen | None


@dataclass(frozen=True, slots=True)
class Check:
    """A check: id (kebab-case, stable), title, and the function. scope `target`: runs for each endpoint.

    vital: without it nothing can be called well, so that one that could not look is unknown, for whatever reason.
    """

    id: str
    title: str
    judge: Callable[[Observations], Verdict]
    scope: Scope = "once"
    vital: bool = False


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check said. detail: why it was skipped, or how it crashed. target: which endpoint, where there is one."""

    id: str
    title: str
    status: CheckStatus
    findings: tuple[Problem, ...] = ()
    detail: str = ""
    duration_ms: float = 0.0
    target: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All results, and the findings ranked. folded: consequences, by the code of the cause that explains them."""

    status: ReportStatus
    results: tuple[CheckResult, ...]
    findings: tuple[Problem, ...]
    folded: tuple[tuple[str, Problem], ...] = ()

    @property
    def first_error(self) -> Problem | None:
        """The root cause, where something stands in the way."""
        return next((found for found in self.findings if found.severity == "error"), None)


def all_checks() -> tuple[Check, ...]:
    """Every check of every module in `wizard.doctor.checks`, by the module's name."""
    import wizard.doctor.checks as package

    found: list[Check] = []
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        found.extend(importlib.import_module(f"{package.__name__}.{module.name}").CHECKS)
    return tuple(found)


def run_check(check: Check, seen: Observations, now_s: Callable[[], float] = lambda: 0.0) -> CheckResult:
    """One check; whatever it raises is a result, so that the others go on. `now_s` is a monotonic clock."""
    begun = now_s()
    where = f"{seen.target.client or '-'} {seen.target.base_url}" if check.scope == "target" and seen.target else ""
    try:
        verdict = check.judge(seen)
    except Exception as error:
        return CheckResult(
            check.id,
            check.title,
            "crashed",
            detail=f"{type(error).__name__}: {error}",
            duration_ms=(now_s() - begun) * 1000,
            target=where,
        )
    took = (now_s() - begun) * 1000
    if verdict is None or verdict == ():
        return CheckResult(check.id, check.title, "ok", duration_ms=took, target=where)
    if isinstance(verdict, Unseen):
        # What was not to be asked is not missing.
        status: CheckStatus = "unknown" if verdict.unknown or (check.vital and not seen.offline) else "skipped"
        return CheckResult(check.id, check.title, status, detail=verdict.reason, duration_ms=took, target=where)
    findings = (verdict,) if isinstance(verdict, Problem) else verdict
    severities = {finding.severity for finding in findings}
    status = "error" if "error" in severities else "warning" if "warning" in severities else "ok"
    return CheckResult(check.id, check.title, status, findings, duration_ms=took, target=where)


def examine(
    shared: Observations,
    endpoints: Sequence[Observations] = (),
    checks: Iterable[Check] | None = None,
    now_s: Callable[[], float] = lambda: 0.0,
) -> Diagnosis:
    """Run all checks: those of scope `once` on `shared`, those of scope `target` on each of `endpoints`."""
    results: list[CheckResult] = []
    for check in all_checks() if checks is None else checks:
        if check.scope == "once":
            results.append(run_check(check, shared, now_s))
        else:
            results.extend(run_check(check, seen, now_s) for seen in endpoints)
    return conclude(results)


def conclude(results: Iterable[CheckResult]) -> Diagnosis:
    """Rank the findings of all results and give the whole its status."""
    results = tuple(results)
    ranked, folded = rank(finding for result in results for finding in result.findings)
    statuses = {result.status for result in results}
    status: ReportStatus
    if any(finding.severity == "error" for finding in ranked):
        status = "error"
    elif "crashed" in statuses or "unknown" in statuses:
        status = "unknown"
    elif any(finding.severity == "warning" for finding in ranked):
        status = "warning"
    else:
        status = "ok"
    return Diagnosis(status, results, ranked, folded)


_SEVERITY_ORDER = {"error": 0, "warning": 1, "info": 2}


def rank(findings: Iterable[Problem]) -> tuple[tuple[Problem, ...], tuple[tuple[str, Problem], ...]]:
    """Findings in order (errors first, then the cause's rank), and the consequences with the code that explains each.

    The same code twice is one finding with both evidences. A finding is folded when an error among the others has a
    cause that explains its code (`Cause.explains`).
    """
    from wizard.doctor.causes import find_cause

    merged: dict[str, Problem] = {}
    for finding in findings:
        before = merged.get(finding.code)
        if before is None:
            merged[finding.code] = finding
            continue
        first, second = sorted((before, finding), key=lambda f: _SEVERITY_ORDER[f.severity])
        more = tuple(item for item in (second.what, *second.saw) if item not in first.saw and item != first.what)
        merged[finding.code] = replace(first, saw=(*first.saw, *more))
    ordered = sorted(merged.values(), key=lambda f: (f.severity != "error", find_cause(f.code).rank))
    kept: list[Problem] = []
    folded: list[tuple[str, Problem]] = []
    for finding in ordered:
        cause = next((k.code for k in kept if k.severity == "error" and _explains(k.code, finding.code)), None)
        if cause is None:
            kept.append(finding)
        else:
            folded.append((cause, finding))
    return tuple(kept), tuple(folded)


def _explains(cause: str, consequence: str) -> bool:
    from wizard.doctor.causes import find_cause

    return consequence in find_cause(cause).explains
