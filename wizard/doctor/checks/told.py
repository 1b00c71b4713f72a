"""What others said: a server's log, a client's error text."""

from __future__ import annotations

from dataclasses import replace

from wizard.doctor.causes import found
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.observations import Observations
from wizard.i18n import t


def server_log(seen: Observations) -> Verdict:
    """What the log that was given says, and the logs of own servers that died."""
    own = tuple(problem for server in seen.servers if not server.alive for problem in server.log_findings)
    if seen.log_findings is None and not seen.servers:
        return Unseen(t("no log was given (--log)"))
    return (*(seen.log_findings or ()), *own)


def client_error(seen: Observations) -> Verdict:
    """What the text that a client showed means. Where the endpoint was asked too, its answers weigh more."""
    if not seen.error_text:
        return Unseen(t("no error text was given (--error)"))
    from wizard.doctor.error_texts import explain_error

    context = seen.context
    if seen.variable("WSL_DISTRO_NAME") and context.assumed is None:
        # Only WSL's own shells have it; containers beside them do not.
        context = replace(context, wsl=True, container=None)
    problems = explain_error(seen.error_text, context)
    if not problems:
        return found(
            "client-error",
            t("The error text is not known: {text}", text=" ".join(seen.error_text.split())[:160]),
            severity="info",
        )
    return tuple(replace(p, severity="warning") if seen.probed and p.severity == "error" else p for p in problems)


CHECKS = (
    Check("server-log", "The server's log", server_log),
    Check("client-error", "The error that the client showed", client_error),
)
