"""Where the client runs, and certificates: what the environment tells without asking anybody."""

from __future__ import annotations

import re

from wizard.doctor.causes import found
from wizard.doctor.checks.way import is_loopback
from wizard.doctor.client_files import host_of, read_parsed, shown
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.observations import Observations
from wizard.i18n import t

URL_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_BASE_URL", "ANTHROPIC_BASE_URL")
_CA_VARIABLES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_REFUSED = re.compile(r"refused|unable to connect|cannot connect|connection error|fetch failed|failed to connect", re.I)


def loopback_in_container(seen: Observations) -> Verdict:
    """Whether a client in a container is pointed at the container itself; where endpoints were asked, answers tell."""
    if seen.probed:
        return Unseen(t("the endpoints were asked"))
    if not seen.context.in_container:
        return None
    urls = [(target.base_url, target.source) for target in seen.targets]
    urls += [(seen.variable(name) or "", f"${name}") for name in URL_VARIABLES]
    local = [(url, where) for url, where in urls if is_loopback(host_of(url))]
    told = seen.context.assumed == "container"
    failed = bool(seen.error_text and _REFUSED.search(seen.error_text))
    if not local or not (told or failed):
        return None
    # A container that was only noticed, not named, may hold the server as well.
    url, where = local[0]
    return found(
        "wrong-host-in-container",
        t("In the container `{url}` is the container itself.", url=shown(url)),
        f"{where}: {shown(url)}",
        severity="error" if told else "warning",
    )


def verification_off(seen: Observations) -> Verdict:
    """Whether somebody turned the check of certificates off."""
    if (seen.variable("NODE_TLS_REJECT_UNAUTHORIZED") or "") != "0":
        return None
    return found(
        "tls-verification-off",
        t("NODE_TLS_REJECT_UNAUTHORIZED=0 turns the check of certificates off for every Node program."),
        "NODE_TLS_REJECT_UNAUTHORIZED=0",
        severity="warning",
        commands=("unset NODE_TLS_REJECT_UNAUTHORIZED",),
    )


def authority_in_settings_only(seen: Observations) -> Verdict:
    """Node reads NODE_EXTRA_CA_CERTS when it starts; from Claude Code's settings it comes too late."""
    settings = read_parsed(seen, "claude-code", ".claude/settings.json", "json")
    value = settings.table("env").get("NODE_EXTRA_CA_CERTS")
    if not value or any(seen.variable(name) for name in _CA_VARIABLES):
        return None
    return found(
        "tls-untrusted-ca",
        t("NODE_EXTRA_CA_CERTS stands in Claude Code's settings only, where Node does not read it in time."),
        f"{settings.path}: env.NODE_EXTRA_CA_CERTS",
        severity="warning",
        commands=(f"export NODE_EXTRA_CA_CERTS={value}",),
    )


CHECKS = (
    Check("container-loopback", "Loopback addresses mean the right machine", loopback_in_container),
    Check("tls-verification", "Certificates are checked", verification_off),
    Check("tls-authority", "The authority's certificate is read in time", authority_in_settings_only),
)
