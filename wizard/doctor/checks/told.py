"""What others said: a server's log, a client's error text."""

from __future__ import annotations

from dataclasses import replace

from wizard.doctor.causes import found
from wizard.doctor.checks.env_place import URL_VARIABLES
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.observations import Observations
from wizard.endpoint.urls import ends_in_version, pasted_endpoint
from wizard.i18n import t
from wizard.problems import Problem


def something_to_examine(seen: Observations) -> Verdict:
    """Whether there was anything at all to look at."""
    if seen.anything:
        return None
    return Unseen(t("none is here"), unknown=True)


def server_log(seen: Observations) -> Verdict:
    """What the log that was given says, and the logs of own servers that died."""
    own = tuple(problem for server in seen.servers if not server.alive for problem in server.log_findings)
    if seen.log_findings is None and not any(server.log for server in seen.servers):
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
    problems = explain_error(seen.error_text, context, _pointed_at(seen))
    if not problems:
        return found(
            "client-error",
            t("The error text is not known: {text}", text=" ".join(seen.error_text.split())[:160]),
            severity="info",
        )
    problems = _that_fit(problems, seen)
    return tuple(replace(p, severity="warning") if seen.probed and p.severity == "error" else p for p in problems)


def _pointed_at(seen: Observations) -> str:
    """The URL that the client was given: the endpoint's, else the one in its variables."""
    if seen.targets:
        return seen.targets[0].base_url.strip()
    return next((value for name in URL_VARIABLES if (value := seen.variable(name))), "")


def _that_fit(problems: tuple[Problem, ...], seen: Observations) -> tuple[Problem, ...]:
    """The candidates that the given base URL does not contradict; the likeliest of them is the error."""
    target = seen.targets[0] if seen.explicit and seen.targets else None
    if target is None or not target.base_url.strip():
        return problems
    url = target.base_url.strip()
    anthropic = target.wire == "messages"
    impossible = {
        "base-url-missing-v1": ends_in_version(url) or anthropic,
        "base-url-full-endpoint": pasted_endpoint(url) is None,
        "base-url-extra-v1": not ends_in_version(url) or (not anthropic and not url.rstrip("/").endswith("/v1/v1")),
        "base-url-trailing-slash": not url.endswith("/"),
    }
    left = [problem for problem in problems if not impossible.get(problem.code, False)]
    if url.endswith("/") and "//" in (seen.error_text or "").replace("://", ""):
        what = t("The base URL ends in `/`, and the path in the text has two slashes.")
        left = [found("base-url-trailing-slash", what), *left]
    # What both the text and the URL's form say weighs more than what the text alone says.
    left.sort(key=lambda problem: problem.code not in ("base-url-trailing-slash", "base-url-extra-v1"))
    if left and any(p.severity == "error" for p in problems):
        left = [replace(left[0], severity="error"), *(replace(p, severity="warning") for p in left[1:])]
    return tuple(left)


CHECKS = (
    Check(
        "something-to-examine", "An endpoint, a client's file, a log or an error text to look at", something_to_examine
    ),
    Check("server-log", "The server's log", server_log),
    Check("client-error", "The error that the client showed", client_error),
)
