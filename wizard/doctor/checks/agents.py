"""What only Codex (responses) and Claude Code (messages) send."""

from __future__ import annotations

import re

from wizard.doctor.bodies import excerpt, find_error
from wizard.doctor.causes import found
from wizard.doctor.engine import Check, Verdict
from wizard.doctor.judging import evidence, plain_works, refused, target_of, unseen, variation
from wizard.doctor.observations import Observations
from wizard.doctor.reach import Seen, judge_reach
from wizard.doctor.symptoms import REQUEST_CODES
from wizard.i18n import t
from wizard.problems import Problem, Severity


def responses_taken(seen: Observations) -> Verdict:
    """Developer role, namespaces, built-in and custom tools, hidden truncation."""
    skipped = unseen(seen)
    if skipped is not None:
        return skipped
    if target_of(seen).wire != "responses" or not plain_works(judge_reach(seen)):
        return None
    severity: Severity = "error" if target_of(seen).client == "codex" else "warning"
    problems: list[Problem] = []
    developer = refused(seen, "responses.developer")
    if developer is not None:
        code = "server-bug-500" if developer.family == "server-error" else "developer-role-rejected"
        if developer.family in ("no-system-role", "role-order"):
            code = REQUEST_CODES[developer.family]
        problems.append(
            found(
                code,
                t("With the role `developer` the request is refused: {text}", text=excerpt(developer.text, 120)),
                evidence(developer),
                severity=severity,
            )
        )
    order = refused(seen, "responses.two-users")
    if order is not None and order.family == "role-order":
        what = t("Two user messages in a row are refused: {text}", text=excerpt(order.text, 120))
        problems.append(found("template-role-order", what, evidence(order), severity=severity))
    if refused(seen, "responses.function") is None:
        problems += _tool_types(seen, severity)
    problems += _namespace_names(seen, severity)
    problems += _truncation(seen)
    return tuple(problems)


def _tool_types(seen: Observations, severity: Severity) -> list[Problem]:
    kinds = {"responses.namespace": "namespace", "responses.web-search": "web_search", "responses.custom": "custom"}
    failed = [(kind, no) for probe, kind in kinds.items() if (no := refused(seen, probe)) is not None]
    if not failed:
        return []
    names = ", ".join(kind for kind, _ in failed)
    # Codex sends namespace and web_search by default, custom tools only for some models.
    grave = severity if any(kind != "custom" for kind, _ in failed) else "warning"
    return [
        found(
            "responses-tool-type-unsupported",
            t(
                "Functions are taken, tools of type {names} are refused: {text}",
                names=names,
                text=excerpt(failed[0][1].text, 120),
            ),
            *(evidence(no) for _, no in failed),
            severity=grave,
        )
    ]


def _namespace_names(seen: Observations, severity: Severity) -> list[Problem]:
    judged = variation(seen, "responses.namespace")
    spoken = judged.body.spoken if judged and judged.body and judged.grade == "works" else None
    if judged is None or spoken is None:
        return []
    flat = [name for name, _ in spoken.tool_calls if _joined(name)]
    if not flat:
        return []
    return [
        found(
            "responses-tool-name-flattened",
            t("The tool came back as `{name}`, with its namespace in the name.", name=flat[0]),
            evidence(judged),
            severity=severity,
        )
    ]


def _joined(name: str) -> bool:
    """Whether the name is none of the tools that were sent, but one with something in front: `space__get_weather`."""
    return name != "get_weather" and bool(re.search(r"__|[./:-]", name))


def _truncation(seen: Observations) -> list[Problem]:
    judged = variation(seen, "responses.truncated")
    spoken = judged.body.spoken if judged and judged.body and judged.grade == "works" else None
    if (
        judged is None
        or spoken is None
        or spoken.content
        or spoken.reasoning
        or spoken.tool_calls
        or spoken.finish != "stop"
    ):
        return []
    return [
        found(
            "responses-truncation-hidden",
            t("An answer cut to nothing by `max_output_tokens` is called `completed`."),
            evidence(judged),
            severity="warning",
        )
    ]


# Each with its field, and the probe that has what stands around the field.
_BETA_PROBES = {
    "messages.context-management": ("context_management", ""),
    "messages.input-examples": ("input_examples", "messages.tools"),
    "messages.defer-loading": ("defer_loading", "messages.tools"),
    "messages.cache-scope": ("cache_control.scope", "messages.system"),
    "messages.thinking": ("thinking, output_config", ""),
}


def messages_api_taken(seen: Observations) -> Verdict:
    """Beta fields, a system message inside, content parts, counting tokens."""
    skipped = unseen(seen)
    if skipped is not None:
        return skipped
    reach, target = judge_reach(seen), target_of(seen)
    if target.wire != "messages" or not plain_works(reach):
        return None
    severity: Severity = "error" if target.client == "claude-code" else "warning"
    problems: list[Problem] = []
    failed = [
        (field, no)
        for probe, (field, beside) in _BETA_PROBES.items()
        # Where the tools or the system prompt around it are refused alone, the field is not what is wrong.
        if (not beside or refused(seen, beside) is None) and (no := refused(seen, probe)) is not None
    ]
    telling = [row for row in failed if row[1].family != "server-error"]
    if telling:
        names = ", ".join(field for field, _ in telling)
        grave = severity if any(f not in ("input_examples", "cache_control.scope") for f, _ in telling) else "warning"
        problems.append(
            found(
                "beta-fields-rejected",
                t("The server refuses {fields}: {text}", fields=names, text=excerpt(telling[0][1].text, 120)),
                *(evidence(no) for _, no in telling[:2]),
                severity=grave,
                commands=("export CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS=1",) if target.client == "claude-code" else (),
            )
        )
    elif failed:
        problems.append(_internal(failed[0][1], failed[0][0], severity))
    inside = refused(seen, "messages.system-inside")
    if inside is not None:
        code = (
            "server-bug-500"
            if inside.family == "server-error"
            else "template-role-order"
            if inside.family == "role-order"
            else "schema-422"
        )
        problems.append(
            found(
                code,
                t("A system message among the others is refused: {text}", text=excerpt(inside.text, 120)),
                evidence(inside),
                severity=severity,
            )
        )
    system = refused(seen, "messages.system")
    if system is not None:
        code = REQUEST_CODES.get(system.family or "other", "template-no-system-role")
        problems.append(
            found(
                code,
                t("With a system prompt the request is refused: {text}", text=excerpt(system.text, 120)),
                evidence(system),
                severity=severity,
            )
        )
    order = refused(seen, "messages.two-users")
    if order is not None and inside is None and system is None:
        what = t("Two user messages in a row are refused: {text}", text=excerpt(order.text, 120))
        code = "server-bug-500" if order.family == "server-error" else REQUEST_CODES.get(order.family or "other", "")
        problems.append(found(code or "template-role-order", what, evidence(order), severity=severity))
    parts = refused(seen, "messages.parts")
    if parts is not None:
        code = "content-parts-unsupported"
        if parts.family == "not-multimodal":
            code = "not-multimodal"
        elif parts.family == "server-error":
            code = "server-bug-500"
        problems.append(
            found(
                code,
                t("Content as a list of parts is refused: {text}", text=excerpt(parts.text, 120)),
                evidence(parts),
                severity=severity,
            )
        )
    problems += _counting(seen)
    return tuple(problems)


def _internal(no: Seen, field: str, severity: Severity) -> Problem:
    return found(
        "server-bug-500",
        t("With {field} the server fails inside: {text}", field=field, text=excerpt(no.text, 120)),
        evidence(no),
        severity=severity,
    )


def _counting(seen: Observations) -> list[Problem]:
    exchange = seen.exchange("count-tokens")
    if exchange is None or exchange.reply is None:
        return []
    reply = exchange.reply
    value = reply.json()
    if reply.status == 200 and isinstance(value, dict) and type(value.get("input_tokens")) is int:
        return []
    if reply.status in (401, 403, 429) or reply.status >= 502:
        return []
    error = find_error(value)
    return [
        found(
            "endpoint-unsupported-count-tokens",
            t("The server does not count tokens: {text}", text=excerpt(error.message if error else reply.text, 120)),
            evidence(exchange),
            severity="info",
        )
    ]


CHECKS = (
    Check("responses-api", "What Codex sends beyond a plain request is taken", responses_taken, "target"),
    Check("messages-api", "What Claude Code sends beyond a plain request is taken", messages_api_taken, "target"),
)
