"""The report to attach to an issue: findings, evidence, and how to see it again with curl. Keys are left out."""

from __future__ import annotations

import html
import json
import shlex
from collections.abc import Iterable, Sequence

from wizard.doctor.bodies import excerpt
from wizard.doctor.engine import Diagnosis
from wizard.doctor.observations import Exchange, Observations, RequestSummary
from wizard.i18n import t
from wizard.problems import Problem
from wizard.secret import redact

_MAX_BODY_CHARACTERS = 600


def curl_command(request: RequestSummary) -> str:
    """The request as a command that can be pasted; the key comes from `$KEY`."""
    words = ["curl", "-sS", "-i"]
    if request.method != "GET":
        words += ["-X", request.method]
    words.append(request.url)
    header = {
        "bearer": "authorization: Bearer $KEY",
        "x-api-key": "x-api-key: $KEY",
        "api-key": "api-key: $KEY",
        "wrong": "authorization: Bearer wrong",
    }
    quoted = [shlex.quote(word) for word in words]
    if request.auth in ("both", "bearer", "wrong"):
        quoted.append(f'-H "{header["wrong" if request.auth == "wrong" else "bearer"]}"')
    if request.auth in ("both", "x-api-key"):
        quoted.append(f'-H "{header["x-api-key"]}"')
    if request.auth == "api-key":
        quoted.append(f'-H "{header["api-key"]}"')
    quoted += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in request.headers if "key" not in name]
    if request.body is not None:
        quoted.append("-H 'content-type: application/json'")
        quoted.append(f"-d {shlex.quote(json.dumps(request.body, ensure_ascii=False))}")
    if request.direct:
        quoted.append("--noproxy '*'")
    return " ".join(quoted)


def render_markdown(
    diagnosis: Diagnosis, shared: Observations, endpoints: Sequence[Observations], versions: Iterable[tuple[str, str]]
) -> str:
    """The whole report as Markdown, without keys."""
    lines = [f"# {t('llm-setup doctor: {status}', status=diagnosis.status)}", ""]
    lines += [f"- {name}: {value}" for name, value in versions]
    place = shared.context
    where = [place.platform, *([place.container] if place.container else []), *(["WSL"] if place.wsl else [])]
    lines.append(f"- {t('where')}: {', '.join(where)}{' (SSH)' if place.ssh else ''}")
    for seen in endpoints:
        if seen.target is not None:
            target = seen.target
            lines.append(
                f"- {target.client or '-'}: `{target.base_url}`, `{target.model}`, {target.key_hint} ({target.source})"
            )
    lines += ["", f"## {t('Findings')}", ""]
    for finding in diagnosis.findings:
        lines += _finding(finding)
    if not diagnosis.findings:
        lines += [t("None."), ""]
    lines += [f"## {t('Checks')}", "", "| check | status | detail |", "|---|---|---|"]
    lines += [f"| {r.id} | {r.status} | {_cell(r.detail)} |" for r in diagnosis.results]
    for seen in endpoints:
        if seen.exchanges:
            lines += ["", f"## {t('What was asked of {url}', url=seen.target.base_url if seen.target else '')}", ""]
            lines += [_exchange(exchange) for exchange in seen.exchanges]
    telling = _telling(diagnosis, endpoints)
    if telling:
        lines += ["", f"## {t('To see it again')}", "", "```sh", "read -rs KEY", *map(curl_command, telling), "```"]
    return redact("\n".join(lines) + "\n")


def render_html(markdown: str) -> str:
    """The same text for a browser, readable as it is."""
    return (
        '<!doctype html><html><head><meta charset="utf-8"><title>llm-setup doctor</title>'
        "<style>body{max-width:70rem;margin:2rem auto;font:15px/1.5 system-ui}pre{white-space:pre-wrap}</style></head>"
        f"<body><pre>{html.escape(markdown)}</pre></body></html>\n"
    )


def _finding(finding: Problem) -> list[str]:
    lines = [f"### {finding.severity}: {finding.what} (`{finding.code}`)", "", finding.why, ""]
    lines += [f"- {t('saw')}: {item}" for item in finding.saw]
    if finding.fix:
        lines += ["", f"{t('Fix')}: {finding.fix.text}"]
        if finding.fix.commands:
            lines += ["", "```sh", *finding.fix.commands, "```"]
    return [*lines, ""]


def _cell(text: str) -> str:
    return excerpt(text, 100).replace("|", "\\|")


def _exchange(exchange: Exchange) -> str:
    head = f"- `{exchange.probe}`: {exchange.request.line} ({exchange.request.auth})"
    if exchange.failure is not None:
        return f"{head} -> {exchange.failure.kind}: {excerpt(exchange.failure.text, 160)}"
    reply = exchange.reply
    assert reply is not None
    size = f"{reply.header('content-type')}, {reply.elapsed_s:.2f} s, {len(reply.body)} B"
    return f"{head} -> {reply.status} {size}: {excerpt(reply.text, _MAX_BODY_CHARACTERS)}"


def _telling(diagnosis: Diagnosis, endpoints: Sequence[Observations]) -> list[RequestSummary]:
    """The requests that the findings quote, else the client's own question."""
    quoted = "\n".join(item for finding in diagnosis.findings for item in finding.saw)
    found = [
        e.request for seen in endpoints for e in seen.exchanges if e.request.line in quoted and e.probe != "openapi"
    ]
    unique = {curl_command(request): request for request in found}
    return list(unique.values())[:6]
